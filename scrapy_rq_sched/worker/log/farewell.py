"""The log messages of a worker that closes or ends with unfinished requests."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Collection

from scrapy import Request, signals
from scrapy.crawler import Crawler

from ...engine.bridge import EngineBridge
from ...errors import counted
from ..state import State

logger = logging.getLogger(__name__)


class Farewell:
    """Log the requests for which a stop waits, and the cost of not waiting.

    :param lease_timeout: seconds after which the requests of a dead worker go back to the queue.
    """

    def __init__(self, crawler: Crawler, state: State, lease_timeout: float) -> None:
        self._crawler = crawler
        self._state = state
        self._lease_timeout = lease_timeout
        self._is_watching = self._has_logged = False

    def look(self, engine: EngineBridge) -> None:
        """If the spider is being closed, log once how many requests are still being finished."""
        if self._has_logged or not engine.closing():
            return
        if not self._is_watching:
            self._is_watching = True
            # After a second Ctrl-C, the event loop stops without a signal, and the process ends.
            atexit.register(self._cut_short)
            self._crawler.signals.connect(self._closed, signals.spider_closed)
        begun = engine.in_progress()
        if not begun:
            return
        self._has_logged = True
        downloads = engine.downloading()
        logger.info(
            "This worker closes when it has finished %s, %d of them downloads: %s. A second Ctrl-C would end "
            "it at once; its requests then go back to the queue after %g s (FRONTIER_LEASE_TIMEOUT), and are "
            "fetched again",
            *(counted(len(begun), "request"), downloads, self._how_long(begun, downloads)),
            self._lease_timeout,
        )

    def _how_long(self, begun: Collection[Request], downloads: int) -> str:
        settings = self._crawler.settings
        found = (request.meta.get("download_timeout") for request in begun)
        timeouts = [seconds for seconds in found if isinstance(seconds, (int, float))]
        timeout = max(timeouts, default=settings.getfloat("DOWNLOAD_TIMEOUT"))
        # In the worst case, all requests are for one site, and each waits for the one before.
        delay = settings.getfloat("DOWNLOAD_DELAY") * downloads
        causes = "DOWNLOAD_TIMEOUT, and DOWNLOAD_DELAY for each" if delay else "DOWNLOAD_TIMEOUT"
        return f"downloads take at most {timeout + delay:.0f} s ({causes})"

    def _closed(self) -> None:
        atexit.unregister(self._cut_short)

    def _cut_short(self) -> None:
        state = self._state
        in_hand = state.requests.leased + len(state.ready) + state.releases.not_sent
        if in_hand:
            logger.warning(
                "This worker ended without finishing its requests: they go back to the queue %g s after its "
                "last exchange (FRONTIER_LEASE_TIMEOUT), and are fetched again (%s)",
                *(self._lease_timeout, counted(in_hand, "request")),
            )
        if state.in_memory:
            logger.warning(
                "Requests lost, because they were only in the memory of this worker: %d", state.in_memory
            )
