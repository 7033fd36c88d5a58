"""Measure how long exchanges take, in the buckets of a histogram that adds up over the fleet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: The upper bounds of the buckets, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Histogram(NamedTuple):
    """The distribution of a measured quantity.

    :param bounds: the upper bounds of the buckets, in rising order.
    :param counts: for each bound, the number of values up to it; and last, the number of all values.
    :param sum: the sum of all values.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


class ExchangeTimes:
    """Counts the exchanges of a worker between two reports to Redis."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._microseconds = 0

    def add(self, seconds: float) -> None:
        """Count an exchange that took *seconds*."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._microseconds += int(1e6 * seconds)

    def take(self) -> dict[str, int]:
        """Return the counts since the last call, in the form that ``lua/exchange/upkeep.lua`` adds up."""
        sums = {str(place): count for place, count in enumerate(self._counts) if count}
        if sums:
            sums["us"] = self._microseconds
        self._counts = [0] * (len(BOUNDS) + 1)
        self._microseconds = 0
        return sums


def histogram(sums: Mapping[str, int]) -> Histogram:
    """Return the histogram of the counts that all workers have reported."""
    counts, total = [], 0
    for place in range(len(BOUNDS) + 1):
        total += sums.get(str(place), 0)
        counts.append(total)
    return Histogram(BOUNDS, counts, sums.get("us", 0) / 1e6)


#: The histogram before the first exchange.
NO_TIMES = histogram({})
