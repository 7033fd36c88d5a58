"""What a worker says of the frontier, in the log and in the statistics."""

from __future__ import annotations

import logging
import re
from typing import Any

from scrapy import Request, Spider

from ... import connection
from ...engine.components import filters_in_exchange, is_custom
from ...errors import one_line
from ...frontier.client import Frontier, Opened
from ...frontier.close_limits import CLOSED_BY
from ...frontier.replies import Reply, Standing, Told
from ..shares import Shares

logger = logging.getLogger(__name__)

#: Different causes that are warned of; a spider may make a million of them.
MOST_WARNINGS = 100


def joined(frontier: Frontier, opened: Opened) -> None:
    """Say what a worker found when it joined."""
    logger.info(
        "Worker %s joined the frontier of spider %r at %s: %d requests waiting, %d leased, %d seen, "
        "%d seeds, %d workers",
        *(frontier.worker, frontier.keys.spider, connection.address(frontier.server), opened.waiting),
        *(opened.leased, opened.seen, opened.seeds, opened.workers),
    )
    if opened.waiting:
        logger.info("Resuming crawl (%d requests scheduled)", opened.waiting)


def from_before(frontier: Frontier, opened: Opened) -> None:
    """Say what an earlier crawl has left that this one may miss or not expect."""
    spider = frontier.keys.spider
    is_alone = opened.waiting + opened.leased + opened.seeds == 0 and opened.workers == 1
    if opened.seen and is_alone:
        logger.warning(
            "%d URLs were seen by an earlier crawl of spider %r, and are kept (SCHEDULER_PERSIST, or it was "
            "stopped): this crawl does not fetch them again. To crawl everything again, start with "
            "SCHEDULER_FLUSH_ON_START = True, or run: scrapy frontier clear %s",
            *(opened.seen, spider, spider),
        )
    if opened.unshared:
        logger.warning(
            "Workers of this crawl have found %d requests that could not be kept in Redis. Those that they "
            "had not crawled when they were stopped are lost, unless a page links to them again. To crawl "
            "everything again, start with SCHEDULER_FLUSH_ON_START = True",
            opened.unshared,
        )
    failed_list(frontier, opened.failed)


def failed_list(frontier: Frontier, entries: int) -> None:
    """Say that something was set aside, if something was."""
    if entries:
        logger.warning(
            "%d requests or seeds of spider %r are in the failed list and are not crawled. To see why: "
            "scrapy frontier failed %s",
            *(entries, frontier.keys.spider, frontier.keys.spider),
        )


def last_word(shares: Shares) -> None:
    """Say at the end that much could not be shared, if it could not."""
    if shares.are_many:
        logger.error("%s", shares)


def weaker_guarantees(queue: Any, dupefilter: Any) -> None:
    """Say what components of the user's own cannot promise."""
    if is_custom(queue):
        logger.warning(
            "SCHEDULER_QUEUE_CLASS is %s, which pushes and pops by itself: nothing is leased, and what "
            "a killed worker had popped is lost",
            type(queue).__name__,
        )
    if not filters_in_exchange(dupefilter):
        logger.warning(
            "DUPEFILTER_CLASS is %s: it filters by itself, on the event loop, and not in the step "
            "that queues: a crash may leave a URL seen and not queued",
            type(dupefilter).__name__,
        )


