"""Print tables, fields and messages: in colour on a terminal that has rich, else as plain text."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol

from ..inspect import as_json
from ..inspect.wording import counted
from .formats import printable, single_line
from .layout import Entry, Fields, Line, Table, cells, colour_of, plain, wrap

#: Whether the extra `cli` is installed. It is imported late, since every Scrapy command loads this module.
HAS_RICH = find_spec("rich") is not None
#: A suggested command at the end of a message: it stays whole, so that it can be copied.
_COMMAND = re.compile(r"(?<=[:.]) (?=scrapy (?:frontier|crawl) )")

Part = Table | Fields | Entry | str


class Bar(Protocol):
    """A progress bar."""

    def advance(self, count: int) -> None:
        """Add *count* finished steps."""


class _NoBar:
    def advance(self, count: int) -> None:
        """Show nothing."""


class _RichBar:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress = progress
        self._task = task

    def advance(self, count: int) -> None:
        """Add *count* finished steps."""
        self._progress.advance(self._task, count)


class Output:
    """Print the output of a command.

    :ivar width: columns of the terminal; None if standard output is not one, where lines are not broken.
    """

    def __init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # else somebody has replaced it
                # A character that the encoding lacks is escaped instead of refused.
                stream.reconfigure(errors="backslashreplace")
        self.is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self.width = _columns() if self.is_terminal else None
        self._console: Any = None
        if HAS_RICH and self.is_terminal:
            from rich.console import Console

            console = Console(highlight=False, markup=False, emoji=False, width=self.width)
            # A dumb terminal cannot redraw a line.
            self._console = None if console.is_dumb_terminal else console
        self._has_colours = not os.environ.get("NO_COLOR")

    @property
    def has_picture(self) -> bool:
        """Whether :meth:`live` redraws the same place."""
        return self._console is not None

    def say(self, text: str) -> None:
        """Print *text*: on a terminal broken between words, with a suggested command on a line of its own."""
        self._write("\n".join(message_lines(printable(text), self.width)))

    def print(self, text: str) -> None:
        """Print *text* as it is: no line is broken, so that it can be copied."""
        self._write(printable(text))

    def _write(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def show(self, *parts: Part) -> None:
        """Print tables, fields and messages."""
        for part in parts:
            if isinstance(part, str):
                self.say(part)
            elif self._console is not None:
                self._console.print(self._drawn(part.lines(self.width)), soft_wrap=True)
            else:
                self._write("\n".join(map(plain, part.lines(self.width))))

    def json(self, value: Any) -> None:
        """Print *value* as JSON, on a line."""
        self._write(as_json.dump(value))

    def warn(self, text: str) -> None:
        """Print *text* to standard error: one line, which is broken between words on a terminal."""
        width = _columns() if sys.stderr.isatty() else None
        sys.stderr.write("\n".join(message_lines(f"scrapy frontier: {single_line(text)}", width)) + "\n")
        sys.stderr.flush()

    def confirm(self, question: str) -> bool:
        """Ask *question* on the terminal, and return whether the answer is yes."""
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def live(self, hint: Callable[[], str], redraws: bool = True) -> Iterator[Any]:
        """Give a function that redraws parts at the same place of a terminal.

        Without a terminal, or without rich, it prints them below each other.

        A terminal that is too low shows the first part, and the end of the others.

        :param hint: returns how to leave, which a terminal shows in the last line.
        :param redraws: false for JSON, which is printed as it is.
        """
        if self._console is None or not redraws:
            if self.is_terminal and redraws:
                self.say(f"{hint()}\n")
            yield self._show_with_a_gap
            return
        from rich.live import Live

        head, tail = list[Line](), list[Line]()
        with Live(console=self._console, auto_refresh=False) as live:

            def draw(*parts: Part) -> None:
                width, height = self._resize()
                head[:] = _lines_of(parts[0], width) if parts else []
                tail[:] = [line for part in parts[1:] for line in _lines_of(part, width)]
                hints: list[Line] = [[], *([part] for part in wrap(hint(), width))]
                shown = _cropped(head, tail, height - len(hints) - 1)
                live.update(self._drawn([*shown, *hints]), refresh=True)

            try:
                yield draw
            finally:
                live.update(self._drawn(_cropped(head, tail, self._resize()[1] - 2)), refresh=True)

    def _resize(self) -> tuple[int, int]:
        self.width, height = _columns(), shutil.get_terminal_size().lines
        self._console.width = self.width
        return self.width, height

    def _drawn(self, lines: list[Line]) -> Any:
        """Return *lines* for rich, which must not interpret the text: it may come from Redis."""
        from rich.text import Text

        drawn = [
            Text.assemble(*((str(text), colour_of(text) if self._has_colours else "") for text in line))
            for line in lines
        ]
        return Text("\n", no_wrap=True, overflow="ignore").join(drawn)

    def _show_with_a_gap(self, *parts: Part) -> None:
        self.show(*parts)
        if self.is_terminal:
            self.say("")

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Bar]:
        """Give a progress bar of *total* steps, on standard error, if that is a terminal."""
        if not (HAS_RICH and sys.stderr.isatty()):
            yield _NoBar()
            return
        from rich import progress as bars
        from rich.console import Console

        columns = (
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            *([bars.TextColumn("{task.completed}")] if total is None else [bars.MofNCompleteColumn()]),
            *([] if total is None else [bars.TimeRemainingColumn()]),
        )
        with bars.Progress(*columns, console=Console(stderr=True)) as progress:
            yield _RichBar(progress, progress.add_task(what, total=total))


def message_lines(text: str, width: int | None) -> list[str]:
    """Return a message in lines; the line of a suggested command is never broken."""
    lines = text.split("\n")
    if width is None:
        return lines
    found = list[str]()
    for line in lines:
        prose, *commands = _COMMAND.split(line) if cells(line) > width else [line]
        found += wrap(prose, width, folds=False)
        found += [f"  {command}" for command in commands]
    return found


def _lines_of(part: Part, width: int) -> list[Line]:
    if isinstance(part, str):
        return [[line] for text in printable(part).split("\n") for line in wrap(text, width)]
    return part.lines(width)


def _cropped(head: list[Line], tail: list[Line], most: int) -> list[Line]:
    """Return at most *most* lines: those of *head*, and the last of *tail*, where the news are."""
    if len(head) + len(tail) <= max(1, most):
        return head + tail
    begin = head[: max(1, most - 1)]
    end = tail[len(tail) - max(0, most - 1 - len(begin)) :]
    left_out = len(head) + len(tail) - len(begin) - len(end)
    return [*begin, [f"… {counted(left_out, 'line')} left out: the terminal is too low"], *end]


def _columns() -> int:
    """Return the width of the terminal."""
    return max(20, shutil.get_terminal_size().columns)
