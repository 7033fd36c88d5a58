"""Reports of a worker about itself: which slots it needs, how much it does, what keeps it from doing more.

The bottleneck of a worker is politeness, its callbacks, its concurrency, or Redis.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler

from ..engine.bridge import EngineBridge
from ..frontier.close_limits import CloseLimits
from ..frontier.exchange_times import ExchangeTimes
from ..frontier.messages import BOTTLENECKS, Batch, BottleneckName
from ..frontier.replies import AT_ONCE, Lease, Order, Part, Reply
from ..settings import FrontierSettings
from .admission import Admission, Capacity
from .ready import Cause
from .slots import Politeness
from .state import State

#: Seconds between two reports of how long exchanges took.
INTERVAL = 5.0


class Totals(Part):
    """Count exchanges, and responses, items and errors of callbacks, as Scrapy's ``CloseSpider`` does.

    :param crawler: its signals are counted.
    :param limits: when the fleet closes; without limits, only exchanges are counted.
    :ivar finishing: whether this worker closes because the fleet is finished, so that this batch is the last.
    """

    def __init__(self, crawler: Crawler, limits: CloseLimits) -> None:
        self._counts: Counter[str] = Counter()
        self._times = ExchangeTimes()
        self._reported_at = time.monotonic()
        self.finishing = False
        connect = crawler.signals.connect
        # Signals reference their receivers weakly, so this object keeps a reference.
        self._receivers = [
            self._count(connect, signal, name)
            for signal, name in (
                (signals.response_received, "pagecount"),
                (signals.item_scraped, "itemcount"),
                (signals.spider_error, "errorcount"),
            )
            if any(limits)
        ]

    def _count(self, connect: Any, signal: Any, name: str) -> Any:
        def count() -> None:
            self._counts[name] += 1

        connect(count, signal)
        return count

    def exchanged(self, latency: float) -> None:
        """Count an exchange that took *latency* seconds."""
        self._times.add(latency)

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.counted = dict(self._counts)
        self._counts.clear()
        now = time.monotonic()
        if now - self._reported_at >= INTERVAL or self.finishing:
            batch.times, self._reported_at = self._times.take(), now


#: The share of the processor's time from which a process counts as busy.
BUSY = 0.85
#: The blocks that end with a reply of Redis.
OF_REDIS = frozenset({Cause.ROOM, Cause.SILENCE, Cause.UNRELEASED, Cause.RELEASE})
#: The time constant of the average, in seconds, and the minimum share of the time that a bottleneck has.
RECENT, MOST = 5.0, 0.5


class Bottleneck(Part):
    """Find out, at every tick, why the next request must wait.

    :param stats: Scrapy's statistics collector; ``frontier/blocked_seconds`` counts the seconds in which all
        waiting requests must wait for their delay.
    """

    def __init__(self, state: State, capacity: Capacity, admission: Admission, stats: Any) -> None:
        self._state = state
        self._capacity = capacity
        self._admission = admission
        self._stats = stats
        self._looked = time.monotonic(), time.process_time()
        self._shares: dict[BottleneckName, float] = dict.fromkeys(BOTTLENECKS, 0.0)
        self._reported: BottleneckName = "none"

    def look(self, reply: Reply | None, engine: EngineBridge) -> None:
        """Count the time since the last look for the present bottleneck."""
        now, cpu = time.monotonic(), time.process_time()
        elapsed = now - self._looked[0]
        is_busy = cpu - self._looked[1] > BUSY * elapsed
        self._looked = now, cpu
        cause = self._cause(reply, engine, is_busy, now)
        if cause == "politeness":
            self._stats.inc_value("frontier/blocked_seconds", elapsed)
        weight = 1 - math.exp(-elapsed / RECENT)
        for known, share in self._shares.items():
            self._shares[known] = share + weight * ((known == cause) - share)

    def fill(self, batch: Batch) -> None:
        """Put the bottleneck of the last seconds into *batch*, if it has changed."""
        cause: BottleneckName = next(
            (known for known, share in self._shares.items() if share >= MOST), "none"
        )
        if cause != self._reported:
            batch.bottleneck = self._reported = cause

    def _cause(self, reply: Reply | None, engine: EngineBridge, is_busy: bool, now: float) -> BottleneckName:
        if self._capacity.cut_off:
            return "redis"
        if reply is None or self._state.order not in (Order.CRAWL, Order.ITEM):
            return "none"
        block = self._admission.block(now)
        cause = None if block is None else block.cause
        is_empty = cause is Cause.EMPTY and reply.waiting
        if cause is Cause.ITEM or self._state.order == Order.ITEM:
            return "pool"
        if cause in (Cause.TIME, Cause.ANSWER):
            return "politeness"
        if is_empty and reply.why:
            return reply.why if reply.why in ("needs", "pool") else "politeness"  # type: ignore[return-value]
        full = engine.backs_out()
        if is_busy or full == "scraper":
            return "callbacks"
        if full == "downloader":
            return "concurrency"
        if cause is Cause.CAPACITY:  # some of its requests are in callbacks
            return "callbacks"
        return "redis" if is_empty or cause in OF_REDIS else "none"


class SlotSync(Part):
    """Report the slots with enough requests, the turns that this worker needs, and the limits of slots.

    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand.
    :ivar closing: whether the spider closes, so that no more turns are needed.
    """

    def __init__(
        self,
        state: State,
        capacity: Capacity,
        politeness: Politeness,
        settings: FrontierSettings,
        engine: EngineBridge | None,
    ) -> None:
        self._state = state
        self._capacity = capacity
        self._politeness = politeness
        # The maximum of leases of saturated slots that this worker holds back from other workers.
        self._most_held = settings.prefetch
        self._engine = engine
        self._limits_changed: str | None = None
        self.closing = False

    def asks(self) -> dict[str, int]:
        """Return how many turns this worker needs for requests in its memory, by slot."""
        if self._state.order.begins_nothing:
            return {}
        return self._state.memory.asks(self._capacity.target)

    def look(self) -> None:
        """Find the saturated slots. Call it before counting the ready leases.

        For a saturated slot, the downloader has its maximum of requests, and more leases are ready here.
        They must not count as ready: the requests of a slow host would keep the worker from all other hosts.
        """
        if self._engine is None:
            return
        ready, load = self._state.ready, self._engine.slots.load
        slots = (head.lease.slot for head in ready.heads())
        stuck = {slot: ready.count(slot) for slot in slots if slot and load(slot) is None}
        if sum(stuck.values()) < max(1, self._capacity.target // 2):
            # Of a slot with a delay, one turn that cannot be used is enough: others could use the next turn.
            stuck = {slot: count for slot, count in stuck.items() if self._politeness.gap_of(slot)}
        ready.set_saturated(stuck if sum(stuck.values()) <= self._most_held else ())

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.ahead = round(1000 * self._capacity.ahead)
        batch.is_late = self._capacity.is_held_up
        batch.saturated = self._state.ready.saturated
        batch.caps = self._politeness.caps(push.slot for push in batch.pushes)
        batch.asks = {} if self.closing else self.asks()

    def applied(self, reply: Reply) -> None:
        """Note the limits, the turns and the server's time in *reply*."""
        state = self._state
        self._politeness.take_reply(reply)
        if self._limits_changed not in (None, reply.limits_changed):
            # Requests that were leased before, without a time, may have to wait now.
            state.give_back()
        self._limits_changed = reply.limits_changed
        if reply.now is not None:
            state.clock.note(reply.sent, reply.received, reply.now)
        turns = Counter(lease.slot for lease in reply.leases if lease.begin)
        turns.update({slot: len(times) for slot, times in reply.given.items()})
        state.grants.given(turns)
        given = {slot: map(self._local, times) for slot, times in reply.given.items()}
        state.grants.unused(state.memory.give(given))

    def take_lease(self, lease: Lease) -> None:
        """Make the *lease* of a request ready."""
        self._state.ready.append(lease, self._local(lease.begin))

    def _local(self, begin: float) -> float:
        """Return the local time of a turn at *begin*, in the server's milliseconds; 0: at once."""
        return self._state.clock.local(begin) if begin > AT_ONCE else 0.0
