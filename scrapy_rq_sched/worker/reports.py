"""Reports to the frontier: what was begun last, how many requests only this worker has, counts of the fleet.

A suspect is a request after which several workers have died. These reports tell which of its requests a dead
worker had begun.
"""

from __future__ import annotations

import time
from collections import Counter
from itertools import chain
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler

from ..frontier.close_limits import CloseLimits
from ..frontier.exchange_times import ExchangeTimes
from ..frontier.messages import Batch, is_much_unshared, suspicious
from ..frontier.replies import Lease, Reply, lease_order
from .part import Part
from .ready import Ready
from .requests import Requests


class StartReports(Part):
    """The last begun request and the last begun seed, and the ones that Redis knows.

    :param max_deliveries: the number of dead workers after which a request is set aside.
    :param ready: the leases that are not begun, and :param requests: those that are.
    :ivar has_news: whether a suspect waits for its report to reach Redis.
    """

    def __init__(self, max_deliveries: int, ready: Ready, requests: Requests) -> None:
        self._ready, self._requests = ready, requests
        self._suspicious = suspicious(max_deliveries)
        self.has_news = False
        self._begun = self._expanded = ""
        # A suspect that must be reported to Redis before it is begun.
        self._announced = self._reported_announced = self._known_announced = ""
        self._reported_expanded = self._known_expanded = ""

    def is_suspect(self, lease: Lease) -> bool:
        """Return whether so many workers died of the request of *lease* that it must be begun alone."""
        return lease.deaths >= self._suspicious

    def begun(self, lease: Lease) -> None:
        """Note that the request of *lease* is begun."""
        self._begun = max(self._begun, lease.name, key=lease_order)

    def is_known(self, lease: Lease) -> bool:
        """Return whether Redis knows that *lease* is about to be begun, if it is a suspect."""
        return not self.is_suspect(lease) or lease.name == self._known_announced

    def announce(self, lease: Lease) -> None:
        """Report to Redis that *lease*, a suspect, is about to be begun."""
        if self._announced != lease.name:
            self._announced = lease.name
            self.begun(lease)
            self.has_news = True

    def expand(self, lease: Lease) -> None:
        """Note that requests are about to be made of the seed of *lease*."""
        self._expanded = lease.name
        if self.is_suspect(lease):
            self.has_news = True

    def may_expand(self, lease: Lease) -> bool:
        """Return whether requests may be made of the seed of *lease* now."""
        # The report of a later seed includes this one.
        return not self.is_suspect(lease) or lease_order(lease.name) <= lease_order(self._known_expanded)

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.suspects = sum(map(self.is_suspect, chain(self._ready, self._requests.leases())))
        batch.begun, batch.expanded = self._begun, self._expanded
        last = lease_order(self._begun)
        batch.passed = [
            lease.name
            for lease in self._ready
            if lease_order(lease.name) < last and lease.name != self._announced
        ]
        self._reported_announced, self._reported_expanded = self._announced, self._expanded
        self.has_news = False

    def applied(self, reply: Reply) -> None:  # noqa: D102
        self._known_announced, self._known_expanded = self._reported_announced, self._reported_expanded


#: Requests after which the share is first checked.
FIRST_LOOK = 100
#: Number of different reasons that are counted.
MOST_REASONS = 100


class LocalOnly(Part):
    """Count the requests that were found, and the part that must stay in this worker's memory.

    :ivar found: how many requests were found.
    :ivar unshared: how many of them cannot be stored in Redis.
    """

    def __init__(self) -> None:
        self.found = 0
        self.unshared = 0
        self._reasons: Counter[str] = Counter()
        self._reported = 0, 0
        self._next_look = FIRST_LOOK

    def note(self, reason: str) -> None:
        """Count a request; *reason* is why it cannot be stored, or empty."""
        self.found += 1
        if reason:
            self.unshared += 1
            if reason in self._reasons or len(self._reasons) < MOST_REASONS:
                self._reasons[reason] += 1

    def fill(self, batch: Batch) -> None:
        """Put the counts since the last batch into *batch*, if any request cannot be stored."""
        if self.unshared:
            batch.found, batch.local_only = self.found - self._reported[0], self.unshared - self._reported[1]
            batch.local_only_reason = self.reason
            self._reported = self.found, self.unshared

    @property
    def reason(self) -> str:
        """The most common reason."""
        return max(self._reasons, key=self._reasons.__getitem__, default="")

    @property
    def are_many(self) -> bool:
        """Whether so many requests cannot be stored that a line must be logged."""
        return is_much_unshared(self.found, self.unshared)

    def is_due(self) -> bool:
        """Return whether it is time to check: after a hundred requests, a thousand, and so on."""
        if self.found < self._next_look:
            return False
        self._next_look *= 10
        return True

    def __str__(self) -> str:
        share = 100 * self.unshared // max(1, self.found)
        return (
            f"{share} % of the requests found by this worker ({self.unshared} of {self.found}) cannot be "
            f"shared with other workers: {self.reason}. This worker crawls them from its memory, and they "
            "are lost if it dies"
        )


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
        self._reported_at = time.monotonic()
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
        if now - self._reported_at >= INTERVAL or self.finishing:
            batch.times, self._reported_at = self._times.take(), now
