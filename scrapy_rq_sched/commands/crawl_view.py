"""The display of ``scrapy frontier crawl``: a live view on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..inspect import Status
from ..inspect.wording import counted
from ..supervise.supervisor import Supervisor
from .action import Context
from .formats import number, rate
from .output import Fields, Part, Styled
from .states import in_state
from .status_text import items_and_errors, limit, pace, pages, progress, time_left

#: Seconds between two drawings on a terminal, and between two lines elsewhere.
REDRAW, LINE = 1.0, 10.0
#: How to leave.
LEAVE = "Ctrl-C: the workers finish the requests they have begun, and close. Twice: they close at once"


class Screen:
    """Shows the progress of the crawl: as a live view on a terminal, as lines elsewhere."""

    def __init__(self, context: Context, folder: Path, spider: str, workers: int) -> None:
        self._output = context.output
        self._log = folder / "supervisor.log"
        self._draw: Callable[..., None] = context.output.show
        self._has_begun = False
        self._log_problem = ""
        self.interval = REDRAW if self._output.redraws else LINE
        self._output.say(
            f"{counted(workers, 'worker')} of spider {spider}. Their logs are in {os.path.relpath(folder)}"
        )

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Draw as long as the block lasts."""
        with self._output.live(LEAVE) as self._draw:
            yield

    def say(self, text: str) -> None:
        """Print *text*, on a terminal above the live view, and log it, unless the disk is full."""
        try:
            with self._log.open("a") as log:
                log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        except OSError as error:
            if not self._log_problem:
                self._log_problem = f"{self._log} cannot be written: {error}"
                text = f"{text}\n{self._log_problem}"
        self._print(self._output.say, text)

    def _print(self, show: Callable[..., None], *parts: Part) -> None:
        try:
            show(*parts)
        except BrokenPipeError:
            raise  # nobody reads any more
        except OSError:
            # The output is a file on a full disk. There is no other place to say that.
            return

    def draw(self, supervisor: Supervisor, status: Status | str) -> None:
        """Show the progress of the crawl.

        :param status: how the crawl stands, or why Redis does not answer.
        """
        if not isinstance(status, str):
            status = self._of_this_crawl(supervisor, status)
        if self._output.redraws:
            self._print(self._draw, Fields(pairs_of(supervisor, status)))
        elif isinstance(status, str):
            self._print(self._output.say, status)
        else:
            self._print(self._output.say, f"{time.strftime('%H:%M:%S')} {line_of(supervisor, status)}")

    def _of_this_crawl(self, supervisor: Supervisor, status: Status) -> Status:
        """Return *status* without the pages of a finished earlier crawl, until a worker has joined."""
        is_old = status.state == "finished" and not status.alive and not supervisor.reasons
        self._has_begun = self._has_begun or not is_old
        return status if self._has_begun else replace(status, state="new", pages=0, items=0, errors=0)


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
        return [("Redis", Styled(status, "red")), ("workers", workers)]
    elsewhere = status.alive - supervisor.running
    # A worker's errors are in Redis with its next exchange, and its log is here at once.
    status = replace(status, errors=max(status.errors, supervisor.errors))
    items, errors = items_and_errors(status)
    left = time_left(status)
    is_removed = status.state == "finished" and not status.pages
    return [
        ("state", in_state(status.state)),
        *progress(status),
        # The keys of a finished crawl are removed.
        *([] if is_removed else [("pages", pages(status)), items, ("waiting", number(status.waiting))]),
        ("workers", workers + (f", {elsewhere} on other machines" if elsewhere > 0 else "")),
        errors,
        *([("time left", left)] if left else []),
        *limit(status),
        *pace(status),
    ]
