"""Where contenders are measured: one Redis, and ``scrapy crawl`` processes of the benchmark's project."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from scrapy_rq_sched.embedded import PrivateRedis
from tests.support.proxy import Proxy

PROJECT = Path(__file__).parent / "project"
ROOT = Path(__file__).parent.parent
#: Seconds that one crawl may take.
TIMEOUT = 900

MEMORY, JOBDIR, PEER, OURS = "in memory", "JOBDIR", "scrapy-redis", "scrapy-rq-sched"
_SETTINGS: dict[str, dict[str, Any]] = {
    MEMORY: {},
    JOBDIR: {},
    PEER: {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    },
    OURS: {
        "SCHEDULER": "scrapy_rq_sched.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_rq_sched.RFPDupeFilter",
    },
}


class BenchmarkError(Exception):
    """A crawl did not do what is to be measured."""


@dataclass(frozen=True)
class Contender:
    """One way to crawl.

    :param name: one of the four schedulers.
    :param distance: milliseconds to Redis and back.
    :param settings: what it has besides the scheduler's own defaults.
    :param label: what tells it from others of the same name.
    """

    name: str
    distance: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    label: str = ""

    def __str__(self) -> str:
        """Return its name in tables and in the file of figures."""
        away = f", {self.distance:g} ms away" if self.distance else ""
        return f"{self.name}{', ' + self.label if self.label else ''}{away}"


@dataclass
class Crawl:
    """What a crawl of one or more workers cost.

    :param workers: what each worker's meter took down.
    :param redis_cpu: seconds of Redis.
    :param bytes: that went to Redis and came from it.
    """

    workers: list[dict[str, Any]]
    redis_cpu: float
    bytes: int
    started: float
    ended: float

    @property
    def pages(self) -> int:
        """How many pages were crawled."""
        return sum(worker["pages"] for worker in self.workers)

    @property
    def seconds(self) -> float:
        """From the first download to the last response."""
        busy = [worker for worker in self.workers if worker["pages"]]
        return float(max(worker["ended"] for worker in busy) - min(worker["begun"] for worker in busy))

    def figures(self) -> dict[str, float]:
        """Return what the tables show of it, a page."""
        return {
            "pages_per_second": self.pages / self.seconds,
            "cpu_ms": 1000 * sum(worker["cpu"] for worker in self.workers) / self.pages,
            "redis_us": 1e6 * self.redis_cpu / self.pages,
            "bytes": self.bytes / self.pages,
        }


class Arena:
    """A Redis that is emptied before each crawl."""

    def __init__(self, server: PrivateRedis, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self.redis = redis.Redis.from_url(server.url)
        #: Where it is.
        self.url = server.url

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Iterator[Arena]:
        """Start a Redis, and stop it in the end."""
        with tempfile.TemporaryDirectory() as folder, PrivateRedis(folder, port=0) as server:
            yield cls(server, Path(folder))

    def crawl(
        self,
        contender: Contender,
        spider: str,
        *arguments: str,
        workers: int = 1,
        prepare: Callable[[], object] = lambda: None,
        during: Callable[[list[subprocess.Popen[bytes]]], object] = lambda processes: None,
        environment: dict[str, str] | None = None,
        **settings: Any,
    ) -> Crawl:
        """Crawl with *contender*, and return what it cost.

        :param prepare: is called when Redis is empty, before the workers are started.
        :param during: is called when they are started.
        :raises BenchmarkError: if a worker ends with an error.
        """
        self.redis.flushall()
        prepare()
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            url = self._server.url
            if contender.distance:
                url = stack.enter_context(Proxy(self._server.url, contender.distance)).url
            options = {**_SETTINGS[contender.name], **contender.settings, **settings}
            if contender.name == JOBDIR:
                options["JOBDIR"] = f"{folder}/job"
            figures = Path(folder) / "figures"
            before, started = self._counters(), time.monotonic()
            processes = []
            for number in range(workers):
                log = stack.enter_context((Path(folder) / f"log-{number}").open("wb"))
                processes.append(
                    _start(
                        spider, arguments, options, figures, log, {"REDIS_URL": url, **(environment or {})}
                    )
                )
            try:
                during(processes)
                for process in processes:
                    process.wait(TIMEOUT)
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
            ended, after = time.monotonic(), self._counters()
            logs = [(Path(folder) / f"log-{number}").read_text(errors="replace") for number in range(workers)]
            if any(process.returncode for process in processes) or not figures.exists():
                raise BenchmarkError(f"{contender}: a worker ended with an error:\n{logs[0][-3000:]}")
            lines = [json.loads(line) for line in figures.read_text().splitlines()]
        return Crawl(lines, after[0] - before[0], int(after[1] - before[1]), started, ended)

    def _counters(self) -> tuple[float, float]:
        info = self.redis.info("stats")
        return cpu_of(self.redis), info["total_net_input_bytes"] + info["total_net_output_bytes"]


def cpu_of(server: redis.Redis) -> float:
    """Return the seconds of processor time that a Redis has used so far."""
    info = server.info("cpu")
    return float(info["used_cpu_user"] + info["used_cpu_sys"])


def _start(
    spider: str,
    arguments: tuple[str, ...],
    options: dict[str, Any],
    figures: Path,
    log: Any,
    environment: dict[str, str],
) -> subprocess.Popen[bytes]:
    settings = [text for name, value in options.items() for text in ("-s", f"{name}={value}")]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", "crawl", spider, *settings, *arguments],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": path, "FIGURES": str(figures), **environment},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Tell all of *processes* to stop, as Ctrl-C does."""
    for process in processes:
        process.send_signal(signal.SIGINT)


class Commands:
    """Counts what clients ask of a Redis; what its scripts call is not counted.

    By ``MONITOR``, which costs time: for crawls whose time is not looked at.
    """

    def __init__(self, server: redis.Redis) -> None:
        self._server = server
        options = server.connection_pool.connection_kwargs
        names = ("host", "port", "password")
        self._client = redis.Redis(**{name: options[name] for name in names})
        self.count = 0

    def __enter__(self) -> Commands:
        self._monitor = self._client.monitor()
        self._monitor.__enter__()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def _listen(self) -> None:
        for command in self._monitor.listen():
            if command["command"].startswith("ECHO end-of-count"):
                return
            if command["client_type"] != "lua" and not command["command"].startswith("INFO"):
                self.count += 1

    def __exit__(self, *error: object) -> None:
        self._server.echo("end-of-count")
        self._thread.join(30)
        self._client.close()
