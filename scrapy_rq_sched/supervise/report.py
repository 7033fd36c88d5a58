"""Read the reports of workers that have ended, and add up their statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

Stats = dict[str, Any]

#: Statistics that are not added up: the total is the least, or the greatest, value.
_LEAST = frozenset(("start_time",))
_GREATEST = frozenset(
    ("finish_time", "elapsed_time_seconds", "memusage/max", "memusage/startup", "request_depth_max")
)


class Report(NamedTuple):
    """The report of a worker, at its begin and at its end.

    :param has_begun: whether it has begun to open its spider.
    :param reason: Scrapy's reason for closing the spider; empty if the worker has not reported one.
    :param stats: its statistics.
    :param worker: its name in the frontier; empty if it has not joined, so that Redis may not know the name.
    :param was_open: whether its spider was open, and could crawl, before it was closed.
    """

    has_begun: bool
    reason: str
    stats: Stats
    worker: str = ""
    was_open: bool = False


def read(path: Path) -> Report:
    """Read the report of a worker from *path*."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        return Report(False, "", {})
    stats, texts = found.get("stats"), [str(found.get(name) or "") for name in ("reason", "worker")]
    stats = stats if isinstance(stats, dict) else {}
    return Report(True, texts[0], stats, texts[1], bool(found.get("was_open")))


def total(reports: list[Stats]) -> Stats:
    """Return the statistics of all workers together: add up numbers, and take times from first to last."""
    result: Stats = {}
    for name in sorted({name for report in reports for name in report}):
        values = [report[name] for report in reports if name in report]
        numbers = [
            value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)
        ]
        if name in _LEAST or name in _GREATEST:
            result[name] = (min if name in _LEAST else max)(values, key=_key)
        elif len(numbers) == len(values):
            result[name] = round(sum(numbers), 6)
        elif len(set(map(str, values))) == 1:
            result[name] = values[0]
        else:
            result[name] = ", ".join(sorted(set(map(str, values))))
    return result


def _key(value: Any) -> tuple[bool, Any]:
    is_number = isinstance(value, (int, float))
    return is_number, value if is_number else str(value)
