"""What a worker does for the ``scrapy frontier crawl`` that has started it: it reports, and ends with it."""

from __future__ import annotations

import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler

from ..engine.bridge import is_closing
from ..engine.event_loop import EventLoop

logger = logging.getLogger(__name__)

#: The environment variable by which a supervisor says that it is one: its process, and where the report goes.
VARIABLE = "SCRAPY_FRONTIER_SUPERVISOR"
#: Seconds between two looks whether the supervisor is there.
INTERVAL = 1.0


def environment(report: Path) -> dict[str, str]:
    """Return what a supervisor adds to the environment of a worker, which reports to *report*."""
    return {VARIABLE: f"{os.getpid()} {report}"}


def attend(crawler: Crawler) -> None:
    """Do what the supervisor of this process expects, if it has one, for the crawl of *crawler*."""
    # Whatever this process starts has another parent.
    process, _, report = os.environ.pop(VARIABLE, "").partition(" ")
    if process.isdigit():
        _report_to(Path(report), crawler)
        _stay_with(int(process), crawler)


def _stay_with(supervisor: int, crawler: Crawler) -> None:
    loop = EventLoop()

    def look() -> None:
        if os.getppid() == supervisor:
            loop.call_later(INTERVAL, look)
            return
        if is_closing(crawler):
            return  # a second signal would end it at once
        logger.warning("The supervisor of this worker is gone: it finishes what it is at, and closes")
        # As Ctrl-C does, in whichever phase this process is.
        os.kill(os.getpid(), signal.SIGTERM)

    look()


def _report_to(path: Path, crawler: Crawler) -> None:
    closed_for: list[str] = []

    def write() -> None:
        stats: Any = crawler.stats
        # Of a collector that adds up those of all workers, what this one has done.
        own = getattr(stats, "own_stats", None) or stats.get_stats()
        text = json.dumps(
            {"reason": "".join(closed_for[-1:]), "stats": {str(name): own[name] for name in own}}, default=str
        )
        _write(path, text)

    def closed(spider: Spider, reason: str) -> None:
        closed_for.append(reason)

    # So that a worker that comes to its end before this can be told from one that dies.
    _write(path, "{}")
    crawler.signals.connect(closed, signals.spider_closed, weak=False)
    # The statistics are complete when the engine has stopped. Not weakly: nobody else holds it.
    crawler.signals.connect(write, signals.engine_stopped, weak=False)


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(text)
        partial.replace(path)
    except OSError as error:
        logger.error("The report of this worker could not be written for its supervisor: %s", error)
