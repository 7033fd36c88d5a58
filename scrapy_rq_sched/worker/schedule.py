"""When the next exchange of a worker is due."""

from __future__ import annotations

import time
from collections.abc import Collection

from ..frontier.replies import Lease, Order, Reply
from .session import Session

#: Seconds between exchanges of an idle worker: while others hold requests, whose children may come at any
#: moment; while the state of the fleet is unknown; and when the fleet has no requests.
POLL_BUSY_FLEET, POLL_UNKNOWN, POLL_FINISHED = 0.1, 0.25, 1.8
#: Exchanges per second that all idle workers of a fleet may make together.
POLLS = 200
#: How many times longer news may wait while Redis has more waiting requests than all workers want to have
#: ready. Otherwise, a worker with ten pages per second would make an exchange for each page.
PLENTY = 5
#: Seconds between exchanges if the last one found no room.
POLL_FULL = 0.25
#: While only politeness limits a worker: seconds that its news may wait, at most; that a request may wait of
#: whose slot this worker does not know when it may begin; and that its reports may wait while it leaves its
#: slots to others.
NEWS, NEW_SLOT, LEAVES = 1.0, 0.5, 0.25


class ExchangeSchedule:
    """Decide when the next exchange of a session is due.

    While only politeness limits the worker (:attr:`Capacity.waits_for_turns`), :meth:`_is_due_for_turns`
    decides: there is an exchange when the next turn of a slot is near, or when news lets a request begin.

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
        # The slots of the sent requests of which this worker does not know when they may begin; and whether
        # the last exchange gave it a request of such a slot.
        self._unknown: set[str] = set()
        self._new_slots_begin = False

    def sending(self) -> None:
        """Note that an exchange is about to be made."""
        may_begin = self._session.admission.may_begin
        self._unknown = {slot for slot in self._session.state.outbox.slots if may_begin(slot) is None}

    def exchanged(self, asked: bool = False, leases: Collection[Lease] = ()) -> None:
        """Note that an exchange has ended.

        :param asked: whether it asked for leases.
        :param leases: those that it was given.
        """
        self._last_exchange = time.monotonic()
        self._has_asked = asked
        if self._unknown:
            self._new_slots_begin = any(lease.slot in self._unknown for lease in leases)

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
        now = time.monotonic()
        silence = now - self._last_exchange
        if reply is not None and session.state.order == Order.ITEM and silence >= self._item_poll(reply):
            return True
        if reply is not None and session.capacity.waits_for_turns and not session.closing:
            return self._is_due_for_turns(reply, now, silence)
        has_no_room = session.state.lacks_room
        if session.state.has_news and silence >= (POLL_FULL if has_no_room else self._patience(reply)):
            return True
        if self._is_turn_near(reply):
            return True
        if session.state.has_news and not has_no_room:
            return False
        if reply is None and not session.is_busy:
            return True  # start() has ended, and the state of the frontier is unknown
        if self._asks(reply, silence):
            return True
        lacks = session.wanted > session.capacity.at_hand
        if lacks and reply is not None and self._is_parked_due(reply) and silence >= reply.workers / POLLS:
            return True
        if lacks and reply is not None and reply.next_turn is not None:
            if self._in_vain and reply.now is not None and reply.next_turn <= reply.now:
                # Only slots of which this worker has enough requests have a turn.
                return silence >= min(POLL_UNKNOWN, self._lease_timeout / 3)
            # The waiting requests wait for their time: asking sooner would bring no more of them.
            is_time = self._near(reply.next_turn) <= now and silence >= reply.workers / POLLS
            return bool(reply.leases) or is_time or silence >= self._poll_interval(reply, lacks)
        if lacks and reply is not None and (reply.waiting or reply.seeds) and session.capacity.runs_low:
            # The waiting requests may be for other workers: asking more often would bring no more of them.
            interval = max(POLL_UNKNOWN, reply.workers / POLLS)
            return bool(reply.leases) or silence >= min(interval, self._lease_timeout / 3)
        return silence >= self._poll_interval(reply, lacks)

    # -- while only politeness limits ----------------------------------------------------------

    def _is_due_for_turns(self, reply: Reply, now: float, silence: float) -> bool:
        """Return whether an exchange is due although all that waits must wait for turns."""
        session = self._session
        if session.state.has_news and self._news_due(reply) <= now:
            return True
        if self._asks(reply, silence):
            return True
        if session.wanted > session.capacity.at_hand and silence >= reply.workers / POLLS:
            if reply.next_turn is not None and self._near(reply.next_turn) <= now:
                return True
            if self._is_parked_due(reply):
                return True
        return silence >= min(POLL_FINISHED, self._lease_timeout / 3)

    def _news_due(self, reply: Reply) -> float:
        """Return the time by which the worker's news must be sent."""
        session, state = self._session, self._session.state
        if state.lacks_room:
            return self._last_exchange + POLL_FULL
        # If few requests wait in the fleet, others may wait for the end of this worker's.
        is_dry = reply.waiting <= reply.workers and not (state.ready or state.is_at_work or state.memory)
        if is_dry or state.has_urgent_news or session.capacity.has_enough_unreleased:
            return self._last_exchange
        longest = self._lease_timeout / 6
        due = self._last_exchange + min(NEWS, longest)
        if session.capacity.is_held_up and state.grants.has_news:
            # Others may have the next turns of its slots, but only after the reports of the last ones.
            due = self._last_exchange + min(LEAVES, longest)
        now = time.monotonic()
        for slot in state.outbox.slots:
            if due <= now:
                break
            begins = session.admission.may_begin(slot)
            if not (slot and session.politeness.gap_of(slot)):
                # A worker can begin it at once: this one, unless it has others of the slot.
                has_others = state.ready.count(slot) > 0
                its_due = self._last_exchange + (PLENTY * self.interval if has_others else 0.0)
            elif begins is None:
                # If it is a new slot, a worker can begin it at once; but most such slots are those of others.
                waits = state.ready and not self._new_slots_begin
                its_due = self._last_exchange + (min(NEW_SLOT, longest) if waits else 0.0)
            else:
                its_due = begins - session.capacity.near
            due = min(due, its_due)
        return due

    # -- in all other cases --------------------------------------------------------------------

    def _near(self, turn: float) -> float:
        """Return from when to ask for a turn at *turn*, in the server's milliseconds."""
        return self._session.state.clock.local(turn) - self._session.capacity.near

    def _is_turn_near(self, reply: Reply | None) -> bool:
        """Return whether a slot has a turn soon, so that the exchange must not wait for more news."""
        session = self._session
        if reply is None or reply.next_turn is None or reply.now is None or self._in_vain:
            return False
        is_later = reply.next_turn > reply.now
        is_near = self._near(reply.next_turn) <= time.monotonic()
        return is_later and is_near and session.wanted > session.capacity.at_hand

    def _item_poll(self, reply: Reply) -> float:
        """Return how often to ask for an item without which this worker begins nothing, in seconds."""
        return min(self._lease_timeout / 3, max(POLL_UNKNOWN, reply.workers / POLLS))

    def wait_for_item(self, reply: Reply) -> float | None:
        """Return in how many seconds an item of a pool is free, so that it is time to ask; None: unknown."""
        if reply.next_item is None:
            return None
        now = time.monotonic()
        at = self._session.state.clock.local(reply.next_item) + self._session.state.clock.doubt
        return max(at, self._last_exchange + reply.workers / POLLS, now) - now

    def _is_parked_due(self, reply: Reply) -> bool:
        """Return whether a request that was set back may begin now, but could not at the last exchange."""
        due = reply.next_parked
        return due is not None and time.monotonic() >= self._session.state.clock.local(due)

    def _asks(self, reply: Reply | None, silence: float) -> bool:
        """Return whether requests that are not in Redis need turns, which the frontier may have."""
        session = self._session
        if session.outside.asks() and silence >= self.interval:
            return True
        return bool(session.slot_sync.asks()) and self._may_ask(reply, silence)

    def _may_ask(self, reply: Reply | None, silence: float) -> bool:
        """Return whether the frontier may have turns for the requests in this worker's memory."""
        if reply is None or reply.ask_at is None:
            return silence >= self.interval
        return self._near(reply.ask_at) <= time.monotonic() and silence >= self._session.capacity.near / 2

    def is_wanted_soon(self) -> bool:
        """Return whether the next request would have to wait, unless there is an exchange now."""
        session, reply = self._session, self._session.last_reply
        if session.state.lacks_room:
            return False
        if session.capacity.waits_for_turns:
            return session.capacity.awaits_release
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
