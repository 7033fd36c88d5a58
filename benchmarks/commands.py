"""``scrapy frontier`` on a large frontier: how long each command takes, and how long a step keeps Redis."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import redis
from scrapy.settings import Settings

from scrapy_rq_sched.inspect import View, read_status
from scrapy_rq_sched.keys import Keys

from .arena import OURS, PROJECT, Arena, BenchmarkError
from .figures import Figures, Options
from .filling import fill, mark
from .project.bench.site import page_url

SPIDER = "graph"
FILTERS = {"exact": "RFPDupeFilter", "compact": "CompactDupeFilter"}
#: Steps of Redis that take longer are noted, in microseconds.
NOTED = 200


def run(arena: Arena, options: Options) -> Figures:
    """Fill a frontier, and run the commands on it, one after the other."""
    figures = Figures()
    waiting = options.size(quick=2000, full=1_000_000)
    arena.redis.config_set("slowlog-log-slower-than", NOTED)
    arena.redis.config_set("slowlog-max-len", 10_000)
    for kind, dupefilter in options.each(
        (("PriorityQueue", "exact"), ("PriorityQueue", "compact"), ("FifoQueue", "compact")), "commands"
    ):
        arena.redis.flushall()
        mark(arena.redis, Keys(SPIDER), dupefilter, 5 * waiting)
        fill(OURS, arena.redis, waiting, kind, spider=SPIDER, dupefilter=dupefilter)
        with tempfile.TemporaryDirectory() as folder:
            _commands(_Terminal(arena, kind, dupefilter, figures), arena.redis, waiting, Path(folder))
    arena.redis.flushall()
    return figures


class _Terminal:
    def __init__(self, arena: Arena, kind: str, dupefilter: str, figures: Figures) -> None:
        self._arena = arena
        self._label = f"{kind}, {dupefilter} filter"
        self.is_sorted = kind == "PriorityQueue"
        settings = {
            "SCHEDULER": "scrapy_rq_sched.Scheduler",
            "DUPEFILTER_CLASS": f"scrapy_rq_sched.{FILTERS[dupefilter]}",
            "SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.{kind}",
        }
        self._options = [text for pair in settings.items() for text in ("-s", "=".join(pair))]
        self._figures = figures

    def run(self, *arguments: str, stdin: Path | None = None, stdout: Path | None = None) -> None:
        """Run a command, and take down what it cost.

        :param stdin: a file that it reads, and :param stdout: one that it writes.
        :raises BenchmarkError: if it ends with an error.
        """
        self._arena.redis.slowlog_reset()
        with (
            (stdin or Path(os.devnull)).open("rb") as source,
            (stdout or Path(os.devnull)).open("wb") as target,
            tempfile.TemporaryFile() as errors,
        ):
            began = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-m", "scrapy", "frontier", *arguments, *self._options],
                cwd=PROJECT,
                env={**os.environ, "REDIS_URL": self._arena.url},
                stdin=source,
                stdout=target,
                stderr=errors,
            )
            # Not wait(): only so it is known what this one has used.
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.monotonic() - began
            if process.returncode:
                errors.seek(0)
                raise BenchmarkError(f"{' '.join(arguments)}: {errors.read().decode()}")
        noted = self._arena.redis.slowlog_get(10_000)
        steps = [entry["duration"] for entry in noted if not entry["command"].startswith(b"SLOWLOG")]
        self._figures.add(
            f"{arguments[0]}, {self._label}",
            seconds=seconds,
            redis_ms=max([NOTED, *steps]) / 1000,
            memory_mb=used.ru_maxrss / 1000,
        )

    def read(self) -> None:
        """Read the status as the command does, without the start of Python and Scrapy."""
        began = time.monotonic()
        status = read_status(View.from_settings(Settings({"REDIS_URL": self._arena.url}), SPIDER))
        self._figures.add(
            f"status, without the start of Scrapy, {self._label}", seconds=time.monotonic() - began
        )
        if not status.waiting:
            raise BenchmarkError("Nothing waits")


def _commands(terminal: _Terminal, server: redis.Redis, waiting: int, folder: Path) -> None:
    terminal.read()
    terminal.run("status", SPIDER)
    terminal.run("status")
    terminal.run("workers", SPIDER)
    terminal.run("leases", SPIDER)
    terminal.run("peek", SPIDER)
    terminal.run("explain", SPIDER, page_url(waiting - 1))
    urls, exported = folder / "urls", folder / "exported"
    urls.write_text("".join(f"{page_url(number)}\n" for number in range(waiting // 10)))
    terminal.run("seed", SPIDER, "--file", str(urls))
    terminal.run("forget", SPIDER, "--file", str(urls))
    terminal.run("failed", SPIDER)
    terminal.run("pause", SPIDER)
    terminal.run("resume", SPIDER)
    if terminal.is_sorted:
        terminal.run("reprioritize", SPIDER, "7", "*section-7/*")
    terminal.run("export", SPIDER, stdout=exported)
    before = contents(server)
    terminal.run("clear", SPIDER, "--yes")
    terminal.run("import", SPIDER, stdin=exported)
    after = contents(server)
    if differing := [key for key in before | after if before.get(key) != after.get(key)]:
        names = b", ".join(differing).decode()
        raise BenchmarkError(f"What was imported is not what was exported, in these keys: {names}")
    terminal.run("remove", SPIDER, "*section-8/*")
    terminal.run("doctor", SPIDER)


def contents(server: redis.Redis) -> dict[bytes, str]:
    """Return a digest of what is in each key of the frontier, but for its meta, which an import makes anew.

    What a compact filter has is spread over its keys as it has grown: of these it is one digest.
    """
    digests: dict[bytes, int] = {}
    for key in server.scan_iter(f"{SPIDER}:*", count=1000):
        kind = server.type(key)
        name = re.sub(rb":dupefilter:[0-9a-f]+:[0-9]+$", b":dupefilter:*", key)
        # Events, in a stream, tell what has happened to the frontier, and nothing of what is in it. What is
        # known of a worker that has filled it expires.
        if kind == b"stream" or name.endswith((b":buckets", b":pages", b":meta")) or b":worker:" in name:
            continue
        for member in _members(server, key, kind):
            digest = hashlib.sha1(member, usedforsecurity=False).digest()
            digests[name] = (digests.get(name, 0) + int.from_bytes(digest[:12], "big")) % 2**96
    return {name: f"{digest:024x}" for name, digest in digests.items()}


def _members(server: redis.Redis, key: bytes, kind: bytes) -> Iterator[bytes]:
    if kind == b"set":
        yield from server.sscan_iter(key, count=1000)
    elif kind == b"zset":
        yield from (b"%r %b" % (score, member) for member, score in server.zscan_iter(key, count=1000))
    elif kind == b"list":
        for first in range(0, server.llen(key), 1000):
            found = server.lrange(key, first, first + 999)
            yield from (b"%d %b" % (first + n, member) for n, member in enumerate(found))
    elif kind == b"hash":
        yield from (b"%b %b" % pair for pair in server.hscan_iter(key))
    else:
        yield server.get(key) or b""
