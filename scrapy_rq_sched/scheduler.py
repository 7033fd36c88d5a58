"""The scheduler: Scrapy's interface to the shared frontier.

In a crawl its methods do not wait for Redis: they work on this worker's memory, and a loop exchanges with
Redis in the background. If no event loop runs, they make the exchange at once.
"""

from __future__ import annotations

import logging
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from twisted.internet.defer import Deferred
from typing_extensions import Self

from . import connection, failures, feeds
from .assembly.dupefilter import keys_with, load_dupefilter
from .assembly.frontier import load_scheduler, make_frontier, not_opened
from .assembly.keys import load_keys
from .assembly.queue import load_queue
from .engine import remarks
from .engine.bridge import EngineBridge, end_crawl, find_engine, is_shell, runs_command
from .engine.memory_scheduler import make_scheduler
from .engine.scheduler_attributes import SchedulerAttributes
from .errors import (
    FleetFinishedError,
    FleetFullError,
    FleetStoppedError,
    FrontierError,
    InterruptedInLineError,
    SettingError,
)
from .events.webhook import Webhook
from .runtime import identity, supervised
from .runtime.event_loop import EventLoop
from .settings import FrontierSettings
from .worker.modes import ByHand, Bypass, Crawling, Mode, NotOpen, Refused
from .worker.session import Session

logger = logging.getLogger(__name__)

#: The reason for closing the spider if this worker is not needed. These are not errors.
_NOT_NEEDED: dict[type[FrontierError], str] = {
    FleetFinishedError: "finished",
    FleetFullError: "max_workers",
    FleetStoppedError: "stopped",
    InterruptedInLineError: "shutdown",
}


