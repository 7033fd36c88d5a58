"""What is said while Redis does not answer."""

from __future__ import annotations

import logging
import time

from .connection import RedisError, describe_error
from .frontier import Frontier
from .worker import Worker

logger = logging.getLogger(__name__)

#: Seconds between two lines on the same outage.
LOG_INTERVAL = 30.0


class Outage:
    """Says when Redis stops answering, while it does not, and when it does again."""

    def __init__(self, frontier: Frontier) -> None:
        self.failures = 0
        self._frontier = frontier
        self._since = 0.0
        self._logged = 0.0

    def failed(self, error: Exception, worker: Worker) -> None:
        """Note a failed exchange."""
        now = time.monotonic()
        if self.failures == 0:
            self._since = now
        if self.failures == 0 or now - self._logged > LOG_INTERVAL:
            self._logged = now
            text = describe_error(self._frontier.server, error) if isinstance(error, RedisError) else error
            logger.warning(
                "%s. For %.0f s now; the crawl goes on with the %d requests in hand, and tries again",
                text,
                now - self._since,
                len(worker.ready) + len(worker.held),
            )
        self.failures += 1

    def over(self) -> None:
        """Note a reply."""
        if self.failures:
            logger.warning("Redis answers again after %.1f s", time.monotonic() - self._since)
        self.failures = 0
