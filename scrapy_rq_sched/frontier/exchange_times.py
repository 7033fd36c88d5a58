"""How long exchanges take: counted in buckets, which add up over a fleet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: Seconds: the bounds of the buckets.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Histogram(NamedTuple):
    """How a quantity is distributed.

    :param bounds: of the buckets, the least first.
    :param counts: how often it was at most each of these, and at last how often it was measured.
    :param sum: of all that was measured.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


class ExchangeTimes:
    """Counts the exchanges of a worker until they are said."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._microseconds = 0

    def add(self, seconds: float) -> None:
        """Count an exchange that took so long."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._microseconds += int(1e6 * seconds)

    def take(self) -> dict[str, int]:
        """Return what was counted since this was asked last: as ``lua/exchange/upkeep.lua`` adds it up."""
        said = {str(place): count for place, count in enumerate(self._counts) if count}
        if said:
            said["us"] = self._microseconds
        self._counts = [0] * (len(BOUNDS) + 1)
        self._microseconds = 0
        return said


def histogram(said: Mapping[str, int]) -> Histogram:
    """Return the histogram of what all workers have said."""
    counts, total = [], 0
    for place in range(len(BOUNDS) + 1):
        total += said.get(str(place), 0)
        counts.append(total)
    return Histogram(BOUNDS, counts, said.get("us", 0) / 1e6)


#: No exchange was made.
NO_TIMES = histogram({})
