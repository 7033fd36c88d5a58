"""A file of items: each once, whatever the writer was doing when it ended."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrapy_rq_sched.collect import item_file
from scrapy_rq_sched.collect.item_file import Entry, ItemFile
from scrapy_rq_sched.collect.journal import ChangedFileError, Journal
from scrapy_rq_sched.errors import FrontierError

from ..support.item_files import Files, die, entry, lines


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Files]:
    files = Files(tmp_path)
    yield files
    files.close()


def failing(error: Exception) -> Any:
    """Return a function that raises *error*."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def test_items_are_in_the_file_at_once_and_in_their_order(make: Files) -> None:
    file = make()
    file.add([entry("a", 0), entry("a", 1), entry("b", 0)])
    assert [(line["page"], line["n"]) for line in lines(file)] == [("a", 0), ("a", 1), ("b", 0)]


def test_an_item_that_is_given_twice_is_in_the_file_once(make: Files) -> None:
    file = make()
    file.add([entry("a", 0), entry("a", 1)])
    file.add([entry("a", 0), entry("a", 1), entry("a", 2)])
    assert [line["n"] for line in lines(file)] == [0, 1, 2]
    assert file.count == 3


def test_the_next_writer_knows_the_items_of_the_file(make: Files) -> None:
    first = make()
    first.add([entry("a", 0)])
    token = first.token
    die(first)
    second = make()
    assert second.token == token
    second.add([entry("a", 0), entry("a", 1)])
    assert [line["n"] for line in lines(second)] == [0, 1]


