"""The name and the age of this worker."""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import socket
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import scrapy

from . import run

#: Seconds that a worker needs to start, at most. An older process has done something else before, and its
#: crawl is a new one.
LONGEST_START = 60.0

_imported = time.monotonic()
# When the last scheduler of this process closed. A later crawl is a new one, however old the process is.
_last_close: float | None = None


try:
    #: The version of this package.
    VERSION = version("scrapy-rq-sched")
except PackageNotFoundError:  # run from the sources, without an installation
    VERSION = "unknown"


#: Characters of the path of a log: readers of a description bound its size.
LONGEST_PATH = 1000


def worker_name() -> str:
    """Return a unique name for this worker: ``<host>-<pid>-<random>``."""
    host = re.sub(r"[^A-Za-z0-9.]+", "-", socket.gethostname()) or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def about(spider: str, log: str = "") -> str:
    """Return a description of this worker for people inspecting the fleet, as a JSON object.

    :param spider: the spider's name.
    :param log: the path of this worker's log; empty if it has no file.
    """
    fields = {
        "spider": spider,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": VERSION,
        "scrapy": scrapy.__version__,
        "python": platform.python_version(),
    }
    if log:
        fields["log"] = os.path.abspath(log)[:LONGEST_PATH]
    return json.dumps(fields)


def age() -> float:
    """Return the seconds since this process began to prepare its crawl; at most :data:`LONGEST_START`.

    A process with a supervisor is as old as its supervisor, however often it was started again.
    """
    if (supervised := run.current()) is not None:
        return run.clock() - supervised.started
    return min(_age_of_process(), LONGEST_START)


def _age_of_process() -> float:
    if _last_close is not None:
        return time.monotonic() - _last_close
    try:
        # Linux: field 22 is the start of the process, in ticks since boot.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = float(fields[19]) / os.sysconf("SC_CLK_TCK")
        return run.clock() - started
    except (OSError, AttributeError, ValueError, IndexError):
        return time.monotonic() - _imported


def closed() -> None:
    """Note that a scheduler of this process has closed."""
    global _last_close
    _last_close = time.monotonic()
    run.over()


class Stopwatch:
    """Measure for how long a condition has been true."""

    def __init__(self) -> None:
        self._since: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether the condition is true."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """Seconds for which the condition has been true; 0 if it is false."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    def set(self, so: bool) -> None:
        """Note whether the condition is true now."""
        if not so:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
