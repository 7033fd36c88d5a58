"""Faults inside a worker, switched on by environment variables; the package knows nothing of them.

``KILL_AT=<moment>[:n]``
    Kill this process, with no chance to say anything, at the n-th such moment (see :class:`KillAt`).
``CLOCK_OFFSET=<seconds>``
    This process's clock is wrong by so much. The record keeps the true time.
``START_DELAY=<seconds>``
    This process takes so much longer to start.
``WATCH_LOOP=1``
    Record each new maximum, over 0.1 s, of the time for which the event loop stood still.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.frontier.messages import Batch
from scrapy_rq_sched.frontier.replies import Reply

from .record import record

#: The moments at which a worker may be killed.
MOMENTS = {
    "send": "before an exchange that stores a page's links is sent",
    "reply": "after such an exchange, before it processes the reply",
    "handed": "when Redis has given it requests, before it learns of them",
    "push": "after a page's links are stored, before its lease is released",
    "give-back-unsent": "before the exchange that returns the requests it had not begun",
    "give-back": "after it has returned the requests it had not begun, before it leaves",
    "reclaim": "just after it has reclaimed the leases of a dead worker",
    "finish": "just after it has learned that the crawl is finished",
    "leave": "before it leaves a finished crawl",
    "left": "when it has left a finished crawl, before it learns of that",
}


class KillAt:
    """Kills this process at the *nth* time that a *moment* comes."""

    def __init__(self, moment: str, nth: int) -> None:
        if moment not in MOMENTS:
            raise ValueError(f"KILL_AT is {moment!r}; it may be one of {', '.join(MOMENTS)}")
        self._moment = moment
        self._left = nth
        self._exchange, self._leave = Frontier.exchange, Frontier.leave
        # Methods of the class, and not of one frontier: there is none yet.
        Frontier.exchange = lambda frontier, batch: self.exchange(frontier, batch)  # type: ignore[method-assign]
        Frontier.leave = lambda frontier, *args: self.leave(frontier, *args)  # type: ignore[method-assign]

    def exchange(self, frontier: Frontier, batch: Batch) -> Reply:
        """Do as the frontier does, and look at what goes up and what comes down."""
        of_a_page = any(request.meta.get("depth") for request in batch.requests)
        self._come("send", of_a_page)
        self._come("give-back-unsent", batch.given_back)
        reply = self._exchange(frontier, batch)
        self._come("reply", of_a_page)
        self._come("handed", reply.leases)
        self._come("push", of_a_page and len(reply.duplicates) < len(batch.pushes) and batch.in_hand)
        self._come("give-back", batch.given_back)
        self._come("reclaim", reply.returned)
        self._come("finish", reply.finished)
        return reply

    def leave(self, frontier: Frontier, *args: Any) -> Any:
        """Do as the frontier does."""
        self._come("leave", True)
        result = self._leave(frontier, *args)
        self._come("left", True)
        return result

    def _come(self, moment: str, has_come: object) -> None:
        if moment != self._moment or not has_come:
            return
        self._left -= 1
        if self._left == 0:
            record("killed", moment)
            os.kill(os.getpid(), signal.SIGKILL)


def shift_clock(offset: float) -> None:
    """Have this process's clock be wrong by *offset* seconds."""
    true, true_ns = time.time, time.time_ns
    time.time = lambda: true() + offset
    time.time_ns = lambda: true_ns() + int(offset * 1e9)


class LoopWatch:
    """Records when the event loop stood still, and for how long."""

    INTERVAL = SHORTEST = 0.05

    def __init__(self, crawler: Crawler) -> None:
        self._due = 0.0
        crawler.signals.connect(self._begin, signals.spider_opened)
        crawler.signals.connect(self._end, signals.spider_closed)

    def _begin(self) -> None:
        # Here, because before the crawl begins another reactor may be installed.
        from twisted.internet import reactor

        self._reactor: Any = reactor
        self._wait()

    def _wait(self) -> None:
        self._due = time.monotonic() + self.INTERVAL
        self._call = self._reactor.callLater(self.INTERVAL, self._look)

    def _look(self) -> None:
        lag = time.monotonic() - self._due
        if lag > self.SHORTEST:
            record("lag", f"{lag:.3f}")
        self._wait()

    def _end(self) -> None:
        self._call.cancel()


class Faults:
    """The extension that switches them on."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Faults:
        wanted = [name for name in ("KILL_AT", "CLOCK_OFFSET", "WATCH_LOOP") if os.environ.get(name)]
        if not wanted:
            raise NotConfigured
        return cls(crawler)

    def __init__(self, crawler: Crawler) -> None:
        time.sleep(float(os.environ.get("START_DELAY", "0")))
        if kill_at := os.environ.get("KILL_AT"):
            moment, _, nth = kill_at.partition(":")
            KillAt(moment, int(nth or 1))
        if offset := os.environ.get("CLOCK_OFFSET"):
            shift_clock(float(offset))
        if os.environ.get("WATCH_LOOP"):
            self._watch = LoopWatch(crawler)
