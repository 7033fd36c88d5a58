"""Follow links over a whole site."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urldefrag, urlsplit

import scrapy
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor

from example.items import Page


class SiteSpider(scrapy.Spider):
    """Crawl each page of a site once: ``scrapy crawl site -a url=https://www.example.org/``.

    It is a plain Scrapy spider. Nothing in it knows that the frontier is shared.

    :param url: where to start; links to other hosts are not followed.
    """

    name = "site"

    #: ``/book/7#reviews`` is the page ``/book/7``.
    links = LinkExtractor(process_value=lambda value: urldefrag(value).url)

    def __init__(self, url: str = "", **arguments: Any) -> None:
        super().__init__(**arguments)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"The spider needs a site to crawl, not {url!r}: "
                "scrapy crawl site -a url=https://www.example.org/"
            )
        self.url = url
        self.allowed_domains = [parts.hostname]

    async def start(self) -> AsyncIterator[scrapy.Request]:
        # Without dont_filter (which Scrapy's own start() sets), so that the links back to this
        # page are known to be duplicates of it.
        yield scrapy.Request(self.url)

    def parse(self, response: Response) -> Iterator[Page | scrapy.Request]:
        # A link may lead to an image or a PDF file, whatever its URL looks like.
        if not isinstance(response, TextResponse):
            return
        yield Page(url=response.url, title=response.css("title::text").get("").strip())
        for link in self.links.extract_links(response):
            yield response.follow(link)
