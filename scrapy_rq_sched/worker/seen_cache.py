"""The fingerprints that this worker knows to be seen, so that most duplicates need no traffic."""

from __future__ import annotations

import logging
from collections import OrderedDict

logger = logging.getLogger(__name__)


class SeenCache:
    """The latest fingerprints that are known to be in Redis, at most *size* of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._epoch: str | None = None
        # Not a dict: after deletions at its front, finding its first key takes longer and longer.
        self._fingerprints: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._fingerprints

    def add(self, fingerprint: str) -> None:
        """Add *fingerprint*; if there are too many, forget the oldest."""
        self._fingerprints[fingerprint] = None
        if len(self._fingerprints) > self._size:
            self._fingerprints.popitem(last=False)

    def discard(self, fingerprint: str) -> None:
        """Forget *fingerprint*, if it is there."""
        self._fingerprints.pop(fingerprint, None)

    def clear(self) -> None:
        """Forget all fingerprints."""
        self._fingerprints.clear()

    def note_epoch(self, epoch: str) -> None:
        """Forget all fingerprints if *epoch* has changed, because Redis has forgotten fingerprints."""
        if self._epoch not in (None, epoch):
            self.clear()
            if not epoch:
                logger.error(
                    "The frontier is no longer in Redis: it was cleared, or the crawl finished while this "
                    "worker was silent for longer than FRONTIER_LEASE_TIMEOUT"
                )
        self._epoch = epoch
