"""A worker's estimate of the server's time.

The estimate is Cristian's (F. Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989):
the server's time was correct at some moment between the question and the answer. The shortest exchange of the
last minute leaves the least doubt. If an older time contradicts the latest one, one of the clocks has jumped,
or this machine has slept: then only the latest exchange counts.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

#: Seconds for which the time of an exchange is used.
REMEMBERED = 60.0
#: Seconds by which two clocks may drift apart in this time.
DRIFT = 0.02


class _Sample(NamedTuple):
    taken: float
    doubt: float
    offset: float

    def agrees(self, other: _Sample) -> bool:
        """Return whether both samples may be true."""
        return abs(self.offset - other.offset) <= (self.doubt + other.doubt) / 2 + DRIFT


class ServerClock:
    """Convert the server's milliseconds into this process's monotonic seconds, and back."""

    def __init__(self) -> None:
        # In the order of their doubt: a later sample with less doubt replaces those with more.
        self._samples: deque[_Sample] = deque()

    def note(self, sent: float, received: float, now: float) -> None:
        """Note that the server's time was *now*, in milliseconds, between *sent* and *received*."""
        sample = _Sample(received, received - sent, now / 1000 - (sent + received) / 2)
        if self._samples and not sample.agrees(self._samples[0]):
            self._samples.clear()
        while self._samples and self._samples[-1].doubt >= sample.doubt:
            self._samples.pop()
        self._samples.append(sample)
        while received - self._samples[0].taken > REMEMBERED:
            self._samples.popleft()

    def local(self, server: float) -> float:
        """Return the server's time *server* in this process's monotonic seconds."""
        return server / 1000 - self._offset

    def server(self, local: float) -> float:
        """Return this process's monotonic time *local* in the server's milliseconds."""
        return 1000 * (local + self._offset)

    @property
    def doubt(self) -> float:
        """The seconds by which an estimate may be wrong."""
        return self._samples[0].doubt / 2 if self._samples else 0.0

    @property
    def _offset(self) -> float:
        return self._samples[0].offset if self._samples else 0.0
