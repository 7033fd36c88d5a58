"""What the commands print fits a terminal: at 80 columns, with long names and large numbers."""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.commands import ScrapyHelpFormatter
from scrapy.settings import Settings

from scrapy_rq_sched.codec.failed_request import FailedRequest
from scrapy_rq_sched.commands import failed, output
from scrapy_rq_sched.commands.crawl_view import Screen, line_of, pairs_of
from scrapy_rq_sched.commands.formats import bar, sparkline
from scrapy_rq_sched.commands.frontier import ACTIONS, Command
from scrapy_rq_sched.commands.layout import Column, Entry, Fields, Table, cells, plain, wrap
from scrapy_rq_sched.commands.look import leases_table, peek_table
from scrapy_rq_sched.commands.output import Output, message_lines
from scrapy_rq_sched.commands.picture import one, overview, pages, time_left, workers_table
from scrapy_rq_sched.commands.slots import slots_table
from scrapy_rq_sched.inspect.as_json import status as status_as_json
from scrapy_rq_sched.inspect.entries import Entry as Waiting
from scrapy_rq_sched.inspect.entries import Held
from scrapy_rq_sched.inspect.slots import SlotStatus
from scrapy_rq_sched.inspect.status import LastCrawl, Moment, Status, Worker
from scrapy_rq_sched.inspect.wording import counted

NOW = 1_800_000_000.0
WIDTH = 80
MANY = 1_234_567_890
#: The longest name of a host is 63 characters.
WORKERS = (
    "vm-17381-8cfc7c",
    "crawler-7.eu-west-1.compute.internal-4194304-8cfc7c",
    f"{'h' * 63}-4194304-8cfc7c",
)
SPIDERS = ("site", "my shop", "the_spider_of_all_the_shops_of_the_world_and_of_some_others")
URLS = (
    "http://a.test/",
    "https://www.example.com/a/rather/long/path/of/a/page.html?q=1",
    "http://a/" + "x" * 300,
)


def worker(name: str, number: int = MANY) -> Worker:
    return Worker(
        name,
        True,
        name.rsplit("-", 2)[0],
        4_194_304,
        "10.11.12",
        pages=number,
        in_hand=number,
        joined=NOW,
        heard=NOW - 59,
    )


def crawl(spider: str = "site", number: int = MANY, **fields: Any) -> Status:
    """Return the status of a crawl under way, in which all numbers are *number*."""
    counts = dict.fromkeys(
        ("waiting", "leased", "delayed", "failed", "seeds", "seen", "pages", "slots"), number
    )
    values: dict[str, Any] = {
        **counts,
        "state": "crawling",
        "waiting_bytes": number,
        "seen_bytes": number,
        "per_second": float(number),
        "per_hour": float(number),
        "seconds_left": 86_399.0,
        "limit": "politeness",
        "workers": [worker(name, number) for name in WORKERS],
        "history": [Moment(int(NOW) - 10 * n, number, number) for n in range(60)],
    }
    return Status(spider, f"{spider}:requests", now=NOW, **{**values, **fields})


def lease(name: str, url: str) -> Held:
    return Held(name, True, "1.1", NOW - 86_399, 12, Waiting("request", b"", -1.5, {"url": url}))


def set_aside(name: str, url: str) -> FailedRequest:
    reason = f"its callback raised KeyError: 'price' in {url}"
    data = json.dumps({"url": url}).encode()
    return FailedRequest(f"{name}/142.1", "request", reason, int(NOW), name, 2, 12, "", "", data, b"")


class _Urls:
    """A failed list that knows the URL of each entry."""

    def url_of(self, entry: FailedRequest) -> str:
        return str(json.loads(entry.data)["url"])


