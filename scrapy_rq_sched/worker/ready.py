"""Leases that are not begun: of each slot in their order, and each from its time on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..frontier.replies import Lease

#: Seconds after its time at which a turn that is not used shows that a worker has too much to do.
LATE = 0.2


class Timed(NamedTuple):
    """A lease that is ready.

    :param at: from when it may be begun, by this process's monotonic clock, in seconds; 0: at once.
    :param number: how many came before it.
    """

    at: float
    number: int
    lease: Lease


class Ready:
    """What this worker has leased and has not begun."""

    def __init__(self) -> None:
        self._slots: dict[str, deque[Timed]] = {}
        self._count = self._came = 0
        # Slots of which there are enough, and whose leases cannot be begun for now.
        self._sated: set[str] = set()
        #: Whether a lease of a slot can be begun for now, if it is its time.
        self.takes: Callable[[str], bool] = lambda slot: True

    def __len__(self) -> int:
        return self._count

    @property
    def usable(self) -> int:
        """How many there are, but for those of sated slots."""
        return self._count - sum(self.count(slot) for slot in self._sated)

    @property
    def sated(self) -> list[str]:
        """The slots of which there are enough."""
        return sorted(self._sated)

    def set_sated(self, slots: Iterable[str]) -> None:
        """Take note that of these slots there are enough."""
        self._sated = set(slots)

    def __iter__(self) -> Iterator[Lease]:
        """Yield the leases in the order in which they came."""
        every = sorted(timed[1:] for queue in self._slots.values() for timed in queue)
        return (lease for _, lease in every)

    def append(self, lease: Lease, at: float = 0.0) -> None:
        """Add *lease*, which may be begun from *at* on."""
        self._slots.setdefault(lease.slot, deque()).append(Timed(at, self._came, lease))
        self._came += 1
        self._count += 1

    def extend(self, leases: Iterable[Lease]) -> None:
        """Add *leases*, which may be begun at once."""
        for lease in leases:
            self.append(lease)

    def clear(self) -> None:
        """Forget all."""
        self._slots.clear()
        self._count = 0

    def heads(self) -> Iterator[Timed]:
        """Yield the next lease of each slot."""
        return (queue[0] for queue in self._slots.values())

    def next(self, load: Callable[[Timed], int | None]) -> Timed | None:
        """Return the lease to begin next, and leave it there; None if there is none.

        :param load: how many requests of its slot the downloader has; None if the lease has to wait. Of the
            slots with the fewest, that comes first whose lease came first.
        """
        best, least = None, (0, 0)
        for head in self.heads():
            weight = load(head)
            if weight is not None and (best is None or (weight, head.number) < least):
                best, least = head, (weight, head.number)
        return best

    def remove(self, timed: Timed) -> None:
        """Remove *timed*, which is the next of its slot."""
        queue = self._slots[timed.lease.slot]
        queue.popleft()
        self._count -= 1
        if not queue:
            del self._slots[timed.lease.slot]

    def is_late(self, before: float) -> bool:
        """Return whether a lease that could be begun was to be begun before *before*."""
        return any(0 < head.at < before and self.takes(head.lease.slot) for head in self.heads())

    def take_late(self, now: float, patience: float) -> Iterator[Lease]:
        """Remove the leases that are late by *patience* seconds, and yield them.

        Of those that cannot be begun for now, another worker could begin some: they are late by ``LATE``.
        """

        def is_late(head: Timed) -> bool:
            return 0 < head.at < now - (patience if self.takes(head.lease.slot) else min(LATE, patience))

        while late := [head for head in self.heads() if is_late(head)]:
            for timed in late:
                self.remove(timed)
                yield timed.lease

    def count(self, slot: str) -> int:
        """Return how many leases of *slot* there are."""
        return len(self._slots.get(slot, ()))

    def slots(self) -> Iterator[tuple[str, int]]:
        """Yield each slot, and how many of its leases there are."""
        return ((slot, len(queue)) for slot, queue in self._slots.items())
