"""Calculate the speed of a crawl from its counts of pages, of ten seconds each.

All of it is over one window: the present ten seconds and the ten before, or less if the crawl is younger. So
a change of speed is shown whole after twenty seconds, and the terminal, the page, the metrics and ``--json``
agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .crawl import Crawl, Moment, moment_of
from .status import Status

#: Seconds of one count of pages; see ``lua/exchange/reply.lua``.
BUCKET = 10
#: Seconds of an hour.
HOUR = 3600
#: The least part of a count that counts by itself.
LEAST = 0.4
#: The fewest seconds over which a speed is calculated.
SHORTEST = 1.0
#: The time left is known only if the queue shrinks by this part of the pages that are done: as long as most
#: pages lead to others, how many others there are is unknown.
MOSTLY = 0.5


def moments(entries: Sequence[bytes]) -> list[Moment]:
    """Return the counts, the oldest first; skip entries of any other form."""
    return [moment for entry in reversed(entries) if (moment := moment_of(entry)) is not None]


class Rates:
    """The speed of a crawl, and the time left: :class:`~.status.Status` describes the attributes.

    :param left: the number of unfinished requests and seeds.
    :param since: when the first of the live workers joined, or the crawl was resumed; None if no request is
        being crawled.
    """

    def __init__(
        self, history: list[Moment], now: float, waiting: int, left: int, since: float | None
    ) -> None:
        self.per_hour = HOUR * self._pages_an_hour(history, now)
        self.per_second = self.items_per_second = self.errors_per_second = 0.0
        self.growth: float | None = None
        self.seconds_left: float | None = None
        self.seconds_left_at_least: float | None = None
        if since is None:
            return
        window = math.floor(now / BUCKET) * BUCKET - BUCKET
        recent = [moment for moment in history if moment.second + BUCKET > max(window, since)]
        recent = [moment for moment in recent if moment.second >= window]
        before = [moment for moment in history if moment.second < window]
        begin = max(float(window), since)
        if recent and not any(moment.second + BUCKET > since for moment in before):
            begin = max(begin, recent[0].second + recent[0].first)  # these are the first pages
        seconds = max(SHORTEST, now - begin)
        self.per_second = sum(moment.pages for moment in recent) / seconds
        self.items_per_second = sum(moment.items for moment in recent) / seconds
        self.errors_per_second = sum(moment.errors for moment in recent) / seconds
        if before and begin == window:
            self.growth = (waiting - before[-1].waiting) / seconds
        if self.per_second:
            self.seconds_left_at_least = left / self.per_second
            shrinks = -(self.growth or 0.0) if waiting else self.per_second
            if self.growth is not None and shrinks >= MOSTLY * self.per_second:
                self.seconds_left = max(left / shrinks, self.seconds_left_at_least)

    @staticmethod
    def _pages_an_hour(history: list[Moment], now: float) -> float:
        """Return the pages per second of the last hour, or since the crawl began if it is younger."""
        if not history:
            return 0.0
        # Begin with the first count that lies wholly within the hour.
        begin = max(history[0].second + history[0].first, math.ceil((now - HOUR) / BUCKET) * BUCKET)
        pages = sum(moment.pages for moment in history if moment.second + BUCKET > begin)
        return pages / max(SHORTEST, now - begin)


def peak_of(crawl: Crawl) -> float:
    """Return the most pages per second of *crawl*, in a part of its history."""
    return _peak(crawl.history, crawl.began, crawl.ended, crawl.width)


def peak_of_latest(status: Status, span: float) -> float:
    """Return the most pages per second of *status* in the last *span* seconds, and now."""
    whole = [moment for moment in status.history if moment.second + BUCKET <= status.now]
    if not whole:
        return status.per_second
    begin = max(status.now - span, whole[0].second + whole[0].first)
    return max(_peak(whole, begin, status.now), status.per_second)


def _peak(history: Sequence[Moment], begin: float, end: float, width: float = BUCKET) -> float:
    """Return the most pages per second in one of the counts of *history*, from *begin* to *end*.

    One of which too little lies in this time is added to its neighbour. The counts are as Redis has them, so
    that the peak is the same whenever it is calculated.

    :param width: seconds of each count.
    """
    parts: list[tuple[int, float]] = []
    for moment in history:
        pages, lasted = moment.pages, min(moment.second + width, end) - max(moment.second, begin)
        if lasted <= 0:
            continue
        if parts and min(lasted, parts[-1][1]) < LEAST * width:
            before = parts.pop()
            pages, lasted = pages + before[0], lasted + before[1]
        parts.append((pages, lasted))
    return max((pages / max(SHORTEST, lasted) for pages, lasted in parts), default=0.0)


def rates_of(
    history: Sequence[Moment], begin: float, end: float, parts: int, width: float = BUCKET
) -> list[float]:
    """Return the pages per second in each of at most *parts* equal parts of the time from *begin* to *end*.

    A count that lies in several parts is divided between them, so that a steady crawl is a straight line.

    :param width: seconds of each count in *history*. No part is shorter.
    """
    seconds = max(SHORTEST, end - begin)
    parts = max(1, min(parts, int(seconds // width)))
    part, sums = seconds / parts, [0.0] * parts
    for place, moment in enumerate(history):
        last = min(moment.second + width, end)
        first = min(moment.second + moment.first, last - SHORTEST)
        if not place:  # the crawl may have begun within this count
            first = max(first, begin)
            last = max(last, first + SHORTEST)
        for n in range(max(0, int((first - begin) // part)), min(parts, int((last - begin) // part) + 1)):
            within = min(last, begin + (n + 1) * part) - max(first, begin + n * part)
            sums[n] += moment.pages * max(0.0, within) / (last - first)
    return [pages / part for pages in sums]
