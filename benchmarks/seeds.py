"""Seeds: how soon an idle worker begins one, and how fast it drains many."""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from pathlib import Path

from .arena import OURS, PEER, Arena, BenchmarkError, Contender, stop
from .figures import Figures, Options
from .project.bench.site import page_url

_SPIDERS = {OURS: "seeds", PEER: "peers-seeds"}
#: Seconds that one seed may take to begin.
_PATIENCE = 30.0


def run(arena: Arena, options: Options) -> Figures:
    """Push one seed after the other to an idle worker; then have many drained."""
    figures = Figures()
    for name, count in ((OURS, options.size(quick=10, full=100)), (PEER, options.size(quick=2, full=30))):
        for seconds in _latencies(arena, Contender(name), count):
            figures.add(name, latency_ms=1000 * seconds)
    for name, count in (
        (OURS, options.size(quick=500, full=100_000)),
        (PEER, options.size(quick=200, full=5000)),
    ):
        key = f"{_SPIDERS[name]}:start_urls"
        crawl = arena.crawl(
            Contender(name),
            _SPIDERS[name],
            prepare=lambda key=key, count=count: _push(arena, key, count),
            during=lambda processes, key=key: _stop_when_drained(arena, key, processes),
        )
        if crawl.workers[0]["distinct"] != count:
            raise BenchmarkError(f"{name}: {crawl.workers[0]['distinct']} seeds crawled of {count}")
        figures.add(name, drained_per_second=crawl.pages / crawl.seconds, drained=count)
    return figures


def _latencies(arena: Arena, contender: Contender, count: int) -> list[float]:
    spider = _SPIDERS[contender.name]
    found: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        each = Path(folder) / "each"
        each.touch()

        def ask(processes: list[subprocess.Popen[bytes]]) -> None:
            push_one(arena, spider, each, 0)  # it has to wait for the worker
            found.extend(push_one(arena, spider, each, number) for number in range(1, count + 1))
            stop(processes)

        arena.crawl(contender, spider, during=ask, environment={"EACH": str(each)})
    return found


def push_one(arena: Arena, spider: str, each: Path, number: int) -> float:
    """Push a seed at any moment of whatever the workers do regularly; return the seconds until it is begun.

    :param each: what the meter writes.
    :param number: of the seed: so many were begun before.
    """
    time.sleep(0.3 + random.Random(number).random() / 2)
    pushed = time.monotonic()
    arena.redis.lpush(f"{spider}:start_urls", page_url(number) + "?leaf")
    while len(lines := each.read_text().splitlines()) <= number:
        if time.monotonic() - pushed > _PATIENCE + 30 * (number == 0):
            raise BenchmarkError(f"seed {number} of {spider!r} was not begun")
        time.sleep(0.001)
    return float(lines[-1].split()[0]) - pushed


def _push(arena: Arena, key: str, count: int) -> None:
    for first in range(0, count, 1000):
        numbers = range(first, min(first + 1000, count))
        arena.redis.lpush(key, *(page_url(number) + "?leaf" for number in numbers))


def _stop_when_drained(arena: Arena, key: str, processes: list[subprocess.Popen[bytes]]) -> None:
    waiting, leases = key.replace("start_urls", "requests"), key.replace("start_urls", "leases:")
    quiet_since = 0.0
    # Also when the last are downloaded, which is some moments after the last was taken.
    while not quiet_since or time.monotonic() - quiet_since < 2:
        if processes[0].poll() is not None:
            return
        held = any(arena.redis.hlen(name) for name in arena.redis.scan_iter(f"{leases}*"))
        drained = not (arena.redis.exists(key, waiting) or held)
        quiet_since = (quiet_since or time.monotonic()) if drained else 0.0
        time.sleep(0.1)
    stop(processes)
