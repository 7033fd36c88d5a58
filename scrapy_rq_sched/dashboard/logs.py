"""The last lines of the logs of workers on this machine, also of workers that have ended.

A path in Redis may have been written by anybody who can write there. So only files below a folder that the
operator has named are read, and only by workers' descriptions that name this host.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

from ..inspect import Worker
from ..inspect.crawl import CrawlWorker

#: Bytes that are read from the end of a log, lines that are shown, and characters of each.
MOST_BYTES, MOST_LINES, LONGEST_LINE = 32_768, 40, 500
#: The same if lines with a text are searched.
SEARCHED_BYTES, FOUND_LINES = 16 * 1024 * 1024, 500


class Logs:
    """Reads logs below *folder*; None: no logs."""

    def __init__(self, folder: str | None) -> None:
        self._folder = None if folder is None else Path(folder).resolve()

    def tail(self, worker: Worker | CrawlWorker, text: str = "") -> dict[str, Any]:
        """Return the last ``lines`` of the log of *worker*, and the ``problem`` if it cannot be read.

        :param text: to return lines with this text, in upper or lower case; ``found`` is their number.
        """
        if not worker.log:
            return _without("This worker has no log file: set LOG_FILE, or use scrapy frontier crawl")
        if self._folder is None:
            return _without("To see logs of this machine here, start the dashboard with --logs FOLDER")
        if worker.host != socket.gethostname():
            return _without(f"The log is on another host, {worker.host}")
        try:
            path = Path(worker.log).resolve(strict=True)
            if not path.is_relative_to(self._folder):
                return _without(f"The log is not below {self._folder}, the folder of --logs")
            lines, found = _last_lines(path, text.lower())
        except (
            OSError,
            ValueError,
            RuntimeError,
        ) as error:  # gone, not allowed; NUL in a path; a loop of links
            return _without(f"The log cannot be read: {getattr(error, 'strerror', None) or error}")
        return {"lines": lines, "problem": "", **({"found": found} if text else {})}


def _without(problem: str) -> dict[str, Any]:
    return {"lines": [], "problem": problem}


def _last_lines(path: Path, searched: str) -> tuple[list[str], int]:
    most_bytes, most_lines = (SEARCHED_BYTES, FOUND_LINES) if searched else (MOST_BYTES, MOST_LINES)
    # A link that has taken the file's place since, or a pipe, is not followed.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise OSError("it is not a file")
        file.seek(max(0, about.st_size - most_bytes))
        text = file.read(most_bytes).decode("utf-8", "replace")
    lines = text.splitlines()
    # The first one may have lost its beginning.
    whole = lines[1:] if about.st_size > most_bytes else lines
    found = [line for line in whole if searched in line.lower()] if searched else whole
    return [line[:LONGEST_LINE] for line in found[-most_lines:]], len(found)
