"""A file of items: each once, whatever the writer was doing when it ended."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.collect import item_file
from scrapy_rq_sched.collect.item_file import Entry, ItemFile
from scrapy_rq_sched.errors import FrontierError, SettingError


def entry(page: str, n: int, **item: Any) -> Entry:
    return Entry(f"{page}-{n}".encode(), f"1-{page}-{n}", json.dumps(item or {"page": page, "n": n}).encode())


Make = Callable[..., ItemFile]


@pytest.fixture
def make(tmp_path: Path) -> Iterable[Make]:
    """Open a file as a new program does."""
    opened: list[ItemFile] = []

    def begin(
        name: str = "items.jsonl", format_: str = "jsonlines", replaces: bool = False, **settings: Any
    ) -> ItemFile:
        file = ItemFile(tmp_path / name, format_, get_crawler(settings_dict=settings).settings)
        file.open(replaces)
        opened.append(file)
        return file

    yield begin
    for file in opened:
        file.close(is_complete=False)


def lines(file: ItemFile) -> list[Any]:
    return [json.loads(line) for line in file.path.read_text().splitlines()]


def die(file: ItemFile) -> None:
    """Close the files of *file* as the end of its process does."""
    journal, opened = file._opened
    opened.close()
    journal.close(remove=False)
    file._journal = file._file = None


def test_items_are_in_the_file_at_once_and_in_their_order(make: Make) -> None:
    file = make()
    file.add([entry("a", 0), entry("a", 1), entry("b", 0)])
    assert [(line["page"], line["n"]) for line in lines(file)] == [("a", 0), ("a", 1), ("b", 0)]


def test_an_item_that_is_given_twice_is_in_the_file_once(make: Make) -> None:
    file = make()
    file.add([entry("a", 0), entry("a", 1)])
    file.add([entry("a", 0), entry("a", 1), entry("a", 2)])
    assert [line["n"] for line in lines(file)] == [0, 1, 2]
    assert file.count == 3


def test_the_next_writer_knows_the_items_of_the_file(make: Make) -> None:
    first = make()
    first.add([entry("a", 0)])
    token = first.token
    die(first)
    second = make()
    assert second.token == token
    second.add([entry("a", 0), entry("a", 1)])
    assert [line["n"] for line in lines(second)] == [0, 1]


def test_lines_that_the_journal_does_not_know_are_cut_off(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make()
    first.add([entry("a", 0)])
    with monkeypatch.context() as context:
        context.setattr(item_file.Journal, "note", lambda *_, **__: 1 / 0)  # the process is killed there
        with pytest.raises(ZeroDivisionError):
            first.add([entry("b", 0)])
    assert len(lines(first)) == 2
    die(first)
    second = make()
    assert len(lines(second)) == 1
    second.add([entry("b", 0)])
    assert [line["page"] for line in lines(second)] == ["a", "b"]


def test_a_disk_that_takes_a_part_of_a_line_leaves_the_file_as_it_was(
    make: Make, monkeypatch: pytest.MonkeyPatch
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


def test_a_journal_that_cannot_be_written_leaves_the_file_as_it_was(make: Make) -> None:
    file = make()
    file.add([entry("a", 0)])
    journal, _ = file._opened
    journal._database.execute("PRAGMA query_only = ON")  # as on a full disk
    with pytest.raises(OSError, match=r"items.jsonl.progress: "):
        file.add([entry("b", 0)])
    assert [line["page"] for line in lines(file)] == ["a"]
    journal._database.execute("PRAGMA query_only = OFF")
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


def test_two_programs_cannot_write_one_file(make: Make) -> None:
    make()
    with pytest.raises(FrontierError, match="Another program writes the file of"):
        make()


def test_a_file_that_another_program_has_changed_is_refused(make: Make) -> None:
    first = make()
    first.add([entry("a", 0)])
    die(first)
    first.path.write_text("")
    with pytest.raises(FrontierError, match="another program has changed it"):
        make()


def test_a_journal_that_is_none_is_refused(make: Make, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl.progress").write_text("something else" * 100)
    with pytest.raises(FrontierError, match="is not a journal"):
        make()


def test_a_complete_file_has_no_journal(make: Make, tmp_path: Path) -> None:
    file = make()
    file.add([entry("a", 0)])
    file.close(is_complete=True)
    assert [path.name for path in tmp_path.iterdir()] == ["items.jsonl"]


def test_a_file_of_before_is_appended_to(make: Make, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text('{"page": "of yesterday"}')  # without a line's end
    file = make()
    assert file.adds
    file.add([entry("a", 0)])
    assert [line["page"] for line in lines(file)] == ["of yesterday", "a"]


def test_a_file_is_replaced_when_the_first_item_comes(make: Make, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text('{"page": "of yesterday"}\n')
    die(make(replaces=True))
    file = make()
    assert [line["page"] for line in lines(file)] == ["of yesterday"]
    file.add([entry("a", 0)])
    assert [line["page"] for line in lines(file)] == ["a"]


def test_a_crawl_without_items_empties_a_file_that_it_replaces(make: Make, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text('{"page": "of yesterday"}\n')
    make(replaces=True).close(is_complete=True)
    assert (tmp_path / "items.jsonl").read_text() == ""


@pytest.mark.parametrize(
    "data",
    [b"no JSON", b"[1]", b"1", b"\xff", b"[" * 100_000],
    ids=["text", "list", "number", "bytes", "deep"],
)
def test_an_entry_that_is_no_item_is_left_out_with_a_line(make: Make, data: bytes) -> None:
    file = make()
    file.add([entry("a", 0), Entry(b"7-0", "1-b-0", data), entry("c", 0)])
    assert [line["page"] for line in lines(file)] == ["a", "c"]
    (problem,) = file.problems
    assert problem.startswith("Entry 7-0 of the items is not an item as JSON, and is left out: ")


def test_an_entry_without_an_identity_is_written_once(make: Make) -> None:
    file = make()
    strange = Entry.of(b"7-0", {b"item": b'{"page": "a"}'})
    file.add([strange, strange])
    file.add([strange])
    assert len(lines(file)) == 1


def test_the_settings_of_feeds_apply(make: Make) -> None:
    file = make(FEED_EXPORT_FIELDS=["b", "a"], FEED_EXPORT_ENCODING="latin-1")
    file.add([entry("p", 0, a="ä", b=1, c=2), entry("p", 1, a="€")])
    assert file.path.read_bytes() == '{"b": 1, "a": "ä"}\n'.encode("latin-1")
    assert len(file.problems) == 1  # latin-1 has no euro


def test_a_table_has_the_columns_of_all_items(make: Make) -> None:
    file = make("items.csv", "csv")
    file.add([entry("a", 0, x=1), entry("b", 0, y=2)])
    file.close(is_complete=True)
    assert list(csv.reader(file.path.open())) == [["x", "y"], ["1", ""], ["", "2"]]


def test_a_table_of_an_item_without_fields_is_empty(make: Make) -> None:
    file = make("items.csv", "csv")
    file.add([Entry(b"1-0", "1-a-0", b"{}")])
    file.close(is_complete=True)
    assert file.path.read_text() == ""


def test_a_table_is_appended_to_and_gets_further_columns(make: Make, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("x\n1\n")
    file = make("items.csv", "csv")
    file.add([entry("a", 0, y=2)])
    file.close(is_complete=True)
    assert list(csv.reader(file.path.open())) == [["x", "y"], ["1", ""], ["", "2"]]


def test_an_array_is_there_when_the_writer_ends_and_goes_on_with_the_next_one(
    make: Make, tmp_path: Path
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


def test_an_array_of_before_is_appended_to(make: Make, tmp_path: Path) -> None:
    (tmp_path / "items.json").write_text('[{"page": "of yesterday"}]')
    file = make("items.json", "json")
    file.add([entry("a", 0)])
    file.close(is_complete=True)
    assert [item["page"] for item in json.loads(file.path.read_text())] == ["of yesterday", "a"]


def test_a_file_to_which_nothing_can_be_appended_is_refused(make: Make, tmp_path: Path) -> None:
    (tmp_path / "items.xml").write_text("<items/>")
    with pytest.raises(FrontierError, match=r"cannot be appended to .*Use -O to replace it"):
        make("items.xml", "xml")


def test_an_export_that_fails_keeps_the_items(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make("items.json", "json")
    first.add([entry("a", 0)])
    with monkeypatch.context() as context:
        context.setattr(ItemFile, "_export", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises(OSError, match="No space left"):
            first.close(is_complete=True)
    second = make("items.json", "json")
    second.close(is_complete=True)
    assert json.loads(second.path.read_text()) == [{"page": "a", "n": 0}]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-nonsense"])
def test_an_encoding_in_which_lines_cannot_be_appended_is_refused(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(SettingError, match="FEED_EXPORT_ENCODING"):
        ItemFile(
            tmp_path / "items.jsonl",
            "jsonlines",
            get_crawler(settings_dict={"FEED_EXPORT_ENCODING": encoding}).settings,
        )


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    file = ItemFile(tmp_path / "items.odd", "odd", Settings())
    file.open(replaces=False)
    file.add([entry("a", 0)])
    with pytest.raises(SettingError, match="has no exporter of the format 'odd'"):
        file.close(is_complete=True)
