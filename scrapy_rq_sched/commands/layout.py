"""Tables and lists of fields that fit the width of a terminal, without cutting a name or an id."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .formats import printable, single_line

#: Spaces between two columns, and before a line that continues a row.
GAP, INDENT = 2, 2
#: Columns that a text must have beside its row. With fewer, it stands below the row.
LEAST_TEXT = 24


class Coloured(str):
    """A text with a colour, which has an effect on a terminal only.

    :ivar colour: a style of rich, such as ``red`` or ``bold``.
    """

    colour = ""

    def __new__(cls, text: str, colour: str) -> Coloured:
        """Return *text* with *colour*."""
        made = super().__new__(cls, text)
        made.colour = colour
        return made


#: A line is a list of texts, some of which have a colour.
Line = list[str]


def colour_of(text: str) -> str:
    """Return the colour of *text*; empty if it has none."""
    return text.colour if isinstance(text, Coloured) else ""


def recoloured(text: str, like: str) -> str:
    """Return *text* in the colour of *like*."""
    return Coloured(text, like.colour) if isinstance(like, Coloured) else text


def cells(text: str) -> int:
    """Return how many columns of a terminal *text* takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def wrap(text: str, width: int, folds: bool = True) -> list[str]:
    """Return *text* in lines of at most *width* columns, broken between words and indented as the first.

    :param folds: whether a word that is wider than a line is broken too, or else left to the terminal.
    """
    if cells(text) <= width:
        return [text]
    stripped = text.lstrip(" ")
    margin = " " * min(len(text) - len(stripped), width // 2)
    lines, line = list[str](), margin
    for word in stripped.split(" "):
        joined = f"{line} {word}" if line.strip() else margin + word
        if cells(joined) <= width:
            line = joined
            continue
        if line.strip():
            lines.append(line)
        *whole, rest = _folded(word, width - len(margin)) if folds else [word]
        lines += [margin + part for part in whole]
        line = margin + rest
    return [*lines, line]


def _folded(word: str, width: int) -> list[str]:
    parts, part = list[str](), ""
    for character in word:
        if cells(part + character) > width and part:
            parts.append(part)
            part = ""
        part += character
    return [*parts, part]


def _widest_word(text: str) -> int:
    return max((cells(word) for word in text.split()), default=0)


class Column(NamedTuple):
    """A column of a table.

    :param right: whether its cells are numbers, which stand at the right.
    :param dispensable: the columns with the highest number are left out first on a narrow terminal; 0: never.
    :param is_text: whether its cells are long texts. They come last, and stand below the row if need be.
    """

    heading: str
    right: bool = False
    dispensable: int = 0
    is_text: bool = False


@dataclass(frozen=True)
class Table:
    """Rows below headings.

    On a terminal that is too narrow, texts stand below their row, then dispensable columns are left out, then
    the first column gets a line of its own, and at last each row becomes a list of fields.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    def lines(self, width: int | None = None) -> list[Line]:
        """Return its lines, which have at most *width* columns; None: each row is one line."""
        rows = [[recoloured(single_line(cell), cell) for cell in row] for row in self.rows]
        columns = list(range(len(self.columns)))
        natural = [max(cells(self.columns[n].heading), *(cells(row[n]) for row in rows), 0) for n in columns]
        texts = [n for n in columns if self.columns[n].is_text]
        fixed = [n for n in columns if n not in texts]
        headings = [Coloured(column.heading, "bold") for column in self.columns]
        table: list[Sequence[str]] = [headings, *rows]
        if width is None:
            return [self._row(row, columns, natural) for row in table]
        first, *others = fixed
        kept = self._fitting(fixed, natural, width)
        if kept:
            return [line for row in table for line in self._with_texts(row, kept, texts, natural, width)]
        kept = self._fitting(others, natural, width - INDENT)
        if kept:
            return [line for row in table for line in self._stacked(row, first, kept, texts, natural, width)]
        names = [column.heading.lower() for column in self.columns]
        parts = [Fields(list(zip(names, row, strict=True))).lines(width) for row in rows]
        return [line for part in parts for line in (*part, [])][:-1]

    def _fitting(self, columns: Sequence[int], natural: list[int], width: int) -> list[int]:
        """Return *columns*, without dispensable ones if they do not fit into *width*; none if they cannot."""
        kept = list(columns)
        while kept and sum(natural[n] for n in kept) + GAP * (len(kept) - 1) > width:
            least = max(kept, key=lambda n: self.columns[n].dispensable)
            if not self.columns[least].dispensable:
                return []
            kept.remove(least)
        return kept

    def _row(self, row: Sequence[str], columns: Sequence[int], natural: list[int]) -> Line:
        line: Line = []
        for n in columns:
            space = " " * (natural[n] - cells(row[n]))
            is_last = n == columns[-1]
            line.append(" " * GAP if line else "")
            line += [space, row[n]] if self.columns[n].right else [row[n], "" if is_last else space]
        return [text for text in line if text]

    def _with_texts(
        self, row: Sequence[str], kept: list[int], texts: list[int], natural: list[int], width: int
    ) -> list[Line]:
        room = width - sum(natural[n] for n in kept) - GAP * len(kept)
        fits = bool(texts) and sum(natural[n] for n in texts) + GAP * (len(texts) - 1) <= room
        if fits or (len(texts) == 1 and room >= LEAST_TEXT and cells(row[texts[0]]) <= room):
            return [self._row(row, [*kept, *texts], natural)]
        return [self._row(row, kept, natural), *self._below(row, texts, width)]

    def _stacked(
        self,
        row: Sequence[str],
        first: int,
        kept: list[int],
        texts: list[int],
        natural: list[int],
        width: int,
    ) -> list[Line]:
        named: list[Line] = [[recoloured(part, row[first])] for part in wrap(row[first], width)]
        return [*named, [" " * INDENT, *self._row(row, kept, natural)], *self._below(row, texts, width)]

    @staticmethod
    def _below(row: Sequence[str], texts: Iterable[int], width: int) -> list[Line]:
        return [
            [" " * INDENT, recoloured(part, row[n])] for n in texts for part in wrap(row[n], width - INDENT)
        ]


@dataclass(frozen=True)
class Fields:
    """Names and values, one below the other; a value may have several lines."""

    pairs: Sequence[tuple[str, str]]

    def lines(self, width: int | None = None) -> list[Line]:
        """Return its lines, which have at most *width* columns; None: no line is broken."""
        margin = max((cells(name) for name, _ in self.pairs), default=0) + GAP
        return [line for name, value in self.pairs for line in self._pair(name, value, margin, width)]

    @staticmethod
    def _pair(name: str, value: str, margin: int, width: int | None) -> list[Line]:
        text = printable(value).expandtabs(4)
        heading = name if isinstance(name, Coloured) else Coloured(name, "bold")
        if width is not None and width - margin < _widest_word(text) <= width - INDENT:
            # A name or an id stays whole below its heading.
            below = [part for line in text.split("\n") for part in wrap(line, width - INDENT)]
            return [[heading], *([" " * INDENT, recoloured(part, value)] for part in below)]
        room = None if width is None else max(1, width - margin)
        parts = [part for line in text.split("\n") for part in ([line] if room is None else wrap(line, room))]
        rows = [[heading, " " * (margin - cells(name))], *([" " * margin] for _ in parts[1:])]
        return [
            [*row, recoloured(part, value)] if part else [heading] if row[0] is heading else []
            for row, part in zip(rows, parts, strict=True)
        ]


@dataclass(frozen=True)
class Entry:
    """A line of a log: short cells, and a text that is broken between words in its column."""

    cells: Sequence[str]

    def lines(self, width: int | None = None) -> list[Line]:
        """Return its lines, which have at most *width* columns; None: it is one line."""
        *fixed, text = [recoloured(single_line(cell), cell) for cell in self.cells]
        gap = " " * GAP
        margin = sum(cells(cell) + GAP for cell in fixed)
        head: Line = [part for cell in fixed for part in (cell, gap)]
        if width is None:
            return [[*head, text]]
        if width - margin < max(LEAST_TEXT, min(_widest_word(text), width - INDENT)):
            return [head, *([" " * INDENT, part] for part in wrap(text, width - INDENT))]
        first, *others = wrap(text, width - margin)
        return [[*head, first], *([" " * margin, part] for part in others)]


def plain(line: Line) -> str:
    """Return *line* without its colours."""
    return "".join(line).rstrip()
