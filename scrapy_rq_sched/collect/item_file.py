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

import contextlib
import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..codec.values import text_of
from ..errors import FrontierError, a_type, one_line
from .item_format import ITEM_ERRORS, ItemFormat
from .journal import ChangedFileError, Journal, check_place

#: The endings of a journal's name, and of the lines from which a file of another format is exported.
JOURNAL, SPOOL = ".progress", ".items"
#: The digits of the greatest number of an item in its page. What has more is no such number.
MOST_DIGITS = 15
#: Notes in the journal that a complete file lacks some of the items.
_LACKING = "lacks items"


class Entry(NamedTuple):
    """An item in a stream.

    :param number: its number in the stream.
    :param data: the item, as JSON.
    :param tokens: the files that the item is for, with commas between them; None: all.
    """

    number: bytes
    identity: str
    data: bytes
    tokens: bytes | None = None

    @classmethod
    def of(cls, number: bytes, fields: dict[bytes, bytes], may_have_tokens: bool = False) -> Entry:
        """Return the entry of a stream.

        :param may_have_tokens: whether it may say which files the item is for (:class:`feeds.Choice`).
        """
        data, tokens = fields.get(b"item", b""), None
        if may_have_tokens and b"\n" in data:
            data, _, tokens = data.partition(b"\n")
        return cls(number, text_of(fields.get(b"id", number)), data, tokens)

    def is_for(self, token: str) -> bool:
        """Return whether the item belongs into the file *token*."""
        return self.tokens is None or token.encode() in self.tokens.split(b",")


class _Batch:
    """What a file gets of some entries.

    :ivar counts: how many items the file has then of each page.
    :ivar crawl: when the crawl of the last one began.
    :ivar known: how many of the entries the file has already.
    """

    def __init__(self) -> None:
        self.counts: dict[bytes, int] = {}
        self.crawl = ""
        self.lines: list[bytes] = []
        self.problems: list[str] = []
        self.known = 0


