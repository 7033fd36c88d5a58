"""The graph's pages, spread over a few hosts."""

from __future__ import annotations

import os
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


class FileHostsSpider(HostsSpider):
    """Each eighth page has a file on another host, which a pipeline downloads."""

    name = "filehosts"

    def parse(self, response):
        number = response.url.rpartition("/")[2]
        if number.isdigit() and int(number) % 8 == 0:
            yield {"file_urls": [f"http://files.test/file{number}"]}
        yield from super().parse(response)


class DeadHostSpider(HostsSpider):
    """Has links to some pages of a host that is dead, too."""

    name = "deadhost"
    DEAD = 8

    async def start(self):
        for number in range(self.DEAD):
            yield scrapy.Request(f"http://{self.settings['GRAPH_DEAD']}/dead{number}", errback=self.failed)
        async for request in super().start():
            yield request

    def failed(self, failure):
        record("gave up", failure.request.url)


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


class StallingHostsSpider(HostsSpider):
    """Computes long in a callback now and then: its worker keeps up, but has late turns and more to come."""

    name = "stallinghosts"
    last_stall = 0.0

    def parse(self, response):
        if time.monotonic() > self.last_stall + 3.5:
            time.sleep(0.8)
            self.last_stall = time.monotonic()
        yield from super().parse(response)


class RecordBegun:
    """A downloader middleware that records each request before robots.txt is asked for."""

    def process_request(self, request, spider=None):
        record("begun", request.url)


class ManyPagesSpider(scrapy.Spider):
    """Asks the site at SITE_URL for many pages at once."""

    name = "manypages"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {RecordBegun: 1}}

    async def start(self):
        for number in range(16):
            yield scrapy.Request(f"{os.environ['SITE_URL']}/{number}")

    def parse(self, response):
        record("parsed", response.url)


class OneDeadHostSpider(ManyPagesSpider):
    """Asks a site at DEAD_URL for some pages, too."""

    name = "onedeadhost"

    async def start(self):
        for number in range(6):
            yield scrapy.Request(f"{os.environ['DEAD_URL']}/{number}")
        async for request in super().start():
            yield request


class FilesSpider(ManyPagesSpider):
    """Pages of four hosts: each has three files on a fifth host, which a pipeline downloads."""

    name = "files"

    async def start(self):
        for number in range(16):
            yield scrapy.Request(f"http://127.0.0.{3 + number % 4}:{os.environ['SITE_PORT']}/{number}")

    def parse(self, response):
        record("parsed", response.url)
        page = response.url.rpartition("/")[2]
        files = f"http://127.0.0.2:{os.environ['SITE_PORT']}/{page}/file"
        yield {"file_urls": [f"{files}{number}" for number in range(3)]}


class DeadFilesSpider(FilesSpider):
    """The same pages: the host of their files refuses connections."""

    name = "deadfiles"

    def parse(self, response):
        for item in super().parse(response):
            yield {"file_urls": [url.replace(os.environ["SITE_PORT"], "1") for url in item["file_urls"]]}


class FilesBesideSpider(FilesSpider):
    """The same pages, and a page for every second one of them on the host of the files."""

    name = "filesbeside"

    def parse(self, response):
        yield from super().parse(response)
        page = response.url.rpartition("/")[2]
        if page.isdigit() and int(page) % 2 == 0:
            yield scrapy.Request(f"http://127.0.0.2:{os.environ['SITE_PORT']}/page{page}", self.parse_page)

    def parse_page(self, response):
        record("parsed", response.url)


class MovedHosts:
    """A downloader middleware that redirects each page of a host "old….HOST" to the same page of HOST."""

    def process_response(self, request, response, spider=None):
        host = request.url.removeprefix("http://")
        if not host.startswith("old"):
            return response
        return response.replace(status=302, headers={"Location": f"http://{host.partition('.')[2]}"})


class MovedSpider(scrapy.Spider):
    """Finds pages of several hosts, which have all moved to one host, and follows each to a third host."""

    name = "moved"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {MovedHosts: 700}}
    PAGES = 5

    async def start(self):
        for number in range(self.PAGES):
            yield scrapy.Request(f"http://old{number}.www.test/{number}")
        yield scrapy.Request("http://old.www.test/own", meta={"download_slot": "proxy-1"})

    def parse(self, response):
        record("slot", f"{response.url} {response.meta['download_slot']}")
        if "www.test" in response.url:
            yield scrapy.Request(response.url.replace("www", "other"), meta=response.meta)


class MovedHostsSpider(HostsSpider):
    """Follows every link to a host of its own, which redirects to the page."""

    name = "movedhosts"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {MovedHosts: 700}}

    def request(self, url):
        number = url.rpartition("/")[2]
        return scrapy.Request(url.replace("http://", f"http://old{number}."))
