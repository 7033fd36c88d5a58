"""Find the slots with the most waiting requests, in small steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nlargest
from itertools import repeat
from typing import NamedTuple

from .. import connection
from ..codec.needs import split_place
from ..codec.values import number_of, text_of
from ..frontier.entries import Entries
from .slots import clock_of
from .view import View

#: The largest slots that are shown.
MOST = 50
#: Slots that one look reads, approximately, and slots in one round trip.
A_LOOK, A_STEP = 1000, 500
#: Slots that are remembered from one look to the next.
_REMEMBERED = 4 * MOST
#: Bytes of a slot's name. Slots with longer names are left out.
LONGEST = 1000


class Look(NamedTuple):
    """The slots that a look has found.

    :param waiting: waiting requests of the largest slots, the largest first.
    :param blocks: for each slot that this look has read: remaining seconds of its block.
    :param total: the number of slots, and :param looked_at: how many of them were read so far.
    :param is_last: whether this look ends a round through all slots.
    """

    waiting: dict[str, int]
    blocks: dict[str, float]
    total: int
    looked_at: int
    is_last: bool


class LargestSlots:
    """The largest slots of one frontier.

    Redis has no index of slots by waiting requests. So each look reads the next 1,000 slots, and again the
    largest known ones. With more slots than that, several looks together cover all.

    :param is_wanted: whether a slot counts, by its name; by default, all slots count.
    """

    def __init__(self, is_wanted: Callable[[str], bool] = lambda name: True) -> None:
        self._is_wanted = is_wanted
        self._cursor = b"0"
        #: Waiting requests of the largest known slots.
        self._known: dict[str, int] = {}
        #: The slots that were shown at the last look.
        self._shown: frozenset[str] = frozenset()
        self._round = self._looked_at = 0

    def look(self, view: View, whole: bool = False) -> Look:
        """Return the largest slots of *view*'s frontier.

        :param whole: whether to read all slots.
        :raises FrontierError: if its queue cannot be read.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        keys, pipe = view.keys, view.pipeline()
        pipe.time()
        pipe.hget(clock_of(keys), "clock_ahead")
        pipe.exists(keys.slots_blocked)
        pipe.zcard(keys.slots)
        (seconds, microseconds), ahead, are_blocked, total = pipe.execute()
        now = seconds * 1000 + microseconds / 1000 + number_of(ahead)
        blocks: dict[str, float] = {}
        for names in self._steps(view, whole):
            # Another spider that shares the states of slots may block a slot for all of them.
            for name, waiting, end in _ask(view, names, bool(are_blocked) or keys.shares_slots):
                self._known[name] = waiting
                blocks[name] = max(0.0, end - now) / 1000
            self._forget_small()
        # Of slots with equally many requests, those that were shown stay, so that they do not flicker.
        shown = nlargest(MOST, self._known, key=lambda name: (self._known[name], name in self._shown, name))
        self._shown = frozenset(shown)
        is_last = self._cursor == b"0"
        self._looked_at = total if is_last else max(self._looked_at, self._round)
        if is_last:
            self._round = 0
        return Look(
            {name: self._known[name] for name in shown}, blocks, total, min(self._looked_at, total), is_last
        )

    def _steps(self, view: View, whole: bool) -> Iterator[list[str]]:
        """Yield the slots to read, those of one round trip at a time."""
        server, asked = connection.server_of(view.server, view.keys.requests), 0
        if known := list(self._known):
            scores = server.zmscore(view.keys.slots, known)
            # A slot without a turn has no requests; its key may be a remainder of a cleared frontier.
            self._known = {name: 0 for name, score in zip(known, scores, strict=True) if score is not None}
            yield list(self._known)
        entries = Entries(view.server)
        while True:
            self._cursor, found = entries.step("ZSCAN", view.keys.slots, self._cursor, A_STEP, LONGEST)
            names = {text_of(piece.data) for piece in found if not piece.is_cut}
            yield list(filter(self._is_wanted, names))
            asked += len(found)
            self._round += len(found)
            if self._cursor == b"0" or (asked >= A_LOOK and not whole):
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
        pipe.hget(keys.slot(split_place(name)[0]), "blocked")
    # Ignore keys of another type, which another program has written.
    replies = [0 if isinstance(reply, Exception) else reply for reply in pipe.execute(raise_on_error=False)]
    ends = map(number_of, replies[len(names) :]) if are_blocked else repeat(0.0)
    yield from zip(names, replies, ends, strict=False)
