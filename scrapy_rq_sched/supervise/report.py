"""The statistics of workers that have ended, and their sum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Stats = dict[str, Any]

#: Statistics of which the sum says nothing; whether the least or the greatest of them does.
_LEAST = frozenset(("start_time",))
_GREATEST = frozenset(
    ("finish_time", "elapsed_time_seconds", "memusage/max", "memusage/startup", "request_depth_max")
)


def read(path: Path) -> Stats | None:
    """Return what a worker has reported: nothing if it has died, and None if it never came to its crawl."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def reason_of(stats: Stats | None) -> str:
    """Return why a worker has closed its spider, in Scrapy's words; empty if it has not said."""
    return str((stats or {}).get("finish_reason") or "")


def total(reports: list[Stats]) -> Stats:
    """Return the statistics of all workers together: numbers are added up, and time is from first to last."""
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
