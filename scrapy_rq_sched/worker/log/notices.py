"""The log messages and statistics of a worker about the frontier."""

from __future__ import annotations

import logging
import re
import shlex
import time
from datetime import datetime, timedelta
from typing import Any

from scrapy import Request, Spider

from ...assembly.dupefilter import filters_in_exchange
from ...assembly.queue import is_custom
from ...errors import counted, frontier_command, one_line
from ...frontier.client import Frontier, Opened
from ...frontier.close_limits import CLOSED_BY
from ...frontier.replies import BackedOff, Membership, Order, Reply
from ...servers.topology import address
from ..outbox import LocalOnly

logger = logging.getLogger(__name__)

#: Seconds for which a slot must be blocked until that is a warning: somebody may not want to wait so long.
LONG_BLOCK = 600.0
#: Seconds by which the end of a block must differ from that in the log to be logged again.
SAME_BLOCK = 1.0
#: Number of slots whose last block is remembered.
REMEMBERED = 1000
#: Number of different causes that are logged; a spider may produce a million of them.
MOST_WARNINGS = 100


def joined(frontier: Frontier, opened: Opened) -> None:
    """Log the state of the frontier that a worker has joined."""
    logger.info(
        "Worker %s joined the frontier of spider %r at %s: %s waiting, %d leased, %d seen, %s, %s",
        *(frontier.worker, frontier.keys.spider, address(frontier.server)),
        *(counted(opened.waiting, "request"), opened.leased, opened.seen),
        *(counted(opened.seeds, "seed"), counted(opened.workers, "worker")),
    )
    if opened.waiting:
        logger.info("Resuming crawl (%s scheduled)", counted(opened.waiting, "request"))


def from_before(frontier: Frontier, opened: Opened) -> None:
    """Warn about the remains of an earlier crawl that this crawl may miss or not expect."""
    spider = frontier.keys.spider
    is_alone = opened.waiting + opened.leased + opened.seeds == 0 and opened.workers == 1
    if opened.seen and is_alone:
        logger.warning(
            "%s seen by an earlier crawl of spider %r, and the fingerprints were kept (SCHEDULER_PERSIST is "
            "set, or the crawl was stopped): this crawl does not fetch these pages again. To crawl "
            "everything again, start with SCHEDULER_FLUSH_ON_START = True, or run: %s",
            *(counted(opened.seen, "URL was", "URLs were"), spider, frontier_command("clear", spider)),
        )
    if opened.unshared:
        logger.warning(
            "Workers of this crawl have found %s that could not be stored in Redis. If a worker stopped "
            "before it crawled such a request, the request is lost, unless a page links to it again. To "
            "crawl everything again, start with SCHEDULER_FLUSH_ON_START = True",
            counted(opened.unshared, "request"),
        )
    failed_list(frontier, opened.failed)


def failed_list(frontier: Frontier, entries: int) -> None:
    """Warn if the failed list has entries."""
    if entries:
        logger.warning(
            "The failed list of spider %r has %s: requests or seeds that could not be crawled. To see why, "
            "run: %s",
            *(frontier.keys.spider, counted(entries, "entry", "entries")),
            frontier_command("failed", frontier.keys.spider),
        )


def last_word(local_only: LocalOnly) -> None:
    """Log at the end that many requests could not be shared, if this is so."""
    if local_only.are_many:
        logger.error("%s", local_only)


def weaker_guarantees(queue: Any, dupefilter: Any) -> None:
    """Warn about guarantees that the user's own queue and dupefilter do not give."""
    if is_custom(queue):
        logger.warning(
            "SCHEDULER_QUEUE_CLASS is %s, which has its own push or pop: requests are not leased, and those "
            "popped by a killed worker are lost",
            type(queue).__name__,
        )
    if not filters_in_exchange(dupefilter):
        logger.warning(
            "DUPEFILTER_CLASS is %s.%s, which filters by its own request_seen: marking a URL as seen and "
            "queueing it are two steps, so a crash between them loses the URL. To have one step, remove "
            "the setting",
            type(dupefilter).__module__,
            type(dupefilter).__qualname__,
        )


