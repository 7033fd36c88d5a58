"""Find the slots with the most waiting requests, in small steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import repeat

from .. import connection
from ..inspect import View
from ..inspect.slots import clock_of, number_of
from .labels import OTHER, is_url

#: Slots with their own label.
MOST = 50
#: Slots that one look reads, at most, and slots in one round trip.
A_LOOK, A_STEP = 1000, 500
#: Slots that are remembered from one look to the next.
_REMEMBERED = 4 * MOST


@dataclass(frozen=True)
class SlotCounts:
    """Waiting requests and remaining seconds of blocks, by the name of the slot.

    :param waiting: waiting requests of the 50 slots with the most.
    :param blocked: seconds of the same slots, and under ``other`` the longest of all other slots.
    """

    waiting: dict[str, int] = field(default_factory=dict)
    blocked: dict[str, float] = field(default_factory=dict)


class LargestSlots:
    """The largest slots of one frontier.

    Redis has no index of slots by waiting requests. So each look reads the next 1,000 slots, and again the
    largest known ones. With more slots than that, several looks together cover all.
    """

    def __init__(self) -> None:
        self._cursor = 0
        #: Waiting requests of the largest known slots.
        self._known: dict[str, int] = {}
        #: The slots that had a label at the last look.
        self._shown: frozenset[str] = frozenset()
        #: The latest end of a block among the other slots: in the last complete round, and in this round.
        self._blocked_before = self._blocked_now = 0.0

    def look(self, view: View, whole: bool = False) -> SlotCounts:
        """Return the largest slots of *view*'s frontier.

        :param whole: whether to read all slots.
        :raises FrontierError: if its queue cannot be read.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        now, are_blocked = _now(view)
        until: dict[str, float] = {}
        for names in self._steps(view, whole):
            for name, waiting, blocked in _ask(view, names, are_blocked):
                self._known[name] = waiting
                until[name] = blocked
            self._forget_small()
        # Of slots with equally many requests, those with a label keep it, so that labels do not flicker.
        shown = nlargest(MOST, self._known, key=lambda name: (self._known[name], name in self._shown, name))
        self._shown = frozenset(shown)
        others = [end for name, end in until.items() if name not in self._shown]
        self._blocked_now = max([self._blocked_now, *others])
        if not self._cursor:
            self._blocked_before, self._blocked_now = self._blocked_now, 0.0
        longest = max(self._blocked_now, self._blocked_before)
        ends = {name: until.get(name, 0.0) for name in shown} | {OTHER: longest}
        return SlotCounts(
            {name: self._known[name] for name in shown},
            {name: max(0.0, end - now) / 1000 for name, end in ends.items()},
        )

    def _steps(self, view: View, whole: bool) -> Iterator[list[str]]:
        """Yield the slots to read, those of one round trip at a time."""
        server, asked = connection.server_of(view.server, view.keys.requests), 0
        if known := list(self._known):
            scores = server.zmscore(view.keys.slots, known)
            # A slot without a turn has no requests; its key may be a remainder of a cleared frontier.
            self._known = {name: 0 for name, score in zip(known, scores, strict=True) if score is not None}
            yield list(self._known)
        while True:
            self._cursor, found = server.zscan(view.keys.slots, self._cursor, count=A_STEP)
            names = {slot.decode("utf-8", "replace") for slot, _ in found}
            # A slot that is itself called "other" counts as one of the others.
            yield [name for name in names if name != OTHER and not is_url(name)]
            asked += len(names)
            if not self._cursor or (asked >= A_LOOK and not whole):
                return

    def _forget_small(self) -> None:
        kept = nlargest(_REMEMBERED, self._known, key=lambda name: (self._known[name], name in self._shown))
        self._known = {name: self._known[name] for name in kept if self._known[name]}


def _ask(view: View, names: list[str], are_blocked: bool) -> Iterator[tuple[str, int, float]]:
    """Yield each slot with its number of waiting requests and the end of its block, in milliseconds.

    :param are_blocked: whether any slot may be blocked; if not, the ends are not read.
    """
    keys, pipe = view.keys, view.pipeline()
    for name in names:
        count = pipe.zcard if view.is_sorted else pipe.llen
        count(keys.queue(name))
    for name in names if are_blocked else ():
        pipe.hget(keys.slot(name), "blocked")
    # Ignore keys of another type, which another program has written.
    replies = [0 if isinstance(reply, Exception) else reply for reply in pipe.execute(raise_on_error=False)]
    ends = map(number_of, replies[len(names) :]) if are_blocked else repeat(0.0)
    yield from zip(names, replies, ends, strict=False)


def _now(view: View) -> tuple[float, bool]:
    """Return the frontier's time in milliseconds (``lua/slots.lua``), and whether slots may be blocked."""
    keys, pipe = view.keys, view.pipeline()
    pipe.time()
    pipe.hget(clock_of(keys), "clock_ahead")
    pipe.exists(keys.slots_blocked)
    (seconds, microseconds), ahead, are_blocked = pipe.execute()
    now = float(seconds * 1000 + microseconds / 1000 + number_of(ahead))
    # Another spider that shares the states of slots may block a slot for all of them.
    return now, bool(are_blocked) or keys.shares_slots
