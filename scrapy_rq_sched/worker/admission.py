"""Admission: whether a request may begin now; and if not, why, and from when.

:class:`Admission` is the only place that decides it in a worker. A rule returns None, or the block that it
sees. To add a rule, add a method to one of the tuples: they are asked in their order, and the first block
counts. Whoever tells the answer to a person or to a timer reads it from :meth:`Admission.block`.

:class:`Capacity` knows the load of the worker. If this worker is killed, the requests that it has begun and
not released are repeated. Scrapy itself begins the next download while any number of finished ones wait for
their callbacks. Here, at most ``CONCURRENT_REQUESTS`` and a quarter more are begun at a time, so that no
download waits for a callback. The limit grows if callbacks or pipelines wait for something, and do not
compute. Twice as many finished requests may wait for their release, so that one release can be on its way
while the next is collected. If Redis is far away, requests do not wait for releases.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..engine.bridge import EngineBridge
from ..engine.downloader_slots import TOLERATED
from ..frontier.messages import Push
from ..frontier.replies import Lease, Reply
from ..settings import FrontierSettings
from .outbox import Outgoing
from .ready import LATE, Block, Cause, Timed
from .slots import Politeness
from .state import State

logger = logging.getLogger(__name__)


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


#: A round trip to Redis of at most so many seconds counts as near.
NEAR = 0.005
#: How many finished requests may wait to be released, for each request that may be begun at a time.
UNRELEASED = 2
#: How many seconds further ahead than needed to get turns, while only politeness limits this worker.
FAR = 1.0
#: For how many seconds after its time a slot is reserved for the worker that had it last: LEFT_FOR in
#: ``lua/slots/own_slots.lua``.
RESERVED = 1.0
#: How many times more leases than requests at a time this worker then asks for, at least.
BURST = 3
#: A worker counts as held up if its event loop was held up for so many seconds of the last so many seconds.
#: Where there are more workers than cores, it is held up for a fifth of a second now and then.
HELD_UP, OF_THE_LAST = 1.0, 3.0
#: A worker that is held up asks only for what it begins in so many seconds. When it asks, all its slots have
#: turns already: it would take all of them again, before others see them.
SHARE = 0.5
#: Ticks in which callbacks must keep the downloader from being full until they count as slow.
SLOW_CALLBACK_TICKS = 10


class Capacity:
    """Decide how many requests a worker may begin, from its state and its speed.

    :ivar cut_off: whether Redis does not answer; then no request waits for a reply of Redis.
    :ivar waits_for_turns: whether only politeness limits this worker: the frontier gave all that it could,
        and less than this worker wanted.
    """

    def __init__(self, state: State, settings: FrontierSettings) -> None:
        self._state = state
        self._settings = settings
        self._limit = settings.concurrency
        # With priorities over all slots, a turn that is given early keeps a more important request waiting.
        self._far = 0.0 if settings.order == "priority" else min(FAR, settings.lease_timeout / 8)
        self._rate = RateEstimate()
        self._blocked_ticks = 0
        self._ticked = time.monotonic(), time.process_time()
        # Whether other workers may have the turns that this worker leaves to them.
        self._has_others = True
        self._may_leave = settings.order != "priority" and not settings.slots_key
        # When the next tick is due, and for how many of the last seconds the ticks were late.
        self._tick_due, self._held_up = math.inf, 0.0
        # How many requests were begun in the last seconds.
        self._begun_lately = 0.0
        self.cut_off = self.waits_for_turns = False

    def begun(self) -> None:
        """Note that the engine was given a request."""
        self._rate.handed += 1
        self._begun_lately += 1

    def exchanged(self, latency: float) -> None:
        """Note that an exchange took *latency* seconds."""
        self._rate.exchanged(latency)
        self.cut_off = False

    def note_turns(self, reply: Reply, wanted: int) -> None:
        """Note what the frontier gave for *wanted* leases, and when there is more."""
        self._has_others = reply.workers > 1
        if reply.next_turn is None or reply.now is None or reply.seeds or self._state.ready.saturated:
            # Saturated slots may have requests that need no turn.
            self.waits_for_turns = False
        elif wanted:
            given = sum(lease.kind == "request" for lease in reply.leases)
            self.waits_for_turns = given < wanted and reply.next_turn > reply.now

    @property
    def latency(self) -> float:
        """Seconds that an exchange takes."""
        return self._rate.latency

    @property
    def cycle(self) -> float:
        """Seconds from one exchange until the reply of the next."""
        return 2 * (self._rate.latency + self._settings.flush_interval)

    @property
    def is_held_up(self) -> bool:
        """Whether callbacks hold up the event loop much of the time: others should have the next turns."""
        return self._may_leave and self._has_others and self._held_up > HELD_UP

    @property
    def near(self) -> float:
        """How many seconds ahead of its time to ask for a turn: one cycle and one flush interval."""
        now = time.monotonic()
        if self.is_held_up or self._state.ready.is_late(now - LATE, now):
            return 0.0  # a worker that is late with its turns leaves the next ones to other workers
        return min(self.cycle + self._settings.flush_interval, self._settings.lease_timeout / 8)

    @property
    def ahead(self) -> float:
        """How many seconds ahead of their time turns of slots may be given to this worker.

        While only politeness limits it, it would make an exchange for each turn otherwise.
        """
        near = self.near
        return near + self._far if near and self.waits_for_turns else near

    @property
    def target(self) -> int:
        """How many leases to have ready: as many as this worker begins until the reply after the next."""
        least, seconds = self._settings.concurrency, self.cycle
        if self.waits_for_turns:
            # Many slots may have their turns at the same time, after a time in which none had any.
            least, seconds = BURST * least, seconds + 2 * self._far
        needed = max(least, math.ceil(self._rate.rate * seconds))
        if self.is_held_up:
            needed = min(needed, max(1, math.ceil(self._begun_lately / OF_THE_LAST * SHARE)))
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
        """Whether the outbox or the memory for items is full, so that no new page should be begun."""
        return len(self._state.outbox) >= self._settings.outbox_size or self._state.items.is_full

    def load_block(self) -> Block | None:
        """Return the first block by this worker's load; None if it permits one more request."""
        if self._was_silent:
            return Block(Cause.SILENCE)
        if self._has_too_many_unreleased:
            return Block(Cause.UNRELEASED)
        if self.is_at_its_limit:
            return Block(Cause.CAPACITY)
        return Block(Cause.RELEASE) if self._has_to_await_release else None

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
    def awaits_release(self) -> bool:
        """Whether the next release should be sent now, so that no request has to wait for it."""
        unreleased = 0 if self._state.outbox.blocked else len(self._state.releases)
        return unreleased >= 3 * UNRELEASED * self._limit // 4

    @property
    def has_enough_unreleased(self) -> bool:
        """Whether so many pages are finished, and not released, that a kill would repeat many."""
        return self._state.releases.not_sent >= max(1, self._limit // 2)

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
        fades = math.exp((self._ticked[0] - wall) / OF_THE_LAST)
        self._held_up, self._begun_lately = self._held_up * fades, self._begun_lately * fades
        # A process that was stopped for a minute does not count as held up a minute later.
        self._held_up = min(OF_THE_LAST, self._held_up + max(0.0, wall - self._tick_due))
        self._tick_due = wall + self._settings.flush_interval
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


Rule = Callable[[float], Block | None]
SlotRule = Callable[[str, float, float], Block | None]
LeaseRule = Callable[[Lease], Block | None]
PushRule = Callable[[Push], float | None]


class Granted(NamedTuple):
    """A request in this worker's memory that needs no lease.

    :param slot: its slot, if it needs a turn of the slot; else empty.
    :param at: the time of that turn; 0: at once.
    """

    slot: str = ""
    at: float = 0.0


class Admission:
    """The rules about when a request may begin.

    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand; then the
        number of begun requests has no limit.
    """

    def __init__(
        self,
        state: State,
        capacity: Capacity,
        politeness: Politeness,
        settings: FrontierSettings,
        engine: EngineBridge | None,
    ) -> None:
        self._state = state
        self._capacity = capacity
        self._politeness = politeness
        self._engine = engine
        self._by_priority = settings.order == "priority"
        self._lease_timeout = settings.lease_timeout
        #: For all requests.
        self._of_worker: tuple[Rule, ...] = (self._room, self._order, self._items)
        #: For all requests but those in memory without limits, which only the engine bounds.
        self._of_load: tuple[Rule, ...] = () if engine is None else (self._load,)
        #: For the next request of each slot, a lease or one in memory.
        self._of_slot: tuple[SlotRule, ...] = (self._answer, self._time, self._slot_room)
        #: For the lease that would begin.
        self._of_lease: tuple[LeaseRule, ...] = (self._suspect,)
        #: For a request that enters this worker's memory: from when it may begin, by the monotonic clock. In
        #: Redis, the rules about pushes in ``lua/exchange/admission.lua`` decide this.
        self._of_push: tuple[PushRule, ...] = (self._not_before,)
        state.ready.judge = self._judge
        state.ready.begins = lambda head: self._begins(head.lease.slot, head.at)
        state.grants.needed_at = self._report_needed_at
        state.grants.frees = self._frees
        state.grants.is_too_late = self._is_too_late
        # A worker that is held up leaves its slots to others, which then need its reports at once.
        state.grants.ahead = lambda: math.inf if capacity.is_held_up else capacity.ahead

    def next(self, now: float) -> Timed | Granted | Block:
        """Return the next request to begin: a lease, or a request in memory; or why no request may begin."""
        state = self._state
        block = _first(self._of_worker, now)
        if block is not None:
            return block
        if state.memory:
            state.memory.note_time(now)
            if state.memory.has_free:
                return Granted()
        block = _first(self._of_load, now)
        if block is not None:
            return block
        if state.memory:
            for slot, at in state.memory.grants():
                if self._of(slot, at, now) is None:
                    return Granted(slot, at)
        head = state.ready.next(now)
        if head is None:
            # Scrapy reports the end of a download a moment before it makes room for the next one.
            state.ready.look_at_stuck()
            head = state.ready.next(now)
        if head is None:
            return self._why_not(now)
        return next((block for rule in self._of_lease if (block := rule(head.lease)) is not None), head)

    def block(self, now: float) -> Block | None:
        """Return why no request may begin; None if one may."""
        found = self.next(now)
        return found if isinstance(found, Block) else None

    @property
    def stands_still(self) -> bool:
        """Whether this worker cannot continue before Redis has room for its outbox."""
        # Callbacks that wait for room for their items cannot continue either.
        waits = not self._state.is_at_work or self._state.items.is_full
        if not (self._state.outbox.blocked and waits):
            return False
        return _first((*self._of_worker, self._load), time.monotonic()) is not None

    def _report_needed_at(self, slot: str) -> float:
        """Return when the next turn of *slot* may begin, before which nobody needs the report of the last."""
        return 0.0 if self._politeness.of(slot).concurrency else self.may_begin(slot) or 0.0

    def _frees(self, slot: str) -> bool:
        """Return whether the end of a download of *slot* lets another request of the slot begin."""
        its = self._politeness.of(slot)
        # If this worker's settings have no limits for the slot, those of another worker have some.
        return bool(its.concurrency or not its.delay)

    def _is_too_late(self, slot: str, late: float) -> bool:
        """Return whether the frontier must know at once that a turn of *slot* was used *late* seconds late.

        If this worker dies, another worker has the next turn when the lease is over, or a gap after the time
        that the frontier knows. So only a gap that may be longer than the rest of the lease needs this.
        """
        gap = self._politeness.gap_of(slot) or 0.0
        return gap > self._lease_timeout / 2 and late > TOLERATED * gap

    def may_begin(self, slot: str) -> float | None:
        """Return when the next request of *slot* may begin that is not here yet; None if this is unknown.

        It is unknown if another worker may have the turns of the slot by now.
        """
        gap = self._politeness.gap_of(slot) if slot else None
        last = self._state.grants.last(slot)
        if not gap or last is None:
            return None
        begins = max(last, self._state.ready.last_time(slot)) + gap
        return begins if begins > time.monotonic() - RESERVED else None

    def next_time(self, now: float) -> float | None:
        """Return when the first request that waits for a time may begin; None if no request waits for one."""
        first = min(self._times(now), default=None)
        block = self._items(now)
        return first if block is None or block.until is None else max(first or 0.0, block.until)

    def to_memory(self, kept: Iterable[Outgoing]) -> None:
        """Put requests into this worker's memory, to be crawled from there."""
        for outgoing in kept:
            push, memory = outgoing.push, self._state.memory
            limited = push.slot if self._politeness.needs_turns(push.slot) else ""
            until = max((time for rule in self._of_push if (time := rule(push)) is not None), default=0.0)
            if until:
                memory.put_off(outgoing, until, limited)
            else:
                memory.append(outgoing, limited)

    def _times(self, now: float) -> Iterator[float]:
        if (later := self._state.memory.note_time(now)) is not None:
            yield later
        if (ready := self._state.ready.next_time(now)) is not None:
            yield ready
        for slot, at in self._state.memory.grants():
            block = self._of(slot, at, now)
            if block is not None and block.until is not None:
                yield block.until

    def _why_not(self, now: float) -> Block:
        """Return why none of the requests at hand may begin; one that waits for an event comes first."""
        stuck = next(iter(self._state.ready.stuck(now).values()), None)
        until = self.next_time(now)
        return stuck or (Block(Cause.EMPTY) if until is None else Block(Cause.TIME, until))

    def _judge(self, head: Timed, now: float) -> int | Block:
        """Return the load of the slot of a lease that may begin, or why it may not."""
        block = self._of(head.lease.slot, head.at, now)
        if block is not None:
            return block
        if self._engine is None or self._by_priority:
            return 0
        return self._engine.slots.load(head.lease.slot) or 0

    def _of(self, slot: str, at: float, now: float) -> Block | None:
        """Return why a request of *slot*, in the turn of *at*, may not begin; None if it may."""
        for rule in self._of_slot:
            block = rule(slot, at, now)
            if block is not None:
                return block
        return None

    # -- the rules -----------------------------------------------------------------------------

    def _order(self, now: float) -> Block | None:
        return Block(Cause.ORDER) if self._state.order.begins_nothing else None

    def _room(self, now: float) -> Block | None:
        return Block(Cause.ROOM) if self._capacity.is_full else None

    def _items(self, now: float) -> Block | None:
        return self._state.pools.block(now)

    def _load(self, now: float) -> Block | None:
        return self._capacity.load_block()

    def _slot_room(self, slot: str, at: float, now: float) -> Block | None:
        has_room = self._engine is None or not slot or self._engine.slots.load(slot) is not None
        return None if has_room else Block(Cause.SLOT)

    def _answer(self, slot: str, at: float, now: float) -> Block | None:
        return Block(Cause.ANSWER) if slot in self._state.answers.held else None

    def _time(self, slot: str, at: float, now: float) -> Block | None:
        """Return the block of a turn whose time has not come, or is long past."""
        if not at:
            return None
        if at < now - self._lease_timeout / 2:
            return Block(Cause.LATE)
        until = self._begins(slot, at)
        return Block(Cause.TIME, until) if until > now else None

    def _begins(self, slot: str, at: float) -> float:
        """Return from when the turn of *at* may be used."""
        # If this worker's settings have no delay for the slot, the settings of another worker have one.
        gap = self._politeness.gap_of(slot) if self._politeness.of(slot).delay else None
        return self._state.grants.earliest(slot, at, gap)

    def _not_before(self, push: Push) -> float | None:
        return self._state.clock.local(push.not_before) if push.not_before else None

    def _suspect(self, lease: Lease) -> Block | None:
        return None if self._state.start_reports.is_known(lease) else Block(Cause.SUSPECT)


def _first(rules: tuple[Rule, ...], now: float) -> Block | None:
    # Not a generator: this is asked for each request.
    for rule in rules:
        if (block := rule(now)) is not None:
            return block
    return None
