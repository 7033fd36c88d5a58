"""Start the process of a worker, tell it to end, and find out how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..runtime.run import Run
from . import report
from .log_tail import LogTail

#: The maximum number of heartbeats that are read at a time.
MOST_HEARTBEATS = 4096


class WorkerProcess:
    """Starts a ``scrapy crawl``.

    :param name: the name of its files, different for each process.
    :param arguments: the arguments of ``scrapy``.
    :param folder: the folder for its log and its report.
    :param run: the run of the supervisor.
    :param replaces: the name in the frontier of the dead worker that the process replaces, or empty.
    :ivar is_asked_to_end: whether the process was told to close cleanly.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], folder: Path, run: Run, replaces: str = ""
    ) -> None:
        self._report = folder / f"{name}.json"
        self.log = LogTail(folder / f"{name}.log")
        self.is_asked_to_end = False
        # A pipe, and not a file: a full or missing disk must not look like a worker that stands still.
        reader, writer = os.pipe()
        self._heartbeats = open(reader, "rb", buffering=0)  # noqa: SIM115 - until the process has ended
        os.set_blocking(reader, False)
        run = replace(
            run, report=str(self._report), replaces=replaces, heartbeats=writer, log=str(self.log.path)
        )
        environment = {**os.environ, **run.environment, "PYTHONUNBUFFERED": "1"}
        with self.log.path.open("ab") as output, open(writer, "wb", buffering=0):
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                [sys.executable, "-m", "scrapy", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                # Ctrl-C in the terminal reaches only the supervisor, which tells the workers once.
                start_new_session=True,
                pass_fds=(writer,),
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        has_ended = self._process.poll() is not None
        if has_ended:
            self._heartbeats.close()
        return has_ended

    def heartbeats(self) -> bytes:
        """Return the heartbeats of a running process since the last call."""
        return self._heartbeats.read(MOST_HEARTBEATS) or b""

    def report(self) -> report.Report:
        """Return the last report of the process."""
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
        if not self.is_asked_to_end:
            self.is_asked_to_end = True
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