#: Each table with the names and ids that must be whole in it.
TABLES: dict[str, tuple[Callable[[], Table], tuple[str, ...]]] = {
    "overview": (lambda: overview([crawl(spider) for spider in SPIDERS]), SPIDERS),
    "workers": (lambda: workers_table(crawl()), WORKERS),
    "leases": (
        lambda: leases_table([lease(n, u) for n in WORKERS for u in URLS], NOW),
        (*WORKERS, *URLS[:2]),
    ),
    "peek": (
        lambda: peek_table(
            [Waiting("request", b"", -9.5, {"url": u, "callback": "parse_" * 5}) for u in URLS]
        ),
        URLS[:2],
    ),
    "slots": (
        lambda: slots_table(
            SlotStatus(host, MANY, 86_399, 86_399, 12.5, 0.5, 128, True, name)
            for host, name in zip(
                ("a.test", "www.a-rather-long-name.example.com", "h" * 63), WORKERS, strict=True
            )
        ),
        ("a.test", "www.a-rather-long-name.example.com", "h" * 63),
    ),
    "failed": (
        lambda: failed.overview(_Urls(), [set_aside(n, u) for n in WORKERS[:2] for u in URLS]),  # type: ignore[arg-type]
        (*(f"{name}/142.1" for name in WORKERS[:2]), *URLS[:2]),
    ),
    "counts": (
        lambda: failed.counts_table(failed.by_kind([("request", f"HttpError: {url}") for url in URLS])),
        URLS[:2],
    ),
}


def lines(part: Table | Fields | Entry, width: int | None = WIDTH) -> list[str]:
    return [plain(line) for line in part.lines(width)]


@pytest.mark.parametrize("width", [60, WIDTH, 120])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits_and_breaks_no_heading_and_cuts_no_name(name: str, width: int) -> None:
    made, whole = TABLES[name]
    shown = lines(made(), width)
    assert [line for line in shown if cells(line) > width] == []
    top = shown[: 2 + sum(column.is_text for column in made().columns)]
    for column in made().columns:
        is_whole = any(re.search(rf"(^|  ){re.escape(column.heading)}(  |$)", line) for line in top)
        assert (
            is_whole or column.dispensable or any(line.startswith(column.heading.lower()) for line in shown)
        ), column.heading
    for text in whole:
        if cells(text) <= width - 2:
            assert any(text in line for line in shown), text


@pytest.mark.parametrize("name", TABLES)
def test_without_a_terminal_each_row_is_one_line_and_the_widest_text_is_the_last(name: str) -> None:
    made, _ = TABLES[name]
    table = made()
    heading, *rows = lines(table, None)
    assert len(rows) == len(table.rows)
    assert heading.split() == " ".join(column.heading for column in table.columns).split()
    are_texts = [column.is_text for column in table.columns]
    assert are_texts == sorted(are_texts)


@pytest.mark.parametrize("spider", SPIDERS)
@pytest.mark.parametrize("state", ["crawling", "paused", "stopped", "finished", "new"])
@pytest.mark.parametrize("number", [0, 1, 12_345, MANY])
def test_the_status_fits_on_a_terminal(spider: str, state: str, number: int) -> None:
    status = crawl(spider, number, state=state, state_since=NOW - 86_399, growth=float(number))
    if state in ("stopped", "finished", "new"):
        status = replace(status, workers=[])
    shown = [line for part in one(status) if not isinstance(part, str) for line in lines(part)]
    assert [line for line in shown if cells(line) > WIDTH] == []


def test_a_usual_fleet_has_a_line_for_each_worker() -> None:
    status = crawl(number=12_345, workers=[worker(WORKERS[0], 12_345)])
    heading, row = lines(workers_table(status))
    assert heading.split("  ")[0] == "WORKER"
    assert row.startswith(WORKERS[0])
    heading, row = lines(overview([crawl(number=12_345)]))
    assert heading.startswith("SPIDER  STATE")
    assert "about 23 h 59 min" in row


def test_columns_that_say_least_are_left_out_first() -> None:
    table = Table((Column("ID"), Column("A", dispensable=1), Column("B", dispensable=2)), [["id", "1", "2"]])
    assert lines(table, 8) == ["ID  A  B", "id  1  2"]
    assert lines(table, 7) == ["ID  A", "id  1"]
    assert lines(table, 4) == ["ID", "id"]


