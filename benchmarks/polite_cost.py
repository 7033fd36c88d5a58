"""What politeness costs Redis: exchanges and processor time a page, while only delays limit the crawl.

By itself: ``python -m benchmarks.polite_cost --rounds 3``; with ``--against FOLDER``, another checkout of
this package has every second turn.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from scrapy_rq_sched.keys import Keys

from .arena import OURS, Arena, BenchmarkError, Contender, cpu_of, stop
from .broad import Site, asked_of, crawl_broad, too_soon
from .figures import Figures, Options, console

#: The scripts of an exchange, as Redis counts their calls.
_CALLS = ("evalsha", "fcall")


class Watched(NamedTuple):
    """What is crawled, and by how many workers.

    :param site: with so many pages that the crawl does not end while it is watched.
    :param seconds: for which it is watched, from when the last worker has joined.
    """

    site: Site
    workers: int
    seconds: float

    def __str__(self) -> str:
        """Return its name in tables."""
        workers = f"{self.workers} worker{'s' if self.workers > 1 else ''}"
        return f"{self.site.hosts:,} hosts, delay {self.site.delay:g} s, {workers}"


CRAWLS = (
    Watched(Site(60, 1500, 0.1), 1, 20),
    Watched(Site(60, 1500, 0.1), 4, 20),
    Watched(Site(500, 2500, 1.0), 1, 30),
    Watched(Site(500, 2500, 1.0), 4, 30),
    Watched(Site(3000, 9000, 8.0), 20, 40),
)
QUICK = (Watched(Site(20, 400, 0.1), 2, 3),)


@dataclass
class _Window:
    """The time for which a crawl is watched."""

    arena: Arena
    crawl: Watched
    asked: Path
    begun: float = 0.0
    ended: float = 0.0
    redis_cpu: float = 0.0
    exchanges: int = 0
    calls: dict[str, int] = field(default_factory=dict)

    def watch(self, processes: list[subprocess.Popen[bytes]]) -> None:
        """Wait until all workers have joined and the crawl has begun; watch it for some seconds; stop it."""
        deadline = time.monotonic() + 180
        while self._joined() < self.crawl.workers or not asked_of(self.asked):
            if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
                raise BenchmarkError(f"only {self._joined()} of {self.crawl.workers} workers have joined")
            time.sleep(0.1)
        cpu, calls, self.begun = cpu_of(self.arena.redis), self._calls(), time.monotonic()
        time.sleep(self.crawl.seconds)
        self.ended, self.redis_cpu = time.monotonic(), cpu_of(self.arena.redis) - cpu
        after = self._calls()
        self.calls = {name: n - calls.get(name, 0) for name, n in after.items()}
        self.exchanges = sum(self.calls.get(name, 0) for name in _CALLS)
        stop(processes)

    def _joined(self) -> int:
        return int(self.arena.redis.zcard(Keys("broad").workers))

    def _calls(self) -> dict[str, int]:
        info = self.arena.redis.info("commandstats")
        return {name.removeprefix("cmdstat_"): int(its["calls"]) for name, its in info.items()}


def run(arena: Arena, options: Options) -> Figures:
    """Watch each of the crawls."""
    return measure(arena, options, QUICK if options.quick else CRAWLS)


def measure(arena: Arena, options: Options, crawls: tuple[Watched, ...], against: str = "") -> Figures:
    """Watch *crawls*; with *against*, also by the package in that folder."""
    figures = Figures()
    for _ in options.turns("polite_cost", min(options.rounds, 3)):
        for crawl in crawls:
            for folder in ["", against] if against else [""]:
                _measure(arena, crawl, folder, figures)
    return figures


def _measure(arena: Arena, crawl: Watched, folder: str, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as place:
        window = _Window(arena, crawl, Path(place) / "asked")
        crawl_broad(
            arena,
            Contender(OURS),
            crawl.site,
            window.asked,
            workers=crawl.workers,
            during=window.watch,
            environment={"PYTHONPATH": folder} if folder else {},
        )
        asked = asked_of(window.asked)
    pages = sum(window.begun <= at < window.ended for at, _ in asked)
    seconds = window.ended - window.begun
    figures.add(
        f"{crawl}{' (the other checkout)' if folder else ''}",
        pages_per_second=pages / seconds,
        exchanges=window.exchanges / pages,
        exchanges_per_second=window.exchanges / seconds / crawl.workers,
        redis_us=1e6 * window.redis_cpu / pages,
        us_an_exchange=1e6 * window.redis_cpu / max(1, window.exchanges),
        calls=sum(window.calls.values()) / max(1, window.exchanges),
        too_soon=too_soon(asked, crawl.site.delay),
    )


def main() -> None:
    """Watch the crawls that the command line names, and print the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.polite_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contender")
    parser.add_argument("--against", default="", help="another checkout, which has every second turn")
    parser.add_argument("--only", type=int, nargs="+", help="which of the crawls, from 1")
    parser.add_argument("--quick", action="store_true", help="a small crawl: to see that it works")
    said = parser.parse_args()
    crawls = QUICK if said.quick else CRAWLS
    chosen = tuple(crawl for number, crawl in enumerate(crawls, 1) if not said.only or number in said.only)
    with Arena.open() as arena:
        figures = measure(arena, Options(said.rounds, said.quick), chosen, said.against)
    for name, values in figures.values.items():
        shown = "  ".join(f"{figure} {figures.median(name, figure):.3f}" for figure in values)
        console.print(f"{name:60}{shown}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    main()
