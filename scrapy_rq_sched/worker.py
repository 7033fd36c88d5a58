"""What one worker has in its hands: what is to be said, what it holds, what it knows to be seen.

Nothing here waits, and nothing talks to Redis: the scheduler fills it, the exchange empties it.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from scrapy import Request

from .frontier import Batch, Lease, Push, Reply
from .pace import Pace
from .seen import SeenCache
from .settings import FrontierSettings

logger = logging.getLogger(__name__)

#: The most that one exchange carries, so that the script is short and so is the packet.
BATCH_PUSHES = 1000
BATCH_BYTES = 4 * 1024 * 1024
#: Seconds to Redis and back that count as no distance.
NEAR = 0.005
#: Moments in which callbacks have to have kept the downloader from being full to count as slow.
SLOW_CALLBACK_TICKS = 10


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way to the frontier."""

    push: Push
    request: Request


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the requests of a batch: in Redis, for this worker's memory, or dropped."""

    stored: list[Request]
    kept: list[Outgoing]
    duplicates: list[Request]


class Worker:
    """The local side of the frontier.

    :ivar outbox: requests to push, in the order they came.
    :ivar ready: leases not yet begun.
    :ivar held: requests that the engine has, and their leases.
    :ivar memory: requests that cannot be serialized, and are crawled from here.
    """

    def __init__(self, settings: FrontierSettings) -> None:
        self._settings = settings
        self.outbox: deque[Outgoing] = deque()
        self.ready: deque[Lease] = deque()
        self.held: dict[Request, Lease] = {}
        self.memory: deque[Outgoing] = deque()
        self.seen = SeenCache(settings.seen_cache)
        #: Set while Redis does not answer: then nothing is waited for that needs it.
        self.cut_off = False
        self._memory_held: set[Request] = set()
        self._releasing = 0
        self._limit = settings.concurrency
        self._blocked_ticks = 0
        self._ticked = time.monotonic(), time.process_time()
        # Leases that are finished, each with the number of pushes that have to be stored before.
        self._finished: deque[tuple[int, str]] = deque()
        self._enqueued = 0
        self._taken = 0
        self._given_back: list[str] = []
        self._refused: list[tuple[str, str]] = []
        self._failed: list[tuple[str, str]] = []
        self._forgotten: list[tuple[str, str]] = []
        self._sent: list[Outgoing] = []
        self._number = 0
        self._epoch: bytes | None = None
        self._pace = Pace()

    # -- what the scheduler puts in ----------------------------------------------------------

    def enqueue(self, push: Push, request: Request) -> None:
        """Put *request* into the outbox."""
        self._enqueued += 1
        self.outbox.append(Outgoing(push, request))

    def hold(self, request: Request, lease: Lease | None) -> None:
        """Note that the engine now has *request*; without a lease, it came from memory."""
        self._pace.handed += 1
        if lease is None:
            self._memory_held.add(request)
        else:
            self.held[request] = lease

    def finish(self, lease: Lease) -> None:
        """Note that *lease* is finished, after all that it led to was enqueued."""
        self._finished.append((self._enqueued, lease.name))

    def refuse(self, lease: Lease, reason: str) -> None:
        """Note that another worker has to do *lease*."""
        self._refused.append((lease.name, _sendable(reason)))

    def fail(self, lease: Lease, reason: str) -> None:
        """Note that *lease* has to be set aside."""
        self._failed.append((lease.name, _sendable(reason)))

    def finish_all_but(self, in_progress: Collection[Request]) -> None:
        """Note that every request that the engine has had, and has no longer, is finished."""
        for request in [request for request in self.held if request not in in_progress]:
            self.finish(self.held.pop(request))
        self._memory_held = {r for r in self._memory_held if r in in_progress}

    def give_back(self) -> None:
        """Note that what was not begun goes back to where it stood."""
        self._given_back += [lease.name for lease in self.ready]
        self.ready.clear()

    def forget_memory(self) -> int:
        """Note that what is in memory will not be crawled, so that it does not count as seen.

        :return: how many requests there were.
        """
        count = len(self.memory)
        self._forgotten += [(out.push.mode, out.push.fingerprint) for out in self.memory]
        self.memory.clear()
        return count

    # -- what the scheduler asks -------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether there is something to say."""
        released = self._finished or self._given_back or self._refused or self._failed
        return bool(self.outbox or released or self._forgotten)

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing here at all, nor on its way."""
        held = self.ready or self.held or self.memory or self._memory_held
        return not (self.has_news or held or self._sent)

    @property
    def is_full(self) -> bool:
        """Whether the outbox is at its bound, so that no new page should be begun."""
        return len(self.outbox) >= self._settings.outbox_size

    @property
    def in_memory(self) -> int:
        """How many requests are crawled from this worker's memory, waiting or begun."""
        return len(self.memory) + len(self._memory_held)

    @property
    def target(self) -> int:
        """How many leases to have ready: what is begun while an exchange comes and goes."""
        cycle = 2 * (self._pace.latency + self._settings.flush_interval)
        needed = max(self._settings.concurrency, math.ceil(self._pace.rate * cycle))
        return min(self._settings.prefetch, needed)

    @property
    def runs_low(self) -> bool:
        """Whether less than half of the target is ready."""
        return 2 * len(self.ready) < self.target

    # What is begun and not yet released is repeated if this worker is killed. Scrapy by itself begins
    # the next download while finished ones wait for their callbacks; here it waits for a release, as
    # long as that costs nothing: callbacks or pipelines that are slow, not busy, raise the limit, and
    # where Redis is far a release is not waited for.

    @property
    def may_begin(self) -> bool:
        """Whether one more request may be begun."""
        if not self.cut_off and self._pace.silence > self._settings.lease_timeout:
            # This process was stopped, and what it holds is perhaps another's: the next reply tells.
            return False
        waits_for = 0 if self.cut_off or self._pace.distance > NEAR else self._unreleased
        return len(self.held) + waits_for < self._limit

    @property
    def awaits_release(self) -> bool:
        """Whether the next release should be on its way, so as not to have to wait for it."""
        return self._unreleased > 0 and 2 * (len(self.held) + self._unreleased) >= self._limit

    def tick(self, downloading: int) -> bool:
        """Note that a moment has passed; return whether the limit was raised now.

        It is raised when for some moments it has kept the downloader from being full, though this
        process had time: then requests are in callbacks or pipelines that wait, not compute.

        :param downloading: how many requests the downloader has.
        """
        wall, cpu = time.monotonic(), time.process_time()
        has_time = cpu - self._ticked[1] < (wall - self._ticked[0]) / 3
        self._ticked = wall, cpu
        awaits = self._unreleased and self._pace.distance <= NEAR
        blocked = bool(self.ready) and not (self.may_begin or awaits)
        if not (blocked and has_time and downloading < 0.75 * self._settings.concurrency):
            self._blocked_ticks = max(0, self._blocked_ticks - 1)
            return False
        self._blocked_ticks += 1
        if self._blocked_ticks < SLOW_CALLBACK_TICKS:
            return False
        self._blocked_ticks = 0
        self._limit *= 2
        logger.debug("Callbacks are slow: up to %d requests are begun at a time", self._limit)
        return True

    @property
    def _unreleased(self) -> int:
        return len(self._finished) + self._releasing

    # -- the exchange ------------------------------------------------------------------------

    def batch(self, want: int, busy: bool) -> Batch:
        """Return what there is to say, and consider it said.

        :param want: how many leases to have at hand in all.
        :param busy: whether this worker may add requests without holding any.
        """
        self._number += 1
        self._sent = self._take_from_outbox()
        wanted = 0 if self.is_full else max(0, want - len(self.ready) - len(self.memory))
        batch = Batch(
            self._number,
            want=wanted,
            want_seeds=self._settings.seed_batch if wanted else 0,
            suspects=sum(lease.deaths >= 2 for lease in (*self.ready, *self.held.values())),
        )
        batch.pushes = [outgoing.push for outgoing in self._sent]
        batch.requests = [outgoing.request for outgoing in self._sent]
        batch.given_back, self._given_back = self._given_back, []
        batch.refused, self._refused = self._refused, []
        batch.failed, self._failed = self._failed, []
        batch.forgotten, self._forgotten = self._forgotten, []
        # Only now are the children of what is finished all in this batch or before it.
        while self._finished and self._finished[0][0] <= self._taken:
            batch.finished.append(self._finished.popleft()[1])
        into_memory = any(not push.payload for push in batch.pushes)
        batch.busy = busy or bool(self.in_memory or self.outbox or into_memory)
        self._releasing = len(batch.finished)
        batch.in_hand = len(self.ready) + len(self.held) + len(self._finished)
        return batch

    def settle(self, reply: Reply, latency: float) -> Settled:
        """Take in the reply to the last batch; the leases in it are left to the caller.

        :param latency: seconds that the exchange took.
        """
        self._pace.exchanged(latency)
        self._releasing = 0
        if reply.lost:
            # Some may be left to this worker, if it came back before all were taken away.
            self.give_back()
        if self._epoch not in (None, reply.epoch):
            self.seen.clear()
            if not reply.epoch:
                logger.error(
                    "The frontier is no longer in Redis: the crawl was finished without this worker, or "
                    "its keys were deleted, evicted, or lost in a restart of Redis, with what was waiting"
                )
        self._epoch = reply.epoch
        sent, self._sent = self._sent, []
        kept = set(reply.kept or ())
        if reply.kept is None:
            kept = {place for place, outgoing in enumerate(sent) if not outgoing.push.payload}
        duplicates = set(reply.duplicates)
        settled = Settled([], [], [])
        for place, outgoing in enumerate(sent):
            if place in duplicates:
                settled.duplicates.append(outgoing.request)
            elif place in kept:
                settled.kept.append(outgoing)
            else:
                settled.stored.append(outgoing.request)
        return settled

    def _take_from_outbox(self) -> list[Outgoing]:
        taken: list[Outgoing] = []
        size = 0
        while self.outbox and len(taken) < BATCH_PUSHES and size < BATCH_BYTES:
            taken.append(self.outbox.popleft())
            size += len(taken[-1].push.payload)
        self._taken += len(taken)
        return taken


def _sendable(reason: str) -> str:
    """Return *reason* as what can be sent: somebody's error text may hold half a character."""
    return reason.encode("utf-8", "backslashreplace").decode()
