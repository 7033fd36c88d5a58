"""What the commands print: with rich on a terminal, plain text for pipes and where there is no rich."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.util import find_spec
from typing import Any, Protocol

from ..inspect import as_json

#: Whether the extra `cli` is installed. It is imported where it draws: every command of Scrapy's loads this.
HAS_RICH = find_spec("rich") is not None

_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    :param right: the headings whose column is one of numbers.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str] = field(default_factory=frozenset)

    def plain(self) -> str:
        """Return it as lines of text, one a row, as wide as they are."""
        lines = [self.headings, *([single_line(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[n]) for row in lines) for n in range(len(self.headings))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if heading in self.right else cell.ljust(width)
                for cell, width, heading in zip(row, widths, self.headings, strict=True)
            ).rstrip()
            for row in lines
        )

    def __rich__(self) -> Any:
        """Return it as rich draws it."""
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in self.headings:
            drawn.add_column(
                heading,
                justify="right" if heading in self.right else "left",
                overflow="fold",
                header_style="bold",
            )
        for row in self.rows:
            # What is in Redis is text, whatever it looks like to rich.
            drawn.add_row(*(Text(single_line(cell)) for cell in row))
        return drawn


@dataclass(frozen=True)
class Fields:
    """Names and values, one a line; a value may have several."""

    pairs: Sequence[tuple[str, str]]

    def plain(self) -> str:
        """Return it as lines of text."""
        width = max(len(name) for name, _ in self.pairs)
        return "\n".join(
            f"{name.ljust(width)}  {value}".replace("\n", "\n" + " " * (width + 2)).rstrip()
            for name, value in self.pairs
        )

    def __rich__(self) -> Any:
        """Return it as rich draws it."""
        from rich.table import Table
        from rich.text import Text

        drawn = Table.grid(padding=(0, 2, 0, 0))
        drawn.add_column(style="bold", no_wrap=True)
        drawn.add_column(overflow="fold")
        for name, value in self.pairs:
            drawn.add_row(name, Text(printable(value)))
        return drawn


class Bar(Protocol):
    """A progress bar."""

    def advance(self, count: int) -> None:
        """Note that *count* more are done."""


class _NoBar:
    def advance(self, count: int) -> None:
        """Show nothing."""


class _RichBar:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress = progress
        self._task = task

    def advance(self, count: int) -> None:
        """Show that *count* more are done."""
        self._progress.advance(self._task, count)


class Output:
    """Where the commands print."""

    def __init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # else somebody has put another in its place
                # What its encoding lacks is written as an escape, not refused.
                stream.reconfigure(errors="backslashreplace")
        self.is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._console: Any = None
        if HAS_RICH and self.is_terminal:
            from rich.console import Console

            self._console = Console(highlight=False, markup=False, emoji=False)

    @property
    def has_picture(self) -> bool:
        """Whether :meth:`live` draws at the same place again and again."""
        return self._console is not None

    def say(self, text: str) -> None:
        """Print *text*, as it is."""
        sys.stdout.write(printable(text) + "\n")
        sys.stdout.flush()

    def show(self, *parts: Table | Fields | str) -> None:
        """Print tables, fields and lines."""
        for part in parts:
            if self._console is not None and not isinstance(part, str):
                self._console.print(part)
            else:
                self.say(part if isinstance(part, str) else part.plain())

    def json(self, value: Any) -> None:
        """Print *value* as JSON, on one line, in ASCII."""
        sys.stdout.write(as_json.dump(value) + "\n")
        sys.stdout.flush()

    def warn(self, text: str) -> None:
        """Print *text* to the standard error, in one line."""
        sys.stderr.write(f"scrapy frontier: {single_line(text)}\n")
        sys.stderr.flush()

    def confirm(self, question: str) -> bool:
        """Ask *question* on the terminal, and return whether the answer is yes."""
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def live(self) -> Iterator[Any]:
        """Give a function that draws parts again and again, at the same place of a terminal.

        Without one, or without rich, it prints them below each other.
        """
        if self._console is None:
            yield self.show
            return
        from rich.console import Group
        from rich.live import Live
        from rich.text import Text

        with Live(console=self._console, auto_refresh=False) as drawn:
            yield lambda *parts: drawn.update(
                Group(*(Text(printable(part)) if isinstance(part, str) else part for part in parts)),
                refresh=True,
            )

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Bar]:
        """Give a progress bar of *total* steps, on the standard error, if that is a terminal."""
        if not (HAS_RICH and sys.stderr.isatty()):
            yield _NoBar()
            return
        from rich import progress as bars
        from rich.console import Console

        columns = (
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
        )
        with bars.Progress(*columns, console=Console(stderr=True)) as progress:
            yield _RichBar(progress, progress.add_task(what, total=total))


def printable(text: str, kept: str = "\n\t") -> str:
    """Return *text* without what would steer a terminal, but for *kept*: it may come from Redis."""
    return "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)


def single_line(text: str) -> str:
    """Return *text* in one line: what comes from Redis writes no line of its own."""
    return printable(text, kept="")


def number(count: float) -> str:
    """Return *count* with its thousands apart."""
    return f"{count:,.0f}"


def rate(per_second: float) -> str:
    """Return a rate with as many digits as it is known to."""
    return number(per_second) if per_second >= 100 else f"{per_second:.1f}"


def size(count: float | None) -> str:
    """Return *count* bytes as people say it."""
    if count is None:
        return "unknown"
    units = ["TB", "GB", "MB", "kB", "B"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        units.pop()
    unit = units[-1]
    return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"


def duration(seconds: float) -> str:
    """Return for how long *seconds* are, in its two largest units."""
    seconds = max(0, round(seconds))
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    parts: list[tuple[int, str]] = []
    for unit, length in units:
        count, seconds = divmod(seconds, length)
        if count or parts or unit == "s":
            parts.append((count, unit))
    shown = [f"{count} {unit}" for count, unit in parts[:2] if count]
    return " ".join(shown) or "0 s"


def when(second: float) -> str:
    """Return a moment, given in seconds since 1970, in the time of this machine."""
    try:
        moment = datetime.fromtimestamp(second, timezone.utc).astimezone()
    except (ValueError, OverflowError, OSError):  # what somebody else has written there is no time
        return "-"
    return moment.strftime("%Y-%m-%d %H:%M:%S") if second else "-"


def sparkline(values: Iterable[float]) -> str:
    """Return *values* as a line of blocks, the highest as high as a line is."""
    values = list(values)
    highest = max(values, default=0) or 1
    return "".join(_BLOCKS[min(7, int(8 * value / highest))] if value else " " for value in values)
