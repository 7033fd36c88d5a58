"""Requests that a worker sends without the scheduler, as for media files: they wait for turns of their slots.

Scrapy gives them to the downloader by itself. Another worker may have the turns of their slots, so that the
downloader's own delay is not enough. They wait for nothing else: a page may wait for them.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from scrapy import Request
from twisted.internet.defer import Deferred

from ..frontier.messages import Batch
from ..frontier.replies import AT_ONCE, Part, Reply
from .clock import ServerClock
from .requests import Requests
from .slots import Politeness

#: The maximum number of turns of a slot to ask for at a time; others need turns, too.
MOST = 4
#: The part of a gap by which a turn may be used late: less than APART in ``lua/exchange/admission.lua``.
MOST_LATE = 0.4

Cancel = Callable[[], None]


def _call_now(at: float, call: Callable[[], None]) -> Cancel:
    call()
    return lambda: None


class OutsideRequests(Part):
    """Hold these requests back until their slots have turns for them.

    :param requests: the requests of the frontier that this worker has begun.
    :param politeness: the limits of slots.
    :param clock: the server's clock.
    :ivar call_at: calls a function at a time of the monotonic clock; returns a function that cancels it.
    :ivar passes: returns whether these requests must not wait, because the pages that wait for them must end.
    """

    def __init__(self, requests: Requests, politeness: Politeness, clock: ServerClock) -> None:
        self._requests = requests
        self._politeness = politeness
        self._clock = clock
        self._waiting: dict[str, deque[Deferred[None]]] = {}
        # Those that have a turn, with the function that cancels it.
        self._granted: dict[str, dict[Deferred[None], Cancel]] = {}
        self.call_at: Callable[[float, Callable[[], None]], Cancel] = _call_now
        self.passes: Callable[[], bool] = lambda: False

    def hold(self, request: Request, slot: str) -> Deferred[None] | None:
        """Return a Deferred that fires when *request*, of *slot*, may be sent; None if it may be sent now."""
        if not self._politeness.gap_of(slot) or self._requests.has(request) or self.passes():
            return None
        # The page that waits for its robots.txt has a turn. The robots.txt uses it, and the page is sent a
        # delay later.
        if request.url.endswith("/robots.txt") and self._requests.coming(slot):
            return None
        turn: Deferred[None] = Deferred()
        self._waiting.setdefault(slot, deque()).append(turn)
        return turn

    def asks(self) -> dict[str, int]:
        """Return how many turns to ask for, by slot."""
        return {
            slot: min(MOST, len(row)) for slot, row in self._waiting.items() if not self._granted.get(slot)
        }

    def fill(self, batch: Batch) -> None:
        """Ask for turns; let all requests go that must not wait."""
        if self.passes():
            self._let_go()
        batch.outside = self.asks()

    def applied(self, reply: Reply) -> None:
        """Let requests go at the times of their turns. Requests of slots that were recalled ask again."""
        for slot in reply.recalled:
            for turn, cancel in reversed(self._granted.pop(slot, {}).items()):
                cancel()
                self._waiting.setdefault(slot, deque()).appendleft(turn)
        for slot, times in reply.given_outside.items():
            row = self._waiting.get(slot, deque())
            for at in times[: len(row)]:
                self._grant(slot, row.popleft(), self._clock.local(at) if at > AT_ONCE else 0.0)
            if not row:
                self._waiting.pop(slot, None)

    def _grant(self, slot: str, turn: Deferred[None], at: float) -> None:
        def go() -> None:
            granted = self._granted[slot]
            del granted[turn]
            if not granted:
                del self._granted[slot]
            late = time.monotonic() - at
            if at and late > MOST_LATE * (self._politeness.gap_of(slot) or math.inf):
                # The next turn, which another worker may have, would follow too soon.
                self._waiting.setdefault(slot, deque()).appendleft(turn)
            else:
                turn.callback(None)

        self._granted.setdefault(slot, {})[turn] = self.call_at(max(at, time.monotonic()), go)

    def _let_go(self) -> None:
        for slot in (*self._granted, *self._waiting):
            granted = self._granted.pop(slot, {})
            for cancel in granted.values():
                cancel()
            for turn in (*granted, *self._waiting.pop(slot, ())):
                self.call_at(0.0, partial(turn.callback, None))
