"""What watching costs: a crawl whose metrics are scraped ten times a second, and snapshots."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from scrapy.settings import Settings

from scrapy_rq_sched import connection
from scrapy_rq_sched.inspect import find_frontiers
from scrapy_rq_sched.metrics.snapshots import Snapshots

from .arena import OURS, PROJECT, Arena, BenchmarkError, Contender, stop
from .figures import Figures, Options
from .slots import Worker, redis_time

#: Seconds between two scrapes.
INTERVAL = 0.1
#: Seconds for which a crawl is watched with and without scrapes, in turn, and how often: a minute of each.
WINDOW, PAIRS = 5.0, 12
#: Seconds that the crawl has to begin well.
WARM_UP = 5.0
#: By how many slots have waiting requests: what a snapshot takes; and how many are taken.
SLOTS = (1, 1000, 100_000)
SNAPSHOTS = 50
ALONE, SCRAPED = Contender(OURS, label="alone"), Contender(OURS, label="scraped ten times a second")


@dataclass(frozen=True)
class _Window:
    """A time for which a crawl was watched, by the clock of all processes, and how often it was scraped."""

    begun: float
    ended: float
    scrapes: int
    redis_cpu: float


def run(arena: Arena, options: Options) -> Figures:
    """Watch crawls with and without scrapes; then have snapshots taken by themselves."""
    figures = Figures()
    for _ in options.turns("metrics"):
        windows: list[_Window] = []
        crawl = arena.crawl(
            Contender(OURS),
            "graph",
            during=lambda processes, windows=windows: _watch(arena, options, processes, windows),
            SITE_PAGES=1_000_000,
        )
        _compare(crawl.workers[0]["parsed"], windows, figures)
    _snapshots(arena, options, figures)
    return figures


def _watch(
    arena: Arena, options: Options, processes: list[subprocess.Popen[bytes]], windows: list[_Window]
) -> None:
    with _exporter(arena) as url:
        while not arena.redis.exists("graph:pages"):
            if any(process.poll() is not None for process in processes):
                raise BenchmarkError("the crawl has ended before it was watched")
            time.sleep(0.1)
        time.sleep(WARM_UP)
        process = int(arena.redis.info("server")["process_id"])
        for pair in range(options.size(quick=2, full=PAIRS)):
            # Who begins changes, so that a crawl or a machine that becomes slower meets both alike.
            for is_scraped in (True, False) if pair % 2 else (False, True):
                begun, cpu, scrapes = time.monotonic(), redis_time(process), 0
                while (left := begun + WINDOW - time.monotonic()) > 0:
                    time.sleep(min(left, INTERVAL) if is_scraped else left)
                    if is_scraped:
                        scrapes += _scrape(url)
                cpu = redis_time(process) - cpu
                windows.append(_Window(begun, time.monotonic(), scrapes, cpu / 1e3))
    stop(processes)


def _compare(parsed: list[float], windows: list[_Window], figures: Figures) -> None:
    for pair in zip(windows[::2], windows[1::2], strict=True):
        paces = {}
        for window in pair:
            pages = sum(window.begun <= when < window.ended for when in parsed)
            seconds = window.ended - window.begun
            contender = SCRAPED if window.scrapes else ALONE
            paces[contender] = pages / seconds
            figures.add(
                str(contender), pages_per_second=paces[contender], redis_us=window.redis_cpu / max(1, pages)
            )
            if window.scrapes:
                figures.add(str(contender), scrapes=window.scrapes / seconds)
        figures.add(str(SCRAPED), of_alone=paces[SCRAPED] / paces[ALONE])


def _scrape(url: str) -> int:
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - our own
        if b'scrapy_frontier_pages_total{spider="graph"}' not in response.read():
            raise BenchmarkError("the exporter does not know of the crawl")
    return 1


@contextmanager
def _exporter(arena: Arena) -> Iterator[str]:
    """Have an exporter run, and give its address."""
    command = ["frontier", "metrics", "graph", "--listen", "0"]
    environment = {**os.environ, "REDIS_URL": arena.url}
    with subprocess.Popen(
        [sys.executable, "-m", "scrapy", *command],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as exporter:
        try:
            assert exporter.stdout is not None  # noqa: S101 - it is a pipe
            found = re.search(r"http://\S+", exporter.stdout.readline())
            if not found:
                raise BenchmarkError("the exporter has not started")
            yield found[0]
        finally:
            exporter.kill()


def _snapshots(arena: Arena, options: Options, figures: Figures) -> None:
    settings = Settings({"REDIS_URL": arena.url})
    process = int(arena.redis.info("server")["process_id"])
    for slots in options.each([n for n in SLOTS if n <= options.size(1000, max(SLOTS))], "snapshots"):
        arena.redis.flushall()
        Worker(arena.redis, slots).fill(max(2000, slots))
        snapshots = Snapshots(
            lambda: list(find_frontiers(settings)), connection.get_client(settings), lambda text: None
        )
        name = f"a snapshot, {slots:,} slot{'s' if slots > 1 else ''}"
        for number in range(SNAPSHOTS + 1):
            before = redis_time(process)
            seconds = snapshots.take().seconds
            if number:  # the first one searches for frontiers
                figures.add(name, snapshot_redis_ms=(redis_time(process) - before) / 1e6, snapshot_s=seconds)
        before = redis_time(process)
        seconds = snapshots.take(all_slots=True).seconds
        figures.add(
            f"{name}, all of them for a file",
            snapshot_redis_ms=(redis_time(process) - before) / 1e6,
            snapshot_s=seconds,
        )
    arena.redis.flushall()
