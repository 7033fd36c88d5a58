"""A spider that yields items from everywhere: each has a name that no other one has."""

from __future__ import annotations

import os

import scrapy
from scrapy.exceptions import DropItem
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

SITE = "http://graph.test"
#: How many items the page /many yields.
MANY = int(os.environ.get("MANY", "2500"))


class Answers:
    """A downloader middleware: the site."""

    def process_request(self, request, spider=None):
        path = request.url.removeprefix(SITE)
        if path == "/redirect":
            return Response(request.url, 302, {"Location": f"{SITE}/landed"})
        if path == "/retry" and not request.meta.get("retry_times"):
            return Response(request.url, 503)
        if path == "/refused":
            raise ConnectionRefusedError
        return None


class ItemizedSpider(scrapy.Spider):
    """Items of start(), of callbacks, of an errback, of pages that redirect or are tried again."""

    name = "itemized"
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {"crawls.itemized.Answers": 1000},
        "ITEM_PIPELINES": {"crawls.itemized.DropOdd": 100},
        "RETRY_TIMES": 1,
    }

    async def start(self):
        yield {"name": "of start"}
        yield {"name": "of start"}  # on purpose: two items that are equal
        for path in ("redirect", "retry", "refused", "many", "large", "again"):
            yield scrapy.Request(f"{SITE}/{path}", errback=self.failed, dont_filter=True)

    def parse(self, response, turn=0):
        path = response.url.removeprefix(f"{SITE}/")
        if path == "many":
            yield from ({"name": f"many {number}"} for number in range(MANY))
        elif path == "large":
            yield {"name": "large", "text": "x" * int(self.settings.getint("LARGE", 1000))}
        elif path == "again":
            yield {"name": f"again {turn}"}
            if turn < 3:
                yield response.request.replace(cb_kwargs={"turn": turn + 1})
        else:
            yield {"name": path}
            yield {"name": f"odd {path}"}
            yield scrapy.Request(f"{SITE}/leaf-of-{path}", callback=self.parse_leaf)

    def parse_leaf(self, response):
        yield {"name": response.url.removeprefix(f"{SITE}/")}

    def failed(self, failure):
        yield {"name": "of the errback"}


#: The names of all items that are not dropped, in no order.
NAMES = [
    *("of start", "of start", "landed", "retry", "of the errback", "large"),
    *("leaf-of-landed", "leaf-of-retry"),
    *(f"again {turn}" for turn in range(4)),
    *(f"many {number}" for number in range(MANY)),
]


class DropOdd:
    """An item pipeline."""

    def process_item(self, item, spider=None):
        if item["name"].startswith("odd"):
            raise DropItem("odd")
        return item


class Linked:
    """A downloader middleware: a site of HTML, of which a page links to the next two."""

    def process_request(self, request, spider=None):
        number = int(request.url.rpartition("/")[2])
        links = "".join(f'<a href="/{2 * number + more}">.</a>' for more in (1, 2) if 2 * number + more < 60)
        return HtmlResponse(request.url, body=f"<p>{links}</p>".encode(), encoding="utf-8")


class RulesSpider(CrawlSpider):
    """Follows the links by its rules."""

    name = "rules"
    start_urls = [f"{SITE}/0"]
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {"crawls.itemized.Linked": 1000}}
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def parse_page(self, response):
        yield {"name": response.url}
