"""Real ``scrapy crawl`` processes, and what they put on record."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .forked import ForkedScrapy, is_forkable, run_scrapy

PROJECT = Path(__file__).parent.parent / "project"


@dataclass(frozen=True)
class Event:
    """One line of the record."""

    time: float
    pid: int
    kind: str
    what: str


def wait_until(condition: Callable[[], object], timeout: float = 60, message: str = "") -> None:
    """Wait for *condition*, looking often, at most *timeout* seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {message or condition}")
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    """Return whether a process runs; one that nobody has taken note of does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def run_python(
    *arguments: str,
    redis_url: str,
    timeout: float = 120,
    stdin: str | None = None,
    folder: Path = PROJECT,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run the interpreter in the test project, with these environment variables; return what it wrote.

    ``-m scrapy`` is forked.
    """
    variables = {**os.environ, "REDIS_URL": redis_url, **environment}
    if is_forkable(arguments, environment):
        return run_scrapy(*arguments[2:], environment=variables, folder=folder, timeout=timeout, stdin=stdin)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        input=stdin,
        env=variables,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def start_interpreter(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path = PROJECT
) -> subprocess.Popen[bytes]:
    """Start an interpreter that writes into *log*."""
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )


def start_forked(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path = PROJECT
) -> ForkedScrapy:
    """Start the same, forked; *arguments* begin with ``-m scrapy``, and the log is there."""
    return ForkedScrapy(arguments[2:], folder, environment, (os.devnull, log, log))


class Fleet:
    """Workers of one spider, each a process, on one Redis; all are gone when the test is over."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder
        self.redis_url = redis_url
        self.record = folder / "record"
        self.record.touch()
        self.workers: list[ForkedScrapy | subprocess.Popen[bytes]] = []
        self._events: defaultdict[str, list[Event]] = defaultdict(list)
        self._read_up_to = 0

    def start(
        self,
        spider: str,
        count: int = 1,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        forked: bool = True,
        **settings: object,
    ) -> None:
        """Start *count* workers of *spider* with these settings, and these environment variables.

        :param forked: whether they are forked, or each is an interpreter that starts by itself.
        """
        options = [text for name, value in settings.items() for text in ("-s", f"{name}={value}")]
        ours = {"REDIS_URL": self.redis_url, "RECORD": str(self.record), **(environment or {})}
        command = ("-m", "scrapy", "crawl", spider, *options, *arguments)
        forked = forked and is_forkable(command, environment or {})
        for _ in range(count):
            log = self.folder / f"worker-{len(self.workers)}.log"
            log.touch()
            start = start_forked if forked else start_interpreter
            self.workers.append(start(command, {**os.environ, **ours}, log))

    def log(self, worker: int = 0) -> str:
        """Return what a worker has logged."""
        return (self.folder / f"worker-{worker}.log").read_text(errors="replace")

    def wait(self, timeout: float = 120, workers: list[int] | None = None) -> None:
        """Wait until the workers have ended."""
        chosen = range(len(self.workers)) if workers is None else workers
        deadline = time.monotonic() + timeout
        for number in chosen:
            try:
                self.workers[number].wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(
                    f"worker {number} has not ended within {timeout} s:\n{self.log(number)[-3000:]}"
                ) from None

    def kill(self, worker: int, sent: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a worker."""
        self.workers[worker].send_signal(sent)

    def events(self, kind: str, worker: int | None = None) -> list[Event]:
        """Return what is on record."""
        self._read()
        pid = None if worker is None else self.workers[worker].pid
        return [event for event in self._events[kind] if pid in (None, event.pid)]

    def _read(self) -> None:
        # Only what is new: in a long crawl the record is looked at often.
        with self.record.open("rb") as record:
            record.seek(self._read_up_to)
            # The last line may be half written.
            new = record.read().rpartition(b"\n")[0]
        if not new:
            return
        self._read_up_to += len(new) + 1
        for line in new.decode().split("\n"):
            when, who, kind, text = line.split(" ", 3)
            self._events[kind].append(Event(float(when), int(who), kind, text))

    def urls(self, kind: str, worker: int | None = None) -> Counter[str]:
        """Return how often each URL was downloaded or parsed."""
        return Counter(event.what for event in self.events(kind, worker))

    def reasons(self) -> list[str]:
        """Return why each worker that closed its spider did so."""
        return [event.what for event in self.events("closed")]

    def stat(self, name: str) -> float:
        """Return the sum of a statistic over the workers that closed their spider."""
        values = (event.what.partition("=") for event in self.events("stat"))
        return sum(float(value) for key, _, value in values if key == name)

    def stop(self) -> None:
        """Kill whatever still runs."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()
