"""Read the waiting requests: each slot has its own queue, and requests of unknown slots share one."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain, islice, zip_longest

from ..codec.values import text_of
from ..connection import server_of
from ..frontier.entries import SHOWN, WHOLE, Kind, Piece
from .entries import Entry, Reader
from .steps import scan
from .view import View

#: Number of members that Redis searches in a step.
SEARCH_STEP = 500
#: Bytes of requests that a slot's turn reads ahead.
AHEAD = 64 * 1024
#: Number of slots that are read in one round trip, and the maximum of requests that each of them may have.
TOGETHER, FEW = 50, 20


class Queues:
    """Reads the waiting requests of *view*'s frontier.

    As a slot, an empty text stands for the requests of unknown slots.

    :param longest: the number of bytes of a request that :meth:`waiting` reads.
    """

    def __init__(self, view: View, longest: int = WHOLE) -> None:
        self.view = view
        self._longest = longest
        self._reader = Reader(view)
        self._server = server_of(view.server, view.keys.requests)

    def slots(self) -> Iterator[str]:
        """Yield all slots that can have waiting requests, the empty one first."""
        yield ""
        for found in scan(self._server, "zscan", self.view.keys.slots):
            yield from (text_of(slot) for slot, _ in found)

    def length(self, slot: str) -> int:
        """Return the number of waiting requests of *slot*."""
        key = self.view.keys.queue(slot)
        return int(self._server.zcard(key) if self.view.is_sorted else self._server.llen(key))

    def next(self, count: int, whole: bool = False) -> Iterator[Entry]:
        """Yield the next *count* requests without taking them; slots take turns.

        :param whole: whether to read requests of any size; otherwise only the beginning of a long one.
        """
        by_priority = self.view.settings.order == "priority" and self.view.is_sorted
        # By priority all slots are read: their order in the set does not reflect requests that came later.
        most = self._server.zcard(self.view.keys.slots) if by_priority else count
        turns = self._reader.entries.read("zset", self.view.keys.slots, count=most, enough=WHOLE)
        slots = ["", *(text_of(turn.data) for turn in turns if not turn.is_cut)]
        longest = WHOLE if whole else SHOWN
        each = (self._next_of(slot, count, longest) for slot in slots)
        if by_priority:
            return islice(heapq.merge(*each, key=lambda entry: entry.score or 0.0), count)
        entries = chain.from_iterable(zip_longest(*each))
        return islice(filter(None, entries), count)

    def place(self, entry: Entry) -> int | None:
        """Return how many requests of a sorted set come before *entry*; None if it no longer waits."""
        rank: int | None = self._server.zrank(self.view.keys.queue(entry.slot), entry.data)
        return rank

    def waiting(self, needle: bytes | None = None) -> Iterator[list[tuple[int | None, Entry]]]:
        """Yield the waiting requests, a step at a time, each with its index if the queue is a list.

        Every request that waits from the first step to the last is met; others may be missed. A list is read
        in the direction in which pops and pushes can only repeat entries, not skip them.

        :param needle: bytes that an entry must contain; Redis filters by them, so that it sends less.
        """
        some: list[str] = []
        for slot in self.slots():
            some.append(slot)
            if len(some) == TOGETHER:
                yield from self._of_slots(some, needle)
                some = []
        yield from self._of_slots(some, needle)

    def _of_slots(self, slots: list[str], needle: bytes | None) -> Iterator[list[tuple[int | None, Entry]]]:
        keys = [self.view.keys.queue(slot) for slot in slots]
        kind: Kind = "zset" if self.view.is_sorted else "list"
        heads = self._reader.entries.heads(self.view.pipeline, kind, keys, FEW, self._longest)
        met: list[tuple[int | None, Entry]] = []
        for slot, (pieces, are_all) in zip(slots, heads, strict=True):
            if not are_all:
                yield from self._sorted_set(slot, needle) if self.view.is_sorted else self._list(slot, needle)
                continue
            # Indexes count from the end that waiting() begins with.
            first = 0 if self.view.queue_class.pops_tail else -len(pieces)
            for place, piece in enumerate(pieces, first):
                if needle is None or needle in piece.data:
                    met.append((None if self.view.is_sorted else place, self._entry(piece, slot)))
        yield met

    def _entry(self, piece: Piece, slot: str) -> Entry:
        score = float(piece.name) if self.view.is_sorted else None
        return self._reader.request(piece.data, score, slot, piece.size if piece.is_cut else 0)

    def _next_of(self, slot: str, count: int, longest: int) -> Iterator[Entry]:
        key, sorted_set = self.view.keys.queue(slot), self.view.is_sorted
        from_tail = not sorted_set and self.view.queue_class.pops_tail
        start: int | bytes = -1 if from_tail else 0
        while count > 0:
            kind: Kind = "zset" if sorted_set else "list"
            start, pieces = self._reader.entries.step(kind, key, start, count, longest, AHEAD)
            if not pieces:
                return
            yield from (self._entry(piece, slot) for piece in pieces)
            count -= len(pieces)

    def _sorted_set(self, slot: str, needle: bytes | None) -> Iterator[list[tuple[int | None, Entry]]]:
        key, cursor, is_first = self.view.keys.queue(slot), b"0", True
        while is_first or cursor != b"0":
            is_first = False
            cursor, found = self._search("ZSCAN", key, cursor, SEARCH_STEP, needle)
            yield [(None, self._entry(piece, slot)) for piece in found]

    def _list(self, slot: str, needle: bytes | None) -> Iterator[list[tuple[int | None, Entry]]]:
        key, before = self.view.keys.queue(slot), b""
        start = b"0" if self.view.queue_class.pops_tail else b"-1"
        while start != before:
            before = start
            start, found = self._search("list", key, start, SEARCH_STEP, needle)
            yield [(int(piece.name), self._entry(piece, slot)) for piece in found]

    def _search(
        self, kind: Kind, key: str, start: bytes, count: int, needle: bytes | None
    ) -> tuple[bytes, list[Piece]]:
        entries, longest = self._reader.entries, self._longest
        return entries.step(kind, key, start, count, longest, needle=needle or b"")
