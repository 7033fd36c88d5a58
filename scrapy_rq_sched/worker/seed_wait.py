"""The wait for a seed: an idle worker notices a seed when it is pushed, not at the next exchange."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..errors import one_line
from ..frontier.client import Frontier
from ..runtime.background import BackgroundThread
from ..runtime.event_loop import EventLoop
from ..servers.failures import ResponseError

logger = logging.getLogger(__name__)

#: Seconds that one wait for a seed lasts at most.
SEED_WAIT = 1.0
#: Seconds until the next attempt, if Redis has refused to wait.
SEED_WAIT_AGAIN = 60.0


class SeedWait:
    """Wait for a seed, in a separate thread.

    :param over: called at the end of a wait, with whether there is a seed.
    """

    def __init__(self, frontier: Frontier, loop: EventLoop, over: Callable[[bool], None]) -> None:
        self._frontier = frontier
        self._thread = BackgroundThread("frontier-seeds", loop)
        self._over = over
        self._is_waiting = False
        self._not_before = 0.0

    def begin(self) -> None:
        """Begin to wait, unless a wait is going on, or Redis has recently refused it."""
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
        # Any other error is an outage, which the exchanges log.
        if error is None:
            self._over(came)
