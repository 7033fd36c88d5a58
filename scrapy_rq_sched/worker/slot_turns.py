"""What becomes of this worker's turns of slots that have limits.

The frontier gives turns ahead of their time, and no other worker has any of a slot as long as one has some.
So the gaps between the requests of a slot are this worker's to keep, however late it is; and when it says
that it has used all its turns, it says when it has used the last.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, OrderedDict
from collections.abc import Collection

from scrapy import Request

from ..frontier.messages import Batch, Turns
from ..frontier.replies import Lease
from .server_clock import ServerClock

#: Which part of the gap between two turns is kept, whatever happens: after one that was late the next comes
#: so much sooner, until the slot is in time again.
KEPT = 0.99
#: Slots of which it is known when their last turn was used.
REMEMBERED = 100_000


class SlotTurns:
    """Notes which turns were used, and when.

    :param clock: the server's.
    """

    def __init__(self, clock: ServerClock) -> None:
        self._clock = clock
        # Requests that were begun, and have not reached the downloader: their slots.
        self._on_their_way: dict[Request, str] = {}
        self._downloading: dict[Request, str] = {}
        # Of each slot, when its last turn was to be used, and when it was.
        self._last: OrderedDict[str, tuple[float, float]] = OrderedDict()
        # What the downloader sends, and when; until then its turn is not used.
        self._sending: list[tuple[float, str, int]] = []
        self._used: Counter[str] = Counter()
        self._unused: Counter[str] = Counter()
        self._downloaded: Counter[str] = Counter()

    @property
    def has_news(self) -> bool:
        """Whether there is something to say."""
        is_sent = self._sending and self._sending[0][0] <= time.monotonic()
        return bool(self._used or self._downloaded or is_sent)

    def earliest(self, slot: str, at: float, gap: float | None = None) -> float:
        """Return from when the turn of *at* may be used: as long after the last as they were to be apart.

        :param gap: the least seconds between two requests of the slot, if they are known: so much is enough.
            When the last was late, the frontier may have moved this turn on already.
        """
        planned, used = self._last.get(slot, (at, 0.0))
        apart = at - planned
        return max(at, used + KEPT * (apart if gap is None else min(apart, gap)))

    def begun(self, request: Request, slot: str, at: float, now: float) -> None:
        """Note that *request* was begun, in the turn of *at*; 0 for one that has no time."""
        self._on_their_way[request] = slot
        self._note(slot, at or now, now)

    def returned(self, lease: Lease) -> None:
        """Note that *lease* goes back, or is set aside, and its turn is not used."""
        if lease.begin:
            self.unused(Counter({lease.slot: 1}))

    def unused(self, turns: Counter[str]) -> None:
        """Note that so many turns of these slots are not used."""
        self._used.update(turns)
        self._unused.update(turns)
        self._downloaded.update(turns)

    def reached_downloader(self, request: Request, delayed: str, at: float) -> None:
        """Note that the downloader has *request*.

        :param delayed: its slot, if that has a delay. A request that has no turn, as for a robots.txt, counts
            for the slot nevertheless.
        :param at: when it is sent: later than now, if others of the slot came together.
        """
        slot = self._on_their_way.pop(request, None)
        if slot is not None:
            self._downloading[request] = slot
        used = 0 if slot is None else 1
        slot = slot or delayed
        if slot:
            heapq.heappush(self._sending, (at, slot, used))
            planned, _ = self._last.get(slot, (at, at))
            self._note(slot, planned, at)

    def left_downloader(self, request: Request) -> None:
        """Note that its download is over."""
        slot = self._downloading.pop(request, None)
        if slot is not None:
            self._downloaded[slot] += 1

    def finish_all_but(self, in_progress: Collection[Request]) -> None:
        """Note that all other requests are finished, also those that never reached the downloader."""
        for request in [request for request in self._on_their_way if request not in in_progress]:
            self.unused(Counter({self._on_their_way.pop(request): 1}))
        for request in [request for request in self._downloading if request not in in_progress]:
            self.left_downloader(request)

    def fill(self, batch: Batch) -> None:
        """Put what there is to say into *batch*, and consider it said."""
        now, sent = time.monotonic(), dict[str, float]()
        while self._sending and self._sending[0][0] <= now:
            at, slot, used = heapq.heappop(self._sending)
            self._used[slot] += used
            sent[slot] = at
        batch.turns = {
            slot: Turns(
                count, round(self._clock.server(sent[slot]), 3) if slot in sent else 0.0, self._unused[slot]
            )
            for slot, count in self._used.items()
        }
        batch.downloaded = dict(self._downloaded)
        self._used.clear()
        self._unused.clear()
        self._downloaded.clear()
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    def forget(self) -> None:
        """Note that the frontier knows of none of the turns and downloads of this worker any more."""
        self._on_their_way.clear()
        self._downloading.clear()
        self._sending = [(at, slot, 0) for at, slot, _ in self._sending]
        self._used.clear()
        self._unused.clear()
        self._downloaded.clear()

    def _note(self, slot: str, planned: float, now: float) -> None:
        self._last[slot] = planned, now
        self._last.move_to_end(slot)
