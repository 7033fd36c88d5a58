"""Drawing on a terminal, by rich. Only the output imports this module, if rich is installed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from rich import progress as bars
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from ..errors import escaped
from .output import Part, Styled, Table

#: The least width of a column of long texts.
LEAST_TEXT = 24
#: Characters of the bar before a text.
BAR_WIDTH = 30
#: A column of numbers is aligned at the right.
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?")
#: Where a message suggests a command.
_COMMAND = re.compile(r"(?<=[:.]) (?=scrapy (?:frontier|crawl) )")


class Terminal:
    """Standard output, which is a terminal."""

    def __init__(self) -> None:
        self._console = _console()
        self.is_dumb = self._console.is_dumb_terminal

    def print(self, part: Part) -> None:
        """Print *part*. A message with a link, and a suggested command, stay whole, to be copied."""
        if not isinstance(part, str):
            self._console.print(self._drawn(part))
            return
        prose, *commands = _COMMAND.split(part)
        style = getattr(part, "style", "")
        self._console.print(_text(prose, "\n\t"), style=style, soft_wrap="://" in prose)
        for command in commands:
            self._console.print(_text(f"  {command}"), soft_wrap=True)

    @contextmanager
    def live(self, hint: str) -> Iterator[Callable[..., None]]:
        """Give a function that draws parts at the same place, below *hint*. The last parts stay."""
        shown: RenderableType = ""
        with Live(console=self._console, auto_refresh=False) as live:

            def draw(*parts: Part) -> None:
                nonlocal shown
                shown = Group(*map(self._drawn, parts))
                live.update(Group(_text(hint), "", shown), refresh=True)

            try:
                yield draw
            finally:
                live.update(shown)

    def _drawn(self, part: Part) -> RenderableType:
        if isinstance(part, str):
            return _text(part, "\n\t")
        return self._table(part) if isinstance(part, Table) else _fields(part.pairs)

    def _table(self, table: Table) -> RenderableType:
        """Return *table*, without dispensable columns if need be; or each of its rows as a list of fields."""
        boundless = self._console.options.update_width(sys.maxsize)
        kept = list(range(len(table.headings)))
        for left_out in ("", *table.dispensable):
            kept = [n for n in kept if table.headings[n] != left_out]
            narrowest = _grid(table, kept, LEAST_TEXT)
            if self._console.measure(narrowest, options=boundless).maximum <= self._console.width:
                return _grid(table, kept)
        names = [heading.lower() for heading in table.headings]
        return Group(*(Group(_fields(zip(names, row, strict=True), kept=""), "") for row in table.rows))


def _console(stderr: bool = False) -> Console:
    no_color = os.environ.get("NO_COLOR")
    return Console(
        stderr=stderr, markup=False, emoji=False, highlight=False, color_system=None if no_color else "auto"
    )


def _text(text: str, kept: str = "") -> Text:
    """Return *text*, which may come from Redis: its markup and its escapes have no effect."""
    return Text(escaped(text, kept), getattr(text, "style", ""))


def _grid(table: Table, columns: list[int], most_text: int | None = None) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for n in columns:
        is_text = table.headings[n] in table.texts
        cells = [row[n] for row in table.rows if row[n] != "-"]
        is_number = bool(cells) and all(map(_NUMBER.fullmatch, cells))
        grid.add_column(
            table.headings[n],
            justify="right" if is_number else "left",
            overflow="fold",
            no_wrap=not is_text,
            max_width=most_text if is_text else None,
        )
    for row in table.rows:
        grid.add_row(*(_text(row[n]) for n in columns))
    return grid


def _fields(pairs: Iterable[tuple[str, str]], kept: str = "\n\t") -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        text: RenderableType = _text(value, kept)
        if isinstance(value, Styled) and value.share is not None:
            line = Grid.grid(padding=(0, 2, 0, 0))
            line.add_row(ProgressBar(1, value.share, BAR_WIDTH, complete_style=value.style), text)
            text = line
        grid.add_row(_text(name), text)
    return grid


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Give a function that adds finished steps to a progress bar on standard error."""
    columns = (
        "{task.description}",
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=_console(stderr=True)) as shown:
        yield partial(shown.advance, shown.add_task(label, total=total))
