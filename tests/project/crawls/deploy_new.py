"""The spider of a rolling deployment, as it is after it: it has one callback more."""

from __future__ import annotations

import scrapy

from .graph import page_url
from .record import record
from .spiders import GraphSpider


class DeploySpider(GraphSpider):
    """Has every third page parsed by a callback that the old code lacks."""

    name = "deploy"

    def parse(self, response):
        for number in map(int, response.text.split()):
            callback = None if number % 3 else self.parse_third
            yield scrapy.Request(page_url(number), callback=callback)
        record("parsed", response.url)

    def parse_third(self, response):
        yield from self.parse(response)
