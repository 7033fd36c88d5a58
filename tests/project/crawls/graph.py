"""A site of N pages without a network: page i links to ten new pages and to ten known ones."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import TextResponse
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError

from .record import record

SITE = "http://graph.test"
#: Seconds that a page asks to wait which is refused.
RETRY_AFTER = 2


def page_url(number: int) -> str:
    """Return the address of page *number*."""
    return f"{SITE}/{number}"


def links_of(number: int, pages: int) -> list[int]:
    """Return the pages that page *number* of a site of *pages* links to."""
    new = range(10 * number + 1, min(10 * number + 11, pages))
    known = random.Random(number).choices(range(min(10 * number + 1, pages)), k=10)
    return [*new, *known]


class GraphHandler:
    """Answers at once, or after ``GRAPH_LATENCY`` seconds, with the page's links as text.

    If ``GRAPH_GATE`` is the path of a file, pages from ``GRAPH_GATED_FROM`` on wait for it.
    So a crawl does not end before a test has seen what it waits for.
    If ``GRAPH_REFUSALS`` is the path of a folder, each 40th page is refused once, and asks to wait for
    ``RETRY_AFTER`` seconds.
    ``GRAPH_DEAD`` is a host that refuses connections.
    """

    lazy = False

    def __init__(self, crawler: Crawler) -> None:
        self._pages = crawler.settings.getint("GRAPH_PAGES")
        self._latency = crawler.settings.getfloat("GRAPH_LATENCY")
        self._gate = crawler.settings.get("GRAPH_GATE")
        self._gated_from = crawler.settings.getint("GRAPH_GATED_FROM")
        self._dead = crawler.settings.get("GRAPH_DEAD")
        self._refusals = crawler.settings.get("GRAPH_REFUSALS")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> GraphHandler:
        return cls(crawler)

    async def download_request(self, request: Request) -> TextResponse:
        record("downloaded", request.url)
        if self._dead and request.url.split("/")[2] == self._dead:
            raise ConnectionRefusedError
        latency = request.meta.get("latency", self._latency)
        if latency:
            await _sleep(latency)
        number = request.url.rpartition("/")[2]
        while self._gate and int(number) >= self._gated_from and not os.path.exists(self._gate):
            await _sleep(0.02)
        if self._refusals and self._is_refused(number):
            record("refused", request.url)
            return TextResponse(request.url, status=429, headers={"Retry-After": str(RETRY_AFTER)})
        links = links_of(int(number), self._pages) if number.isdigit() else []
        return TextResponse(request.url, body=" ".join(map(str, links)).encode(), encoding="utf-8")

    def _is_refused(self, number: str) -> bool:
        """Return whether a page is refused now; no process refuses it again."""
        if int(number) % 40 != 7:
            return False
        try:
            (Path(self._refusals) / number).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    async def close(self) -> None:
        pass


class DeferredGraphHandler(GraphHandler):
    """The same, as Scrapy before 2.14 calls it."""

    def download_request(self, request: Request, spider: Spider) -> Deferred[TextResponse]:
        return deferred_from_coro(super().download_request(request))

    def close(self) -> None:
        pass


async def _sleep(seconds: float) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        from twisted.internet import reactor

        waited: Deferred[None] = Deferred()
        reactor.callLater(seconds, waited.callback, None)
        await maybe_deferred_to_future(waited)
    else:
        await asyncio.sleep(seconds)
