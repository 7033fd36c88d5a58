"""A deadline for a whole conversation on a socket, which the other side cannot extend.

The timeout of a socket is for one call. A peer that sends or takes a byte now and then therefore holds a
thread for as long as it likes.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable


class Deadline:
    """A moment at which a conversation ends.

    :param seconds: the time until then.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds until the deadline.

        :raises TimeoutError: if it has passed.
        """
        left = self._at - time.monotonic()
        if left <= 0:
            raise self.passed()
        return left

    def passed(self) -> TimeoutError:
        """Return the error of a conversation that has not ended before the deadline."""
        return TimeoutError(f"the exchange was not complete within {self._seconds:g} s")


class TimedSocket:
    """The part of a socket that ``http.client`` and ``socketserver`` use, with one deadline for all calls.

    :param connected: the socket, with or without TLS.
    :param count: gets the number of bytes of each read. It raises an exception to end the conversation.
    """

    def __init__(
        self, connected: socket.socket, deadline: Deadline, count: Callable[[int], None] = lambda size: None
    ) -> None:
        self.connected = connected
        self._deadline = deadline
        self._count = count

    def sendall(self, data: bytes) -> None:
        """Send *data*. A TLS socket's own ``sendall`` has a timeout for each part only."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._in_time(lambda: self.connected.send(rest)) :]  # noqa: B023 - called at once

    def makefile(self, mode: str, buffering: int = -1) -> io.BufferedReader:
        """Return a file that reads from the socket; *mode* is ``rb``."""
        return io.BufferedReader(_Reader(self.connected.makefile("rb", buffering=0), self._read))

    def close(self) -> None:
        """Close the socket as soon as its files are closed."""
        self.connected.close()

    def _read(self, read: Callable[[], int | None]) -> int:
        size = self._in_time(read) or 0
        self._count(size)
        return size

    def _in_time(self, call: Callable[[], int | None]) -> int:
        self.connected.settimeout(self._deadline.left())
        try:
            return call() or 0
        except TimeoutError:
            raise self._deadline.passed() from None


class _Reader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, read: Callable[[Callable[[], int | None]], int]) -> None:
        self._raw = raw
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self._read(lambda: self._raw.readinto(buffer))

    def close(self) -> None:
        self._raw.close()
        super().close()
