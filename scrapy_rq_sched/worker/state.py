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

from ..frontier.messages import Batch, Lease, Push, Reply, Standing, Told, suspicious
from ..settings import FrontierSettings
from .outbox import Outbox, Outgoing
from .rates import Pace
from .releases import Releases
from .seen_cache import SeenCache
from .shares import Shares

logger = logging.getLogger(__name__)

#: Seconds to Redis and back that count as no distance.
NEAR = 0.005
#: How many finished requests may wait to be released, for each that may be begun at a time.
UNRELEASED = 2
#: Moments in which callbacks have to have kept the downloader from being full to count as slow.
SLOW_CALLBACK_TICKS = 10


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the requests of a batch: in Redis, for this worker's memory, or dropped.

    :ivar orphans: leases that were not begun, of a frontier that is no longer in Redis.
    """

    stored: list[Request]
    kept: list[Outgoing]
    duplicates: list[Request]
    orphans: list[Lease]


def _order(lease: str) -> tuple[int, ...]:
    """Return where the lease of this name stands among its worker's; before all if it is empty."""
    return tuple(map(int, lease.split("."))) if lease else ()


class Worker:
    """The local side of the frontier.

    :ivar outbox: requests to push, in the order they came.
    :ivar releases: leases that are no longer needed.
    :ivar ready: leases not yet begun.
    :ivar held: requests that the engine has, and their leases.
    :ivar sowing: the leases of seeds whose requests are being made.
    :ivar memory: requests that cannot be serialized, and are crawled from here.
    :ivar told: what all workers are told to do.
    """

    def __init__(self, settings: FrontierSettings) -> None:
        self._settings = settings
        replicated = settings.wait_replicas > 0
        self.outbox = Outbox(replicated)
        self.releases = Releases(self.outbox, replicated)
        self.ready: deque[Lease] = deque()
        self.held: dict[Request, Lease] = {}
        self.sowing: list[Lease] = []
        self.memory: deque[Outgoing] = deque()
        self.seen = SeenCache(settings.seen_cache)
        self.told = Told.CRAWL
        #: Set while Redis does not answer: then nothing is waited for that needs it.
        self.cut_off = False
        # Requests that the engine has and no lease stands for.
        self._unleased: set[Request] = set()
        # How much had been found when each held request was begun.
        self._begun_at: dict[Request, int] = {}
        self._found = 0
        self._failing: dict[Request, tuple[str, str]] = {}
        self._limit = settings.concurrency
        self._blocked_ticks = 0
        self._ticked = time.monotonic(), time.process_time()
        self._suspicious = suspicious(settings.max_deliveries)
        self._number = 0
        # Requests that the engine was through with since the last batch.
        self._pages = 0
        self._epoch: str | None = None
        # The last request and the last seed that were begun, and whether Redis has to hear of it before it
        # is so.
        self._begun = self._sown = ""
        self._announces = False
        self._said_begun = self._known_begun = ""
        self._said_sown = self._known_sown = ""
        # Whether this worker has nothing in its memory any more, and Redis has not heard of it.
        self._memory_is_done = False
        self._shares = Shares()
        self._pace = Pace()

    # -- what the scheduler puts in ----------------------------------------------------------

    def enqueue(self, push: Push, request: Request) -> None:
        """Put *request* into the outbox."""
        self._found += 1
        self.outbox.append(Outgoing(push, request))

    def note_found(self, unshared: str = "") -> None:
        """Count a request that was found; *unshared* is why it stays in this worker's memory, if it does."""
        self._shares.note(unshared)

    @property
    def shares(self) -> Shares:
        """How many requests were found, and how many of them cannot be shared."""
        return self._shares

    def note_known(self) -> None:
        """Note that a request was found whose push may still be in the outbox."""
        if not self.outbox.is_settled:
            self._found += 1

    def hold(self, request: Request, lease: Lease | None) -> None:
        """Note that the engine now has *request*; without a lease, it came from memory."""
        self._pace.handed += 1
        if lease is None:
            self._unleased.add(request)
        else:
            self.held[request] = lease
            self._begun = lease.name
            self._begun_at[request] = self._found

    def may_take(self, lease: Lease) -> bool:
        """Whether *lease*, the next that is ready, may be begun. Of a suspect, Redis has to know that before.

        Else nobody could tell which of the requests that a dead worker had in hand it had begun.
        """
        if lease.deaths < self._suspicious or lease.name == self._known_begun:
            return True
        if self._begun != lease.name:
            self._begun = lease.name
            self._announces = True
        return False

    def sow(self, lease: Lease) -> None:
        """Note that requests are about to be made of the seed of *lease*."""
        self._sown = lease.name
        self.sowing.append(lease)
        if lease.deaths >= self._suspicious:
            self._announces = True

    def may_sow(self, lease: Lease) -> bool:
        """Whether requests may be made of *lease*'s seed now; of a suspect, Redis has to know that before."""
        # What was said of a later one was said of this one, too.
        return lease.deaths < self._suspicious or _order(lease.name) <= _order(self._known_sown)

    def mark_failed(self, request: Request, reason: str, traceback: str = "") -> bool:
        """Note that *request* is to be set aside when the engine is through with it.

        :return: whether it is known; one that was never in Redis cannot be set aside.
        """
        if request in self.held:
            self._failing[request] = reason, traceback
        return request in self.held

    def finish(self, lease: Lease) -> None:
        """Note that *lease* is finished, after all that it led to was enqueued."""
        self.releases.end(lease, self.outbox.enqueued)

    def refuse(self, lease: Lease, reason: str) -> None:
        """Note that another worker has to do *lease*."""
        self.releases.refuse(lease, reason)

    def fail(self, lease: Lease, reason: str, traceback: str = "") -> None:
        """Note that *lease*, of which nothing was made, has to be set aside."""
        self.releases.end(lease, 0, reason, traceback)

    def finish_all_but(self, in_progress: Collection[Request]) -> None:
        """Note that every request that the engine has had, and has no longer, is finished."""
        done = [request for request in self.held if request not in in_progress]
        for request in done:
            led_to_none = self._begun_at.pop(request) == self._found
            failing = self._failing.pop(request, ("", ""))
            self.releases.end(self.held.pop(request), 0 if led_to_none else self.outbox.enqueued, *failing)
        unleased = {r for r in self._unleased if r in in_progress}
        if self._unleased and not (unleased or self.memory):
            self._memory_is_done = True
        self._pages += len(done) + len(self._unleased) - len(unleased)
        self._unleased = unleased

    def give_back(self) -> None:
        """Note that what was not begun goes back to where it stood."""
        for lease in self.ready:
            self.releases.give_back(lease)
        self.ready.clear()

    def give_back_held(self) -> None:
        """Note that what the engine is at goes back to where it stood, whatever comes of it here."""
        for lease in self.held.values():
            self.releases.give_back(lease)
        self._let_go()

    def forget_memory(self) -> int:
        """Note that what is in memory will not be crawled, so that it does not count as seen.

        :return: how many requests there were.
        """
        count = len(self.memory)
        for out in self.memory:
            self.releases.forget(out.push.mode, out.push.fingerprint)
        self.memory.clear()
        return count

    # -- what the scheduler asks -------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether there is something to say."""
        return bool(self.outbox) or self.releases.has_news or self._announces or self._memory_is_done

    @property
    def has_undone(self) -> bool:
        """Whether a lease is to be set aside, left to another worker, or announced before it is begun."""
        return self.releases.has_undone or self._announces

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing here at all, nor on its way."""
        held = self.ready or self.sowing or self.held or self.memory or self._unleased
        return not (held or self.has_news or len(self.releases)) and self.outbox.is_settled

    @property
    def is_full(self) -> bool:
        """Whether the outbox is at its bound, so that no new page should be begun."""
        return len(self.outbox) >= self._settings.outbox_size

    @property
    def in_memory(self) -> int:
        """How many requests are crawled from this worker's memory, waiting or begun."""
        return len(self.memory) + len(self._unleased)

    @property
    def stands_still(self) -> bool:
        """Whether nothing goes on here, nor will, until there is room for what is in the outbox."""
        in_progress = self.held or self._unleased
        return self.outbox.blocked and not in_progress and (self.is_full or not self.may_begin)

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
    # the next download while any number of finished ones wait for their callbacks; here no more than so
    # many are begun, and a quarter more, so that no download waits for a callback. Callbacks or pipelines
    # that are slow, not busy, raise the limit. Those that are finished may be twice as many, so that one
    # release can be on its way while the next is collected; where Redis is far it is not waited for at all.

    @property
    def may_begin(self) -> bool:
        """Whether one more request may be begun."""
        if self.told in (Told.PAUSE, Told.STOP):
            return False
        if not self.cut_off and self._pace.silence > self._settings.lease_timeout:
            # This process was stopped, and what it holds is perhaps another's: the next reply tells.
            return False
        # Pages that wait for room or for replicas are all crawled again if this worker is killed.
        most = max(self._settings.prefetch, self._limit)
        if self.releases.not_sent >= (self._settings.outbox_size if self.outbox.blocked else most):
            return False
        return len(self.held) < self._most_at_work and not self._has_to_await_release

    @property
    def _most_at_work(self) -> int:
        return self._limit + max(1, self._limit // 4)

    @property
    def _has_to_await_release(self) -> bool:
        unhindered = self.cut_off or self.outbox.blocked or self._pace.distance > NEAR
        return not unhindered and len(self.releases) >= UNRELEASED * self._limit

    @property
    def awaits_release(self) -> bool:
        """Whether the next release should be on its way, so as not to have to wait for it."""
        unreleased = 0 if self.outbox.blocked else len(self.releases)
        return unreleased >= 3 * UNRELEASED * self._limit // 4

    def tick(self, downloading: int) -> bool:
        """Note that a moment has passed; return whether the limit was raised now.

        It is raised when for some moments it has kept the downloader from being full, though this
        process had time: then requests are in callbacks or pipelines that wait, not compute.

        :param downloading: how many requests the downloader has.
        """
        wall, cpu = time.monotonic(), time.process_time()
        has_time = cpu - self._ticked[1] < (wall - self._ticked[0]) / 3
        self._ticked = wall, cpu
        blocked = bool(self.ready) and len(self.held) >= self._most_at_work
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

    # -- the exchange ------------------------------------------------------------------------

    def batch(self, want: int, busy: bool, closing: bool = False, finishing: bool = False) -> Batch:
        """Return what there is to say, and consider it said.

        :param want: how many leases to have at hand in all.
        :param busy: whether this worker may add requests without holding any.
        :param closing: whether this worker is about to leave.
        :param finishing: whether it leaves because the fleet is finished.
        """
        self._number += 1
        stands_still = self.stands_still
        before = self.outbox.taken
        sent = self.outbox.take(exceed=stands_still and not closing)
        wanted = 0 if self.is_full else max(0, want - len(self.ready) - len(self.memory))
        batch = Batch(
            self._number,
            want=wanted,
            want_seeds=self._settings.seed_batch if wanted else 0,
            suspects=sum(lease.deaths >= self._suspicious for lease in (*self.ready, *self.held.values())),
            exceed=closing or stands_still,
            pages=self._pages,
            begun=self._begun,
            sown=self._sown,
            finishing=finishing,
            pushes=[outgoing.push for outgoing in sent],
            requests=[outgoing.request for outgoing in sent],
        )
        self._pages = 0
        self._said_begun, self._said_sown = self._begun, self._sown
        self._announces = self._memory_is_done = False
        self._shares.fill(batch)
        self.releases.fill(batch, before)
        into_memory = any(not push.payload for push in batch.pushes)
        batch.busy = busy or bool(self.in_memory or self.outbox or into_memory)
        batch.in_hand = len(self.ready) + len(self.sowing) + len(self.held) + self.releases.not_sent
        return batch

    def settle(self, reply: Reply, latency: float, said: int | None = None) -> Settled:
        """Take in the reply to the last batch; the leases in it are left to the caller.

        :param latency: seconds that the exchange took.
        :param said: how many of the batch's pushes the exchange carried, if not all.
        """
        self._pace.exchanged(latency)
        self.told = reply.told
        self._known_begun, self._known_sown = self._said_begun, self._said_sown
        orphans: list[Lease] = []
        if reply.standing == Standing.REWOUND:
            if reply.lost == ("frontier",):
                orphans = [*self.ready, *self.sowing]
            self._rewind()
        elif reply.standing == Standing.LOST:
            # Some may be left to this worker, if it came back before all were taken away.
            self.give_back()
            # Of a seed that is another's now, no more requests are made here.
            self.sowing.clear()
        if self._epoch not in (None, reply.epoch):
            self.seen.clear()
            if not reply.epoch:
                logger.error(
                    "The frontier is no longer in Redis: the crawl was finished or cleared without this "
                    "worker, which was silent for longer than FRONTIER_LEASE_TIMEOUT"
                )
        self._epoch = reply.epoch
        sent = self.outbox.settle(reply.stored, reply.replicated, said)
        self.releases.settle()
        kept = set(reply.kept or ())
        if reply.kept is None:
            kept = {place for place, outgoing in enumerate(sent) if not outgoing.push.payload}
        duplicates = set(reply.duplicates)
        settled = Settled([], [], [], orphans)
        for place, outgoing in enumerate(sent):
            if place in duplicates:
                settled.duplicates.append(outgoing.request)
            elif place in kept:
                settled.kept.append(outgoing)
            else:
                settled.stored.append(outgoing.request)
        return settled

    def _rewind(self) -> None:
        # What this worker holds is back in the queue, for whoever gets it; what it is at it goes on with.
        self._let_go()
        self.ready.clear()
        self.sowing.clear()
        self.releases.clear()
        self.outbox.rewind()

    def _let_go(self) -> None:
        self._unleased.update(self.held)
        self.held.clear()
        self._begun_at.clear()
        self._failing.clear()
