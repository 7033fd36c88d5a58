"""The exchange loop between a worker and the frontier: in a crawl by the event loop, else by hand.

The event loop only starts an exchange and takes its reply; a thread waits for Redis.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from ..errors import FrontierError, counted
from ..frontier.client import Left
from ..frontier.messages import Batch
from ..frontier.replies import Reply
from ..runtime.background import BackgroundThread
from ..runtime.event_loop import EventLoop
from ..runtime.outage import Outage
from ..servers.failures import LONGEST_BACKOFF, DataError, RedisError, backoff, unreachable
from .attempt import Attempt
from .schedule import ExchangeSchedule
from .seeds import SeedWait
from .session import Session

logger = logging.getLogger(__name__)

#: Seconds between two questions of a worker that has left whether the finished crawl has other workers.
AWAIT_INTERVAL = 0.25


class ExchangeLoop:
    """Exchange when there is something to send or to get, or when a heartbeat is due."""

    def __init__(self, session: Session, event_loop: EventLoop) -> None:
        self._session = session
        self._frontier = session.frontier
        self._event_loop = event_loop
        self._lease_timeout = session.settings.lease_timeout
        self._schedule = ExchangeSchedule(session)
        self._thread = BackgroundThread("frontier-exchange", event_loop)
        self._seed_wait = SeedWait(session.frontier, event_loop, self._seed_awaited)
        self._backoff = backoff(min(LONGEST_BACKOFF, self._lease_timeout / 3))
        self._batch: Batch | None = None
        self._attempt = Attempt()
        self._in_flight = False
        self._kicked = False
        self._stopping: Deferred[None] | None = None
        # Whether the frontier refuses all exchanges of this worker.
        self._is_refused = False
        self._outage = Outage(session.frontier.server)
        self._has_sent_the_end = False
        self._cancel_timer: Callable[[], None] = lambda: None
        self._cancel_item: Callable[[], None] = lambda: None

    def start(self, at_once: bool) -> None:
        """Begin to exchange.

        :param at_once: whether the frontier has something to get. If not, the loop makes no exchange at once,
            because the first request of the spider would have to wait for it.
        """
        self._schedule.exchanged()
        if at_once:
            self.kick()
        self._tick()

    def kick(self) -> None:
        """Exchange on the next turn of the event loop."""
        if not (self._kicked or self._in_flight or self._outage.failures):
            self._kicked = True
            self._event_loop.call_later(0, self._exchange)

    def request_taken(self) -> None:
        """Note that the engine took a request: exchange soon, if the next request would have to wait."""
        if not (self._in_flight or self._kicked) and self._schedule.is_wanted_soon():
            self.kick()

    def stop(self) -> Deferred[None]:
        """Send everything that is not sent yet; return a Deferred that fires when this is done.

        If Redis does not answer, this is tried for as long as the leases last. Then the leases go back to
        the queue by themselves, and their requests are crawled again.
        """
        self._stopping = Deferred()
        self._session.outside.pass_all()
        self._cancel_timer()
        self._stop_by = time.monotonic() + self._lease_timeout
        if self._is_refused:
            self._stopping.callback(None)
        elif not self._in_flight:
            self._exchange()
        return self._stopping

    def leave(
        self, leave: Callable[[], Any], left: Callable[[Any, Exception | None], None]
    ) -> Deferred[None]:
        """Send everything that is not sent yet, and leave the fleet.

        If the crawl is finished, but another worker may have been killed meanwhile, this worker stays until
        that one is heard, or counts as dead: otherwise no worker would clear the frontier.

        :param leave: leaves the fleet; it may wait for Redis.
        :param left: called with the result or the error.
        :return: a Deferred that fires when this is done.
        """
        gone: Deferred[None] = Deferred()
        failures, awaits_since = 0, 0.0

        def done(result: Any, error: Exception | None) -> None:
            nonlocal failures, awaits_since
            if isinstance(error, RedisError) and time.monotonic() < self._stop_by:
                # To leave twice has the same effect as once, like an exchange.
                failures += 1
                self._session.count_error()
                self._event_loop.call_later(self._backoff.compute(failures), go)
                return
            now = time.monotonic()
            awaits_since = awaits_since or now
            if error is None and result.awaits and now < awaits_since + self._lease_timeout + AWAIT_INTERVAL:
                self._event_loop.call_later(AWAIT_INTERVAL, go)
                return
            left(result, error)
            self.close()
            gone.callback(None)

        def go() -> None:
            if self._is_refused:
                # This version must not change data of another format. The worker has already counted as dead.
                done(Left(cleared=False, leases=0, failed=0), None)
                return
            self._thread.call(leave, done)

        self.stop().addCallback(lambda _: go())
        return gone

    def call(self, function: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Call *function* in the thread, where it may wait for Redis, and then *done* on the event loop."""
        self._thread.call(function, done)

    def close(self) -> None:
        """End the threads."""
        self._thread.stop()
        self._seed_wait.close()

    # -- the exchange --------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._stopping is not None or self._is_refused:
            return
        self._cancel_timer = self._event_loop.call_later(self._schedule.interval, self._tick)
        self._session.tick()
        if not (self._in_flight or self._outage.failures):
            self._session.prepare()
            if self._schedule.is_due():
                self._exchange(is_prepared=True)

    def _exchange(self, is_prepared: bool = False) -> None:
        self._kicked = False
        stopped = self._stopping is not None and self._stopping.called
        if self._in_flight or stopped or self._is_refused:
            return
        if self._batch is None:
            if not is_prepared:
                self._session.prepare()
            self._schedule.sending()
            self._batch = self._session.batch()
            self._attempt.begin(self._batch)
        sent = self._attempt.sent
        self._in_flight = True
        started = time.monotonic()
        self._thread.call(
            lambda: self._frontier.exchange(sent),
            lambda reply, error: self._exchanged(reply, error, time.monotonic() - started),
        )

    def _exchanged(self, reply: Reply | None, error: Exception | None, latency: float) -> None:
        self._in_flight = False
        if error is not None:
            self._failed(error)
            return
        assert reply is not None  # noqa: S101 - there is a reply or an error
        assert self._batch is not None  # noqa: S101 - this is the reply to it
        self._outage.over()
        self._has_sent_the_end = self._batch.finishing
        asked, self._batch = self._batch.want > 0, None
        self._schedule.exchanged(asked, reply.leases)
        try:
            self._session.take_reply(self._attempt.reply_of(reply), latency)
        except Exception:  # handlers of signals and statistics collectors may raise any exception
            logger.exception(
                "Code that was called for a reply of Redis raised an exception. A part of the reply was not "
                "processed; the crawl continues"
            )
        self._session.withdraw(*self._attempt.over(reply), self._attempt.error)
        if self._in_flight:
            return  # the spider was closed meanwhile, and the next exchange has begun
        if self._stopping is not None:
            self._go_on_stopping(self._stopping)
        elif reply.wants_policy or reply.unmoved == "more" or self._session.state.has_data:
            self.kick()
        else:
            self._wait_for_seed(reply)
            self._wait_for_item(reply)

    def _wait_for_item(self, reply: Reply) -> None:
        """Exchange when an item is free for which requests wait: a tick may come later."""
        wait = self._schedule.wait_for_item(reply)
        if wait is not None:
            self._cancel_item()
            self._cancel_item = self._event_loop.call_later(wait, self._item_is_free)

    def _item_is_free(self) -> None:
        if self._stopping is None and self._session.wanted > self._session.capacity.at_hand:
            self.kick()

    def _go_on_stopping(self, stopping: Deferred[None]) -> None:
        self._session.prepare()
        state = self._session.state
        # A seed that has led to some requests is not given back: its other requests are made first.
        more = state.has_news or bool(state.expanding)
        more = more or (self._session.finishing and not self._has_sent_the_end)
        unmoved = "" if self._session.last_reply is None else self._session.last_reply.unmoved
        more = more or unmoved == "more"
        if more and time.monotonic() < self._stop_by:
            self._event_loop.call_later(self._schedule.pause, self._exchange)
            return
        if state.has_news:
            logger.error(
                "This worker closes, after %g s, with %s and %s of items not stored, and %s not released: "
                "new requests kept coming, or Redis had no room. The pages that led to them are crawled "
                "again",
                self._lease_timeout,
                counted(len(state.outbox), "request"),
                counted(state.items.size, "byte"),
                counted(state.releases.not_sent, "lease"),
            )
        elif unmoved:
            logger.warning(
                "This worker closes before all items of pages with very many are where they belong: the next "
                "worker of this spider moves them"
            )
        stopping.callback(None)

    def _refused(self, error: FrontierError) -> None:
        """Close the spider: the frontier will refuse every further exchange of this worker."""
        self._is_refused = True
        self._session.outside.pass_all()
        logger.error("This worker closes: %s", error)
        if self._session.engine is not None:
            self._session.engine.fail("frontier_error")
        if self._stopping is not None:
            self._stopping.callback(None)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, FrontierError):
            self._refused(error)
            return
        is_outage = isinstance(error, RedisError) and not isinstance(error, DataError)
        if not is_outage and self._attempt.failures == 0:
            logger.error(
                "A request of this batch cannot be sent to Redis. Smaller batches will find it",
                exc_info=error,
            )
        self._session.count_error()
        held = len(self._session.state.ready) + self._session.state.requests.leased
        does = f"continues with the {counted(held, 'request')} that it holds" if held else "holds no request"
        self._outage.failed(error, f"this worker {does}, and tries again")
        if self._stopping is not None and time.monotonic() > self._stop_by:
            logger.error(
                "Redis did not answer in time for a clean stop: the requests that this worker holds go back "
                "to the queue %g s after its last exchange, and are crawled again",
                self._lease_timeout,
            )
            self._stopping.callback(None)
            return
        # The same batch again, or a part of it: the frontier recognises it by its number.
        self._attempt.failed(error, at_once=not is_outage)
        may_help = not is_outage and self._attempt.failures == 1
        wait = 0 if may_help else self._backoff.compute(self._outage.failures)
        self._event_loop.call_later(wait, self._exchange)

    def _wait_for_seed(self, reply: Reply) -> None:
        is_idle = self._session.state.is_quiet and not reply.waiting
        if not reply.seeds and (is_idle or self._session.capacity.waits_for_turns):
            self._seed_wait.begin(reply.workers)

    def _seed_awaited(self, came: bool) -> None:
        if self._stopping is not None:
            return
        reply = self._session.last_reply
        if came:
            self.kick()
        elif reply is not None:
            self._wait_for_seed(reply)


class InlineExchange:
    """Exchange for a scheduler that is driven by hand."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._batch: Batch | None = None
        self._attempt = Attempt()

    def exchange(self, want: int = 0) -> Reply:
        """Exchange until everything is sent, or Redis has no room for more.

        :param want: how many ready leases to have afterwards.
        :raises RedisUnreachableError: if Redis does not answer. Nothing is lost: the next call sends it.
        """
        session = self._session
        session.want_by_hand = want
        while True:
            if self._batch is None:
                session.prepare()
                self._batch = session.batch()
                self._attempt.begin(self._batch)
            started = time.monotonic()
            try:
                reply = session.frontier.exchange(self._attempt.sent)
            except RedisError as error:
                session.count_error()
                was_whole = self._attempt.is_whole
                self._attempt.failed(error, at_once=False)
                if was_whole and not self._attempt.is_whole:
                    continue  # perhaps one request cannot be sent: try the batch without its requests
                raise unreachable(session.frontier.server, error) from error
            self._batch = None
            session.take_reply(self._attempt.reply_of(reply), time.monotonic() - started)
            session.withdraw(*self._attempt.over(reply), self._attempt.error)
            if not session.state.has_news or session.state.lacks_room or not reply.replicated:
                return reply
