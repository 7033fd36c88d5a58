"""What this worker knows to be seen, so that most duplicates need no traffic."""

from __future__ import annotations


class SeenCache:
    """The latest fingerprints that are known to be in Redis, at most *size* of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._fingerprints: dict[str, None] = {}

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._fingerprints

    def add(self, fingerprint: str) -> None:
        """Add *fingerprint*; the one that came first goes, if there are too many."""
        self._fingerprints[fingerprint] = None
        if len(self._fingerprints) > self._size:
            del self._fingerprints[next(iter(self._fingerprints))]

    def clear(self) -> None:
        """Forget all."""
        self._fingerprints.clear()
