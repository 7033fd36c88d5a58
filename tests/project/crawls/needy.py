"""Spiders whose requests need what not every worker offers."""

from __future__ import annotations

import os

import scrapy

from .graph import page_url
from .record import record

#: What a worker offers, as the test gave it.
OFFERS = os.environ.get("OFFERS", "")


class NeedySpider(scrapy.Spider):
    """Pages, of which each third needs a browser, each fifth a GPU, and each fifteenth both.

    ``needed`` in the record has the needs of each page that is downloaded, and what its worker offers.
    """

    name = "needy"

    async def start(self):
        yield self.request(0)

    def request(self, number):
        needs = {need for need, each in (("browser", 3), ("gpu", 5)) if number % each == 0 and number}
        return scrapy.Request(page_url(number), meta={"needs": needs} if needs else {})

    def parse(self, response):
        record("needed", f"{'+'.join(response.meta.get('needs', [])) or '-'} {OFFERS or '-'}")
        record("parsed", response.url)
        for number in response.text.split():
            yield self.request(int(number))


class BadNeedsSpider(scrapy.Spider):
    """Yields requests whose needs cannot be kept, and one that is fine."""

    name = "badneeds"

    async def start(self):
        yield scrapy.Request(page_url(1), meta={"needs": 5})
        yield scrapy.Request(page_url(2), meta={"needs": "browser", "socket": object()})
        yield scrapy.Request(page_url(3), meta={"needs": []})

    def parse(self, response):
        record("parsed", response.url)
