"""What requests need of a worker (``meta["needs"]``), and what this worker offers (``FRONTIER_OFFERS``)."""

from __future__ import annotations

import logging
from typing import Any

from scrapy import Request

from ..codec.names import joined, names_in, shown
from ..codec.needs import NEEDS, needs_of
from ..codec.pools import pool_of
from ..errors import one_line
from ..frontier.replies import Part, Reply

logger = logging.getLogger(__name__)


class Needs(Part):
    """Decides in which lane a request waits, and whether this worker may crawl it.

    :param offers: what this worker offers.
    :param are_kept: whether the queue keeps the lanes apart. A queue of the user's own does not.
    :param stats: Scrapy's statistics collector; ``frontier/needs_refused`` counts the refused requests.
    """

    def __init__(self, offers: frozenset[str], are_kept: bool, stats: Any) -> None:
        self._offers = offers
        self._are_kept = are_kept
        self._stats = stats
        self._has_warned = False
        self._unmet: tuple[str, ...] = ()

    def lane(self, request: Request) -> str:
        """Return the name of the lane of *request*; its needs become a list, so that they can be stored.

        :raises ValueError: if its needs are not valid.
        """
        if NEEDS not in request.meta:
            return ""
        needs = needs_of(request)
        if not self._are_kept:
            self._warn()
            return ""
        if not isinstance(request.meta[NEEDS], (str, list)):
            request.meta[NEEDS] = sorted(needs)
        return joined(needs)

    def lacking(self, request: Request) -> frozenset[str]:
        """Return what *request* needs and this worker does not offer.

        :raises ValueError: if its needs are not valid.
        """
        if NEEDS not in request.meta or not self._are_kept:
            return frozenset()
        return needs_of(request) - self._offers

    def refuses_in_memory(self, request: Request) -> bool:
        """Return whether this worker must not crawl *request*, which is only in its memory; log it if so."""
        lacking = self.lacking(request)
        if lacking:
            needs = f"it needs {shown(lacking)}, which this worker does not offer"
            self.refuse(request, f"it cannot be stored in Redis, and {needs}")
        return bool(lacking)

    def refuse(self, request: Request, problem: str) -> None:
        """Log and count that *request* is dropped, because its needs cannot be kept."""
        self._stats.inc_value("frontier/needs_refused")
        logger.error("%s is dropped: %s", one_line(request), problem)

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                'meta["needs"] is ignored: SCHEDULER_QUEUE_CLASS has its own push or pop, so any worker may '
                "be given any request"
            )

    def _warn_of_pool(self, pool: str) -> None:
        logger.warning(
            "No worker that is alive may have requests that need an item of pool %r: they wait. To have them "
            "crawled, start a worker with this pool in FRONTIER_POOLS, which offers all else that they need",
            one_line(pool),
        )

    def applied(self, reply: Reply) -> None:
        """Log which needs no living worker meets, when that changes."""
        before, self._unmet = self._unmet, reply.unmet
        for lane in self._unmet:
            if lane not in before:
                if pool := pool_of(lane):
                    self._warn_of_pool(pool)
                    continue
                needs = names_in(lane)
                logger.warning(
                    "No worker that is alive offers %s: requests that need it wait. To have them crawled, "
                    "start a worker with FRONTIER_OFFERS = %r",
                    *(one_line(shown(needs)), sorted(needs)),
                )
        for lane in before:
            if lane not in self._unmet:
                logger.info("Requests no longer wait for %s", one_line(shown(names_in(lane))))
