"""The feeds of the settings: which of them the command writes, and which of its items a file has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scrapy import Item, Spider
from scrapy.exporters import JsonItemExporter
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.errors import SettingError, UnserializableItemError
from scrapy_rq_sched.feeds import Choice, leave_joined
from scrapy_rq_sched.supervise.arguments import Arguments, Project
from scrapy_rq_sched.supervise.joined_feeds import SettingsFeed, feeds_of_settings


class OwnExporter(JsonItemExporter):
    """A project's own."""


class OwnStorage(FileFeedStorage):
    """A project's own."""


class Quote(Item):
    """An item of a class."""


class Even:
    """Accepts even numbers."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.factor = options["factor"]

    def accepts(self, item: Any) -> bool:
        return bool(item % self.factor == 0)


def feed(
    uri: str | Path = "items.json", settings: dict[str, Any] | None = None, **options: Any
) -> SettingsFeed:
    (found,) = feeds_of_settings(Settings({"FEEDS": {uri: options}, **(settings or {})}), "quotes")
    return found


# -- which feeds are joined ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("items.json", Path("items.json").resolve()),
        ("/a/items.csv", Path("/a/items.csv")),
        ("file:///a/items.xml", Path("/a/items.xml")),
        (Path("/a/items.jsonl"), Path("/a/items.jsonl")),
        ("/a/%(name)s.jl", Path("/a/quotes.jl")),
    ],
    ids=str,
)
def test_a_local_file_is_joined(uri: str | Path, path: Path) -> None:
    found = feed(uri)
    assert found.is_joined
    assert found.path == path
    assert found.options["format"] == path.suffix[1:]
    assert found.remark == ""


@pytest.mark.parametrize(
    "options", [{"item_classes": [Quote]}, {"fields": ["a"], "indent": 2}, {"overwrite": True}]
)
def test_a_feed_with_options_that_are_honoured_is_joined(options: dict[str, Any]) -> None:
    assert feed(**options).is_joined


@pytest.mark.parametrize(
    ("uri", "options", "settings", "why"),
    [
        ("s3://b/items.json", {}, {}, "it is not a local file"),
        ("%(time)s.json", {}, {}, "its name has a placeholder"),
        ("a.pickle", {}, {}, "its format is 'pickle', and not JSON lines, JSON, CSV or XML"),
        ("a.jsonl", {"postprocessing": ["x.Gzip"]}, {}, "it has postprocessing"),
        ("a.json", {"item_export_kwargs": {"x": 1}}, {}, "it has item_export_kwargs"),
        ("a-%(batch_id)d.json", {"batch_item_count": 9}, {}, "it has batch_item_count"),
        ("a.json", {}, {"FEED_EXPORT_BATCH_ITEM_COUNT": 9}, "it has batch_item_count"),
        (
            "a.json",
            {},
            {"FEED_EXPORTERS": {"json": OwnExporter}},
            "FEED_EXPORTERS has an exporter of the project",
        ),
        (
            "a.json",
            {},
            {"FEED_STORAGES": {"": OwnStorage}},
            "FEED_STORAGES has a storage of the project's own",
        ),
        ("a.jsonl", {"encoding": "utf-16"}, {}, "lines cannot be appended in the encoding utf-16"),
        (
            "a.json",
            {"item_classes": [Quote]},
            {"FRONTIER_ITEMS": "list"},
            "it has item_classes or an item_filter",
        ),
        (
            "a.json",
            {},
            {"FRONTIER_ITEMS": "list", "REDIS_ITEMS_SERIALIZER": "x"},
            "FRONTIER_ITEMS stores items with REDIS_ITEMS_SERIALIZER",
        ),
    ],
)
def test_a_feed_with_an_option_that_cannot_be_honoured_is_left_to_the_workers(
    uri: str, options: dict[str, Any], settings: dict[str, Any], why: str
) -> None:
    found = feed(uri, settings, **options)
    assert not found.is_joined
    assert found.remark.startswith(
        f"Feed {uri!r} of FEEDS is not written once for all workers, because {why}"
    )
    assert (
        "All workers write it, and damage or replace each other's items. Put %(worker)s into" in found.remark
    )


def test_a_storage_of_this_package_is_no_obstacle() -> None:
    whole = "scrapy_rq_sched.feeds.WholeItemsStorage"
    assert feed(settings={"FEED_STORAGES": {"": whole, "file": whole}}).is_joined


def test_a_feed_that_differs_between_the_workers_is_said_to_be_as_with_scrapy() -> None:
    assert feed("%(batch_time)s.json").remark.endswith("Each worker writes its own, as with scrapy crawl")


@pytest.mark.parametrize("uri", ["items-%(worker)s.json", "stdout:"])
def test_a_feed_that_is_made_for_each_worker_has_no_remark(uri: str) -> None:
    found = feed(uri, format="json")
    assert not found.is_joined
    assert found.remark == ""


def test_the_remark_shows_no_password() -> None:
    found = feed("ftp://user:s3cret@host/b.json")
    assert "s3cret" not in found.remark + found.uri


# -- what the workers are told ----------------------------------------------------------------------------


def written(project: Project, outputs: list[str], overwrite: bool = False) -> Arguments:
    arguments = Arguments("quotes", [], [])
    arguments.write(project, outputs, overwrite)
    return arguments


def told(arguments: Arguments) -> Any:
    """Return what the workers are told of the feeds of the settings."""
    arguments.set_joined()
    (value,) = [text for text in arguments.of("worker-1") if text.startswith("FRONTIER_JOINED_FEEDS=")]
    return json.loads(value.partition("=")[2])


def test_the_feeds_of_the_settings_and_of_the_spider_are_files(tmp_path: Path) -> None:
    class Own(Spider):
        custom_settings = {"FEEDS": {f"{tmp_path}/own.json": {"format": "json"}, "s3://b/x.json": {}}}

    arguments = written(Project(Settings({"FEEDS": {"project.json": {}}}), Own), [f"{tmp_path}/o.csv"])
    assert [file.path.name for file in arguments.files] == ["o.csv", "own.json"]
    arguments.files[1].token = "4f1d"
    assert told(arguments) == {f"{tmp_path}/own.json": "4f1d", "s3://b/x.json": ""}
    (line,) = arguments.remarks
    assert line.startswith("Feed 's3://b/x.json' of FEEDS")


def test_the_options_of_feeds_have_precedence_over_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "items.json"
    project = Project(Settings({"FEEDS": {path: {"format": "json", "overwrite": False}}}), Spider)
    (file,) = written(project, [str(path)], overwrite=True).files
    assert not file.overwrites


def test_a_file_that_the_workers_write_themselves_is_refused_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "items.json"
    project = Project(Settings({"FEEDS": {path: {"postprocessing": ["x"]}}}), Spider)
    with pytest.raises(SettingError, match=r"FEEDS has the same file\. .* because it has postprocessing"):
        written(project, [str(path)])


def test_without_feeds_the_workers_are_told_nothing() -> None:
    arguments = written(Project(Settings(), Spider), [])
    arguments.set_joined()
    assert arguments.of("worker-1") == ["crawl", "quotes"]


# -- the workers ---------------------------------------------------------------------------------------


def test_scrapy_writes_only_the_feeds_that_are_left_to_it(tmp_path: Path) -> None:
    own, joined = f"{tmp_path}/own-%(worker)s.json", tmp_path / "joined.json"
    settings = {
        "FEEDS": {own: {"format": "json"}, joined: {"format": "json"}},
        "FRONTIER_JOINED_FEEDS": {own: "", str(joined): "4f1d"},
    }
    crawler = get_crawler(settings_dict=settings)
    exporter = crawler.get_extension(FeedExporter)
    assert exporter is not None
    leave_joined(crawler)
    assert list(exporter.feeds) == [own]


def choice(**options: Any) -> Choice:
    return Choice(
        Settings(
            {
                "FEEDS": {"all.json": {}, "some.json": options},
                "FRONTIER_FEED": "aaaa,bbbb,cccc",
                "FRONTIER_JOINED_FEEDS": {"all.json": "aaaa", "some.json": "bbbb"},
            }
        )
    )


def test_without_a_filter_there_is_no_choice() -> None:
    assert not choice()


@pytest.mark.parametrize("name", [Quote, f"{__name__}.Quote"], ids=["class", "path"])
def test_a_file_with_item_classes_has_only_their_items(name: Any) -> None:
    made = choice(item_classes=[name])
    assert made
    assert made(Quote()) == "aaaa,bbbb,cccc"
    assert made({}) == "aaaa,cccc"


def test_an_item_filter_gets_the_options_of_its_feed() -> None:
    made = choice(item_filter=Even, factor=3)
    assert [made(item) for item in (3, 4)] == ["aaaa,bbbb,cccc", "aaaa,cccc"]


def test_an_item_filter_that_raises_an_exception_names_its_feed() -> None:
    with pytest.raises(
        UnserializableItemError, match=r"item_filter of feed 'some.json' has raised TypeError.*"
    ):
        choice(item_filter=Even, factor=3)({})


def test_an_item_filter_that_cannot_be_loaded_is_refused() -> None:
    with pytest.raises(SettingError, match=r"Feed 'some.json' of FEEDS has an item_filter .*No module named"):
        choice(item_filter="nowhere.Filter")
