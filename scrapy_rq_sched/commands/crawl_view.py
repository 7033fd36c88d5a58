"""What ``scrapy frontier crawl`` shows: a picture on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..inspect import Status
from ..supervise.supervisor import FINISHED, Supervisor
from .action import Context
from .output import Fields, duration, number, rate, single_line, sparkline
from .status import LIMITS, lately, time_left

#: Seconds between two pictures on a terminal, and between two lines elsewhere.
PICTURE, LINE = 1.0, 10.0
#: What is shown of what happened last, in lines.
LATEST = 12


class Screen:
    """Where it is shown how the crawl goes: a picture on a terminal, lines elsewhere."""

    def __init__(self, context: Context, folder: Path, spider: str, workers: int) -> None:
        self._output = context.output
        self._has_picture = context.output.has_picture
        self._latest: deque[str] = deque(maxlen=LATEST)
        self._log = folder / "supervisor.log"
        self._draw: Any = None
        self.interval = PICTURE if self._has_picture else LINE
        noun = "worker" if workers == 1 else "workers"
        self._output.say(f"{workers} {noun} of spider {spider}. Their logs are in {os.path.relpath(folder)}")

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Draw as long as the block lasts."""
        if not self._has_picture:
            yield
            return
        with self._output.live() as draw:
            self._draw = draw
            yield
        self._draw = None

    def say(self, text: str) -> None:
        """Say *text* in its place, and keep it."""
        with self._log.open("a") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        if self._draw is None:
            self._output.say(text)
        else:
            self._latest.extend(text.split("\n"))

    def draw(self, supervisor: Supervisor, status: Status | str) -> None:
        """Show how it goes."""
        if self._draw is not None:
            pairs = _pairs(supervisor, status)
            self._draw(Fields(pairs), "", *(single_line(line) for line in self._latest))
        elif isinstance(status, str):
            self._output.say(status)
        else:
            limit = "" if status.limit == "none" else f", limited by {status.limit}"
            self._output.say(
                f"{time.strftime('%H:%M:%S')} {number(status.pages)} pages, {rate(status.per_second)} a "
                f"second, {number(status.waiting)} waiting, {supervisor.running} workers, "
                f"{supervisor.errors} errors{limit}"
            )


def _pairs(supervisor: Supervisor, status: Status | str) -> list[tuple[str, str]]:
    workers = f"{supervisor.running} here"
    if isinstance(status, str):
        return [("Redis", status), ("workers", workers)]
    elsewhere = status.alive - supervisor.running
    pairs = [
        ("state", status.state),
        ("pages", f"{number(status.pages)}, {rate(status.per_second)} a second"),
        ("waiting", number(status.waiting)),
        ("workers", workers + (f", {elsewhere} on other machines" if elsewhere > 0 else "")),
        ("errors", number(supervisor.errors)),
        ("time left", time_left(status)),
    ]
    if status.limit != "none":
        pairs.append(("limit", LIMITS[status.limit]))
    if status.history:
        pairs.append(("ten minutes", sparkline(lately(status))))
    return pairs


def last_word(spider: str, supervisor: Supervisor, seconds: float) -> str:
    """Return how the crawl has ended."""
    pages = number(sum(stats.get("response_received_count", 0) for stats in supervisor.reports))
    reasons = set(supervisor.reasons)
    if FINISHED in reasons:
        how = "is finished"
    elif supervisor.requests_to_end:
        how = "was interrupted. The same command goes on with it"
    else:
        how = f"has ended ({', '.join(sorted(reasons)) or 'no worker ran'})"
    return f"The crawl of spider {spider} {how}: {pages} pages on this machine, in {duration(seconds)}"
