"""The graph's pages, spread over a few hosts."""

from __future__ import annotations

import time

import scrapy

from .record import record

#: The first page, and how many hosts there are.
FIRST = "http://host0.test/0"


def host_url(number: int, hosts: int) -> str:
    """Return the address of page *number*."""
    return f"http://host{number % hosts}.test/{number}"


class HostsSpider(scrapy.Spider):
    """Follows every link."""

    name = "hosts"

    async def start(self):
        yield scrapy.Request(FIRST)

    def parse(self, response):
        record("parsed", response.url)
        hosts = self.settings.getint("HOSTS")
        for number in response.text.split():
            yield scrapy.Request(host_url(int(number), hosts))


class SlowHostsSpider(HostsSpider):
    """Computes for longer than a delay in every callback."""

    name = "slowhosts"

    def parse(self, response):
        time.sleep(0.5)
        yield from super().parse(response)
