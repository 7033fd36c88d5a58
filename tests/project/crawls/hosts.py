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
            yield self.request(host_url(int(number), hosts))

    def request(self, url):
        return scrapy.Request(url)


class MemoryHostsSpider(HostsSpider):
    """Its requests cannot be serialized: each worker crawls what it has found from its memory."""

    name = "memoryhosts"

    async def start(self):
        # These are shared, so that each worker finds something.
        for number in range(10):
            yield scrapy.Request(host_url(number, self.settings.getint("HOSTS")))

    def request(self, url):
        return scrapy.Request(url, meta={"kept": {1}})


class OneSlowHostSpider(scrapy.Spider):
    """One host answers slowly, and has been found first."""

    name = "oneslowhost"

    async def start(self):
        for number in range(60):
            yield scrapy.Request(f"http://slow.test/{number}", meta={"latency": 5})
        for number in range(200):
            yield scrapy.Request(f"http://host{number % 5}.test/{number}")

    def parse(self, response):
        record("parsed", response.url)


class SlowHostsSpider(HostsSpider):
    """Computes for longer than a delay in every callback."""

    name = "slowhosts"

    def parse(self, response):
        time.sleep(0.5)
        yield from super().parse(response)
