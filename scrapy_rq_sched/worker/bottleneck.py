"""What keeps a worker from going faster: politeness, its callbacks, its concurrency, or Redis."""

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

#: From this share of the processor's time a process has no time for more.
BUSY = 0.85
#: Seconds of which the recent ones count most, and the share of them that something has to have.
RECENT, MOST = 5.0, 0.5


class Bottleneck:
    """Looks from moment to moment what the next request waits for.

    :param stats: Scrapy's statistics collector; ``frontier/blocked_seconds`` counts those in which all that
        waits has to wait for its time.
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
        """Count the time since the last look for what keeps this worker waiting now."""
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
        """Put what it was in the last seconds into *batch*, if that has changed."""
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
        if self._limits.is_at_its_limit:  # and not all of it is being downloaded
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
