"""Idle workers: what they cost Redis, and how soon one of them begins a seed."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from scrapy_rq_sched.keys import Keys

from .arena import OURS, Arena, BenchmarkError, Contender, cpu_of, stop
from .figures import Figures, Options
from .seeds import push_one

SPIDER = "seeds"
WORKERS = 40
#: Seconds for which Redis is watched: alone, and with the workers.
_UNUSED, _WATCHED = 10, 20
_SEEDS = 20
ALONE, IDLE = "no worker", f"{WORKERS} idle workers"


def run(arena: Arena, options: Options) -> Figures:
    """Have workers wait for seeds, and compare Redis with one that nobody uses."""
    figures = Figures()
    for _ in options.turns("idle", min(options.rounds, 3)):
        _measure(arena, options, figures)
    return figures


def _measure(arena: Arena, options: Options, figures: Figures) -> None:
    workers, seeds = options.size(quick=4, full=WORKERS), options.size(quick=3, full=_SEEDS)
    name = f"{workers} idle workers"
    arena.redis.flushall()
    alone = _share(arena, options.size(quick=2, full=_UNUSED))
    figures.add(ALONE, redis_percent=alone)
    with tempfile.TemporaryDirectory() as folder:
        each = Path(folder) / "each"
        each.touch()

        def watch(processes: list[subprocess.Popen[bytes]]) -> None:
            _wait_until_joined(arena, processes)
            push_one(arena, SPIDER, each, 0)  # the last worker may still be at its start
            idle = _share(arena, options.size(quick=2, full=_WATCHED))
            figures.add(name, redis_percent=idle, more_percent=idle - alone)
            for number in range(1, seeds + 1):
                figures.add(name, latency_ms=1000 * push_one(arena, SPIDER, each, number))
            stop(processes)

        arena.crawl(Contender(OURS), SPIDER, workers=workers, during=watch, environment={"EACH": str(each)})


def _wait_until_joined(arena: Arena, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 180
    while (joined := int(arena.redis.zcard(Keys(SPIDER).workers))) < len(processes):
        if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
            raise BenchmarkError(f"only {joined} of {len(processes)} workers have joined")
        time.sleep(0.1)


def _share(arena: Arena, seconds: float) -> float:
    """Return the share of a core, in per cent, that Redis uses in the next *seconds*."""
    cpu, begun = cpu_of(arena.redis), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_of(arena.redis) - cpu) / (time.monotonic() - begun)
