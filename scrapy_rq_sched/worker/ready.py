"""The requests that this worker could begin: leases, and requests that are only in its memory.

Leases are kept by slot, in their order, each with the time from which it may begin. Only the next lease of a
slot, its *head*, can begin. Heads are filed by admission's answer to whether they may begin: those that may
are a heap by the load of their slot, those that must wait for a time are a heap by that time, and the others
wait for an event. An answer may go out of date, so :meth:`Ready.look_again` must be called for a slot when
something changes; and :meth:`Ready.next` asks again for the head that it returns.

Requests in memory are not in Redis. If the fleet keeps limits of their slots, these requests need turns, as
leases do: the worker asks for turns, and a request begins when its turn has come.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import chain, islice
from typing import NamedTuple

from ..frontier.replies import Lease
from .outbox import Outgoing

#: Void entries of a heap that are kept, besides as many as there are heads.
SPARE = 64
#: If a turn is unused for so many seconds after its time, its worker has too much to do.
LATE = 0.2


class Cause(Enum):
    """What keeps a request from beginning."""

    ORDER = "order"  #: the order to all workers: to pause, to drain, to stop, or to wait for a place
    ROOM = "room"  #: the outbox is full
    SILENCE = "silence"  #: this process was stopped for longer than its lease
    UNRELEASED = "unreleased"  #: too many finished requests wait for room, or for replicas
    CAPACITY = "capacity"  #: as many requests as allowed are begun, and not finished
    RELEASE = "release"  #: so many finished requests are not released that the next release must come first
    SLOT = "slot"  #: the downloader has enough requests of the slot
    TIME = "time"  #: the time of the turn has not come
    LATE = "late"  #: the turn is so late that another worker may have it
    ANSWER = "answer"  #: the site asks to wait, or is asked too fast; the frontier's reply has the new limits
    ITEM = "item"  #: it needs an item of a pool for its life, and has none, or uses it
    SUSPECT = "suspect"  #: workers died of it, and Redis does not know yet that this one begins it
    EMPTY = "empty"  #: this worker has no request to begin


class Block(NamedTuple):
    """A reason for which a request may not begin.

    :param until: the monotonic time from which it may, in seconds; None if an event ends the block.
    """

    cause: Cause
    until: float | None = None


class Timed(NamedTuple):
    """A ready lease.

    :param at: from when it may begin, by this process's monotonic clock, in seconds; 0: at once.
    :param number: how many leases came before it.
    """

    at: float
    number: int
    lease: Lease


class _Filed(NamedTuple):
    """Where the head of a slot is filed.

    :param order: its position in the heap: the load, or the time.
    :param block: why it must wait; None if it may begin.
    """

    order: float
    number: int
    slot: str
    block: Block | None


class Ready:
    """The leases that this worker has not begun.

    :ivar judge: returns the load of a head's slot if the head may begin at a time, or why it must wait.
    :ivar begins: returns from when a head with a time may begin: later than this, if the request before it
        was sent late.
    """

    def __init__(self) -> None:
        self._slots: dict[str, deque[Timed]] = {}
        self._count = self._came = 0
        # Slots with enough leases, which cannot begin for now.
        self._saturated: set[str] = set()
        self._filed: dict[str, _Filed] = {}
        # Heads that may begin, by load, and heads that must wait, by time. An entry is void if its slot was
        # filed anew.
        self._due: list[_Filed] = []
        self._later: list[_Filed] = []
        # Heads that wait for an event, and slots whose head must be judged.
        self._stuck: dict[str, Block] = {}
        self._stale: set[str] = set()
        self.judge: Callable[[Timed, float], int | Block] = lambda head, now: 0
        self.begins: Callable[[Timed], float] = lambda head: head.at

    def __len__(self) -> int:
        return self._count

    @property
    def usable(self) -> int:
        """How many leases there are, without those of saturated slots."""
        return self._count - sum(self.count(slot) for slot in self._saturated)

    @property
    def saturated(self) -> list[str]:
        """The slots with enough leases."""
        return sorted(self._saturated)

    def set_saturated(self, slots: Iterable[str]) -> None:
        """Note that these *slots* have enough leases."""
        self._saturated = set(slots)

    def __iter__(self) -> Iterator[Lease]:
        """Yield the leases in the order in which they came."""
        every = sorted(timed[1:] for queue in self._slots.values() for timed in queue)
        return (lease for _, lease in every)

    def append(self, lease: Lease, at: float = 0.0) -> None:
        """Add *lease*, which may begin from *at* on."""
        queue = self._slots.setdefault(lease.slot, deque())
        queue.append(Timed(at, self._came, lease))
        self._came += 1
        self._count += 1
        if len(queue) == 1:
            self._stale.add(lease.slot)

    def extend(self, leases: Iterable[Lease]) -> None:
        """Add *leases*, which may begin at once."""
        for lease in leases:
            self.append(lease)

    def clear(self) -> None:
        """Forget all leases."""
        for places in (self._slots, self._filed, self._due, self._later, self._stuck, self._stale):
            places.clear()
        self._count = 0

    def look_again(self, slot: str) -> None:
        """Judge the head of *slot* anew before the next question: its load or its time has changed."""
        if slot in self._slots:
            self._stale.add(slot)

    def look_at_stuck(self) -> None:
        """Judge all heads anew that wait for an event: it may have come."""
        self._stale.update(self._stuck)

    def look_at_loaded(self) -> None:
        """Judge all heads anew whose slot had a load: it may have fallen."""
        self._stale.update(
            filed.slot for filed in self._filed.values() if filed.block is None and filed.order
        )

    def next(self, now: float) -> Timed | None:
        """Return the lease to begin next, without removing it; None if no lease may begin at *now*.

        The slot with the lowest load comes first, then the lease that came first.
        """
        self._judge(now)
        while self._due:
            filed = self._due[0]
            if self._filed.get(filed.slot) is filed:
                # Another request of the slot may have been sent meanwhile.
                answer = self.judge(head := self._slots[filed.slot][0], now)
                if answer == filed.order:
                    return head
                heapq.heappop(self._due)
                self._file(head, answer)
            else:
                heapq.heappop(self._due)
        return None

    def next_time(self, now: float) -> float | None:
        """Return when the first lease that waits for a time may begin; None if no lease waits for one."""
        self._judge(now)
        while self._later and self._filed.get(self._later[0].slot) is not self._later[0]:
            heapq.heappop(self._later)
        return self._later[0].order if self._later else None

    def stuck(self, now: float) -> dict[str, Block]:
        """Return, by slot, why a head waits for an event."""
        self._judge(now)
        return self._stuck

    def remove(self, timed: Timed) -> None:
        """Remove *timed*, the next lease of its slot."""
        slot = timed.lease.slot
        queue = self._slots[slot]
        queue.popleft()
        self._count -= 1
        self._filed.pop(slot, None)
        self._stuck.pop(slot, None)
        if queue:
            self._stale.add(slot)
        else:
            del self._slots[slot]
            self._stale.discard(slot)

    def bring_forward(self, slot: str, at: float) -> None:
        """Let each lease of *slot* begin in the turn before its own: the turn of *at* was not used."""
        queue = self._slots.get(slot)
        if queue is None or queue[0].at <= at:
            return
        times = [at, *(timed.at for timed in queue)]
        self._slots[slot] = deque(timed._replace(at=its) for timed, its in zip(queue, times, strict=False))
        self._stale.add(slot)

    def heads(self) -> Iterator[Timed]:
        """Yield the next lease of each slot."""
        return (queue[0] for queue in self._slots.values())

    def is_late(self, before: float, now: float) -> bool:
        """Return whether a lease that waits for no event could have begun before *before*."""
        stuck = self.stuck(now)
        return any(
            0 < head.at < before and head.lease.slot not in stuck and self.begins(head) < before
            for head in self.heads()
        )

    def take_late(self, now: float, patience: float) -> Iterator[Lease]:
        """Remove the leases that are late by *patience* seconds, and yield them.

        A lease that waits for an event is removed after ``LATE``, because another worker may begin it.
        """

        def are_late() -> list[Timed]:
            stuck, short = self.stuck(now), min(LATE, patience)
            return [
                head
                for head in self.heads()
                if 0 < head.at < now - (short if head.lease.slot in stuck else patience)
            ]

        while late := are_late():
            for timed in late:
                self.remove(timed)
                yield timed.lease

    def take_all(self, slot: str) -> Iterator[Lease]:
        """Remove all leases of *slot*, and yield them."""
        while slot in self._slots:
            head = self._slots[slot][0]
            self.remove(head)
            yield head.lease

    def count(self, slot: str) -> int:
        """Return how many leases of *slot* there are."""
        return len(self._slots.get(slot, ()))

    def last_time(self, slot: str) -> float:
        """Return the time from which the last lease of *slot* may begin; 0 without a lease, or at once."""
        queue = self._slots.get(slot)
        return queue[-1].at if queue else 0.0

    def _judge(self, now: float) -> None:
        """File the heads that are new, or whose answer may have changed."""
        while self._later and self._later[0].order <= now:
            filed = heapq.heappop(self._later)
            if self._filed.get(filed.slot) is filed:
                self._stale.add(filed.slot)
        while self._stale:
            slot = next(iter(self._stale))
            head = self._slots[slot][0]
            self._file(head, self.judge(head, now))
            self._stale.discard(slot)

    def _file(self, head: Timed, answer: int | Block) -> None:
        slot = head.lease.slot
        self._stuck.pop(slot, None)
        if not isinstance(answer, Block):
            filed = self._filed[slot] = _Filed(answer, head.number, slot, None)
            heapq.heappush(self._due, filed)
            if len(self._due) > 2 * len(self._filed) + SPARE:
                self._due = [filed for filed in self._filed.values() if filed.block is None]
                heapq.heapify(self._due)
        elif answer.until is not None:
            filed = self._filed[slot] = _Filed(answer.until, head.number, slot, answer)
            heapq.heappush(self._later, filed)
        else:
            self._filed.pop(slot, None)
            self._stuck[slot] = answer


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

    def limit(self, slot: str) -> None:
        """Let the requests of *slot* wait for turns from now on."""
        mine = [outgoing for outgoing in self._free if outgoing.push.slot == slot]
        if mine:
            self._free = deque(outgoing for outgoing in self._free if outgoing.push.slot != slot)
            self._limited.setdefault(slot, deque()).extend(mine)

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

    def take_back_of(self, slot: str) -> int:
        """Remove the turns of *slot*; return how many there were."""
        return len(self._grants.pop(slot, ()))

    def clear(self) -> None:
        """Forget the requests; :meth:`take_back` removes their turns."""
        self._free.clear()
        self._limited.clear()
        self._later.clear()
        self._count = 0

    def _drop_empty(self) -> None:
        self._grants = {slot: times for slot, times in self._grants.items() if times}
