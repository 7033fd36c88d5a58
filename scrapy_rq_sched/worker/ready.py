"""Leases that are not begun: by slot, in their order, each with the time from which it may begin."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..frontier.replies import Lease

#: If a turn is unused for so many seconds after its time, its worker has too much to do.
LATE = 0.2


class Timed(NamedTuple):
    """A ready lease.

    :param at: from when it may begin, by this process's monotonic clock, in seconds; 0: at once.
    :param number: how many leases came before it.
    """

    at: float
    number: int
    lease: Lease


class Ready:
    """The leases that this worker has not begun."""

    def __init__(self) -> None:
        self._slots: dict[str, deque[Timed]] = {}
        self._count = self._came = 0
        # Slots with enough leases, which cannot begin for now.
        self._sated: set[str] = set()
        #: Returns whether a lease of a slot can begin for now, if its time has come.
        self.takes: Callable[[str], bool] = lambda slot: True

    def __len__(self) -> int:
        return self._count

    @property
    def usable(self) -> int:
        """How many leases there are, without those of sated slots."""
        return self._count - sum(self.count(slot) for slot in self._sated)

    @property
    def sated(self) -> list[str]:
        """The slots with enough leases."""
        return sorted(self._sated)

    def set_sated(self, slots: Iterable[str]) -> None:
        """Note that these *slots* have enough leases."""
        self._sated = set(slots)

    def __iter__(self) -> Iterator[Lease]:
        """Yield the leases in the order in which they came."""
        every = sorted(timed[1:] for queue in self._slots.values() for timed in queue)
        return (lease for _, lease in every)

    def append(self, lease: Lease, at: float = 0.0) -> None:
        """Add *lease*, which may begin from *at* on."""
        self._slots.setdefault(lease.slot, deque()).append(Timed(at, self._came, lease))
        self._came += 1
        self._count += 1

    def extend(self, leases: Iterable[Lease]) -> None:
        """Add *leases*, which may begin at once."""
        for lease in leases:
            self.append(lease)

    def clear(self) -> None:
        """Forget all leases."""
        self._slots.clear()
        self._count = 0

    def heads(self) -> Iterator[Timed]:
        """Yield the next lease of each slot."""
        return (queue[0] for queue in self._slots.values())

    def next(self, load: Callable[[Timed], int | None]) -> Timed | None:
        """Return the lease to begin next, without removing it; None if no lease can begin.

        The slot with the lowest load comes first, then the lease that came first.

        :param load: returns how many requests of a lease's slot the downloader has; None if the lease must
            wait.
        """
        best, least = None, (0, 0)
        for head in self.heads():
            weight = load(head)
            if weight is not None and (best is None or (weight, head.number) < least):
                best, least = head, (weight, head.number)
        return best

    def remove(self, timed: Timed) -> None:
        """Remove *timed*, the next lease of its slot."""
        queue = self._slots[timed.lease.slot]
        queue.popleft()
        self._count -= 1
        if not queue:
            del self._slots[timed.lease.slot]

    def is_due(self, now: float) -> bool:
        """Return whether a lease may begin at *now*, by its time and its slot."""
        return any(head.at <= now and self.takes(head.lease.slot) for head in self.heads())

    def is_late(self, before: float) -> bool:
        """Return whether a lease that can begin has a time before *before*."""
        return any(0 < head.at < before and self.takes(head.lease.slot) for head in self.heads())

    def take_late(self, now: float, patience: float) -> Iterator[Lease]:
        """Remove the leases that are late by *patience* seconds, and yield them.

        A lease that cannot begin for now is removed after ``LATE``, because another worker may begin it.
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
