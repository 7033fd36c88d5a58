"""Requests that are crawled from this worker's memory, because they are not in Redis.

Where the fleet keeps limits of their slots, they need turns as leases do: the worker asks for them, and a
request begins when its turn has come.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

from .outbox import Outgoing


class Memory:
    """Requests in memory: those of slots without limits in one row, and of each other slot in another."""

    def __init__(self) -> None:
        self._free: deque[Outgoing] = deque()
        self._limited: dict[str, deque[Outgoing]] = {}
        # When its next requests may begin, by this process's monotonic clock; 0: at once.
        self._turns: dict[str, deque[float]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def usable(self) -> int:
        """How many need no turn, or have one."""
        return len(self._free) + sum(map(len, self._turns.values()))

    def __iter__(self) -> Iterator[Outgoing]:
        return chain(self._free, *self._limited.values())

    def append(self, outgoing: Outgoing, limited: str = "") -> None:
        """Add *outgoing*; *limited* is its slot, if the fleet keeps limits of that."""
        row = self._limited.setdefault(limited, deque()) if limited else self._free
        row.append(outgoing)
        self._count += 1

    def take_free(self) -> Outgoing | None:
        """Remove and return the next of those that need no turn; None if there is none."""
        if not self._free:
            return None
        self._count -= 1
        return self._free.popleft()

    def turns(self) -> Iterator[tuple[str, float]]:
        """Yield the slots of which there are turns, and when the next of each is."""
        return ((slot, times[0]) for slot, times in self._turns.items())

    def take(self, slot: str) -> Outgoing:
        """Remove and return the next request of *slot*, and use a turn for it."""
        times, row = self._turns[slot], self._limited[slot]
        times.popleft()
        outgoing = row.popleft()
        self._count -= 1
        if not times:
            del self._turns[slot]
        if not row:
            del self._limited[slot]
        return outgoing

    def asks(self, most: int) -> dict[str, int]:
        """Return how many turns are lacking, by slot: of *most* slots at the most, and so many of each."""
        lacking = ((slot, len(row) - len(self._turns.get(slot, ()))) for slot, row in self._limited.items())
        return {
            slot: min(most, count) for slot, count in islice((one for one in lacking if one[1] > 0), most)
        }

    def give(self, turns: Mapping[str, Iterable[float]]) -> Counter[str]:
        """Take note of turns; return, by slot, of how many there is no use."""
        for slot, times in turns.items():
            self._turns.setdefault(slot, deque()).extend(times)
            if slot in self._limited:
                # Of very many slots, another asks first next time.
                self._limited[slot] = self._limited.pop(slot)
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
            while times and (0 < times[0] < before or before == math.inf):
                times.popleft()
                late[slot] += 1
        self._drop_empty()
        return late

    def clear(self) -> None:
        """Forget the requests; their turns are left to :meth:`take_back`."""
        self._free.clear()
        self._limited.clear()
        self._count = 0

    def _drop_empty(self) -> None:
        self._turns = {slot: times for slot, times in self._turns.items() if times}
