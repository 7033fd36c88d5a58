"""A worker under ``scrapy frontier crawl``: it writes a report for its supervisor, and ends with it."""

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

#: The environment variable with the supervisor's process id and the path of the report.
VARIABLE = "SCRAPY_FRONTIER_SUPERVISOR"
#: Seconds between two checks that the supervisor is running.
INTERVAL = 1.0


def environment(report: Path) -> dict[str, str]:
    """Return the environment variables that a supervisor adds for a worker, which reports to *report*."""
    return {VARIABLE: f"{os.getpid()} {report}"}


def attend(crawler: Crawler) -> None:
    """Report to the supervisor of this process, and end with it, if the process has a supervisor."""
    # The variable is removed, because the children of this process have another parent.
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
            return  # a second signal would end this process at once
        logger.warning(
            "The supervisor of this worker has ended: the worker finishes the requests that it has begun, "
            "and closes"
        )
        # A signal, as after Ctrl-C, works in every phase of this process.
        os.kill(os.getpid(), signal.SIGTERM)

    look()


def _report_to(path: Path, crawler: Crawler) -> None:
    closed_for: list[str] = []

    def write() -> None:
        stats: Any = crawler.stats
        # If the collector adds up the statistics of all workers, report only those of this worker.
        own = getattr(stats, "own_stats", None) or stats.get_stats()
        text = json.dumps(
            {"reason": "".join(closed_for[-1:]), "stats": {str(name): own[name] for name in own}}, default=str
        )
        _write(path, text)

    def closed(spider: Spider, reason: str) -> None:
        closed_for.append(reason)

    # With an empty report, the supervisor knows that this worker has started.
    _write(path, "{}")
    crawler.signals.connect(closed, signals.spider_closed, weak=False)
    # The statistics are complete when the engine has stopped. Not weakly: there is no other reference.
    crawler.signals.connect(write, signals.engine_stopped, weak=False)


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(text)
        partial.replace(path)
    except OSError as error:
        logger.error("This worker cannot write its report for the supervisor: %s", error)
