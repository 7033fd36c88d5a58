"""Scrapy's own handler of HTTP, with a record of when a worker sends each request."""

from __future__ import annotations

from typing import Any

from scrapy import Request, Spider, version_info
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler

from .record import record

if version_info >= (2, 14):

    class RecordingHandler(HTTP11DownloadHandler):
        """Records a request, and sends it."""

        async def download_request(self, request: Request) -> Any:
            record("sent", request.url)
            return await super().download_request(request)

else:

    class RecordingHandler(HTTP11DownloadHandler):
        """The same, as Scrapy before 2.14 calls it."""

        def download_request(self, request: Request, spider: Spider) -> Any:
            record("sent", request.url)
            return super().download_request(request, spider)
