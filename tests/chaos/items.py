"""Items of pages: each once, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import redis

from tests.support.crawl import PROJECT

from .arena import UNRELEASED, Arena
from .deaths import MANY
from .referee import Outcome
from .registry import scenario
from .server import LAG, fail_over

KEY = "sheaf:items"


def _wanted(pages: int) -> Counter[str]:
    return Counter(f"{page}.{number}" for page in range(pages) for number in range(page % 51))


def check_titles(found: Counter[str], pages: int) -> None:
    """Raise an exception if an item of a site of *pages* is missing, or is there twice."""
    wanted = _wanted(pages)
    twice = sum((found - wanted).values())
    missing = sum((wanted - found).values())
    of = [sorted(set(it))[:5] for it in (wanted - found, found - wanted)]
    assert found == wanted, f"{missing} items are missing, and {twice} are there twice, among them {of}"


@scenario(
    "items-kill",
    "Workers are killed at random moments, with FRONTIER_ITEMS = 'list'. Each item of each page is in the "
    f"list once. Each kill explains {UNRELEASED} repeated pages.",
)
def items_kill(arena: Arena) -> Outcome:
    pages, most = arena.choose(500, 6000), arena.choose(4, 40)
    arena.crawl("sheaf", workers=3, pages=pages, FRONTIER_ITEMS="list", GRAPH_LATENCY=0.15, **MANY)
    kills = _kill_workers(arena, most)
    arena.settle()
    check_titles(Counter(json.loads(item)["title"] for item in arena.client.lrange(KEY, 0, -1)), pages)
    return Outcome(kills, kills * UNRELEASED)


def _kill_workers(arena: Arena, most: int) -> int:
    kills = 0
    for _ in arena.moments(0.9, 0.3, 1.0):
        kills += replace_worker(arena)
        if kills == most:
            break
    return kills


def replace_worker(arena: Arena) -> bool:
    """Kill a worker after another one was started; return whether that was possible."""
    if len(arena.busy()) < 2 or not arena.may_join():
        return False
    arena.join()
    arena.fleet.kill(arena.random.choice(arena.busy()))
    return True


def waiting(arena: Arena) -> int:
    """Return how many items wait in Redis for a consumer, whichever server that is by now."""
    with redis.Redis.from_url(arena.proxy.url) as client:
        return int(client.xlen(KEY))


@scenario(
    "items-own-files",
    "Workers that write their items to files of their own are killed at random moments. Each item is in one "
    f"of the files, and each line is complete. Each kill explains {UNRELEASED} repeated pages.",
)
def items_own_files(arena: Arena) -> Outcome:
    pages, most = arena.choose(500, 3000), arena.choose(4, 20)
    feeds = json.dumps({f"{arena.folder}/items-%(worker)s.jsonl": {"format": "jsonlines"}})
    arena.crawl("sheaf", workers=3, pages=pages, FEEDS=feeds, GRAPH_LATENCY=0.15, **MANY)
    kills = _kill_workers(arena, most)
    arena.settle()
    files = arena.folder.glob("items-*.jsonl")
    found = Counter(json.loads(line)["title"] for file in files for line in file.read_text().splitlines())
    missing = sum((_wanted(pages) - found).values())
    assert not missing, f"{missing} items are missing"
    return Outcome(kills, kills * UNRELEASED)


class Consumer:
    """A program that stores the items, and is killed and started again."""

    def __init__(self, arena: Arena) -> None:
        self.path = arena.folder / "items.db"
        self._command = [sys.executable, "-m", "tests.chaos.item_consumer", arena.proxy.url, KEY]
        self._arena = arena
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen([*self._command, str(self.path)], stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """Kill it, and start it again."""
        self._process.kill()
        self._process.wait()
        self._start()

    def titles(self) -> Counter[str]:
        """Return how often it has stored each item."""
        with closing(sqlite3.connect(self.path, timeout=30)) as database:
            try:
                rows = database.execute("SELECT title FROM items").fetchall()
            except sqlite3.OperationalError:  # the table is being made
                return Counter()
        return Counter(title for (title,) in rows)

    def end(self, is_done: Callable[[], object]) -> None:
        """Wait until it has stored everything, and end it."""
        self._arena.wait(is_done, "the consumer has not stored everything", 60)
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@scenario(
    "items-consumer",
    "Workers and the consumer of the stream are killed, replies are lost, Redis is full for a moment and "
    "away for another. Each item is in the database once. Each kill of a worker explains "
    f"{UNRELEASED} repeated pages.",
)
def items_consumer(arena: Arena) -> Outcome:
    pages, most = arena.choose(500, 6000), arena.choose(4, 30)
    consumer = Consumer(arena)
    arena.crawl("sheaf", workers=3, pages=pages, FRONTIER_ITEMS="stream", GRAPH_LATENCY=0.15, **MANY)
    arena.proxy.swallow(0.02)
    kills = faults = 0
    for turn in arena.moments(0.9, 0.3, 0.8):
        consumer.kill()
        faults += 1
        kills += replace_worker(arena)
        if turn == 3:
            arena.client.config_set("maxmemory", 1)
            with arena.lasting(arena.choose(0.5, 20)):
                pass
            arena.client.config_set("maxmemory", 0)
        if turn == 5:
            arena.proxy.refuse()
            arena.proxy.cut()
            with arena.lasting(arena.choose(0.5, 20)):
                pass
            arena.proxy.go()
        if kills == most:
            break
    arena.settle()
    arena.proxy.swallow(0)
    consumer.end(lambda: not waiting(arena))
    check_titles(consumer.titles(), pages)
    return Outcome(faults + kills, (kills + 2) * UNRELEASED)


@scenario(
    "items-failover",
    "Redis is killed, and its replica, 0.3 s behind, takes its place. The consumer of the stream has stored "
    "items that the replica has lost, or gives again. Each item is in the database once.",
)
def items_failover(arena: Arena) -> Outcome:
    pages = arena.choose(400, 3000)
    consumer = Consumer(arena)
    settings: dict[str, object] = {"FRONTIER_LEASE_TIMEOUT": 6, "FRONTIER_ITEMS": "stream"}

    def crawl() -> None:
        arena.crawl("sheaf", workers=2, pages=pages, GRAPH_LATENCY=0.1, **settings)

    outcome = fail_over(arena, LAG, crawl)
    consumer.end(lambda: not waiting(arena))
    check_titles(consumer.titles(), pages)
    return outcome


class FileWriter:
    """``scrapy frontier items -o FILE``, which is killed and started again."""

    def __init__(self, arena: Arena) -> None:
        self.path = arena.folder / "items.jsonl"
        self._environment = {**os.environ, "REDIS_URL": arena.proxy.url}
        self._start("--follow")

    def _start(self, *options: str) -> None:
        command = ["frontier", "items", "sheaf", "-o", str(self.path), *options]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "scrapy", *command],
            cwd=PROJECT,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """Kill it, and start it again."""
        self._process.kill()
        self._process.wait()
        self._start("--follow")

    @property
    def size(self) -> int:
        """The bytes that the file has."""
        return self.path.stat().st_size if self.path.exists() else 0

    def end(self) -> Counter[str]:
        """Let it write the rest; return how often the file has each item."""
        self._process.kill()
        self._process.wait()
        self._start()
        assert self._process.wait(60) == 0, "the command has failed"
        return Counter(json.loads(line)["title"] for line in self.path.read_text().splitlines())


@scenario(
    "items-file",
    "`scrapy frontier items -o items.jsonl` is killed repeatedly, and Redis is replaced by its replica, "
    "0.3 s behind. Each item is in the file once, and each line is complete.",
)
def items_file(arena: Arena) -> Outcome:
    pages = arena.choose(400, 3000)
    writer = FileWriter(arena)
    settings: dict[str, object] = {"FRONTIER_LEASE_TIMEOUT": 6, "FRONTIER_ITEMS": "stream"}
    kills = 0

    def crawl() -> None:
        nonlocal kills
        arena.crawl("sheaf", workers=2, pages=pages, GRAPH_LATENCY=0.1, **settings)
        for _ in arena.moments(0.2, 1.0, 2.0):
            writer.kill()
            kills += 1
        # It is at work when Redis is replaced.
        size = writer.size
        arena.wait(lambda: writer.size > size, "the writer does not write")

    outcome = fail_over(arena, LAG, crawl)
    check_titles(writer.end(), pages)
    return replace(outcome, faults=outcome.faults + kills)
