"""The display of ``scrapy frontier crawl``: a live view on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import socket
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
from .watch import Absence

#: Seconds between two drawings on a terminal, and between two lines elsewhere.
REDRAW, LINE = 1.0, 10.0
#: The states of a crawl that begins no page because an operator has said so.
_HELD_UP = ("paused", "draining", "stopping")
#: How to leave.
LEAVE = "Ctrl-C: the workers finish the requests they have begun, and close. Twice: they close at once"


class Screen:
    """Shows the progress of the crawl: as a live view on a terminal, as lines elsewhere."""

    def __init__(self, context: Context, folder: Path, spider: str, workers: int) -> None:
        self._output = context.output
        self._log = folder / "supervisor.log"
        self._draw: Callable[..., None] = context.output.show
        self._has_begun = False
        self._last: Status | None = None
        self._absence = Absence()
        self._log_problem = ""
        self.interval = REDRAW if self._output.redraws else LINE
        logs = "Its log is" if workers == 1 else "Their logs are"
        self._output.say(
            f"{counted(workers, 'worker')} of spider {spider}. {logs} in {os.path.relpath(folder)}"
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

        :param status: how the crawl stands, or why Redis does not answer: then the last progress stays.
        """
        away = ""
        if isinstance(status, str):
            away = self._absence.text(status)
        else:
            self._absence.over()
            self._last = self._of_this_crawl(supervisor, status)
        if self._output.redraws:
            pairs = [("workers", _here(supervisor))]
            if self._last is not None:
                pairs = pairs_of(supervisor, self._last)
            self._print(self._draw, Fields(pairs + ([("Redis", away)] if away else [])))
            return
        line = f"Redis is {away}"
        if not away and self._last is not None:
            line = line_of(supervisor, self._last)
        self._print(self._output.say, f"{time.strftime('%H:%M:%S')} {line}")

    def _of_this_crawl(self, supervisor: Supervisor, status: Status) -> Status:
        """Return *status* without the pages of a finished earlier crawl, until a worker has joined."""
        is_old = status.state == "finished" and not status.alive and not supervisor.reasons
        self._has_begun = self._has_begun or not is_old
        if not self._has_begun:
            return replace(status, state="new", pages=0, items=0, errors=0)
        if status.state != "finished" or status.pages:
            return status
        # The keys of a finished crawl are removed.
        last = (status.last_crawl if supervisor.is_finished else None) or self._last
        if last is None:
            return status
        return replace(status, pages=last.pages, items=last.items, errors=last.errors)


def line_of(supervisor: Supervisor, status: Status) -> str:
    """Return how the crawl stands, in one line."""
    speed = [f"{rate(status.per_second)} a second"] if status.alive else []
    parts = [
        *([status.state] if status.state in _HELD_UP else []),
        counted(status.pages, "page"),
        *speed,
        f"{number(status.waiting)} waiting",
        counted(supervisor.running, "worker"),
        counted(supervisor.errors, "error"),
    ]
    return ", ".join(parts) + ("" if status.limit == "none" else f", limited by {status.limit}")


def pairs_of(supervisor: Supervisor, status: Status) -> list[tuple[str, str]]:
    """Return the names and values of the live view."""
    # A worker that has died or leaves counts as alive for a moment: it is not on another machine for that.
    here = socket.gethostname()
    elsewhere = sum(worker.alive and worker.host not in ("", here) for worker in status.workers)
    # A worker's errors are in Redis with its next exchange, and its log is here at once.
    status = replace(status, errors=max(status.errors, supervisor.errors))
    items, errors = items_and_errors(status)
    left = time_left(status)
    is_removed = status.state == "finished" and not status.pages
    return [
        ("state", in_state(status.state)),
        *(_all_done(status) if status.state == "finished" else progress(status)),
        # The keys of a finished crawl are removed.
        *([] if is_removed else [("pages", pages(status)), items, ("waiting", number(status.waiting))]),
        ("workers", _here(supervisor) + (f", {elsewhere} on other machines" if elsewhere > 0 else "")),
        errors,
        *([("time left", left)] if left else []),
        *limit(status),
        *pace(status),
    ]


def _here(supervisor: Supervisor) -> str:
    return f"{supervisor.running} here"


def _all_done(status: Status) -> list[tuple[str, str]]:
    if not status.pages:
        return []
    return [("progress", Styled(f"100 % of {counted(status.pages, 'known request')}", "green", 1.0))]
