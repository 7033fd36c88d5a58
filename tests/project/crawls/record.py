"""What happened, when, in which process: a line each, written at once, so that a kill loses none."""

from __future__ import annotations

import os
import sys
from time import time as true_time  # a test may have this process's clock be wrong

from scrapy import Spider, signals
from scrapy.crawler import Crawler

_file = os.open(os.environ.get("RECORD", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def record(event: str, what: str) -> None:
    """Write that *event* befell *what*."""
    os.write(_file, f"{true_time():.6f} {os.getpid()} {event} {what}\n".encode(errors="backslashreplace"))


class Recorder:
    """Records the life of a crawl."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Recorder:
        recorder = cls()
        crawler.signals.connect(recorder.opened, signals.spider_opened)
        crawler.signals.connect(recorder.closed, signals.spider_closed)
        recorder.crawler = crawler
        return recorder

    def opened(self, spider: Spider) -> None:
        record("opened", spider.name)
        reactor = sys.modules.get("twisted.internet.reactor")
        record("loop", "none" if reactor is None else type(reactor).__name__)

    def closed(self, spider: Spider, reason: str) -> None:
        for name, value in sorted(self.crawler.stats.get_stats().items()):
            record("stat", f"{name.replace(' ', '_')}={value}")
        record("closed", reason)
