"""The display of ``scrapy frontier crawl``: a live view on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..inspect import Status
from ..inspect.wording import counted
from ..supervise.supervisor import FINISHED, START_ERROR, Supervisor
from .action import Context
from .formats import duration, number, rate, single_line
from .layout import Coloured, Fields
from .picture import in_state, limit, pace, pages, progress, time_left

#: Seconds between two pictures on a terminal, and between two lines elsewhere.
PICTURE, LINE = 1.0, 10.0
#: How many of the latest messages a picture has.
LATEST = 12
#: How to leave, in the last line of a picture.
LEAVE = "Ctrl-C: the workers finish the requests they have begun, and close. Twice: they close at once"
HURRY = "Ctrl-C once more: the workers close at once"


class Screen:
    """Shows the progress of the crawl: as a live view on a terminal, as lines elsewhere."""

    def __init__(self, context: Context, folder: Path, spider: str, workers: int) -> None:
        self._output = context.output
        self._has_picture = context.output.has_picture
        self._latest: deque[str] = deque(maxlen=LATEST)
        self._log = folder / "supervisor.log"
        self._draw: Any = None
        self._hint = LEAVE
        self._has_begun = False
        self.interval = PICTURE if self._has_picture else LINE
        self._output.say(
            f"{counted(workers, 'worker')} of spider {spider}. Their logs are in {os.path.relpath(folder)}"
        )

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Draw as long as the block lasts."""
        if not self._has_picture:
            if self._output.is_terminal:
                self._output.say(LEAVE)
            yield
            return
        with self._output.live(lambda: self._hint) as draw:
            self._draw = draw
            yield
        self._draw = None

    def say(self, text: str) -> None:
        """Show *text* as a message, and log it."""
        with self._log.open("a") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        if self._draw is None:
            self._output.say(text)
        else:
            self._latest.extend(text.split("\n"))

    def draw(self, supervisor: Supervisor, status: Status | str) -> None:
        """Show the progress of the crawl.

        :param status: how the crawl stands, or why Redis does not answer.
        """
        if supervisor.requests_to_end:
            self._hint = HURRY if supervisor.requests_to_end == 1 else ""
        if not isinstance(status, str):
            status = self._of_this_crawl(supervisor, status)
        if self._draw is not None:
            messages = [single_line(line) for line in self._latest]
            self._draw(Fields(pairs_of(supervisor, status)), *(["", *messages] if messages else []))
        elif isinstance(status, str):
            self._output.say(status)
        else:
            self._output.say(f"{time.strftime('%H:%M:%S')} {line_of(supervisor, status)}")

    def _of_this_crawl(self, supervisor: Supervisor, status: Status) -> Status:
        """Return *status* without the pages of a finished earlier crawl, until a worker has joined."""
        is_old = status.state == "finished" and not status.alive and not supervisor.reasons
        self._has_begun = self._has_begun or not is_old
        return status if self._has_begun else replace(status, state="new", pages=0)


def line_of(supervisor: Supervisor, status: Status) -> str:
    """Return how the crawl stands, in one line."""
    speed = [f"{rate(status.per_second)} a second"] if status.alive else []
    parts = [
        counted(status.pages, "page"),
        *speed,
        f"{number(status.waiting)} waiting",
        counted(supervisor.running, "worker"),
        counted(supervisor.errors, "error"),
    ]
    return ", ".join(parts) + ("" if status.limit == "none" else f", limited by {status.limit}")


def pairs_of(supervisor: Supervisor, status: Status | str) -> list[tuple[str, str]]:
    """Return the names and values of the live view."""
    workers = f"{supervisor.running} here"
    if isinstance(status, str):
        return [("Redis", Coloured(status, "red")), ("workers", workers)]
    elsewhere = status.alive - supervisor.running
    errors = number(supervisor.errors)
    left = time_left(status)
    is_removed = status.state == "finished" and not status.pages
    return [
        ("state", in_state(status.state)),
        *progress(status),
        # The keys of a finished crawl are removed.
        *([] if is_removed else [("pages", pages(status)), ("waiting", number(status.waiting))]),
        ("workers", workers + (f", {elsewhere} on other machines" if elsewhere > 0 else "")),
        ("errors", Coloured(errors, "red") if supervisor.errors else errors),
        *([("time left", left)] if left else []),
        *limit(status),
        *pace(status),
    ]


def last_word(spider: str, supervisor: Supervisor, seconds: float) -> str:
    """Return how the crawl has ended."""
    done = sum(stats.get("response_received_count", 0) for stats in supervisor.reports)
    reasons = set(supervisor.reasons)
    advice = ""
    failed_starts = supervisor.reasons.count(START_ERROR)
    if FINISHED in reasons:
        how = "is finished"
        if failed_starts:
            advice = (
                f". But start() raised an exception in {counted(failed_starts, 'worker')}, and ended early "
                "there: see the log"
            )
    elif supervisor.requests_to_end:
        how, advice = "was interrupted", ". The same command continues it"
    elif failed_starts and not supervisor.has_succeeded:
        how, advice = "has failed", ". start() raised an exception: see the log"
    else:
        how = f"has ended ({', '.join(sorted(reasons)) or 'no worker ran'})"
    pages_done = f"{counted(done, 'page')} on this machine, in {duration(seconds)}"
    return f"The crawl of spider {spider} {how}: {pages_done}{advice}"
