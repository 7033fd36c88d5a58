"""What a worker counts for its fleet: how long exchanges take, and what closes a fleet after so many."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler

from ..frontier.close_limits import CloseLimits
from ..frontier.exchange_times import ExchangeTimes
from ..frontier.messages import Batch

#: Seconds between two tellings of how long exchanges took.
INTERVAL = 5.0


class Totals:
    """Counts exchanges; and responses, items and errors of callbacks, as Scrapy's ``CloseSpider`` does.

    :param crawler: whose signals are counted.
    :param limits: when the fleet closes; without any, only exchanges are counted.
    """

    def __init__(self, crawler: Crawler, limits: CloseLimits) -> None:
        self._counts: Counter[str] = Counter()
        self._times = ExchangeTimes()
        self._told = time.monotonic()
        connect = crawler.signals.connect
        # A signal holds its receivers weakly, and this object holds these.
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

    def fill(self, batch: Batch) -> None:
        """Put what was counted since the last batch into *batch*, and consider it said."""
        batch.counted = dict(self._counts)
        self._counts.clear()
        now = time.monotonic()
        if now - self._told >= INTERVAL or batch.finishing:
            batch.times, self._told = self._times.take(), now
