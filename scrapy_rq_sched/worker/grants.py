"""The grants of slots that a worker has: which turns it has used and when, and what it must report of them.

The frontier gives turns ahead of their time, and only one worker at a time has turns of a slot. So this
worker must keep the gaps between the requests of the slot, however late it is. When it reports that it has
used all its turns, it also reports when it used the last one.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable

from ..frontier.messages import Batch, UsedGrants
from ..frontier.replies import Lease, Part
from .clock import ServerClock

#: The part of the gap between two turns that is always kept. After a late turn, the next ones come a little
#: sooner, until the slot is on time again.
KEPT = 0.99
#: Number of slots whose last used turn is remembered.
REMEMBERED = 100_000
#: When the first report is needed, and its slot, if there is none.
NOTHING_NEEDED = (math.inf, "")


class SlotGrants(Part):
    """Note which turns were used, and when.

    :param clock: the server's clock.
    :ivar needed_at: returns the time before which nobody needs the report about a slot; 0: at once. It then
        waits, so that Redis reads and writes the slot's state once for the report and the next turn.
    :ivar ahead: returns how many seconds ahead of their time this worker reports.
    :ivar frees: returns whether the end of a download of a slot lets another request of the slot begin.
    :ivar is_too_late: returns whether a turn was used so many seconds late that the next one could come too
        soon, if this worker died before the report.
    :ivar closing: whether the spider closes, so that no report may wait.
    """

    def __init__(self, clock: ServerClock) -> None:
        self._clock = clock
        # By slot, the planned time of its last turn, and the time at which it was used.
        self._last: OrderedDict[str, tuple[float, float]] = OrderedDict()
        # By slot, the planned time of the last begun turn, as long as no request was sent since.
        self._begun: dict[str, float] = {}
        # By slot, the time of a turn that was not used, as long as the frontier does not know this.
        self._free: dict[str, float] = {}
        # The times at which the downloader sends requests; a turn counts as used from then on.
        self._sending: list[tuple[float, str, int]] = []
        # By slot, the requests of which nothing tells yet when they are sent: by presumed time, whether in a
        # turn.
        self._uncertain: dict[str, dict[float, bool]] = {}
        # By slot, how many turns this worker has, until it reports that it has used them.
        self._held: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._sent: dict[str, float] = {}
        self._unused: Counter[str] = Counter()
        self._downloaded: Counter[str] = Counter()
        # The slots of which another request waits for the report.
        self._urgent: set[str] = set()
        # The report that is needed first: when, and its slot. No report is needed sooner, but this one may be
        # needed later by now. So a question seldom looks at all slots, which may be thousands.
        self._first: tuple[float, str] = NOTHING_NEEDED
        self.needed_at: Callable[[str], float] = lambda slot: 0.0
        self.ahead: Callable[[], float] = lambda: 0.0
        self.frees: Callable[[str], bool] = lambda slot: False
        self.is_too_late: Callable[[str, float], bool] = lambda slot, late: False
        self.closing = False

    @property
    def has_news(self) -> bool:
        """Whether there is something to report that may not wait."""
        if self.has_urgent_news:
            return True
        if self.closing:
            return bool(self._used or self._downloaded or self._sent)
        till = time.monotonic() + self.ahead()
        if self._first[0] > till:
            return False
        if not (self._has_report(self._first[1]) and self.needed_at(self._first[1]) <= till):
            self._look_at_all()
        return self._has_report(self._first[1]) and self._first[0] <= till

    @property
    def has_urgent_news(self) -> bool:
        """Whether a turn of another request depends on the reports of this worker."""
        self._note_sent()
        return bool(self._urgent)

    def _unreported(self) -> set[str]:
        return {*self._used, *self._downloaded, *self._sent}

    def _has_report(self, slot: str) -> bool:
        return slot in self._used or slot in self._downloaded or slot in self._sent

    def _look_at_all(self) -> None:
        """Find the report that is needed first."""
        needed = ((self.needed_at(slot), slot) for slot in self._unreported())
        self._first = min(needed, default=NOTHING_NEEDED)

    def _note_report(self, slot: str) -> None:
        """Note that there is a report about *slot*."""
        self._first = min(self._first, (self.needed_at(slot), slot))

    def last(self, slot: str) -> float | None:
        """Return when the last turn of *slot* was used, or was to be used; None if this is unknown."""
        return max(self._last[slot]) if slot in self._last else None

    def given(self, turns: Counter[str]) -> None:
        """Note the number of turns that the frontier has given, by slot."""
        self._held.update(turns)

    def begun_unused(self, slot: str, is_last: bool) -> None:
        """Note that a request that was begun in a turn of *slot* was not sent.

        :param is_last: whether no other request of the slot is on its way to the downloader.
        """
        self.unused(Counter({slot: 1}))
        if is_last and slot in self._begun:
            self._free[slot] = self._begun.pop(slot)

    def take_free(self, has_lease: Callable[[str], object]) -> dict[str, float]:
        """Take the times of the turns that were not used, by slot, of those slots for which *has_lease*.

        A time that is over has become the present, so that the lease does not count as late.
        """
        now = time.monotonic()
        return {slot: max(now, self._free.pop(slot)) for slot in list(self._free) if has_lease(slot)}

    def earliest(self, slot: str, at: float, gap: float | None = None) -> float:
        """Return from when the turn of *at* may be used: as long after the last turn as it was planned.

        :param gap: the minimum seconds between two requests of the slot, or None if unknown. A longer wait is
            not needed: if the last turn was late, the frontier may have moved this turn already.
        """
        planned, used = self._last.get(slot, (at, 0.0))
        if slot in self._uncertain:  # its last request is perhaps not sent yet
            used = max(used, time.monotonic())
        apart = at - planned
        return max(at, used + KEPT * (apart if gap is None else min(apart, gap)))

    def begun(self, slot: str, at: float, now: float) -> None:
        """Note that a request was begun in the turn of *at*; 0 for a turn without a time."""
        self._begun[slot] = at or now
        self._free.pop(slot, None)
        self._note(slot, at or now, now)

    def returned(self, lease: Lease) -> None:
        """Note that *lease* goes back or is set aside, without using its turn."""
        if lease.begin:
            self.unused(Counter({lease.slot: 1}))

    def unused(self, grants: Counter[str]) -> None:
        """Note the number of unused turns by slot."""
        self._used.update(grants)
        self._unused.update(grants)
        self._downloaded.update(grants)
        self._urgent.update(grants)

    def sending(self, slot: str, at: float, used: bool, is_certain: bool = True) -> None:
        """Note that the downloader sends a request of *slot* at a time; *used*: in a turn of the slot.

        :param is_certain: whether *at* is the time; else :meth:`sent` tells it. Until then, the turn is not
            reported, and the gap after it has not begun: the next request could be sent too soon.
        """
        if slot:
            self._begun.pop(slot, None)
            self._free.pop(slot, None)
            if is_certain:
                heapq.heappush(self._sending, (at, slot, used))
            else:
                self._uncertain.setdefault(slot, {})[at] = used
            planned, _ = self._last.get(slot, (at, at))
            self._note(slot, planned, at)

    def sent(self, slot: str, noted: float, at: float) -> None:
        """Note that a request of *slot* was sent until *at*, and not at the time that was *noted*."""
        uncertain = self._uncertain.get(slot, {})
        used = uncertain.pop(noted, None)
        if used is not None:
            heapq.heappush(self._sending, (at, slot, used))
            if not uncertain:
                del self._uncertain[slot]
        planned, last = self._last.get(slot, (at, at))
        if last == noted:
            self._note(slot, planned, at)

    def downloaded(self, slot: str) -> None:
        """Note that the download of a request that was begun in a turn of *slot* is over."""
        self._downloaded[slot] += 1
        if self.frees(slot):
            self._urgent.add(slot)
        self._note_report(slot)

    def fill(self, batch: Batch) -> None:  # noqa: D102
        self._note_sent()
        till = math.inf if self.closing else time.monotonic() + self.ahead()
        due = {slot for slot in self._unreported() if slot in self._urgent or self.needed_at(slot) <= till}
        self._urgent.clear()
        batch.grants = {slot: self._take(slot) for slot in due & {*self._used, *self._sent}}
        batch.downloaded = {slot: self._downloaded.pop(slot) for slot in due & self._downloaded.keys()}
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        self._look_at_all()

    def _note_sent(self) -> None:
        """Note the requests that the downloader has sent by now."""
        now = time.monotonic()
        while self._sending and self._sending[0][0] <= now:
            at, slot, used = heapq.heappop(self._sending)
            self._used[slot] += used
            self._sent[slot] = max(at, self._sent.get(slot, at))
            planned, _ = self._last.get(slot, (at, at))
            # Without a turn of this worker, another worker may begin the next request of the slot.
            if not self._used[slot] or self.is_too_late(slot, at - planned):
                self._urgent.add(slot)
            self._note_report(slot)

    def _take(self, slot: str) -> UsedGrants:
        """Return the report about *slot*, which is then no longer here."""
        sent = self._sent.pop(slot, None)
        at = 0.0 if sent is None else round(self._clock.server(sent), 3)
        # The frontier gives this turn again.
        self._free.pop(slot, None)
        used = self._used.pop(slot, 0)
        left = max(0, self._held.pop(slot, 0) - used)
        if left:
            self._held[slot] = left
        return UsedGrants(used, at, self._unused.pop(slot, 0), left)

    def forget(self, kept: Counter[str]) -> None:
        """Note that the frontier has forgotten the turns and downloads of this worker.

        :param kept: the number of turns that are reported later, by slot.
        """
        self._sending = [(at, slot, 0) for at, slot, _ in self._sending]
        self._uncertain = {slot: dict.fromkeys(times, False) for slot, times in self._uncertain.items()}
        for turns in (self._used, self._unused, self._downloaded, self._free, self._begun):
            turns.clear()
        self._held = Counter(kept)
        self._urgent = set(self._sent)

    def _note(self, slot: str, planned: float, now: float) -> None:
        self._last[slot] = planned, now
        self._last.move_to_end(slot)
