"""For how long a worker had nothing to begin because all that waits has to wait for its time."""

from __future__ import annotations

import time
from typing import Any

from ..frontier.replies import Reply, Told
from .handout import Handout
from .limits import Limits
from .state import State


class BlockedTime:
    """Counts the seconds in ``frontier/blocked_seconds``.

    :param stats: Scrapy's statistics collector.
    """

    def __init__(self, state: State, limits: Limits, handout: Handout, stats: Any) -> None:
        self._state = state
        self._limits = limits
        self._handout = handout
        self._stats = stats
        self._looked = time.monotonic()

    def look(self, reply: Reply | None) -> None:
        """Count the time since the last look, if nothing can be begun now."""
        now = time.monotonic()
        elapsed, self._looked = now - self._looked, now
        if self._is_blocked(reply, now):
            self._stats.inc_value("frontier/blocked_seconds", elapsed)

    def _is_blocked(self, reply: Reply | None, now: float) -> bool:
        state, limits = self._state, self._limits
        could_begin = limits.has_capacity and not limits.is_full and not limits.cut_off
        if reply is None or not could_begin or state.told != Told.CRAWL:
            return False
        if state.ready or state.memory:
            return self._handout.next_time(now) is not None and not self._handout.has_due(now)
        return bool(reply.waiting and reply.next_turn and state.clock.local(reply.next_turn) > now)
