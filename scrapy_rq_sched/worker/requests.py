"""The ledger of a worker: each request that it has begun, and where it is now.

No other part of a worker keeps a request's place. The counts change with the places, so that a question walks
over no requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from scrapy import Request

from ..frontier.replies import Lease


class Place(Enum):
    """Where a begun request is. It passes these places in their order, but may leave out the second."""

    #: The engine has it, and the downloader does not have it yet.
    BEGUN = "begun"
    #: The downloader has it.
    DOWNLOADING = "downloading"
    #: Its download is over: it is in the callback, or in the pipelines.
    IN_CALLBACK = "in callback"


@dataclass(slots=True, eq=False)
class Entry:
    """A begun request.

    :ivar lease: its lease; None if it is crawled from this worker's memory.
    :ivar slot: the name of its slot in the frontier, or empty.
    :ivar has_grant: whether it was begun in a turn of its slot.
    :ivar found: how many requests this worker had found when it was begun.
    :ivar failure: the reason and the traceback if it is moved to the failed list at its end; else None.
    :ivar earlier: the entry of the same object, if a callback has yielded its own request again. Both end
        together.
    """

    request: Request
    lease: Lease | None
    slot: str = ""
    has_grant: bool = False
    found: int = 0
    place: Place = Place.BEGUN
    failure: tuple[str, str] | None = None
    earlier: Entry | None = None


class Requests:
    """The requests that the engine has.

    :ivar leased: how many of them have a lease.
    """

    def __init__(self) -> None:
        self._entries: dict[Request, Entry] = {}
        self._count = self.leased = 0
        # By slot, the requests that have not reached the downloader.
        self._coming: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        for entry in self._entries.values():
            yield from _all_of(entry)

    @property
    def local(self) -> int:
        """How many requests have no lease."""
        return self._count - self.leased

    def leases(self) -> Iterator[Lease]:
        """Yield the lease of each request that has one."""
        return (entry.lease for entry in self if entry.lease is not None)

    def coming(self, slot: str) -> int:
        """Return how many requests of *slot* are on their way to the downloader."""
        return self._coming[slot]

    def begin(self, entry: Entry) -> None:
        """Note that the engine was given the request of *entry*."""
        entry.earlier = self._entries.get(entry.request)
        self._entries[entry.request] = entry
        self._count += 1
        self.leased += entry.lease is not None
        if entry.slot:
            self._coming[entry.slot] += 1

    def reached(self, request: Request) -> Entry | None:
        """Note that the downloader has *request*; None if it does not come from the frontier."""
        entry = self._entries.get(request)
        if entry is None or entry.place is not Place.BEGUN:
            return None
        self._count_out(entry)
        entry.place = Place.DOWNLOADING
        return entry

    def left(self, request: Request) -> Entry | None:
        """Note that the download of *request* is over; None if it does not come from the frontier."""
        entry = self._entries.get(request)
        if entry is None or entry.place is not Place.DOWNLOADING:
            return None
        entry.place = Place.IN_CALLBACK
        return entry

    def mark_failed(self, request: Request, reason: str, traceback: str) -> bool:
        """Note that *request* is moved to the failed list at its end.

        :return: False if it has no lease: a request that was never in Redis cannot be set aside.
        """
        for entry in _all_of(self._entries.get(request)):
            if entry.lease is not None:
                entry.failure = reason, traceback
                return True
        return False

    def finish(self, request: Request) -> list[Entry]:
        """Remove and return the entries of *request*, because the engine has finished it."""
        return self._remove(request)

    def sync(self, in_progress: Collection[Request]) -> list[Entry]:
        """Remove and return the finished requests: those that are not *in_progress* in the engine."""
        finished = [request for request in self._entries if request not in in_progress]
        return [entry for request in finished for entry in self._remove(request)]

    def let_go(self) -> list[Lease]:
        """Take the leases from all requests; return them. The engine continues with the requests."""
        leases = list(self.leases())
        for entry in self:
            entry.lease = entry.failure = None
        self.leased = 0
        return leases

    def forget_grants(self) -> None:
        """Note that the frontier has forgotten the turns and downloads of this worker."""
        for entry in self:
            entry.has_grant = False

    def _remove(self, request: Request) -> list[Entry]:
        removed = list(_all_of(self._entries.pop(request, None)))
        for entry in removed:
            self._count -= 1
            self.leased -= entry.lease is not None
            self._count_out(entry)
        return removed

    def _count_out(self, entry: Entry) -> None:
        """Count *entry* no longer as on its way to the downloader."""
        if entry.slot and entry.place is Place.BEGUN:
            self._coming[entry.slot] -= 1
            if not self._coming[entry.slot]:
                del self._coming[entry.slot]


def _all_of(entry: Entry | None) -> Iterator[Entry]:
    """Yield *entry* and the earlier ones of the same request."""
    while entry is not None:
        yield entry
        entry = entry.earlier
