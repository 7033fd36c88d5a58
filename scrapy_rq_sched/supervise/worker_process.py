"""Start the process of a worker, tell it to end, and find out how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..runtime import supervised
from . import report
from .log_tail import LogTail


class WorkerProcess:
    """Starts a ``scrapy crawl``.

    :param name: the name of its files, different for each process.
    :param arguments: the arguments of ``scrapy``.
    :param folder: the folder for its log and its report.
    """

    def __init__(self, name: str, arguments: Sequence[str], folder: Path) -> None:
        self._report = folder / f"{name}.json"
        self.log = LogTail(folder / f"{name}.log")
        self._is_told_to_end = False
        environment = {**os.environ, **supervised.environment(self._report), "PYTHONUNBUFFERED": "1"}
        with self.log.path.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                [sys.executable, "-m", "scrapy", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                # Ctrl-C in the terminal reaches only the supervisor, which tells the workers once.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def report(self) -> report.Report:
        """Return the report of a process that has ended."""
        return report.read(self._report)

    @property
    def exit_code(self) -> int:
        """The exit code of a process that has ended; negative if a signal has ended it."""
        return int(self._process.returncode)

    def how_it_ended(self) -> str:
        """Describe the end of a process that has sent no report."""
        code = self._process.returncode
        if code < 0:
            return f"killed by signal {-code} ({signal.Signals(-code).name})"
        return f"exit code {code}"

    def end(self) -> None:
        """Tell the process to close cleanly, only once: a second signal would end it at once."""
        if not self._is_told_to_end:
            self._is_told_to_end = True
            self._send(signal.SIGTERM)

    def hurry(self) -> None:
        """Tell the process to end at once."""
        self.end()
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if not self.has_ended:
            self._process.send_signal(number)


def is_alive(process: int) -> bool:
    """Return whether a process of this id runs on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
