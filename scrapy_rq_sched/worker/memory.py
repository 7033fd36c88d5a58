"""Requests that are crawled from this worker's memory, because they are not in Redis.

If the fleet keeps limits of their slots, these requests need turns, as leases do: the worker asks for turns,
and a request begins when its turn has come.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

from .outbox import Outgoing


class Memory:
    """The requests in memory: those without limits, those of slots with limits, and those of later times."""

    def __init__(self) -> None:
        self._free: deque[Outgoing] = deque()
        self._limited: dict[str, deque[Outgoing]] = {}
        # By slot, when the next requests may begin, by this process's monotonic clock; 0: at once.
        self._grants: dict[str, deque[float]] = {}
        # The time from which it may begin, a number that no other has, the request, its slot.
        self._later: list[tuple[float, int, Outgoing, str]] = []
        self._put_off = self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def has_free(self) -> bool:
        """Whether there is a request that needs no turn."""
        return bool(self._free)

    @property
    def usable(self) -> int:
        """How many requests need no turn, or have one."""
        return len(self._free) + sum(map(len, self._grants.values()))

    def __iter__(self) -> Iterator[Outgoing]:
        later = (outgoing for _, _, outgoing, _ in self._later)
        return chain(self._free, *self._limited.values(), later)

    def append(self, outgoing: Outgoing, limited: str = "") -> None:
        """Add *outgoing*; *limited* is its slot, if the fleet keeps limits of this slot."""
        row = self._limited.setdefault(limited, deque()) if limited else self._free
        row.append(outgoing)
        self._count += 1

    def put_off(self, outgoing: Outgoing, until: float, limited: str = "") -> None:
        """Add *outgoing*, which may not begin before *until*, by this process's monotonic clock."""
        self._put_off += 1
        self._count += 1
        heapq.heappush(self._later, (until, self._put_off, outgoing, limited))

    def note_time(self, now: float) -> float | None:
        """Note the time; return when the next request that was put off may begin, or None."""
        while self._later and self._later[0][0] <= now:
            _, _, outgoing, limited = heapq.heappop(self._later)
            self._count -= 1
            self.append(outgoing, limited)
        return self._later[0][0] if self._later else None

    def take_free(self) -> Outgoing | None:
        """Remove and return the next request that needs no turn, or None."""
        if not self._free:
            return None
        self._count -= 1
        return self._free.popleft()

    def grants(self) -> Iterator[tuple[str, float]]:
        """Yield each slot with turns, and the time of its next turn."""
        return ((slot, times[0]) for slot, times in self._grants.items())

    def take(self, slot: str) -> Outgoing:
        """Remove and return the next request of *slot*, and use a turn for it."""
        times, row = self._grants[slot], self._limited[slot]
        times.popleft()
        outgoing = row.popleft()
        self._count -= 1
        if not times:
            del self._grants[slot]
        if not row:
            del self._limited[slot]
        return outgoing

    def asks(self, most: int) -> dict[str, int]:
        """Return how many turns are missing, by slot: at most *most* slots, and *most* turns of each."""
        lacking = ((slot, len(row) - len(self._grants.get(slot, ()))) for slot, row in self._limited.items())
        return {
            slot: min(most, count) for slot, count in islice((one for one in lacking if one[1] > 0), most)
        }

    def give(self, grants: Mapping[str, Iterable[float]]) -> Counter[str]:
        """Add turns; return, by slot, the number of turns that no request needs."""
        for slot, times in grants.items():
            self._grants.setdefault(slot, deque()).extend(times)
            if slot in self._limited:
                # With very many slots, another slot is the first to ask next time.
                self._limited[slot] = self._limited.pop(slot)
        spare: Counter[str] = Counter()
        for slot, times in self._grants.items():
            while len(times) > len(self._limited.get(slot, ())):
                times.pop()
                spare[slot] += 1
        self._drop_empty()
        return spare

    def take_back(self, before: float) -> Counter[str]:
        """Remove the turns with a time before *before*; return, by slot, how many there were."""
        late: Counter[str] = Counter()
        for slot, times in self._grants.items():
            while times and (0 < times[0] < before or before == math.inf):
                times.popleft()
                late[slot] += 1
        self._drop_empty()
        return late

    def clear(self) -> None:
        """Forget the requests; :meth:`take_back` removes their turns."""
        self._free.clear()
        self._limited.clear()
        self._later.clear()
        self._count = 0

    def _drop_empty(self) -> None:
        self._grants = {slot: times for slot, times in self._grants.items() if times}
