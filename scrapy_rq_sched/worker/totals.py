"""What a worker counts for its fleet, where that closes after so many pages, items or errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler

from ..frontier.close_limits import CloseLimits
from ..frontier.messages import Batch


class Totals:
    """Counts responses, scraped items and errors of callbacks, as Scrapy's ``CloseSpider`` extension does.

    :param crawler: whose signals are counted.
    :param limits: when the fleet closes; without any, nothing is counted.
    """

    def __init__(self, crawler: Crawler, limits: CloseLimits) -> None:
        self._counts: Counter[str] = Counter()
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

    def fill(self, batch: Batch) -> None:
        """Put what was counted since the last batch into *batch*, and consider it said."""
        batch.counted = dict(self._counts)
        self._counts.clear()
