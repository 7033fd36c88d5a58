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
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ..errors import SettingError
from ..feeds import PART_SCHEME

#: What stores a part.
STORAGE = "scrapy_rq_sched.feeds.PartStorage"
#: How a format is joined: line by line, or as a table.
_LINES, _TABLES = ("jsonlines", "jsonl", "jl"), ("csv",)
#: Bytes that are read at a time.
CHUNK = 1 << 20
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


class Feed:
    """A file that all workers write together.

    :param path: where it is to be in the end.
    :param format_: Scrapy's name of its format.
    :param overwrite: whether what is there before is replaced, and not appended to.
    :param folder: where the parts are until then.
    :raises SettingError: if the items of several workers cannot be put together in this way.
    """

    def __init__(self, path: str, format_: str, overwrite: bool, folder: Path) -> None:
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
        if overwrite:
            # Of a start before this one that was killed, too.
            for part in self._parts():
                part.unlink()
            self.path.unlink(missing_ok=True)

    def option(self, process: str) -> str:
        """Return what ``-o`` is for the process of this name: no two have the same."""
        path = quote(str(self._folder / f"{os.getpid()}-{process}"))
        # Scrapy puts values into it where there is a %.
        return f"{PART_SCHEME}://{path}:{self._format}".replace("%", "%%")

    def join(self) -> int:
        """Put what the parts have into the file, and return how many items that are.

        Parts of a supervisor that was killed belong to it as well; not those of one that is still at it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return sum(self._join(part) for part in self._parts())

    def _parts(self) -> Iterator[Path]:
        for part in sorted(self._folder.iterdir()):
            owner = part.name.partition("-")[0]
            if owner == str(os.getpid()) or not (owner.isdigit() and _is_alive(int(owner))):
                yield part

    def _join(self, part: Path) -> int:
        count = self._join_table(part) if self._is_table else self._join_lines(part)
        part.unlink()
        return count

    def _join_lines(self, part: Path) -> int:
        count = 0
        with part.open("rb") as source, self.path.open("ab") as target:
            for line in source:
                if line.endswith(b"\n"):
                    target.write(line)
                    count += 1
        return count

    def _join_table(self, part: Path) -> int:
        rows = _rows(part)
        header = next(rows, [])
        if not header:
            return 0
        there = next(_rows(self.path), []) if self.path.exists() else []
        columns = [*there, *(column for column in header if column not in there)]
        if there and columns != there:
            self._widen(columns)
        count = 0
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="")
            if not there:
                writer.writeheader()
            for row in rows:
                writer.writerow(dict(zip(header, row, strict=False)))
                count += 1
        return count

    def _widen(self, columns: list[str]) -> None:
        """Give the file further columns: items of some pages have fields that those before had not."""
        rows = _rows(self.path)
        header = next(rows)
        wider = self.path.with_name(f"{self.path.name}.partial")
        with wider.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(dict(zip(header, row, strict=False)) for row in rows)
        shutil.copymode(self.path, wider)
        wider.replace(self.path)


def is_file(uri: str) -> bool:
    """Return whether a feed's URI is the path of one file, the same for all workers."""
    return not (_SCHEME.match(uri) or uri == "-" or "%(" in uri)


def _rows(path: Path) -> Iterator[list[str]]:
    """Yield the whole rows of a table; its last may be torn."""
    before: list[str] | None = None
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        for row in csv.reader(file):
            if before is not None:
                yield before
            before = row
    if before is not None and not _is_torn(path):
        yield before


def _is_torn(path: Path) -> bool:
    """Return whether a table breaks off: in the midst of a line, or of a quoted field."""
    quotes, last = 0, b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            quotes += chunk.count(b'"')
            last = chunk[-1:]
    return last != b"\n" or quotes % 2 == 1


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
