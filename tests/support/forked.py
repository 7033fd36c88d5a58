"""Real ``python -m scrapy`` processes that need not import Scrapy anew: they are forked from one that has.

A start costs a twentieth of an interpreter's. The processes are as real as others: they have their own
signals, environment, folder and files, and an exit code. Python's own ``forkserver`` forks them.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import scrapy

#: Folders of Scrapy whose modules a command or a crawl imports.
_FOLDERS = ("commands", "downloadermiddlewares", "extensions", "spidermiddlewares", "http")
#: What the processes are forked with. None of it installs a reactor or reads the environment for good.
PRELOADED = [
    "pytest",
    "scrapy.cmdline",
    *(
        f"scrapy.{folder}.{module.name}"
        for folder in _FOLDERS
        for module in pkgutil.iter_modules([f"{path}/{folder}" for path in scrapy.__path__])
        if module.name != "statsmailer"  # deprecated
    ),
    "scrapy.core.downloader.handlers.datauri",
    "scrapy.core.downloader.handlers.file",
    "scrapy.logformatter",
    "scrapy.statscollectors",
    "scrapy.utils.test",
    "scrapy_poet.commands",
    "scrapy.core.engine",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.linkextractors",
    "scrapy.pipelines.media",
    "scrapy.spiders",
    "scrapy_rq_sched",
    "scrapy_rq_sched.addon",
    "scrapy_rq_sched.commands.frontier",
    "scrapy_rq_sched.worker.loop",
    "redis.cluster",
    "redis.sentinel",
    "tests.support.forked",
]
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(PRELOADED)


class ForkedScrapy:
    """A ``python -m scrapy`` process, with the part of ``subprocess.Popen`` that the tests use.

    :param arguments: those after ``scrapy``.
    :param folder: where it is started.
    :param environment: all its environment variables. One that Python reads as it starts has no effect.
    :param files: what its standard input is read from, and what it writes its output and its errors to.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        files: tuple[Path | str, Path | str, Path | str],
    ) -> None:
        self.args = ["scrapy", *arguments]
        # A daemon ends with the tests at the latest.
        self._process = _CONTEXT.Process(
            target=_run, args=(list(arguments), str(folder), dict(environment), *map(str, files)), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, or minus the signal that ended it, or None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self._process.exitcode

    def send_signal(self, sent: int) -> None:
        """Send it a signal, if it still runs."""
        if self._process.exitcode is None:
            os.kill(self.pid, sent)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


def run_scrapy(
    *arguments: str,
    environment: Mapping[str, str],
    folder: Path,
    timeout: float,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m scrapy`` to its end, and return what it wrote."""
    with tempfile.TemporaryDirectory() as temporary:
        files = [Path(temporary, name) for name in ("stdin", "stdout", "stderr")]
        files[0].write_text(stdin or "")
        for file in files[1:]:
            file.touch()
        process = ForkedScrapy(arguments, folder, environment, (*files,))
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        stdout, stderr = (file.read_text() for file in files[1:])
    return subprocess.CompletedProcess(process.args, code, stdout, stderr)


def is_forkable(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether an interpreter with these arguments and variables is one that may be forked."""
    return arguments[:2] == ("-m", "scrapy") and not any(name.startswith("PYTHON") for name in environment)


def _run(arguments: list[str], folder: str, environment: dict[str, str], *files: str) -> None:
    """Do in the forked process what the interpreter does at its start and at its end."""
    for number, file in enumerate(files):
        opened = os.open(file, os.O_WRONLY | os.O_APPEND if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from scrapy import __main__, cmdline

    sys.argv = [str(__main__.__file__), *arguments]
    code: object = 0
    interrupted = False
    try:
        cmdline.execute()
    except SystemExit as end:
        code = end.code
    except BaseException as error:  # whatever it is, the interpreter prints it
        traceback.print_exc()
        code, interrupted = 1, isinstance(error, KeyboardInterrupt)
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    sys.exit(code)
