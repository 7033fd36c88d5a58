"""The wait of a worker for a place in its fleet: ``FRONTIER_MAX_WORKERS``."""

from __future__ import annotations

import logging
import time
from typing import Any

from ..errors import counted
from ..frontier.client import Waiting
from ..runtime import identity
from ..settings import FrontierSettings

logger = logging.getLogger(__name__)

#: Seconds between two questions of the first worker in line. The n-th worker asks after n times as long, but
#: after :data:`LONGEST` at most. A worker that does not ask for ten seconds loses its place in the line.
INTERVAL, LONGEST = 0.5, 2.5


class Line:
    """A worker's wait for a place in its fleet.

    :param spider: the spider's name.
    :param stats: Scrapy's statistics collector.
    :ivar came: when this worker entered the line, by the frontier's clock; empty if it does not wait.
    :ivar may_flush: whether the frontier may be cleared for this worker: not if other workers used it before.
    :ivar warnings: the warnings to log when this worker has its place.
    """

    def __init__(self, settings: FrontierSettings, spider: str, stats: Any) -> None:
        self._settings = settings
        self._spider = spider
        self._stats = stats
        self._age = identity.age()
        self._since = time.monotonic()
        self._place = 0
        self.came = ""
        self.may_flush = settings.flush_on_start
        self.warnings: list[str] = []

    @property
    def age(self) -> float:
        """Seconds since this worker was started, including its wait in line.

        The crawl that it was started for may be finished by now.
        """
        return self._age + time.monotonic() - self._since

    def wait(self, found: Waiting) -> float:
        """Note and log that there is no place yet; return in how many seconds to ask again."""
        self.came = found.came
        self.may_flush = self.may_flush and not found.others
        if not self._place:
            logger.info(
                "This worker waits for a place in the fleet of spider %r: %s running, and "
                "FRONTIER_MAX_WORKERS is %d. It is number %d in line",
                *(self._spider, counted(found.taken, "worker is", "workers are")),
                *(self._settings.max_workers, found.place),
            )
        elif found.place != self._place:
            logger.info("This worker is number %d in line for a place", found.place)
        self._place = found.place
        pause = min(INTERVAL * found.place, LONGEST, self._settings.lease_timeout / 4)
        return min(pause, found.free_in + 0.01) if found.place == 1 and found.free_in else pause

    def joined(self) -> None:
        """Log how long this worker has waited, if it has."""
        if self._place:
            waited = time.monotonic() - self._since
            self._stats.set_value("frontier/in_line_seconds", round(waited, 3))
            logger.info("This worker has a place after %.0f s in line", waited)
