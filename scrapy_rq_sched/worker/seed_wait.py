"""The wait for a seed: an idle worker hears of one when it is pushed, not when it next asks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..connection import ResponseError
from ..engine.event_loop import EventLoop
from ..errors import one_line
from ..frontier.client import Frontier
from ..runtime.background import BackgroundThread

logger = logging.getLogger(__name__)

#: Seconds that the wait for a seed lasts at the most, before it is begun anew.
SEED_WAIT = 1.0
#: Seconds after which it is tried again, where Redis did not wait for one.
SEED_WAIT_AGAIN = 60.0


class SeedWait:
    """Waits for a seed, in a thread of its own.

    :param over: told, when a wait is over, whether there is a seed.
    """

    def __init__(self, frontier: Frontier, loop: EventLoop, over: Callable[[bool], None]) -> None:
        self._frontier = frontier
        self._thread = BackgroundThread("frontier-seeds", loop)
        self._over = over
        self._is_waiting = False
        self._not_before = 0.0

    def begin(self) -> None:
        """Wait, unless that is going on, or Redis has refused it a moment ago."""
        if self._is_waiting or time.monotonic() < self._not_before:
            return
        self._is_waiting = True
        self._thread.call(lambda: self._frontier.wait_for_seed(SEED_WAIT), self._ended)

    def close(self) -> None:
        """End the thread."""
        self._thread.stop()

    def _ended(self, came: bool, error: Exception | None) -> None:
        self._is_waiting = False
        if isinstance(error, ResponseError):
            reason = one_line(error)
            logger.info(
                "This worker polls for seeds, because Redis refuses the command that waits for them: %s",
                reason,
            )
            self._not_before = time.monotonic() + SEED_WAIT_AGAIN
        # Else it is an outage: the exchanges meet it too, and say so.
        if error is None:
            self._over(came)
