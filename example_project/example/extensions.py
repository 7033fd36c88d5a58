"""An extension that keeps a record of the pages that a worker has downloaded."""

from __future__ import annotations

import time
from pathlib import Path

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK


class PageLog:
    """Append a line to the file in the setting ``PAGE_LOG`` for each page downloaded.

    A line is the time (seconds since 1970), a tab and the URL. It is written to the file at once,
    so that the record is whole even if the process is ended with ``kill -9``.
    """

    def __init__(self, path: Path) -> None:
        # Line buffering: each line is one write to the operating system, which keeps it when the
        # process dies.
        self.file = path.open("a", buffering=1, encoding="utf-8")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> PageLog:
        path = crawler.settings.get("PAGE_LOG")
        if not path:
            raise NotConfigured
        extension = cls(Path(path))
        crawler.signals.connect(extension.response_received, signals.response_received)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def response_received(self, response: Response, request: Request) -> None:
        # robots.txt, and whatever else a middleware asks for on its own, is no page of the crawl.
        if request.callback is not NO_CALLBACK:
            self.file.write(f"{time.time():.3f}\t{response.url}\n")

    def spider_closed(self) -> None:
        self.file.close()
