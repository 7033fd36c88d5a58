"""A file of items from a stream in Redis: each item is in it once, whatever dies.

The stream has an identity of each item (``FRONTIER_ITEMS``). A journal beside the file has the size up to
which the file is complete, and the identities of what it contains. A batch is written in this order:

1. Its lines are appended, and are on the disk (``fsync``).
2. One transaction of the journal notes the new size and the identities.
3. The entries are deleted from the stream.

If the writer dies before the second step, the next one cuts the file to the noted size. If it dies before the
third, or Redis comes back with older data, the next one is given items that it knows by their identity.

Only JSON lines are written like this. A file of another format is exported from such lines at the end of each
run: it is complete before it takes its name, so that it may be exported again.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from scrapy.utils.conf import feed_complete_default_values_from_settings
from scrapy.utils.misc import load_object

from ..codec.values import text_of, whole_of
from ..errors import FrontierError, SettingError, a_type, one_line, shown

#: Scrapy's names of the format that is written item by item.
LINES = ("jsonlines", "jsonl", "jl")
#: The endings of a journal's name, and of the lines from which a file of another format is exported.
JOURNAL, SPOOL = ".progress", ".items"


class Entry(NamedTuple):
    """An item in a stream.

    :param number: its number in the stream.
    :param data: the item, as JSON.
    """

    number: bytes
    identity: str
    data: bytes

    @classmethod
    def of(cls, number: bytes, fields: dict[bytes, bytes]) -> Entry:
        """Return the entry of a stream."""
        return cls(number, text_of(fields.get(b"id", number)), fields.get(b"item", b""))


class Journal:
    """How far a file is complete, and what it contains. Only one program can have it open.

    :param path: the path of the journal.
    :raises FrontierError: if another program has it open, or if the file is no journal.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._database = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute("BEGIN EXCLUSIVE")
            self._database.execute("CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT)")
            # The number of items that the file has of each page.
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS pages (id BLOB PRIMARY KEY, count INTEGER) WITHOUT ROWID"
            )
            self._database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise FrontierError(f"{path} cannot be written: {error}") from error
            raise FrontierError(
                f"Another program writes the file of {path} ({error}). Wait until it ends, or write to "
                "another file"
            ) from error
        except sqlite3.DatabaseError as error:
            raise FrontierError(
                f"{path} is not a journal of this package: {error}. Remove it, or write to another file"
            ) from error

    def get(self, name: str) -> str:
        """Return a value of the state, or an empty text."""
        row = self._database.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])

    def note(self, counts: dict[bytes, int], **state: object) -> None:
        """Note the number of items of pages, and values of the state, in one step.

        :raises OSError: if the disk is full, or fails.
        """
        with self._transaction():
            self._database.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?)", counts.items())
            self._database.executemany(
                "INSERT OR REPLACE INTO state VALUES (?, ?)",
                [(name, str(value)) for name, value in state.items()],
            )

    def count(self, page: bytes) -> int:
        """Return how many items of a page the file has."""
        row = self._database.execute("SELECT count FROM pages WHERE id = ?", (page,)).fetchone()
        return 0 if row is None else int(row[0])

    def close(self, remove: bool) -> None:
        """Close the journal; *remove*: the file needs it no more."""
        self._database.close()
        if remove:
            self._path.unlink(missing_ok=True)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                yield
        except sqlite3.Error as error:
            raise OSError(f"{self._path}: {error}") from error