class ItemFile:
    """A file to which items are written, each once.

    :param path: the path of the file.
    :param feed: the options of Scrapy's feed, as in ``FEEDS``; at least its ``format``.
    :param settings: Scrapy's; the ``FEED_EXPORT_…`` settings apply to options that *feed* lacks.
    :ivar overwrites: whether *feed* has the option ``overwrite``: a new crawl replaces the file.
    :ivar token: the name of the stream of this file; it is kept until the file is complete.
    :ivar count: how many items were written.
    :ivar written: how many items of this crawl are in the file, also those of earlier writers that have not
        completed it; without those that were there before the crawl.
    :ivar passed: how many entries were not written: the file has them already, or cannot have them.
    :ivar problems: a line for each item that the file cannot have.
    :ivar adds: whether they were added to items that were in the file before.
    :ivar crawl: when the crawl began of which an incomplete file has items; empty if it has none.
    :raises SettingError: if the format cannot be written.
    """

    def __init__(self, path: Path, feed: Mapping[str, Any], settings: Any) -> None:
        self.path = path
        self.overwrites = bool(feed.get("overwrite"))
        self.count = self.passed = self.written = 0
        self.problems: list[str] = []
        self.adds = False
        self.token = self.crawl = ""
        self._format = ItemFormat(path, feed, settings)
        #: Where the items are written, and the journal of it.
        self.data = path if self._format.has_lines else path.with_name(path.name + SPOOL)
        self.journal_path = path.with_name(path.name + JOURNAL)
        self._journal: Journal | None = None
        self._file: io.FileIO | None = None
        # Whether a file that is replaced is still as it was, because no item has come yet; and its size.
        self._is_old, self._old_size = False, 0
        # Whether the journal is still that of an earlier writer, whose file is replaced.
        self._is_pending = False
        # Whether the file may have bytes that the journal does not have.
        self._is_torn = False
        self._made: list[Path] = []

    @property
    def is_begun(self) -> bool:
        """Whether an earlier writer has not completed the file."""
        return self.journal_path.exists()

    def open(self, overwrites: bool, is_new: bool = True) -> None:
        """Open the file: begin it, or continue it if an earlier writer has not completed it.

        :param overwrites: whether an existing file is replaced when the first item comes; if not, it is
            appended to.
        :param is_new: whether the crawl is new. Then a file that overwrites another one is not continued.
        :raises FrontierError: if it cannot be written, or if another program writes it.
        """
        try:
            self._open(overwrites, is_new)
        except BaseException as error:
            self.withdraw()
            if isinstance(error, OSError):
                raise FrontierError(f"{self.path} cannot be written: {error}") from error
            raise

    def _open(self, overwrites: bool, is_new: bool) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._journal = journal = Journal(self.journal_path)
        if journal.is_new:
            self._made.append(self.journal_path)
        if journal.get("is_complete"):
            # The writer has died before it could remove what is beside the file.
            self.token = journal.token
            self._remove_spool(lacks_items=journal.get("is_complete") == _LACKING)
            journal.begin(token="", is_complete="")
        self.token = journal.token or secrets.token_hex(8)
        if not journal.token:
            self._begin(overwrites)
        elif overwrites and is_new:
            self.token = secrets.token_hex(8)
            self._is_pending = True
        elif journal.get("is_old") and not overwrites:
            # An earlier writer was to replace the file, and has not begun to.
            self._begin(False)
        else:
            self._check_version()
        size = 0 if self._is_pending else journal.size
        self.adds = size > 0
        self.crawl = "" if self._is_pending else journal.get("crawl")
        self.written = 0 if self._is_pending else journal.written
        self._is_old = self._is_pending or bool(journal.get("is_old"))
        there = self.data.stat().st_size if self.data.exists() else 0
        if there < size:
            raise FrontierError(
                f"{self.data} has {there} bytes, but {journal.size} were written: another program has "
                f"changed it. Move it away together with {self.journal_path}, and start again"
            )
        if not self.data.exists():
            self._made.append(self.data)
        self._file = io.FileIO(self.data, "r+b" if self.data.exists() else "x+b")
        self._old_size = there
        if not self._is_old:
            self._file.truncate(journal.size)

    def begin(self) -> None:
        """Note that a file of an earlier writer is replaced. What that one has not written is not continued.

        :raises OSError: if the journal cannot be written.
        """
        if self._is_pending:
            self._begin(True)
            self._is_pending = False

    def withdraw(self) -> None:
        """Close the file, and remove what :meth:`open` has made, because nothing will be written."""
        if self._file is not None:
            self._file.close()
        if self._journal is not None:
            self._journal.close(remove=False)
        self._file = self._journal = None
        made, self._made = self._made, []
        for path in made:
            # What cannot be removed does no harm: the next writer continues it.
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def add(self, entries: Iterable[Entry]) -> None:
        """Write items that the file does not have. They are on the disk when this returns.

        :raises OSError: if they cannot be written. Then the file is as it was before.
        :raises FrontierError: if the journal is damaged. Then too.
        """
        journal, file = self._opened
        self.begin()
        if self._is_torn:
            self._cut()
        self._check()
        batch = self._batch(entries)
        if batch.counts:
            size = journal.size
            data = b"".join(batch.lines)
            self._is_torn = True
            try:
                if self._is_old:
                    # If this writer dies now, the next one cuts off what is there.
                    journal.note({}, is_old="")
                    self._is_old = False
                file.truncate(size)
                file.seek(size)
                _write_whole(file, data)
                os.fsync(file.fileno())
                written = journal.written + len(batch.lines)
                journal.note(batch.counts, size=size + len(data), crawl=batch.crawl, written=written)
                self._is_torn = False
            except BaseException:
                # If this fails, too, the next call does it.
                with contextlib.suppress(OSError, FrontierError):
                    self._cut()
                raise
        self._made.clear()
        self.problems += batch.problems
        self.count += len(batch.lines)
        self.written += len(batch.lines)
        self.passed += batch.known + len(batch.problems)

    def close(self, is_complete: bool) -> None:
        """Close the file.

        :param is_complete: whether no items come any more. If not, the next writer continues it.
        :raises OSError: if it cannot be exported, or was changed meanwhile. What was added is kept.
        :raises FrontierError: if the journal is damaged.
        """
        if self._journal is None or self._file is None:
            return
        journal, file = self._journal, self._file
        is_removed = False
        try:
            if is_complete:
                self.begin()
            if self._is_torn:
                self._cut()
            self._check()
            if is_complete and not (journal.written or self._format.stores_empty):
                self._leave(file)
                is_removed = True
                return
            if is_complete and self._is_old:
                file.truncate(0)
                os.fsync(file.fileno())
            lacks_items = False
            if not self._format.has_lines and (is_complete or journal.size):
                lacks_items = self._export()
            if is_complete:
                journal.note({}, is_complete=_LACKING if lacks_items else "1")
                self._remove_spool(lacks_items)
            is_removed = is_complete
        finally:
            self._journal = self._file = None
            file.close()
            journal.close(remove=is_removed)

    def _leave(self, file: io.FileIO) -> None:
        """Leave what was there before a crawl without items (``FEED_STORE_EMPTY``)."""
        if not (self._format.has_lines and os.fstat(file.fileno()).st_size):
            self.data.unlink()

    @property
    def summary(self) -> str:
        """A line about what was written."""
        were = "item was" if self.count == 1 else "items were"
        how = "added" if self.adds else "written"
        return f"{self.count:,} {were} {how} to {self.path}"

    @property
    def _opened(self) -> tuple[Journal, io.FileIO]:
        assert self._journal is not None and self._file is not None  # noqa: S101, PT018 - open() comes first
        return self._journal, self._file

    def _begin(self, replaces: bool) -> None:
        """Begin a file: its first item comes after those that are there, if they are kept."""
        assert self._journal is not None  # noqa: S101 - open() has made it
        if not self._format.has_lines:
            self._begin_spool(replaces)
        elif not replaces:
            _end_line(self.path)
        is_kept = not replaces and self.data.exists()
        self._journal.begin(
            token=self.token,
            crawl="",
            size=self.data.stat().st_size if is_kept else 0,
            written=0,
            is_old="1" if replaces else "",
            was=_version(self.path),
            made="",
        )

    def _begin_spool(self, replaces: bool) -> None:
        assert self._journal is not None  # noqa: S101 - open() has made it
        if self.data.exists() and self._journal.is_new:
            raise FrontierError(
                f"{self.data} exists, but not its journal {self.journal_path}: it may have the items of an "
                "earlier crawl, as JSON lines. Move it away, or write to another file"
            )
        if not self.data.exists():
            self._made.append(self.data)
        if replaces and self.data.exists():
            return  # it is cut when the first item comes
        with self.data.open("wb") as lines:
            for item in self._format.read() if not replaces else ():
                lines.write(json.dumps(item).encode() + b"\n")
            lines.flush()
            os.fsync(lines.fileno())

    def _batch(self, entries: Iterable[Entry]) -> _Batch:
        journal, _ = self._opened
        batch = _Batch()
        for entry in entries:
            page, n = _page_of(entry.identity)
            if n < (batch.counts[page] if page in batch.counts else journal.count(page)):
                batch.known += 1
                continue
            batch.counts[page] = n + 1
            batch.crawl = entry.identity.partition("-")[0]
            problem = "is not an item as JSON, and"
            try:
                item = json.loads(entry.data)
                if not isinstance(item, dict):
                    raise TypeError(f"it must be an object, not {a_type(type(item))}")
                problem = f"cannot be written to {self.path}, and"
                batch.lines.append(self._format.line(item))
            except ITEM_ERRORS as error:
                batch.problems.append(
                    f"Entry {one_line(text_of(entry.number))} of the items {problem} is left out: "
                    f"{one_line(error)}: {one_line(text_of(entry.data[:200]))}"
                )
        return batch

    def _cut(self) -> None:
        """Cut off what the journal does not have, after an attempt that has failed."""
        journal, file = self._opened
        journal.roll_back()
        # The journal may have it all the same: then the attempt has failed after its last step.
        file.truncate(journal.size)
        self._is_old, self._old_size = bool(journal.get("is_old")), journal.size
        self._is_torn = False

    def _check(self) -> None:
        """Check that nobody has touched the file and its journal.

        :raises ChangedFileError: if somebody has. What was written to a deleted file is lost.
        """
        journal, file = self._opened
        journal.check()
        opened = os.fstat(file.fileno())
        check_place(self.data, opened)
        size = self._old_size if self._is_old else journal.size
        if opened.st_size != size:
            raise ChangedFileError(
                f"{self.data} has {opened.st_size} bytes, but {size} were written: another program has "
                "changed it"
            )

    def _export(self) -> bool:
        """Make the file of all items, which takes its name when it is complete.

        :return: whether it lacks any of them.
        """
        journal, _ = self._opened
        self._check_version()
        made = self.path.with_name(f"{self.path.name}.partial")
        try:
            with made.open("wb") as target:
                problems = self._format.export(self._written, target)
                target.flush()
                os.fsync(target.fileno())
            if problem := self._format.problem(made):
                problems.append(problem)
            # First: if this writer dies now, the next one knows both.
            journal.note({}, was=_version(self.path), made=_version(made))
            made.replace(self.path)
        except BaseException:
            # It is written anew each time.
            with contextlib.suppress(OSError):
                made.unlink(missing_ok=True)
            raise
        self.problems += problems
        self.count = max(0, self.count - self._format.left_out)
        self.written = max(0, self.written - self._format.left_out)
        self.passed += self._format.left_out
        return bool(problems)

    def _check_version(self) -> None:
        """Check that nobody has changed a file that will be made anew.

        :raises OSError: if somebody has.
        """
        assert self._journal is not None  # noqa: S101 - open() has made it
        known = ("", self._journal.get("was"), self._journal.get("made"))
        if not self._format.has_lines and _version(self.path) not in known:
            raise OSError(
                f"{self.path} was changed by another program. Move it away: it will be made again, of all "
                f"items in {self.data}"
            )

    def _remove_spool(self, lacks_items: bool) -> None:
        """Remove the lines of which a complete file was made; keep them if it lacks any."""
        if self._format.has_lines or not self.data.exists():
            return
        if not lacks_items:
            self.data.unlink()
            return
        # Under this name, no other crawl replaces it.
        kept = self.path.with_name(f"{self.path.name}.{self.token}.jsonl")
        self.data.replace(kept)
        self.problems.append(f"All items of {self.path} are in {kept}, as JSON lines")

    def _written(self) -> Iterator[bytes]:
        with self.data.open("rb") as lines:
            yield from lines


def _page_of(identity: str) -> tuple[bytes, int]:
    """Return the page of an item in few bytes, and the item's number in it."""
    page, _, n = identity.rpartition("-")
    if not (page and n.isascii() and n.isdigit() and len(n) <= MOST_DIGITS):
        page, n = identity, "0"
    return hashlib.blake2b(page.encode("utf-8", "replace"), digest_size=10).digest(), int(n)


def _version(path: Path) -> str:
    """Return the size and the time of *path*, which differ after a change; empty if there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"


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
