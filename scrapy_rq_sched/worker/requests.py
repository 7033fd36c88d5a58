"""The ledger of a worker: each request that it has begun, where it is now, and whether it uses a turn.

No other part of a worker keeps a request's place. The counts change with the places, so that a question walks
over no requests.

A suspect is a request after which several workers have died. The reports of begun requests tell which of its
requests a dead worker had begun.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from scrapy import Request

from ..frontier.messages import Batch, suspicious
from ..frontier.replies import Lease, Part, Reply, lease_order
from .ready import Ready


def is_robots(url: str) -> bool:
    """Return whether *url* is that of a site's robots.txt, which Scrapy requests by itself."""
    return url.endswith("/robots.txt")


class Place(Enum):
    """Where a begun request is. It passes these places in their order, but may leave out the second."""

    #: The engine has it, and the downloader does not have it yet.
    BEGUN = "begun"
    #: The downloader has it.
    DOWNLOADING = "downloading"
    #: Its download is over: it is in the callback, or in the pipelines.
    IN_CALLBACK = "in callback"


@dataclass(slots=True, eq=False)
class PageItems:
    """The items of a page that are not sent: see ``items.py``.

    :ivar size: about how many bytes of memory they take.
    :ivar sent: how many items of the page were sent before.
    :ivar is_dropped: whether the page's items are not stored, because it is crawled again, or set aside.
    """

    url: str
    items: list[bytes] = field(default_factory=list)
    size: int = 0
    sent: int = 0
    is_dropped: bool = False

    def take(self) -> tuple[bytes, ...]:
        """Take the items, because they are being sent."""
        items = tuple(self.items)
        self.items, self.size, self.sent = [], 0, self.sent + len(items)
        return items


@dataclass(slots=True, eq=False)
class Entry:
    """A begun request.

    :ivar lease: its lease; None if it is crawled from this worker's memory.
    :ivar slot: the name of its slot in the frontier, or empty.
    :ivar has_grant: whether it was begun in a turn of its slot.
    :ivar is_counted: whether Redis may count its download, and must know its end.
    :ivar found: how many requests this worker had found when it was begun.
    :ivar failure: the reason and the traceback if it is moved to the failed list at its end; else None.
    :ivar earlier: the entry of the same object, if a callback has yielded its own request again. Both end
        together.
    :ivar identity: a text that is the same for each delivery of it, if its items need one.
    :ivar items: its items, if they are stored with its release, and it has some.
    :ivar scraped: how many items its callback has yielded.
    :ivar outcome: the status of its response, or an ``Ending``; 0 if there was neither.
    :ivar has_raised: whether its callback has raised an exception.
    """

    request: Request
    lease: Lease | None
    slot: str = ""
    has_grant: bool = False
    is_counted: bool = True
    found: int = 0
    place: Place = Place.BEGUN
    failure: tuple[str, str] | None = None
    earlier: Entry | None = None
    identity: str = ""
    items: PageItems | None = None
    scraped: int = 0
    outcome: int = 0
    has_raised: bool = False


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

    def has(self, request: Request) -> bool:
        """Return whether *request* comes from the frontier."""
        return request in self._entries

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

    def find(self, request: Request) -> Entry | None:
        """Return the entry of *request*; None if it does not come from the frontier."""
        return self._entries.get(request)

    def all_of(self, request: Request) -> Iterator[Entry]:
        """Yield the entries of *request*: several if a callback has yielded its own request again."""
        return _all_of(self._entries.get(request))

    def mark_failed(self, request: Request, reason: str, traceback: str) -> bool:
        """Note that *request* is moved to the failed list at its end.

        :return: False if it has no lease: a request that was never in Redis cannot be set aside.
        """
        leased = [entry for entry in self.all_of(request) if entry.lease is not None]
        for entry in leased:
            entry.failure = reason, traceback
        return bool(leased)

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

    def uncount(self, slots: Collection[str]) -> None:
        """Note that Redis does not count the present downloads of *slots*, but may count later ones."""
        for entry in self if slots else ():
            entry.is_counted = entry.is_counted and entry.slot not in slots

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


class StartReports(Part):
    """The last begun request and the last begun seed, and the ones that Redis knows.

    :param max_deliveries: the number of dead workers after which a request is set aside.
    :param ready: the leases that are not begun, and :param requests: those that are.
    :ivar has_news: whether a suspect waits for its report to reach Redis.
    """

    def __init__(self, max_deliveries: int, ready: Ready, requests: Requests) -> None:
        self._ready, self._requests = ready, requests
        self._suspicious = suspicious(max_deliveries)
        self.has_news = False
        self._begun = self._expanded = ""
        # A suspect that must be reported to Redis before it is begun.
        self._announced = self._reported_announced = self._known_announced = ""
        self._reported_expanded = self._known_expanded = ""

    def is_suspect(self, lease: Lease) -> bool:
        """Return whether so many workers died of the request of *lease* that it must be begun alone."""
        return lease.deaths >= self._suspicious

    def begun(self, lease: Lease) -> None:
        """Note that the request of *lease* is begun."""
        self._begun = max(self._begun, lease.name, key=lease_order)

    def is_known(self, lease: Lease) -> bool:
        """Return whether Redis knows that *lease* is about to be begun, if it is a suspect."""
        return not self.is_suspect(lease) or lease.name == self._known_announced

    def announce(self, lease: Lease) -> None:
        """Report to Redis that *lease*, a suspect, is about to be begun."""
        if self._announced != lease.name:
            self._announced = lease.name
            self.begun(lease)
            self.has_news = True

    def expand(self, lease: Lease) -> None:
        """Note that requests are about to be made of the seed of *lease*."""
        self._expanded = lease.name
        if self.is_suspect(lease):
            self.has_news = True

    def may_expand(self, lease: Lease) -> bool:
        """Return whether requests may be made of the seed of *lease* now."""
        # The report of a later seed includes this one.
        return not self.is_suspect(lease) or lease_order(lease.name) <= lease_order(self._known_expanded)

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.suspects = sum(map(self.is_suspect, chain(self._ready, self._requests.leases())))
        batch.begun, batch.expanded = self._begun, self._expanded
        last = lease_order(self._begun)
        batch.passed = [
            lease.name
            for lease in self._ready
            if lease_order(lease.name) < last and lease.name != self._announced
        ]
        self._reported_announced, self._reported_expanded = self._announced, self._expanded
        self.has_news = False

    def applied(self, reply: Reply) -> None:  # noqa: D102
        self._known_announced, self._known_expanded = self._reported_announced, self._reported_expanded
