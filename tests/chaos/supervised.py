"""Fleets that ``scrapy frontier crawl`` has started, whose workers are killed, and it as well."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

from tests.support.crawl import PROJECT, is_alive, start_interpreter

from .arena import UNRELEASED, Arena
from .deaths import MANY
from .referee import Outcome
from .registry import scenario

#: How many workers, and each how many kills the supervisor itself is killed.
WORKERS, OF_KILLS = 3, 10
#: Seconds within which workers notice that their supervisor is gone, and close.
ORPHANS = 15.0


@scenario(
    "supervised",
    f"`scrapy frontier crawl -w {WORKERS} -o items.jsonl`: workers are killed at random moments, and every "
    f"{OF_KILLS}th time the command itself, which is then started again. No worker is left over, the one "
    f"file has the item of each page once, and each line of it is complete. Each kill explains "
    f"{UNRELEASED} repeated pages.",
)
def supervised(arena: Arena) -> Outcome:
    arena.crawl("pages", workers=0, pages=arena.choose(500, 8000), GRAPH_LATENCY=0.3, **MANY)
    items = copied_project(arena) / "items.jsonl"
    most, kills = arena.choose(6, 50), 0
    start_crawl(arena, "pages", items)
    while kills < most and arena.share < 0.9:
        time.sleep(arena.random.uniform(0.5, 2.0))
        workers = running_workers(arena)
        if not workers:
            continue
        kills += 1
        if kills % OF_KILLS == 0 or kills == most // 2:
            arena.fleet.workers[-1].kill()
            arena.fleet.workers[-1].wait()
            arena.wait(lambda: not running_workers(arena), "workers outlive their supervisor", ORPHANS)
            start_crawl(arena, "pages", items)
        else:
            os.kill(arena.random.choice(workers), signal.SIGKILL)
    arena.settle()
    found = [json.loads(line)["url"] for line in items.read_text().splitlines()]
    missing, twice = len(arena.pages - set(found)), len(found) - len(set(found))
    assert (missing, twice) == (0, 0), f"{missing} items are missing in the file, and {twice} are there twice"
    return Outcome(kills, kills * UNRELEASED)


def copied_project(arena: Arena) -> Path:
    """Copy the test project to the arena, because the command writes into it; return its folder."""
    project = arena.folder / "project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__", ".scrapy"))
    return project


def start_crawl(arena: Arena, spider: str, items: Path) -> None:
    """Start ``scrapy frontier crawl -o ITEMS`` in the project where *items* is, as a user types it."""
    log = arena.folder / f"worker-{len(arena.fleet.workers)}.log"
    options = [text for name, value in arena.settings.items() for text in ("-s", f"{name}={value}")]
    command = ["-m", "scrapy", "frontier", "crawl", spider, "-w", str(WORKERS), "-o", str(items), *options]
    environment = {**os.environ, "REDIS_URL": arena.proxy.url, "RECORD": str(arena.fleet.record)}
    arena.fleet.workers.append(start_interpreter(command, environment, log, items.parent))


def running_workers(arena: Arena) -> list[int]:
    """Return the processes of the workers that run."""
    return sorted(pid for pid in {event.pid for event in arena.fleet.events("opened")} if is_alive(pid))
