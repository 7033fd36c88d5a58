"""One worker's part in a crawl: what Scrapy asks of it on one side, what the exchange says on the other.

Neither side waits for the other, nor for Redis. When there is an exchange, ``exchange_loop.py`` says; how it
is made, the frontier's client.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler

from ..engine.bridge import EngineBridge
from ..engine.components import is_custom, load_fingerprints
from ..frontier.client import Frontier
from ..frontier.close_limits import CloseLimits
from ..frontier.messages import Batch, Push, rank
from ..frontier.replies import Lease, Reply, Told
from ..runtime.identity import Stopwatch
from ..settings import FrontierSettings
from .bottleneck import Bottleneck
from .handout import Handout
from .intake import Intake
from .limits import Limits
from .log.farewell import Farewell
from .log.fullness import Fullness
from .log.notices import Notices
from .log.standstill import Standstill
from .outbox import Outgoing
from .politeness import politeness_of
from .settled import Settled
from .slot_talk import SlotTalk
from .sower import Sower
from .start_gate import StartGate
from .state import State
from .totals import Totals


class Session:
    """A worker of a frontier, from when it joins until it leaves.

    It has an attribute for each of its parts, and one for each of what it is made with: hence so many.

    :param queue: makes entries of requests, and requests of entries.
    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand.
    :param crawl: what gives a seed's request to the engine; by default it goes straight to the outbox.
    :ivar finished: for how long the whole fleet has had nothing left, nor this worker.
    :ivar last_reply: the frontier's last reply, or None before the first.
    :ivar duplicates: the requests of the last exchange that were duplicates.
    :ivar closing: whether the spider closes; nothing more is wanted then.
    :ivar finishing: whether it closes because the fleet is finished.
    :ivar want_by_hand: by hand, how many leases to ask for; in a crawl, as many as are used.
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
        self.limits = limits = Limits(state, settings)
        self.notices = Notices(crawler.stats, spider.name)
        self._stats: Any = crawler.stats
        fingerprint = load_fingerprints(crawler, dupefilter, settings.seen_cache).of
        self._intake = Intake(
            state, spider, queue, dupefilter, fingerprint, self.notices, engine, settings.by_slot
        )
        self.politeness = politeness_of(settings, queue, engine, state.turns)
        frontier.limit_slots(self.politeness.default)
        self.slot_talk = SlotTalk(state, limits, self.politeness, settings, engine, self.notices)
        self._handout = Handout(
            state, limits, queue, fingerprint, self.notices, engine, self.politeness, settings
        )
        crawl, refuse = crawl or self.send, self._handout.refuse
        self._sower = Sower(state, limits, settings, spider, self._stats, crawl, refuse, engine)
        self._farewell = Farewell(crawler, state, settings.lease_timeout)
        self._fullness = Fullness(frontier, state, settings.outbox_size)
        self._bottleneck = Bottleneck(state, limits, self._handout, self._stats)
        self._standstill = Standstill(state, limits, settings, spider.name, frontier.keys.start_urls)
        if engine is not None:
            gate = StartGate(state, limits, settings, engine)
            engine.holds_start = lambda: not self.closing and gate.holds(self.last_reply)
        self._totals = Totals(crawler, CloseLimits.of(settings))
        self.finished = Stopwatch()
        self.last_reply: Reply | None = None
        self.duplicates: list[Request] = []
        self.closing = self.finishing = False
        self.want_by_hand: int | None = None
        self.lost = 0

    # -- what Scrapy asks ----------------------------------------------------------------------

    def send(self, request: Request) -> bool:
        """Take *request* for the frontier; return False if it is known to be a duplicate."""
        is_new = self._intake.send(request)
        if is_new:
            self.finished.set(False)
        return is_new

    def take(self) -> Request | None:
        """Return the next request, now the engine's, or None."""
        request = self._handout.take()
        if request is not None:
            self._standstill.begun()
            self._stats.inc_value("scheduler/dequeued")
        elif self.engine is not None:
            next_time = self._handout.next_time(time.monotonic())
            if next_time is not None:
                self.engine.wake_at(next_time)
        return request

    def close(self, finished: bool) -> None:
        """Take note that the spider closes; *finished*: because the fleet is."""
        self.closing, self.finishing = True, finished

    # -- what the exchange asks ----------------------------------------------------------------

    def began(self) -> None:
        """Take note that this worker has joined, and requests may be begun."""
        self._standstill.begun()

    def prepare(self) -> None:
        """Find out what the engine is through with, and give back what it will not begin."""
        state = self.state
        if self.engine is not None:
            state.finish_all_but(self.engine.in_progress())
            if not self.engine.reads_start():
                self._intake.start_is_over()
            self.closing = self.closing or self.engine.closing()
        if self.closing or state.told in (Told.PAUSE, Told.WAIT):
            state.give_back()
        self.slot_talk.look()
        state.give_back_late(time.monotonic(), self.settings.lease_timeout / 2)
        if self.closing:
            if is_custom(self.queue):
                while outgoing := state.memory.take_free():
                    self._intake.return_to_queue(outgoing.request)
            self.lost += state.forget_memory()

    def batch(self) -> Batch:
        """Return what there is to say now, and consider it said; :meth:`prepare` comes before."""
        state, stands_still = self.state, self.limits.stands_still
        sent = state.outbox.take(few=stands_still and not self.closing)
        want = 0 if self.limits.is_full else max(0, self.wanted - self.limits.at_hand)
        batch = state.batch(
            sent,
            want=want,
            want_seeds=self.settings.seed_batch if want else 0,
            busy=self.is_busy,
            exceed=self.closing or stands_still,
            finishing=self.finishing,
        )
        self.slot_talk.fill(batch, self.closing)
        self._totals.fill(batch)
        self._bottleneck.fill(batch)
        return batch

    @property
    def wanted(self) -> int:
        """How many leases to have at hand."""
        if self.closing or self.state.told != Told.CRAWL:
            return 0
        return self.limits.target if self.want_by_hand is None else self.want_by_hand

    @property
    def is_busy(self) -> bool:
        """Whether this worker may add requests without holding any."""
        return self.engine is not None and self.engine.reads_start()

    # -- what the exchange tells ---------------------------------------------------------------

    def tick(self) -> None:
        """Take note that a moment has passed."""
        if self.engine is None:
            return
        self._sower.go_on()
        if self.limits.tick(self.engine.downloading()):
            self.engine.wake()
        self._farewell.look(self.engine)
        if not self.closing:
            self._bottleneck.look(self.last_reply, self.engine)
            self._standstill.look(self.last_reply, self.engine)

    def count_error(self) -> None:
        """Count an error of Redis, and do what can be done without it."""
        # Whatever Redis said of the fleet no longer holds.
        self.finished.set(False)
        if not self.limits.cut_off:
            self.limits.cut_off = True
            if self.engine is not None:
                self.engine.wake()
        self._stats.inc_value("frontier/redis_errors")

    def withdraw_first(self, error: Exception) -> None:
        """Crawl the first request of the outbox from memory, because it cannot be sent to Redis."""
        self._intake.withdraw_first(error)

    def take_reply(self, reply: Reply, latency: float, said: int | None = None) -> None:
        """Take in what the frontier answered.

        :param latency: seconds that the exchange took.
        :param said: how many of the batch's pushes the exchange carried, if not all.
        """
        state = self.state
        told_before, unbegun = state.told, len(state.ready)
        self.last_reply = reply
        self.limits.exchanged(latency)
        self._totals.exchanged(latency)
        settled = state.settle(reply, said)
        if reply.told != told_before:
            self._obey(reply)
        # All that is this worker's first: statistics and signals run others' code, which may raise.
        self.slot_talk.take_reply(reply)
        for lease in reply.leases:
            if self.closing:
                state.ready.append(lease)
            elif lease.kind == "request":
                self.slot_talk.take_lease(lease)
        self._keep(settled, reply)
        self._sow_and_drop(settled.orphans, [] if self.closing else reply.leases)
        self.duplicates = settled.duplicates
        self._stats.inc_value("frontier/exchanges")
        self.notices.reply(reply, unbegun)
        self._fullness.note(reply)
        self._tell_scrapy(settled)
        was_finished = self.finished.is_running
        self.finished.set(reply.finished and state.is_quiet)
        news = state.ready or state.memory or self.finished.is_running != was_finished
        idle_is_over = self.finished.seconds >= self.settings.idle_before_close > 0
        if self.engine is not None and (news or idle_is_over or reply.told != told_before):
            self.engine.wake()

    def _obey(self, reply: Reply) -> None:
        """Take note that all workers are told something else than before."""
        self._standstill.begun()
        self.notices.told(reply)
        if reply.told == Told.STOP and self.engine is not None:
            self.engine.close(reply.stop_reason)

    def _keep(self, settled: Settled, reply: Reply) -> None:
        if self.closing and is_custom(self.queue):
            self.lost += len(settled.kept)  # the queue has refused them: there is no other place
        else:
            self.slot_talk.to_memory(settled.kept)
        for request in reply.popped:
            push = Push("force", "", rank(request.priority), b"")
            self.state.memory.append(Outgoing(push, request))

    def _sow_and_drop(self, orphans: list[Lease], leases: list[Lease]) -> None:
        for lease in orphans:
            if lease.kind in ("request", "drop"):
                self._intake.adopt(lease)
            else:
                self._sower.sow(lease)
        for lease in leases:
            if lease.kind == "drop":
                self._drop(lease)
            elif lease.kind != "request":
                self._sower.sow(lease)
        self._sower.go_on()

    def _drop(self, lease: Lease) -> None:
        if (request := self._handout.drop(lease)) is not None:
            self.notices.dropped(request, self.settings.max_waiting)
            self._signal_dropped(request)

    def _tell_scrapy(self, settled: Settled) -> None:
        for where, count in (("redis", len(settled.stored)), ("memory", len(settled.kept))):
            if count:
                self._stats.inc_value("scheduler/enqueued", count)
                self._stats.inc_value(f"scheduler/enqueued/{where}", count)
        for request in settled.duplicates:
            self.notices.filtered(self.dupefilter, request, self.spider)
            self._signal_dropped(request)

    def _signal_dropped(self, request: Request) -> None:
        self.crawler.signals.send_catch_log(signals.request_dropped, request=request, spider=self.spider)
