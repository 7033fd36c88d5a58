"""Scrapy's scheduler interface over the shared frontier, and nothing else.

None of these methods waits for Redis: they fill and empty the worker, and the loop exchanges in the
background. Only where no event loop runs is the exchange made at once.
"""

from __future__ import annotations

import logging
from typing import Any

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from twisted.internet.defer import Deferred
from typing_extensions import Self

from . import connection, failures, feeds
from .engine import components, remarks
from .engine.bridge import EngineBridge, end_crawl, find_engine, is_shell, runs_command
from .engine.event_loop import EventLoop
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
from .settings import FrontierSettings
from .worker.session import Session
from .worker.sides import Aside, ByHand, Crawling, NotOpen, Refused, Side

logger = logging.getLogger(__name__)

#: Why the spider is closed of a worker that is not needed: nothing went wrong.
_NOT_NEEDED: dict[type[FrontierError], str] = {
    FleetFinishedError: "finished",
    FleetFullError: "max_workers",
    FleetStoppedError: "stopped",
    InterruptedInLineError: "shutdown",
}


class Scheduler(SchedulerAttributes, BaseScheduler):
    """A scheduler whose queue and dupefilter are shared, in Redis, by all workers of a spider.

    Set ``SCHEDULER = "scrapy_rq_sched.Scheduler"``. It can also be driven by hand: then a request
    counts as finished when the next one is asked for, or the scheduler closed.

    :param crawler: whose settings, spider, statistics and signals are used.
    :param server: a redis-py client; None if *refusal* is given.
    :param settings: the checked settings.
    :param refusal: why the crawl cannot start.
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
        self._side: Side = NotOpen() if refusal is None else Refused(refusal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return a scheduler for *crawler*.

        :raises SettingError: if a setting has a value that it must not have, unless a crawl is under
            way: then :meth:`open` ends it with one line.
        """
        try:
            settings = FrontierSettings.from_settings(crawler.settings)
            server = connection.get_client(crawler.settings, retry=connection.no_retry())
        except FrontierError as error:
            if not crawler.crawling:
                raise
            return cls(crawler, None, FrontierSettings(), error)
        return cls(crawler, server, settings)

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

        In a crawl, whatever prevents it is one line in the log, and the end of the crawl.

        :raises FrontierError: if there is no crawl, and something prevents it.
        """
        self.spider = spider
        if self._closed:  # by hand it may be opened again, as a worker that was never there
            self.name = identity.worker_name()
            self._closed = False
        engine = find_engine(self.crawler)
        shell = is_shell(engine)
        if shell or runs_command(spider):
            memory = make_scheduler(self.crawler, filters=not shell)
            self._side = Aside(memory)
            return memory.open(spider)
        if engine is not None:
            supervised.attend(self.crawler)
        remarks.log(self.crawler.settings)
        feeds.give_worker_name(self.crawler.settings, spider, self.name)
        try:
            if isinstance(self._side, Refused):
                raise self._side.error
            session = self._session = self._make_session(spider, engine)
            if engine is None and not EventLoop.is_running():
                by_hand = ByHand(session)
                self._side = by_hand
                by_hand.open()
                return None
            crawling = Crawling(session, self._refuse)
            self._side = crawling
            # Also before a reactor runs, as with CrawlerProcess: the join is over when it does.
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
        keys = components.load_keys(settings, self.server, spider.name, getattr(spider, "redis_key", None))
        self.queue = components.load_queue(settings, self.server, spider, keys)
        self.df = components.load_dupefilter(self.crawler, self.server, keys.dupefilter, self.dupefilter_cls)
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
        frontier = components.make_frontier(self.queue, self.df, self.server, keys, self.name, settings)
        if "callback" in settings.set_aside:
            failures.watch_callbacks(self.crawler, self.request_failed)
        crawl = None if engine is None else engine.crawl
        return Session(self.crawler, spider, frontier, self.queue, self.df, settings, bridge, crawl)

    def _refuse(self, error: FrontierError) -> None:
        """End the crawl that is just being opened: without a traceback, and with an exit code."""
        self._side = Refused(error)
        reason = _NOT_NEEDED.get(type(error))
        if reason is not None:
            logger.info("This worker closes: %s", error)
        else:
            logger.error("The crawl cannot start: %s", error)
        end_crawl(self.crawler, reason or "frontier_error", fails=reason is None)

    def enqueue_request(self, request: Request) -> bool:
        """Take *request* for the frontier; return False if it is known to be a duplicate.

        A duplicate that only Redis knows of is dropped when Redis says so, with the signal
        ``request_dropped``.
        """
        return self._side.enqueue(request)

    def next_request(self) -> Request | None:
        """Return a request that is now this worker's to finish, or None if none is at hand."""
        return self._side.next()

    def has_pending_requests(self) -> bool:
        """Return whether the spider must stay open: True until the whole fleet is finished."""
        return self._side.has_pending()

    def __len__(self) -> int:
        return len(self._side)

    def close(self, reason: str) -> Deferred[None] | None:
        """Say what is left to say, give back what was not begun, and leave the fleet.

        The frontier is cleared only by the last worker, only when the fleet is finished and was not
        interrupted, and only if ``SCHEDULER_PERSIST`` is false.

        :param reason: why the spider is closed, in Scrapy's words, such as ``"finished"`` or ``"shutdown"``.
        :return: a ``Deferred`` that fires when the worker has left, or ``None`` if it has left already.
        """
        self._closed = True
        closed: Deferred[None] | None = self._side.close(reason)
        if self._webhook is None:
            return closed
        # That it has left, and that the crawl is finished, is said by now.
        end, self._webhook = self._webhook.end, None
        return (
            end() if closed is None else closed.addBoth(lambda closing: end().addCallback(lambda _: closing))
        )

    def request_failed(self, request: Request, reason: str, traceback: str = "") -> bool:
        """Have *request* set aside in the failed list when Scrapy is through with it.

        :param request: one that :meth:`next_request` returned, such as ``response.request``.
        :param reason: why, in one line.
        :param traceback: of the exception that was the reason, if one was.
        :return: whether it will be; not if it is crawled from memory, or not being crawled.
        """
        session = self._side.session
        return session is not None and session.state.mark_failed(request, reason, traceback)

    @property
    def is_aside(self) -> bool:
        """Whether this is no crawl of the fleet's: a shell, or a command such as ``scrapy fetch``."""
        return isinstance(self._side, Aside)

    @property
    def refused(self) -> bool:
        """Whether the crawl cannot start, and is about to end."""
        return isinstance(self._side, Refused)

    def give_back_begun(self) -> None:
        """Have all requests that Scrapy is at crawled again: what came of them could not be stored."""
        if self._side.session is not None:
            self._side.session.state.give_back_held()

    @property
    def idle_seconds(self) -> float:
        """For how many seconds the whole fleet, seeds included, has had nothing to do."""
        session = self._side.session
        return 0.0 if session is None else session.finished.seconds
