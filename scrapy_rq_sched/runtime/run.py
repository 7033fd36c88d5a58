"""The run of ``scrapy frontier crawl`` that a process belongs to.

A supervisor starts the processes of its workers again and again. By this description, each of them knows that
it is no stranger to the crawl: it is as old as its supervisor, and it may replace an earlier worker.
"""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import asdict, dataclass, fields

#: The environment variable with the description of the run, as JSON.
VARIABLE = "SCRAPY_FRONTIER_SUPERVISOR"


def clock() -> float:
    """Return the seconds since this machine was started. All its processes have the same clock."""
    try:
        # It also counts the time during which the machine is suspended.
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError):  # not on Linux
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class Run:
    """A run of ``scrapy frontier crawl``, as it describes itself to the process of a worker.

    :param id: the id of the run, which no other run has.
    :param supervisor: the supervisor's process id.
    :param started: when the supervisor was started, by :func:`clock`.
    :param report: the path of the worker's report.
    :param heartbeats: the file descriptor of the pipe for the worker's heartbeats; -1 without a pipe.
    :param replaces: the name of the dead worker that the process replaces, or empty.
    :param log: the path of the worker's log.
    """

    id: str
    supervisor: int
    started: float
    report: str = ""
    heartbeats: int = -1
    replaces: str = ""
    log: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with this description."""
        return {VARIABLE: json.dumps(asdict(self))}


_current: Run | None = None


def current() -> Run | None:
    """Return the run that this process belongs to, or None if it has no supervisor."""
    global _current
    # The variable is removed, because the children of this process have another parent.
    if text := os.environ.pop(VARIABLE, ""):
        _current = _read(text)
    return _current


def over() -> None:
    """Note that this process has done the crawl for which its supervisor started it."""
    global _current
    _current = None


def _read(text: str) -> Run | None:
    try:
        described = json.loads(text)
        # A supervisor of a later version may describe more: this package may be replaced while it runs.
        run = Run(**{field.name: described[field.name] for field in fields(Run) if field.name in described})
    except (ValueError, TypeError):
        return None  # another program has set the variable
    # A process that a worker has started, before it removed the variable, does not have its pipe. The parent
    # tells nothing: the supervisor may have been killed meanwhile.
    return run if run.heartbeats < 0 or _is_pipe(run.heartbeats) else None


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False
