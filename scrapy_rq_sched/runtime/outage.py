"""What is said while Redis does not answer."""

from __future__ import annotations

import logging
import time
from typing import Any

from ..connection import RedisError, describe_error
from ..errors import one_line

logger = logging.getLogger(__name__)

#: Seconds between two lines on the same outage.
LOG_INTERVAL = 30.0


class Outage:
    """Says when Redis stops answering, while it does not, and when it does again.

    :param server: the client that it does not answer.
    """

    def __init__(self, server: Any) -> None:
        self.failures = 0
        self._server = server
        self._since = 0.0
        self._logged = 0.0

    def failed(self, error: Exception, meanwhile: str) -> None:
        """Note a failed attempt.

        :param meanwhile: what happens until Redis answers again, as the end of a sentence.
        """
        now = time.monotonic()
        if self.failures == 0:
            self._since = now
        if self.failures == 0 or now - self._logged > LOG_INTERVAL:
            self._logged = now
            text = describe_error(self._server, error) if isinstance(error, RedisError) else one_line(error)
            logger.warning("%s. For %.0f s now; %s", text, now - self._since, meanwhile)
        self.failures += 1

    def over(self) -> None:
        """Note a reply."""
        if self.failures:
            logger.warning("Redis answers again after %.1f s", time.monotonic() - self._since)
        self.failures = 0
