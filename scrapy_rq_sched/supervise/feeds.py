"""Join the items of several workers in one file: each process writes a part, joined at the end.

Parts are written without a buffer (:class:`scrapy_rq_sched.feeds.PartStorage`), so an item is in its part
before the lease of its page is released. If a process was killed, an incomplete last line is left out.
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
from urllib.parse import unquote, urlparse

from ..errors import FrontierError, SettingError
from ..feeds import part_uri
from .worker_process import is_alive

#: The storage class of parts.
STORAGE = "scrapy_rq_sched.feeds.PartStorage"
#: Formats that are joined line by line, and as tables.
_LINES, _TABLES = ("jsonlines", "jsonl", "jl"), ("csv",)
#: Bytes that are read at a time.
CHUNK = 1 << 20
#: The name of this machine in the names of parts, because several machines may share a folder.
_HOST = re.sub(r"[^A-Za-z0-9]+", "_", socket.gethostname()) or "host"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


class Feed:
    """A file that all workers write together.

    :param path: the path of the joined file.
    :param format_: Scrapy's name of its format.
    :param folder: the folder for the parts.
    :param encoding: the encoding of the file.
    :ivar replaces: whether the joined items replace an existing file; if not, they are appended.
    :raises SettingError: if parts of this format, or in this encoding, cannot be joined.
    """

    def __init__(self, path: str, format_: str, folder: Path, encoding: str = "utf-8") -> None:
        if format_ not in (*_LINES, *_TABLES):
            raise SettingError(
                f"{path}: the items of several workers cannot be joined as {format_}. Use JSON lines "
                f"({Path(path).stem}.jsonl) or CSV"
            )
        _check_encoding(path, encoding)
        self.path = Path(path).resolve()
        self._format = format_
        name = hashlib.sha1(os.fsencode(self.path), usedforsecurity=False).hexdigest()[:12]
        self._folder = folder / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._is_table = format_ in _TABLES
        self._encoding = encoding
        self.replaces = False

    @property
    def adds(self) -> bool:
        """Whether :meth:`join` adds to items that are in the file already."""
        return not self.replaces and self.path.exists() and self.path.stat().st_size > 0

    def option(self, process: str) -> str:
        """Return the value of ``-o`` for the process called *process*, which no other process has."""
        return f"{part_uri(self._folder / f'{_HOST}.{os.getpid()}-{process}')}:{self._format}"

    def forget_parts(self) -> None:
        """Delete the parts that a killed supervisor has left of an earlier crawl."""
        for part in self._parts():
            part.unlink()

    def join(self) -> int:
        """Join the parts in the file, and return the number of their items.

        Parts of a killed supervisor of this machine are joined as well, but not those of a supervisor that
        still runs, or of another machine.

        :raises FrontierError: if a part cannot be read, or the file cannot be written. The parts that are not
            joined stay.
        """
        count = 0
        part = self._folder
        # A field of a table may be a whole page. Not at import: every Scrapy command loads this module.
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
                f"Some items could not be written to {self.path}: {error}. They are kept, beginning with "
                f"{part}, and the next crawl with the same file joins them"
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
        """Add columns to the file, for fields that earlier items did not have."""
        rows = _rows(self.path, self._encoding)
        header = next(rows)
        wider = self.path.with_name(f"{self.path.name}.partial")
        with wider.open("w", newline="", encoding=self._encoding) as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(dict(zip(header, row, strict=False)) for row in rows)
        shutil.copymode(self.path, wider)
        wider.replace(self.path)


def _check_encoding(path: str, encoding: str) -> None:
    """Refuse an encoding in which a byte of a line break does not always end a line."""
    try:
        has_line_breaks = "a\n".encode(encoding).endswith(b"a\n")
    except (LookupError, ValueError):
        raise SettingError(
            f"FEED_EXPORT_ENCODING must be the name of an encoding, such as 'utf-8', not {encoding!r}"
        ) from None
    if not has_line_breaks:
        raise SettingError(
            f"{path}: the items of several workers cannot be joined in the encoding {encoding}. Set "
            "FEED_EXPORT_ENCODING to utf-8"
        )


def path_of(uri: str) -> str:
    """Return the path of the file that a feed's URI names; empty if it is not one file for all workers."""
    if uri.startswith("file://"):
        return unquote(urlparse(uri).path)
    return "" if _SCHEME.match(uri) or uri == "-" or "%(" in uri else uri


def _rows(path: Path, encoding: str, is_whole: bool = True) -> Iterator[list[str]]:
    """Yield the rows of a table; leave out the last one if the table is not whole."""
    before: list[str] | None = None
    # A table that is not whole may end in the middle of a character.
    with path.open(newline="", encoding=encoding, errors=None if is_whole else "surrogateescape") as file:
        for row in csv.reader(file):
            if before is not None:
                yield before
            before = row
    if before is not None and is_whole:
        yield before


def _end_line(path: Path) -> None:
    """Add a newline at the end of the file *path* if it is not empty and has none."""
    if path.exists() and path.stat().st_size:
        with path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _is_torn(path: Path) -> bool:
    """Return whether a table ends in the middle of a line, or of a quoted field."""
    quotes, last = 0, b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            quotes += chunk.count(b'"')
            last = chunk[-1:]
    return last != b"\n" or quotes % 2 == 1
