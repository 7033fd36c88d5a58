"""A worker under ``scrapy frontier crawl``: it reports to its supervisor, and ends with it."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler

from ..engine.bridge import before_closing, has_failed_to_start, is_closing
from . import run
from .event_loop import EventLoop

logger = logging.getLogger(__name__)

#: Seconds between two heartbeats, and between two checks that the supervisor is running.
INTERVAL = 1.0
#: The heartbeats of a worker whose spider is being opened, that crawls, and whose spider is being closed.
OPENING, CRAWLING, CLOSING = b"o", b".", b"c"

# The run to whose supervisor this process reports.
_attended: run.Run | None = None


def attend(crawler: Crawler, worker: str) -> Callable[[], None]:
    """Report to the supervisor of this process, and end with it, if the process has a supervisor.

    :param worker: the name of this worker in the frontier.
    :return: a function to call when this worker has joined.
    """
    global _attended
    current = run.current()
    if current is None or current is _attended:
        return lambda: None
    _attended = current
    joined = _report_to(Path(current.report), crawler, worker)
    _stay_with(current.supervisor, crawler, current.heartbeats)
    return joined


def _stay_with(supervisor: int, crawler: Crawler, pipe: int) -> None:
    loop = EventLoop()
    phase = OPENING

    def beat() -> None:
        # Full or broken: the supervisor does not read, because it is stopped, or has just ended. And the
        # code of a spider may have closed the pipe: this must not end the watch over the supervisor.
        with suppress(OSError):
            os.write(pipe, phase)

    def opened() -> None:
        nonlocal phase
        phase = CRAWLING
        beat()

    # Not weakly: there is no other reference.
    crawler.signals.connect(opened, signals.spider_opened, weak=False)

    def closing() -> None:
        nonlocal phase
        phase = CLOSING
        beat()

    # At once: a pipeline may block the event loop when it is closed.
    before_closing(crawler, closing)

    def look() -> None:
        if os.getppid() == supervisor:
            loop.call_later(INTERVAL, look)
            beat()
            return
        if is_closing(crawler):
            return  # a second signal would end this process at once
        logger.warning(
            "The supervisor of this worker has ended: the worker finishes the requests that it has begun, "
            "and closes"
        )
        # A signal, as after Ctrl-C, works in every phase of this process.
        os.kill(os.getpid(), signal.SIGTERM)

    with suppress(OSError):
        os.set_blocking(pipe, False)
    look()


def _report_to(path: Path, crawler: Crawler, worker: str) -> Callable[[], None]:
    closed_for: list[str] = []
    name = ""

    def joined() -> None:
        # Not before: a process that replaces this one names it in Redis, which must know the name.
        nonlocal name
        name = worker
        _write(path, json.dumps({"worker": name}))

    def write() -> None:
        stats: Any = crawler.stats
        # If the collector adds up the statistics of all workers, report only those of this worker.
        own = getattr(stats, "own_stats", None) or stats.get_stats()
        fields = {
            "worker": name,
            "was_open": not has_failed_to_start(crawler),
            "reason": "".join(closed_for[-1:]),
            "stats": {str(name): own[name] for name in own},
        }
        _write(path, json.dumps(fields, default=str))

    def closed(spider: Spider, reason: str) -> None:
        closed_for.append(reason)

    # By this first report the supervisor knows that this worker has started.
    _write(path, json.dumps({}))
    crawler.signals.connect(closed, signals.spider_closed, weak=False)
    # The statistics are complete when the engine has stopped. Not weakly: there is no other reference.
    crawler.signals.connect(write, signals.engine_stopped, weak=False)
    return joined


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(text)
        partial.replace(path)
    except OSError as error:
        logger.error("This worker cannot write its report for the supervisor: %s", error)
