"""Spiders that do nothing but follow links."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.exceptions import CloseSpider
from scrapy.http import TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy_redis.spiders import RedisSpider as PeersSpider

from scrapy_rq_sched import RedisSpider

from .site import page_url

_TEXT = "<p>Some text of an article, as long as a paragraph is.</p>"


class GraphSpider(scrapy.Spider):
    """Follows every link; on a site without an end, until ``-a pages=N`` of them are parsed."""

    name = "graph"
    pages = "0"

    async def start(self) -> AsyncIterator[Any]:  # noqa: D102 - Scrapy's
        yield scrapy.Request(page_url(0))

    def parse(self, response: TextResponse) -> Iterator[Any]:  # noqa: D102 - Scrapy's
        for number in response.text.split():
            yield scrapy.Request(page_url(int(number)))
        self.parsed = getattr(self, "parsed", 0) + 1
        if self.parsed == int(self.pages):
            raise CloseSpider("pages")


class LeafSpider(GraphSpider):
    """Starts with nothing, and crawls what waits."""

    name = "leaf"

    async def start(self) -> AsyncIterator[Any]:  # noqa: D102 - Scrapy's
        for request in ():
            yield request


class ItemsSpider(GraphSpider):
    """Yields an item of ``-a size=N`` bytes of JSON for each page, before its links."""

    name = "items"
    size = "200"

    def parse(self, response: TextResponse) -> Iterator[Any]:  # noqa: D102 - Scrapy's
        room = int(self.size) - len('{"url": "", "text": ""}') - len(response.url)
        yield {"url": response.url, "text": (_TEXT * (room // len(_TEXT) + 1))[:room]}
        yield from super().parse(response)


class HtmlSpider(scrapy.Spider):
    """Follows the links in the HTML of a site over sockets."""

    name = "html"
    site = ""

    async def start(self) -> AsyncIterator[Any]:  # noqa: D102 - Scrapy's
        self.links = LinkExtractor()
        yield scrapy.Request(f"{self.site}/0")

    def parse(self, response: TextResponse) -> Iterator[Any]:  # noqa: D102 - Scrapy's
        for link in self.links.extract_links(response):
            yield response.follow(link)


class SeedsSpider(RedisSpider):
    """Waits for seeds."""

    name = "seeds"

    def parse(self, response: TextResponse) -> None:
        """Look for nothing."""


class PeersSeedsSpider(PeersSpider):
    """Waits for seeds, as scrapy-redis does."""

    name = "peers-seeds"

    def parse(self, response: TextResponse) -> None:
        """Look for nothing."""
