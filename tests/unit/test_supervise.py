"""The parts of ``scrapy frontier crawl`` that need no crawl: command lines, logs, sums."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Spider
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from scrapy_rq_sched.commands.crawl import _say_items
from scrapy_rq_sched.commands.crawl_view import Screen
from scrapy_rq_sched.errors import SettingError
from scrapy_rq_sched.servers.own_redis import says_where_redis_is
from scrapy_rq_sched.supervise import report
from scrapy_rq_sched.supervise.arguments import Arguments, Project
from scrapy_rq_sched.supervise.feeds import path_of
from scrapy_rq_sched.supervise.log_tail import LogTail, is_error, without_time

# -- files of items --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("items.jsonl", "items.jsonl"),
        ("/a/b.csv", "/a/b.csv"),
        ("file:///a/b%20c.csv", "/a/b c.csv"),
        ("s3://b/x.csv", ""),
        ("-", ""),
        ("stdout:", ""),
        ("%(name)s.csv", ""),
        ("file:///a/b-%(worker)s.csv", ""),
        ("file://other-host/a/b.csv", ""),
    ],
)
def test_a_uri_of_a_file_gives_its_path(uri: str, path: str) -> None:
    assert path_of(uri) == path


# -- the command lines -------------------------------------------------------------------------------


def arguments(outputs: list[str], overwrite: bool = False, **settings: Any) -> Arguments:
    made = Arguments("quotes", ["A=1"], ["tag=x"])
    made.write(Project(Settings(settings), Spider), outputs, overwrite)
    return made


def test_a_file_of_all_workers_is_not_a_feed_of_each(tmp_path: Path) -> None:
    made = arguments([str(tmp_path / "items.csv")])
    assert [file.path for file in made.files] == [tmp_path / "items.csv"]
    assert made.of("worker-1") == ["crawl", "quotes", "-a", "tag=x", "-s", "A=1"]


def test_a_feed_with_a_name_for_each_worker_stays_unchanged(tmp_path: Path) -> None:
    made = arguments(["s3://bucket/%(worker)s.json", str(tmp_path / "a.csv")], overwrite=True)
    assert made.of("worker-1")[-2:] == ["-O", "s3://bucket/%(worker)s.json:json"]
    assert len(made.files) == 1


@pytest.mark.parametrize(
    "output",
    ["-:jsonlines", "s3://bucket/items.jsonl", "%(time)s.jsonl", "items-%(batch_id)d.jsonl"],
)
def test_a_feed_that_several_workers_cannot_write_is_refused(output: str) -> None:
    with pytest.raises(SettingError, match="cannot write to the same place"):
        arguments([output])


def test_a_file_of_items_with_another_serializer_is_refused(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"FRONTIER_ITEMS": "list", "REDIS_ITEMS_SERIALIZER": "pickle.dumps"}
    with pytest.raises(SettingError, match="the items of a file must be JSON"):
        arguments([str(tmp_path / "items.jsonl")], **settings)


def test_a_serializer_without_items_in_redis_is_that_of_a_pipeline_alone(tmp_path: Path) -> None:
    made = arguments([str(tmp_path / "items.jsonl")], REDIS_ITEMS_SERIALIZER="pickle.dumps")
    assert len(made.files) == 1


def test_a_feed_that_scrapy_refuses_is_refused() -> None:
    with pytest.raises(UsageError):
        arguments(["items.unheard"])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"SCHEDULER": "scrapy_rq_sched.Scheduler"}, True),
        ({"SCHEDULER": "scrapy_rq_sched.scheduler.Scheduler"}, True),
        ({"ADDONS": {"scrapy_rq_sched.Addon": 500}}, True),
        ({"ADDONS": {"scrapy_rq_sched.Addon": None}}, False),
        ({"SCHEDULER": "scrapy.core.scheduler.Scheduler"}, False),
    ],
)
def test_whether_a_project_shares_its_crawls(settings: dict[str, Any], expected: bool) -> None:
    assert Project(Settings(settings), Spider).has_our_scheduler is expected

    class Own(Spider):
        custom_settings = settings

    assert Project(Settings(), Own).has_our_scheduler is expected


@pytest.mark.parametrize("name", ["REDIS_URL", "REDIS_HOST", "REDIS_PARAMS"])
def test_whether_a_project_says_where_redis_is(name: str) -> None:
    value: Any = {"host": "r"} if name == "REDIS_PARAMS" else "r"
    assert says_where_redis_is(Settings({name: value}))
    assert not says_where_redis_is(Settings())


# -- the display, and what is said at the end --------------------------------------------------------


class _Output:
    """An output without a terminal."""

    redraws = False

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.error: OSError | None = None

    def say(self, text: str) -> None:
        if self.error is not None:
            raise self.error
        self.lines.append(text)

    show = warn = say


def a_screen(folder: Path, output: _Output) -> Screen:
    return Screen(SimpleNamespace(output=output), folder, "pages", 1)  # type: ignore[arg-type]


def test_a_log_that_cannot_be_written_is_named_once_and_nothing_else_is_lost(tmp_path: Path) -> None:
    output = _Output()
    screen = a_screen(tmp_path / "no folder", output)
    screen.say("first")
    screen.say("second")
    _, first, second = output.lines
    assert first.startswith(f"first\n{tmp_path}/no folder/supervisor.log cannot be written: ")
    assert second == "second"


def test_an_output_on_a_full_disk_does_not_end_the_crawl(tmp_path: Path) -> None:
    output = _Output()
    screen = a_screen(tmp_path, output)
    output.error = OSError(28, "No space left on device")
    screen.say("unheard")
    screen.draw(SimpleNamespace(), "Redis does not answer")  # type: ignore[arg-type]
    assert "unheard" in (tmp_path / "supervisor.log").read_text()


def test_a_closed_pipe_at_the_output_ends_the_crawl(tmp_path: Path) -> None:
    output = _Output()
    screen = a_screen(tmp_path, output)
    output.error = BrokenPipeError()
    with pytest.raises(BrokenPipeError):
        screen.say("unheard")


def said_at_the_end(
    advice: str = "", count: int = 0, passed: int = 0, **stats: int
) -> tuple[bool, list[str]]:
    file = SimpleNamespace(count=count, passed=passed, path="items.jsonl", summary=f"{count} were written")
    feed = SimpleNamespace(file=file, waiting=0, is_changed=False)
    writer = SimpleNamespace(feeds=[feed], advice=lambda _: advice, unwritten_of_others=list)
    output = _Output()
    names = {"scraped": "item_scraped_count", "stored": "items/stored"}
    found = {names[name]: value for name, value in stats.items()}
    are_there = _say_items(SimpleNamespace(output=output), writer, found)  # type: ignore[arg-type]
    return are_there, output.lines


def test_a_file_with_all_items_is_a_success() -> None:
    assert said_at_the_end(count=5, scraped=5, stored=5) == (True, ["5 were written"])


def test_a_file_of_a_crawl_without_items_is_a_success() -> None:
    assert said_at_the_end() == (True, ["0 were written"])


def test_an_export_that_has_failed_is_not_called_written() -> None:
    assert said_at_the_end("items.csv is not made", count=5, stored=5) == (False, ["items.csv is not made"])


def test_items_that_were_stored_and_did_not_come_are_said() -> None:
    are_there, (_, line) = said_at_the_end(count=3, scraped=5, stored=5)
    assert not are_there
    assert line.startswith("The workers stored 5 items in Redis, of which 2 did not come to items.jsonl: ")


@pytest.mark.parametrize(
    "known",
    [
        {"count": 3, "passed": 2, "scraped": 5, "stored": 5},  # two had a line of their own
        {"count": 4, "scraped": 6, "stored": 4},  # pages that were crawled again, or start() of two workers
        {"count": 5, "scraped": 5, "stored": 10},  # RedisPipeline has counted, too
        {"count": 9, "scraped": 5, "stored": 5},  # a worker that was killed has counted none
    ],
    ids=["left out", "twice", "pipeline", "killed"],
)
def test_items_that_may_be_missing_for_a_known_reason_are_no_failure(known: dict[str, int]) -> None:
    are_there, lines = said_at_the_end(**known)  # type: ignore[arg-type]
    assert are_there
    assert len(lines) == 1


def test_a_file_without_any_of_the_scraped_items_is_a_failure() -> None:
    are_there, (_, line) = said_at_the_end(scraped=5)
    assert not are_there
    assert line == "The workers scraped 5 items, but none is in items.jsonl: see the logs of the workers"


# -- logs and sums -----------------------------------------------------------------------------------

LINE = "2026-11-23 03:00:00 [scrapy.core.scraper] ERROR: Spider error processing <GET http://a.test/1>"


def test_warnings_and_errors_are_read_as_they_are_written(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "log")
    assert list(tail.grave()) == []
    with (tmp_path / "log").open("w") as log:
        log.write(
            f"2026-11-23 03:00:00 [a] INFO: no-ERROR, /WARNING/\n{LINE}\nTraceback: …\n2026-11-23 [b] WARN"
        )
        log.flush()
        assert list(tail.grave()) == [LINE]
        log.write("ING: half a line\n")
        log.flush()
        assert list(tail.grave()) == ["2026-11-23 [b] WARNING: half a line"]
    assert tail.last[-1] == "2026-11-23 [b] WARNING: half a line"


def test_a_count_of_warnings_is_no_warning(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(" 'log_count/WARNING': 2,\n 'log_count/ERROR': 1,\n")
    assert list(LogTail(tmp_path / "log").grave()) == []


def test_a_line_without_its_time() -> None:
    assert without_time(LINE) == "ERROR: Spider error processing <GET http://a.test/1>"
    assert is_error(LINE)
    assert not is_error(LINE.replace("ERROR", "WARNING"))


def test_the_statistics_of_all_workers() -> None:
    one = {
        "a": 1,
        "b": 2.5,
        "start_time": "2026-01-02",
        "finish_time": "2026-01-03",
        "finish_reason": "finished",
    }
    two = {
        "a": 2,
        "start_time": "2026-01-01",
        "finish_time": "2026-01-04",
        "finish_reason": "shutdown",
        "own": "x",
    }
    assert report.total([one, two]) == {
        "a": 3,
        "b": 2.5,
        "start_time": "2026-01-01",
        "finish_time": "2026-01-04",
        "finish_reason": "finished, shutdown",
        "own": "x",
    }


def test_a_report_that_is_none_is_nothing(tmp_path: Path) -> None:
    assert report.read(tmp_path / "none") == (False, "", {}, "", False)
    (tmp_path / "half").write_text('{"a": ')
    assert report.read(tmp_path / "half") == (False, "", {}, "", False)
    (tmp_path / "begun").write_text("{}")
    assert report.read(tmp_path / "begun") == (True, "", {}, "", False)
