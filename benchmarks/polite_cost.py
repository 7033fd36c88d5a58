"""What politeness costs Redis: exchanges and processor time a page, while only delays limit the crawl.

By itself: ``python -m benchmarks.polite_cost --rounds 3``; with ``--against FOLDER``, another checkout of
this package has every second turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from scrapy_rq_sched.keys import Keys

from .arena import OURS, Arena, BenchmarkError, Contender, stop
from .broad import LATENCY, POLITE
from .figures import Figures, Options, console

#: The scripts of an exchange, as Redis counts their calls.
_CALLS = ("evalsha", "fcall")


class Site(NamedTuple):
    """What is crawled, and by how many workers.

    :param delay: seconds between two requests to a host.
    :param pages: of all hosts; so many that the crawl does not end while it is watched.
    :param seconds: for which it is watched, from when the last worker has joined.
    """

    hosts: int
    pages: int
    delay: float
    workers: int
    seconds: float

    def __str__(self) -> str:
        """Return its name in tables."""
        workers = f"{self.workers} worker{'s' if self.workers > 1 else ''}"
        return f"{self.hosts:,} hosts, delay {self.delay:g} s, {workers}"


SITES = (
    Site(60, 1500, 0.1, 1, 20),
    Site(60, 1500, 0.1, 4, 20),
    Site(500, 2500, 1.0, 1, 30),
    Site(500, 2500, 1.0, 4, 30),
    Site(3000, 9000, 8.0, 20, 40),
)
QUICK = (Site(20, 400, 0.1, 2, 3),)


@dataclass
class _Window:
    """The time for which a crawl is watched."""

    arena: Arena
    site: Site
    asked: Path
    begun: float = 0.0
    ended: float = 0.0
    redis_cpu: float = 0.0
    exchanges: int = 0
    calls: dict[str, int] = field(default_factory=dict)

    def watch(self, processes: list[subprocess.Popen[bytes]]) -> None:
        """Wait until all workers have joined and the crawl has begun; watch it for some seconds; stop it."""
        deadline = time.monotonic() + 180
        while self._joined() < self.site.workers or not self.lines():
            if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
                raise BenchmarkError(f"only {self._joined()} of {self.site.workers} workers have joined")
            time.sleep(0.1)
        cpu, calls, self.begun = self._cpu(), self._calls(), time.monotonic()
        time.sleep(self.site.seconds)
        self.ended, self.redis_cpu = time.monotonic(), self._cpu() - cpu
        after = self._calls()
        self.calls = {name: n - calls.get(name, 0) for name, n in after.items()}
        self.exchanges = sum(self.calls.get(name, 0) for name in _CALLS)
        stop(processes)

    def _joined(self) -> int:
        return int(self.arena.redis.zcard(Keys("broad").workers))

    def lines(self) -> list[str]:
        """Return what the site was asked so far: time, process, URL."""
        lines = self.asked.read_text().splitlines() if self.asked.exists() else []
        return [line for line in lines if line.count(" ") == 2]

    def _cpu(self) -> float:
        info = self.arena.redis.info("cpu")
        return float(info["used_cpu_user"] + info["used_cpu_sys"])

    def _calls(self) -> dict[str, int]:
        info = self.arena.redis.info("commandstats")
        return {name.removeprefix("cmdstat_"): int(its["calls"]) for name, its in info.items()}


def run(arena: Arena, options: Options) -> Figures:
    """Watch each of the crawls."""
    return measure(arena, options, QUICK if options.quick else SITES)


def measure(arena: Arena, options: Options, sites: tuple[Site, ...], against: str = "") -> Figures:
    """Watch crawls of *sites*; with *against*, also by the package in that folder."""
    figures = Figures()
    for _ in options.turns("polite_cost", min(options.rounds, 3)):
        for site in sites:
            for folder in ["", against] if against else [""]:
                _measure(arena, site, folder, figures)
    return figures


def _measure(arena: Arena, site: Site, folder: str, figures: Figures) -> None:
    handlers = {"http": "bench.broad.Handler", "https": None, "ftp": None, "s3": None}
    with tempfile.TemporaryDirectory() as place:
        window = _Window(arena, site, Path(place) / "asked")
        environment = {"ASKED": str(window.asked)}
        if folder:
            environment["PYTHONPATH"] = folder
        arena.crawl(
            Contender(OURS),
            "broad",
            workers=site.workers,
            during=window.watch,
            environment=environment,
            DOWNLOAD_HANDLERS=json.dumps(handlers),
            BROAD_HOSTS=site.hosts,
            BROAD_PAGES=site.pages,
            SITE_LATENCY=LATENCY,
            DOWNLOAD_DELAY=site.delay,
            RANDOMIZE_DOWNLOAD_DELAY=False,
        )
        pages, by_host = 0, defaultdict(list)
        for line in window.lines():
            at, _, url = line.split()
            pages += window.begun <= float(at) < window.ended
            by_host[url.split("/")[2]].append(float(at))
    gaps = [after - before for its in by_host.values() for before, after in pairwise(sorted(its))]
    seconds = window.ended - window.begun
    figures.add(
        f"{site}{' (the other checkout)' if folder else ''}",
        pages_per_second=pages / seconds,
        exchanges=window.exchanges / pages,
        exchanges_per_second=window.exchanges / seconds / site.workers,
        redis_us=1e6 * window.redis_cpu / pages,
        us_an_exchange=1e6 * window.redis_cpu / max(1, window.exchanges),
        calls=sum(window.calls.values()) / max(1, window.exchanges),
        too_soon=sum(gap < POLITE * site.delay for gap in gaps) / max(1, len(gaps)),
    )


def main() -> None:
    """Watch the crawls that the command line names, and print the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.polite_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contender")
    parser.add_argument("--against", default="", help="another checkout, which has every second turn")
    parser.add_argument("--only", type=int, nargs="+", help="which of the crawls, from 1")
    parser.add_argument("--quick", action="store_true", help="a small crawl: to see that it works")
    said = parser.parse_args()
    sites = QUICK if said.quick else SITES
    chosen = tuple(site for number, site in enumerate(sites, 1) if not said.only or number in said.only)
    with Arena.open() as arena:
        figures = measure(arena, Options(said.rounds, said.quick), chosen, said.against)
    for name, values in figures.values.items():
        shown = "  ".join(f"{figure} {figures.median(name, figure):.3f}" for figure in values)
        console.print(f"{name:60}{shown}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    main()
