"""The formats of a file of items, and what is appended to."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.exporters import JsonItemExporter, JsonLinesItemExporter
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.codec.items import LineSerializer
from scrapy_rq_sched.collect.item_file import Entry, ItemFile
from scrapy_rq_sched.errors import FrontierError, SettingError

from ..support.item_files import Files, entry


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Files]:
    files = Files(tmp_path)
    yield files
    files.close()


def test_a_table_has_the_columns_of_all_items(make: Files) -> None:
    file = make("items.csv", "csv")
    file.add([entry("a", 0, x=1), entry("b", 0, y=2)])
    file.close(is_complete=True)
    assert list(csv.reader(file.path.open())) == [["x", "y"], ["1", ""], ["", "2"]]


def test_a_table_of_an_item_without_fields_is_empty(make: Files) -> None:
    file = make("items.csv", "csv")
    file.add([Entry(b"1-0", "1-a-0", b"{}")])
    file.close(is_complete=True)
    assert file.path.read_text() == ""


def test_a_table_is_appended_to_and_gets_further_columns(make: Files, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("x\n1\n")
    file = make("items.csv", "csv")
    file.add([entry("a", 0, y=2)])
    file.close(is_complete=True)
    assert list(csv.reader(file.path.open())) == [["x", "y"], ["1", ""], ["", "2"]]


def test_an_array_of_before_is_appended_to(make: Files, tmp_path: Path) -> None:
    (tmp_path / "items.json").write_text('[{"page": "of yesterday"}]')
    file = make("items.json", "json")
    file.add([entry("a", 0)])
    file.close(is_complete=True)
    assert [item["page"] for item in json.loads(file.path.read_text())] == ["of yesterday", "a"]


def test_a_file_to_which_nothing_can_be_appended_is_refused(make: Files, tmp_path: Path) -> None:
    (tmp_path / "items.xml").write_text("<items/>")
    with pytest.raises(FrontierError, match=r"cannot be appended to .*Use -O to replace it"):
        make("items.xml", "xml")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-nonsense"])
def test_an_encoding_in_which_lines_cannot_be_appended_is_refused(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(SettingError, match="FEED_EXPORT_ENCODING"):
        ItemFile(
            tmp_path / "items.jsonl",
            {"format": "jsonlines"},
            get_crawler(settings_dict={"FEED_EXPORT_ENCODING": encoding}).settings,
        )


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="has no exporter of the format 'odd'"):
        ItemFile(tmp_path / "items.odd", {"format": "odd"}, Settings())


def test_an_unknown_encoding_is_refused_for_each_format(tmp_path: Path) -> None:
    settings = get_crawler(settings_dict={"FEED_EXPORT_ENCODING": "utf-8-nonsense"}).settings
    with pytest.raises(SettingError, match="FEED_EXPORT_ENCODING must be the name of an encoding"):
        ItemFile(tmp_path / "items.csv", {"format": "csv"}, settings)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"page": "of yesterday"}', "it must be a list of objects, not a dict"),
        ("[1]", "it must be a list of objects, but has an int"),
        ('["page"]', "it must be a list of objects, but has a str"),
        ("3", "it must be a list of objects, not an int"),
        ("[" * 100_000, "recursion"),
        ("no JSON", "Expecting value"),
    ],
    ids=["object", "numbers", "texts", "number", "deep", "text"],
)
def test_an_array_that_is_no_list_of_objects_is_refused_and_stays(make: Files, text: str, why: str) -> None:
    path = make.folder / "items.json"
    path.write_text(text)
    with pytest.raises(FrontierError, match=f"cannot be appended to .*: .*{why}.*. Use -O to replace it"):
        make("items.json", "json")
    assert path.read_text() == text
    assert make.names() == ["items.json"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x,y\n1,2,3\n", "line 2 has more cells than the first line"),
        ("x,y,x\n1,2,3\n", "it has two columns 'x'"),
        ("x\n1\n\x002,3\n", "line"),
    ],
)
def test_a_table_of_which_a_part_would_be_lost_is_refused_and_stays(make: Files, text: str, why: str) -> None:
    path = make.folder / "items.csv"
    path.write_text(text)
    with pytest.raises(FrontierError, match=f"cannot be appended to .*: .*{why}"):
        make("items.csv", "csv")
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        ("items.csv", "x\n1\n", "x,page,n\r\n1,,\r\n,a,0\r\n"),
        ("items.json", '[{"x": 1}]', '[\n{"x": 1},\n{"page": "a", "n": 0}\n]'),
    ],
)
def test_a_mark_of_the_byte_order_is_no_part_of_an_item(
    make: Files, name: str, text: str, after: str
) -> None:
    path = make.folder / name
    path.write_text(text, encoding="utf-8-sig")
    file = make(name, path.suffix[1:])
    file.add([entry("a", 0)])
    file.close(is_complete=True)
    assert path.read_bytes().decode() == after


def test_a_table_with_other_names_of_fields_is_appended_to(make: Files) -> None:
    (make.folder / "items.csv").write_text("the page\nof yesterday\n")
    file = make("items.csv", "csv", FEED_EXPORT_FIELDS={"page": "the page"})
    file.add([entry("a", 0)])
    file.close(is_complete=True)
    assert file.path.read_text() == "the page\nof yesterday\na\n"


@pytest.mark.parametrize(
    ("name", "text"), [("items.csv", "x,y\n1,2\n"), ("items.json", '[{"x": 1, "y": 2}]')]
)
def test_a_file_with_a_field_that_would_not_be_exported_again_is_refused(
    make: Files, name: str, text: str
) -> None:
    (make.folder / name).write_text(text)
    with pytest.raises(FrontierError, match="FEED_EXPORT_FIELDS lacks its field 'y'"):
        make(name, name.rpartition(".")[2], FEED_EXPORT_FIELDS=["x"])


# -- items that a format cannot have -------------------------------------------------------------------

SURROGATE = "\ud800"


def made(make: Files, name: str, *items: dict[str, Any], **settings: Any) -> ItemFile:
    file = make(name, name.rpartition(".")[2], **settings)
    file.add([entry("a", n, **item) for n, item in enumerate(items)])
    file.close(is_complete=True)
    return file


def test_lines_have_a_character_that_utf_8_lacks_as_scrapy_writes_it(make: Files) -> None:
    file = made(make, "items.jsonl", {"x": SURROGATE})
    target = io.BytesIO()
    JsonLinesItemExporter(target, encoding=None).export_item({"x": SURROGATE})
    assert file.path.read_bytes() == target.getvalue() == b'{"x": "\\ud800"}\n'
    assert file.problems == []


def test_an_item_with_such_a_character_goes_through_redis_as_ascii() -> None:
    assert LineSerializer()({"x": SURROGATE, "y": "é"}) == b'{"x": "\\ud800", "y": "\\u00e9"}'


def test_an_item_with_such_a_character_is_left_out_of_a_table_and_kept(make: Files) -> None:
    file = made(make, "items.csv", {"x": "1"}, {"x": SURROGATE}, {"x": "3"})
    assert list(csv.reader(file.path.open())) == [["x"], ["1"], ["3"]]
    assert file.count == 2
    left_out, kept = file.problems
    assert left_out.startswith(f"An item is left out of {file.path}: ")
    (path,) = (path for path in make.folder.iterdir() if path != file.path)
    assert kept == f"All items of {file.path} are in {path}, as JSON lines"
    assert [json.loads(line)["x"] for line in path.read_text().splitlines()] == ["1", SURROGATE, "3"]


def test_a_table_without_a_column_that_cannot_be_written_has_the_names_of_the_others(make: Files) -> None:
    file = made(make, "items.csv", {SURROGATE: 1, "x": 2})
    assert file.path.read_text() == "x\n2\n"
    assert file.problems[0].startswith(f"A field is left out of {file.path}: ")


@pytest.mark.parametrize("item", [{"x": "\x00"}, {"no name": 1}], ids=["character", "name"])
def test_xml_that_cannot_be_read_is_named_and_its_items_are_kept(make: Files, item: dict[str, Any]) -> None:
    file = made(make, "items.xml", item)
    assert file.problems[0].startswith(f"{file.path} is not valid XML: ")
    assert file.problems[1].startswith(f"All items of {file.path} are in ")


@pytest.mark.parametrize("encoding", [None, "utf-8", "latin-1", "shift_jis"])
def test_xml_that_can_be_read_keeps_nothing(make: Files, encoding: str | None) -> None:
    file = made(make, "items.xml", {"x": "1"}, FEED_EXPORT_ENCODING=encoding)
    assert file.problems == []
    assert make.names() == ["items.xml"]


def test_an_item_that_an_exporter_refuses_is_left_out_with_a_line(
    make: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = JsonItemExporter.export_item

    def refuse_one(self: JsonItemExporter, item: Any) -> None:
        if item["x"] == 2:
            raise TypeError("no two")
        export(self, item)

    monkeypatch.setattr(JsonItemExporter, "export_item", refuse_one)
    file = made(make, "items.json", {"x": 1}, {"x": 2}, {"x": 3})
    assert json.loads(file.path.read_text()) == [{"x": 1}, {"x": 3}]
    assert file.problems[0] == f'An item is left out of {file.path}: no two: {{"x": 2}}'


def test_of_very_many_items_that_are_left_out_only_the_first_have_a_line(make: Files) -> None:
    file = made(make, "items.csv", {"x": "1"}, *({"x": SURROGATE} for _ in range(25)))
    assert len(file.problems) == 12
    assert file.problems[10] == f"15 further items are left out of {file.path}"
