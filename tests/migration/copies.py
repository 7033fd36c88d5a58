"""A copy of the project, on scrapy-redis or on this package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import redis

from ..support.crawl import start_forked
from ..support.forked import ForkedScrapy
from ..support.pages import DOCS

PROJECT = Path(__file__).parent / "project"
#: What a project has installed that builds on scrapy-redis.
INSTALLED = Path(__file__).parent / "installed"
ORIGINAL, OURS = "scrapy_redis", "scrapy_rq_sched"


def the_one_line() -> str:
    """Return the command in the documentation that moves a project to this package."""
    (line,) = re.findall(r"^    (grep .*sed .*)$", (DOCS / "migrating.md").read_text(), re.MULTILINE)
    return line


class Project:
    """A copy of the project on one of both packages, and a Redis that nobody else uses."""

    def __init__(self, folder: Path, package: str, shop: str, server: redis.Redis, url: str) -> None:
        self.folder = folder / package
        self._package = package
        self.server = server
        self._environment = {**os.environ, "SHOP_URL": shop, "SHOP_REDIS": url}
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT, self.folder, ignore=ignore)
        if package == OURS:
            # This is all that somebody has to do who comes from scrapy-redis.
            subprocess.run(the_one_line(), shell=True, cwd=self.folder, check=True)
        shutil.copytree(INSTALLED, self.folder, ignore=ignore, dirs_exist_ok=True)
        self.running: list[ForkedScrapy] = []

    def run(self, *arguments: str) -> str:
        """Run Python in the project to its end, and return what it prints."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, spider: str, *arguments: str) -> Path:
        """Start a worker; return where its log is."""
        log = self.folder / f"{spider}-{len(self.running)}.log"
        log.touch()
        command = ("-m", "scrapy", "crawl", spider, *arguments)
        self.running.append(start_forked(command, self._environment, log, self.folder))
        return log

    def wait(self) -> None:
        """Wait until all workers have ended."""
        for worker in self.running:
            worker.wait(60)

    def items(self, *keys: str) -> Counter[str]:
        """Return the items in these lists."""
        return Counter(
            json.dumps(json.loads(item), sort_keys=True)
            for key in keys
            for item in self.server.lrange(key, 0, -1)
        )

    @property
    def is_ours(self) -> bool:
        """Return whether it is on this package."""
        return self._package == OURS

    def has_raised(self, log: Path) -> bool:
        """Return whether there is a traceback in *log*; scrapy-redis's statistics raise at every close."""
        return self._package == OURS and "Traceback" in log.read_text()

    def stop(self) -> None:
        """Kill whatever still runs."""
        for worker in self.running:
            if worker.poll() is None:
                worker.kill()
            worker.wait()


def waiting(server: redis.Redis, key: str) -> int:
    """Return how many requests wait in the queue *key*, also by slot."""
    count = 0
    for name in (key.encode(), *server.scan_iter(f"{key}:slot:*")):
        count += server.llen(name) if server.type(name) == b"list" else server.zcard(name)
    return count
