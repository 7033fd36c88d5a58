"""The counts of a worker for its fleet: the duration of exchanges, and the counts that close a fleet."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler

from ..frontier.close_limits import CloseLimits
from ..frontier.exchange_times import ExchangeTimes
from ..frontier.messages import Batch
from .part import Part

#: Seconds between two reports of how long exchanges took.
INTERVAL = 5.0


class Totals(Part):
    """Count exchanges, and responses, items and errors of callbacks, as Scrapy's ``CloseSpider`` does.

    :param crawler: its signals are counted.
    :param limits: when the fleet closes; without limits, only exchanges are counted.
    :ivar finishing: whether this worker closes because the fleet is finished, so that this batch is the last.
    """

    def __init__(self, crawler: Crawler, limits: CloseLimits) -> None:
        self._counts: Counter[str] = Counter()
        self._times = ExchangeTimes()
        self._told = time.monotonic()
        self.finishing = False
        connect = crawler.signals.connect
        # Signals reference their receivers weakly, so this object keeps a reference.
        self._receivers = [
            self._count(connect, signal, name)
            for signal, name in (
                (signals.response_received, "pagecount"),
                (signals.item_scraped, "itemcount"),
                (signals.spider_error, "errorcount"),
            )
            if any(limits)
        ]

    def _count(self, connect: Any, signal: Any, name: str) -> Any:
        def count() -> None:
            self._counts[name] += 1

        connect(count, signal)
        return count

    def exchanged(self, latency: float) -> None:
        """Count an exchange that took *latency* seconds."""
        self._times.add(latency)

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.counted = dict(self._counts)
        self._counts.clear()
        now = time.monotonic()
        if now - self._told >= INTERVAL or self.finishing:
            batch.times, self._told = self._times.take(), now
