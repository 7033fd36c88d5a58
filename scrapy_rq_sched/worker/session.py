"""One worker's part in a crawl, between Scrapy on one side and the exchange on the other.

Neither side waits for the other, nor for Redis. ``loop.py`` decides when there is an exchange, and
the frontier's client makes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from twisted.internet.defer import Deferred

from ..assembly.dupefilter import filters_in_exchange, load_fingerprints
from ..assembly.queue import is_custom
from ..codec.names import names_in
from ..codec.outcomes import worker_digest
from ..engine.answers import Answer
from ..engine.bridge import EngineBridge
from ..engine.robots import hear_crawl_delays
from ..errors import frontier_command
from ..frontier.client import Frontier
from ..frontier.close_limits import MAX_PAGES, CloseLimits
from ..frontier.messages import Batch, ItemGroup, Push, rank
from ..frontier.replies import Lease, Membership, Order, Part, Reply
from ..runtime.identity import Stopwatch
from ..settings import FrontierSettings
from ..signals import group_finished
from .admission import Admission, Capacity
from .deny_list import DenyList
from .handout import Handout
from .intake import Intake, StartGate
from .items import PageIdentity
from .log.farewell import Farewell
from .log.fullness import Fullness
from .log.notices import Notices
from .log.standstill import Standstill
from .needs import Needs
from .outbox import BatchOutcome, Outgoing
from .outside import OutsideRequests
from .reports import Bottleneck, SlotSync, Totals
from .seeds import SeedExpander
from .slots import politeness_of
from .state import State
from .throttle import Latencies


class Session(Part):
    """The session of a worker with a frontier, from joining to leaving.

    It has many attributes: one for each of its parts, and one for each argument.

    :param queue: turns requests into entries, and entries into requests.
    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand.
    :param crawl: gives a seed's request to the engine; by default, the request goes straight to the outbox.
    :ivar finished: measures for how long the whole fleet, including this worker, has had nothing left.
    :ivar last_reply: the frontier's last reply, or None before the first.
    :ivar dropped: the requests of the last exchange that were duplicates, or above a cap.
    :ivar closing: whether the spider closes, so that it asks for no more leases.
    :ivar finishing: whether the spider closes because the fleet is finished.
    :ivar want_by_hand: by hand, how many leases to have ready; None in a crawl, which uses the limits.
    :ivar lost: how many requests were only in this worker's memory, and were not crawled.
    """

    def __init__(
        self,
        crawler: Crawler,
        spider: Spider,
        frontier: Frontier,
        queue: Any,
        dupefilter: Any,
        settings: FrontierSettings,
        engine: EngineBridge | None,
        crawl: Callable[[Request], Any] | None = None,
    ) -> None:
        self.crawler, self.spider, self.frontier = crawler, spider, frontier
        self.queue, self.dupefilter = queue, dupefilter
        self.settings, self.engine = settings, engine
        self.state = state = State(settings)
        self.capacity = limits = Capacity(state, settings)
        self.notices = Notices(crawler.stats, spider.name)
        self._stats: Any = crawler.stats
        fingerprint = load_fingerprints(crawler, dupefilter, settings.seen_cache).of
        self.deny_list = DenyList(self._stats)
        self.needs = Needs(settings.offers, not is_custom(queue), self._stats)
        groups = state.groups
        groups.are_kept, groups.stats = not is_custom(queue), self._stats
        groups.send_signal = self._send_group_finished
        state.pools.are_kept, state.pools.stats = not is_custom(queue), self._stats
        state.record.stats, state.record.worker = self._stats, worker_digest(frontier.worker)
        state.pools.command = frontier_command("pool", spider.name)
        if engine is not None:
            groups.uses_groups = engine.inherit_groups
            if state.pools:
                engine.watch_items(state.pools)
        if state.pools.are_for_worker:
            spider.pool = state.pools.own  # type: ignore[attr-defined]  # for the user's callbacks
        self._intake = Intake(
            *(state, spider, queue, dupefilter, fingerprint, self.notices, engine),
            *(settings.by_slot, self.deny_list, self.needs),
        )
        self.politeness = politeness_of(settings, queue, engine, state.sent)
        frontier.limit_slots(self.politeness.policy)
        state.answers.is_learnt = self.politeness.is_learnt
        self.slot_sync = SlotSync(state, limits, self.politeness, settings, engine)
        self.admission = Admission(state, limits, self.politeness, settings, engine)
        self._handout = Handout(
            *(state, limits, queue, fingerprint, self.notices),
            *(self.politeness, self.admission, self.deny_list, self.needs),
        )
        crawl, refuse = crawl or self.send, self._handout.refuse
        self._seed_expander = SeedExpander(
            state, limits, settings, spider, self._stats, crawl, refuse, engine
        )
        self._farewell = Farewell(crawler, state, settings.lease_timeout)
        self._fullness = Fullness(frontier, state, settings.outbox_size)
        self._bottleneck = Bottleneck(state, limits, self.admission, self._stats)
        self._standstill = Standstill(
            state, limits, self.admission, settings, spider.name, frontier.keys.start_urls
        )
        latencies = Latencies(self.politeness)
        self.outside = OutsideRequests(state.requests, self.politeness, state.clock)
        if engine is not None:
            if self.politeness.backs_off:
                engine.watch_answers(self._hear_answer, state.answers.miss)
            if self.politeness.throttle is not None:
                engine.watch_answers(latencies.hear)
            engine.watch_outcomes(state.record)
            if self.politeness.obeys_crawl_delays and settings.crawl_delay_max:
                hear_crawl_delays(crawler, state.answers.hear_crawl_delay)
            engine.slots.watch(state.requests.coming, state.reached_downloader, state.left_downloader)
            engine.name_end(self._reason_to_end)
            self.outside.call_at = engine.call_at
            self.outside.is_held = state.answers.held.__contains__
            self.outside.is_closing = lambda: self.closing
            self.outside.latency = lambda: limits.latency
            engine.slots.hold = self._hold
            self.deny_list.changed = engine.deny(self.deny_list.refuses, self.outside.refuse)
            gate = StartGate(state, limits, settings, engine)
            engine.holds_start = lambda: not self.closing and gate.holds(self.last_reply)
            state.items.call_soon = engine.soon
            if settings.feed or settings.items == "stream":
                state.items.identify = PageIdentity(fingerprint, filters_in_exchange(dupefilter))
            if settings.items or settings.feed:
                crawler.signals.connect(state.items.scraped, signals.item_scraped)
        self._totals = Totals(crawler, CloseLimits.of(settings))
        # In this order: the leases of a page are released with its pushes, and this worker asks for more
        # when it has said what it has.
        self.parts: tuple[Part, ...] = (
            *(state, state.outbox, state.releases, state.items),
            *(state.start_reports, state.grants, state.answers, state.local_only, state.record),
            *(self.deny_list, self.needs, groups, state.pools, self.slot_sync, self.outside, latencies),
            *(self._totals, self._bottleneck, self),
        )
        self._batches = self._asked = 0
        self._exceeds = False
        self.finished = Stopwatch()
        self.last_reply: Reply | None = None
        self.dropped: list[Request] = []
        self.closing = self.finishing = False
        self.want_by_hand: int | None = None
        self.lost = 0

    # -- called by Scrapy ----------------------------------------------------------------------

    def send(self, request: Request) -> bool:
        """Take *request* for the frontier; return False if this worker knows that it is a duplicate."""
        is_new = self._intake.send(request)
        if is_new:
            self.finished.set(False)
        return is_new

    def take(self) -> Request | None:
        """Return the next request, which the engine then holds, or None."""
        request = self._handout.take()
        if request is not None:
            self._standstill.begun()
            self._stats.inc_value("scheduler/dequeued")
        elif self.engine is not None:
            next_time = self.admission.next_time(time.monotonic())
            if next_time is not None:
                self.engine.wake_at(next_time)
        return request

    def _hear_answer(self, answer: Answer) -> None:
        """Note the answer of a site, unless it is about the item of a pool: that account is too fast."""
        if not self.state.pools.concern(answer.pools, answer.status):
            self.state.answers.hear(answer)

    def _hold(self, request: Request, slot: str) -> Deferred[None] | None:
        """Return a Deferred that fires when *request* may be sent; None if it may be sent now."""
        pools = self.state.pools
        at = pools.may_be_sent_at(request) if pools else 0.0
        if not at or self.engine is None:
            return self.outside.hold(request, slot)
        waits: Deferred[None] = Deferred()
        self.engine.call_at(at, lambda: waits.callback(None))
        return waits.addCallback(lambda _: self.outside.hold(request, slot))

    def _reason_to_end(self) -> str:
        reply = self.last_reply
        return MAX_PAGES if self.finished.is_running and reply is not None and reply.is_capped else ""

    def close(self, finished: bool) -> None:
        """Note that the spider closes; *finished*: because the fleet is finished."""
        self.closing, self.finishing = True, finished
        self._totals.finishing = finished

    # -- called before an exchange -------------------------------------------------------------

    def began(self) -> None:
        """Note that this worker has joined, and requests may begin."""
        self._standstill.begun()

    def sync(self) -> None:
        """Note the requests that the engine has finished since the last call."""
        if self.engine is not None:
            self.state.finish_requests(self.engine.take_finished())

    def prepare(self) -> None:
        """Note the requests that the engine has finished, and give back leases that it will not begin."""
        state = self.state
        if self.engine is not None:
            self.sync()
            state.finish_all_but(self.engine.in_progress())
            if not self.engine.reads_start():
                self._intake.start_is_over()
            self.closing = self.closing or self.engine.closing()
        self.slot_sync.closing = state.grants.closing = state.groups.closing = self.closing
        state.pools.closing = state.record.closing = self.closing
        if self.closing or state.order in (Order.PAUSE, Order.WAIT) or state.pools.holds_back:
            state.give_back()
        state.ready.look_at_stuck()
        state.ready.look_at_loaded()
        self.slot_sync.look()
        state.give_back_late(time.monotonic(), self.settings.lease_timeout / 2)
        if self.closing:
            if is_custom(self.queue):
                while outgoing := state.memory.take_free():
                    self._intake.return_to_queue(outgoing.request)
            self.lost += state.forget_memory()

    def batch(self) -> Batch:
        """Return the batch for the next exchange, and consider it sent. Call :meth:`prepare` first."""
        stands_still = self.admission.stands_still
        self._exceeds = self.closing or stands_still
        self.state.outbox.takes_few = stands_still and not self.closing
        self.state.take_turns()
        self._batches += 1
        batch = Batch(self._batches)
        for part in self.parts:
            part.fill(batch)
        return batch

    def fill(self, batch: Batch) -> None:
        """Put into *batch* what this worker wants, and whether it has anything else to do."""
        state = self.state
        batch.want = 0 if self.capacity.is_full else max(0, self.wanted - self.capacity.at_hand)
        self._asked = batch.want
        batch.want_seeds = self.settings.seed_batch if batch.want else 0
        into_memory = any(not push.payload for push in batch.pushes)
        is_adding = state.in_memory or state.outbox or into_memory or self.outside.count
        batch.busy = self.is_busy or bool(is_adding)
        batch.in_hand = (
            len(state.ready) + len(state.expanding) + state.requests.leased + state.releases.not_sent
        )
        batch.exceed, batch.finishing = self._exceeds, self.finishing

    @property
    def wanted(self) -> int:
        """How many leases to have ready."""
        if self.closing or self.state.order != Order.CRAWL:
            return 0
        most = self.capacity.target if self.want_by_hand is None else self.want_by_hand
        return int(min(most, self.state.pools.most))

    @property
    def is_busy(self) -> bool:
        """Whether this worker may add requests without holding any."""
        return self.engine is not None and self.engine.reads_start()

    # -- called after an exchange, and between exchanges ---------------------------------------

    def tick(self) -> None:
        """Do the regular work between exchanges."""
        if self.engine is None:
            return
        self._seed_expander.go_on()
        if self.engine.closing():
            self.state.items.closing(self.settings.lease_timeout)
            if self.capacity.cut_off:
                self.outside.let_go()
        if self.capacity.tick(self.engine.downloading() + self.outside.count):
            self.engine.wake()
        self._farewell.look(self.engine)
        if not self.closing:
            self._bottleneck.look(self.last_reply, self.engine)
            self._standstill.look(self.last_reply, self.engine)

    def count_error(self) -> None:
        """Count an error of Redis, and continue without it as far as possible."""
        # The last news of the fleet may be out of date.
        self.finished.set(False)
        if not self.capacity.cut_off:
            self.capacity.cut_off = True
            if self.engine is not None:
                self.engine.wake()
        self._stats.inc_value("frontier/redis_errors")

    def withdraw(self, error: Exception | None, items: ItemGroup | None, cause: Exception | None) -> None:
        """Keep from Redis what it cannot take.

        :param error: why the first request of the outbox is crawled from memory; None if it is not.
        :param items: items for which their page is set aside because of *cause*; None if there are none.
        """
        if error is not None:
            self._intake.withdraw_first(error)
        if items is not None and cause is not None:
            self.state.items.refuse_sent(items, cause)

    def apply(self, reply: Reply) -> BatchOutcome:
        """Tell all parts of the *reply*, and return what became of the batch's requests."""
        state, orphans = self.state, list[Lease]()
        if reply.membership == Membership.ROLLED_BACK:
            if reply.lost == ("frontier",):
                orphans = [*state.ready, *state.expanding]
                state.adopt_begun()
            for part in self.parts:
                part.rolled_back()
        elif reply.membership == Membership.EXPIRED:
            state.expired()
        for part in self.parts:
            part.applied(reply)
        state.outbox.outcome.orphans = orphans
        return state.outbox.outcome

    def take_reply(self, reply: Reply, latency: float) -> None:
        """Process the frontier's reply.

        :param latency: seconds that the exchange took.
        """
        state = self.state
        order_before, unbegun = state.order, len(state.ready)
        self.last_reply = reply
        self.capacity.exchanged(latency)
        self.capacity.note_turns(reply, self._asked)
        self._totals.exchanged(latency)
        # A site that cannot be reached is asked by one request at a time from now on: these do not count.
        state.requests.uncount([slot for slot in reply.recalled if not self.politeness.counts(slot)])
        outcome = self.apply(reply)
        if reply.order != order_before:
            self._obey(reply, order_before)
        # First this worker's own state: statistics and signals run foreign code, which may raise exceptions.
        for lease in reply.leases:
            if self.closing:
                state.ready.append(lease)
            elif lease.kind == "request":
                self.slot_sync.take_lease(lease)
        # After the leases of this reply: a repeated exchange brings those that it had before the recall.
        state.give_back_slots(reply.recalled)
        state.use_free_turns()
        self._keep(outcome, reply)
        self._expand_and_drop(outcome.orphans, [] if self.closing else reply.leases)
        self.dropped = [*outcome.duplicates, *(outgoing.request for outgoing in outcome.capped)]
        self._stats.inc_value("frontier/exchanges")
        if reply.items:
            self._stats.inc_value("items/stored", reply.items)
        self.notices.reply(reply, unbegun)
        self.notices.throttled(reply)
        self.notices.backed_off(reply)
        self._fullness.note(reply)
        self._tell_scrapy(outcome)
        state.groups.tell(reply)
        was_finished = self.finished.is_running
        self.finished.set(reply.finished and state.is_quiet)
        news = state.ready or state.memory or self.finished.is_running != was_finished
        idle_is_over = self.finished.seconds >= self.settings.idle_before_close > 0
        if self.engine is not None and (news or idle_is_over or reply.order != order_before):
            self.engine.wake()

    def _obey(self, reply: Reply, before: Order) -> None:
        """Obey a new instruction to all workers, which replaces that of *before*."""
        self._standstill.begun()
        self.notices.order_changed(reply, before)
        if reply.order == Order.STOP and self.engine is not None:
            self.engine.close(reply.stop_reason)

    def _keep(self, outcome: BatchOutcome, reply: Reply) -> None:
        if self.closing and is_custom(self.queue):
            self.lost += len(outcome.kept)  # the queue has refused them, and memory ends with this worker
        else:
            self.admission.to_memory(outcome.kept)
        for request in reply.popped:
            push = Push("force", "", rank(request.priority), b"")
            self.state.memory.append(Outgoing(push, request))

    def _expand_and_drop(self, orphans: list[Lease], leases: list[Lease]) -> None:
        for lease in orphans:
            if lease.kind in ("request", "drop"):
                self._intake.adopt(lease)
            else:
                self._seed_expander.expand(lease)
        for lease in leases:
            if lease.kind == "drop":
                self._drop(lease)
            elif lease.kind != "request":
                self._seed_expander.expand(lease)
        self._seed_expander.go_on()

    def _drop(self, lease: Lease) -> None:
        if (request := self._handout.drop(lease)) is not None:
            self.notices.dropped(request, self.settings.max_waiting)
            self._signal_dropped(request)

    def _tell_scrapy(self, outcome: BatchOutcome) -> None:
        for where, count in (("redis", len(outcome.stored)), ("memory", len(outcome.kept))):
            if count:
                self._stats.inc_value("scheduler/enqueued", count)
                self._stats.inc_value(f"scheduler/enqueued/{where}", count)
        for outgoing in outcome.capped:
            self.state.seen.discard(outgoing.push.fingerprint)
            self.notices.capped(outgoing.push.slot, self.settings.max_pages)
            self._signal_dropped(outgoing.request)
        for request in outcome.duplicates:
            self.notices.filtered(self.dupefilter, request, self.spider)
            self._signal_dropped(request)

    def _send_group_finished(self, name: str, failed: int) -> None:
        """Tell the spider that a group has finished; the frontier knows it when all handlers are done."""
        arguments = {"group": min(names_in(name)), "failed": failed, "spider": self.spider}
        if self.engine is None:
            self.crawler.signals.send_catch_log(group_finished, **arguments)
            self.state.groups.heard(name)
        else:
            self.engine.send(group_finished, arguments, lambda: self.state.groups.heard(name))

    def _signal_dropped(self, request: Request) -> None:
        self.crawler.signals.send_catch_log(signals.request_dropped, request=request, spider=self.spider)
