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
from .seeds import SeedWait
from .session import Session

#: Seconds between exchanges of an idle worker: while others hold requests, whose children may come at any
#: moment; while the state of the fleet is unknown; and when the fleet has no requests.
POLL_BUSY_FLEET, POLL_UNKNOWN, POLL_FINISHED = 0.1, 0.25, 1.0
#: Exchanges per second that all idle workers of a fleet may make together.
POLLS = 200
#: How many times longer news may wait while Redis has more waiting requests than all workers want to have
#: ready. Otherwise, a worker with ten pages per second would make an exchange for each page.
PLENTY = 5
#: Seconds between exchanges if the last one found no room.
POLL_FULL = 0.25


class ExchangeSchedule:
    """Decide when the next exchange of a session is due.

    :ivar interval: seconds that news may wait for more news.
    """

    def __init__(self, session: Session) -> None:
        settings = session.settings
        # Short leases must leave time for several heartbeats.
        self.interval = min(settings.flush_interval, settings.lease_timeout / 6)
        self._session = session
        self._lease_timeout = settings.lease_timeout
        self._last_exchange = time.monotonic()
        self._has_asked = False

    def exchanged(self, asked: bool = False) -> None:
        """Note that an exchange has ended; *asked*: it asked for leases."""
        self._last_exchange = time.monotonic()
        self._has_asked = asked

    @property
    def _in_vain(self) -> bool:
        """Whether the last exchange asked for leases and was given none."""
        reply = self._session.last_reply
        return self._has_asked and reply is not None and not reply.leases

    @property
    def pause(self) -> float:
        """Seconds until the next exchange of a stopping worker, if it has more to send."""
        return POLL_FULL if self._session.state.lacks_room else 0

    def is_due(self) -> bool:
        """Return whether there should be an exchange now."""
        session, reply = self._session, self._session.last_reply
        silence = time.monotonic() - self._last_exchange
        has_no_room = session.state.lacks_room
        if session.state.has_news and silence >= (POLL_FULL if has_no_room else self._patience(reply)):
            return True
        if self._is_turn_near(reply):
            return True
        if session.state.has_news and not has_no_room:
            return False
        if reply is None and not session.is_busy:
            return True  # start() has ended, and the state of the frontier is unknown
        if session.slot_sync.asks() and self._may_ask(reply, silence):
            return True
        lacks = session.wanted > session.capacity.at_hand
        if lacks and reply is not None and self._is_parked_due(reply) and silence >= reply.workers / POLLS:
            return True
        if lacks and reply is not None and reply.next_turn is not None:
            if self._in_vain and reply.now is not None and reply.next_turn <= reply.now:
                # Only slots of which this worker has enough requests have a turn.
                return silence >= min(POLL_UNKNOWN, self._lease_timeout / 3)
            # The waiting requests wait for their time: asking sooner would bring no more of them.
            turn = session.state.clock.local(reply.next_turn) - session.capacity.ahead
            is_time = time.monotonic() >= turn and silence >= reply.workers / POLLS
            return bool(reply.leases) or is_time or silence >= self._poll_interval(reply, lacks)
        if lacks and reply is not None and (reply.waiting or reply.seeds) and session.capacity.runs_low:
            # The waiting requests may be for other workers: asking more often would bring no more of them.
            return bool(reply.leases) or silence >= min(POLL_UNKNOWN, self._lease_timeout / 3)
        return silence >= self._poll_interval(reply, lacks)

    def _is_turn_near(self, reply: Reply | None) -> bool:
        """Return whether a slot has a turn soon, so that the exchange must not wait for more news."""
        session = self._session
        if reply is None or reply.next_turn is None or reply.now is None or self._in_vain:
            return False
        turn = session.state.clock.local(reply.next_turn) - session.capacity.ahead
        is_later = reply.next_turn > reply.now
        return is_later and time.monotonic() >= turn and session.wanted > session.capacity.at_hand

    def _is_parked_due(self, reply: Reply) -> bool:
        """Return whether a request that was set back may begin now, but could not at the last exchange."""
        due = reply.next_parked
        return due is not None and time.monotonic() >= self._session.state.clock.local(due)

    def _may_ask(self, reply: Reply | None, silence: float) -> bool:
        """Return whether the frontier may have turns for the requests in this worker's memory."""
        session = self._session
        if reply is None or reply.ask_at is None:
            return silence >= self.interval
        turn = session.state.clock.local(reply.ask_at) - session.capacity.ahead
        return time.monotonic() >= turn and silence >= session.capacity.ahead / 2

    def is_wanted_soon(self) -> bool:
        """Return whether the next request would have to wait, unless there is an exchange now."""
        session, reply = self._session, self._session.last_reply
        if session.state.lacks_room:
            return False
        there_is_more = reply is not None and reply.waiting and reply.leases
        # While slots are saturated, news seldom leads to a lease.
        has_news = session.state.has_news and not (self._in_vain and session.state.ready.saturated)
        runs_low = session.capacity.runs_low and (has_news or there_is_more)
        return bool(runs_low) or session.capacity.awaits_release

    def _patience(self, reply: Reply | None) -> float:
        """Return how many seconds news may wait for more news."""
        limits = self._session.capacity
        if reply is None or self._session.closing or limits.runs_low or limits.awaits_release:
            return 0.0
        # While there are enough requests for all workers, no worker waits for this worker's requests.
        is_plenty = reply.waiting > reply.workers * limits.target
        # Short leases must leave time for several heartbeats.
        return min(PLENTY * self.interval, self._lease_timeout / 6) if is_plenty else 0.0

    def _poll_interval(self, reply: Reply | None, lacks: bool) -> float:
        heartbeat = self._lease_timeout / 3
        if not lacks or self._session.state.requests.leased:
            # The held requests are finished soon, which is news.
            return min(heartbeat, POLL_FINISHED)
        if reply is None or reply.leased is None:
            return min(heartbeat, POLL_UNKNOWN)
        # All idle workers together must not ask more often than POLLS.
        others = reply.leased or reply.busy or reply.parked > reply.later
        interval = POLL_BUSY_FLEET if others else POLL_FINISHED
        return min(heartbeat, max(interval, reply.workers / POLLS))


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
        self._schedule.exchanged(asked)
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
        held = counted(len(self._session.state.ready) + self._session.state.requests.leased, "request")
        self._outage.failed(error, f"this worker continues with the {held} that it holds, and tries again")
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
        if self._session.state.is_quiet and not (reply.waiting or reply.seeds):
            self._seed_wait.begin()

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
