"""All scenarios, in the order in which they are played."""

from __future__ import annotations

from . import data, deaths, events, fleets, network, politeness, server, supervised
from .registry import REGISTERED, Scenario, run

__all__ = ["SCENARIOS", "Scenario", "run"]

THEMES = (deaths, network, server, data, fleets, supervised, events, politeness)
SCENARIOS = {
    found.name: found for theme in THEMES for found in REGISTERED if found.play.__module__ == theme.__name__
}
