"""A journal beside a file of items: how far the file is complete, and which items it contains.

It is a database of SQLite. ``BEGIN``, the changes and ``COMMIT`` are one step: if any of them fails, the
journal is as it was before.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..codec.values import whole_of
from ..errors import FrontierError, one_line

#: Marks a database as a journal of this package: "rqsI".
APPLICATION = 0x72717349
#: What :class:`ItemFile` makes as the name of a stream.
TOKEN = re.compile(r"[0-9a-f]{16}")
_NUMBER = re.compile(r"\d{1,18}")


class ChangedFileError(OSError):
    """Another program has deleted, replaced or changed a file while this one writes it."""


class Journal:
    """How far a file is complete, and what it contains. Only one program can have it open.

    Each method raises ``OSError`` if the disk is full or fails, and :class:`FrontierError` if the journal is
    damaged.

    :param path: the path of the journal.
    :ivar is_new: whether there was none.
    :raises FrontierError: if another program has it open, or if the file is not a journal.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_new = not path.exists() or not path.stat().st_size
        try:
            self._database = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
        except sqlite3.Error as error:
            raise FrontierError(f"{path} cannot be written: {error}") from error
        try:
            self._prepare()
            self._opened = path.stat()
        except BaseException:
            self._database.close()
            raise

    def _prepare(self) -> None:
        self._database.text_factory = lambda data: data.decode("utf-8", "replace")
        try:
            with self._errors():
                self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._database.execute("PRAGMA synchronous = FULL")
                self._database.execute("BEGIN EXCLUSIVE")
                (mark,) = self._database.execute("PRAGMA application_id").fetchone()
                (tables,) = self._database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
                if mark != APPLICATION and (mark or tables):
                    raise sqlite3.DatabaseError("it is a database of another program")
                self._database.execute(f"PRAGMA application_id = {APPLICATION}")
                self._database.execute("CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT)")
                # The number of items that the file has of each page.
                self._database.execute(
                    "CREATE TABLE IF NOT EXISTS pages (id BLOB PRIMARY KEY, count INTEGER) WITHOUT ROWID"
                )
                self._database.execute("COMMIT")
        except OSError as error:
            if "locked" not in str(error):
                if self.is_new:
                    self._path.unlink(missing_ok=True)
                raise FrontierError(
                    f"{self._path} cannot be written: {error.__cause__ or error}. Make room there, or "
                    "check its permissions, or write to another file"
                ) from error
            raise FrontierError(
                f"Another program writes the file of {self._path} ({error}). Wait until it ends, or write to "
                "another file"
            ) from error

    def get(self, name: str) -> str:
        """Return a value of the state, or an empty text."""
        with self._errors():
            row = self._database.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])

    @property
    def token(self) -> str:
        """The name of the file's stream; empty if no writer has begun the file."""
        return self._get("token", TOKEN)

    @property
    def size(self) -> int:
        """How many bytes of the file are complete."""
        return int(self._get("size", _NUMBER) or 0)

    @property
    def written(self) -> int:
        """How many items the file has been given since it was begun."""
        return int(self._get("written", _NUMBER) or 0)

    def count(self, page: bytes) -> int:
        """Return how many items of a page the file has."""
        with self._errors():
            row = self._database.execute("SELECT count FROM pages WHERE id = ?", (page,)).fetchone()
        return 0 if row is None else whole_of(row[0])

    def begin(self, **state: object) -> None:
        """Note that the file has no item of any page, and values of the state, in one step."""
        self._note({}, state, is_begun=True)

    def note(self, counts: dict[bytes, int], **state: object) -> None:
        """Note the number of items of pages, and values of the state, in one step."""
        self._note(counts, state)

    def roll_back(self) -> None:
        """Undo a step that has failed. If this fails, too, it must be repeated before anything is read."""
        with self._errors():
            # After some errors, SQLite has done it.
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")

    def check(self) -> None:
        """Check that the journal is still in its place.

        :raises ChangedFileError: if it is not.
        """
        check_place(self._path, self._opened)

    def close(self, remove: bool) -> None:
        """Close the journal; *remove*: the file needs it no more."""
        self._database.close()
        if remove:
            self._path.unlink(missing_ok=True)
            # SQLite's own, which it removes itself, unless the disk fails.
            self._path.with_name(f"{self._path.name}-journal").unlink(missing_ok=True)

    def _get(self, name: str, form: re.Pattern[str]) -> str:
        value = self.get(name)
        if value and not form.fullmatch(value):
            raise self._damaged(f"its {name} is {one_line(value[:100])!r}")
        return value

    def _note(self, counts: dict[bytes, int], state: dict[str, object], is_begun: bool = False) -> None:
        try:
            with self._errors():
                self._database.execute("BEGIN IMMEDIATE")
                if is_begun:
                    self._database.execute("DELETE FROM pages")
                self._database.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?)", counts.items())
                values = [(name, str(value)) for name, value in state.items()]
                self._database.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", values)
                self._database.execute("COMMIT")
        except BaseException:
            self.roll_back()
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the errors of SQLite into those of this class."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path}: {error}") from error
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, why: str) -> FrontierError:
        return FrontierError(
            f"{self._path} is not a journal of this package, or is damaged: {why}. Move it away, or write to "
            "another file"
        )


def check_place(path: Path, opened: os.stat_result) -> None:
    """Check that *path* is still the file that was *opened*.

    :raises ChangedFileError: if it was deleted or replaced: what is written now would be in no folder.
    """
    try:
        is_same = os.path.samestat(path.stat(), opened)
    except FileNotFoundError:
        raise ChangedFileError(f"{path} was deleted while items were written") from None
    if not is_same:
        raise ChangedFileError(f"{path} was replaced by another file while items were written")
