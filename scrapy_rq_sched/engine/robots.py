"""Have Scrapy check all requests that wait for one robots.txt, and tell the Crawl-delay in it.

Since Scrapy 2.14, only the first request that waits for a robots.txt gets the rules; the requests behind it
are downloaded without a check. A worker begins several requests of a new host at once, so it would often
download forbidden pages.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from typing import Any

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from ..codec.slots import slot_of


def check_all_waiting(engine: Any) -> None:
    """Make the ``RobotsTxtMiddleware`` of a running *engine* check all requests, also those of a subclass.

    Before Scrapy 2.14, its ``robot_parser`` is not a coroutine function, and is left unchanged. A middleware
    without the fault works as before.
    """
    for middleware in engine.downloader.middleware.middlewares:
        if isinstance(middleware, RobotsTxtMiddleware) and inspect.iscoroutinefunction(
            middleware.robot_parser
        ):
            middleware.robot_parser = OneAtATime(middleware.robot_parser)  # type: ignore[method-assign]


def hear_crawl_delays(crawler: Crawler, hear: Callable[[str, float], None]) -> None:
    """Call *hear* with the slot and the seconds of each ``Crawl-delay`` for this crawler's user agent.

    Scrapy sends a signal for each robots.txt since 2.18. Before, this does nothing.
    """
    signal = getattr(signals, "robots_parsed", None)
    if signal is None:
        return
    settings = crawler.settings

    def parsed(robotparser: Any, request: Request) -> None:
        # As RobotsTxtMiddleware chooses it.
        agent = settings["ROBOTSTXT_USER_AGENT"] or request.headers.get(b"User-Agent", settings["USER_AGENT"])
        delay = robotparser.crawl_delay(agent)
        if delay is not None and 0 < delay < math.inf:
            hear(slot_of(request), delay)

    # Not weakly: there is no other reference to this function.
    crawler.signals.connect(parsed, signal, weak=False)


class OneAtATime:
    """Call ``robot_parser`` for one request of a host at a time, until the host's rules are known.

    :param robot_parser: the method of the middleware.
    """

    def __init__(self, robot_parser: Callable[[Request], Awaitable[Any]]) -> None:
        self._robot_parser = robot_parser
        # By host, the requests behind the one that fetches the robots.txt.
        self._waiting: dict[str, list[Deferred[None]]] = {}

    async def __call__(self, request: Request) -> Any:
        """Return the rules of *request*'s host, or None if there are none."""
        host = urlparse_cached(request).netloc
        if host in self._waiting:
            fetched: Deferred[None] = Deferred()
            self._waiting[host].append(fetched)
            await maybe_deferred_to_future(fetched)
            return await self._robot_parser(request)
        self._waiting[host] = []
        try:
            return await self._robot_parser(request)
        finally:
            for fetched in self._waiting.pop(host):
                fetched.callback(None)