def test_lines_that_the_journal_does_not_know_are_cut_off(
    make: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make()
    first.add([entry("a", 0)])
    with monkeypatch.context() as context:
        context.setattr(Journal, "note", lambda *_, **__: 1 / 0)  # the process is killed there
        context.setattr(ItemFile, "_cut", lambda _: None)
        with pytest.raises(ZeroDivisionError):
            first.add([entry("b", 0)])
    assert len(lines(first)) == 2
    die(first)
    second = make()
    assert len(lines(second)) == 1
    second.add([entry("b", 0)])
    assert [line["page"] for line in lines(second)] == ["a", "b"]


def test_a_disk_that_takes_a_part_of_a_line_leaves_the_file_as_it_was(
    make: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make()
    file.add([entry("a", 0)])

    def write_a_part(opened: Any, data: bytes) -> None:
        opened.write(data[:5])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(item_file, "_write_whole", write_a_part)
        with pytest.raises(OSError, match="No space left"):
            file.add([entry("b", 0)])
    assert [line["page"] for line in lines(file)] == ["a"]
    file.add([entry("b", 0)])
    assert [line["page"] for line in lines(file)] == ["a", "b"]


def test_a_short_write_is_continued() -> None:
    class Slow:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: bytes) -> int:
            self.data += bytes(data[:3])
            return min(3, len(data))

    slow: Any = Slow()
    item_file._write_whole(slow, b"ten bytes.")
    assert slow.data == b"ten bytes."


def test_two_programs_cannot_write_one_file(make: Files) -> None:
    make()
    with pytest.raises(FrontierError, match="Another program writes the file of"):
        make()


def test_a_file_that_another_program_has_changed_is_refused(make: Files) -> None:
    first = make()
    first.add([entry("a", 0)])
    die(first)
    first.path.write_text("")
    with pytest.raises(FrontierError, match="another program has changed it"):
        make()


def test_a_complete_file_has_no_journal(make: Files, tmp_path: Path) -> None:
    file = make()
    file.add([entry("a", 0)])
    file.close(is_complete=True)
    assert [path.name for path in tmp_path.iterdir()] == ["items.jsonl"]


def test_a_file_of_before_is_appended_to(make: Files, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text('{"page": "of yesterday"}')  # without a line's end
    file = make()
    assert file.adds
    file.add([entry("a", 0)])
    assert [line["page"] for line in lines(file)] == ["of yesterday", "a"]


def test_a_file_is_replaced_when_the_first_item_comes(make: Files, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text('{"page": "of yesterday"}\n')
    die(make(overwrites=True))
    file = make(overwrites=True, is_new=False)
    assert [line["page"] for line in lines(file)] == ["of yesterday"]
    file.add([entry("a", 0)])
    assert [line["page"] for line in lines(file)] == ["a"]


def test_a_crawl_without_items_empties_a_file_that_it_replaces(make: Files, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text('{"page": "of yesterday"}\n')
    make(overwrites=True).close(is_complete=True)
    assert (tmp_path / "items.jsonl").read_text() == ""


@pytest.mark.parametrize(
    "data",
    [b"no JSON", b"[1]", b"1", b"\xff", b"[" * 100_000],
    ids=["text", "list", "number", "bytes", "deep"],
)
def test_an_entry_that_is_no_item_is_left_out_with_a_line(make: Files, data: bytes) -> None:
    file = make()
    file.add([entry("a", 0), Entry(b"7-0", "1-b-0", data), entry("c", 0)])
    assert [line["page"] for line in lines(file)] == ["a", "c"]
    (problem,) = file.problems
    assert problem.startswith("Entry 7-0 of the items is not an item as JSON, and is left out: ")


def test_an_entry_without_an_identity_is_written_once(make: Files) -> None:
    file = make()
    strange = Entry.of(b"7-0", {b"item": b'{"page": "a"}'})
    file.add([strange, strange])
    file.add([strange])
    assert len(lines(file)) == 1


def test_the_settings_of_feeds_apply(make: Files) -> None:
    file = make(FEED_EXPORT_FIELDS=["b", "a"], FEED_EXPORT_ENCODING="latin-1")
    file.add([entry("p", 0, a="ä", b=1, c=2), entry("p", 1, a="€")])
    assert file.path.read_bytes() == '{"b": 1, "a": "ä"}\n'.encode("latin-1")
    assert len(file.problems) == 1  # latin-1 has no euro


def test_an_array_is_there_when_the_writer_ends_and_goes_on_with_the_next_one(
    make: Files, tmp_path: Path
) -> None:
    first = make("items.json", "json")
    first.add([entry("a", 0)])
    assert not first.path.exists()
    first.close(is_complete=False)
    assert json.loads(first.path.read_text()) == [{"page": "a", "n": 0}]
    second = make("items.json", "json")
    second.add([entry("a", 0), entry("b", 0)])
    second.close(is_complete=True)
    assert [item["page"] for item in json.loads(second.path.read_text())] == ["a", "b"]
    assert [path.name for path in tmp_path.iterdir()] == ["items.json"]


def test_an_export_that_fails_keeps_the_items(make: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make("items.json", "json")
    first.add([entry("a", 0)])
    with monkeypatch.context() as context:
        context.setattr(ItemFile, "_export", failing(OSError(28, "No space left")))
        with pytest.raises(OSError, match="No space left"):
            first.close(is_complete=True)
    second = make("items.json", "json")
    second.close(is_complete=True)
    assert json.loads(second.path.read_text()) == [{"page": "a", "n": 0}]


def test_an_item_that_cannot_be_written_is_named_once_though_the_batch_is_tried_again(
    make: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make()
    batch = [entry("a", 0), Entry(b"7-0", "1-b-0", b"[1]")]
    with monkeypatch.context() as context:
        context.setattr(item_file, "_write_whole", failing(OSError(28, "full")))
        for _ in range(3):
            with pytest.raises(OSError, match="full"):
                file.add(batch)
    assert file.problems == []
    file.add(batch)
    assert len(file.problems) == 1


@pytest.mark.parametrize("number", ["9223372036854775807", "9" * 5000])
def test_an_identity_with_a_huge_number_is_that_of_a_page(make: Files, number: str) -> None:
    file = make()
    file.add([Entry(b"1-0", f"x-{number}", b'{"page": 1}'), Entry(b"2-0", f"x-{number}", b'{"page": 2}')])
    assert lines(file) == [{"page": 1}]


def test_a_part_of_a_batch_that_could_not_be_cut_off_is_cut_off_by_the_next_one(
    make: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make()
    file.add([entry("a", 0)])
    with monkeypatch.context() as context:
        context.setattr(ItemFile, "_cut", failing(OSError(5, "I/O error")))
        context.setattr(Journal, "note", failing(OSError(28, "full")))
        with pytest.raises(OSError, match="full"):
            file.add([entry("b", 0)])
    assert len(lines(file)) == 2
    file.add([entry("c", 0)])
    assert [line["page"] for line in lines(file)] == ["a", "c"]


def test_a_batch_that_is_in_the_journal_stays_though_its_writer_was_interrupted_then(
    make: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make()
    note = Journal.note

    def note_and_be_interrupted(*arguments: Any, **state: Any) -> None:
        note(*arguments, **state)
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(Journal, "note", note_and_be_interrupted)
        with pytest.raises(KeyboardInterrupt):
            file.add([entry("a", 0)])
    file.add([entry("a", 0), entry("b", 0)])
    file.close(is_complete=True)
    assert [line["page"] for line in lines(file)] == ["a", "b"]


# -- files that another program touches ----------------------------------------------------------------


def _replace(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.with_name("another").touch()  # so that the next file does not get the same inode
    path.write_bytes(data)


def _append(path: Path) -> None:
    with path.open("a") as file:
        file.write("something else\n")


TOUCHED = [
    (Path.unlink, "was deleted while items were written"),
    (_replace, "was replaced by another file while items were written"),
]


@pytest.mark.parametrize(("name", "format_"), [("items.jsonl", "jsonlines"), ("items.csv", "csv")])
@pytest.mark.parametrize("what", ["data", "journal_path"])
@pytest.mark.parametrize(("touch", "message"), TOUCHED, ids=["deleted", "replaced"])
def test_a_file_that_is_touched_while_it_is_written_is_no_silent_success(
    make: Files, name: str, format_: str, what: str, touch: Any, message: str
) -> None:
    file = make(name, format_)
    file.add([entry("a", 0)])
    touch(getattr(file, what))
    with pytest.raises(ChangedFileError, match=message):
        file.add([entry("b", 0)])
    with pytest.raises(ChangedFileError, match=message):
        file.close(is_complete=True)


def test_a_file_to_which_another_program_appends_is_refused_until_that_is_undone(make: Files) -> None:
    file = make()
    file.add([entry("a", 0)])
    size = file.path.stat().st_size
    _append(file.path)
    with pytest.raises(ChangedFileError, match=f"but {size} were written: another program has changed it"):
        file.add([entry("b", 0)])
    os.truncate(file.path, size)
    file.add([entry("b", 0)])
    assert [line["page"] for line in lines(file)] == ["a", "b"]


def test_a_file_that_was_exported_and_is_changed_since_is_refused_and_made_again(make: Files) -> None:
    first = make("items.json", "json")
    first.add([entry("a", 0)])
    first.close(is_complete=False)
    first.path.write_text("[]")
    with pytest.raises(FrontierError, match="was changed by another program"):
        make("items.json", "json")
    first.path.unlink()
    make("items.json", "json").close(is_complete=True)
    assert json.loads(first.path.read_text()) == [{"page": "a", "n": 0}]


def test_items_without_a_journal_are_not_replaced(make: Files) -> None:
    file = make("items.json", "json")
    file.add([entry("a", 0)])
    die(file)
    file.journal_path.unlink()
    with pytest.raises(FrontierError, match=r"items.json.items exists, but not its journal"):
        make("items.json", "json")
    assert file.data.read_text()
    assert not file.journal_path.exists()


# -- files that are replaced ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "format_", "before"),
    [
        ("items.jsonl", "jsonlines", '{"page": "of yesterday"}\n'),
        ("items.json", "json", '[{"page": "of yesterday"}]'),
    ],
)
def test_a_file_that_was_to_be_replaced_and_is_then_appended_to_keeps_its_items(
    make: Files, name: str, format_: str, before: str
) -> None:
    (make.folder / name).write_text(before)
    first = make(name, format_, overwrites=True)
    token = first.token
    first.close(is_complete=False)  # an interrupted crawl without an item
    second = make(name, format_)
    assert second.token == token
    second.add([entry("a", 0)])
    second.close(is_complete=True)
    assert re.findall(r"of yesterday|\"a\"", second.path.read_text()) == ["of yesterday", '"a"']


def test_a_new_crawl_that_replaces_a_file_writes_pages_that_the_last_one_has_written(
    make: Files,
) -> None:
    first = make()
    first.add([entry("a", 0)])
    first.close(is_complete=False)
    second = make(overwrites=True)
    second.add([entry("a", 0)])
    assert len(lines(second)) == 1
    assert second.count == 1


def test_a_crawl_that_goes_on_replaces_a_file_that_it_has_not_begun(make: Files) -> None:
    (make.folder / "items.jsonl").write_text('{"page": "of yesterday"}\n')
    file = make(overwrites=True, is_new=False)
    file.add([entry("a", 0)])
    assert [line["page"] for line in lines(file)] == ["a"]


def test_a_crawl_that_goes_on_continues_a_file_that_it_has_begun(make: Files) -> None:
    first = make(overwrites=True)
    first.add([entry("a", 0)])
    first.close(is_complete=False)
    second = make(overwrites=True, is_new=False)
    second.add([entry("b", 0)])
    assert [line["page"] for line in lines(second)] == ["a", "b"]


# -- how many items a crawl has -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "format_", "before"),
    [
        ("items.jsonl", "jsonlines", '{"page": "of yesterday"}\n'),
        ("items.json", "json", '[{"page": "of yesterday"}]'),
    ],
)
def test_the_items_of_a_crawl_are_counted_over_all_its_writers(
    make: Files, name: str, format_: str, before: str
) -> None:
    (make.folder / name).write_text(before)
    first = make(name, format_)
    first.add([entry("a", 0), entry("a", 1)])
    die(first)
    second = make(name, format_)
    assert second.written == 2
    second.add([entry("a", 1), entry("b", 0)])
    second.close(is_complete=True)
    assert (second.written, second.count) == (3, 1)


def test_an_item_that_a_file_cannot_have_is_not_counted(make: Files) -> None:
    file = make("items.csv", "csv", FEED_EXPORT_ENCODING="latin-1")
    file.add([entry("a", 0, x="ä"), entry("a", 1, x="€"), Entry(b"7-0", "1-b-0", b"[1]")])
    file.close(is_complete=True)
    assert file.written == 1


def test_a_new_crawl_that_replaces_a_file_counts_its_own_items(make: Files) -> None:
    first = make()
    first.add([entry("a", 0), entry("b", 0)])
    first.close(is_complete=False)
    second = make(overwrites=True)
    assert second.written == 0
    second.add([entry("a", 0)])
    assert second.written == 1


def test_a_batch_that_could_not_be_written_is_counted_once(
    make: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make()
    with monkeypatch.context() as context:
        context.setattr(item_file, "_write_whole", failing(OSError(28, "full")))
        with pytest.raises(OSError, match="full"):
            file.add([entry("a", 0)])
    file.add([entry("a", 0)])
    die(file)
    assert file.written == make().written == 1


# -- a crawl without items ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "format_", "text"),
    [("items.jsonl", "jsonlines", ""), ("items.json", "json", "[]"), ("items.csv", "csv", "")],
)
def test_a_crawl_without_items_leaves_a_valid_file(make: Files, name: str, format_: str, text: str) -> None:
    make(name, format_).close(is_complete=True)
    assert "".join((make.folder / name).read_text().split()) == text


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("overwrites", [False, True])
@pytest.mark.parametrize(("name", "format_"), [("items.jsonl", "jsonlines"), ("items.json", "json")])
def test_a_crawl_without_items_leaves_everything_as_it_was_if_empty_feeds_are_not_stored(
    make: Files, name: str, format_: str, overwrites: bool, is_there: bool
) -> None:
    path = make.folder / name
    text = '{"page": 1}\n' if format_ == "jsonlines" else '[{"page": 1}]'
    if is_there:
        path.write_text(text)
    make(name, format_, overwrites, FEED_STORE_EMPTY=False).close(is_complete=True)
    assert make.names() == ([name] if is_there else [])
    assert not is_there or path.read_text() == text


# -- what stays beside a file --------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "format_"), [("items.jsonl", "jsonlines"), ("items.csv", "csv")])
def test_a_file_that_is_withdrawn_leaves_nothing(make: Files, name: str, format_: str) -> None:
    make(name, format_).withdraw()
    assert make.names() == []


def test_a_file_that_is_withdrawn_keeps_the_items_of_an_earlier_writer(make: Files) -> None:
    first = make()
    first.add([entry("a", 0)])
    first.close(is_complete=False)
    make().withdraw()
    assert make.names() == ["items.jsonl", "items.jsonl.progress"]


def test_a_refusal_leaves_nothing_beside_the_file(make: Files) -> None:
    (make.folder / "items.json").write_text("{}")
    with pytest.raises(FrontierError):
        make("items.json", "json")
    assert make.names() == ["items.json"]


def test_an_export_that_fails_leaves_no_part_of_a_file(make: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make("items.json", "json")
    file.add([entry("a", 0)])
    with monkeypatch.context() as context:
        context.setattr(os, "fsync", failing(OSError(28, "No space left")))
        with pytest.raises(OSError, match="No space left"):
            file.close(is_complete=True)
    assert make.names() == ["items.json.items", "items.json.progress"]


def test_a_writer_that_dies_when_the_file_is_complete_leaves_nothing_for_the_next_one(
    make: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make("items.json", "json")
    first.add([entry("a", 0)])
    with monkeypatch.context() as context:
        context.setattr(ItemFile, "_remove_spool", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            first.close(is_complete=True)
    second = make("items.json", "json")
    assert second.token != first.token
    second.add([entry("a", 0)])  # of the next crawl
    second.close(is_complete=True)
    assert json.loads(second.path.read_text()) == [{"page": "a", "n": 0}] * 2
    assert make.names() == ["items.json"]


class Killed(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("format_", ["jsonlines", "csv"])
@pytest.mark.parametrize("step", ["write", "note"])
def test_a_replacement_that_was_killed_leaves_no_half_of_the_first_items(
    make: Files, monkeypatch: pytest.MonkeyPatch, format_: str, step: str
) -> None:
    name = "items.jsonl" if format_ == "jsonlines" else "items.csv"
    (make.folder / name).write_text(
        '{"page": "old", "n": 0}\n' if format_ == "jsonlines" else "page,n\nold,0\n"
    )
    file = make(name, format_, overwrites=True)
    note = Journal.note

    def write(opened: Any, data: bytes) -> None:
        opened.write(data[:15])
        raise Killed

    def note_or_die(journal: Journal, counts: dict[bytes, int], **state: object) -> None:
        if counts:
            raise Killed
        note(journal, counts, **state)

    with monkeypatch.context() as context:
        # Nothing is tidied up: the process is gone.
        context.setattr(ItemFile, "_cut", lambda _: None)
        if step == "write":
            context.setattr(item_file, "_write_whole", write)
        else:
            context.setattr(Journal, "note", note_or_die)
        with pytest.raises(Killed):
            file.add([entry("a", 0), entry("a", 1)])
    die(file)
    second = make(name, format_)
    second.add([entry("a", 0), entry("a", 1)])
    second.close(is_complete=True)
    text = (make.folder / name).read_text()
    assert [text.count(f'"n": {n}' if format_ == "jsonlines" else f"a,{n}") for n in (0, 1)] == [1, 1]
    assert "old" not in text


@pytest.mark.parametrize(("name", "format_"), [("items.jsonl", "jsonlines"), ("items.csv", "csv")])
def test_a_replacement_that_is_refused_leaves_an_interrupted_file_as_it_was(
    make: Files, name: str, format_: str
) -> None:
    first = make(name, format_)
    first.add([entry("a", 0)])
    token = first.token
    die(first)
    make(name, format_, overwrites=True).withdraw()  # another file of the same command cannot be written
    second = make(name, format_)
    assert second.token == token
    second.add([entry("a", 0), entry("a", 1)])
    second.close(is_complete=True)
    assert (second.count, second.passed) == (1, 1)


def test_a_file_knows_the_crawl_of_which_it_has_items(make: Files) -> None:
    first = make()
    assert first.crawl == ""
    first.add([entry("a", 0)])
    die(first)
    assert make().crawl == "1"