class Scheduler(SchedulerAttributes, BaseScheduler):
    """A scheduler that keeps its queue and dupefilter in Redis, where all workers of a spider share them.

    Set ``SCHEDULER = "scrapy_rq_sched.Scheduler"``. A script can also call the scheduler itself, without a
    crawl. Then a request counts as finished when the script asks for the next one, or closes the scheduler.

    :param crawler: the crawler that provides the settings, the spider, the statistics and the signals.
    :param server: a redis-py client; None if *refusal* is given.
    :param settings: the checked settings.
    :param refusal: the error because of which the crawl cannot start.
    """

    def __init__(
        self,
        crawler: Crawler,
        server: Any,
        settings: FrontierSettings,
        refusal: FrontierError | None = None,
    ) -> None:
        self.crawler = crawler
        self.server = server
        self._settings = settings
        self._session: Session | None = None
        self.stats: Any = crawler.stats
        self.name = identity.worker_name()
        self._closed = False
        self._webhook: Webhook | None = None
        self._side: Mode = NotOpen() if refusal is None else Refused(refusal)
        crawler.signals.connect(self._check_open, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return a scheduler for *crawler*.

        :raises SettingError: if a setting has a value that is not valid. In a crawl it is not raised:
            :meth:`open` ends the crawl with one line in the log.
        """
        try:
            settings = FrontierSettings.from_settings(crawler.settings)
            server = connection.get_client(crawler.settings, retry=connection.no_retry())
            made: Self = load_scheduler(cls, crawler, server, settings)
        except FrontierError as error:
            if not crawler.crawling:
                raise
            # Not of cls, whose constructor may be the reason.
            return Scheduler(crawler, None, FrontierSettings(), error)  # type: ignore[return-value]
        return made

    @property
    def settings(self) -> FrontierSettings:
        """The checked settings.

        Once the scheduler is open, only new values of ``SCHEDULER_PERSIST`` and
        ``SCHEDULER_IDLE_BEFORE_CLOSE`` have an effect.
        """
        return self._settings

    @settings.setter
    def settings(self, value: FrontierSettings) -> None:
        self._settings = value
        if self._session is not None:
            self._session.settings = value

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Join the frontier of *spider*.

        If this fails in a crawl, one line in the log gives the reason, and the crawl ends.

        :raises FrontierError: if it fails without a crawl.
        """
        self.spider = spider
        if self._closed:  # a script may open it again, as a new worker
            self.name = identity.worker_name()
            self._closed = False
        engine = find_engine(self.crawler)
        shell = is_shell(engine)
        if shell or runs_command(spider):
            memory = make_scheduler(self.crawler, filters=not shell)
            self._side = Bypass(memory)
            return memory.open(spider)
        joined = None if engine is None else supervised.attend(self.crawler, self.name)
        remarks.log([*remarks.remarks(self.crawler.settings), *feeds.remarks(self.crawler.settings)])
        feeds.give_worker_name(self.crawler.settings, spider, self.name)
        feeds.leave_joined(self.crawler)
        feeds.write_whole_items(self.crawler)
        try:
            if isinstance(self._side, Refused):
                raise self._side.error
            session = self._session = self._make_session(spider, engine)
            if engine is None and not EventLoop.is_running():
                by_hand = ByHand(session)
                self._side = by_hand
                by_hand.open()
                return None
            crawling = Crawling(session, self._refuse, joined)
            self._side = crawling
            # A reactor may not run yet, as with CrawlerProcess: it waits for the join when it starts.
            return crawling.open()
        except FrontierError as error:
            if engine is None:
                raise
            self._refuse(error)
        return None

    def _make_session(self, spider: Spider, engine: Any) -> Session:
        settings = self.settings = self.settings.of_spider(spider)
        if "download" in settings.set_aside:
            failures.check_middleware(self.crawler.settings)
        keys = load_keys(settings, self.server, spider.name, getattr(spider, "redis_key", None))
        self.queue = load_queue(settings, self.server, spider, keys)
        self.df = load_dupefilter(self.crawler, spider, self.server, keys.dupefilter, self.dupefilter_cls)
        keys = keys_with(self.df, keys, self.server)
        self.df.open()
        if settings.webhook_url and not settings.max_events:
            raise SettingError(
                "FRONTIER_WEBHOOK_URL is set, but FRONTIER_MAX_EVENTS is 0, so that there would be no events "
                "to send. Set FRONTIER_MAX_EVENTS to 1000, or remove FRONTIER_WEBHOOK_URL"
            )
        if engine is not None and settings.webhook_url and self._webhook is None:
            self._webhook = Webhook(self.crawler.settings, keys, self.name, settings)
            self._webhook.start()
        bridge = None if engine is None else EngineBridge(engine)
        frontier = make_frontier(self.queue, self.df, self.server, keys, self.name, settings)
        if "callback" in settings.set_aside:
            failures.watch_callbacks(self.crawler, self.request_failed)
        crawl = None if engine is None else engine.crawl
        session = Session(self.crawler, spider, frontier, self.queue, self.df, settings, bridge, crawl)
        session.state.items.choose = feeds.Choice(self.crawler.settings) or None
        return session

    def _check_open(self) -> None:
        """End the crawl if a subclass's ``open`` has not called this class's: it would crawl nothing."""
        if isinstance(self._side, NotOpen):
            self._refuse(not_opened(self))

    def _refuse(self, error: FrontierError) -> None:
        """End the crawl that is being opened, with an exit code and without a traceback."""
        self._side = Refused(error)
        reason = _NOT_NEEDED.get(type(error))
        if reason is not None:
            logger.info("This worker closes: %s", error)
        else:
            logger.error("The crawl cannot start: %s", error)
        end_crawl(self.crawler, reason or "frontier_error", fails=reason is None)

    def enqueue_request(self, request: Request) -> bool:
        """Add *request* to the frontier. Return False if this worker knows that it is a duplicate.

        If only Redis knows that it is a duplicate, the request is dropped when Redis answers, with the signal
        ``request_dropped``.
        """
        return self._side.enqueue(request)

    def next_request(self) -> Request | None:
        """Return the next request for this worker to crawl, or None if no request is ready."""
        return self._side.next()

    def has_pending_requests(self) -> bool:
        """Return whether the spider must stay open: True until the whole fleet is finished."""
        return self._side.has_pending()

    def __len__(self) -> int:
        return len(self._side)

    def close(self, reason: str) -> Deferred[None] | None:
        """Send the last results, give back the requests that were not begun, and leave the fleet.

        The last worker clears the frontier if the crawl is finished, was not interrupted, and
        ``SCHEDULER_PERSIST`` is false.

        :param reason: Scrapy's reason for closing the spider, such as ``"finished"`` or ``"shutdown"``.
        :return: a ``Deferred`` that fires when the worker has left, or ``None`` if it has left already.
        """
        self._closed = True
        closed: Deferred[None] | None = self._side.close(reason)
        if self._webhook is None:
            return closed
        # The webhook ends last: by then it can send the events of leaving and of the finish.
        end, self._webhook = self._webhook.end, None
        return (
            end() if closed is None else closed.addBoth(lambda closing: end().addCallback(lambda _: closing))
        )

    def request_failed(self, request: Request, reason: str, traceback: str = "") -> bool:
        """Mark *request* as failed: it is moved to the failed list when Scrapy has finished it.

        :param request: a request that :meth:`next_request` returned, such as ``response.request``.
        :param reason: the reason, in one line.
        :param traceback: the traceback, if an exception was the reason.
        :return: whether *request* will be moved: False if it is crawled from memory, or not being crawled.
        """
        session = self._side.session
        return session is not None and session.state.mark_failed(request, reason, traceback)

    @property
    def is_aside(self) -> bool:
        """Whether this is not a crawl: it is a shell, or a command such as ``scrapy fetch``."""
        return isinstance(self._side, Bypass)

    @property
    def refused(self) -> bool:
        """Whether the crawl cannot start, and is about to end."""
        return isinstance(self._side, Refused)

    def give_back_begun(self) -> None:
        """Give back all requests that Scrapy is processing, because their results could not be stored."""
        if self._side.session is not None:
            self._side.session.state.give_back_held()

    def fail_begun(self, reason: str) -> None:
        """Give back all requests that Scrapy is processing, and close the spider with exit code 1.

        :param reason: why their results cannot be stored, and what to do, for the log.
        """
        logger.error("This worker closes: %s", reason)
        session = self._side.session
        if session is None:
            return
        session.state.give_back_held()
        if session.engine is not None:
            session.engine.fail("items_not_written")

    @property
    def idle_seconds(self) -> float:
        """The number of seconds for which the whole fleet has had no requests and no seeds."""
        session = self._side.session
        return 0.0 if session is None else session.finished.seconds
