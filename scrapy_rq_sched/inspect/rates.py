"""How fast a crawl goes, from what its pages were counted to be every ten seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .status import Moment

#: Seconds of which the pages are counted together; see ``lua/exchange.lua``.
BUCKET = 10
#: Seconds over which the pages of a second are taken, those of an hour, and how the queue changes.
MINUTE, HOUR, TREND = 60, 3600, 600


def moments(entries: Sequence[bytes]) -> list[Moment]:
    """Return what was counted, the oldest first; what somebody else has written there says nothing."""
    found = []
    for entry in reversed(entries):
        parts = entry.split()
        if len(parts) == 3 and all(part.isdigit() for part in parts):
            found.append(Moment(*map(int, parts)))
    return found


class Rates:
    """How fast a crawl goes, and how long it may take yet: see :class:`~.status.Status` for each attribute.

    :param left: how much is left to do.
    :param since: when the first of the workers that are alive joined; None if nothing is being done.
    """

    def __init__(
        self, history: list[Moment], now: float, waiting: int, left: int, since: float | None
    ) -> None:
        recent = [moment for moment in history if moment.second >= (since or 0) // BUCKET * BUCKET]
        self.per_second = self._rate(recent, now, MINUTE)
        self.per_hour = HOUR * self._rate(history, now, HOUR)
        self.growth: float | None = None
        self.seconds_left: float | None = None
        self.seconds_left_at_least: float | None = None
        if since is None:
            return
        trend = [moment for moment in recent if moment.second > now - TREND]
        if len(trend) > 1 and now - trend[0].second > BUCKET:
            # What waited at the end of the oldest ten seconds.
            self.growth = (waiting - trend[0].waiting) / (now - trend[0].second - BUCKET / 2)
        if self.per_second:
            self.seconds_left_at_least = left / self.per_second
            if self.growth is not None and self.growth < 0:
                self.seconds_left = max(left / -self.growth, self.seconds_left_at_least)

    @staticmethod
    def _rate(history: list[Moment], now: float, seconds: int) -> float:
        if not history:
            return 0.0
        # From the first ten seconds that are wholly within; a crawl that is younger is not a slower one.
        begin = max(history[0].second, math.ceil((now - seconds) / BUCKET) * BUCKET)
        pages = sum(moment.pages for moment in history if moment.second >= begin)
        return pages / max(1.0, now - begin)
