"""What watching costs: a crawl whose metrics are scraped ten times a second, and snapshots."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from scrapy.settings import Settings

from scrapy_rq_sched import connection
from scrapy_rq_sched.inspect import find_frontiers
from scrapy_rq_sched.metrics.snapshots import Snapshots

from .arena import OURS, PROJECT, Arena, BenchmarkError, Contender
from .figures import Figures, Options
from .slots import Worker, redis_time

#: Seconds between two scrapes.
INTERVAL = 0.1
#: By how many slots have waiting requests: what a snapshot takes; and how many are taken.
SLOTS = (1, 1000, 100_000)
SNAPSHOTS = 50
ALONE, SCRAPED = "alone", "scraped ten times a second"


def run(arena: Arena, options: Options) -> Figures:
    """Crawl with and without an exporter beside it, in turn; then have snapshots taken by themselves."""
    figures = Figures()
    pages = options.size(quick=300, full=25_000)
    for number in options.turns("metrics"):
        paces = {}
        # Who begins changes, so that a machine that becomes slower meets both alike.
        for label in (ALONE, SCRAPED) if number % 2 else (SCRAPED, ALONE):
            contender = Contender(OURS, label=label)
            with _scraped(arena) if label == SCRAPED else _left_alone() as scrapes:
                crawl = arena.crawl(contender, "graph", SITE_PAGES=pages)
            if crawl.pages != pages:
                raise BenchmarkError(f"{contender}: {crawl.pages} pages crawled of {pages}")
            paces[label] = crawl.figures()["pages_per_second"]
            figures.add(str(contender), pages_per_second=paces[label], redis_us=crawl.figures()["redis_us"])
            if label == SCRAPED:
                figures.add(str(contender), scrapes=scrapes[0] / (crawl.ended - crawl.started))
        figures.add(str(Contender(OURS, label=SCRAPED)), of_alone=paces[SCRAPED] / paces[ALONE])
    _snapshots(arena, options, figures)
    return figures


@contextmanager
def _left_alone() -> Iterator[list[int]]:
    yield [0]


@contextmanager
def _scraped(arena: Arena) -> Iterator[list[int]]:
    """Have an exporter run, and be asked again and again; give how often it has answered."""
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "scrapy",
            "frontier",
            "metrics",
            "graph",
            "--redis-url",
            arena.url,
            "--listen",
            "0",
        ],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
    ) as exporter:
        assert exporter.stdout is not None  # noqa: S101 - it is a pipe
        found = re.search(r"http://\S+", exporter.stdout.readline())
        if not found:
            raise BenchmarkError("the exporter has not started")
        answered, is_over = [0], threading.Event()

        def scrape() -> None:
            while not is_over.wait(INTERVAL):
                with urllib.request.urlopen(found[0], timeout=10) as response:  # noqa: S310 - our own
                    if b"scrapy_frontier_up" in response.read():
                        answered[0] += 1

        thread = threading.Thread(target=scrape)
        thread.start()
        try:
            yield answered
        finally:
            is_over.set()
            thread.join()
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
