"""The capacity of a worker: whether one more request may begin, and how many leases should be ready.

If this worker is killed, the requests that it has begun and not released are repeated. Scrapy itself begins
the next download while any number of finished ones wait for their callbacks. Here, at most
``CONCURRENT_REQUESTS`` and a quarter more are begun at a time, so that no download waits for a callback. The
limit grows if callbacks or pipelines wait for something, and do not compute. Twice as many finished requests
may wait for their release, so that one release can be on its way while the next is collected. If Redis is far
away, requests do not wait for releases.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque

from ..settings import FrontierSettings
from .block import Block, Cause
from .ready import LATE
from .state import State


class RateEstimate:
    """The rate of begun requests, and the duration of exchanges."""

    _WEIGHT = 0.3

    def __init__(self) -> None:
        #: Requests begun a second, smoothed.
        self.rate = 0.0
        #: Seconds that an exchange takes, smoothed.
        self.latency = 0.0
        #: Seconds of the fastest recent exchange: slower ones had to wait for this process.
        self.distance = 0.0
        self._latencies: deque[float] = deque(maxlen=20)
        self.handed = 0
        self._since = time.monotonic()

    @property
    def silence(self) -> float:
        """Seconds since the last exchange."""
        return time.monotonic() - self._since

    def exchanged(self, latency: float) -> None:
        """Note that an exchange took *latency* seconds."""
        now = time.monotonic()
        elapsed = max(now - self._since, 1e-3)
        self.rate += self._WEIGHT * (self.handed / elapsed - self.rate)
        self.latency += self._WEIGHT * (latency - self.latency)
        self._latencies.append(latency)
        self.distance = min(self._latencies)
        self.handed, self._since = 0, now


logger = logging.getLogger(__name__)

#: A round trip to Redis of at most so many seconds counts as near.
NEAR = 0.005
#: How many finished requests may wait to be released, for each request that may be begun at a time.
UNRELEASED = 2
#: Ticks in which callbacks must keep the downloader from being full until they count as slow.
SLOW_CALLBACK_TICKS = 10


class Capacity:
    """Decide how many requests a worker may begin, from its state and its speed.

    :ivar cut_off: whether Redis does not answer; then no request waits for a reply of Redis.
    """

    def __init__(self, state: State, settings: FrontierSettings) -> None:
        self._state = state
        self._settings = settings
        self._limit = settings.concurrency
        self._rate = RateEstimate()
        self._blocked_ticks = 0
        self._ticked = time.monotonic(), time.process_time()
        self.cut_off = False

    def begun(self) -> None:
        """Note that the engine was given a request."""
        self._rate.handed += 1

    def exchanged(self, latency: float) -> None:
        """Note that an exchange took *latency* seconds."""
        self._rate.exchanged(latency)
        self.cut_off = False

    @property
    def cycle(self) -> float:
        """Seconds from one exchange until the reply of the next."""
        return 2 * (self._rate.latency + self._settings.flush_interval)

    @property
    def ahead(self) -> float:
        """How many seconds ahead of its time to get a turn of a slot: one cycle and one flush interval."""
        now = time.monotonic()
        if self._state.ready.is_late(now - LATE, now):
            return 0.0  # a worker that is late with its turns leaves the next ones to other workers
        return min(self.cycle + self._settings.flush_interval, self._settings.lease_timeout / 4)

    @property
    def target(self) -> int:
        """How many leases to have ready: the number that this worker begins during one cycle."""
        needed = max(self._settings.concurrency, math.ceil(self._rate.rate * self.cycle))
        return min(self._settings.prefetch, needed)

    @property
    def at_hand(self) -> int:
        """How many requests the engine could get, if it had room for them."""
        return self._state.ready.usable + self._state.memory.usable

    @property
    def runs_low(self) -> bool:
        """Whether less than half of the target is ready."""
        return 2 * self.at_hand < self.target

    @property
    def is_full(self) -> bool:
        """Whether the outbox is full, so that no new page should be begun."""
        return len(self._state.outbox) >= self._settings.outbox_size

    def load_block(self) -> Block | None:
        """Return the first block by this worker's load; None if it permits one more request."""
        rules = (
            (self._was_silent, Cause.SILENCE),
            (self._has_too_many_unreleased, Cause.UNRELEASED),
            (self.is_at_its_limit, Cause.CAPACITY),
            (self._has_to_await_release, Cause.RELEASE),
        )
        return next((Block(cause) for holds, cause in rules if holds), None)

    @property
    def has_capacity(self) -> bool:
        """Whether this worker's load, and the orders to all workers, permit one more request."""
        return not self._state.order.begins_nothing and self.load_block() is None

    @property
    def _was_silent(self) -> bool:
        """Whether this process was stopped. Until the next reply, another worker may have its requests."""
        return not self.cut_off and self._rate.silence > self._settings.lease_timeout

    @property
    def _has_too_many_unreleased(self) -> bool:
        """Whether too many pages wait for room, or for replicas. After a kill, all are crawled again."""
        most = max(self._settings.prefetch, self._limit)
        if self._state.outbox.blocked:
            most = self._settings.outbox_size
        return self._state.releases.not_sent >= most

    @property
    def is_at_its_limit(self) -> bool:
        """Whether the number of begun and unfinished requests has reached its limit."""
        return self._state.requests.leased >= self._limit + max(1, self._limit // 4)

    @property
    def stands_still(self) -> bool:
        """Whether this worker cannot continue before Redis has room for its outbox."""
        state = self._state
        return state.outbox.blocked and not state.is_at_work and (self.is_full or not self.has_capacity)

    @property
    def awaits_release(self) -> bool:
        """Whether the next release should be sent now, so that no request has to wait for it."""
        unreleased = 0 if self._state.outbox.blocked else len(self._state.releases)
        return unreleased >= 3 * UNRELEASED * self._limit // 4

    @property
    def _has_to_await_release(self) -> bool:
        unhindered = self.cut_off or self._state.outbox.blocked or self._rate.distance > NEAR
        return not unhindered and len(self._state.releases) >= UNRELEASED * self._limit

    def tick(self, downloading: int) -> bool:
        """Adjust the limit, at every tick; return whether it was raised now.

        The limit is raised if, for some ticks, it has kept the downloader from being full although this
        process was not busy: then callbacks or pipelines wait for something, and do not compute.

        :param downloading: how many requests the downloader has.
        """
        wall, cpu = time.monotonic(), time.process_time()
        has_time = cpu - self._ticked[1] < (wall - self._ticked[0]) / 3
        self._ticked = wall, cpu
        blocked = bool(self._state.ready) and self.is_at_its_limit
        if not (blocked and has_time and downloading < 0.75 * self._settings.concurrency):
            self._blocked_ticks = max(0, self._blocked_ticks - 1)
            return False
        self._blocked_ticks += 1
        if self._blocked_ticks < SLOW_CALLBACK_TICKS:
            return False
        self._blocked_ticks = 0
        self._limit *= 2
        logger.debug("Callbacks are slow: this worker begins up to %d requests at a time", self._limit)
        return True
