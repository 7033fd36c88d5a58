"""Send the events of a fleet to a URL. One worker at a time sends; when it dies, another takes over."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from itertools import islice
from typing import Any

from twisted.internet.defer import Deferred

from ..connection import RedisError, backoff, close, describe_error, get_impatient_client
from ..errors import counted
from ..frontier.scripts import register
from ..keys import Keys
from ..runtime.background import BackgroundThread
from ..runtime.event_loop import EventLoop
from ..settings import FrontierSettings
from .event import Event
from .follower import PATIENCE as REDIS_PATIENCE
from .follower import Follower
from .post import PATIENCE, Post, Problem
from .stream import Stream, order_of

logger = logging.getLogger(__name__)

#: Seconds between two polls of the sender, and between two of a standby.
INTERVAL, STANDBY = 0.5, 2.0
#: Seconds of the sender's lease, longer than PATIENCE: then another worker takes over. And the seconds that a
#: closing worker goes on sending: long enough to take over from a worker that was killed.
LEASE, LAST_PATIENCE = 8.0, 10.0
#: Seconds between two attempts, at most.
LONGEST_PAUSE = 20.0
#: Attempts after which an event that the receiver refuses (status 3xx or 4xx) is dropped.
REFUSALS = 5
#: An event that fails otherwise, as with status 5xx, is sent until the receiver accepts it: the receiver may
#: be away. But after this many attempts, every second attempt sends a later event. An event that fails again
#: after the receiver has accepted so many later ones is itself the cause, and is dropped.
TRIED, PROOFS = 6, 2


class Webhook:
    """Sends the events of a frontier.

    :param settings: Scrapy's settings; they contain the address of Redis.
    :param keys: the frontier's keys.
    :param worker: the id of this worker.
    :param own: this package's settings: the URL, the secret and the types of events.
    """

    def __init__(self, settings: Any, keys: Keys, worker: str, own: FrontierSettings) -> None:
        self._settings = settings
        self._keys = keys
        self._stream = Stream(keys.events, keys.spider)
        self._worker = worker
        self._post = Post(own.webhook_url, own.webhook_secret, keys.events)
        self._types = own.webhook_types
        self._ends = threading.Event()
        self._end_by = 0.0
        self._sent = ""
        self._follower: Follower | None = None
        self._waiting: deque[Event] = deque()
        # The number of the last event that was sent, and later events that were accepted before their turn.
        self._number = -1
        self._ahead: set[str] = set()
        # Of the first waiting event: its failed attempts, and how many later events were accepted meanwhile.
        self._failures = self._proofs = 0
        self._pauses = backoff(LONGEST_PAUSE)
        self._next_attempt = 0.0
        self._is_away = False

    def start(self) -> None:
        """Start sending, in a separate thread."""
        self._ended: Deferred[None] = Deferred()
        thread = BackgroundThread("frontier-webhook", EventLoop())
        thread.call(self._run, self._has_ended)
        thread.stop()

    def end(self) -> Deferred[None]:
        """Send the remaining events, for a few seconds at most; the ``Deferred`` fires at the end."""
        self._end_by = time.monotonic() + LAST_PATIENCE
        self._ends.set()
        # The last post ends at its deadline. Do not wait much longer for the thread: Redis may be slow.
        cancel = EventLoop().call_later(LAST_PATIENCE + PATIENCE + REDIS_PATIENCE, self._give_up)
        return self._ended.addCallback(lambda _: cancel())

    def _has_ended(self, _: Any, error: Exception | None) -> None:
        if error is not None:
            logger.error(
                "Unexpected error in the webhook: this worker sends no more events. This is a bug in "
                "scrapy-rq-sched; please report it",
                exc_info=error,
            )
        if not self._ended.called:
            self._ended.callback(None)

    def _give_up(self) -> None:
        if not self._ended.called:
            logger.warning("The webhook does not end in time: this worker closes without waiting for it")
            self._ended.callback(None)

    def _run(self) -> None:
        server = get_impatient_client(self._settings, REDIS_PATIENCE)
        script = register(server, "webhook")

        def say(lease: float, sent: str, number: int = -1) -> tuple[bool, str, int]:
            arguments = [self._worker, int(1000 * lease), sent, number]
            is_ours, last, its_number = script(self._keys.all(), arguments)
            return bool(is_ours), last.decode(), its_number

        while True:
            # Read before the step: an event after this point may be missed.
            is_last = self._ends.is_set()
            is_through = False
            try:
                is_through = self._step(server, say)
            except RedisError as error:
                if not self._is_away:
                    logger.warning(
                        "%s. The webhook resumes when Redis answers", describe_error(server, error)
                    )
                self._is_away = True
                if self._follower is not None:
                    self._follower.was_away()
            else:
                self._is_away = False
            if is_last and (is_through or self._is_late):
                break
            if is_last:
                time.sleep(INTERVAL)
            else:
                self._ends.wait(STANDBY if self._follower is None else INTERVAL)
        if self._waiting:
            logger.warning(
                "This worker closes before all events were sent to the webhook (%d left). Another worker "
                "or the next crawl sends them",
                len(self._waiting),
            )
        self._resign(say)
        close(server)

    @property
    def _is_late(self) -> bool:
        return self._ends.is_set() and time.monotonic() > self._end_by

    def _step(self, server: Any, say: Any) -> bool:
        """Send the new events; return whether this worker or another has sent every event."""
        is_ours, sent, number = say(LEASE, "")
        if not is_ours:
            # The worker that holds the lease sends the rest.
            self._stop_following()
            return order_of(sent) >= order_of(self._stream.newest(server))
        if self._follower is not None and order_of(sent) > order_of(self._sent):
            # This worker had lost the lease, and another one has sent events.
            self._stop_following()
        if self._follower is None:
            self._sent, self._number = sent, number
            self._follower = Follower(
                self._settings, [self._stream], {self._stream.key: sent}, logger.warning
            )
        self._waiting.extend(self._follower.new())
        while self._waiting and not self._is_late:
            event = self._waiting[0]
            self._look_for_gap(event)
            if self._is_wanted(event) and event.id not in self._ahead and not self._send(event):
                return False
            self._waiting.popleft()
            self._ahead.discard(event.id)
            self._number = event.number or self._number
            # Of unwanted events, noting the last is enough.
            if self._is_wanted(event) or not self._waiting:
                is_ours, self._sent, _ = say(LEASE, event.id, self._number)
                if not is_ours:
                    self._stop_following()
                    return False
        return not self._waiting

    def _look_for_gap(self, event: Event) -> None:
        """Log that events before *event* are lost, if Redis has removed them before they were sent."""
        lost = event.number - self._number - 1
        if self._number >= 0 and lost > 0:
            logger.error(
                "The receiver at %s has missed %s: Redis keeps only the latest FRONTIER_MAX_EVENTS, and they "
                "were removed before they were sent. Keep more events, and check that the receiver runs",
                *(self._post.where, counted(lost, "event")),
            )
            self._number = event.number - 1

    def _send(self, event: Event) -> bool:
        """Post *event* unless a pause is on; return whether it is settled: accepted or dropped."""
        if time.monotonic() < self._next_attempt:
            return False
        later = self._later()
        problem = self._post(later or event)
        if later is not None:
            self._failures += 1
            if problem is None:
                self._ahead.add(later.id)
                self._proofs += 1
        elif problem is None or self._gives_up(event, problem):
            self._failures = self._proofs = 0
            return True
        self._next_attempt = time.monotonic() + (self._pauses.compute(self._failures) if problem else 0)
        return False

    def _later(self) -> Event | None:
        """Return a later event to try, if it is time to find out whether the receiver is away."""
        if self._failures < TRIED or self._failures % 2:
            return None
        others = [event for event in islice(self._waiting, 1, None) if self._is_wanted(event)]
        others = [event for event in others if event.id not in self._ahead]
        return others[(self._failures - TRIED) // 2 % len(others)] if others else None

    def _is_wanted(self, event: Event) -> bool:
        return not self._types or event.type in self._types

    def _gives_up(self, event: Event, problem: Problem) -> bool:
        self._failures += 1
        if (problem.is_final and self._failures >= REFUSALS) or self._proofs >= PROOFS:
            logger.error(
                "The receiver at %s did not accept event %s (%s) in %d attempts, so it is dropped: %s. %s. "
                "Check FRONTIER_WEBHOOK_URL and the receiver",
                *(self._post.where, event.id, event.type, self._failures - self._proofs, problem.text),
                "Later events were accepted" if self._proofs else "It was refused each time",
            )
            return True
        if self._failures == 1:
            logger.warning(
                "The receiver at %s did not accept event %s (%s), so it is sent again: %s",
                *(self._post.where, event.id, event.type, problem.text),
            )
        return False

    def _resign(self, say: Any) -> None:
        try:
            if self._follower is not None:
                say(0, "")
        except RedisError:
            logger.info("Redis does not answer: another worker takes over the webhook in %g s", LEASE)
        self._stop_following()

    def _stop_following(self) -> None:
        if self._follower is not None:
            self._follower.close()
        self._follower = None
        self._waiting.clear()
        self._failures, self._proofs, self._next_attempt = 0, 0, 0.0
