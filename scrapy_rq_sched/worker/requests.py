"""The ledger of a worker: each request that it has begun, where it is now, and which grants of slots it uses.

No other part of a worker keeps a request's place. The counts change with the places, so that a question walks
over no requests.

The frontier gives turns ahead of their time, and only one worker at a time has turns of a slot. So this
worker must keep the gaps between the requests of the slot, however late it is. When it reports that it has
used all its turns, it also reports when it used the last one.

A suspect is a request after which several workers have died. The reports of begun requests tell which of its
requests a dead worker had begun.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from scrapy import Request

from ..frontier.messages import Batch, UsedGrants, suspicious
from ..frontier.replies import Lease, Part, Reply, lease_order
from .clock import ServerClock
from .ready import Ready

#: The part of the gap between two turns that is always kept. After a late turn, the next ones come a little
#: sooner, until the slot is on time again.
KEPT = 0.99
#: Number of slots whose last used turn is remembered.
REMEMBERED = 100_000


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
    :ivar found: how many requests this worker had found when it was begun.
    :ivar failure: the reason and the traceback if it is moved to the failed list at its end; else None.
    :ivar earlier: the entry of the same object, if a callback has yielded its own request again. Both end
        together.
    :ivar identity: a text that is the same for each delivery of it, if its items need one.
    :ivar items: its items, if they are stored with its release, and it has some.
    """

    request: Request
    lease: Lease | None
    slot: str = ""
    has_grant: bool = False
    found: int = 0
    place: Place = Place.BEGUN
    failure: tuple[str, str] | None = None
    earlier: Entry | None = None
    identity: str = ""
    items: PageItems | None = None


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


