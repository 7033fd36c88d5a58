"""Keys that a viewer presses, read one by one while the demo goes on."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType


class Keyboard:
    """Reads keys without waiting for Enter. Use it as a context manager: it changes the terminal's mode.

    :param wanted: false where nobody watches, such as in a pipe. Then there are no keys.
    """

    def __init__(self, wanted: bool) -> None:
        self._file = sys.stdin.fileno() if wanted and sys.stdin.isatty() else None
        self._mode: list[object] = []

    @property
    def is_there(self) -> bool:
        return self._file is not None

    def pressed(self) -> str:
        """Return the keys that were pressed since the last call."""
        if self._file is None or not select.select([self._file], [], [], 0)[0]:
            return ""
        try:
            return os.read(self._file, 100).decode(errors="replace")
        except OSError:  # the terminal was closed, which ends the demo by SIGHUP
            return ""

    def __enter__(self) -> Keyboard:
        if self._file is not None:
            self._mode = termios.tcgetattr(self._file)
            # Not raw: Ctrl-C is still a signal.
            tty.setcbreak(self._file)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._mode)
