"""Numbers and periods as an operator types them: ``20``, ``30s``, ``10m``, ``2h``, ``1d``."""

from __future__ import annotations

import argparse
import re

_PERIOD = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def whole(text: str) -> int:
    """Return the number *text*.

    :raises argparse.ArgumentTypeError: if it is not an integer of 1 or more.
    """
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"must be an integer ≥ 1, not {text!r}")
    return int(text)


def seconds_in(text: str) -> float | None:
    """Return the seconds of the period *text*; None if it is not a period."""
    parts = _PERIOD.fullmatch(text)
    return float(parts[1]) * _SECONDS[parts[2]] if parts else None
