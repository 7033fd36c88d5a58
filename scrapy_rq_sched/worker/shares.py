"""How much of what a worker finds the fleet can share."""

from __future__ import annotations

from collections import Counter

from ..frontier.messages import Batch, is_much_unshared

#: Requests after which it is first looked at.
FIRST_LOOK = 100
#: Different reasons that are told apart.
MOST_REASONS = 100


class Shares:
    """Counts the requests that were found, and those of them that stay in this worker's memory.

    :ivar found: how many requests were found.
    :ivar unshared: how many of them cannot be stored in Redis.
    """

    def __init__(self) -> None:
        self.found = 0
        self.unshared = 0
        self._reasons: Counter[str] = Counter()
        self._said = 0, 0
        self._next_look = FIRST_LOOK

    def note(self, reason: str) -> None:
        """Count a request; *reason* says why it cannot be stored, if it cannot."""
        self.found += 1
        if reason:
            self.unshared += 1
            if reason in self._reasons or len(self._reasons) < MOST_REASONS:
                self._reasons[reason] += 1

    def fill(self, batch: Batch) -> None:
        """Put what was counted since the last batch into *batch*, if anything cannot be stored."""
        if self.unshared:
            batch.found, batch.unshared = self.found - self._said[0], self.unshared - self._said[1]
            batch.unshared_reason = self.reason
            self._said = self.found, self.unshared

    @property
    def reason(self) -> str:
        """The most common reason."""
        return max(self._reasons, key=self._reasons.__getitem__, default="")

    @property
    def are_many(self) -> bool:
        """Whether so many cannot be stored that it has to be said."""
        return is_much_unshared(self.found, self.unshared)

    def is_due(self) -> bool:
        """Return whether it is time to look: after a hundred requests, a thousand, and so on."""
        if self.found < self._next_look:
            return False
        self._next_look *= 10
        return True

    def __str__(self) -> str:
        share = 100 * self.unshared // max(1, self.found)
        return (
            f"{share} % of the requests found by this worker ({self.unshared} of {self.found}) cannot be "
            f"shared with other workers: {self.reason}. This worker crawls them from its memory, and they "
            "are lost if it dies"
        )
