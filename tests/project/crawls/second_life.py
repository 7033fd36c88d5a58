"""Spiders of crawls that end, hang, are replaced, and are continued."""

from __future__ import annotations

import time
from pathlib import Path

import scrapy
from scrapy.exceptions import CloseSpider

from .graph import _sleep, page_url
from .record import record

#: The number of the first page of EndingSpider: it leads nowhere.
LEAVES = 1_000_000


class EndingSpider(scrapy.Spider):
    """Has start requests only, and the last one waits for the file GATE and takes LAST seconds.

    Of its GRAPH_PAGES pages ``-a part=N`` crawls the N-th EACH.
    """

    name = "ending"
    part = ""

    async def start(self):
        pages, each = self.settings.getint("GRAPH_PAGES"), self.settings.getint("EACH")
        numbers = range(int(self.part) * each, (int(self.part) + 1) * each) if self.part else range(pages)
        *numbers, last = numbers
        for number in numbers:
            yield scrapy.Request(page_url(LEAVES + number))
        gate = self.settings["GATE"]
        while gate and not Path(f"{gate}{self.part}").exists():
            await _sleep(0.05)
        yield scrapy.Request(page_url(LEAVES + last), meta={"latency": self.settings.getfloat("LAST")})

    def parse(self, response):
        record("parsed", response.url)

    async def closed(self, reason):
        await _sleep(self.settings.getfloat("CLOSE_PAUSE"))


class FollowingSpider(scrapy.Spider):
    """Follows every link of the graph."""

    name = "following"

    async def start(self):
        yield scrapy.Request(page_url(0))

    def parse(self, response):
        record("parsed", response.url)
        for number in response.text.split():
            yield scrapy.Request(page_url(int(number)))


class HangingSpider(FollowingSpider):
    """The callback of page HANG never returns, if that is not 0."""

    name = "hanging"

    def parse(self, response):
        hang = self.settings.getint("HANG")
        if hang and response.url == page_url(hang):
            record("hanging", response.url)
            while True:
                time.sleep(1)
        yield from super().parse(response)


class HangingStartSpider(FollowingSpider):
    """The process that is the first to make the file HANG never gets out of its constructor."""

    name = "hangingstart"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        try:
            Path(crawler.settings["HANG"] or "/").touch(exist_ok=False)
        except OSError:
            return super().from_crawler(crawler, *args, **kwargs)
        record("hanging", "constructor")
        while True:
            time.sleep(1)


class ReplacedSpider(FollowingSpider):
    """Closes as if its process had become too large after REPLACE_AFTER pages, if that is not 0."""

    name = "replaced"
    _parsed = 0

    def parse(self, response):
        yield from super().parse(response)
        self._parsed += 1
        if self._parsed == self.settings.getint("REPLACE_AFTER"):
            raise CloseSpider("memusage_exceeded")


class BlockingSpider(scrapy.Spider):
    """Every callback blocks for BLOCK seconds, and there are start requests only."""

    name = "blocking"

    async def start(self):
        for number in range(self.settings.getint("GRAPH_PAGES")):
            yield scrapy.Request(page_url(LEAVES + number))

    def parse(self, response):
        time.sleep(self.settings.getfloat("BLOCK"))
        record("parsed", response.url)


class SitesSpider(scrapy.Spider):
    """Begins at ``-a first=URL``, and follows the URLs that pages consist of.

    With ``-a keep_meta=TEXT`` the requests found in a page with TEXT in its URL get the meta of its response.
    """

    name = "sites"
    first = keep_meta = ""

    async def start(self):
        yield scrapy.Request(self.first)

    def parse(self, response):
        record("parsed", response.url)
        keeps = self.keep_meta and self.keep_meta in response.url
        for url in response.text.split():
            yield scrapy.Request(url, meta=response.meta if keeps else None)


class OtherSitesSpider(SitesSpider):
    """The same, with another frontier."""

    name = "othersites"
