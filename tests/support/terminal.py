"""A project of its own, and what somebody types there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from .crawl import PROJECT, is_alive


class Terminal:
    """A project, and what somebody types there."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder / "project"
        shutil.copytree(PROJECT, self.folder, ignore=shutil.ignore_patterns("__pycache__", ".scrapy"))
        self.record = folder / "record"
        self.record.touch()
        self.redis_url = redis_url
        self.items = self.folder / "items.jsonl"
        self._environment = {**os.environ, "REDIS_URL": redis_url, "RECORD": str(self.record)}
        self._running: list[subprocess.Popen[str]] = []

    def start(
        self, *arguments: str, command: str = "crawl", environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Type ``scrapy frontier crawl``, or another command."""
        return self.start_python("-m", "scrapy", "frontier", command, *arguments, environment=environment)

    def start_python(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start Python with *arguments* in the project."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**self._environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._running.append(process)
        return process

    def run(self, *arguments: str, command: str = "crawl") -> tuple[int, str]:
        """Type it, and wait for its end; return the exit code and what it has said."""
        return ended(self.start(*arguments, command=command))

    def found(self) -> Counter[str]:
        """Return how often each URL is among the items; every line is whole."""
        lines = self.items.read_text().splitlines() if self.items.exists() else []
        return Counter(json.loads(line)["url"] for line in lines)

    def events(self, kind: str) -> list[tuple[int, str]]:
        """Return the process and the text of what workers have recorded."""
        whole, _, _ = self.record.read_text().rpartition("\n")  # a worker may be writing the last line
        rows = [line.split(" ", 3) for line in whole.splitlines()]
        return [(int(pid), text) for _, pid, event, text in rows if event == kind]

    def workers(self) -> set[int]:
        """Return the processes of workers that run."""
        return {pid for pid, _ in self.events("opened") if is_alive(pid)}

    def stop(self) -> None:
        """Kill whatever still runs."""
        for process in self._running:
            process.kill()
            process.wait()
        for pid in self.workers():
            os.kill(pid, signal.SIGKILL)


def ended(process: subprocess.Popen[str], timeout: float = 90) -> tuple[int, str]:
    said, _ = process.communicate(timeout=timeout)
    return process.returncode, said
