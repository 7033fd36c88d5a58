"""The output of the commands: on a terminal, which it fits at 80 columns, and in plain columns elsewhere."""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from scrapy.commands import ScrapyHelpFormatter
from scrapy.settings import Settings

from scrapy_rq_sched.codec.failed_request import FailedRequest
from scrapy_rq_sched.commands import failed, output
from scrapy_rq_sched.commands.crawl_view import Screen, line_of, pairs_of
from scrapy_rq_sched.commands.formats import sparkline, time_until
from scrapy_rq_sched.commands.frontier import ACTIONS, Command
from scrapy_rq_sched.commands.look import leases_table, peek_table
from scrapy_rq_sched.commands.output import Fields, Output, Part, Styled, Table, plain
from scrapy_rq_sched.commands.slots import slots_table
from scrapy_rq_sched.commands.status_text import (
    pages,
    status_text,
    statuses_table,
    time_left,
    workers_table,
)
from scrapy_rq_sched.inspect.as_json import status as status_as_json
from scrapy_rq_sched.inspect.crawl import Crawl, Moment
from scrapy_rq_sched.inspect.entries import Entry as Waiting
from scrapy_rq_sched.inspect.entries import Held
from scrapy_rq_sched.inspect.failed_groups import FailedGroup
from scrapy_rq_sched.inspect.slots import SlotStatus
from scrapy_rq_sched.inspect.status import Status, Worker
from scrapy_rq_sched.inspect.wording import counted

NOW = 1_800_000_000.0
WIDTH = 80
MANY = 1_234_567_890
LAST = Crawl(1, state="finished", began=NOW - 180, ended=NOW - 60, pages=480, set_aside={"no route": 2})
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
    "overview": (lambda: statuses_table([crawl(spider) for spider in SPIDERS]), SPIDERS),
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
        lambda: failed.counts_table({("request", f"HttpError: {url}"): group(1) for url in URLS}),
        URLS[:2],
    ),
}


def group(count: int) -> FailedGroup:
    return FailedGroup(count, 0, Counter({"": count}))


