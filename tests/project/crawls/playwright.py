"""Spiders with what scrapy-playwright takes from a request's meta, and puts there; one has a browser."""

from __future__ import annotations

import json

import scrapy
from playwright.async_api import Page
from scrapy_playwright.page import PageMethod

from .graph import page_url
from .record import record

OPTIONS = {
    "playwright": True,
    "playwright_context": "visitor",
    "playwright_context_kwargs": {"java_script_enabled": False, "viewport": {"width": 800, "height": 600}},
    "playwright_page_goto_kwargs": {"wait_until": "networkidle", "timeout": 5000},
}


class OpenPage:
    """A downloader middleware: does to the meta what scrapy-playwright's download handler does."""

    def process_request(self, request, spider=None):
        if request.meta.get("playwright_include_page"):
            request.meta["playwright_page"] = Page.__new__(Page)


class PlaywrightSpider(scrapy.Spider):
    """Asks for pages in a browser."""

    name = "playwright"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {OpenPage: 1000}}

    async def start(self):
        yield self.request(0)

    def request(self, number, **meta):
        meta = OPTIONS | meta
        return scrapy.Request(page_url(number), self.parse, meta=meta, errback=self.close_page)

    def parse(self, response):
        options = {name: response.meta.get(name) for name in OPTIONS}
        record("parsed", f"{response.url} {json.dumps(options)}")
        yield from self.follow(response)

    def follow(self, response):
        if response.url == page_url(0):
            yield self.request(1)

    def close_page(self, failure):
        """Would close the page."""


class PageSpider(PlaywrightSpider):
    """Gets the browser's page, and hands it on."""

    name = "page"

    def follow(self, response):
        if response.url == page_url(0):
            yield self.request(1, playwright_include_page=True)
        elif response.url == page_url(1):
            yield scrapy.Request(page_url(2), self.parse_same_page, meta=response.meta)

    def parse_same_page(self, response):
        record("page", f"{response.url} {type(response.meta['playwright_page']).__name__}")


class MethodsSpider(PlaywrightSpider):
    """Has the browser wait for something."""

    name = "methods"

    def follow(self, response):
        if response.url == page_url(0):
            wait = PageMethod("wait_for_selector", "div.quote", timeout=5)
            yield scrapy.Request(
                page_url(1), self.parse_waited, meta={"playwright": True, "playwright_page_methods": [wait]}
            )

    def parse_waited(self, response):
        (waited,) = response.meta["playwright_page_methods"]
        record("methods", f"{response.url} {waited.method} {waited.args} {waited.kwargs}")


class BrowserSpider(scrapy.Spider):
    """Follows the links of a site with a browser, from the address *site*."""

    name = "browser"
    custom_settings = {
        "DOWNLOAD_HANDLERS": {"http": "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"}
    }

    async def start(self):
        yield scrapy.Request(self.site, meta={"playwright": True})

    def parse(self, response):
        record("parsed", f"{response.url} {response.css('h1::text').get()}")
        yield from response.follow_all(css="a", meta={"playwright": True})
