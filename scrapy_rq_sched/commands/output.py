"""The output of the commands: drawn by rich on a terminal if rich is installed, else plain columns."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ..errors import escaped
from ..inspect import as_json

#: Whether the extra `cli` is installed. It is imported late, since every Scrapy command loads this module.
HAS_RICH = find_spec("rich") is not None


class Styled(str):
    """A text with a colour, and possibly a bar before it. Only a terminal shows them.

    :ivar style: a style of rich, such as ``red`` or ``bold``.
    :ivar share: the part of the bar that is filled, from 0 to 1; None: there is no bar.
    """

    style = ""
    share: float | None = None

    def __new__(cls, text: str, style: str, share: float | None = None) -> Styled:
        """Return *text* with *style*."""
        made = super().__new__(cls, text)
        made.style, made.share = style, share
        return made


@dataclass(frozen=True)
class Table:
    """Rows below headings. Each row is one line, except on a terminal.

    :param texts: the headings of columns with long texts. A terminal may break them anywhere.
    :param dispensable: the headings of the columns that a narrow terminal leaves out, in this order.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: Sequence[str] = ()
    dispensable: Sequence[str] = ()


@dataclass(frozen=True)
class Fields:
    """Names and values, one below the other; a value may have several lines."""

    pairs: Sequence[tuple[str, str]]


Part = Table | Fields | str


def plain(part: Part) -> str:
    """Return *part* in columns that are aligned at the left and two spaces apart."""
    if isinstance(part, str):
        return escaped(part, "\n\t")
    if isinstance(part, Table):
        rows = [part.headings, *([escaped(cell) for cell in row] for row in part.rows)]
    else:
        rows = [
            ["" if number else escaped(name), line]
            for name, value in part.pairs
            for number, line in enumerate(escaped(value, "\n\t").split("\n"))
        ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


class Output:
    """Print the output of a command. What comes from Redis is escaped, so that it cannot steer a terminal."""

    def __init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # else somebody has replaced it
                # A character that the encoding lacks is escaped instead of refused.
                stream.reconfigure(errors="backslashreplace")
        self._is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._terminal: Any = None
        if HAS_RICH and self._is_terminal:
            from .terminal import Terminal

            terminal = Terminal()
            self._terminal = None if terminal.is_dumb else terminal

    @property
    def redraws(self) -> bool:
        """Whether :meth:`live` redraws the same place."""
        return self._terminal is not None

    def say(self, text: str) -> None:
        """Print *text*."""
        self.show(text)

    def show(self, *parts: Part) -> None:
        """Print tables, fields and messages."""
        for part in parts:
            if self._terminal is None:
                self._write(plain(part))
            else:
                self._terminal.print(part)

    def _write(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def json(self, value: Any) -> None:
        """Print *value* as JSON, on a line."""
        self._write(as_json.dump(value))

    def warn(self, text: str) -> None:
        """Print *text* to standard error, as one line."""
        sys.stderr.write(f"scrapy frontier: {escaped(text)}\n")
        sys.stderr.flush()

    def confirm(self, question: str) -> bool:
        """Ask *question* on the terminal, and return whether the answer is yes."""
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def live(self, hint: str, redraws: bool = True) -> Iterator[Callable[..., None]]:
        """Give a function that redraws parts at the same place of a terminal.

        Without a terminal, or without rich, it prints them below each other.

        :param hint: how to leave, for a terminal.
        :param redraws: false for JSON, which is printed as it is.
        """
        if not redraws or not self._is_terminal:
            yield self.show
        elif self._terminal is None:
            self.show(hint, "")
            yield lambda *parts: self.show(*parts, "")
        else:
            with self._terminal.live(hint) as draw:
                yield draw

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Give a function that adds finished steps to a progress bar of *total* steps.

        The bar is on standard error, if that is a terminal and rich is installed.
        """
        if not (HAS_RICH and sys.stderr.isatty()):
            yield lambda count: None
            return
        from .terminal import progress

        with progress(label, total) as advance:
            yield advance