class Notices:
    """The log messages and statistics during a crawl.

    :param stats: Scrapy's statistics collector.
    :param spider: the spider's name.
    """

    def __init__(self, stats: Any, spider: str) -> None:
        self._spider = spider
        self._stats = stats
        self._warned: set[str] = set()
        self._log_raised = False
        # When the blocks in the log end, by slot.
        self._blocks: dict[str, float] = {}

    def reply(self, reply: Reply, unbegun: int) -> None:
        """Log and count the news in *reply*.

        :param unbegun: how many leases this worker had not begun before the reply.
        """
        if reply.membership == Membership.ROLLED_BACK and reply.epoch and not reply.lost:
            self._stats.inc_value("frontier/rewound")
            logger.warning(
                "Redis came back with older data (after a crash or a failover). The requests that this "
                "worker held are in the queue again, and pages that were crawled since are crawled again"
            )
        elif reply.membership == Membership.EXPIRED:
            self._stats.inc_value("frontier/lost")
            logger.warning(
                "This worker was silent for longer than FRONTIER_LEASE_TIMEOUT and counted as dead: it has "
                "lost the requests that it had not begun (%d)",
                unbegun,
            )
        if reply.dead:
            self._stats.inc_value("frontier/reclaimed", reply.returned)
            logger.warning(
                "Workers that died: %s. %d of their requests went back to the queue",
                *(one_line(", ".join(reply.dead)), reply.returned),
            )
        if reply.set_aside:
            self._stats.inc_value("frontier/failed", reply.set_aside)
            logger.error(
                "Moved to the failed list: %s",
                counted(reply.set_aside, "request or seed", "requests or seeds"),
            )
        if reply.forgotten:
            self._stats.inc_value("frontier/failed/forgotten", reply.forgotten)
            logger.error(
                "The failed list has reached FRONTIER_MAX_FAILED. Its oldest entries were removed (%d)",
                reply.forgotten,
            )
        if reply.garbage:
            key = one_line(reply.garbage)
            logger.error(
                "Another program wrote a value of the wrong type to the key of a slot. The value is now at "
                "%r, and the crawl continues; the requests that were in the key are lost. To delete the "
                "value, run: redis-cli del %s",
                *(key, shlex.quote(key)),
            )
        if not reply.replicated:
            self.warn_once(
                "replicas",
                "New requests are on fewer replicas than FRONTIER_WAIT_REPLICAS requires. Until this "
                "changes, the pages that led to them are not released. Each worker stops when "
                "FRONTIER_PREFETCH such pages wait, and the crawl does not finish. Check the replicas",
            )
        if reply.lost:
            self._lost(reply.lost)
        if reply.seeds_problem:
            self.warn_once(
                "seeds",
                "The key of the seeds must be a list, a set or a sorted set, not a %s: %s is not read. "
                "Delete or rename it",
                *map(one_line, reply.seeds_problem),
            )

    def kept_from_redis(self, request: Request, reason: str) -> None:
        """Log and count that *request* is crawled from this worker's memory."""
        self._stats.inc_value("scheduler/unserializable")
        self.warn_once(
            reason,
            "%s cannot be stored in Redis: %s. This worker crawls it from memory, and it is lost if this "
            "worker dies. More of this kind are only counted: scheduler/unserializable",
            *(one_line(request), reason),
        )

    def refused(self, name: str, error: Exception) -> None:
        """Log and count that a request or a seed is left to another worker."""
        self._stats.inc_value("frontier/refused")
        self.warn_once(
            str(error),
            "This worker leaves a %s to another worker: %s. More of them are only counted: frontier/refused",
            *(name, one_line(error)),
        )

    def dropped(self, request: Request, max_waiting: int) -> None:
        """Log and count that *request* is dropped, because too many requests wait."""
        self._stats.inc_value("frontier/dropped")
        self.warn_once(
            "dropped",
            "More than FRONTIER_MAX_WAITING (%d) requests wait: %s, the last in the order, is dropped. It "
            "does not count as seen. More of them are only counted: frontier/dropped",
            *(max_waiting, request),
        )

    def outbox_is_full(self, size: int) -> None:
        """Log that no request is begun, because *size* requests wait to be stored."""
        self.warn_once(
            "full",
            "%s to be stored in Redis (FRONTIER_OUTBOX_SIZE): this worker begins no new page until fewer do",
            counted(size, "request waits", "requests wait"),
        )

    def items_are_full(self, size: int) -> None:
        """Log that no request is begun, because *size* bytes of items wait to be stored."""
        self.warn_once(
            "items_full",
            "%s of items wait to be stored in Redis: this worker begins no new page until fewer do, and lets "
            "its callbacks wait",
            counted(size, "byte"),
        )

    def lost_with_worker(self, count: int) -> None:
        """Log that *count* requests were only in this worker's memory, and were not crawled."""
        if count:
            logger.error(
                "%s by this worker, and cannot be stored in Redis. Such requests do not count as seen, and "
                "are crawled if they are found again",
                counted(count, "request was not crawled", "requests were not crawled"),
            )

    def local_only(self, counts: LocalOnly) -> None:
        """Log how many requests cannot be shared, if there are many and it is time to check."""
        if counts.is_due() and counts.are_many:
            logger.error("%s", counts)

    def _lost(self, lost: tuple[str, ...]) -> None:
        part, count = lost[0], "".join(lost[1:])
        self._stats.inc_value("frontier/vanished")
        if part == "frontier":
            logger.error(
                "The frontier of spider %r is no longer in Redis: its keys were deleted, evicted, or lost in "
                "a restart of Redis, with all waiting requests and fingerprints. This worker stores its "
                "requests in Redis again",
                self._spider,
            )
        elif part == "requests":
            logger.error(
                "%s requests of spider %r have disappeared from Redis: their key was deleted or evicted, or "
                "another program took them. They are not crawled unless a page links to them again",
                *(count, self._spider),
            )
        else:
            logger.error(
                "%s fingerprints of spider %r have disappeared from Redis: their key was deleted or evicted. "
                "Pages that were crawled before are crawled again if a page links to them",
                *(count, self._spider),
            )

    def filtered(self, dupefilter: Any, request: Request, spider: Spider) -> None:
        """Make *dupefilter* log that *request* was filtered. If this fails, log the failure once."""
        try:
            dupefilter.log(request, spider)
        except Exception:  # from the user's code; Scrapy would wait for the request forever
            if not self._log_raised:
                self._log_raised = True
                logger.exception(
                    "DUPEFILTER_CLASS %s cannot log a duplicate: its log() raised an exception. Duplicates "
                    "are filtered nevertheless, and the crawl continues. More of these exceptions are not "
                    "logged",
                    type(dupefilter).__name__,
                )

    def capped(self, slot: str, max_pages: int) -> None:
        """Count a request that was dropped because of a cap, and log the first one of the crawl or slot."""
        self._stats.inc_value("scheduler/dropped/cap")
        self.warn_once(
            f"cap {slot}",
            "A request of %s is dropped, because the crawl or this slot has as many pages as its cap allows "
            "(FRONTIER_MAX_PAGES is %s; max_pages in FRONTIER_SLOTS). Further ones are counted, and not "
            "logged: see `%s`. They do not count as seen: if the cap is raised, they are crawled when a page "
            "links to them again",
            *(one_line(slot) or "a slot without a name", max_pages or "not set"),
            frontier_command("slots", self._spider),
        )

    def throttled(self, reply: Reply) -> None:
        """Count the leases of *reply* that must wait for the time of their slot."""
        if reply.now is not None and (count := sum(lease.begin > reply.now for lease in reply.leases)):
            self._stats.inc_value("frontier/throttled", count)

    def backed_off(self, reply: Reply) -> None:
        """Log what the answers of sites have led to, and which slots are no longer blocked."""
        for slot, its in reply.backed_off.items():
            self._stats.inc_value("frontier/backed_off")
            if its.blocked_for and self._is_new_block(slot, its.blocked_for):
                is_long = its.blocked_for >= LONG_BLOCK
                waits = round(its.blocked_for) if its.blocked_for >= 1 else its.blocked_for
                until = datetime.now().astimezone() + timedelta(seconds=its.blocked_for)
                logger.log(
                    logging.WARNING if is_long else logging.INFO,
                    "%s has answered %s for %s: no worker begins a request of it until %s%s",
                    *(one_line(slot), one_line(its.reason), _seconds(waits)),
                    f"{until:%Y-%m-%d %H:%M:%S}" if is_long else f"{until:%H:%M:%S}",
                    f". To end this, run: {self._unblock(slot)}" if is_long else "",
                )
            if its.change:
                self._note_change(slot, its)
            elif its.delay:
                logger.info(
                    "%s has answered %s: all workers together send it one request every %s from now on, and "
                    "more again while its answers are good",
                    *(one_line(slot), one_line(its.reason), _seconds(its.delay)),
                )
        for slot in reply.freed:
            self._blocks.pop(slot, None)
            logger.info("%s is no longer blocked", one_line(slot))

    def _is_new_block(self, slot: str, seconds: float) -> bool:
        """Return whether a block is another one than that in the log. Several answers may ask for one."""
        until, before = time.monotonic() + seconds, self._blocks.get(slot, 0.0)
        if len(self._blocks) >= REMEMBERED:
            self._blocks.clear()
        self._blocks[slot] = until
        # It may end sooner after an operator has ended the one before.
        return abs(until - before) > SAME_BLOCK

    def _note_change(self, slot: str, its: BackedOff) -> None:
        if its.change == "robots":
            logger.debug(
                "The robots.txt of %s asks for a Crawl-delay of %s, which all workers together keep",
                *(one_line(slot), _seconds(its.delay)),
            )
        elif its.change == "up":
            logger.info("%s can be reached again", one_line(slot))
        elif its.change == "gone":
            logger.error(
                "%s could not be reached for %s (FRONTIER_SLOT_GIVE_UP): all its requests that wait are set "
                "aside. To crawl them when the site is back, run: %s --reason 'the site of its slot' "
                "--requeue",
                *(one_line(slot), _seconds(its.delay), frontier_command("failed", self._spider)),
            )
        else:
            logger.warning(
                "%s cannot be reached (%s): its other requests wait, while one at a time tries again, after "
                "%s at first and at most a minute later",
                *(one_line(slot), one_line(its.reason), _seconds(its.delay)),
            )

    def _unblock(self, slot: str) -> str:
        return f"{frontier_command('slots', self._spider)} unblock {shlex.quote(one_line(slot))}"

    def order_changed(self, reply: Reply, before: Order) -> None:
        """Log a new instruction to all workers, which replaces that of *before*."""
        order = reply.order
        resume = frontier_command("resume", self._spider)
        if order == Order.WAIT:
            logger.warning(
                "This worker of spider %r sent no heartbeat for longer than FRONTIER_LEASE_TIMEOUT, and "
                "another worker has taken its place (FRONTIER_MAX_WORKERS). It begins no page until a place "
                "is free",
                self._spider,
            )
        elif order == Order.ITEM:
            logger.warning(
                "No item of pool %r is free for this worker: all are in use, rest or are retired. It begins "
                "no request until one is free. To see them, run: %s",
                *(one_line(reply.lacks_item), frontier_command("pool", self._spider)),
            )
        elif order == Order.CRAWL and before == Order.ITEM:
            logger.info("This worker has the items that it needs, and begins requests again")
        elif order == Order.CRAWL:
            logger.info("The crawl of spider %r continues", self._spider)
        elif order == Order.PAUSE:
            logger.info(
                "The crawl of spider %r is paused: this worker begins no page. To resume, run: %s",
                *(self._spider, resume),
            )
        elif order == Order.DRAIN:
            logger.info(
                "The crawl of spider %r is drained: this worker finishes the requests that it holds, and "
                "takes no more. To resume, run: %s",
                *(self._spider, resume),
            )
        elif reply.stop_reason in CLOSED_BY:
            logger.info(
                "The fleet of spider %r has reached the limit of %s: this worker closes. Waiting requests "
                "stay in Redis",
                *(self._spider, CLOSED_BY[reply.stop_reason]),
            )
        else:
            logger.info("An operator has stopped spider %r, or this worker of it: it closes", self._spider)

    def warn_once(self, cause: str, message: str, *args: Any) -> None:
        """Log a warning, unless a warning with the same cause was logged before."""
        # Lambdas differ only in their addresses.
        cause = re.sub(r"0x[0-9a-f]+", "", cause)
        if cause not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add(cause)
            logger.warning(message, *args)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
