"""Periods as an operator types them: ``30s``, ``10m``, ``2h``, ``1d``."""

from __future__ import annotations

import re

_PERIOD = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_in(text: str) -> float | None:
    """Return how many seconds the period *text* has; None if it is no period."""
    parts = _PERIOD.fullmatch(text)
    return float(parts[1]) * _SECONDS[parts[2]] if parts else None