def test_a_name_that_needs_all_columns_has_a_line_of_its_own() -> None:
    table = Table((Column("ID"), Column("COUNT", right=True)), [["a-long-name", "12"], ["b", "3"]])
    assert lines(table, 11) == ["ID", "  COUNT", "a-long-name", "     12", "b", "      3"]
    # Too narrow even for that: each row is a list of fields.
    assert lines(table, 6)[0].startswith("id")


def test_a_text_that_does_not_fit_stands_below_its_row() -> None:
    table = Table((Column("N"), Column("TEXT", is_text=True)), [["1", "x" * 20], ["2", "x" * 40]])
    assert lines(table, 30) == ["N  TEXT", f"1  {'x' * 20}", "2", f"  {'x' * 28}", f"  {'x' * 12}"]


def test_wide_characters_take_two_columns() -> None:
    assert [cells(text) for text in ("abc", "日本", "e\u0301")] == [3, 4, 1]
    table = Table((Column("SPIDER"), Column("N")), [["日本語の店", "1"], ["site", "2"]])
    assert [cells(line.partition(" ")[0]) for line in lines(table)[1:]] == [10, 4]
    assert len({cells(line) for line in lines(table)}) == 1


def test_a_text_is_broken_between_words_and_keeps_its_indentation() -> None:
    assert wrap("  one two three", 9) == ["  one two", "  three"]
    assert wrap("x" * 5, 2) == ["xx", "xx", "x"]
    assert wrap("a longer-word", 6, folds=False) == ["a", "longer-word"]
    assert wrap("", 5) == [""]


def test_an_id_that_does_not_fit_beside_its_label_stands_below_it() -> None:
    shown = lines(Fields([("back to", "the queue"), ("id", f"{WORKERS[1]}/142.1")]), 60)
    assert shown == ["back to  the queue", "id", f"  {WORKERS[1]}/142.1"]


def test_an_event_keeps_its_columns() -> None:
    shown = lines(Entry(["2026-11-23 08:00:50", "worker_lost      ", f"worker {WORKERS[1]} is lost"]))
    assert "".join(shown).count(WORKERS[1]) == 1
    assert all(cells(line) <= WIDTH for line in shown)


def test_a_suggested_command_is_never_broken() -> None:
    command = f"scrapy frontier forget '{SPIDERS[2]}' {URLS[1]} --crawl"
    assert message_lines(f"{'It was found. ' * 9}To crawl it again: {command}", WIDTH)[-1] == f"  {command}"
    assert message_lines(f"Short: {command}", None) == [f"Short: {command}"]


def test_a_bar_and_a_sparkline_have_their_width() -> None:
    assert {len(bar(done, 7)) for done in range(9)} == {30}
    assert bar(7, 7) == "█" * 30
    assert bar(0, 0) == "░" * 30
    assert sparkline([0, 1, 8, 4]) == "·▂█▅"


def test_one_is_singular() -> None:
    assert [counted(n, "worker") for n in (0, 1, 2, 1200)] == [
        "0 workers",
        "1 worker",
        "2 workers",
        "1,200 workers",
    ]
    assert counted(2, "entry", "entries") == "2 entries"


# -- what is said of a crawl -------------------------------------------------------------------------


def fields_of(status: Status) -> dict[str, str]:
    (first, *_) = one(status)
    assert isinstance(first, Fields)
    return dict(first.pairs)


def test_a_crawl_under_way_has_a_bar_and_the_maximum_of_its_pace() -> None:
    history = [Moment(int(NOW) - 10 * n, 100 if n == 5 else 10, 5) for n in range(60)]
    fields = fields_of(crawl(number=25, history=history, delayed=0, seeds=0))
    assert fields["progress"].endswith("  33 % of 75 known requests")
    assert fields["ten minutes"].endswith("  peak 5.5 pages a second")


def test_no_time_left_is_shown_where_the_queue_does_not_shrink() -> None:
    status = crawl(seconds_left=None, seconds_left_at_least=100.0, growth=45.3)
    assert time_left(status) == ""
    assert "time left" not in fields_of(status)
    assert fields_of(status)["waiting"].endswith(", growing by 45.3 a second")
    assert lines(overview([status]), None)[1].split()[-1] == "-"


