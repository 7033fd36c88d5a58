"""When to exchange: the background loop between a worker and the frontier.

The event loop only ever starts an exchange and takes its reply; the waiting is done by a thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from ..connection import LONGEST_BACKOFF, DataError, RedisError, ResponseError, backoff
from ..engine.bridge import EventLoop
from ..errors import one_line
from ..frontier.client import Frontier
from ..frontier.messages import Batch, Reply
from ..runtime.background import BackgroundThread
from ..runtime.outage import Outage
from .attempt import Attempt
from .state import Worker

logger = logging.getLogger(__name__)

#: Seconds between exchanges of a worker that has nothing to do: while others hold requests, whose
#: children may come any moment; while it does not know; and when there is nothing anywhere.
POLL_BUSY_FLEET, POLL_UNKNOWN, POLL_FINISHED = 0.1, 0.25, 1.0
#: Exchanges a second that all idle workers of a fleet may make: each takes the longer, the more there are.
POLLS = 200
#: How many times longer news may wait while more waits in Redis than all workers want to have at hand. A
#: worker of ten pages a second would else make an exchange for each of them.
PLENTY = 5
#: Seconds between exchanges where the last one found no room.
POLL_FULL = 0.25
#: Seconds that the wait for a seed lasts at the most, before it is begun anew.
SEED_WAIT = 1.0
#: Seconds after which it is tried again, where Redis did not wait for one.
SEED_WAIT_AGAIN = 60.0


class Exchanging(Protocol):
    """What the loop asks of, and tells, the scheduler."""

    #: Whether the spider closes, and whether it does because the fleet is finished.
    closing: bool
    finishing: bool

    def prepare(self) -> None:
        """Bring the worker up to date before it is asked for a batch."""

    def tick(self) -> None:
        """Take note that a moment has passed."""

    def wanted(self) -> int:
        """Return how many leases to have at hand."""

    def busy(self) -> bool:
        """Return whether this worker may add requests without holding any."""

    def take_reply(self, reply: Reply, latency: float, said: int | None = None) -> None:
        """Take in a reply to a batch, or to its first *said* pushes."""

    def withdraw_first(self, error: Exception) -> None:
        """Keep the next request from Redis, which it cannot be sent to because of *error*."""

    def count_error(self) -> None:
        """Count an error of Redis."""


def next_batch(worker: Worker, scheduler: Exchanging) -> Batch:
    """Return what *worker* has to say now."""
    scheduler.prepare()
    return worker.batch(scheduler.wanted(), scheduler.busy(), scheduler.closing, scheduler.finishing)


class ExchangeLoop:
    """Exchanges whenever there is something to say, something to get, or a heartbeat due.

    :param flush_interval: seconds that news may wait for more of it.
    :param lease_timeout: seconds; a heartbeat is due after a third of it.
    """

    def __init__(
        self,
        frontier: Frontier,
        worker: Worker,
        scheduler: Exchanging,
        loop: EventLoop,
        flush_interval: float,
        lease_timeout: float,
    ) -> None:
        self._frontier = frontier
        self._worker = worker
        self._scheduler = scheduler
        self._loop = loop
        # However short the leases are, there is time for some heartbeats in each.
        self._flush_interval = min(flush_interval, lease_timeout / 6)
        self._lease_timeout = lease_timeout
        self._thread = BackgroundThread("frontier-exchange", loop)
        self._seed_thread = BackgroundThread("frontier-seeds", loop)
        self._backoff = backoff(min(LONGEST_BACKOFF, lease_timeout / 3))
        self._batch: Batch | None = None
        self._attempt = Attempt()
        self._in_flight = False
        self._kicked = False
        self._waits_for_seed = False
        self._seeds_awaited_from = 0.0
        self._stopping: Deferred[None] | None = None
        self._outage = Outage(frontier.server)
        self._has_said_the_end = False
        self._last_exchange = 0.0
        self._last_reply: Reply | None = None
        self._cancel_timer: Callable[[], None] = lambda: None

    @property
    def last_reply(self) -> Reply | None:
        """The last reply, or None before the first."""
        return self._last_reply

    def start(self, at_once: bool) -> None:
        """Begin to exchange.

        :param at_once: whether there is something to get already; else the first request that is
            pushed does not have to wait for an exchange that brings nothing.
        """
        self._last_exchange = time.monotonic()
        if at_once:
            self.kick()
        self._tick()

    def kick(self) -> None:
        """Exchange as soon as the event loop is through with what it is at."""
        if not (self._kicked or self._in_flight or self._outage.failures):
            self._kicked = True
            self._loop.call_later(0, self._exchange)

    def request_taken(self) -> None:
        """Exchange soon, if the next request would else have to wait for an exchange."""
        if self._in_flight or self._kicked:
            return
        reply = self._last_reply
        there_is_more = reply is not None and reply.waiting and reply.leases
        runs_low = self._worker.runs_low and (self._worker.has_news or there_is_more)
        if runs_low or self._worker.awaits_release:
            self.kick()

    def stop(self) -> Deferred[None]:
        """Say all that is left to say; return what fires when it is said.

        If Redis does not answer, that is tried for as long as the leases last: after that they go
        back by themselves, and what they led to is crawled again.
        """
        self._stopping = Deferred()
        self._cancel_timer()
        self._stop_by = time.monotonic() + self._lease_timeout
        if not self._in_flight:
            self._exchange()
        return self._stopping

    def leave(
        self, finished: bool, persist: bool, left: Callable[[Any, Exception | None], None]
    ) -> Deferred[None]:
        """Say all that is left to say and leave the fleet; *left* is told how that went.

        :return: what fires when it is done.
        """
        gone: Deferred[None] = Deferred()

        failures = 0

        def done(result: Any, error: Exception | None) -> None:
            nonlocal failures
            if isinstance(error, RedisError) and time.monotonic() < self._stop_by:
                # It may be repeated, as an exchange may.
                failures += 1
                self._scheduler.count_error()
                self._loop.call_later(self._backoff.compute(failures), leave)
                return
            left(result, error)
            self.close()
            gone.callback(None)

        def leave() -> None:
            self._thread.call(lambda: self._frontier.leave(finished, persist), done)

        self.stop().addCallback(lambda _: leave())
        return gone

    def call(self, function: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Call *function* where it may wait for Redis, and *done* on the event loop."""
        self._thread.call(function, done)

    def close(self) -> None:
        """End the threads."""
        self._thread.stop()
        self._seed_thread.stop()

    # -- when ----------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._stopping is not None:
            return
        self._cancel_timer = self._loop.call_later(self._flush_interval, self._tick)
        self._scheduler.tick()
        if not (self._in_flight or self._outage.failures):
            self._scheduler.prepare()
            if self._is_due():
                self._exchange()

    def _is_due(self) -> bool:
        reply = self._last_reply
        if self._worker.has_news:
            patience = POLL_FULL if self._worker.outbox.blocked else self._patience(reply)
            return time.monotonic() - self._last_exchange >= patience
        if reply is None and not self._scheduler.busy():
            return True  # start() had nothing, and what the frontier has is not known
        lacks = self._scheduler.wanted() > len(self._worker.ready)
        silence = time.monotonic() - self._last_exchange
        if lacks and reply is not None and (reply.waiting or reply.seeds) and self._worker.runs_low:
            # What waits may be for others: to ask at every moment would give this worker no more of it.
            return bool(reply.leases) or silence >= min(POLL_UNKNOWN, self._lease_timeout / 3)
        return silence >= self._poll_interval(lacks)

    def _patience(self, reply: Reply | None) -> float:
        """Return for how many seconds news may wait for more of it."""
        worker = self._worker
        if reply is None or self._scheduler.closing or worker.runs_low or worker.awaits_release:
            return 0.0
        # Nobody waits for what this worker has found while there is more than enough for all.
        is_plenty = reply.waiting > reply.workers * worker.target
        # However short the leases are, there is time for some heartbeats in each.
        return min(PLENTY * self._flush_interval, self._lease_timeout / 6) if is_plenty else 0.0

    def _poll_interval(self, lacks: bool) -> float:
        heartbeat = self._lease_timeout / 3
        reply = self._last_reply
        if not lacks or self._worker.held:
            # What it holds is soon finished, and that is news.
            return min(heartbeat, POLL_FINISHED)
        if reply is None or reply.leased is None:
            return min(heartbeat, POLL_UNKNOWN)
        # However many are idle, together they ask no oftener than POLLS.
        interval = POLL_BUSY_FLEET if reply.leased or reply.busy or reply.delayed else POLL_FINISHED
        return min(heartbeat, max(interval, reply.workers / POLLS))

    # -- the exchange --------------------------------------------------------------------------

    def _exchange(self) -> None:
        self._kicked = False
        stopped = self._stopping is not None and self._stopping.called
        if self._in_flight or stopped:
            return
        if self._batch is None:
            self._batch = next_batch(self._worker, self._scheduler)
            self._attempt.begin(self._batch)
        said = self._attempt.said
        self._in_flight = True
        started = time.monotonic()
        self._thread.call(
            lambda: self._frontier.exchange(said),
            lambda reply, error: self._exchanged(reply, error, time.monotonic() - started),
        )

    def _exchanged(self, reply: Reply | None, error: Exception | None, latency: float) -> None:
        self._in_flight = False
        if error is not None:
            self._failed(error)
            return
        assert reply is not None  # noqa: S101 - one of both is there
        assert self._batch is not None  # noqa: S101 - it is answered now
        self._outage.over()
        self._has_said_the_end = self._batch.finishing
        self._batch = None
        self._last_reply = reply
        self._last_exchange = time.monotonic()
        try:
            self._scheduler.take_reply(reply, latency, self._attempt.pushes)
        except Exception:  # a signal's or the statistics' code may raise anything: the crawl goes on
            logger.exception("What the frontier answered was not taken in completely")
        culprit = self._attempt.over(reply)
        if culprit is not None:
            self._scheduler.withdraw_first(culprit)
        if self._in_flight:
            return  # somebody has closed the spider meanwhile, and the next exchange is under way
        if self._stopping is not None:
            self._scheduler.prepare()
            # A seed of which some requests are made already is not given back: the others are made first.
            more = self._worker.has_news or bool(self._worker.sowing)
            more = more or (self._scheduler.finishing and not self._has_said_the_end)
            if more and time.monotonic() < self._stop_by:
                self._loop.call_later(POLL_FULL if self._worker.outbox.blocked else 0, self._exchange)
            else:
                if self._worker.has_news:
                    logger.error(
                        "This worker closes with %d requests not stored and %d not released, after %g s: "
                        "more came, or Redis had no room. The pages that led to them are crawled again",
                        len(self._worker.outbox),
                        self._worker.releases.not_sent,
                        self._lease_timeout,
                    )
                self._stopping.callback(None)
        elif self._worker.outbox and not self._worker.outbox.blocked:
            self.kick()
        else:
            self._wait_for_seed(reply)

    def _failed(self, error: Exception) -> None:
        is_outage = isinstance(error, RedisError) and not isinstance(error, DataError)
        if not is_outage and self._attempt.failures == 0:
            logger.error("A request cannot be sent to Redis: it is looked for", exc_info=error)
        self._scheduler.count_error()
        in_hand = len(self._worker.ready) + len(self._worker.held)
        self._outage.failed(error, f"the crawl goes on with the {in_hand} requests in hand, and tries again")
        if self._stopping is not None and time.monotonic() > self._stop_by:
            logger.error(
                "Redis did not answer in time for a clean stop: what this worker holds goes back "
                "%g s after its last exchange, and is crawled again",
                self._lease_timeout,
            )
            self._stopping.callback(None)
            return
        # The same batch again, or what is left of it: the frontier knows it by its number.
        self._attempt.failed(error, at_once=not is_outage)
        may_help = not is_outage and self._attempt.failures == 1
        wait = 0 if may_help else self._backoff.compute(self._outage.failures)
        self._loop.call_later(wait, self._exchange)

    # -- seeds ---------------------------------------------------------------------------------

    def _wait_for_seed(self, reply: Reply) -> None:
        idle = self._worker.is_quiet and not (reply.waiting or reply.seeds)
        if not idle or self._waits_for_seed or time.monotonic() < self._seeds_awaited_from:
            return
        self._waits_for_seed = True
        self._seed_thread.call(lambda: self._frontier.wait_for_seed(SEED_WAIT), self._seed_awaited)

    def _seed_awaited(self, came: bool, error: Exception | None) -> None:
        self._waits_for_seed = False
        if self._stopping is not None:
            return
        if isinstance(error, ResponseError):
            reason = one_line(error)
            logger.info(
                "This worker polls for seeds, because Redis does not let it wait for them: %s", reason
            )
            self._seeds_awaited_from = time.monotonic() + SEED_WAIT_AGAIN
        if error is not None:
            return  # an outage: the exchanges meet it too, and say so
        if came:
            self.kick()
        elif self._last_reply is not None:
            self._wait_for_seed(self._last_reply)
