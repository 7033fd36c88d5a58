"""The private names of Scrapy's engine that the scheduler needs.

Every private name of Scrapy that this package uses is in this module, in ``downloader_slots.py`` or in
``throttle.py``, and is checked when the spider opens.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any
from weakref import WeakSet

from pydispatch.dispatcher import getAllReceivers, liveReceivers
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError
from twisted.internet.threads import deferToThread

from ..errors import ScrapyInternalsError
from ..runtime.event_loop import EventLoop
from .answers import Answer, Answers, Failure
from .downloader_slots import DownloaderSlots
from .items import ItemAnswers, Items, cookie_jars
from .outcomes import Hearer, Outcomes
from .output import GroupInheritance
from .robots import check_all_waiting
from .throttle import ThrottleSettings, take_over

#: Seconds for which start() may be read before the event loop has its turn; and seconds that start() waits
#: before it is asked again whether there are enough requests: at first, and at most.
START_SLICE, FIRST_START_PAUSE, START_PAUSE = 0.02, 0.001, 0.01
#: Seconds to wait until the engine of a crawl that must end is running.
END_TIMEOUT = 30.0
#: Why a request is ignored that an operator has denied.
DENIED = "an operator has denied requests to this URL"
#: Seconds between two checks whether a spider that must be closed is open.
OPENING_POLL = 0.1

# The crawls that were ended while they were opened.
_not_started: WeakSet[Crawler] = WeakSet()


class _Watched(set[Request]):
    """A set that notes which requests leave it, so that nobody has to search for them."""

    def __init__(self, requests: Collection[Request], left: list[Request]) -> None:
        super().__init__(requests)
        self._left = left

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._left.append(request)


class EngineBridge:
    """Give the scheduler access to the engine that drives it.

    :param engine: the engine of a running crawl, with a slot.
    :raises ScrapyInternalsError: if this Scrapy lacks a name that the scheduler needs.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._loop = EventLoop()
        slot = self._slot
        needed = (
            (engine, "_start"),
            (engine, "signals"),
            (slot, "inprogress"),
            (slot, "closing"),
            (slot, "close"),
            (slot, "scheduler"),
            (slot, "close_if_idle"),
            (getattr(engine, "downloader", None), "active"),
            (getattr(engine, "downloader", None), "slots"),
            (getattr(engine, "downloader", None), "per_slot_settings"),
            (getattr(engine, "downloader", None), "_get_slot"),
            (getattr(engine, "downloader", None), "get_slot_key"),
            (getattr(engine, "downloader", None), "_enqueue_request"),
            (getattr(getattr(engine, "downloader", None), "middleware", None), "middlewares"),
            (getattr(getattr(engine, "downloader", None), "middleware", None), "methods"),
            (getattr(engine, "scraper", None), "slot"),
            (getattr(getattr(engine, "scraper", None), "spidermw", None), "_add_middleware"),
            (getattr(getattr(engine, "scraper", None), "spidermw", None), "methods"),
            (getattr(slot, "nextcall", None), "schedule"),
        )
        missing = [name for owner, name in needed if not hasattr(owner, name)]
        if missing:
            from scrapy import __version__

            raise ScrapyInternalsError(
                f"The engine of Scrapy {__version__} lacks {', '.join(missing)}, which scrapy-rq-sched needs "
                "to know when a request is finished. Update scrapy-rq-sched, or use an older Scrapy"
            )

        check_all_waiting(engine)
        #: The downloader's slots.
        self.slots = DownloaderSlots(engine, self._loop)
        #: Returns whether the next start request should wait.
        self.holds_start: Callable[[], bool] = lambda: False
        #: Whether start() waits for ``scheduler_empty``, as in Scrapy's example of a lazy start().
        self.reads_lazily = False
        #: How many items start() has yielded.
        self.start_items = 0
        self._answers: list[Answers] = []
        self._cancel_wake: Callable[[], None] = lambda: None
        self._start_request: Any = None
        self._finished: list[Request] = []
        slot.inprogress = _Watched(slot.inprogress, self._finished)
        self._watch_start()
        self._engine.signals.connect(self._look_for_lazy_start, signals.scheduler_empty)

    @property
    def _slot(self) -> Any:
        return getattr(self._engine, "_slot", None)

    def in_progress(self) -> Collection[Request]:
        """Return the requests that were handed out and are not finished.

        A request leaves this set when it is downloaded, its callback has ended, and its items have passed
        the pipelines.
        """
        slot = self._slot
        return slot.inprogress if slot is not None else ()

    def take_finished(self) -> list[Request]:
        """Return the requests that have left :meth:`in_progress` since the last call."""
        finished = self._finished.copy()
        self._finished.clear()
        return finished

    def reads_start(self) -> bool:
        """Return whether the engine still reads the spider's ``start()``."""
        return self._engine._start is not None

    def downloading(self) -> int:
        """Return how many requests the downloader has."""
        return len(self._engine.downloader.active)

    def is_scraping(self, request: Request) -> bool:
        """Return whether the spider has the response to *request*, or will have it next."""
        slot = self._engine.scraper.slot
        return slot is not None and request in slot.active

    def backs_out(self) -> str:
        """Return the part that keeps the engine from asking for requests; empty if the engine asks."""
        if self._engine.scraper.slot is None:
            return "engine"
        if not self._engine.needs_backout():
            return ""
        return "downloader" if self._engine.downloader.needs_backout() else "scraper"

    def watch_answers(
        self, hear: Callable[[Answer], None], miss: Callable[[Failure], None] | None = None
    ) -> None:
        """Tell *hear* each answer that the downloader gets, and *miss* each request whose site has none."""
        # Signals reference their receivers weakly.
        self._answers.append(Answers(self._engine, self.slots.reached_at, hear, miss))

    def watch_outcomes(self, hearer: Hearer) -> None:
        """Tell *hearer* the outcomes of requests."""
        # Signals reference their receivers weakly.
        self._outcomes = Outcomes(self._engine, hearer)

    def watch_items(self, items: Items) -> None:
        """Tell *items* what is answered to requests with items of pools, and give it their cookies."""
        # Signals reference their receivers weakly.
        self._item_answers = ItemAnswers(self._engine, items)
        if (jars := cookie_jars(self._engine)) is not None:
            items.jars = jars

    def name_end(self, reason: Callable[[], str]) -> None:
        """Let Scrapy close an idle spider for the reason that *reason* returns, if it is not empty.

        If a handler of ``spider_idle`` keeps the spider open, or its ``start()`` has failed, that counts.
        """

        def idle() -> None:
            if (why := reason()) and not getattr(self._engine, "_start_error", False):
                raise CloseSpider(why)

        self._engine.signals.connect(idle, signals.spider_idle, weak=False)

    def deny(
        self,
        refuses: Callable[[str], bool],
        refuse_waiting: Callable[[Callable[[str], bool], str], None],
    ) -> Callable[[], None]:
        """Download no request whose URL *refuses* returns true for, also if it is no request of the spider.

        :param refuse_waiting: ends those that wait for turns before they reach the downloader.
        :return: a function to call when *refuses* changes, for the requests that the downloader has already.
        """

        def process_request(request: Request, spider: Any = None) -> None:
            if refuses(request.url):
                raise IgnoreRequest(DENIED)

        # The last middleware sees each request as it is downloaded, also a robots.txt.
        self._engine.downloader.middleware.methods["process_request"].append(process_request)

        def changed() -> None:
            refuse_waiting(refuses, DENIED)
            self.slots.ignore_queued(refuses, DENIED)

        return changed

    def throttle(self, least: float) -> ThrottleSettings | None:
        """Take the delays from Scrapy's AutoThrottle, see :func:`take_over`; None if it is not in use."""
        return take_over(self._engine.crawler, least) if self.slots.is_throttled else None

    def send(self, signal: Any, arguments: dict[str, Any], over: Callable[[], None]) -> None:
        """Send *signal* to its handlers, some of which may be asynchronous; call *over* when all are done."""
        manager = self._engine.signals
        if hasattr(manager, "send_catch_log_async"):  # Scrapy 2.14
            sent = deferred_from_coro(manager.send_catch_log_async(signal, **arguments))
        else:
            sent = manager.send_catch_log_deferred(signal, **arguments)
        sent.addBoth(lambda _: over())

    def inherit_groups(self) -> None:
        """Put the requests that callbacks yield from now on into the groups of their pages."""
        manager = self._engine.scraper.spidermw
        manager._add_middleware(GroupInheritance())
        # The manager has put it next to the spider. Behind the other middlewares, it sees their requests,
        # too, and their places stay the same for the responses that they are processing.
        for method in ("process_spider_output", "process_spider_exception"):
            manager.methods[method].append(manager.methods[method].popleft())

    def call_at(self, moment: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call *call* at *moment* of the monotonic clock; return a function that cancels the call."""
        return self._loop.call_later(max(0.0, moment - time.monotonic()), call)

    def wake_at(self, moment: float) -> None:
        """Make the engine ask for a request at *moment* of the monotonic clock, and cancel the last call."""
        self._cancel_wake()
        self._cancel_wake = self._loop.call_later(max(0.0, moment - time.monotonic()), self.wake)

    def is_start_request(self, request: Request) -> bool:
        """Return whether *request* is the one that ``start()`` has just yielded.

        The mark in its meta is not enough: retries, redirects and other requests with a copy of its meta
        have the mark, too.
        """
        return request is self._start_request

    def _watch_start(self) -> None:
        start = self._engine._start

        async def watched() -> AsyncIterator[Any]:
            last_pause, items = time.monotonic(), aiter(start)
            while True:
                # While the downloader is full, the engine reads a start() that never waits in one go: without
                # a pause, there would be no exchange and no heartbeat until the end of start().
                try:
                    if time.monotonic() - last_pause > START_SLICE:
                        await self._loop.sleep(0)
                        last_pause = time.monotonic()
                    pause = FIRST_START_PAUSE
                    while self.holds_start() and not self.closing():
                        await self._loop.sleep(pause)
                        pause = min(2 * pause, START_PAUSE)
                except CancelledError:  # Twisted's; Scrapy would take it for an error of start()
                    return
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    break
                if self.closing():
                    # The engine reads on while it closes. The next crawl starts with the remaining requests.
                    return
                self._start_request = item
                self.start_items += 1
                yield item
            self._start_request = None

        if start is not None:
            self._engine._start = watched()

    def _look_for_lazy_start(self) -> None:
        if self._engine._start is None:
            self._engine.signals.disconnect(self._look_for_lazy_start, signals.scheduler_empty)
            return
        # SignalManager.wait_for() connects its own function while it waits.
        waiting = getAllReceivers(self._engine.signals.sender, signals.scheduler_empty)
        names = [getattr(receiver, "__qualname__", "") for receiver in liveReceivers(waiting)]
        if any("wait_for" in name for name in names):
            self.reads_lazily = True

    def closing(self) -> bool:
        """Return whether the spider is being closed, so that the engine asks for no more requests."""
        slot = self._slot
        return slot is None or slot.closing is not None

    def close(self, reason: str) -> None:
        """Close the spider on the next turn of the event loop, or when the engine is running."""

        def attempt() -> None:
            if self.closing():
                return
            if self._engine.running:
                _close_spider(self._engine, reason)
            else:  # the spider is being opened
                self._loop.call_later(OPENING_POLL, attempt)

        self._loop.call_later(0, attempt)

    def fail(self, reason: str) -> None:
        """Close the spider as with :meth:`close`, so that ``scrapy crawl`` exits with 1."""
        _exit_with_1(self._engine.crawler)
        self.close(reason)

    def soon(self, call: Callable[[], None]) -> None:
        """Call *call* on the next turn of the event loop."""
        self._loop.call_later(0, call)

    def wake(self) -> None:
        """Make the engine ask for requests now; by itself, it asks every 5 seconds."""
        slot = self._slot
        if slot is not None and slot.closing is None:
            slot.nextcall.schedule()


def end_crawl(crawler: Crawler, reason: str, fails: bool = True) -> None:
    """End a crawl that is being opened, without a traceback.

    :param fails: whether ``scrapy crawl`` exits with 1.
    """
    _not_started.add(crawler)
    engine: Any = crawler.engine
    loop = EventLoop()
    begun = time.monotonic()

    def close() -> None:
        # An engine that is not running cannot be stopped.
        if not engine.running:
            if time.monotonic() - begun < END_TIMEOUT:  # otherwise the engine was stopped before
                loop.call_later(0.01, close)
        elif not crawler.crawling:
            # Without a reactor, after Ctrl-C before the engine ran: Scrapy does not stop the engine then.
            deferred_from_coro(engine.stop_async())
        else:
            _close_spider(engine, reason)

    # Not weakly: there is no other reference to this function.
    crawler.signals.connect(close, signals.engine_started, weak=False)
    if fails:
        _exit_with_1(crawler)


def has_failed_to_start(crawler: Crawler) -> bool:
    """Return whether :func:`end_crawl` has ended *crawler*, so that it crawled nothing."""
    return crawler in _not_started


def _exit_with_1(crawler: Crawler) -> None:
    def fail() -> None:
        # Without a spider, `scrapy crawl` exits with 1.
        crawler.spider = None

    # Not weakly: there is no other reference to this function.
    crawler.signals.connect(fail, signals.engine_stopped, weak=False)


def _close_spider(engine: Any, reason: str) -> None:
    if hasattr(engine, "close_spider_async"):
        deferred_from_coro(engine.close_spider_async(reason=reason))
    else:  # before Scrapy 2.14
        engine.close_spider(engine.spider, reason)


def is_shell(engine: Any) -> bool:
    """Return whether *engine* is that of ``scrapy shell``, which fetches only the URLs that a user types."""
    # A crawl checks later that this Scrapy has the name.
    return engine is not None and not getattr(engine._slot, "close_if_idle", True)


def runs_command(spider: Spider) -> bool:
    """Return whether *spider* is used by a command such as ``scrapy fetch`` or ``scrapy check``.

    These commands replace the spider's ``start()`` with their own, which yields the requests of the command.
    """
    return str(getattr(type(spider).start, "__module__", "")).startswith("scrapy.commands.")


def find_scheduler(crawler: Crawler) -> Any:
    """Return the scheduler that *crawler*'s engine uses, or None if there is no engine."""
    engine = find_engine(crawler)
    return None if engine is None else engine._slot.scheduler


def find_engine(crawler: Crawler) -> Any:
    """Return the engine of *crawler* if it drives a crawl; None if the scheduler is used by hand."""
    try:
        engine = crawler.engine
    except RuntimeError:  # since Scrapy 2.19, if there is no engine yet
        return None
    return engine if getattr(engine, "_slot", None) is not None else None


def is_closing(crawler: Crawler) -> bool:
    """Return whether the spider of *crawler* is being closed."""
    engine = find_engine(crawler)
    return engine is not None and getattr(engine._slot, "closing", None) is not None


def before_closing(crawler: Crawler, call: Callable[[], None]) -> None:
    """Call *call* when the spider of *crawler* begins to close: before its requests, and any pipeline, end.

    Scrapy sends no signal then. The engine must be opening its spider, or crawl.
    """
    slot = find_engine(crawler)._slot
    close = getattr(slot, "close", None)
    if close is None:
        return  # EngineBridge refuses this Scrapy

    def call_and_close() -> Any:
        call()
        return close()

    slot.close = call_and_close


async def run_in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call *function* in a thread of Twisted's or asyncio's pool, and return its result."""
    if "twisted.internet.reactor" in sys.modules:
        return await maybe_deferred_to_future(deferToThread(function, *arguments))
    return await asyncio.to_thread(function, *arguments)
