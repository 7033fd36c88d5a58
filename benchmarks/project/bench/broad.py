"""Many hosts of different sizes, without a network: page k of each links to its pages 2k + 1 and 2k + 2."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import TextResponse

START = "http://start.test/"


def sizes(hosts: int, pages: int) -> list[int]:
    """Return how many pages each of *hosts* has: the n-th an n-th of the first (Zipf's law)."""
    whole = sum(1 / n for n in range(1, hosts + 1))
    return [max(1, round(pages / whole / n)) for n in range(1, hosts + 1)]


class Handler:
    """Answers after ``SITE_LATENCY`` seconds; writes what it is asked to the file ``ASKED``."""

    lazy = False

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._sizes = sizes(settings.getint("BROAD_HOSTS"), settings.getint("BROAD_PAGES"))
        self._latency = settings.getfloat("SITE_LATENCY")
        self._asked = Path(os.environ["ASKED"]).open("a", buffering=1)  # noqa: SIM115 - closed at exit

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Handler:
        """Return a handler with *crawler*'s settings."""
        return cls(crawler)

    async def download_request(self, request: Request) -> TextResponse:
        """Return the page."""
        self._asked.write(f"{time.monotonic()} {os.getpid()} {request.url}\n")
        await asyncio.sleep(self._latency)
        return TextResponse(request.url, body=" ".join(self._links(request.url)).encode(), encoding="utf-8")

    async def close(self) -> None:
        """Close nothing."""

    def _links(self, url: str) -> list[str]:
        if url == START:
            return [f"http://host{host}.test/0" for host in range(len(self._sizes))]
        host, _, page = url.removeprefix("http://host").partition(".test/")
        children = (2 * int(page) + 1, 2 * int(page) + 2)
        return [f"http://host{host}.test/{child}" for child in children if child < self._sizes[int(host)]]


class BroadSpider(scrapy.Spider):
    """Follows every link, from the page *first*."""

    name = "broad"
    first = START

    async def start(self) -> AsyncIterator[Any]:  # noqa: D102 - Scrapy's
        yield scrapy.Request(self.first)

    def parse(self, response: TextResponse) -> Iterator[Any]:  # noqa: D102 - Scrapy's
        for url in response.text.split():
            yield scrapy.Request(url)
