"""Scrapy's scheduler interface over the shared frontier, and nothing else.

None of these methods waits for Redis: they fill and empty the worker, and the loop exchanges in the
background. Only where no event loop runs is the exchange made at once.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.core.scheduler import Scheduler as MemoryScheduler
from scrapy.crawler import Crawler
from twisted.internet.defer import Deferred
from typing_extensions import Self

from . import connection, failures, feeds
from .engine import components, remarks
from .engine.bridge import EngineBridge, EventLoop, end_crawl, find_engine, is_shell, runs_command
from .engine.memory_scheduler import make_scheduler
from .engine.scheduler_attributes import SchedulerAttributes
from .errors import FrontierError, one_line
from .frontier.client import Opened
from .runtime import identity
from .runtime.patience import Patience
from .settings import FrontierSettings
from .worker.by_hand import InlineExchange
from .worker.delivery import Delivery
from .worker.log import notices
from .worker.loop import ExchangeLoop
from .worker.state import Worker

logger = logging.getLogger(__name__)

#: Reasons for which a spider is closed though it is not through.
_INTERRUPTIONS = ("shutdown", "stopped", "frontier_error", "memusage_exceeded")


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
        self.settings = settings
        self.stats: Any = crawler.stats
        self.name = identity.worker_name()
        self._refusal = refusal
        self._engine: EngineBridge | None = None
        self._loop: ExchangeLoop | None = None
        self._inline: InlineExchange | None = None
        self._joined = self._closed = False
        # What a shell or a command such as `scrapy fetch` asks for is nobody else's business: it never
        # reaches the frontier.
        self._aside: MemoryScheduler | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return a scheduler for *crawler*.

        :raises SettingError: if a setting has a value that it may not have, unless a crawl is under
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

    # -- opening -------------------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Join the frontier of *spider*.

        In a crawl, what prevents it is one line in the log, and the end of the crawl.

        :raises FrontierError: if there is no crawl, and something prevents it.
        """
        self.spider = spider
        if self._closed:  # by hand it may be opened again, as a worker that was never there
            self.name = identity.worker_name()
            self._closed = self._joined = False
        engine = find_engine(self.crawler)
        shell = is_shell(engine)
        if shell or runs_command(spider):
            self._aside = make_scheduler(self.crawler, filters=not shell)
            return self._aside.open(spider)
        remarks.log(self.crawler.settings)
        feeds.give_worker_name(self.crawler.settings, spider, self.name)
        try:
            if self._refusal is not None:
                raise self._refusal
            self._assemble(spider, engine)
            if self._loop is not None:
                # Also before a reactor runs, as with CrawlerProcess: the join is over when it does.
                return self._join_in_background(self._loop, engine)
            self._welcome(*self._join())
        except FrontierError as error:
            self._refuse(error, engine)
        return None

    def _assemble(self, spider: Spider, engine: Any) -> None:
        settings = self.settings = self.settings.of_spider(spider)
        if "download" in settings.set_aside:
            failures.check_middleware(self.crawler.settings)
        keys = components.load_keys(settings, self.server, spider.name, getattr(spider, "redis_key", None))
        self.queue = components.load_queue(settings, self.server, spider, keys)
        self.df = components.load_dupefilter(self.crawler, self.server, keys.dupefilter, self.dupefilter_cls)
        self.df.open()
        if engine is not None:
            self._engine = EngineBridge(engine)
            self._engine.holds_start = lambda: self.delivery.holds_start()
        self.worker = Worker(settings)
        self.frontier = components.make_frontier(self.queue, self.df, self.server, keys, self.name, settings)
        self.delivery = Delivery(
            self.crawler,
            spider,
            self.worker,
            self.frontier,
            self.queue,
            self.df,
            settings,
            self._engine,
            None if engine is None else engine.crawl,
        )
        if "callback" in settings.set_aside:
            failures.watch_callbacks(self.crawler, self.request_failed)
        if engine is None and not EventLoop.is_running():
            self.delivery.wanted_by_hand = 0
            self._inline = InlineExchange(self.frontier, self.worker, self.delivery)
            return
        self._loop = ExchangeLoop(
            self.frontier,
            self.worker,
            self.delivery,
            EventLoop(),
            settings.flush_interval,
            settings.lease_timeout,
        )

    def _join(self) -> tuple[list[str], Opened]:
        warnings = connection.check_server(self.server, self.frontier.keys.requests)
        try:
            if not self.settings.flush_on_start:
                components.check_readable(self.queue)
                components.check_fingerprints(self.server, self.frontier.keys, self.df)
        except connection.RedisError as error:
            raise connection.unreachable(self.server, error) from error
        server_age = connection.server_age(self.server, self.frontier.keys.requests)
        try:
            opened = self.frontier.open(
                components.made_with(self.queue, self.df, self.crawler, self.settings.project),
                identity.about(self.spider.name),
                identity.age(),
                busy=self.delivery.busy(),
                flush=self.settings.flush_on_start,
                persist=self.settings.persist,
                server_age=server_age,
            )
        except connection.RedisError as error:
            raise connection.unreachable(self.server, error) from error
        return warnings, opened

    def _join_in_background(self, loop: ExchangeLoop, engine: Any) -> Deferred[None]:
        opened: Deferred[None] = Deferred()
        patience = Patience(self.settings.join_timeout)

        def joined(result: Any, error: Exception | None) -> None:
            try:
                if error is not None:
                    if self._closed or not patience.again(error, join):
                        raise error
                    return
                if self._closed:
                    leave = partial(self.frontier.leave, False, self.settings.persist)
                    loop.call(leave, lambda *_: loop.close())
                    opened.callback(None)
                    return
                self._welcome(*result)
                opened.callback(None)
            except FrontierError as refusal:
                if engine is None:
                    loop.close()
                    opened.errback(refusal)
                else:
                    self._refuse(refusal, engine)
                    opened.callback(None)
            except Exception as unexpected:  # goes on to whoever waits for it
                loop.close()
                opened.errback(unexpected)

        def join() -> None:
            loop.call(self._join, joined)

        join()
        return opened

    def _welcome(self, warnings: list[str], opened: Opened) -> None:
        self._joined = True
        for warning in warnings:
            logger.warning(warning)
        if self.settings.flush_on_start and not opened.flushed:
            logger.info("SCHEDULER_FLUSH_ON_START: nothing was cleared, other workers are at it")
        if opened.kept_for:
            logger.warning(
                "What was seen is not cleared: the frontier %r has the same SCHEDULER_DUPEFILTER_KEY, and is "
                "not finished",
                opened.kept_for,
            )
        notices.joined(self.frontier, opened)
        notices.from_before(self.frontier, opened)
        notices.weaker_guarantees(self.queue, self.df)
        self.delivery.began()
        if self._loop is not None:
            self._loop.start(at_once=opened.waiting + opened.seeds + opened.leased > 0)

    def _refuse(self, error: FrontierError, engine: Any) -> None:
        """End the crawl that is just being opened: without a traceback, and with an exit code."""
        if engine is None:
            raise error
        self._refusal = error
        if self._loop is not None:
            self._loop.close()
        logger.error("The crawl cannot start: %s", error)
        end_crawl(self.crawler, "frontier_error")

    # -- the crawl -----------------------------------------------------------------------------

    def enqueue_request(self, request: Request) -> bool:
        """Take *request* for the frontier; return False if it is known to be a duplicate.

        A duplicate that only Redis knows of is dropped when Redis says so, with the signal
        ``request_dropped``.
        """
        if self._aside is not None:
            return self._aside.enqueue_request(request)
        if self._refusal is not None or not self.delivery.send(request):
            return False
        if self._inline is not None:
            self._exchange_by_hand()
            return request not in self.delivery.dropped
        if self._loop is not None and not self.worker.ready:
            self._loop.kick()
        return True

    def next_request(self) -> Request | None:
        """Return a request that is now this worker's to finish, or None if none is at hand."""
        if self._aside is not None:
            return self._aside.next_request()
        if self._refusal is not None:
            return None
        if self._engine is None:
            # By hand: to ask for the next is to be done with the last.
            self.worker.finish_all_but(())
        if self._inline is not None:
            self._exchange_by_hand(want=1)
        else:
            self.delivery.prepare()
        request = self.delivery.take()
        while request is None and self._inline is not None and self.worker.has_undone:
            # What was leased could not be made a request of: it is set aside, and the next one asked for. Or
            # it is a suspect, of which Redis has to know before that it is begun.
            self._exchange_by_hand(want=1)
            request = self.delivery.take()
        if request is not None:
            self.stats.inc_value("scheduler/dequeued")
        if self._loop is not None:
            self._loop.request_taken()
        return request

    def has_pending_requests(self) -> bool:
        """Return whether the spider must stay open: True until the whole fleet is finished."""
        if self._aside is not None:
            return self._aside.has_pending_requests()
        if self._refusal is not None:
            return True  # it is closed, but not as finished
        if self._inline is not None:
            if self._closed:
                return False  # it has left: to ask would be to join again
            reply = self._exchange_by_hand()
            others = (reply.leased or 0) - len(self.worker.held)
            here = len(self.worker.ready) + len(self.worker.memory)
            return bool(here + reply.waiting + reply.delayed + reply.seeds + others)
        finished = self.delivery.finished
        if not (finished.is_running and self.worker.is_quiet):
            return True
        return finished.seconds < self.settings.idle_before_close

    def request_failed(self, request: Request, reason: str, traceback: str = "") -> bool:
        """Have *request* set aside in the failed list when Scrapy is through with it.

        :param request: one that :meth:`next_request` returned, such as ``response.request``.
        :param reason: why, in one line.
        :param traceback: of the exception that was the reason, if one was.
        :return: whether it will be; not if it is crawled from memory, or not being crawled.
        """
        if self._aside is not None or self._refusal is not None:
            return False
        return self.worker.mark_failed(request, reason, traceback)

    @property
    def is_aside(self) -> bool:
        """Whether this is no crawl of the fleet's: a shell, or a command such as ``scrapy fetch``."""
        return self._aside is not None

    @property
    def refused(self) -> bool:
        """Whether the crawl cannot start, and is about to end."""
        return self._refusal is not None

    def give_back_begun(self) -> None:
        """Have all requests that Scrapy is at crawled again: what came of them could not be stored."""
        if self._joined:
            self.worker.give_back_held()

    @property
    def idle_seconds(self) -> float:
        """For how many seconds the whole fleet, seeds included, has had nothing to do."""
        return self.delivery.finished.seconds if self._joined else 0.0

    def __len__(self) -> int:
        if self._aside is not None:
            return len(self._aside)
        if self._inline is not None:
            if self._closed:
                return 0  # it has left: to ask would be to join again
            waiting = self._exchange_by_hand().waiting
        else:
            reply = self._loop and self._loop.last_reply
            waiting = reply.waiting if reply else 0
        here = len(self.worker.outbox) + len(self.worker.ready) + len(self.worker.memory)
        return int(here + waiting)

    def _exchange_by_hand(self, want: int = 0) -> Any:
        assert self._inline is not None  # noqa: S101 - only called where it is there
        self.delivery.wanted_by_hand = want
        return self._inline.exchange()

    def close(self, reason: str) -> Deferred[None] | None:
        """Say what is left to say, give back what was not begun, and leave the fleet.

        The frontier is cleared only by the last worker, only when the fleet is finished and was not
        interrupted, and only if ``SCHEDULER_PERSIST`` is false.

        :param reason: why the spider is closed, in Scrapy's words, such as ``"finished"`` or ``"shutdown"``.
        :return: a ``Deferred`` that fires when the worker has left, or ``None`` if it has left already.
        """
        self._closed = True
        if self._aside is not None:
            return self._aside.close(reason)
        if not self._joined:
            return None
        finished = self._is_finished(reason)
        self.df.close(reason)
        self.delivery.closing, self.delivery.finishing = True, finished
        if self._loop is not None:
            return self._loop.leave(finished, self.settings.persist, self._left)
        self.worker.finish_all_but(())
        self._exchange_by_hand()
        self._left(self.frontier.leave(finished, self.settings.persist), None)
        return None

    def _is_finished(self, reason: str) -> bool:
        # With "start_error" Scrapy says that it is finished, too, and that start() raised.
        if reason in ("finished", "start_error"):
            return True
        # Whoever closes an idle spider for a reason of his own, as CloseSpider in a handler of spider_idle
        # does, has finished as well, where the whole fleet has; but not who interrupts it.
        interrupted = reason in _INTERRUPTIONS or reason.startswith("closespider_")
        # A RedisSpider that is idle waits for more.
        waits = hasattr(self.spider, "schedule_next_requests")
        return self.delivery.finished.is_running and not (interrupted or waits)

    def _left(self, result: Any, error: Exception | None) -> None:
        identity.closed()
        if error is not None:
            logger.error(
                "This worker could not leave the fleet: %s. It counts as dead after %g s",
                one_line(error),
                self.settings.lease_timeout,
            )
        else:
            if result.cleared:
                logger.info("The crawl is finished, and this was its last worker: the frontier is cleared")
            notices.failed_list(self.frontier, result.failed)
        notices.last_word(self.worker.shares)
        lost = self.delivery.lost_with_this_worker()
        if lost:
            logger.error(
                "%d requests that could not be kept in Redis were not crawled by this worker. They do not "
                "count as seen, and are crawled if they are found again",
                lost,
            )
        connection.close(self.server)
