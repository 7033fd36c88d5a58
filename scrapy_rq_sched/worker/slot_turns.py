"""The use of this worker's turns, for slots with limits.

The frontier gives turns ahead of their time, and only one worker at a time has turns of a slot. So this
worker must keep the gaps between the requests of the slot, however late it is. When it reports that it has
used all its turns, it also reports when it used the last one.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, OrderedDict

from ..frontier.messages import Batch, Turns
from ..frontier.replies import Lease
from .part import Part
from .server_clock import ServerClock

#: The part of the gap between two turns that is always kept. After a late turn, the next ones come a little
#: sooner, until the slot is on time again.
KEPT = 0.99
#: Number of slots whose last used turn is remembered.
REMEMBERED = 100_000


class SlotTurns(Part):
    """Note which turns were used, and when.

    :param clock: the server's clock.
    """

    def __init__(self, clock: ServerClock) -> None:
        self._clock = clock
        # By slot, the planned time of its last turn, and the time at which it was used.
        self._last: OrderedDict[str, tuple[float, float]] = OrderedDict()
        # The times at which the downloader sends requests; a turn counts as used from then on.
        self._sending: list[tuple[float, str, int]] = []
        self._used: Counter[str] = Counter()
        self._unused: Counter[str] = Counter()
        self._downloaded: Counter[str] = Counter()

    @property
    def has_news(self) -> bool:
        """Whether there is something to report."""
        is_sent = self._sending and self._sending[0][0] <= time.monotonic()
        return bool(self._used or self._downloaded or is_sent)

    def earliest(self, slot: str, at: float, gap: float | None = None) -> float:
        """Return from when the turn of *at* may be used: as long after the last turn as it was planned.

        :param gap: the minimum seconds between two requests of the slot, or None if unknown. A longer wait is
            not needed: if the last turn was late, the frontier may have moved this turn already.
        """
        planned, used = self._last.get(slot, (at, 0.0))
        apart = at - planned
        return max(at, used + KEPT * (apart if gap is None else min(apart, gap)))

    def begun(self, slot: str, at: float, now: float) -> None:
        """Note that a request was begun in the turn of *at*; 0 for a turn without a time."""
        self._note(slot, at or now, now)

    def returned(self, lease: Lease) -> None:
        """Note that *lease* goes back or is set aside, without using its turn."""
        if lease.begin:
            self.unused(Counter({lease.slot: 1}))

    def unused(self, turns: Counter[str]) -> None:
        """Note the number of unused turns by slot."""
        self._used.update(turns)
        self._unused.update(turns)
        self._downloaded.update(turns)

    def sending(self, slot: str, at: float, used: bool) -> None:
        """Note that the downloader sends a request of *slot* at a time; *used*: in a turn of the slot."""
        if slot:
            heapq.heappush(self._sending, (at, slot, used))
            planned, _ = self._last.get(slot, (at, at))
            self._note(slot, planned, at)

    def sent(self, slot: str, noted: float, at: float) -> None:
        """Note that a request of *slot* was sent until *at*, and not at the time that was *noted*."""
        if self._sending:
            self._sending = [
                (at if (when, its) == (noted, slot) else when, its, used) for when, its, used in self._sending
            ]
            heapq.heapify(self._sending)
        planned, used = self._last.get(slot, (at, at))
        if used == noted:
            self._note(slot, planned, at)

    def downloaded(self, slot: str) -> None:
        """Note that the download of a request that was begun in a turn of *slot* is over."""
        self._downloaded[slot] += 1

    def fill(self, batch: Batch) -> None:  # noqa: D102
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
        """Note that the frontier has forgotten the turns and downloads of this worker."""
        self._sending = [(at, slot, 0) for at, slot, _ in self._sending]
        self._used.clear()
        self._unused.clear()
        self._downloaded.clear()

    def _note(self, slot: str, planned: float, now: float) -> None:
        self._last[slot] = planned, now
        self._last.move_to_end(slot)
