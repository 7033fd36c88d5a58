"""Admission: whether a request may begin now; and if not, why, and from when.

This is the only place that decides it in a worker. A rule returns None, or the block that it sees. To add a
rule, add a method to one of the tuples: they are asked in their order, and the first block counts. Whoever
tells the answer to a person or to a timer reads it from :meth:`Admission.block`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..engine.bridge import EngineBridge
from ..frontier.messages import Push
from ..frontier.replies import Lease
from ..frontier.slot_limits import UNLIMITED
from ..settings import FrontierSettings
from .block import Block, Cause
from .capacity import Capacity
from .outbox import Outgoing
from .ready import Timed
from .slots import Politeness
from .state import State

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
        self._of_worker: tuple[Rule, ...] = (self._room, self._order)
        #: For all requests but those in memory without limits, which only the engine bounds.
        self._of_load: tuple[Rule, ...] = () if engine is None else (self._load,)
        #: For the next request of each slot, a lease or one in memory.
        self._of_slot: tuple[SlotRule, ...] = (self._time, self._slot_room)
        #: For the lease that would begin.
        self._of_lease: tuple[LeaseRule, ...] = (self._suspect,)
        #: For a request that enters this worker's memory: from when it may begin, by the monotonic clock. In
        #: Redis, the rules about pushes in ``lua/exchange/admission.lua`` decide this.
        self._of_push: tuple[PushRule, ...] = (self._not_before,)
        state.ready.judge = self._judge

    def next(self, now: float) -> Timed | Granted | Block:
        """Return the next request to begin: a lease, or a request in memory; or why no request may begin."""
        state = self._state
        block = _first(self._of_worker, now)
        if block is not None:
            return block
        state.memory.note_time(now)
        if state.memory.has_free:
            return Granted()
        block = _first(self._of_load, now)
        if block is not None:
            return block
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

    def next_time(self, now: float) -> float | None:
        """Return when the first request that waits for a time may begin; None if no request waits for one."""
        return min(self._times(now), default=None)

    def to_memory(self, kept: Iterable[Outgoing]) -> None:
        """Put requests into this worker's memory, to be crawled from there."""
        for outgoing in kept:
            push, memory = outgoing.push, self._state.memory
            limited = push.slot if self._politeness.of(push.slot) != UNLIMITED else ""
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

    def _load(self, now: float) -> Block | None:
        return self._capacity.load_block()

    def _slot_room(self, slot: str, at: float, now: float) -> Block | None:
        has_room = self._engine is None or not slot or self._engine.slots.load(slot) is not None
        return None if has_room else Block(Cause.SLOT)

    def _time(self, slot: str, at: float, now: float) -> Block | None:
        """Return the block of a turn whose time has not come, or is long past."""
        if not at:
            return None
        if at < now - self._lease_timeout / 2:
            return Block(Cause.LATE)
        # If this worker's settings have no delay for the slot, the settings of another worker have one.
        gap = self._politeness.gap_of(slot) if self._politeness.of(slot).delay else None
        until = self._state.grants.earliest(slot, at, gap)
        return Block(Cause.TIME, until) if until > now else None

    def _not_before(self, push: Push) -> float | None:
        return self._state.clock.local(push.not_before) if push.not_before else None

    def _suspect(self, lease: Lease) -> Block | None:
        return None if self._state.start_reports.is_known(lease) else Block(Cause.SUSPECT)


def _first(rules: tuple[Rule, ...], now: float) -> Block | None:
    return next((block for rule in rules if (block := rule(now)) is not None), None)
