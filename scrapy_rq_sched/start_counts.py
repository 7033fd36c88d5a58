"""Numbers for equal requests of ``start()``: the n-th of one worker is the n-th of every worker."""

from __future__ import annotations

from collections import OrderedDict

#: So many different requests are remembered: a start() that never ends must not fill the memory.
MOST = 100_000


class StartCounts:
    """Counts the requests of ``start()`` by their fingerprints, the latest of them."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def next(self, fingerprint: str) -> int:
        """Count a request, and return how many of this fingerprint there were with it."""
        count = self._counts.pop(fingerprint, 0) + 1
        self._counts[fingerprint] = count
        if len(self._counts) > MOST:
            self._counts.popitem(last=False)
        return count

    def clear(self) -> None:
        """Forget all: start() is at its end."""
        self._counts.clear()
