"""The log lines of an outage of Redis."""

from __future__ import annotations

import logging
import time
from typing import Any

from ..connection import RedisError, describe_error
from ..errors import one_line

logger = logging.getLogger(__name__)

#: Seconds between two log lines about the same outage.
LOG_INTERVAL = 30.0


class Outage:
    """Log the beginning, the duration and the end of an outage.

    :param server: the client that gets no answers.
    """

    def __init__(self, server: Any) -> None:
        self.failures = 0
        self._server = server
        self._since = 0.0
        self._logged = 0.0

    def failed(self, error: Exception, meanwhile: str) -> None:
        """Note a failed attempt.

        :param meanwhile: the end of the log line: how this worker continues until Redis answers again.
        """
        now = time.monotonic()
        if self.failures == 0:
            self._since = now
        if self.failures == 0 or now - self._logged > LOG_INTERVAL:
            self._logged = now
            text = describe_error(self._server, error) if isinstance(error, RedisError) else one_line(error)
            lasts = f"lasted {now - self._since:.0f} s" if self.failures else "just begun"
            logger.warning("%s. This has %s; %s", text, lasts, meanwhile)
        self.failures += 1

    def over(self) -> None:
        """Note a reply: the outage is over."""
        if self.failures:
            logger.warning("Redis answers again after %.1f s", time.monotonic() - self._since)
        self.failures = 0
