"""How much a worker may have in hand: whether one more request may begin, and how many are to be ready.

Whatever is begun and not yet released is repeated if this worker is killed. Scrapy by itself begins the next
download while any number of finished ones wait for their callbacks; here no more than ``CONCURRENT_REQUESTS``
are begun, and a quarter more, so that no download waits for a callback. Callbacks or pipelines that are slow,
not busy, raise the limit. Those that are finished may be twice as many, so that one release can be on its way
while the next is collected; where Redis is far it is not waited for at all.
"""

from __future__ import annotations

import logging
import math
import time

from ..settings import FrontierSettings
from .pace import Pace
from .ready import LATE
from .state import State

logger = logging.getLogger(__name__)

#: Seconds to Redis and back that count as no distance.
NEAR = 0.005
#: How many finished requests may wait to be released, for each that may be begun at a time.
UNRELEASED = 2
#: Moments in which callbacks have to have kept the downloader from being full to count as slow.
SLOW_CALLBACK_TICKS = 10


class Limits:
    """What a worker may begin, by what it holds and how fast it is.

    :ivar cut_off: whether Redis does not answer: then nothing is waited for that needs it.
    """

    def __init__(self, state: State, settings: FrontierSettings) -> None:
        self._state = state
        self._settings = settings
        self._limit = settings.concurrency
        self._pace = Pace()
        self._blocked_ticks = 0
        self._ticked = time.monotonic(), time.process_time()
        self.cut_off = False

    def begun(self) -> None:
        """Note that the engine was given a request."""
        self._pace.handed += 1

    def exchanged(self, latency: float) -> None:
        """Note that an exchange took *latency* seconds."""
        self._pace.exchanged(latency)
        self.cut_off = False

    @property
    def cycle(self) -> float:
        """Seconds in which an exchange comes and goes, and the next is made."""
        return 2 * (self._pace.latency + self._settings.flush_interval)

    @property
    def ahead(self) -> float:
        """How many seconds ahead of its time to have a turn of a slot: one cycle, and one flush more."""
        if self._state.ready.is_late(time.monotonic() - LATE):
            return 0.0  # a worker that is late with its turns leaves the next ones to any that has time
        return min(self.cycle + self._settings.flush_interval, self._settings.lease_timeout / 4)

    @property
    def target(self) -> int:
        """How many leases to have ready: as many as are begun while an exchange comes and goes."""
        needed = max(self._settings.concurrency, math.ceil(self._pace.rate * self.cycle))
        return min(self._settings.prefetch, needed)

    @property
    def at_hand(self) -> int:
        """How many requests the engine could be given, if it had room for them."""
        return self._state.ready.usable + self._state.memory.usable

    @property
    def runs_low(self) -> bool:
        """Whether less than half of the target is ready."""
        return 2 * self.at_hand < self.target

    @property
    def is_full(self) -> bool:
        """Whether the outbox is at its bound, so that no new page should be begun."""
        return len(self._state.outbox) >= self._settings.outbox_size

    @property
    def has_capacity(self) -> bool:
        """Whether one more request may be begun."""
        state = self._state
        if state.told.begins_nothing:
            return False
        if not self.cut_off and self._pace.silence > self._settings.lease_timeout:
            # This process was stopped, and what it holds is perhaps another's: the next reply tells.
            return False
        # Pages that wait for room or for replicas are all crawled again if this worker is killed.
        most = max(self._settings.prefetch, self._limit)
        if state.releases.not_sent >= (self._settings.outbox_size if state.outbox.blocked else most):
            return False
        return not (self.is_at_its_limit or self._has_to_await_release)

    @property
    def is_at_its_limit(self) -> bool:
        """Whether as many requests are begun as may be, and not finished."""
        return len(self._state.held) >= self._limit + max(1, self._limit // 4)

    @property
    def stands_still(self) -> bool:
        """Whether nothing goes on here, nor will, until there is room for what is in the outbox."""
        state = self._state
        return state.outbox.blocked and not state.is_at_work and (self.is_full or not self.has_capacity)

    @property
    def awaits_release(self) -> bool:
        """Whether the next release should be on its way, so as not to have to wait for it."""
        unreleased = 0 if self._state.outbox.blocked else len(self._state.releases)
        return unreleased >= 3 * UNRELEASED * self._limit // 4

    @property
    def _has_to_await_release(self) -> bool:
        unhindered = self.cut_off or self._state.outbox.blocked or self._pace.distance > NEAR
        return not unhindered and len(self._state.releases) >= UNRELEASED * self._limit

    def tick(self, downloading: int) -> bool:
        """Note that a moment has passed; return whether the limit was raised now.

        It is raised when for some moments it has kept the downloader from being full, though this
        process had time: then requests are in callbacks or pipelines that wait, not compute.

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
