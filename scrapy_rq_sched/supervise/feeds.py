"""One file of items from several workers: each process writes a part, and the parts are joined at the end.

A part is written without a buffer (:class:`scrapy_rq_sched.feeds.PartStorage`): an item is in it before its
page is released. What is there of a process that was killed counts up to the last whole line.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote, urlparse

from ..errors import FrontierError, SettingError
from ..feeds import PART_SCHEME
from .worker_process import is_alive

#: What stores a part.
STORAGE = "scrapy_rq_sched.feeds.PartStorage"
#: How a format is joined: line by line, or as a table.
_LINES, _TABLES = ("jsonlines", "jsonl", "jl"), ("csv",)
#: Bytes that are read at a time.
CHUNK = 1 << 20
#: This machine, in the names of parts: a folder may be shared by several.
_HOST = re.sub(r"[^A-Za-z0-9]+", "_", socket.gethostname()) or "host"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


class Feed:
    """A file that all workers write together.

    :param path: where it is to be in the end.
    :param format_: Scrapy's name of its format.
    :param folder: where the parts are until then.
    :param encoding: of a table.
    :ivar replaces: whether what is there before is replaced at the end, and not appended to.
    :raises SettingError: if the items of several workers cannot be put together in this way.
    """

    def __init__(self, path: str, format_: str, folder: Path, encoding: str = "utf-8") -> None:
        if format_ not in (*_LINES, *_TABLES):
            raise SettingError(
                f"-o {path}: the parts of several workers cannot be joined as {format_}. Write JSON lines "
                f"({Path(path).stem}.jsonl) or CSV"
            )
        self.path = Path(path).resolve()
        self._format = format_
        name = hashlib.sha1(os.fsencode(self.path), usedforsecurity=False).hexdigest()[:12]
        self._folder = folder / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._is_table = format_ in _TABLES
        self._encoding = encoding
        self.replaces = False

    def option(self, process: str) -> str:
        """Return what ``-o`` is for the process of this name: no two have the same."""
        path = quote(str(self._folder / f"{_HOST}.{os.getpid()}-{process}"))
        # Scrapy puts values into it where there is a %.
        return f"{PART_SCHEME}://{path}:{self._format}".replace("%", "%%")

    def forget_parts(self) -> None:
        """Delete what a supervisor that was killed has left: it is of a crawl that is over."""
        for part in self._parts():
            part.unlink()

    def join(self) -> int:
        """Put what the parts have into the file, and return how many items that are.

        Parts of a supervisor of this machine that was killed belong to it as well; not those of one that is
        still at it, nor of one of another machine.

        :raises FrontierError: if one cannot be read, or the file not be written; what is not joined stays.
        """
        count = 0
        part = self._folder
        # A field of a table may be a whole page. Only here: every command of Scrapy's loads this module.
        csv.field_size_limit(2**31 - 1)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.replaces:
                self.path.unlink(missing_ok=True)
                self.path.touch()
            _end_line(self.path)
            for part in self._parts():
                count += self._join_table(part) if self._is_table else self._join_lines(part)
                part.unlink()
        except (OSError, UnicodeError, csv.Error) as error:
            raise FrontierError(
                f"The items could not all be written to {self.path}: {error}. The rest is kept, the first in "
                f"{part}; the next crawl with this file joins it"
            ) from error
        return count

    def _parts(self) -> Iterator[Path]:
        for part in sorted(self._folder.iterdir()):
            host, _, process = part.name.rpartition("-worker-")[0].rpartition(".")
            is_own = process == str(os.getpid())
            if host == _HOST and process.isdigit() and (is_own or not is_alive(int(process))):
                yield part

    def _join_lines(self, part: Path) -> int:
        count = 0
        with part.open("rb") as source, self.path.open("ab") as target:
            for line in source:
                if line.endswith(b"\n"):
                    target.write(line)
                    count += 1
        return count

    def _join_table(self, part: Path) -> int:
        rows = _rows(part, self._encoding, not _is_torn(part))
        header = next(rows, [])
        if not header:
            return 0
        there = next(_rows(self.path, self._encoding), []) if self.path.exists() else []
        columns = [*there, *(column for column in header if column not in there)]
        if there and columns != there:
            self._widen(columns)
        count = 0
        with self.path.open("a", newline="", encoding=self._encoding) as file:
            writer = csv.DictWriter(file, columns, restval="")
            if not there:
                writer.writeheader()
            for row in rows:
                writer.writerow(dict(zip(header, row, strict=False)))
                count += 1
        return count

    def _widen(self, columns: list[str]) -> None:
        """Give the file further columns: items of some pages have fields that those before had not."""
        rows = _rows(self.path, self._encoding)
        header = next(rows)
        wider = self.path.with_name(f"{self.path.name}.partial")
        with wider.open("w", newline="", encoding=self._encoding) as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(dict(zip(header, row, strict=False)) for row in rows)
        shutil.copymode(self.path, wider)
        wider.replace(self.path)


def path_of(uri: str) -> str:
    """Return the path of the one file that a feed's URI names for all workers; empty if it names none."""
    if uri.startswith("file://"):
        return unquote(urlparse(uri).path)
    return "" if _SCHEME.match(uri) or uri == "-" or "%(" in uri else uri


def _rows(path: Path, encoding: str, is_whole: bool = True) -> Iterator[list[str]]:
    """Yield the rows of a table; if it is not whole, without the last."""
    before: list[str] | None = None
    with path.open(newline="", encoding=encoding) as file:
        for row in csv.reader(file):
            if before is not None:
                yield before
            before = row
    if before is not None and is_whole:
        yield before


def _end_line(path: Path) -> None:
    """Have *path*, if it has anything, end with the end of a line."""
    if path.exists() and path.stat().st_size:
        with path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _is_torn(path: Path) -> bool:
    """Return whether a table breaks off: in the midst of a line, or of a quoted field."""
    quotes, last = 0, b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            quotes += chunk.count(b'"')
            last = chunk[-1:]
    return last != b"\n" or quotes % 2 == 1
