"""The log of a worker, read while it is written."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

#: The first line of a record of the level WARNING or above, by Scrapy's format or one like it.
_GRAVE = re.compile(r"(?:^|[\s\[\]])(WARNING|ERROR|CRITICAL)(?=[\s:\]])")
#: Characters at the beginning of a line in which its level is looked for.
_HEAD = 120
#: What differs between two records of the same text.
_TIME = re.compile(r"^[\d\-/ :.,T]+(\[[^\]]*\] *)?")
#: Lines that are kept for who asks why a worker has died.
LAST = 8
#: Bytes that are read at a time.
CHUNK = 1 << 20


class LogTail:
    """Reads what is added to the file at *path*.

    :ivar last: its last lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last: deque[str] = deque(maxlen=LAST)
        self._position = 0
        self._rest = b""

    def grave(self) -> Iterator[str]:
        """Yield each new warning and error, in its first line."""
        for line in self._lines():
            self.last.append(line)
            if _GRAVE.search(line[:_HEAD]):
                yield line

    def _lines(self) -> Iterator[str]:
        while True:
            try:
                with self.path.open("rb") as file:
                    file.seek(self._position)
                    data = file.read(CHUNK)
            except FileNotFoundError:
                return
            if not data:
                return
            self._position += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace").rstrip()


def is_error(line: str) -> bool:
    """Return whether a record that is grave is worse than a warning."""
    found = _GRAVE.search(line[:_HEAD])
    return found is not None and found[1] != "WARNING"


def without_time(line: str) -> str:
    """Return *line* without the time at its beginning, so that two of the same text are equal."""
    return _TIME.sub("", line)
