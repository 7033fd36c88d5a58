"""Requests that a worker sends without the scheduler, as for media files: they wait for turns of their slots.

Scrapy gives them to the downloader by itself. Another worker may have the turns of their slots, so that the
downloader's own delay is not enough. They wait for nothing else: a page may wait for them.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from twisted.internet.defer import Deferred

from ..errors import NotSentError, one_line
from ..frontier.messages import Batch
from ..frontier.replies import AT_ONCE, Part, Reply
from .clock import ServerClock
from .requests import Requests, is_robots
from .slots import Politeness

#: The maximum number of turns of a slot to ask for at a time; others need turns, too. Without a delay, there
#: are enough for all.
MOST, MOST_AT_ONCE = 4, 100
#: The part of a gap, and the seconds, by which a turn may be used late: less than APART and MOST_APART in
#: ``lua/exchange/outside.lua``.
MOST_LATE, MOST_SECONDS_LATE = 0.3, 0.15
#: How many turns a request may miss. With the next one it is sent, however late: a page waits for it.
MISSED = 3
#: Seconds for which the requests of a slot are not asked for again after they were refused.
REFUSED_FOR = 5.0
#: Why they are refused, by what the frontier says.
REASONS = {
    "blocked": "its site has asked to wait, or an operator has blocked it, for longer than a minute",
    "unreachable": "its site could not be reached before, and is tried again later",
}

Cancel = Callable[[], None]


def _call_now(at: float, call: Callable[[], None]) -> Cancel:
    call()
    return lambda: None


@dataclass(slots=True, eq=False)
class _Held:
    """A request that waits.

    :param turn: fires when it may be sent, and :param missed: how many turns it has used too late.
    """

    url: str
    turn: Deferred[None] = field(default_factory=Deferred)
    missed: int = 0


class OutsideRequests(Part):
    """Hold these requests back until their slots have turns for them.

    :param requests: the requests of the frontier that this worker has begun.
    :param politeness: the limits of slots.
    :param clock: the server's clock.
    :ivar call_at: calls a function at a time of the monotonic clock; returns a function that cancels it.
    :ivar is_held: returns whether no request of a slot may begin until the frontier has told its limits.
    :ivar is_closing: returns whether the spider closes.
    :ivar latency: returns how many seconds a reply of the frontier takes.
    """

    def __init__(self, requests: Requests, politeness: Politeness, clock: ServerClock) -> None:
        self._requests = requests
        self._politeness = politeness
        self._clock = clock
        self._waiting: dict[str, deque[_Held]] = {}
        # Those that have a turn, with the function that cancels it.
        self._granted: dict[str, dict[_Held, Cancel]] = {}
        # When to ask again for turns of slots that had none.
        self._ask_at: dict[str, float] = {}
        self._passes = False
        self.call_at: Callable[[float, Callable[[], None]], Cancel] = _call_now
        self.is_held: Callable[[str], bool] = lambda slot: False
        self.is_closing: Callable[[], bool] = lambda: False
        self.latency: Callable[[], float] = lambda: 0.0

    def hold(self, request: Request, slot: str) -> Deferred[None] | None:
        """Return a Deferred that fires when *request*, of *slot*, may be sent; None if it may be sent now."""
        needs_turn = self._politeness.delays_outside(slot) or self.is_held(slot)
        if self._passes or not needs_turn or self._requests.has(request):
            return None
        # The page that waits for its robots.txt has a turn. The robots.txt uses it, and the page is sent a
        # delay later.
        if is_robots(request.url) and self._requests.coming(slot):
            return None
        held = _Held(request.url)
        self._waiting.setdefault(slot, deque()).append(held)
        return held.turn

    @property
    def count(self) -> int:
        """How many requests wait."""
        rows = (*self._waiting.values(), *self._granted.values())
        return sum(map(len, rows))

    def asks(self) -> dict[str, int]:
        """Return how many turns to ask for, by slot."""
        soon = time.monotonic() + self.latency()
        self._ask_at = {slot: at for slot, at in self._ask_at.items() if at > soon}
        return {
            slot: min(MOST if self._politeness.gap_of(slot) else MOST_AT_ONCE, len(row))
            for slot, row in self._waiting.items()
            if slot not in self._granted and slot not in self._ask_at
        }

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.outside = self.asks()
        batch.latency = round(1000 * self.latency()) if batch.outside else 0

    def applied(self, reply: Reply) -> None:
        """Let requests go at the times of their turns. Requests of slots that were recalled ask again."""
        self._recall(reply.recalled)
        for slot, why in reply.refused_outside.items():
            self._fail(slot, why)
        for slot in reply.given_outside:
            self._ask_at.pop(slot, None)
        for slot, at in reply.ask_outside_at.items():
            self._ask_at[slot] = self._clock.local(at)
        for slot, times in reply.given_outside.items():
            row = self._waiting.get(slot, deque())
            for at in times[: len(row)]:
                self._grant(slot, row.popleft(), self._clock.local(at) if at > AT_ONCE else 0.0)
            if not row:
                self._waiting.pop(slot, None)

    def rolled_back(self) -> None:
        """Note that Redis may have forgotten the turns."""
        self._recall(tuple(self._granted))

    def _recall(self, slots: Iterable[str]) -> None:
        for slot in slots:
            for held, cancel in reversed(self._granted.pop(slot, {}).items()):
                cancel()
                self._ask_again(slot, held)

    def _fail(self, slot: str, why: str) -> None:
        """Let the requests of *slot* fail: the pages that wait for them would wait too long."""
        row = self._waiting.pop(slot, deque())
        # Without its robots.txt, a site would count as one that forbids nothing.
        waits = why == "blocked" and not self.is_closing()
        kept = deque(held for held in row if waits and is_robots(held.url))
        if kept:
            self._waiting[slot] = kept
        self._ask_at[slot] = time.monotonic() + REFUSED_FOR
        for held in row:
            if held not in kept:
                held.turn.errback(NotSentError(f"{one_line(held.url)} is not sent: {REASONS.get(why, why)}"))

    def pass_all(self) -> None:
        """Let these requests go from now on, because the frontier gives no more turns."""
        self._passes = True
        self.let_go()

    def let_go(self) -> None:
        """Let all that wait go, because they must end, and the frontier does not answer."""
        for held in self._take(lambda url: True):
            self.call_at(0.0, lambda held=held: held.turn.callback(None))  # type: ignore[misc]

    def refuse(self, refuses: Callable[[str], bool], reason: str) -> None:
        """Let those that wait, and whose URL *refuses* returns true for, end without being sent."""
        for held in self._take(refuses):
            held.turn.errback(IgnoreRequest(reason))

    def _take(self, fits: Callable[[str], bool]) -> list[_Held]:
        """Take those out whose URL *fits*, without their turns."""
        taken = []
        for slot, granted in list(self._granted.items()):
            for held in [held for held in granted if fits(held.url)]:
                granted.pop(held)()
                taken.append(held)
            if not granted:
                del self._granted[slot]
        for slot, row in list(self._waiting.items()):
            kept = deque[_Held]()
            for held in row:
                (taken if fits(held.url) else kept).append(held)
            self._waiting[slot] = kept
            if not kept:
                del self._waiting[slot]
                self._ask_at.pop(slot, None)
        return taken

    def _grant(self, slot: str, held: _Held, at: float) -> None:
        def go() -> None:
            granted = self._granted[slot]
            del granted[held]
            if not granted:
                del self._granted[slot]
            gap = self._politeness.gap_of(slot) or math.inf
            is_late = at > 0 and time.monotonic() - at > min(MOST_LATE * gap, MOST_SECONDS_LATE)
            if is_late and held.missed < MISSED:
                # The next turn, which another worker may have, would follow too soon.
                held.missed += 1
                self._ask_again(slot, held)
            else:
                held.turn.callback(None)

        self._granted.setdefault(slot, {})[held] = self.call_at(max(at, time.monotonic()), go)

    def _ask_again(self, slot: str, held: _Held) -> None:
        self._waiting.setdefault(slot, deque()).appendleft(held)