def test_no_rate_is_shown_where_no_worker_is_alive() -> None:
    status = crawl(number=12, state="stopped", workers=[replace(worker("w"), alive=False)])
    assert pages(status) == "12"
    assert lines(overview([status]), None)[1].split()[9] == "-"


def test_a_finished_crawl_says_when_and_how_it_ended() -> None:
    status = Status("my shop", "k", "finished", NOW, failed=2, last_crawl=LastCrawl(NOW - 60, 120.0, 480, 2))
    fields = fields_of(status)
    assert fields["finished"].endswith(", 1 min ago")
    assert (fields["took"], fields["pages"]) == ("2 min", "480, 4.0 a second")
    assert fields["failed"] == "2 (scrapy frontier failed 'my shop')"
    assert len(one(status)) == 1
    assert status_as_json(status)["last_crawl"]["failed"] == 2
    assert fields_of(replace(status, failed=0))["failed"] == "2 at the end, 0 now"


def test_a_suggested_command_quotes_the_spider() -> None:
    fields = fields_of(crawl("my shop", state="paused", state_since=NOW - 5))
    assert fields["state"] == "paused for 5 s (scrapy frontier resume 'my shop')"
    assert fields["slots"].startswith("1,234,567,890 (scrapy frontier slots 'my shop')")
    assert one(crawl("my shop", state="stopped", workers=[]))[-1] == (
        "No worker is alive. Start one: scrapy crawl 'my shop'"
    )


class _Supervisor:
    running, errors, requests_to_end = 1, 1, 0


def test_the_line_of_a_crawl_has_singulars() -> None:
    supervisor: Any = _Supervisor()
    status = Status("site", "k", "crawling", NOW, pages=1, workers=[worker("w")], per_second=2.0)
    assert line_of(supervisor, status) == "1 page, 2.0 a second, 0 waiting, 1 worker, 1 error"
    assert line_of(supervisor, replace(status, workers=[])) == "1 page, 0 waiting, 1 worker, 1 error"
    assert dict(pairs_of(supervisor, crawl()))["workers"] == "1 here, 2 on other machines"
    assert "pages" not in dict(pairs_of(supervisor, Status("site", "k", "finished", NOW)))


class _Lines:
    """What ``scrapy frontier crawl`` writes where there is no terminal."""

    has_picture = is_terminal = False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text.partition(" ")[2])


def test_the_first_line_of_a_new_crawl_has_no_pages_of_the_last_one(tmp_path: Path) -> None:
    output, supervisor = _Lines(), SimpleNamespace(running=1, errors=0, requests_to_end=0, reasons=[])
    screen = Screen(SimpleNamespace(output=output), tmp_path, "site", 1)  # type: ignore[arg-type]
    over = Status("site", "k", "finished", NOW, pages=1329)
    begun = Status("site", "k", "crawling", NOW, pages=7, workers=[worker("w")], per_second=2.0)
    for status in (over, begun, replace(over, pages=12)):
        screen.draw(supervisor, status)  # type: ignore[arg-type]
    pages = [line.partition(",")[0] for line in output.lines[1:]]
    assert pages == ["0 pages", "7 pages", "12 pages"]


def test_a_crawl_that_ends_before_its_first_line_has_its_pages(tmp_path: Path) -> None:
    output = _Lines()
    supervisor = SimpleNamespace(running=0, errors=0, requests_to_end=0, reasons=["finished"])
    screen = Screen(SimpleNamespace(output=output), tmp_path, "site", 1)  # type: ignore[arg-type]
    screen.draw(supervisor, Status("site", "k", "finished", NOW, pages=12))  # type: ignore[arg-type]
    assert output.lines[-1].startswith("12 pages")


def test_the_failed_list_is_counted_by_kind_and_then_by_reason() -> None:
    found = [("seed", "no URL")] * 2 + [("request", "rare")] + [("request", "often")] * 3
    assert failed.by_kind(found) == [
        (("request", "often"), 3),
        (("request", "rare"), 1),
        (("seed", "no URL"), 2),
    ]


