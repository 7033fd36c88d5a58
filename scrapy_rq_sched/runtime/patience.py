"""The attempts of a worker to join while Redis is starting, or after a lost reply."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..connection import backoff, may_pass
from ..errors import RedisUnreachableError
from .event_loop import EventLoop

logger = logging.getLogger(__name__)

#: Seconds between two attempts, at most.
LONGEST_WAIT = 2.0


class JoinRetry:
    """Repeat an attempt for a limited time, and log this once.

    :param seconds: for how long: ``FRONTIER_JOIN_TIMEOUT``.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._failures = 0
        self._backoff = backoff(LONGEST_WAIT)
        self._loop = EventLoop()

    def again(self, error: Exception, attempt: Callable[[], None]) -> bool:
        """Schedule another *attempt* after *error*; return False if the time is over or it cannot help."""
        passes = isinstance(error, RedisUnreachableError) and may_pass(error.__cause__)
        wait = self._backoff.compute(self._failures)
        if not passes or time.monotonic() + wait > self._until:
            return False
        if self._failures == 0:
            logger.warning(
                "This worker cannot join yet: %s. It keeps trying for %g s (FRONTIER_JOIN_TIMEOUT)",
                *(error, self._seconds),
            )
        self._failures += 1
        self._loop.call_later(wait, attempt)
        return True
