"""News that come often, for a log: one line a minute, with the number of those that had no line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

#: Seconds between two lines.
INTERVAL = 60.0
#: Sources that are told apart, and those that a line names.
MOST_SOURCES, NAMED = 100, 5


class Noted(NamedTuple):
    """The news for one line.

    :param number: the number of news since the last line.
    :param sources: the sources with the most news, such as addresses, in one text.
    """

    number: int
    sources: str


class Notice:
    """Collects news, and returns them when a line is due: the first at once, the others once an interval.

    :param interval: seconds.
    :param clock: returns the time in seconds.
    """

    def __init__(self, interval: float = INTERVAL, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._clock = clock
        self._due = 0.0
        self._sources = Counter[str]()
        self._count = 0

    def note(self, source: str) -> Noted | None:
        """Add news from *source*; return all news since the last line if a line is due."""
        self._count += 1
        if source in self._sources or len(self._sources) < MOST_SOURCES:
            self._sources[source] += 1
        return self.take()

    def take(self) -> Noted | None:
        """Return all news since the last line if there are some and a line is due."""
        if not self._count or self.wait > 0:
            return None
        noted = Noted(self._count, self._named())
        self._due = self._clock() + self._interval
        self._count = 0
        self._sources.clear()
        return noted

    @property
    def wait(self) -> float:
        """The seconds until a line is due; 0 if it is."""
        return max(0.0, self._due - self._clock()) if self._due else 0.0

    def _named(self) -> str:
        named = [source for source, _ in self._sources.most_common(NAMED)]
        others = len(self._sources) - len(named)
        return ", ".join(named) + (f" and {others} more" if others else "")
