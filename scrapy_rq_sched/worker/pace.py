"""How fast this worker is, and how far from Redis: how much to have ready follows from both."""

from __future__ import annotations

import time
from collections import deque


class Pace:
    """How fast requests are begun, and how long an exchange takes."""

    _WEIGHT = 0.3

    def __init__(self) -> None:
        #: Requests begun a second, smoothed.
        self.rate = 0.0
        #: Seconds that an exchange takes, smoothed.
        self.latency = 0.0
        #: Seconds that the fastest of the last exchanges took: the others waited for this process.
        self.distance = 0.0
        self._latencies: deque[float] = deque(maxlen=20)
        self.handed = 0
        self._since = time.monotonic()

    @property
    def silence(self) -> float:
        """For how many seconds there has been no exchange."""
        return time.monotonic() - self._since

    def exchanged(self, latency: float) -> None:
        """Note that an exchange took *latency* seconds."""
        now = time.monotonic()
        elapsed = max(now - self._since, 1e-3)
        self.rate += self._WEIGHT * (self.handed / elapsed - self.rate)
        self.latency += self._WEIGHT * (latency - self.latency)
        self._latencies.append(latency)
        self.distance = min(self._latencies)
        self.handed, self._since = 0, now
