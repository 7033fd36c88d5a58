"""A fleet whose downloads take their time, so that the workers are not the limit."""

from __future__ import annotations

import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .arena import OURS, PEER, Arena, BenchmarkError, Contender, cpu_of, stop
from .figures import Figures, Options
from .filling import fill

#: Seconds that a download takes, and how many each worker has at a time: few, so that 32 workers do not
#: need more than two cores.
LATENCY, CONCURRENT = 0.2, 2
WORKERS = (1, 2, 4, 8, 16, 32)
_PEERS_WORKERS = (1, 8, 32)
#: Requests that wait before it begins: a worker of scrapy-redis that finds none closes.
_PLENTY = 2000


@dataclass
class _Window:
    """The time for which a fleet is watched."""

    arena: Arena
    workers: int
    seconds: float
    each: Path
    begun: float = 0.0
    ended: float = 0.0
    redis_cpu: float = 0.0

    def watch(self, processes: list[subprocess.Popen[bytes]]) -> None:
        """Wait until all are at it, look for so many seconds, and stop them."""
        deadline = time.monotonic() + 180
        while self._at_it() < self.workers:
            if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
                raise BenchmarkError(f"only {self._at_it()} of {self.workers} workers are at it")
            time.sleep(0.1)
        before, self.begun = cpu_of(self.arena.redis), time.monotonic()
        time.sleep(self.seconds)
        self.ended, self.redis_cpu = time.monotonic(), cpu_of(self.arena.redis) - before
        stop(processes)

    def _at_it(self) -> int:
        lines = self.each.read_text().splitlines() if self.each.exists() else []
        return len({line.split()[1] for line in lines if line.count(" ") == 2})


def run(arena: Arena, options: Options) -> Figures:
    """Have fleets of each size crawl a site without an end, and look at them for some seconds."""
    figures = Figures()
    sizes = [(OURS, count) for count in WORKERS] + [(PEER, count) for count in _PEERS_WORKERS]
    if options.quick:
        sizes = [(OURS, 2), (PEER, 2)]
    for _ in options.turns("fleet", min(options.rounds, 3)):
        for name, count in sizes:
            _measure(arena, Contender(name), count, options.size(quick=3, full=8), figures)
    return figures


def _measure(arena: Arena, contender: Contender, count: int, seconds: float, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        window = _Window(arena, count, seconds, Path(folder) / "each")
        crawl = arena.crawl(
            contender,
            "graph",
            workers=count,
            prepare=lambda: fill(contender.name, arena.redis, _PLENTY, first=1),
            during=window.watch,
            environment={"EACH": str(window.each)},
            SITE_LATENCY=LATENCY,
            CONCURRENT_REQUESTS=CONCURRENT,
        )
    each = [sum(window.begun <= when < window.ended for when in worker["parsed"]) for worker in crawl.workers]
    pace = sum(each) / (window.ended - window.begun)
    figures.add(
        f"{contender}, {count} worker{'s' if count > 1 else ''}",
        pages_per_second=pace,
        of_ideal=pace * LATENCY / (count * CONCURRENT),
        fairness=min(each) * len(each) / sum(each),
        redis_us=1e6 * window.redis_cpu / sum(each),
    )
