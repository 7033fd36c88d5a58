"""The speed of this worker, and its distance from Redis, which decide how many leases to have ready."""

from __future__ import annotations

import time
from collections import deque


class Pace:
    """The rate of begun requests, and the duration of exchanges."""

    _WEIGHT = 0.3

    def __init__(self) -> None:
        #: Requests begun a second, smoothed.
        self.rate = 0.0
        #: Seconds that an exchange takes, smoothed.
        self.latency = 0.0
        #: Seconds of the fastest recent exchange: slower ones had to wait for this process.
        self.distance = 0.0
        self._latencies: deque[float] = deque(maxlen=20)
        self.handed = 0
        self._since = time.monotonic()

    @property
    def silence(self) -> float:
        """Seconds since the last exchange."""
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
