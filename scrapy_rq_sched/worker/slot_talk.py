"""What a worker says to the frontier of slots, and what it is told of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from ..engine.bridge import EngineBridge
from ..frontier.messages import Batch
from ..frontier.replies import AT_ONCE, Lease, Reply
from ..frontier.slot_limits import UNLIMITED
from ..settings import FrontierSettings
from .limits import Limits
from .log.notices import Notices
from .outbox import Outgoing
from .politeness import Politeness
from .state import State


class SlotTalk:
    """Says of which slots this worker has enough, for which it needs turns, and which limits they have.

    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand.
    """

    def __init__(
        self,
        state: State,
        limits: Limits,
        politeness: Politeness,
        settings: FrontierSettings,
        engine: EngineBridge | None,
        notices: Notices,
    ) -> None:
        self._state = state
        self._limits = limits
        self._politeness = politeness
        # Leases of slots of which there are enough: so many are held back from other workers.
        self._most_held = settings.prefetch
        self._engine = engine
        self._notices = notices
        self._limits_changed: str | None = None
        state.ready.takes = self._takes
        # Slots with limits that the frontier did not know of.
        self._met: set[str] = set()

    def asks(self) -> dict[str, int]:
        """Return how many turns this worker needs for requests in its memory, by slot."""
        if self._state.told.begins_nothing:
            return {}
        return self._state.memory.asks(self._limits.target)

    def look(self) -> None:
        """Find out of which slots there are enough, before it is asked what is at hand.

        Of these the downloader has all that it may have, and this worker has more besides. Else the requests
        of a host that answers slowly would keep the worker from all others.
        """
        if self._engine is None:
            return
        self._engine.slots.finish_all_but(self._engine.in_progress())
        ready, load = self._state.ready, self._engine.slots.load
        stuck = {slot: count for slot, count in ready.slots() if slot and load(slot) is None}
        if sum(stuck.values()) < max(1, self._limits.target // 2):
            # A turn that cannot be used is one too many: another worker could use the next.
            stuck = {slot: count for slot, count in stuck.items() if self._politeness.gap_of(slot)}
        ready.set_sated(stuck if sum(stuck.values()) <= self._most_held else ())

    def fill(self, batch: Batch, closing: bool) -> None:
        """Put what there is to say into *batch*, and consider it said."""
        batch.ahead = round(1000 * self._limits.ahead)
        batch.sated = self._state.ready.sated
        batch.asks = {} if closing else self.asks()
        # Also those whose turns it has: a frontier of before may not know them.
        ready = (slot for slot, _ in self._state.ready.slots())
        met = chain(self._met, batch.asks, (push.slot for push in batch.pushes), ready)
        batch.limits = self._politeness.own(met)
        self._met.clear()

    def take_reply(self, reply: Reply) -> None:
        """Take note of limits and turns, and of the server's time."""
        state = self._state
        self._politeness.take_reply(reply)
        if self._limits_changed not in (None, reply.limits_changed):
            # What was leased before, without a time, may have to wait now.
            state.give_back()
        self._limits_changed = reply.limits_changed
        if reply.now is not None:
            state.clock.note(reply.sent, reply.received, reply.now)
            self._notices.throttled(sum(lease.begin > reply.now for lease in reply.leases))
        given = {slot: map(self._local, times) for slot, times in reply.given.items()}
        state.turns.unused(state.memory.give(given))

    def to_memory(self, kept: Iterable[Outgoing]) -> None:
        """Have requests be crawled from this worker's memory."""
        for outgoing in kept:
            slot = outgoing.push.slot
            self._state.memory.append(outgoing, slot if self._politeness.of(slot) != UNLIMITED else "")

    def take_lease(self, lease: Lease) -> None:
        """Have *lease*, of a request, be ready; or go back, if the frontier has to be told its limits."""
        if self._politeness.is_news(lease):
            # It goes back together with the limits, and comes again with a time.
            self._state.releases.give_back(lease)
            self._met.add(lease.slot)
        else:
            self._state.ready.append(lease, self._local(lease.begin))

    def _takes(self, slot: str) -> bool:
        return self._engine is None or not slot or self._engine.slots.load(slot) is not None

    def _local(self, begin: float) -> float:
        """Return from when a turn of *begin*, in the server's milliseconds, may be used; 0: at once."""
        return self._state.clock.local(begin) if begin > AT_ONCE else 0.0
