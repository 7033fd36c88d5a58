"""Takes down, in memory, when pages were parsed and what it cost; writes it when the spider closes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler


class Meter:
    """Writes one line of JSON to the file that ``FIGURES`` names.

    With ``EACH`` set, also a line for each download as it begins, to the file of that name (time, process,
    URL): only where the beginnings are looked for.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._stats = crawler.stats
        self._begun: tuple[float, float] | None = None
        self._parsed: list[float] = []
        self._urls: set[str] = set()
        self._cpu = 0.0
        each = os.environ.get("EACH")
        self._each = Path(each).open("a", buffering=1) if each else None  # noqa: SIM115 - closed at exit
        crawler.signals.connect(self._downloading, signals.request_reached_downloader)
        crawler.signals.connect(self._received, signals.response_received)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Meter:
        """Return a meter of *crawler*."""
        return cls(crawler)

    def _downloading(self, request: Request) -> None:
        if self._begun is None:
            self._begun = time.monotonic(), time.process_time()
        if self._each is not None:
            self._each.write(f"{time.monotonic()} {os.getpid()} {request.url}\n")

    def _received(self, request: Request) -> None:
        self._parsed.append(time.monotonic())
        self._urls.add(request.url)
        self._cpu = time.process_time()

    def _closed(self, spider: Spider, reason: str) -> None:
        begun = self._begun or (0.0, 0.0)
        figures = {
            "reason": reason,
            "begun": begun[0],
            "ended": self._parsed[-1] if self._parsed else 0.0,
            "cpu": self._cpu - begun[1],
            "pages": len(self._parsed),
            "distinct": len(self._urls),
            "parsed": self._parsed,
            "errors": self._stats.get_value("log_count/ERROR", 0),
            "exchanges": self._stats.get_value("frontier/exchanges", 0),
        }
        with Path(os.environ["FIGURES"]).open("a") as file:
            file.write(json.dumps(figures) + "\n")
