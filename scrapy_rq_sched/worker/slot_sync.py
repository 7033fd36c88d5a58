"""The exchange of news about slots between a worker and the frontier."""

from __future__ import annotations

from ..engine.bridge import EngineBridge
from ..frontier.messages import Batch
from ..frontier.replies import AT_ONCE, Lease, Reply
from ..settings import FrontierSettings
from .capacity import Capacity
from .log.notices import Notices
from .part import Part
from .slots import Politeness
from .state import State


class SlotSync(Part):
    """Report the slots with enough requests, the turns that this worker needs, and the limits of slots.

    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand.
    :ivar closing: whether the spider closes, so that no more turns are needed.
    """

    def __init__(
        self,
        state: State,
        capacity: Capacity,
        politeness: Politeness,
        settings: FrontierSettings,
        engine: EngineBridge | None,
        notices: Notices,
    ) -> None:
        self._state = state
        self._capacity = capacity
        self._politeness = politeness
        # The maximum of leases of saturated slots that this worker holds back from other workers.
        self._most_held = settings.prefetch
        self._engine = engine
        self._notices = notices
        self._limits_changed: str | None = None
        self.closing = False

    def asks(self) -> dict[str, int]:
        """Return how many turns this worker needs for requests in its memory, by slot."""
        if self._state.order.begins_nothing:
            return {}
        return self._state.memory.asks(self._capacity.target)

    def look(self) -> None:
        """Find the saturated slots. Call it before counting the ready leases.

        For a saturated slot, the downloader has its maximum of requests, and more leases are ready here.
        They must not count as ready: the requests of a slow host would keep the worker from all other hosts.
        """
        if self._engine is None:
            return
        ready, load = self._state.ready, self._engine.slots.load
        slots = (head.lease.slot for head in ready.heads())
        stuck = {slot: ready.count(slot) for slot in slots if slot and load(slot) is None}
        if sum(stuck.values()) < max(1, self._capacity.target // 2):
            # Of a slot with a delay, one turn that cannot be used is enough: others could use the next turn.
            stuck = {slot: count for slot, count in stuck.items() if self._politeness.gap_of(slot)}
        ready.set_saturated(stuck if sum(stuck.values()) <= self._most_held else ())

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.ahead = round(1000 * self._capacity.ahead)
        batch.saturated = self._state.ready.saturated
        batch.asks = {} if self.closing else self.asks()

    def applied(self, reply: Reply) -> None:
        """Note the limits, the turns and the server's time in *reply*."""
        state = self._state
        self._politeness.take_reply(reply)
        if self._limits_changed not in (None, reply.limits_changed):
            # Requests that were leased before, without a time, may have to wait now.
            state.give_back()
        self._limits_changed = reply.limits_changed
        if reply.now is not None:
            state.clock.note(reply.sent, reply.received, reply.now)
            self._notices.throttled(sum(lease.begin > reply.now for lease in reply.leases))
        given = {slot: map(self._local, times) for slot, times in reply.given.items()}
        state.grants.unused(state.memory.give(given))

    def take_lease(self, lease: Lease) -> None:
        """Make the *lease* of a request ready."""
        self._state.ready.append(lease, self._local(lease.begin))

    def _local(self, begin: float) -> float:
        """Return the local time of a turn at *begin*, in the server's milliseconds; 0: at once."""
        return self._state.clock.local(begin) if begin > AT_ONCE else 0.0
