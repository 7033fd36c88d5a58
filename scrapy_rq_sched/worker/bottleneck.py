"""The bottleneck of a worker: politeness, its callbacks, its concurrency, or Redis."""

from __future__ import annotations

import math
import time
from typing import Any

from ..engine.bridge import EngineBridge
from ..frontier.messages import LIMITS, Batch, Limit
from ..frontier.replies import Reply, Told
from .handout import Handout
from .limits import Limits
from .state import State

#: The share of the processor's time from which a process counts as busy.
BUSY = 0.85
#: The time constant of the average, in seconds, and the minimum share of the time that a bottleneck has.
RECENT, MOST = 5.0, 0.5


class Bottleneck:
    """Find out, at every tick, why the next request must wait.

    :param stats: Scrapy's statistics collector; ``frontier/blocked_seconds`` counts the seconds in which all
        waiting requests must wait for their delay.
    """

    def __init__(self, state: State, limits: Limits, handout: Handout, stats: Any) -> None:
        self._state = state
        self._limits = limits
        self._handout = handout
        self._stats = stats
        self._looked = time.monotonic(), time.process_time()
        self._shares: dict[Limit, float] = dict.fromkeys(LIMITS, 0.0)
        self._said: Limit = "none"

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
        cause: Limit = next((known for known, share in self._shares.items() if share >= MOST), "none")
        if cause != self._said:
            batch.limit = self._said = cause

    def _cause(self, reply: Reply | None, engine: EngineBridge, is_busy: bool, now: float) -> Limit:
        if self._limits.cut_off:
            return "redis"
        if reply is None or self._state.told != Told.CRAWL:
            return "none"
        if self._is_blocked(reply, now):
            return "politeness"
        full = engine.backs_out()
        if is_busy or full == "scraper":
            return "callbacks"
        if full == "downloader":
            return "concurrency"
        if self._limits.is_at_its_limit:  # and some of its requests are in callbacks
            return "callbacks"
        waits = not (self._state.ready or self._state.memory) and reply.waiting
        return "redis" if waits or self._limits.is_full or not self._limits.has_capacity else "none"

    def _is_blocked(self, reply: Reply, now: float) -> bool:
        state, limits = self._state, self._limits
        if not limits.has_capacity or limits.is_full:
            return False
        if state.ready or state.memory:
            return self._handout.next_time(now) is not None and not self._handout.has_due(now)
        return bool(reply.waiting and reply.next_turn and state.clock.local(reply.next_turn) > now)
