"""Who this worker is, and how long it has been."""

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

#: Seconds that a worker needs to start, at the most. A process that is older has done something else
#: before, and its crawl is a new one.
LONGEST_START = 60.0

_imported = time.monotonic()
# When the last scheduler of this process closed: a crawl begun after it is a new one, however old
# the process is.
_last_close: float | None = None


try:
    #: The version of this package.
    VERSION = version("scrapy-rq-sched")
except PackageNotFoundError:  # run from its sources
    VERSION = "unknown"


def worker_name() -> str:
    """Return a name that no other worker has or had: ``<host>-<pid>-<random>``."""
    host = re.sub(r"[^A-Za-z0-9.]+", "-", socket.gethostname()) or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def about(spider: str) -> str:
    """Return what a worker of the spider called *spider* says of itself to those who look: a JSON object."""
    fields = {
        "spider": spider,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": VERSION,
        "scrapy": scrapy.__version__,
        "python": platform.python_version(),
    }
    return json.dumps(fields)


def age() -> float:
    """Return for how many seconds this process has been on its way to the crawl it now begins."""
    return min(_age_of_process(), LONGEST_START)


def _age_of_process() -> float:
    if _last_close is not None:
        return time.monotonic() - _last_close
    try:
        # Linux: field 22 is when the process started, in ticks since boot.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = float(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, AttributeError, ValueError, IndexError):
        return time.monotonic() - _imported


def closed() -> None:
    """Note that a scheduler of this process has closed."""
    global _last_close
    _last_close = time.monotonic()


class Stopwatch:
    """Measures how long something has been so."""

    def __init__(self) -> None:
        self._since: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether it is so."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """For how many seconds it has been so; 0 if it is not."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    def set(self, so: bool) -> None:
        """Note whether it is so now."""
        if not so:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
