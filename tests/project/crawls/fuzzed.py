"""A spider whose seeds and requests come from somebody who means harm: it records each that it begins."""

from __future__ import annotations

import json
from typing import Any

import scrapy
from scrapy import Request, Spider, signals, version_info
from scrapy.http import TextResponse
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred

from .graph import GraphHandler
from .record import record


class Handler(GraphHandler):
    """Answers whatever it is asked for with an empty page, at once."""

    async def download_request(self, request: Request) -> TextResponse:
        return TextResponse(request.url, body=b"", encoding="utf-8")


class DeferredHandler(Handler):
    """The same, as Scrapy before 2.14 calls it."""

    def download_request(self, request: Request, spider: Spider) -> Deferred[TextResponse]:
        return deferred_from_coro(super().download_request(request))

    def close(self) -> None:
        pass


HANDLER = f"{__name__}.{'Handler' if version_info >= (2, 14) else 'DeferredHandler'}"


class Begun:
    """Records each request that reaches the downloader's middlewares, as the first of them."""

    def process_request(self, request: Request, spider: Spider | None = None) -> None:
        record("begun", json.dumps(request.url))


class FuzzedSpider(scrapy.Spider):
    name = "fuzzed"
    custom_settings = {
        "DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https", "ftp", "s3", "file", "data"), HANDLER),
        "DOWNLOADER_MIDDLEWARES": {Begun: 1},
        "RETRY_ENABLED": False,
    }

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> FuzzedSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.dropped, signals.request_dropped)
        return spider

    def dropped(self, request: Request) -> None:
        record("dropped", json.dumps(request.url))

    def parse(self, response: Any, **kwargs: Any) -> None:
        record("parsed", json.dumps(response.url))

    def other(self, response: Any, **kwargs: Any) -> None:
        record("parsed", json.dumps(response.url))

    def failed(self, failure: Any) -> None:
        record("failed", type(failure.value).__name__)
