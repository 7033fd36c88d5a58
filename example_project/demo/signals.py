"""Ctrl-C, taken note of when it comes and acted on where it is safe."""

from __future__ import annotations

import signal
from types import FrameType

#: What ends the demo: Ctrl-C, ``kill``, and a terminal that is closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Somebody wants the demo to end. No ``except Exception`` gets in the way of it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Interrupts:
    """The signals that have arrived.

    An exception raised by a signal handler can come between the start of a process and the note
    that it was started, and then nobody stops it. So the handler only remembers, and the demo asks
    at moments of its own choosing.
    """

    def __init__(self) -> None:
        self._received: list[int] = []

    def install(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._received.append(number)

    @property
    def count(self) -> int:
        return len(self._received)

    def check(self) -> None:
        """Raise :class:`Interrupted` if a signal has arrived."""
        if self._received:
            raise Interrupted(self._received[0])
