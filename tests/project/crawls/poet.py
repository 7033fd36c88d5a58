"""A spider with page objects, as scrapy-poet gives them to its callbacks."""

from __future__ import annotations

import scrapy
from scrapy_poet import DummyResponse, DynamicDeps, callback_for
from web_poet import PageParams, WebPage
from web_poet.exceptions import Retry

from .graph import page_url
from .record import record


class LinksPage(WebPage):
    """A page of the graph."""

    @property
    def numbers(self) -> list[int]:
        return [int(number) for number in self.response.text.split()]

    def to_item(self) -> dict[str, object]:
        return {"url": str(self.url), "links": len(self.numbers)}


class CountPage(LinksPage):
    """The same page for another purpose, which is another request to poet."""


class FlakyPage(WebPage):
    """A page that is complete only when it is fetched again."""

    tries = 0

    def to_item(self) -> dict[str, object]:
        FlakyPage.tries += 1
        if FlakyPage.tries == 1:
            raise Retry
        return {"url": str(self.url), "tries": FlakyPage.tries}


class RecordItems:
    """An item pipeline."""

    def process_item(self, item, spider=None):
        record("item", item["url"])
        return item


class PoetSpider(scrapy.Spider):
    """Asks for each page twice, for two page objects: that they differ, poet's fingerprinter knows."""

    name = "poet"
    custom_settings = {
        "ADDONS": {"scrapy_rq_sched.Addon": 500, "scrapy_poet.Addon": 300},
        "ITEM_PIPELINES": {RecordItems: 100},
    }

    async def start(self):
        yield scrapy.Request(page_url(0), self.parse_links)

    def parse_links(self, response: DummyResponse, page: LinksPage):
        record("parsed", response.url)
        for number in page.numbers:
            yield scrapy.Request(page_url(number), self.parse_links)
            yield scrapy.Request(page_url(number), self.parse_item)

    parse_item = callback_for(CountPage)


class PoetMetaSpider(scrapy.Spider):
    """Tells poet by a request's meta what to inject."""

    name = "poetmeta"
    custom_settings = PoetSpider.custom_settings

    async def start(self):
        for number in (1, 2):
            yield scrapy.Request(page_url(5), self.parse_params, meta={"page_params": {"number": number}})
        yield scrapy.Request(page_url(6), self.parse_injected, meta={"inject": [LinksPage]})
        yield scrapy.Request(page_url(7), self.parse_flaky)

    def parse_params(self, response: DummyResponse, params: PageParams):
        record("params", f"{response.url} {params['number']}")

    def parse_injected(self, response, injected: DynamicDeps):
        record("injected", injected[LinksPage].to_item()["url"])

    parse_flaky = callback_for(FlakyPage)
