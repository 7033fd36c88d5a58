"""The journal of a file of items: a step is done completely, or not at all, whatever fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrapy_rq_sched.collect.journal import Journal
from scrapy_rq_sched.errors import FrontierError

from ..support.item_files import Files, die, entry, lines


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Files]:
    files = Files(tmp_path)
    yield files
    files.close()


class FullDisk:
    """A database that fails at some statements, as on a full disk; the transaction stays open."""

    def __init__(self, database: Any, *statements: str) -> None:
        self._database = database
        self.statements = statements

    def execute(self, statement: str, *values: Any) -> Any:
        if statement in self.statements:
            raise sqlite3.OperationalError("database or disk is full")
        return self._database.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


@pytest.mark.parametrize("statements", [("COMMIT",), ("COMMIT", "ROLLBACK"), ("BEGIN IMMEDIATE",)], ids=str)
def test_a_disk_that_is_full_at_a_step_leaves_file_and_journal_as_they_were(
    make: Files, statements: tuple[str, ...]
) -> None:
    file = make()
    file.add([entry("a", 0)])
    journal, _ = file._opened
    database: Any = journal._database
    journal._database = full = FullDisk(database, *statements)  # type: ignore[assignment]
    for _ in range(3):
        with pytest.raises(OSError, match=r"items.jsonl.progress: database or disk is full"):
            file.add([entry("b", 0)])
    full.statements = ()
    file.add([entry("b", 0), entry("c", 0)])
    assert [line["page"] for line in lines(file)] == ["a", "b", "c"]
    die(file)
    assert [line["page"] for line in lines(make())] == ["a", "b", "c"]


def test_a_commit_that_is_done_though_it_fails_keeps_its_items(make: Files) -> None:
    file = make()

    class Late(FullDisk):
        def execute(self, statement: str, *values: Any) -> Any:
            done = self._database.execute(statement, *values)
            if statement in self.statements:
                raise sqlite3.OperationalError("disk I/O error")
            return done

    journal, _ = file._opened
    journal._database = late = Late(journal._database, "COMMIT")  # type: ignore[assignment]
    with pytest.raises(OSError, match="disk I/O error"):
        file.add([entry("a", 0)])
    late.statements = ()
    file.add([entry("a", 0), entry("b", 0)])
    assert [line["page"] for line in lines(file)] == ["a", "b"]


def test_a_journal_that_cannot_be_written_leaves_the_file_as_it_was(make: Files) -> None:
    file = make()
    file.add([entry("a", 0)])
    journal, _ = file._opened
    journal._database.execute("PRAGMA query_only = ON")
    with pytest.raises(OSError, match=r"items.jsonl.progress: "):
        file.add([entry("b", 0)])
    assert [line["page"] for line in lines(file)] == ["a"]
    journal._database.execute("PRAGMA query_only = OFF")
    file.add([entry("b", 0)])
    assert [line["page"] for line in lines(file)] == ["a", "b"]


# -- journals that are not ours, or damaged ------------------------------------------------------------

REFUSED = "is not a journal of this package, or is damaged: .* Move it away"


def test_a_file_that_is_no_database_is_refused_and_stays(make: Files) -> None:
    path = make.folder / "items.jsonl.progress"
    path.write_text("something else" * 100)
    with pytest.raises(FrontierError, match=REFUSED):
        make()
    assert path.read_text() == "something else" * 100


def test_a_database_of_another_program_is_refused_and_stays(make: Files) -> None:
    path = make.folder / "items.jsonl.progress"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT, more TEXT)")
    before = path.read_bytes()
    with pytest.raises(FrontierError, match="it is a database of another program"):
        make()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "value"),
    [("size", "all"), ("size", "-1"), ("size", "9" * 30), ("token", "x,y"), ("token", "a\n")],
)
def test_a_journal_with_other_values_is_refused_and_the_file_stays(
    make: Files, name: str, value: str
) -> None:
    file = make()
    file.add([entry("a", 0)])
    die(file)
    with sqlite3.connect(file.journal_path) as database:
        database.execute("UPDATE state SET value = ? WHERE name = ?", (value, name))
    with pytest.raises(FrontierError, match=REFUSED):
        make()
    assert len(lines(file)) == 1


def test_a_journal_that_is_damaged_while_items_are_written_is_a_clear_error(make: Files) -> None:
    file = make()
    file.add([entry(f"page {number}", 0) for number in range(3000)])
    die(file)
    data = file.journal_path.read_bytes()
    # The first two pages are those of the tables; the others, of what the file contains.
    file.journal_path.write_bytes(data[: 2 * 4096] + b"\xff" * (len(data) - 2 * 4096))
    found: list[Exception] = []
    try:
        again = make()
        for number in range(3000):
            again.add([entry(f"another {number}", 0)])
    except (FrontierError, OSError) as error:
        found.append(error)
    assert "items.jsonl.progress" in str(found)


def test_a_full_disk_leaves_no_journal_that_has_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: FullDisk(connect(*a, **k), "COMMIT"))
    monkeypatch.setattr(FullDisk, "text_factory", str, raising=False)
    path = tmp_path / "items.jsonl.progress"
    with pytest.raises(FrontierError, match=r"cannot be written: .* is full"):
        Journal(path)
    assert not path.exists()


def test_a_step_that_fails_at_its_end_leaves_nothing_open(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "items.jsonl.progress")
    database: Any = journal._database
    journal._database = FullDisk(database, "COMMIT")  # type: ignore[assignment]
    with pytest.raises(OSError, match="is full"):
        journal.note({b"page": 3}, size=7)
    assert not database.in_transaction
    assert (journal.count(b"page"), journal.size) == (0, 0)
    journal.close(remove=True)