class SlotGrants(Part):
    """Note which turns were used, and when.

    :param clock: the server's clock.
    :ivar needed_at: returns the time before which nobody needs the report about a slot; 0: at once. It then
        waits, so that Redis reads and writes the slot's state once for the report and the next turn.
    :ivar ahead: returns how many seconds ahead of their time this worker reports.
    :ivar closing: whether the spider closes, so that no report may wait.
    """

    def __init__(self, clock: ServerClock) -> None:
        self._clock = clock
        # By slot, the planned time of its last turn, and the time at which it was used.
        self._last: OrderedDict[str, tuple[float, float]] = OrderedDict()
        # By slot, the planned time of the last begun turn, as long as no request was sent since.
        self._begun: dict[str, float] = {}
        # By slot, the time of a turn that was not used, as long as the frontier does not know this.
        self._free: dict[str, float] = {}
        # The times at which the downloader sends requests; a turn counts as used from then on.
        self._sending: list[tuple[float, str, int]] = []
        # By slot, the requests of which nothing tells yet when they are sent: by presumed time, whether in a
        # turn.
        self._uncertain: dict[str, dict[float, bool]] = {}
        # By slot, how many turns this worker has, until it reports that it has used them.
        self._held: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._sent: dict[str, float] = {}
        self._unused: Counter[str] = Counter()
        self._downloaded: Counter[str] = Counter()
        self.needed_at: Callable[[str], float] = lambda slot: 0.0
        self.ahead: Callable[[], float] = lambda: 0.0
        self.closing = False

    @property
    def has_news(self) -> bool:
        """Whether there is something to report that may not wait."""
        self._note_sent()
        return next(self._due(), None) is not None

    def _due(self) -> Iterator[str]:
        """Yield the slots with a report that may not wait."""
        if not (self._used or self._downloaded or self._sent):
            return
        till = time.monotonic() + self.ahead()
        for slot in {*self._used, *self._downloaded, *self._sent}:
            # Without a turn of this worker, another worker may begin the next request of the slot.
            has_turn = self._used[slot] or slot not in self._sent
            if self.closing or slot in self._unused or not has_turn or self.needed_at(slot) <= till:
                yield slot

    @property
    def unreported(self) -> tuple[Collection[str], Collection[str], Collection[str]]:
        """The slots of turns not used, of downloads that are over, and of requests that had no turn."""
        return self._unused, self._downloaded, [slot for slot in self._sent if not self._used[slot]]

    def last(self, slot: str) -> float | None:
        """Return when the last turn of *slot* was used, or was to be used; None if this is unknown."""
        return max(self._last[slot]) if slot in self._last else None

    def given(self, turns: Counter[str]) -> None:
        """Note the number of turns that the frontier has given, by slot."""
        self._held.update(turns)

    def begun_unused(self, slot: str, is_last: bool) -> None:
        """Note that a request that was begun in a turn of *slot* was not sent.

        :param is_last: whether no other request of the slot is on its way to the downloader.
        """
        self.unused(Counter({slot: 1}))
        if is_last and slot in self._begun:
            self._free[slot] = self._begun.pop(slot)

    def take_free(self, has_lease: Callable[[str], object]) -> dict[str, float]:
        """Take the times of the turns that were not used, by slot, of those slots for which *has_lease*.

        A time that is over has become the present, so that the lease does not count as late.
        """
        now = time.monotonic()
        return {slot: max(now, self._free.pop(slot)) for slot in list(self._free) if has_lease(slot)}

    def earliest(self, slot: str, at: float, gap: float | None = None) -> float:
        """Return from when the turn of *at* may be used: as long after the last turn as it was planned.

        :param gap: the minimum seconds between two requests of the slot, or None if unknown. A longer wait is
            not needed: if the last turn was late, the frontier may have moved this turn already.
        """
        planned, used = self._last.get(slot, (at, 0.0))
        if slot in self._uncertain:  # its last request is perhaps not sent yet
            used = max(used, time.monotonic())
        apart = at - planned
        return max(at, used + KEPT * (apart if gap is None else min(apart, gap)))

    def begun(self, slot: str, at: float, now: float) -> None:
        """Note that a request was begun in the turn of *at*; 0 for a turn without a time."""
        self._begun[slot] = at or now
        self._free.pop(slot, None)
        self._note(slot, at or now, now)

    def returned(self, lease: Lease) -> None:
        """Note that *lease* goes back or is set aside, without using its turn."""
        if lease.begin:
            self.unused(Counter({lease.slot: 1}))

    def unused(self, grants: Counter[str]) -> None:
        """Note the number of unused turns by slot."""
        self._used.update(grants)
        self._unused.update(grants)
        self._downloaded.update(grants)

    def sending(self, slot: str, at: float, used: bool, is_certain: bool = True) -> None:
        """Note that the downloader sends a request of *slot* at a time; *used*: in a turn of the slot.

        :param is_certain: whether *at* is the time; else :meth:`sent` tells it. Until then, the turn is not
            reported, and the gap after it has not begun: the next request could be sent too soon.
        """
        if slot:
            self._begun.pop(slot, None)
            self._free.pop(slot, None)
            if is_certain:
                heapq.heappush(self._sending, (at, slot, used))
            else:
                self._uncertain.setdefault(slot, {})[at] = used
            planned, _ = self._last.get(slot, (at, at))
            self._note(slot, planned, at)

    def sent(self, slot: str, noted: float, at: float) -> None:
        """Note that a request of *slot* was sent until *at*, and not at the time that was *noted*."""
        uncertain = self._uncertain.get(slot, {})
        used = uncertain.pop(noted, None)
        if used is not None:
            heapq.heappush(self._sending, (at, slot, used))
            if not uncertain:
                del self._uncertain[slot]
        planned, last = self._last.get(slot, (at, at))
        if last == noted:
            self._note(slot, planned, at)

    def downloaded(self, slot: str) -> None:
        """Note that the download of a request that was begun in a turn of *slot* is over."""
        self._downloaded[slot] += 1

    def fill(self, batch: Batch) -> None:  # noqa: D102
        self._note_sent()
        due = set(self._due())
        batch.grants = {slot: self._take(slot) for slot in due & {*self._used, *self._sent}}
        batch.downloaded = {slot: self._downloaded.pop(slot) for slot in due & self._downloaded.keys()}
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    def _note_sent(self) -> None:
        """Note the requests that the downloader has sent by now."""
        now = time.monotonic()
        while self._sending and self._sending[0][0] <= now:
            at, slot, used = heapq.heappop(self._sending)
            self._used[slot] += used
            self._sent[slot] = max(at, self._sent.get(slot, at))

    def _take(self, slot: str) -> UsedGrants:
        """Return the report about *slot*, which is then no longer here."""
        sent = self._sent.pop(slot, None)
        at = 0.0 if sent is None else round(self._clock.server(sent), 3)
        # The frontier gives this turn again.
        self._free.pop(slot, None)
        used = self._used.pop(slot, 0)
        left = max(0, self._held.pop(slot, 0) - used)
        if left:
            self._held[slot] = left
        return UsedGrants(used, at, self._unused.pop(slot, 0), left)

    def forget(self, kept: Counter[str]) -> None:
        """Note that the frontier has forgotten the turns and downloads of this worker.

        :param kept: the number of turns that are reported later, by slot.
        """
        self._sending = [(at, slot, 0) for at, slot, _ in self._sending]
        self._uncertain = {slot: dict.fromkeys(times, False) for slot, times in self._uncertain.items()}
        for turns in (self._used, self._unused, self._downloaded, self._free, self._begun):
            turns.clear()
        self._held = Counter(kept)

    def _note(self, slot: str, planned: float, now: float) -> None:
        self._last[slot] = planned, now
        self._last.move_to_end(slot)


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
