"""The bottleneck of a worker: politeness, its callbacks, its concurrency, or Redis."""

from __future__ import annotations

import math
import time
from typing import Any

from ..engine.bridge import EngineBridge
from ..frontier.messages import BOTTLENECKS, Batch, BottleneckName
from ..frontier.replies import Order, Reply
from .admission import Admission
from .block import Cause
from .capacity import Capacity
from .part import Part
from .state import State

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
        if reply is None or self._state.order != Order.CRAWL:
            return "none"
        block = self._admission.block(now)
        cause = None if block is None else block.cause
        is_empty = cause is Cause.EMPTY and reply.waiting
        if cause is Cause.TIME:
            return "politeness"
        if is_empty and reply.why:
            return "politeness"
        full = engine.backs_out()
        if is_busy or full == "scraper":
            return "callbacks"
        if full == "downloader":
            return "concurrency"
        if cause is Cause.CAPACITY:  # some of its requests are in callbacks
            return "callbacks"
        return "redis" if is_empty or cause in OF_REDIS else "none"
