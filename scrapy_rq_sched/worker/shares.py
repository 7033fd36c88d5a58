"""The share of a worker's requests that the fleet can share."""

from __future__ import annotations

from collections import Counter

from ..frontier.messages import Batch, is_much_unshared
from .part import Part

#: Requests after which the share is first checked.
FIRST_LOOK = 100
#: Number of different reasons that are counted.
MOST_REASONS = 100


class Shares(Part):
    """Count the requests that were found, and the part that must stay in this worker's memory.

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
        """Count a request; *reason* is why it cannot be stored, or empty."""
        self.found += 1
        if reason:
            self.unshared += 1
            if reason in self._reasons or len(self._reasons) < MOST_REASONS:
                self._reasons[reason] += 1

    def fill(self, batch: Batch) -> None:
        """Put the counts since the last batch into *batch*, if any request cannot be stored."""
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
        """Whether so many requests cannot be stored that a line must be logged."""
        return is_much_unshared(self.found, self.unshared)

    def is_due(self) -> bool:
        """Return whether it is time to check: after a hundred requests, a thousand, and so on."""
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
