"""The parts of ``scrapy frontier crawl`` that need no crawl: joined files, logs, sums."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.exceptions import UsageError
from scrapy.extensions import feedexport
from scrapy.settings import Settings

from scrapy_rq_sched.errors import FrontierError, SettingError
from scrapy_rq_sched.feeds import PartStorage, part_uri
from scrapy_rq_sched.supervise import report
from scrapy_rq_sched.supervise.arguments import Arguments, Project, says_where_redis_is
from scrapy_rq_sched.supervise.feeds import Feed, path_of
from scrapy_rq_sched.supervise.log_tail import LogTail, is_error, without_time

# -- files of items --------------------------------------------------------------------------------


@pytest.fixture
def feed(tmp_path: Path) -> Callable[..., Feed]:
    def make(name: str = "items.jsonl", format_: str = "jsonlines", encoding: str = "utf-8") -> Feed:
        return Feed(str(tmp_path / name), format_, tmp_path / "parts", encoding)

    return make


def write(feed: Feed, process: str, data: bytes) -> Path:
    """Write a part as a worker does; return where it is."""
    uri, _, _ = feed.option(process).rpartition(":")
    # Scrapy puts its values in; older versions take each % for the beginning of one.
    apply = getattr(feedexport, "apply_uri_params", lambda template, values: template % values)
    with PartStorage(apply(uri, {})).open(Spider("s")) as part:
        part.write(data)
        return Path(str(part.name))


@pytest.mark.parametrize("folder", ["my shop", "50%off", "café", "a+b=c~d", "%(name)s", "a%2520b"])
def test_parts_are_found_in_a_folder_of_any_name(tmp_path: Path, folder: str) -> None:
    feed = Feed(str(tmp_path / "items.jsonl"), "jsonlines", tmp_path / folder)
    write(feed, "worker-1", b'{"n": 1}\n')
    assert feed.join() == 1


def test_the_parts_of_all_processes_are_joined(feed: Callable[..., Feed]) -> None:
    items = feed()
    parts = [write(items, name, b'{"n": %d}\n' % n) for n, name in enumerate(["worker-1", "worker-2"])]
    assert items.join() == 2
    assert items.path.read_bytes() == b'{"n": 0}\n{"n": 1}\n'
    assert not any(part.exists() for part in parts)


def test_a_line_that_breaks_off_is_left_out(feed: Callable[..., Feed]) -> None:
    items = feed()
    write(items, "worker-1", b'{"n": 1}\n{"n": ')
    write(items, "worker-2", b'{"n": 2}\n')
    assert items.join() == 2
    assert items.path.read_bytes() == b'{"n": 1}\n{"n": 2}\n'


def test_an_old_feed_stays_or_is_replaced(feed: Callable[..., Feed], tmp_path: Path) -> None:
    for replaces, expected in ((False, b"old\nnew\n"), (True, b"new\n")):
        (tmp_path / "items.jsonl").write_bytes(b"old")
        items = feed()
        items.replaces = replaces
        write(items, "worker-1", b"new\n")
        assert items.path.read_bytes() == b"old"
        items.join()
        assert items.path.read_bytes() == expected


def test_the_parts_of_a_supervisor_that_was_killed_are_joined_too(
    feed: Callable[..., Feed], tmp_path: Path
) -> None:
    items = feed()
    part = write(items, "worker-1", b"found before\n")
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    part.rename(part.with_name(part.name.replace(f".{os.getpid()}-", f".{int(ended.stdout)}-")))
    write(items, "worker-1", b"found now\n")
    items.join()
    assert sorted(items.path.read_bytes().splitlines()) == [b"found before", b"found now"]


def test_the_parts_of_a_supervisor_that_is_at_it_are_its_own(feed: Callable[..., Feed]) -> None:
    items = feed()
    part = write(items, "worker-1", b"of another\n")
    others = [
        part.rename(part.with_name(part.name.replace(f".{os.getpid()}-", f".{os.getppid()}-"))),
        write(items, "worker-1", b"of another machine\n").rename(part.with_name("elsewhere.1-worker-1")),
    ]
    assert items.join() == 0
    items.forget_parts()
    assert all(part.exists() for part in others)


def test_a_table_may_have_whole_pages_in_it_and_another_encoding(feed: Callable[..., Feed]) -> None:
    items = feed("items.csv", "csv", "latin-1")
    page = "Müller " * 50_000
    write(items, "worker-1", f"page\r\n{page}\r\n".encode("latin-1"))
    assert items.join() == 1
    assert items.path.read_bytes() == f"page\r\n{page}\r\n".encode("latin-1")


@pytest.mark.parametrize("format_", ["jsonlines", "csv"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_an_encoding_with_a_line_break_of_several_bytes_is_refused(
    feed: Callable[..., Feed], tmp_path: Path, encoding: str, format_: str
) -> None:
    with pytest.raises(SettingError, match=f"cannot be joined in the encoding {encoding}. Set FEED_EXPORT_"):
        feed("items", format_, encoding)
    assert not (tmp_path / "parts").exists()


def test_the_name_of_an_unknown_encoding_is_refused_in_one_line(feed: Callable[..., Feed]) -> None:
    with pytest.raises(SettingError, match="FEED_EXPORT_ENCODING must be the name of an encoding") as refused:
        feed("items.csv", "csv", "x\ny")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "shift_jis"])
def test_a_feed_may_have_an_encoding_with_a_line_break_of_one_byte(
    feed: Callable[..., Feed], encoding: str
) -> None:
    items = feed("items.jsonl", "jsonlines", encoding)
    write(items, "worker-1", '{"n": 1}\n'.encode(encoding))
    assert items.join() == 1


def test_a_table_without_a_newline_at_its_end_keeps_its_last_row(
    feed: Callable[..., Feed], tmp_path: Path
) -> None:
    (tmp_path / "items.csv").write_bytes(b"a,b\r\n1,2\r\n3,4")
    items = feed("items.csv", "csv")
    write(items, "worker-1", b"a,b,c\r\n5,6,7\r\n")
    items.join()
    assert items.path.read_bytes() == b"a,b,c\r\n1,2,\r\n3,4,\r\n5,6,7\r\n"


def test_a_part_that_cannot_be_read_is_kept_and_named(feed: Callable[..., Feed]) -> None:
    items = feed("items.csv", "csv")
    part = write(items, "worker-1", b"page\r\nM\xfcller\r\n")
    with pytest.raises(FrontierError, match=part.name):
        items.join()
    assert part.exists()


def test_tables_are_joined_by_their_columns(feed: Callable[..., Feed]) -> None:
    items = feed("items.csv", "csv")
    write(items, "worker-1", b'name,price\r\n"a, ""b""",1\r\n')
    write(items, "worker-2", b"price,name,stock\r\n2,c,7\r\n")
    assert items.join() == 2
    assert items.path.read_bytes() == b'name,price,stock\r\n"a, ""b""",1,\r\nc,2,7\r\n'