# -- colour ------------------------------------------------------------------------------------------


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch, **environment: str) -> io.StringIO:
    """Return a terminal of 80 columns, which is the standard output."""
    stream = _Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"COLUMNS": str(WIDTH), "TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)
    return stream


def test_a_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    Output().show(*one(crawl()))
    assert "\x1b[32mcrawling" in terminal.getvalue()


def test_no_color_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch, NO_COLOR="1")
    Output().show(*one(crawl()))
    assert "crawling" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_plain_text_fits_the_terminal_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(output, "HAS_RICH", False)
    Output().show(*one(crawl(spider=SPIDERS[2])))
    shown = terminal.getvalue()
    assert "\x1b" not in shown
    assert max(cells(line) for line in shown.splitlines()) <= WIDTH


def test_a_pipe_gets_no_colour_and_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    Output().show(workers_table(crawl()))
    assert "\x1b" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 1 + len(WORKERS)


def test_a_live_view_ends_with_how_to_leave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch, LINES="12")
    with Output().live(lambda: "Ctrl-C leaves") as draw:
        draw(*one(crawl()))
        first = terminal.getvalue()
    assert "left out: the terminal is too low" in first
    assert first.rstrip().endswith("Ctrl-C leaves")
    # What stays on the screen has no hint that is not true any more.
    assert "Ctrl-C leaves" not in terminal.getvalue()[len(first) :]


def test_a_low_terminal_shows_the_latest_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch, LINES="12")
    with Output().live(lambda: "") as draw:
        draw(Fields([("pages", "7")]), *(f"message {n}" for n in range(20)))
    shown = terminal.getvalue()
    assert "7" in shown
    assert "message 19" in shown
    assert "message 3\n" not in shown


def test_a_dumb_terminal_is_printed_to_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch, TERM="dumb")
    with Output().live(lambda: "Ctrl-C leaves") as draw:
        draw("first")
        assert "first" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_json_is_not_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    shown = Output()
    with shown.live(lambda: "Ctrl-C leaves", redraws=False):
        shown.json({"text": "x" * 200})
    assert terminal.getvalue() == '{"text": "%s"}\n' % ("x" * 200)


# -- help --------------------------------------------------------------------------------------------


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    """The parser of ``scrapy frontier``, as Scrapy makes it."""
    command = Command()
    command.settings = Settings()
    made = argparse.ArgumentParser(formatter_class=ScrapyHelpFormatter)
    command.add_options(made)
    return made


def typed(line: str) -> list[str]:
    """Return what a shell gives to ``scrapy frontier`` of the line."""
    (part,) = (part for part in re.split(r" [<>|] ", line) if part.startswith("scrapy frontier "))
    return shlex.split(part)[2:]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_the_examples_of_a_help_can_be_typed(action: Any, parser: argparse.ArgumentParser) -> None:
    assert 2 <= len(action.examples) <= 3
    command = Command()
    command.settings = Settings()
    for example in action.examples:
        assert cells(f"  {example}") <= WIDTH
        options, rest = parser.parse_known_args(typed(example))
        command.process_options(rest, options)
    assert typed(action.examples[0])[0] == action.name


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_a_help_fits_a_terminal(
    action: Any,
    parser: argparse.ArgumentParser,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    with pytest.raises(SystemExit):
        parser.parse_args([action.name, "--help"])
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if cells(line) > WIDTH] == []
    assert shown.rstrip().endswith(f"  {action.examples[-1]}")
    lines = shown.splitlines()
    underlined = {lines[n - 1] for n, line in enumerate(lines) if line and set(line) <= set("=-")}
    headings = {"Usage", "Positional Arguments", "Options", "Which Frontier", "Global Options", "Examples"}
    assert underlined <= headings


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["statsu", "shop"], "there is no command 'statsu'. Do you mean status? To list the commands"),
        (["xyz"], "there is no command 'xyz'. To list the commands: scrapy frontier --help"),
        ([], "a command is missing. To list the commands: scrapy frontier --help"),
    ],
)
def test_an_unknown_command_is_refused_in_one_line(
    arguments: list[str], said: str, parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(arguments)
    assert said in capsys.readouterr().err.splitlines()[-1]