class ItemFile:
    """A file to which items are written, each once.

    :param path: the path of the file.
    :param format_: Scrapy's name of its format.
    :param settings: Scrapy's; the ``FEED_EXPORT_…`` settings apply.
    :ivar token: the name of the stream of this file; it is kept until the file is complete.
    :ivar count: how many items were written.
    :ivar problems: a line for each item that the format or the encoding cannot have.
    :ivar adds: whether they were added to items that were in the file before.
    :raises SettingError: if the format cannot be written.
    """

    def __init__(self, path: Path, format_: str, settings: Any) -> None:
        self.path = path
        self.count = 0
        self.problems: list[str] = []
        self.adds = False
        self.token = ""
        self._format = format_
        self._options = feed_complete_default_values_from_settings({"format": format_}, settings)
        self._settings = settings
        self._has_lines = format_ in LINES
        self._data = path if self._has_lines else path.with_name(path.name + SPOOL)
        self._journal: Journal | None = None
        self._file: io.FileIO | None = None
        self._is_old = False
        if self._has_lines:
            _check_encoding(path, self._options["encoding"] or "utf-8")
        self._buffer = io.BytesIO()
        self._exporter: Any = None
        if self._has_lines:
            self._exporter = self._make_exporter(self._buffer, "jsonlines", self._options["fields"])

    @property
    def is_begun(self) -> bool:
        """Whether an earlier writer has not completed the file."""
        return self._journal_path.exists()

    def open(self, replaces: bool) -> None:
        """Open the file.

        :param replaces: whether a file of an earlier crawl is replaced; if not, it is appended to.
        :raises FrontierError: if it cannot be written, or if another program writes it.
        """
        try:
            self._open(replaces)
        except OSError as error:
            raise FrontierError(f"{self.path} cannot be written: {error}") from error

    def _open(self, replaces: bool) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._journal = journal = Journal(self._journal_path)
        if replaces or not journal.get("token"):
            self._begin(replaces)
        self.token = journal.get("token")
        self.adds = self._size > 0
        self._file = io.FileIO(self._data, "r+b" if self._data.exists() else "w+b")
        size, there = self._size, self._data.stat().st_size
        # A file that is replaced stays as it is until the first item comes.
        self._is_old = bool(journal.get("is_old"))
        if self._is_old:
            return
        if there < size:
            raise FrontierError(
                f"{self._data} has {there} bytes, but {size} were written: another program has changed it. "
                f"Move it away together with {self._journal_path}, and start again"
            )
        self._file.truncate(size)

    def add(self, entries: Iterable[Entry]) -> None:
        """Write items that the file does not have. They are on the disk when this returns.

        :raises OSError: if they cannot be written. Then the file is as it was before.
        """
        journal, file = self._opened
        counts: dict[bytes, int] = {}
        lines, count = [], 0
        for entry in entries:
            page, n = _page_of(entry.identity)
            if n < (counts[page] if page in counts else journal.count(page)):
                continue
            counts[page] = n + 1
            try:
                lines.append(self._line(entry.data))
                count += 1
            except (ValueError, TypeError, RecursionError) as error:
                self.problems.append(
                    f"Entry {text_of(entry.number)} of the items is not an item as JSON, and is left out: "
                    f"{one_line(error)}: {one_line(text_of(entry.data[:200]))}"
                )
        if not counts:
            return
        size = self._size
        data = b"".join(lines)
        try:
            if self._is_old:
                file.truncate(0)
            file.seek(size)
            _write_whole(file, data)
            os.fsync(file.fileno())
            journal.note(counts, size=size + len(data), is_old="")
        except OSError:
            file.truncate(size)
            raise
        self._is_old = False
        self.count += count

    def close(self, is_complete: bool) -> None:
        """Close the file.

        :param is_complete: whether no items come any more. If not, the next writer continues it.
        :raises OSError: if it cannot be exported. What was added is kept.
        """
        if self._journal is None or self._file is None:
            return
        try:
            if self._is_old and is_complete:
                self._file.truncate(0)
            if not self._has_lines and (is_complete or self._size):
                self._export()
        except BaseException:
            is_complete = False
            raise
        finally:
            self._file.close()
            self._journal.close(remove=is_complete)
            self._journal = self._file = None
        if is_complete and not self._has_lines:
            self._data.unlink()

    @property
    def _opened(self) -> tuple[Journal, io.FileIO]:
        assert self._journal is not None and self._file is not None  # noqa: S101, PT018 - open() comes first
        return self._journal, self._file

    @property
    def _journal_path(self) -> Path:
        return self.path.with_name(self.path.name + JOURNAL)

    @property
    def _size(self) -> int:
        assert self._journal is not None  # noqa: S101 - open() comes first
        return whole_of(self._journal.get("size"))

    def _begin(self, replaces: bool) -> None:
        """Begin a file: its first item comes after those that are there, if they are kept."""
        assert self._journal is not None  # noqa: S101 - open() has made it
        if not self._has_lines:
            with self._data.open("wb") as lines:
                for item in self._items_of_the_file() if not replaces else ():
                    lines.write(json.dumps(item).encode() + b"\n")
                lines.flush()
                os.fsync(lines.fileno())
        elif not replaces:
            _end_line(self.path)
        size = self._data.stat().st_size if self._data.exists() and not replaces else 0
        is_old = "1" if replaces and self._has_lines else ""
        self._journal.note({}, token=secrets.token_hex(8), size=size, is_old=is_old)

    def _items_of_the_file(self) -> Iterator[Any]:
        """Yield the items of a file that is appended to.

        :raises FrontierError: if it cannot be read.
        """
        if not self.path.exists() or not self.path.stat().st_size:
            return
        encoding = self._options["encoding"] or "utf-8"
        try:
            with self.path.open(encoding=encoding, newline="") as file:
                if self._format == "json":
                    yield from json.load(file)
                elif self._format == "csv":
                    csv.field_size_limit(2**31 - 1)  # a field may be a whole page
                    yield from csv.DictReader(file)
                else:
                    raise ValueError(f"nothing can be appended to {self._format}")
        except (ValueError, TypeError, csv.Error) as error:
            raise FrontierError(
                f"The items cannot be appended to {self.path}: {one_line(error)}. Use -O to replace it, or "
                "write to another file"
            ) from error

    def _line(self, data: bytes) -> bytes:
        """Return an item as the file has it.

        :raises ValueError: if it is no item; also ``TypeError`` and ``RecursionError``.
        """
        item = json.loads(data)
        if not isinstance(item, dict):
            raise TypeError(f"it must be an object, not {a_type(type(item))}")
        if self._exporter is None:
            return json.dumps(item).encode() + b"\n"
        try:
            self._exporter.export_item(item)
            return self._buffer.getvalue()
        finally:
            self._buffer.seek(0)
            self._buffer.truncate()

    def _export(self) -> None:
        """Make the file of all items; it takes its name when it is complete."""
        made = self.path.with_name(f"{self.path.name}.partial")
        with made.open("wb") as target:
            fields = self._options["fields"]
            if self._format == "csv" and not fields:
                # Scrapy's exporter would drop the fields that the first item lacks.
                fields = list(dict.fromkeys(name for item in self._written() for name in item)) or None
            exporter = self._make_exporter(target, self._format, fields)
            exporter.start_exporting()
            # A table whose items have no fields has no rows.
            has_rows = self._format != "csv" or fields
            for item in self._written() if has_rows else ():
                try:
                    exporter.export_item(item)
                except ValueError as error:  # a character that the encoding lacks
                    self.problems.append(
                        f"An item is left out of {self.path}: {one_line(error)}: {shown(item)}"
                    )
            exporter.finish_exporting()
            target.flush()
            os.fsync(target.fileno())
        made.replace(self.path)

    def _written(self) -> Iterator[Any]:
        with self._data.open("rb") as lines:
            yield from map(json.loads, lines)

    def _make_exporter(self, target: Any, format_: str, fields: Any) -> Any:
        path = self._settings.getwithbase("FEED_EXPORTERS").get(format_)
        if path is None:
            raise SettingError(f"{self.path}: FEED_EXPORTERS has no exporter of the format {format_!r}")
        options = self._options
        named = {name: options[name] for name in ("encoding", "indent")}
        return load_object(path)(target, fields_to_export=fields, **named, **options["item_export_kwargs"])


def _page_of(identity: str) -> tuple[bytes, int]:
    """Return the page of an item in few bytes, and the item's number in it."""
    page, _, n = identity.rpartition("-")
    if not (page and n.isascii() and n.isdigit()):
        page, n = identity, "0"
    return hashlib.blake2b(page.encode("utf-8", "replace"), digest_size=10).digest(), int(n)


def _write_whole(file: io.FileIO, data: bytes) -> None:
    """Write all of *data*: a full disk may take a part of it without an error."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _end_line(path: Path) -> None:
    """Add a newline at the end of the file *path* if it is not empty and has none."""
    if not path.exists() or not path.stat().st_size:
        return
    with path.open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def _check_encoding(path: Path, encoding: str) -> None:
    """Refuse an encoding in which a byte of a line break does not always end a line."""
    try:
        has_line_breaks = "a\n".encode(encoding).endswith(b"a\n")
    except (LookupError, ValueError):
        raise SettingError(
            f"FEED_EXPORT_ENCODING must be the name of an encoding, such as 'utf-8', not {encoding!r}"
        ) from None
    if not has_line_breaks:
        raise SettingError(
            f"{path}: lines cannot be appended in the encoding {encoding}. Set FEED_EXPORT_ENCODING to utf-8"
        )
