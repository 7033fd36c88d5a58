"""Calculate the speed of a crawl from its counts of pages, of ten seconds each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .status import Moment

#: Seconds of one count of pages; see ``lua/scripts/exchange.lua``.
BUCKET = 10
#: Seconds from which are calculated: pages per second and the time left, pages per hour, the growth.
MINUTE, HOUR, TREND = 60, 3600, 600


def moments(entries: Sequence[bytes]) -> list[Moment]:
    """Return the counts, the oldest first; skip entries of any other form."""
    found = []
    for entry in reversed(entries):
        parts = entry.split()
        if len(parts) == 3 and all(part.isdigit() for part in parts):
            found.append(Moment(*map(int, parts)))
    return found


class Rates:
    """The speed of a crawl, and the time left: :class:`~.status.Status` describes the attributes.

    :param left: the number of unfinished requests and seeds.
    :param since: the time when the first of the live workers joined; None if no request is being crawled.
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
        self.growth = self._growth(recent, now, waiting, TREND)
        if self.per_second:
            self.seconds_left_at_least = left / self.per_second
            lately = self._growth(recent, now, waiting, MINUTE)
            if lately is not None and lately < 0:
                self.seconds_left = max(left / -lately, self.seconds_left_at_least)

    @staticmethod
    def _growth(recent: list[Moment], now: float, waiting: int, seconds: int) -> float | None:
        """Return the requests per second by which the queue has grown lately; None if unknown."""
        trend = [moment for moment in recent if moment.second > now - seconds]
        if len(trend) < 2 or now - trend[0].second <= BUCKET:
            return None
        # A count of waiting requests is the last one of its ten seconds.
        return (waiting - trend[0].waiting) / (now - trend[0].second - BUCKET / 2)

    @staticmethod
    def _rate(history: list[Moment], now: float, seconds: int) -> float:
        if not history:
            return 0.0
        # Begin with the first count that lies wholly within the period, or with the crawl if it is younger.
        begin = max(history[0].second, math.ceil((now - seconds) / BUCKET) * BUCKET)
        pages = sum(moment.pages for moment in history if moment.second >= begin)
        return pages / max(1.0, now - begin)
