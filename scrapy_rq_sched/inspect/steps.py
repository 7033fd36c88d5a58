"""Read a key of any size in steps that are short for Redis, while the key may change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: How many members, list entries and bytes a step reads at most, approximately; and the members of the first
#: step. The maximum for lists is higher, because most of the time is spent on reaching the entries.
MOST, MOST_OF_LIST, MOST_BYTES, FIRST = 500, 1000, 500_000, 50


class _Pace:
    """Choose how many members the next step reads: fewer if they are large.

    :param most: the maximum.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = FIRST

    def note(self, size: int) -> None:
        """Adapt the count to the *size* of the last step, in bytes."""
        fitting = MOST_BYTES * self.count // max(1, size)
        self.count = max(1, min(self._most, 4 * self.count, fitting))


def _size(entry: Any) -> int:
    return len(entry) if isinstance(entry, bytes) else sum(len(p) for p in entry if isinstance(p, bytes))


def scan(server: Any, command: str, key: str) -> Iterator[list[Any]]:
    """Scan a key and yield its members, members with scores, or fields with values, a step at a time."""
    pace, cursor, first = _Pace(MOST), 0, True
    while cursor or first:
        first = False
        cursor, found = getattr(server, command)(key, cursor, count=pace.count)
        entries = list(found.items()) if isinstance(found, dict) else list(found)
        pace.note(sum(_size(entry) for entry in entries))
        yield entries


def read_list(server: Any, key: str, from_tail: bool) -> Iterator[list[bytes]]:
    """Yield the entries of a list, beginning at one end, while new entries may be pushed at that end.

    Each step overlaps the previous one by an entry. New entries push that entry further back; the entries
    before it were read already. If it is not found, the step may yield some entries a second time.
    """
    pace, start, last = _Pace(MOST_OF_LIST), 0, None
    while True:
        count = pace.count + 1
        if from_tail:
            found = server.lrange(key, -start - count, -start - 1)[::-1]
        else:
            found = server.lrange(key, start, start + count - 1)
        pace.note(sum(map(len, found)))
        yield found[found.index(last) + 1 :] if last in found else found
        if len(found) < count:
            return
        last, start = found[-1], start + count - 1
