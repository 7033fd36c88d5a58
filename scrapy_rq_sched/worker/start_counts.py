"""Number what ``start()`` yields, so that the n-th of one worker is the n-th of every worker."""

from __future__ import annotations

from collections import OrderedDict

#: Number of different texts that are remembered: a start() that never ends must not fill the memory.
MOST = 100_000


class StartCounts:
    """Number equal texts, and remember the latest ones: fingerprints of requests, or digests of items."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._forgotten = 0

    def number_of(self, text: str) -> str:
        """Return a number that no equal *text* had before.

        When texts are forgotten, the number of the round becomes a part of it. If all workers read
        ``start()`` in the same order, they get the same numbers.
        """
        count = self._counts.pop(text, 0) + 1
        self._counts[text] = count
        if len(self._counts) > MOST:
            self._counts.popitem(last=False)
            self._forgotten += 1
        return f"{count}.{self._forgotten // MOST}" if self._forgotten else str(count)

    def clear(self) -> None:
        """Forget all numbers, because ``start()`` has ended."""
        self._counts.clear()
        self._forgotten = 0
