"""The processes of the demo: the site, and the workers that crawl it."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from .signals import Interrupts

PROJECT = Path(__file__).resolve().parent.parent

#: Seconds for the site to render its pages and answer.
SITE_START_TIMEOUT = 30.0
#: Seconds for workers that were asked to stop to do so.
STOP_TIMEOUT = 5.0
#: Seconds over which a worker's speed is measured.
RATE_WINDOW = 3.0

#: What a worker is told on the command line, over the project's own settings.
WORKER_SETTINGS = {
    # Three seconds instead of thirty: whoever watches should not wait for the recovery.
    "FRONTIER_LEASE_TIMEOUT": 3,
    # Slow enough to be watched, and to leave the processor to the other workers.
    "CONCURRENT_REQUESTS": 8,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_DELAY": 0,
    # Enough for each worker to keep its downloads going, and few enough that those still to be
    # crawled are seen waiting in Redis, not in a worker's hand.
    "FRONTIER_PREFETCH": 16,
    # The site is on this machine, whatever proxy the environment names.
    "HTTPPROXY_ENABLED": False,
    "LOG_LEVEL": "INFO",
    # Neither is needed here; the second leaves a file in the home folder of whoever is killed.
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
}


class DemoError(Exception):
    """The demo cannot go on. The message is one line for the user."""


class Site:
    """The bookshop, served by a process of its own."""

    def __init__(self, interrupts: Interrupts, latency: float) -> None:
        self._interrupts = interrupts
        # Its standard input is a pipe that closes when this process ends, even by kill -9; the
        # site ends with it. A session of its own keeps the terminal's Ctrl-C from it.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demo.site", "--while-stdin", "--latency", str(latency)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def wait_until_ready(self) -> str:
        """Return the site's URL, when it answers."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + SITE_START_TIMEOUT
        while not select.select([self._process.stdout], [], [], 0.05)[0]:
            self._interrupts.check()
            if time.monotonic() > deadline:
                raise DemoError("The site did not start in time")
        url = self._process.stdout.readline().decode().strip()
        if not url:
            raise DemoError("The site did not start")
        return url

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


class Worker:
    """One ``scrapy crawl`` process, and what is known of it."""

    def __init__(self, number: int, spider: str, url: str, redis_url: str, folder: Path) -> None:
        self.number = number
        self.log = folder / f"worker-{number}.log"
        self.pages: list[str] = []
        self.in_hand = 0
        self.killed = False
        self.end_reason: str | None = None
        self.ended_at: float | None = None
        self._page_log = folder / f"worker-{number}.pages"
        self._page_log.touch()
        self._read_to = 0
        self._history: deque[tuple[float, int]] = deque()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command(spider, url),
                cwd=PROJECT,
                env=self._environment(redis_url),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _command(self, spider: str, url: str) -> list[str]:
        command = [sys.executable, "-m", "scrapy", "crawl", "site"]
        command += ["-a", f"url={url}", "-a", f"name={spider}"]
        for name, value in {**WORKER_SETTINGS, "PAGE_LOG": self._page_log}.items():
            command += ["-s", f"{name}={value}"]
        return command

    def _environment(self, redis_url: str) -> dict[str, str]:
        paths = [path for path in sys.path if path]
        return {
            **os.environ,
            "REDIS_URL": redis_url,
            "SCRAPY_SETTINGS_MODULE": "example.settings",
            # The workers import what this process does, installed or not.
            "PYTHONPATH": os.pathsep.join(paths),
        }

    @property
    def name(self) -> str:
        return f"worker {self.number}"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.ended_at is None

    @property
    def state(self) -> str:
        if self.killed:
            return "killed"
        if not self.alive:
            return self.end_reason or "died"
        return "crawling" if self.pages else "starting"

    @property
    def rate(self) -> float:
        """Pages a second, over the last few seconds."""
        if len(self._history) < 2 or not self.alive:
            return 0.0
        (first_time, first), (last_time, last) = self._history[0], self._history[-1]
        return (last - first) / (last_time - first_time)

    def update(self, now: float) -> None:
        """Find out what the worker has done until now."""
        # First whether it has ended, then what it has done: it does nothing more after its end.
        ended = self.process.poll() is not None
        self._read_pages()
        self._history.append((now, len(self.pages)))
        while now - self._history[0][0] > RATE_WINDOW:
            self._history.popleft()
        if ended and self.alive:
            self.ended_at = now
            found = re.findall(rb"Spider closed \((.+?)\)", self.log.read_bytes())
            self.end_reason = found[-1].decode() if found else None

    def _read_pages(self) -> None:
        with self._page_log.open("rb") as file:
            file.seek(self._read_to)
            whole, _, _ = file.read().rpartition(b"\n")
        if whole:
            self._read_to += len(whole) + 1
            self.pages += [line.split("\t", 1)[1] for line in whole.decode().split("\n")]

    def kill(self, now: float) -> None:
        """End the worker as a crash would: it can tidy up nothing."""
        self.process.kill()
        self.process.wait()
        self.killed, self.ended_at = True, now

    def log_tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def stop_workers(workers: Iterable[Worker], hurry: Callable[[], bool]) -> None:
    """Ask the workers that still run to stop, and kill those that do not.

    :param hurry: whether to wait no longer (somebody pressed Ctrl-C again).
    """
    running = [worker.process for worker in workers if worker.process.poll() is None]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT
    while any(process.poll() is None for process in running):
        if hurry() or time.monotonic() > deadline:
            for process in running:
                process.kill()
        time.sleep(0.02)