def test_tables_are_appended_to_the_one_that_is_there(feed: Callable[..., Feed], tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_bytes(b"name,price\r\nold,1\r\n")
    items = feed("items.csv", "csv")
    write(items, "worker-1", b"name,price\r\nnew,2\r\n")
    assert items.join() == 1
    assert items.path.read_bytes() == b"name,price\r\nold,1\r\nnew,2\r\n"


@pytest.mark.parametrize("torn", [b"c", b"c,3", b'"c\r\n', b'"c\r\n",', "é".encode()[:1]])
def test_a_row_that_breaks_off_is_left_out(feed: Callable[..., Feed], torn: bytes) -> None:
    items = feed("items.csv", "csv")
    write(items, "worker-1", b"name,price\r\na,1\r\n" + torn)
    assert items.join() == 1
    assert items.path.read_bytes() == b"name,price\r\na,1\r\n"


def test_a_part_is_written_without_a_buffer(tmp_path: Path) -> None:
    storage = PartStorage(part_uri(tmp_path / "deep" / "part"))
    file = storage.open(Spider("s"))
    file.write(b"item\n")
    assert (tmp_path / "deep" / "part").read_bytes() == b"item\n"
    storage.store(file)
    assert file.closed


def test_a_name_may_have_any_characters(feed: Callable[..., Feed]) -> None:
    items = feed("100% of ä (1)#?.jsonl")
    write(items, "worker-1", b"x\n")
    assert items.join() == 1
    assert items.path.name == "100% of ä (1)#?.jsonl"
    assert items.path.read_bytes() == b"x\n"


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
    ],
)
def test_a_uri_of_a_file_gives_its_path(uri: str, path: str) -> None:
    assert path_of(uri) == path


# -- the command lines -------------------------------------------------------------------------------


def arguments(outputs: list[str], folder: Path, overwrite: bool = False, **settings: Any) -> list[str]:
    made = Arguments("quotes", ["A=1"], ["tag=x"])
    made.write(Project(Settings(settings), Spider), outputs, overwrite, folder)
    return made.of("worker-1")


def test_each_process_writes_parts_of_its_own(tmp_path: Path) -> None:
    words = arguments([str(tmp_path / "items.csv")], tmp_path)
    assert words[:6] == ["crawl", "quotes", "-a", "tag=x", "-s", "A=1"]
    assert words[-2] == "-o"
    assert words[-1].startswith("frontier-part://")
    assert words[-1].endswith("worker-1:csv")
    assert any(word.startswith('FEED_STORAGES={"frontier-part": ') for word in words)


def test_a_feed_with_a_name_for_each_worker_stays_unchanged(tmp_path: Path) -> None:
    words = arguments(["s3://bucket/%(worker)s.json", str(tmp_path / "a.csv")], tmp_path, overwrite=True)
    assert words[-4:-1] == ["-O", "s3://bucket/%(worker)s.json:json", "-O"]


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("items.json", "cannot be joined as json"),
        ("items.xml", "cannot be joined as xml"),
        ("-:jsonlines", "cannot write to the same place"),
        ("s3://bucket/items.jsonl", "cannot write to the same place"),
        ("%(name)s.jsonl", "cannot write to the same place"),
        ("items-%(batch_id)d.jsonl", "cannot write to the same place"),
    ],
)
def test_a_feed_that_several_workers_cannot_write_is_refused(
    tmp_path: Path, output: str, problem: str
) -> None:
    with pytest.raises(SettingError, match=problem):
        arguments([output], tmp_path)


def test_a_feed_that_scrapy_refuses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        arguments(["items.unheard"], tmp_path)


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
