"""A spider that two versions of the package crawl with: it uses nothing that either might lack."""

from __future__ import annotations

import os
from pathlib import Path

import scrapy

import scrapy_rq_sched

from .graph import _sleep, links_of
from .record import record

#: How many hosts with a delay the pages are spread over, and how many delays a page of the other host takes.
HOSTS, DELAYS = 6, 1.2
#: The host without a delay.
SPECIAL = "special.test"
#: Each how many pages one is there, as are the pages of the first tenth, which have the links.
OF_PAGES = 10


def is_special(number: int, pages: int) -> bool:
    """Return whether page *number* is on the host without a delay, and has a callback of its own."""
    return number <= pages // 10 or number % OF_PAGES == 0


def url_of(number: int, pages: int) -> str:
    """Return the address of page *number*."""
    host = SPECIAL if is_special(number, pages) else f"host{number % HOSTS}.test"
    return f"http://{host}/{number}"


class UpgradedSpider(scrapy.Spider):
    """Lacks a callback where LESS is set.

    It begins when the file GATE is there, and is not through with its start requests before the file HOLD is.
    """

    name = "upgraded"

    async def start(self):
        record("code", scrapy_rq_sched.__file__)
        await self.wait_for("GATE")
        if "LESS" not in os.environ:
            yield self.request(0)
        await self.wait_for("HOLD")

    async def wait_for(self, name):
        while not Path(os.environ.get(name, "/")).exists():
            await _sleep(0.05)

    def request(self, number):
        pages = self.settings.getint("GRAPH_PAGES")
        url = url_of(number, pages)
        if is_special(number, pages):
            latency = DELAYS * self.settings.getfloat("DOWNLOAD_DELAY")
            return scrapy.Request(url, callback=self.parse_special, meta={"latency": latency})
        return scrapy.Request(url)

    def parse(self, response):
        record("parsed", response.url)

    if "LESS" not in os.environ:

        def parse_special(self, response):
            record("parsed", response.url)
            number = int(response.url.rpartition("/")[2])
            for link in links_of(number, self.settings.getint("GRAPH_PAGES")):
                yield self.request(link)
