"""A site of pages whose links Scrapy's link extractor finds, as most callbacks have it do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy import Request
from scrapy.http import HtmlResponse, TextResponse
from scrapy.linkextractors import LinkExtractor

from .site import Handler as TextHandler
from .site import links_of, number_of, page_url

#: Paragraphs of a page besides its links: so many that a link extractor takes some 5 ms for it.
PARAGRAPHS = 950
_REST = "".join(
    f"<div class=p><p>Paragraph <b>{number}</b> of a page, with <i>some</i> words in it.</p></div>"
    for number in range(PARAGRAPHS)
)


class Handler(TextHandler):
    """Answers with the page in HTML."""

    async def download_request(self, request: Request) -> TextResponse:
        """Return the page."""
        await asyncio.sleep(self._latency)
        links = "".join(
            f'<a href="{page_url(number)}">Article {number}</a>'
            for number in links_of(number_of(request.url), self._pages)
        )
        body = f"<html><head><title>{request.url}</title></head><body>{links}{_REST}</body></html>"
        return HtmlResponse(request.url, body=body.encode(), encoding="utf-8")


class CoresSpider(scrapy.Spider):
    """Follows every link of a page."""

    name = "cores"
    links = LinkExtractor()

    async def start(self) -> AsyncIterator[Any]:  # noqa: D102 - Scrapy's
        yield scrapy.Request(page_url(0))

    def parse(self, response: TextResponse) -> Iterator[Any]:  # noqa: D102 - Scrapy's
        for link in self.links.extract_links(response):
            yield response.follow(link)
