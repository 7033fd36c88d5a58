"""Numbers, sizes, times and text, as the commands print them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from ..errors import escaped

_BLOCKS = "▁▂▃▄▅▆▇█"
#: Each unit of time with its seconds.
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def single_line(text: str) -> str:
    """Return *text* as one line: text from Redis must not add lines to the output."""
    return escaped(text)


def number(count: float) -> str:
    """Return *count* with thousands separators."""
    return f"{count:,.0f}"


def rate(per_second: float) -> str:
    """Return a rate: with one decimal below 100, without decimals from 100 on."""
    return number(per_second) if per_second >= 100 else f"{per_second:.1f}"


def size(count: float | None) -> str:
    """Return *count* bytes in a readable unit."""
    if count is None:
        return "unknown"
    units = ["TB", "GB", "MB", "kB", "B"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        units.pop()
    unit = units[-1]
    return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"


def duration(seconds: float) -> str:
    """Return a period in its two largest units."""
    seconds = max(0, round(seconds))
    parts: list[tuple[int, str]] = []
    for unit, length in _UNITS:
        count, seconds = divmod(seconds, length)
        if count or parts or unit == "s":
            parts.append((count, unit))
    shown = [f"{count} {unit}" for count, unit in parts[:2] if count]
    return " ".join(shown) or "0 s"


def time_until(seconds: float) -> str:
    """Return a time that is left: with tenths of a second below ten seconds."""
    return f"{seconds:.1f} s" if seconds < 9.95 else duration(seconds)


def when(second: float) -> str:
    """Return a time, given in seconds since 1970, in the time zone of this machine."""
    try:
        moment = datetime.fromtimestamp(second, timezone.utc).astimezone()
    except (ValueError, OverflowError, OSError):  # somebody else has written a value that is not a time
        return "-"
    return moment.strftime("%Y-%m-%d %H:%M:%S") if second else "-"


def sparkline(values: Sequence[float]) -> str:
    """Return *values* as a line of blocks; the highest value is a full block, 0 is a dot."""
    highest = max(values, default=0) or 1
    return "".join(_BLOCKS[min(7, int(8 * value / highest))] if value > 0 else "·" for value in values)