class Notices:
    """What is said in the course of a crawl.

    :param stats: Scrapy's statistics collector.
    :param spider: the spider's name.
    """

    def __init__(self, stats: Any, spider: str) -> None:
        self._spider = spider
        self._stats = stats
        self._warned: set[str] = set()
        self._log_raised = False

    def reply(self, reply: Reply, unbegun: int) -> None:
        """Say what is worth saying of *reply*.

        :param unbegun: how many leases this worker had not begun before it.
        """
        if reply.standing == Standing.REWOUND and reply.epoch and not reply.lost:
            self._stats.inc_value("frontier/rewound")
            logger.warning(
                "Redis came back with older data than it had (a crash, a failover). What this worker held is "
                "in the queue again, and what had come of it since is crawled again"
            )
        elif reply.standing == Standing.LOST:
            self._stats.inc_value("frontier/lost")
            logger.warning(
                "This worker was silent for longer than FRONTIER_LEASE_TIMEOUT and counted as dead: "
                "the %d requests that it had not begun are no longer its own",
                unbegun,
            )
        if reply.dead:
            self._stats.inc_value("frontier/reclaimed", reply.returned)
            logger.warning(
                "Workers that died: %s. %d requests that they held went back to the queue",
                *(one_line(", ".join(reply.dead)), reply.returned),
            )
        if reply.set_aside:
            self._stats.inc_value("frontier/failed", reply.set_aside)
            logger.error("%d requests or seeds were set aside in the failed list", reply.set_aside)
        if reply.forgotten:
            self._stats.inc_value("frontier/failed/forgotten", reply.forgotten)
            logger.error(
                "The failed list is at FRONTIER_MAX_FAILED: its %d oldest entries are gone", reply.forgotten
            )
        if reply.garbage:
            key = one_line(reply.garbage)
            logger.error(
                "Something wrote a value of another type where requests of a slot wait. It is at %r now, and "
                "the crawl goes on; requests that were there are lost. To delete it: redis-cli del %s",
                key,
                key,
            )
        if not reply.replicated:
            self.warn_once(
                "replicas",
                "What was pushed is not on as many replicas as FRONTIER_WAIT_REPLICAS asks for: until it is, "
                "the pages that led to it are not released, and the crawl slows down",
            )
        if reply.lost:
            self._lost(reply.lost)
        if reply.seeds_problem:
            self.warn_once(
                "seeds",
                "The seeds' key is a %s, where a list, a set or a sorted set is needed: %s is not read",
                *map(one_line, reply.seeds_problem),
            )

    def kept_from_redis(self, request: Request, reason: str) -> None:
        """Say that *request* is crawled from this worker's memory."""
        self._stats.inc_value("scheduler/unserializable")
        self.warn_once(
            reason,
            "%s cannot be kept in Redis: %s. It is crawled by this worker from memory, and lost "
            "if this worker dies. More of this kind are only counted: scheduler/unserializable",
            *(one_line(request), reason),
        )

    def refused(self, what: str, error: Exception) -> None:
        """Say that a request or a seed is left to another worker."""
        self._stats.inc_value("frontier/refused")
        self.warn_once(
            str(error),
            "A %s is left to another worker: %s. More are only counted: frontier/refused",
            *(what, one_line(error)),
        )

    def dropped(self, request: Request, max_waiting: int) -> None:
        """Say that *request* is dropped because too many wait."""
        self._stats.inc_value("frontier/dropped")
        self.warn_once(
            "dropped",
            "More than FRONTIER_MAX_WAITING (%d) requests wait: %s is dropped, which would have come last. "
            "It does not count as seen. More are only counted: frontier/dropped",
            *(max_waiting, request),
        )

    def outbox_is_full(self, size: int) -> None:
        """Say that nothing is begun, because *size* requests wait to be stored."""
        self.warn_once(
            "full",
            "%d requests wait to be stored in Redis (FRONTIER_OUTBOX_SIZE): no new page is begun "
            "until there are fewer",
            size,
        )

    def lost_with_worker(self, count: int) -> None:
        """Say that *count* requests were only in this worker's memory, and were not crawled."""
        if count:
            logger.error(
                "%d requests that could not be kept in Redis were not crawled by this worker. They do not "
                "count as seen, and are crawled if they are found again",
                count,
            )

    def shares(self, shares: Shares) -> None:
        """Say how many requests cannot be shared, if that are many and it is time to look."""
        if shares.is_due() and shares.are_many:
            logger.error("%s", shares)

    def _lost(self, lost: tuple[str, ...]) -> None:
        what, count = lost[0], "".join(lost[1:])
        self._stats.inc_value("frontier/vanished")
        if what == "frontier":
            logger.error(
                "The frontier of spider %r is no longer in Redis: its keys were deleted, evicted, or "
                "lost in a "
                "restart of Redis, with all that waited and was seen. This worker stores again what "
                "it has in hand",
                self._spider,
            )
        elif what == "requests":
            logger.error(
                "%s requests of spider %r that waited in Redis are gone: their key was deleted or "
                "evicted, or "
                "another program took them. They are not crawled unless a page links to them again",
                *(count, self._spider),
            )
        else:
            logger.error(
                "%s fingerprints of spider %r are gone from Redis: their key was deleted or evicted. "
                "Pages that "
                "were crawled before are crawled again where a page links to them",
                *(count, self._spider),
            )

    def filtered(self, dupefilter: Any, request: Request, spider: Spider) -> None:
        """Have *dupefilter* log that *request* was filtered. If it cannot, that is logged, once."""
        try:
            dupefilter.log(request, spider)
        except Exception:  # the user's code may raise anything: Scrapy would wait for the request for ever
            if not self._log_raised:
                self._log_raised = True
                logger.exception(
                    "DUPEFILTER_CLASS %s cannot log a duplicate: its log() raised. The duplicate is filtered "
                    "and the crawl goes on; more of these exceptions are not logged",
                    type(dupefilter).__name__,
                )

    def throttled(self, leases: int) -> None:
        """Count *leases* that have to wait for the time of their slot."""
        if leases:
            self._stats.inc_value("frontier/throttled", leases)

    def told(self, reply: Reply) -> None:
        """Say what all workers are told to do."""
        told = reply.told
        resume = f"scrapy frontier resume {self._spider}"
        if told == Told.WAIT:
            logger.warning(
                "This worker of spider %r was not heard for longer than FRONTIER_LEASE_TIMEOUT, and another "
                "one has its place (FRONTIER_MAX_WORKERS). It begins no page until there is a place again",
                self._spider,
            )
        elif told == Told.CRAWL:
            logger.info("The crawl of spider %r goes on", self._spider)
        elif told == Told.PAUSE:
            logger.info("The crawl of spider %r is paused: no page is begun until %s", self._spider, resume)
        elif told == Told.DRAIN:
            logger.info(
                "The crawl of spider %r is drained: this worker does what it has in hand, and takes no more "
                "until %s",
                *(self._spider, resume),
            )
        elif reply.stop_reason in CLOSED_BY:
            logger.info(
                "The fleet of spider %r has done as much as %s allows: this worker closes. What waits stays "
                "in Redis",
                *(self._spider, CLOSED_BY[reply.stop_reason]),
            )
        else:
            logger.info("The fleet of spider %r is told to stop: this worker closes", self._spider)

    def warn_once(self, cause: str, message: str, *args: Any) -> None:
        """Log a warning, unless one of the same cause was logged before."""
        # Lambdas differ in their addresses only.
        cause = re.sub(r"0x[0-9a-f]+", "", cause)
        if cause not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add(cause)
            logger.warning(message, *args)
