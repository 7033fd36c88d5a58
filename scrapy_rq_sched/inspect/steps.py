"""To read a key of any size in steps that are short for Redis, though it changes meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Members, entries of a list, and bytes that a step reads, about, at the most; and so many in the first. Of a
#: list more: it is the way to them that takes long.
MOST, MOST_OF_LIST, MOST_BYTES, FIRST = 500, 1000, 500_000, 50


class _Pace:
    """How many members a step asks for: fewer where they are large.

    :param most: how many at the most.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = FIRST

    def note(self, size: int) -> None:
        """Note how many bytes have come."""
        fitting = MOST_BYTES * self.count // max(1, size)
        self.count = max(1, min(self._most, 4 * self.count, fitting))


def _size(entry: Any) -> int:
    return len(entry) if isinstance(entry, bytes) else sum(len(p) for p in entry if isinstance(p, bytes))


def scan(server: Any, command: str, key: str) -> Iterator[list[Any]]:
    """Yield what a scan finds: members; with their scores; or fields and values."""
    pace, cursor, first = _Pace(MOST), 0, True
    while cursor or first:
        first = False
        cursor, found = getattr(server, command)(key, cursor, count=pace.count)
        entries = list(found.items()) if isinstance(found, dict) else list(found)
        pace.note(sum(_size(entry) for entry in entries))
        yield entries


def read_list(server: Any, key: str, from_tail: bool) -> Iterator[list[bytes]]:
    """Yield the entries of a list, from one of its ends, though it is pushed to at that end meanwhile.

    Each step begins with the last entry of the one before, or with what has come in its place: then that
    entry has been pushed further back, and what is before it was read. Where it is not found some is read
    twice.
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
