"""Requests that are crawled from this worker's memory, because they are not in Redis.

Where the fleet keeps limits of their slots, they need turns as leases do: the worker asks for them, and a
request begins when its turn has come.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from .outbox import Outgoing


class Memory:
    """Requests in memory: those of slots without limits in one row, and of each other slot in another."""

    def __init__(self) -> None:
        self._free: deque[Outgoing] = deque()
        self._limited: dict[str, deque[Outgoing]] = {}
        # When its next requests may begin, by this process's monotonic clock; 0: at once.
        self._turns: dict[str, deque[float]] = {}

    def __len__(self) -> int:
        return len(self._free) + sum(map(len, self._limited.values()))

    def __iter__(self) -> Iterator[Outgoing]:
        return chain(self._free, *self._limited.values())

    def append(self, outgoing: Outgoing, limited: str = "") -> None:
        """Add *outgoing*; *limited* is its slot, if the fleet keeps limits of that."""
        row = self._limited.setdefault(limited, deque()) if limited else self._free
        row.append(outgoing)

    def take_free(self) -> Outgoing | None:
        """Remove and return the next of those that need no turn; None if there is none."""
        return self._free.popleft() if self._free else None

    def turns(self) -> Iterator[tuple[str, float]]:
        """Yield the slots of which there are turns, and when the next of each is."""
        return ((slot, times[0]) for slot, times in self._turns.items())

    def take(self, slot: str) -> Outgoing:
        """Remove and return the next request of *slot*, and use a turn for it."""
        times, row = self._turns[slot], self._limited[slot]
        times.popleft()
        outgoing = row.popleft()
        if not times:
            del self._turns[slot]
        if not row:
            del self._limited[slot]
        return outgoing

    def asks(self) -> dict[str, int]:
        """Return how many turns are lacking, by slot."""
        lacking = {slot: len(row) - len(self._turns.get(slot, ())) for slot, row in self._limited.items()}
        return {slot: count for slot, count in lacking.items() if count > 0}

    def give(self, turns: Mapping[str, Iterable[float]]) -> Counter[str]:
        """Take note of turns; return, by slot, of how many there is no use."""
        for slot, times in turns.items():
            self._turns.setdefault(slot, deque()).extend(times)
        spare: Counter[str] = Counter()
        for slot, times in self._turns.items():
            while len(times) > len(self._limited.get(slot, ())):
                times.pop()
                spare[slot] += 1
        self._drop_empty()
        return spare

    def take_back(self, before: float) -> Counter[str]:
        """Remove the turns that were to be used before *before*; return, by slot, how many."""
        late: Counter[str] = Counter()
        for slot, times in self._turns.items():
            while times and times[0] < before:
                times.popleft()
                late[slot] += 1
        self._drop_empty()
        return late

    def clear(self) -> None:
        """Forget the requests; their turns are left to :meth:`take_back`."""
        self._free.clear()
        self._limited.clear()

    def _drop_empty(self) -> None:
        self._turns = {slot: times for slot, times in self._turns.items() if times}