class _Stream(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch, width: int = WIDTH, **environment: str) -> io.StringIO:
    """Return a terminal of *width* columns, which is the standard output."""
    stream = _Stream()
    monkeypatch.setattr("sys.stdout", stream)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"COLUMNS": str(width), "TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)
    return stream


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A function that returns the lines of parts on a terminal without colours."""

    def show(*parts: Part, width: int = WIDTH) -> list[str]:
        terminal = a_terminal(monkeypatch, width, NO_COLOR="1")
        Output().show(*parts)
        return [line.rstrip() for line in terminal.getvalue().splitlines()]

    return show


Shown = Callable[..., list[str]]


@pytest.mark.parametrize("width", [60, WIDTH, 120, 200])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits_and_breaks_no_heading_and_no_name(name: str, width: int, shown: Shown) -> None:
    made, whole = TABLES[name]
    table = made()
    lines = shown(table, width=width)
    assert [line for line in lines if cell_len(line) > width] == []
    for heading in table.headings:
        is_whole = re.search(rf"(^|  ) *{re.escape(heading)}(  |$)", lines[0])
        is_field = any(line.startswith(heading.lower()) for line in lines)
        assert is_whole or is_field or heading in table.dispensable, heading
    for text in whole:
        # An id is on one line. A URL, a host and a spider may be continued in their column; nothing is cut.
        is_id = text.startswith(WORKERS) and "SLOT" not in table.headings
        if is_id and cell_len(text) <= width - len("last heard  "):
            assert any(text in line for line in lines), text
        columns = ["".join(re.split("  +", line)[n] for line in lines) for n in (0, -1)]
        assert any(text in found for found in [*lines, *columns]), text


@pytest.mark.parametrize("name", TABLES)
def test_in_plain_columns_each_row_is_one_line_and_the_widest_text_is_the_last(name: str) -> None:
    table = TABLES[name][0]()
    heading, *rows = plain(table).splitlines()
    assert len(rows) == len(table.rows)
    assert heading.split() == " ".join(table.headings).split()
    are_long = [heading in ("REASON", "URL") for heading in table.headings]
    assert are_long == sorted(are_long)
    for row, cells in zip(rows, table.rows, strict=True):
        assert re.split("  +", row) == list(cells)


def test_plain_columns_are_aligned_at_the_left() -> None:
    assert plain(Table(("ID", "COUNT"), [["a-long-name", "12"], ["b", "3"]])).splitlines() == [
        "ID           COUNT",
        "a-long-name  12",
        "b            3",
    ]
    assert plain(Fields([("state", "idle"), ("history", "a\nb")])).splitlines() == [
        "state    idle",
        "history  a",
        "         b",
    ]


@pytest.mark.parametrize("spider", SPIDERS)
@pytest.mark.parametrize("state", ["crawling", "paused", "stopped", "finished", "new"])
@pytest.mark.parametrize("number", [0, 1, 12_345, MANY])
def test_the_status_fits_on_a_terminal(spider: str, state: str, number: int, shown: Shown) -> None:
    status = crawl(spider, number, state=state, state_since=NOW - 86_399, growth=float(number))
    if state in ("stopped", "finished", "new"):
        status = replace(status, workers=[])
    parts = [part for part in status_text(status) if not isinstance(part, str)]
    assert [line for line in shown(*parts) if cell_len(line) > WIDTH] == []


def test_a_usual_fleet_has_a_line_for_each_worker(shown: Shown) -> None:
    status = crawl(number=12_345, workers=[worker(WORKERS[0], 12_345)])
    heading, row = shown(workers_table(status))
    assert heading.split("  ")[0] == "WORKER"
    assert row.startswith(WORKERS[0])
    heading, row = shown(statuses_table([crawl(number=12_345)]))
    assert heading.startswith("SPIDER  STATE")
    heading, row = shown(statuses_table([crawl(number=12_345)]), width=140)
    assert "about 23 h 59 min" in row


def test_a_narrow_terminal_leaves_out_dispensable_columns_in_their_order(shown: Shown) -> None:
    table = Table(("ID", "A", "B"), [["id", "1", "2"]], dispensable=("B", "A"))
    assert shown(table, width=8) == ["ID  A  B", "id  1  2"]
    assert shown(table, width=7) == ["ID  A", "id  1"]
    assert shown(table, width=4) == ["ID", "id"]


def test_a_row_that_does_not_fit_is_a_list_of_all_its_fields(shown: Shown) -> None:
    table = Table(("ID", "COUNT"), [["a-long-name", "12"], ["b", "3"]], dispensable=("COUNT",))
    assert shown(table, width=18) == ["ID           COUNT", "a-long-name     12", "b                3"]
    lines = shown(table, width=10)
    assert "".join(line[:7] for line in lines).split() == ["id", "count", "id", "count"]
    assert "".join(line[7:] for line in lines) == "a-long-name12b3"


def test_a_text_that_does_not_fit_is_continued_in_its_column(shown: Shown) -> None:
    table = Table(("N", "TEXT"), [["1", "x" * 20], ["2", "x" * 40]], texts=("TEXT",))
    assert shown(table, width=30) == ["N  TEXT", f"1  {'x' * 20}", f"2  {'x' * 27}", f"   {'x' * 13}"]


def test_a_column_of_numbers_is_aligned_at_the_right_on_a_terminal(shown: Shown) -> None:
    table = Table(
        ("HOST", "PAGES", "LEFT", "DELAY"), [["10.0.0.1", "1,234", "5 s", "-"], ["b", "-", "-", "-"]]
    )
    assert shown(table) == [
        "HOST      PAGES  LEFT  DELAY",
        "10.0.0.1  1,234  5 s   -",
        "b             -  -     -",
    ]


def test_wide_characters_do_not_shift_a_column(shown: Shown) -> None:
    lines = shown(Table(("SPIDER", "N"), [["日本語の店", "x"], ["🦊", "x"], ["e\u0301", "x"], ["site", "x"]]))
    assert {cell_len(line) for line in lines} == {13}


@pytest.mark.parametrize("text", ["[red]x[/red]", "[/]", ":fox:", "https://a.test/[bold]"])
def test_markup_in_a_name_has_no_effect(text: str, shown: Shown) -> None:
    assert shown(Table((text,), [[text]]), Fields([(text, text)]), text) == [
        text,
        text,
        f"{text}  {text}",
        text,
    ]


@pytest.mark.parametrize("text", ["\x1b[31mx", "\x9b2J", "a\rb", "\u202eabc", "\u2066", "\x07", "\u200b"])
def test_a_control_character_in_a_name_is_escaped(text: str, shown: Shown) -> None:
    parts = Table(("NAME",), [[text]], texts=("NAME",)), Fields([(text, text)]), text
    lines = shown(*parts) + [line for part in parts for line in plain(part).splitlines()]
    assert [line for line in lines if not line.isprintable()] == []
    assert len(lines) == 8


@pytest.mark.parametrize("width", [10, WIDTH])
def test_a_line_break_in_a_cell_is_escaped(width: int, shown: Shown) -> None:
    table = Table(("NAME", "N"), [["a\n9  b", "1"]])
    assert "".join(shown(table, width=width)).count("\\n") == plain(table).count("\\n") == 1
    assert len(plain(table).splitlines()) == 2


def test_a_suggested_command_is_never_broken(shown: Shown) -> None:
    command = f"scrapy frontier forget '{SPIDERS[2]}' {URLS[1]} --crawl"
    lines = shown(f"{'It was found. ' * 9}To crawl it again: {command}")
    assert lines[-1] == f"  {command}"
    assert [line for line in lines[:-1] if cell_len(line) > WIDTH] == []
    assert plain(f"Short: {command}") == f"Short: {command}"


def test_a_link_is_never_broken(shown: Shown) -> None:
    message = f"The dashboard is at http://127.0.0.1:6080/?token={'t' * 43} (read-only). Ctrl-C ends it"
    assert shown(message) == plain(message).splitlines() == [message]


def test_a_message_is_broken_between_words(shown: Shown) -> None:
    assert shown("one two three", width=9) == ["one two", "three"]
    assert plain("one two three") == "one two three"


def test_a_sparkline_has_a_block_for_each_value() -> None:
    assert sparkline([0, 1, 8, 4]) == "·▂█▅"


def test_only_a_terminal_shows_the_bar_of_a_share(shown: Shown) -> None:
    fields = Fields([("progress", Styled("33 %", "green", 1 / 3))])
    assert shown(fields) == [f"progress  {'━' * 10}{' ' * 22}33 %"]
    assert plain(fields) == "progress  33 %"


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
    (first, *_) = status_text(status)
    assert isinstance(first, Fields)
    return dict(first.pairs)


def test_a_crawl_under_way_has_a_bar_and_the_maximum_of_its_pace() -> None:
    history = [Moment(int(NOW) - 10 * n, 100 if n == 5 else 10, 5) for n in range(60, 0, -1)]
    fields = fields_of(crawl(number=25, per_second=1.0, history=history, delayed=0, seeds=0))
    assert fields["progress"] == "33 % of 75 known requests"
    assert fields["ten minutes"] == f"{'▂' * 27}█{'▂' * 2}  peak 10.0 pages a second"


def test_the_sparkline_of_a_young_crawl_begins_at_its_first_page() -> None:
    history = [Moment(int(NOW) - 40 + 10 * n, 5 if n == 0 else 10, 5, first=5.0 * (n == 0)) for n in range(4)]
    fields = fields_of(crawl(history=history, per_second=1.0))
    assert fields["ten minutes"] == "███  peak 1.0 pages a second"


def test_the_peak_of_the_sparkline_is_not_below_the_present_speed() -> None:
    history = [Moment(int(NOW) - 20, 10, 5), Moment(int(NOW) - 10, 30, 5)]
    assert fields_of(crawl(history=history, per_second=7.5))["ten minutes"].endswith(
        "peak 7.5 pages a second"
    )


def test_items_and_errors_of_the_fleet_are_shown_with_their_speed() -> None:
    status = crawl(
        items=34, items_per_second=1.25, errors=3, errors_per_second=0.1, statuses={"200": 5, "404": 1}
    )
    fields = fields_of(status)
    assert (fields["items"], fields["errors"]) == ("34, 1.2 a second", "3, 0.1 a second")
    assert fields["statuses"] == "200: 5, 404: 1"
    assert fields_of(replace(status, state="paused"))["items"] == "34"
    assert fields_of(replace(status, errors=0))["errors"] == "0"


def test_a_late_turn_of_a_slot_is_shown_in_minutes() -> None:
    assert fields_of(crawl(slots=1, next_turn_in=597.1))["slots"].endswith(", the next turn in 9 min 57 s")
    assert fields_of(crawl(slots=1, next_turn_in=0.42))["slots"].endswith(", the next turn in 0.4 s")


def test_a_crawl_that_was_cleared_is_not_called_finished() -> None:
    last = replace(LAST, state="cleared")
    shown = fields_of(Status("site", "k", "new", NOW, seeds=1, last_crawl=last))["last crawl"]
    assert shown.startswith("cleared ")
    assert shown.endswith(": 480 pages in 2 min")


def test_a_finished_crawl_has_its_figures_and_its_chart() -> None:
    points = [Moment(int(NOW) - 180 + 10 * n, 40, 0) for n in range(12)]
    last = replace(LAST, items=96, errors=1, statuses={"200": 480}, joined=2, lost=1, history=points)
    fields = fields_of(Status("site", "k", "finished", NOW, failed=2, last_crawl=last))
    assert (fields["items"], fields["errors"], fields["statuses"]) == ("96", "1", "200: 480")
    assert fields["workers"] == "2, of which 1 died"
    assert fields["pages over time"] == f"{'█' * 12}  peak 4.0 a second"


def test_no_time_left_is_shown_where_the_queue_does_not_shrink() -> None:
    status = crawl(seconds_left=None, seconds_left_at_least=100.0, growth=45.3)
    assert time_left(status) == ""
    assert "time left" not in fields_of(status)
    assert fields_of(status)["waiting"].endswith(", growing by 45.3 a second")
    assert plain(statuses_table([status])).split()[-1] == "-"


def test_no_rate_is_shown_where_no_worker_is_alive() -> None:
    status = crawl(number=12, state="stopped", workers=[replace(worker("w"), alive=False)])
    assert pages(status) == "12"
    assert plain(statuses_table([status])).splitlines()[1].split()[10] == "-"


def test_a_finished_crawl_says_when_and_how_it_ended() -> None:
    status = Status("my shop", "k", "finished", NOW, failed=2, last_crawl=LAST)
    fields = fields_of(status)
    assert fields["finished"].endswith(", 1 min ago")
    assert (fields["took"], fields["pages"]) == ("2 min", "480, 4.0 a second")
    assert fields["failed"] == "2 (no route: 2): scrapy frontier failed 'my shop'"
    assert len(status_text(status)) == 1
    assert status_as_json(status)["last_crawl"]["failed"] == 2
    assert "failed list" not in fields
    assert fields_of(replace(status, failed=0))["failed list"] == "0 entries now"


def test_a_suggested_command_quotes_the_spider() -> None:
    fields = fields_of(crawl("my shop", state="paused", state_since=NOW - 5))
    assert fields["state"] == "paused for 5 s (scrapy frontier resume 'my shop')"
    assert fields["slots"].startswith("1,234,567,890 (scrapy frontier slots 'my shop')")
    assert status_text(crawl("my shop", state="stopped", workers=[]))[-1] == (
        "No worker is alive. Start one: scrapy crawl 'my shop'"
    )


class _Supervisor:
    running, errors, requests_to_end = 1, 1, 0


def test_the_line_of_a_crawl_has_singulars() -> None:
    supervisor: Any = _Supervisor()
    status = Status("site", "k", "crawling", NOW, pages=1, workers=[worker("w")], per_second=2.0)
    assert line_of(supervisor, status) == "1 page, 2.0 a second, 0 waiting, 1 worker, 1 error"
    assert line_of(supervisor, replace(status, workers=[])) == "1 page, 0 waiting, 1 worker, 1 error"
    workers = [worker(name) for name in ("here", "elsewhere", "elsewhere too")]
    workers[0] = replace(workers[0], host=socket.gethostname())
    its = crawl(workers=[*workers, replace(workers[0], name="dead, and not found so yet")])
    assert dict(pairs_of(supervisor, its))["workers"] == "1 here, 2 on other machines"
    assert "pages" not in dict(pairs_of(supervisor, Status("site", "k", "finished", NOW)))


class _Lines:
    """What ``scrapy frontier crawl`` writes where there is no terminal."""

    redraws = False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text.partition(" ")[2])

    show = say


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


def a_screen(tmp_path: Path, output: Any) -> Any:
    return Screen(SimpleNamespace(output=output), tmp_path, "site", 1)  # type: ignore[arg-type]


FINISHED = SimpleNamespace(running=0, errors=0, requests_to_end=0, reasons=["finished"], is_finished=True)


def test_the_last_line_of_a_crawl_has_its_pages_though_its_keys_are_removed(tmp_path: Path) -> None:
    output = _Lines()
    screen = a_screen(tmp_path, output)
    screen.draw(FINISHED, Status("site", "k", "crawling", NOW, pages=470, workers=[worker("w")]))
    screen.draw(FINISHED, Status("site", "k", "finished", NOW))
    screen.draw(FINISHED, Status("site", "k", "finished", NOW, last_crawl=LAST))
    pages = [line.partition(",")[0] for line in output.lines[1:]]
    assert pages == ["470 pages", "470 pages", "480 pages"]


@pytest.mark.parametrize("state", ["paused", "draining", "stopping"])
def test_the_line_of_a_crawl_that_is_held_up_says_so(tmp_path: Path, state: str) -> None:
    output = _Lines()
    a_screen(tmp_path, output).draw(FINISHED, Status("site", "k", state, NOW, pages=7))
    assert output.lines[-1].startswith(f"{state}, 7 pages, ")


class _Pictures(_Lines):
    """A live view, with the fields of each picture."""

    redraws = True

    def __init__(self) -> None:
        super().__init__()
        self.pictures: list[dict[str, str]] = []

    def show(self, *parts: Any) -> None:
        self.pictures.append(dict(parts[0].pairs))


def test_the_last_picture_of_a_crawl_has_a_full_bar(tmp_path: Path) -> None:
    output = _Pictures()
    a_screen(tmp_path, output).draw(FINISHED, Status("site", "k", "finished", NOW, last_crawl=LAST))
    (picture,) = output.pictures
    progress: Any = picture["progress"]
    assert (progress, progress.share) == ("100 % of 480 known requests", 1.0)
    assert picture["pages"] == "480"


def test_the_last_picture_of_a_crawl_stays_while_redis_is_away(tmp_path: Path) -> None:
    output = _Pictures()
    screen = a_screen(tmp_path, output)
    screen.draw(FINISHED, "Redis cannot be reached")
    screen.draw(FINISHED, Status("site", "k", "crawling", NOW, pages=7))
    screen.draw(FINISHED, "Redis cannot be reached")
    first, _, last = output.pictures
    assert first == {"workers": "0 here", "Redis": "away for 0 s: Redis cannot be reached"}
    assert (last["pages"], last["Redis"]) == ("7", "away for 0 s: Redis cannot be reached")


def test_the_line_of_a_crawl_says_for_how_long_redis_is_away(tmp_path: Path) -> None:
    output = _Lines()
    a_screen(tmp_path, output).draw(FINISHED, "")
    assert output.lines[-1] == "Redis is away for 0 s: it has not answered yet"


def test_the_failed_list_is_counted_by_kind_and_then_by_reason() -> None:
    found = {("request", "often"): group(3), ("seed", "no URL"): group(2), ("request", "rare"): group(1)}
    assert list(failed.by_kind(found)) == [("request", "often"), ("request", "rare"), ("seed", "no URL")]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.6, "1 min"), (597.1, "9 min 57 s")],
)
def test_a_time_that_is_left_has_tenths_only_below_ten_seconds(seconds: float, text: str) -> None:
    assert time_until(seconds) == text


def test_the_next_turn_of_a_blocked_slot_is_in_minutes(shown: Callable[..., list[str]]) -> None:
    lines = shown(*status_text(replace(crawl(), slots=1, next_turn_in=597.1)), width=200)
    assert any("the next turn in 9 min 57 s" in line for line in lines)


def test_a_row_of_the_counts_names_three_hosts() -> None:
    hosts = Counter(
        {"a.example": 1200, "": 40, "b.example": 5, "c.example": 4, "d.example": 3, "e.example": 2}
    )
    table = failed.counts_table({("request", "E"): FailedGroup(1254, 0, hosts), ("seed", "F"): group(1)})
    assert [row[-1] for row in table.rows] == ["a.example (1,200), b.example (5), c.example (4), 2 more", "-"]


# -- colour ------------------------------------------------------------------------------------------


def test_a_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    Output().show(*status_text(crawl()))
    assert "\x1b[32mcrawling" in terminal.getvalue()


def test_no_color_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch, NO_COLOR="1")
    Output().show(*status_text(crawl()))
    assert "crawling" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_a_terminal_without_rich_gets_the_output_of_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(output, "HAS_RICH", False)
    parts = status_text(crawl(spider=SPIDERS[2]))
    Output().show(*parts)
    assert terminal.getvalue().splitlines() == "\n".join(map(plain, parts)).splitlines()


def test_a_pipe_gets_no_colour_and_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    Output().show(workers_table(crawl()))
    assert "\x1b" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 1 + len(WORKERS)


def test_a_live_view_begins_with_how_to_leave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch, LINES="12")
    with Output().live("Ctrl-C leaves") as draw:
        draw(*status_text(crawl()))
        first = terminal.getvalue()
    assert first.splitlines()[0].endswith("Ctrl-C leaves")
    # What stays on the screen has no hint that is not true any more.
    last = terminal.getvalue()[len(first) :]
    assert "crawling" in last
    assert "Ctrl-C leaves" not in last


def test_a_live_view_is_as_low_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch, LINES="12", NO_COLOR="1")
    with Output().live("Ctrl-C leaves") as draw:
        draw(*status_text(crawl()))
        drawn = terminal.getvalue()
    assert len(drawn.splitlines()) == 12
    assert drawn.splitlines()[-1].strip() == "..."


def test_a_message_stands_above_the_live_view_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch, LINES="12", NO_COLOR="1")
    shown = Output()
    with shown.live("Ctrl-C leaves") as draw:
        draw(Fields([("pages", "7")]))
        before = len(terminal.getvalue())
        for number in range(20):
            shown.say(f"message {number}")
    after = terminal.getvalue()[before:]
    assert [f"message {n}\n" in after for n in range(20)] == [True] * 20
    assert after.rindex("pages") > after.rindex("message 19")


def test_a_dumb_terminal_is_printed_to_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch, TERM="dumb")
    with Output().live("Ctrl-C leaves") as draw:
        draw("first")
        assert "first" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_json_is_not_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    shown = Output()
    with shown.live("Ctrl-C leaves", redraws=False):
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
        assert cell_len(f"  {example}") <= WIDTH
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
    assert [line for line in shown.splitlines() if cell_len(line) > WIDTH] == []
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
