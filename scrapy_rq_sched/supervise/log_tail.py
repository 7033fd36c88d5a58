"""Read the log of a worker while the worker writes it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

#: The first line of a record of the level WARNING or above, by Scrapy's format or one like it.
_GRAVE = re.compile(r"(?:^|[\s\[\]])(WARNING|ERROR|CRITICAL)(?=[\s:\]])")
#: The level must be within this number of characters at the beginning of a line.
_HEAD = 120
#: The time at the beginning of a record.
_TIME = re.compile(r"^[\d\-/ :.,T]+(\[[^\]]*\] *)?")
#: Number of last lines that are kept, to show them if the worker dies.
LAST = 8
#: Bytes that are read at a time.
CHUNK = 1 << 20


class LogTail:
    """Reads the lines that are added to the file at *path*.

    :ivar last: the last lines of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last: deque[str] = deque(maxlen=LAST)
        self._position = 0
        self._rest = b""

    def grave(self) -> Iterator[str]:
        """Yield the first line of each new warning and error."""
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
    """Return whether *line*, from :meth:`LogTail.grave`, is an error and not a warning."""
    found = _GRAVE.search(line[:_HEAD])
    return found is not None and found[1] != "WARNING"


def without_time(line: str) -> str:
    """Return *line* without the time at its beginning, so that records of the same text are equal."""
    return _TIME.sub("", line)
