"""All scenarios, in the order in which they are played."""

from __future__ import annotations

from . import (
    data,
    deaths,
    events,
    fleets,
    items,
    items_at_once,
    network,
    politeness,
    pools,
    restarts,
    second_life,
    server,
    supervised,
    upgrade,
)
from .registry import REGISTERED, Scenario, run

__all__ = ["RESTARTS", "SCENARIOS", "Scenario", "run"]

#: What comes back: workers, limits, crawls, versions.
RETURNS = (second_life, restarts, upgrade)
ITEMS = (items, items_at_once)
THEMES = (deaths, network, server, data, *ITEMS, fleets, supervised, events, politeness, pools, *RETURNS)
SCENARIOS = {
    found.name: found for theme in THEMES for found in REGISTERED if found.play.__module__ == theme.__name__
}
RESTARTS = [
    found.name
    for found in SCENARIOS.values()
    if found.play.__module__ in {theme.__name__ for theme in RETURNS}
]
