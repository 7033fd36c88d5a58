"""Spiders that do what a crawl of one's own rarely does, and what broke crawls of others."""

from __future__ import annotations

import os
import threading
import time

import scrapy
from scrapy import signals
from scrapy.exceptions import CloseSpider, DontCloseSpider

from scrapy_rq_sched import RedisSpider

from .graph import page_url
from .record import record
from .spiders import GraphSpider, PagesSpider, PlainQueue


class OwnReasonSpider(GraphSpider):
    """Closes itself when it is idle, for a reason of its own."""

    name = "ownreason"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    def idle(self):
        raise CloseSpider("nothing_left")


class LatecomingSpider(GraphSpider):
    """Adds a page of its own, ROUNDS times, whenever it is idle."""

    name = "latecoming"
    rounds = "0"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.add, signals.spider_idle)
        spider.left = int(spider.rounds)
        return spider

    def add(self):
        if self.left:
            self.left -= 1
            self.crawler.engine.crawl(scrapy.Request(page_url(1_000_000 + 10 * os.getpid() + self.left)))
            raise DontCloseSpider


class TwiceSpider(scrapy.Spider):
    """Has its start requests filtered and unfiltered, in both orders."""

    name = "twice"

    async def start(self):
        yield scrapy.Request(page_url(1))
        yield scrapy.Request(page_url(1), dont_filter=True)
        yield scrapy.Request(page_url(2), dont_filter=True)
        yield scrapy.Request(page_url(2))

    def parse(self, response):
        record("parsed", response.url)


class LargeSpider(scrapy.Spider):
    """One of its requests is larger than the server takes."""

    name = "large"
    start_urls = [page_url(0)]

    def parse(self, response):
        record("parsed", response.url)
        if response.url == page_url(0):
            for number in range(1, 101):
                # Not what compresses: nor would JSON.
                body = os.urandom(1_500_000).hex() if number == 50 else ""
                yield scrapy.Request(page_url(number), method="POST", body=body)


class ManySeedsSpider(RedisSpider):
    """A seed stands for many requests, most of them for one page, and each takes its time."""

    name = "manyseeds"

    def make_request_from_data(self, data):
        for _ in range(int(data)):
            time.sleep(0.01)  # what it computes is of no interest
            yield scrapy.Request(page_url(1))
        yield scrapy.Request(page_url(2))

    def parse(self, response):
        record("parsed", response.url)


class SlowPageSpider(GraphSpider):
    """The callback of one page computes for longer than a lease, whoever does it."""

    name = "slowpage"

    def parse(self, response):
        if response.url == page_url(5):
            record("computing", response.url)
            time.sleep(2.5)  # what it computes is of no interest
        yield from super().parse(response)


class LazySpider(scrapy.Spider):
    """Reads its start requests as Scrapy's documentation has it read them lazily."""

    name = "lazy"

    async def start(self):
        for number in range(self.settings.getint("GRAPH_PAGES")):
            if self.crawler.engine.needs_backout():
                await self.crawler.signals.wait_for(signals.scheduler_empty)
            record("read", page_url(1_000_000 + number))
            yield scrapy.Request(page_url(1_000_000 + number), dont_filter=True)

    def parse(self, response):
        record("parsed", response.url)


class UnsharedSpider(scrapy.Spider):
    """Nearly all of its requests hold what no serializer keeps."""

    name = "unshared"
    start_urls = [page_url(0)]

    def parse(self, response):
        record("parsed", response.url)
        if response.url == page_url(0):
            for number in range(1, 150):
                yield scrapy.Request(page_url(number), meta={"kept": {number}})


class EmptySpider(scrapy.Spider):
    """Has no request at all."""

    name = "empty"

    async def start(self):
        return
        yield


class ReadySpider(scrapy.Spider):
    """The page of its seed leads to forty others, of which the worker has all at hand."""

    name = "ready"
    custom_settings = {"FRONTIER_FLUSH_INTERVAL": 2, "FRONTIER_LEASE_TIMEOUT": 30}

    def parse(self, response):
        record("parsed", response.url)
        if response.url == page_url(0):
            for number in range(1, 41):
                yield scrapy.Request(page_url(number))


class LongSeedSpider(RedisSpider):
    """A seed stands for many pages, and to make each takes a while."""

    name = "longseed"

    def make_request_from_data(self, data):
        for number in range(int(data)):
            time.sleep(0.001)
            yield scrapy.Request(page_url(number), dont_filter=True)

    def parse(self, response):
        record("parsed", response.url)


class DeadlySeedSpider(RedisSpider):
    """Dies of its seeds."""

    name = "deadlyseed"

    def make_request_from_data(self, data):
        os._exit(9)


class RefusingQueue(PlainQueue):
    """Puts into Redis what redis-py does not take, for one request of ten."""

    def push(self, request):
        if request.url.endswith("7"):
            self.server.lpush(self.key, {"url": request.url})
        super().push(request)


class HangingSpider(PagesSpider):
    """A page whose callback never returns; with ``-a waits=1``, it waits in a call that never returns."""

    name = "hanging"
    waits = ""
    page = 50

    def parse(self, response):
        if response.url == page_url(self.page):
            record("hangs", response.url)
            if self.waits:
                threading.Event().wait()
            while True:
                pass
        yield from super().parse(response)


def is_first(text):
    """Return whether this process is the first that asks, by a file next to the record."""
    try:
        os.close(os.open(f"{os.environ['RECORD']}.{text}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class HangInitSpider(PagesSpider):
    """The first process never gets beyond ``__init__``."""

    name = "hanginit"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if is_first("init"):
            threading.Event().wait()


class SometimesBrokenSpider(PagesSpider):
    """A start() that raises in the first process only."""

    name = "sometimesbroken"

    async def start(self):
        yield scrapy.Request(page_url(1_000_001))
        if is_first("start"):
            raise ValueError("the list of start requests is broken")


class SlowLastPipeline:
    """Writes its items when the spider is closed, for a long time."""

    def process_item(self, item, spider=None):
        return item

    def close_spider(self, spider=None):
        time.sleep(8)
        record("written", "")


class HangLastPipeline:
    """Never returns when the spider is closed."""

    def process_item(self, item, spider=None):
        return item

    def close_spider(self, spider=None):
        record("hangs", "pipeline")
        threading.Event().wait()


class HangStartSpider(scrapy.Spider):
    """A blocking call in ``start()`` never returns."""

    name = "hangstart"

    async def start(self):
        record("hangs", "start")
        threading.Event().wait()
        yield scrapy.Request(page_url(0))
