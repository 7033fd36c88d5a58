"""Joining, waiting for a place, and leaving."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from ..assembly.dupefilter import check_fingerprints, close_dupefilter
from ..assembly.frontier import items_at, made_with, shown_settings
from ..assembly.queue import check_readable
from ..errors import RedisUnreachableError, counted, frontier_command, one_line
from ..frontier import health
from ..frontier.client import Frontier, Left, Opened, Waiting
from ..frontier.close_limits import FINISHED_BY
from ..frontier.refusals import why_not_flushed
from ..runtime import identity
from ..runtime import run as supervisor
from ..servers import failures, own_redis, topology
from ..settings import FrontierSettings
from .log import notices
from .session import Session

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


#: Reasons for which a spider is closed before it has finished.
_INTERRUPTIONS = ("shutdown", "stopped", "frontier_error", "memusage_exceeded")


def join(session: Session, line: Line) -> Opened | Waiting:
    """Join the frontier. Waits for Redis.

    :return: the state of the frontier, or this worker's place in line.
    :raises FrontierError: if this worker cannot join; ``RedisUnreachableError`` if a later attempt may
        succeed.
    """
    try:
        return _join(session, line)
    except RedisUnreachableError as error:
        if not (hint := own_redis.hint(session.crawler.settings)):
            raise
        raise RedisUnreachableError(f"{error}. {hint}") from error.__cause__


def _join(session: Session, line: Line) -> Opened | Waiting:
    frontier, settings, server = session.frontier, session.settings, session.frontier.server
    if not line.came:
        line.warnings = health.check_server(server, frontier.keys.requests)
        try:
            if settings.items:
                health.check_items(server, frontier.keys, settings.items)
            if not settings.flush_on_start:
                check_readable(session.queue)
                check_fingerprints(server, frontier.keys, session.dupefilter)
        except failures.RedisError as error:
            raise failures.unreachable(server, error) from error
    server_age = health.server_age(server, frontier.keys.requests)
    run = supervisor.current()
    try:
        return frontier.open(
            made_with(
                session.queue,
                session.dupefilter,
                session.crawler,
                settings.project,
                items_at(settings, frontier.keys),
            ),
            identity.about(session.spider.name, _log(session, run)),
            line.age,
            busy=session.is_busy,
            flush=line.may_flush,
            persist=settings.persist,
            server_age=server_age,
            came=line.came,
            run="" if run is None else run.id,
            replaced="" if run is None else run.replaces,
            shown_settings=shown_settings(session.crawler.settings),
        )
    except failures.RedisError as error:
        raise failures.unreachable(server, error) from error


def welcome(session: Session, line: Line, opened: Opened) -> None:
    """Log the state of the frontier that this worker has joined, and the warnings."""
    for warning in line.warnings:
        logger.warning(warning)
    line.joined()
    session.state.record.joined(opened.run)
    if opened.unflushed:
        _log_not_flushed(session.frontier, opened)
    if opened.kept_for:
        logger.warning(
            "The fingerprints are not cleared: the frontier %r uses the same SCHEDULER_DUPEFILTER_KEY, and "
            "is not finished",
            opened.kept_for,
        )
    notices.joined(session.frontier, opened)
    notices.from_before(session.frontier, opened)
    notices.weaker_guarantees(session.queue, session.dupefilter)
    if opened.other:
        session.politeness.joined(opened.other, opened.other_limits)
    session.began()


def _log_not_flushed(frontier: Frontier, opened: Opened) -> None:
    why = why_not_flushed(opened.unflushed)
    if not opened.unflushed.startswith("lost"):
        logger.info("SCHEDULER_FLUSH_ON_START: nothing was cleared, because %s", why)
        return
    # This may not be what the user wants: the crawl would have to begin anew.
    logger.warning(
        "SCHEDULER_FLUSH_ON_START: the frontier of spider %r was not cleared, and its crawl continues (%s "
        "waiting, %d leased, %d seen), because %s. To clear it, stop all workers, and run: %s",
        *(frontier.keys.spider, counted(opened.waiting, "request"), opened.leased, opened.seen, why),
        frontier_command("clear", frontier.keys.spider),
    )


def is_finished(session: Session, reason: str) -> bool:
    """Return whether a spider that is closed for *reason* closes because the fleet is finished."""
    if reason in FINISHED_BY:
        return True
    # If a handler of spider_idle closes an idle spider for its own reason, as with CloseSpider, the spider
    # is finished if the whole fleet is. An interruption does not finish it.
    interrupted = reason in _INTERRUPTIONS or reason.startswith("closespider_")
    # An idle RedisSpider waits for more seeds.
    waits = hasattr(session.spider, "schedule_next_requests")
    return session.finished.is_running and not (interrupted or waits)


def begin_to_leave(session: Session, reason: str) -> Callable[[], Left]:
    """Note that the spider closes; return the function that leaves the frontier then."""
    finished = is_finished(session, reason)
    close_dupefilter(session.dupefilter, reason)
    session.close(finished)
    returns = reason == "memusage_exceeded"
    return lambda: session.frontier.leave(finished, session.settings.persist, returns)


def left(session: Session, result: Any, error: Exception | None) -> None:
    """Log how this worker has left, and close its connections."""
    identity.closed()
    if error is not None:
        logger.error(
            "This worker could not leave the fleet: %s. It counts as dead after %g s",
            one_line(error),
            session.settings.lease_timeout,
        )
    else:
        if result.cleared:
            logger.info("The crawl is finished, and this was its last worker: the frontier is cleared")
        notices.failed_list(session.frontier, result.failed)
    notices.last_word(session.state.local_only)
    session.notices.lost_with_worker(session.lost)
    topology.close(session.frontier.server)


def _log(session: Session, run: supervisor.Run | None) -> str:
    """Return the path of this worker's log: its ``LOG_FILE``, or the file of its supervisor; else empty."""
    return str(session.crawler.settings.get("LOG_FILE") or ("" if run is None else run.log))
