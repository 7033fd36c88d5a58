"""Spiders whose ``start()`` shows in which order, and how far, it is read."""

import scrapy
from scrapy import signals

from .record import record


def page(number, priority=0):
    return scrapy.Request(f"http://start.test/{number}", priority=priority)


class StartOrderSpider(scrapy.Spider):
    """Scrapy crawls its pages by their numbers if it downloads one at a time."""

    name = "startorder"

    async def start(self):
        yield page(1)
        for request in (page(2, priority=1), page(5)):
            self.crawler.engine._slot.scheduler.enqueue_request(request)
        yield page(6)
        yield page(3, priority=1)
        yield page(4, priority=1)

    def parse(self, response):
        pass


class LazyStartSpider(scrapy.Spider):
    """Yields a request only while the downloader is not full."""

    name = "lazystart"

    async def start(self):
        for number in range(20):
            if self.crawler.engine.needs_backout():
                record("full", str(number))
                await self.crawler.signals.wait_for(signals.scheduler_empty)
            yield page(number)

    def parse(self, response):
        pass
