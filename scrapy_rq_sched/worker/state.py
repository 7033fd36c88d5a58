"""The state of one worker: its unsent news, the requests that it holds, the fingerprints that it knows.

Nothing here waits, and nothing talks to Redis: the scheduler fills the state, the exchange empties it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import chain

from scrapy import Request

from ..frontier.messages import Batch, Push
from ..frontier.replies import Lease, Order, Part, Reply
from ..settings import FrontierSettings
from .answers import SiteAnswers
from .clock import ServerClock
from .grants import SlotGrants
from .groups import Groups
from .items import Items
from .outbox import LocalOnly, Outbox, Outgoing, Releases, SeenCache
from .pools import Pools
from .ready import Memory, Ready
from .record import Record
from .requests import Entry, Place, Requests, StartReports


class State(Part):
    """The local side of the frontier.

    :ivar outbox: requests to push, in their order.
    :ivar releases: leases that are no longer needed.
    :ivar items: items that are stored with the release of their page.
    :ivar ready: leases that are not begun.
    :ivar requests: the requests that the engine has.
    :ivar expanding: the leases of seeds that are being turned into requests.
    :ivar memory: requests that cannot be serialized, and are crawled from here.
    :ivar seen: fingerprints that are known to be in Redis.
    :ivar local_only: how many requests were found, and how many of them cannot be shared.
    :ivar start_reports: the request and the seed that were begun last.
    :ivar clock: the server's clock.
    :ivar grants: the use of this worker's turns of slots.
    :ivar answers: what sites have answered to this worker.
    :ivar record: this worker's part in the record of the crawl.
    :ivar groups: the groups of requests.
    :ivar pools: the items of pools that this worker has.
    :ivar order: the present order to all workers.
    """

    def __init__(self, settings: FrontierSettings) -> None:
        replicated = settings.wait_replicas > 0
        self.outbox = Outbox(replicated)
        self.releases = Releases(self.outbox, replicated)
        self.ready = Ready()
        self.requests = Requests()
        self.items = Items(self.requests, self.releases, settings)
        self.expanding: list[Lease] = []
        self.memory = Memory()
        self.seen = SeenCache(settings.seen_cache)
        self.local_only = LocalOnly()
        self.start_reports = StartReports(settings.max_deliveries, self.ready, self.requests)
        self.clock = ServerClock()
        self.grants = SlotGrants(self.clock)
        self.answers = SiteAnswers(self.ready, settings)
        stores_items = bool(settings.items or settings.feed)
        self.record = Record(self.requests, settings.outcomes, stores_items)
        self.groups = Groups(self.outbox)
        self.pools = Pools(settings.pools)
        self.order = Order.CRAWL
        #: How many requests the engine was given.
        self.begun = 0
        self._found = 0
        # Number of requests that the engine has finished since the last batch.
        self._pages = 0
        # Whether this worker's memory is empty again, and Redis does not know it yet.
        self._memory_is_done = False

    # -- changes -----------------------------------------------------------------------------

    def enqueue(self, push: Push, request: Request) -> None:
        """Put *request* into the outbox."""
        self._found += 1
        self.outbox.append(Outgoing(push, request))

    def note_known(self) -> None:
        """Note a known duplicate: the push of the first such request may still be in the outbox."""
        if not self.outbox.is_settled:
            self._found += 1

    def begin(self, request: Request, lease: Lease | None, slot: str = "", has_grant: bool = False) -> None:
        """Note that the engine was given *request*, from its *lease* or, without a lease, from memory.

        :param slot: the name of its slot in the frontier, or empty.
        :param has_grant: whether it was begun in a turn of its slot.
        """
        self.begun += 1
        entry = Entry(request, lease, slot, has_grant, found=self._found)
        self.requests.begin(entry)
        self.items.begun(entry)
        self.ready.look_again(slot)
        if lease is not None:
            self.start_reports.begun(lease)

    def reached_downloader(self, request: Request, delayed: str, at: float, slot: str = "") -> None:
        """Note that the downloader has *request*.

        :param delayed: the slot of the request, if it has a delay. A request without a turn, as for a
            robots.txt, counts for the slot, too.
        :param at: when the request is sent: later than now, if other requests of the slot came before it. If
            the slot is *delayed*, this is a guess, and :meth:`sent` must be called.
        :param slot: the slot in which the downloader counts the request.
        """
        entry = self.requests.reached(request)
        # The downloader may count it for another slot.
        self.ready.look_again("" if entry is None else entry.slot)
        self.ready.look_again(slot)
        granted = entry.slot if entry is not None and entry.has_grant else ""
        if granted and granted != delayed:
            # If the other slot has a delay, a middleware has moved the request there.
            self.grants.sending(granted, time.monotonic() if delayed else at, used=True)
        self.grants.sending(delayed, at, used=granted == delayed, is_certain=False)

    def sent(self, slot: str, noted: float, at: float) -> None:
        """Note that a request of *slot* was sent until *at*, and not at the time that was *noted*."""
        self.grants.sent(slot, noted, at)
        self.ready.look_again(slot)

    def left_downloader(self, request: Request, slot: str) -> None:
        """Note that the download of *request*, in a slot of the downloader, is over."""
        entry = self.requests.left(request)
        self.ready.look_again(slot)
        if entry is not None and entry.has_grant and entry.is_counted:
            self.grants.downloaded(entry.slot)

    def expand(self, lease: Lease) -> None:
        """Note that requests are about to be made of the seed of *lease*."""
        self.expanding.append(lease)
        self.start_reports.expand(lease)

    def mark_failed(self, request: Request, reason: str, traceback: str = "") -> bool:
        """Set *request* aside when the engine has finished it.

        :return: whether it has a lease: a request that was never in Redis cannot be set aside.
        """
        return self.requests.mark_failed(request, reason, traceback)

    def use_free_turns(self) -> None:
        """Let the next leases of the slots begin sooner whose last turn was not used."""
        for slot, at in self.grants.take_free(self.ready.count).items():
            self.ready.bring_forward(slot, at)

    def finish(self, lease: Lease) -> None:
        """Note that *lease* is finished, after all its new requests were enqueued."""
        self.releases.end(lease, self.outbox.enqueued)

    def fail(self, lease: Lease, reason: str, traceback: str = "") -> None:
        """Set *lease* aside, because it could not be turned into a request."""
        self.releases.end(lease, 0, reason, traceback)

    def finish_requests(self, requests: Iterable[Request]) -> None:
        """Note that the engine has finished these requests, some of which may not be from the frontier."""
        self._finish(chain.from_iterable(map(self.requests.finish, requests)))

    def finish_all_but(self, in_progress: Collection[Request]) -> None:
        """Note that all requests are finished, except the ones *in_progress* in the engine."""
        self._finish(self.requests.sync(in_progress))

    def _finish(self, entries: Iterable[Entry]) -> None:
        had_local = False
        for entry in entries:
            had_local = had_local or entry.lease is None
            self._finish_one(entry)
        if had_local and not self.in_memory:
            self._memory_is_done = True

    def _finish_one(self, entry: Entry) -> None:
        self._pages += 1
        self.record.finished(entry)
        self.groups.finished(entry.request)
        self.pools.finished(entry.request)
        self.ready.look_again(entry.slot)
        if entry.has_grant and entry.place is Place.BEGUN:
            self.grants.begun_unused(entry.slot, is_last=not self.requests.coming(entry.slot))
            self.use_free_turns()
        elif entry.has_grant and entry.is_counted and entry.place is Place.DOWNLOADING:
            self.grants.downloaded(entry.slot)
        items = self.items.finished(entry)
        if entry.lease is not None:
            led_to_none = entry.found == self._found
            after = 0 if led_to_none else self.outbox.enqueued
            self.releases.end(entry.lease, after, *(entry.failure or ("", "")), items=items)

    def give_back(self, known: bool = True) -> None:
        """Give back the leases that are not begun, to their places in the queue.

        :param known: whether the frontier knows the turns and downloads of this worker.
        """
        of_memory = self.memory.take_back(math.inf)
        self._give_back(self.ready)
        self.ready.clear()
        if not known:
            self.requests.forget_grants()
            self.grants.forget(kept=of_memory)
        self.grants.unused(of_memory)

    def give_back_slots(self, slots: Iterable[str]) -> None:
        """Give back the leases and turns of *slots* that are not begun. Requests in memory wait for turns."""
        for slot in slots:
            self._give_back(self.ready.take_all(slot))
            if count := self.memory.take_back_of(slot):
                self.grants.unused(Counter({slot: count}))
            self.memory.limit(slot)

    def give_back_late(self, now: float, patience: float) -> None:
        """Give back leases and turns that are late by *patience* seconds, for other workers to use."""
        self.grants.unused(self.memory.take_back(now - patience))
        self._give_back(self.ready.take_late(now, patience))

    def _give_back(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self.releases.give_back(lease)
            self.grants.returned(lease)

    def give_back_held(self) -> None:
        """Give back the leases of the requests that the engine has; their results here have no effect."""
        for lease in self._let_go():
            self.releases.give_back(lease)

    def adopt_begun(self) -> None:
        """Keep the results of the requests that the engine has, because the frontier is lost with them."""
        self.items.adopt()
        self.requests.let_go()

    def take_turns(self) -> None:
        """Send requests and items by turns, while it is unknown which of them cannot be sent."""
        outbox, items = self.outbox, self.items
        is_trial = outbox.is_on_trial or items.is_on_trial
        had_turn = outbox.is_held and bool(outbox)
        outbox.is_held = is_trial and items.can_send and not had_turn
        items.is_held = is_trial and not outbox.is_held

    def _let_go(self) -> list[Lease]:
        for entry in self.requests:
            if entry.lease is not None:
                self.items.drop(entry)
        return self.requests.let_go()

    def forget_memory(self) -> int:
        """Drop the requests in memory, so that they do not count as seen.

        :return: how many requests there were.
        """
        count = len(self.memory)
        for out in self.memory:
            self.releases.forget(out.push.mode, out.push.fingerprint)
        self.memory.clear()
        self.grants.unused(self.memory.take_back(math.inf))
        return count

    # -- questions -----------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether there is something to send."""
        news = self.outbox or self.releases.has_news or self.start_reports.has_news or self.grants.has_news
        are_others = self._memory_is_done or self.items.has_news or self.answers.has_news
        return bool(news) or are_others or self.groups.has_news or self.pools.has_news

    @property
    def has_urgent_news(self) -> bool:
        """Whether there is something to send for which this or another worker may wait."""
        has_turns = self.grants.has_urgent_news or self.answers.has_news
        is_waited_for = self._memory_is_done or self.groups.has_news or self.pools.has_news
        return has_turns or self.releases.has_returned or self.start_reports.has_news or is_waited_for

    @property
    def lacks_room(self) -> bool:
        """Whether the last exchange found no room for requests, or for items."""
        return self.outbox.blocked or bool(self.items.blocked)

    @property
    def has_data(self) -> bool:
        """Whether requests or items must be sent, and there was room for the last ones."""
        outbox, items = self.outbox, self.items
        return bool(outbox and not outbox.blocked) or (items.has_news and not items.blocked)

    @property
    def has_undone(self) -> bool:
        """Whether a lease must be set aside, left to others, dropped, or reported before it is begun."""
        return self.releases.has_undone or self.start_reports.has_news

    @property
    def is_at_work(self) -> bool:
        """Whether the engine has any request."""
        return bool(self.requests)

    @property
    def is_quiet(self) -> bool:
        """Whether this worker has nothing to do, and nothing on its way."""
        held = self.ready or self.expanding or self.memory or self.is_at_work
        is_settled = self.outbox.is_settled and self.items.is_settled and self.groups.is_quiet
        return not (held or self.has_news or len(self.releases)) and is_settled

    @property
    def in_memory(self) -> int:
        """How many requests this worker crawls from its memory, waiting or begun."""
        return len(self.memory) + self.requests.local

    # -- the exchange ------------------------------------------------------------------------

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.pages, self._pages, self._memory_is_done = self._pages, 0, False

    def applied(self, reply: Reply) -> None:  # noqa: D102
        self.order = reply.order
        self.seen.note_epoch(reply.epoch)

    def rolled_back(self) -> None:
        """Forget the leases, which are back in the queue. Begun requests are finished here."""
        self._let_go()
        self.expired()

    def expired(self) -> None:
        """Note that this worker had counted as dead."""
        # It may still have some leases, if it came back before all were taken away. And of a seed that went
        # back to the queue, it makes no more requests.
        self.give_back(known=False)
        self.expanding.clear()
