"""A site without a network: page i links to ten new pages and to ten that are linked already."""

from __future__ import annotations

import asyncio
import random

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import TextResponse

SITE = "http://bench.test"
#: Links on a page to pages that no page before it links to; and to others.
NEW, KNOWN = 10, 10


def page_url(number: int) -> str:
    """Return the address of page *number*."""
    return f"{SITE}/section-{number % 97}/article-{number}.html"


def number_of(url: str) -> int:
    """Return the number of the page at *url*."""
    return int(url.rpartition("-")[2].removesuffix(".html"))


def links_of(number: int, pages: int) -> list[int]:
    """Return the pages that page *number* of a site of *pages* links to; of one without end if 0."""
    first = NEW * number + 1
    last = min(first + NEW, pages) if pages else first + NEW
    known = min(first, pages) if pages else first
    return [*range(first, last), *random.Random(number).choices(range(known), k=KNOWN)]


class Handler:
    """Answers at once, or after ``SITE_LATENCY`` seconds, with the page's links as text.

    A page whose address has ``leaf`` in it has no links.
    """

    lazy = False

    def __init__(self, crawler: Crawler) -> None:
        self._pages = crawler.settings.getint("SITE_PAGES")
        self._latency = crawler.settings.getfloat("SITE_LATENCY")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Handler:
        """Return a handler with *crawler*'s settings."""
        return cls(crawler)

    async def download_request(self, request: Request) -> TextResponse:
        """Return the page."""
        if self._latency:
            await asyncio.sleep(self._latency)
        links = [] if "leaf" in request.url else links_of(number_of(request.url), self._pages)
        return TextResponse(request.url, body=" ".join(map(str, links)).encode(), encoding="utf-8")

    async def close(self) -> None:
        """Close nothing."""
