"""Each target with few cases, always the same ones; and each sees a fault that is planted.

``make fuzz`` tries new ones for an hour.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import strategies as st

from scrapy_rq_sched.codec import seeds as codec_of_seeds
from scrapy_rq_sched.collect.item_format import ItemFormat
from scrapy_rq_sched.commands import output, transfer
from scrapy_rq_sched.dashboard import api as page
from scrapy_rq_sched.frontier.client import Frontier

from . import entries, workers
from .hostile import FORGED
from .oracle import Complaint, log_faults, one_line_faults
from .runner import Finding, fuzz, replay
from .target import Target, World
from .targets import TARGETS

pytestmark = pytest.mark.single("the keys of a single server")

#: Cases of a target, such that it takes some seconds.
FEW = {"seeds": 25, "queue": 25, "state": 30, "item-file": 60, "import": 15, "api": 60}


@pytest.fixture
def world(server: redis.Redis, redis_url: str, tmp_path: Path) -> Iterator[World]:
    made = World(redis_url, tmp_path)
    yield made
    made.close()


def told(target: Target, cases: list[Any]) -> str:
    """Return what *target* complains of."""
    alone = [complaint.kind for case in cases for complaint in target.alone(case)]
    return "; ".join([*alone, *(complaint.kind for complaint in target.examine(cases))])


@pytest.mark.parametrize("name", list(FEW))
def test_hostile_cases_find_no_fault(name: str, world: World) -> None:
    report = fuzz(TARGETS[name](world), 600, seed=1, most=FEW[name], shrinking=5)
    assert report.tries >= FEW[name] / 2
    assert [(finding.kind, finding.details, finding.cases) for finding in report.findings] == []


# -- a target sees a fault that is planted -------------------------------------------------------------

SHOWN = [("host", "127.0.0.1:8000")]


def test_the_seeds_target_sees_an_unexpected_exception(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str, form_data: bool) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(codec_of_seeds, "_fields_of", fail)
    assert "ZeroDivisionError in codec/seeds.py:request_from_seed (a seed" in told(
        TARGETS["seeds"](world), ['{"url": "http://graph.test/1"}']
    )


def test_the_seeds_target_sees_that_a_seed_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def crawl_less(world: World, entries: int, **settings: object) -> Iterator[Complaint]:
        world.server.lpop("fuzzed:start_urls")
        return workers.crawl(world, entries, **settings)

    monkeypatch.setattr("tests.fuzz.seeds.crawl", crawl_less)
    seeds = [f"http://graph.test/{number}" for number in range(3)]
    assert told(TARGETS["seeds"](world), seeds) == "entries are lost"


def test_the_seeds_target_takes_good_and_bad_seeds_for_no_fault(world: World) -> None:
    seeds = [
        "http://graph.test/1",
        "no URL",
        '{"url": "http://graph.test/2", "callback": "nowhere"}',
        "[" * 9999,
    ]
    assert told(TARGETS["seeds"](world), seeds) == ""


def test_the_queue_target_sees_an_unexpected_exception(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(entries, "request_from_dict", fail)
    case = ["json", '{"url": "http://graph.test/1"}']
    assert "ZeroDivisionError in ?" in told(TARGETS["queue"](world), [case])


def test_the_state_target_sees_an_unexpected_exception(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # The package's name `read_status` is the function.
    monkeypatch.setattr(sys.modules["scrapy_rq_sched.inspect.read_status"], "whole_of", float)
    case = [[["shop:meta", "field", "pages", "garbage"]], {"commands": [0]}]
    assert "Error in inspect/read_status.py:" in told(TARGETS["state"](world), [case])


def test_the_state_target_sees_raw_characters_and_a_lost_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TARGETS["state"](world)
    monkeypatch.setattr(output.Output, "show", lambda self, *parts: self._write("\x1b[2J"))
    assert told(target, [[[], {"commands": [0]}]]) == "raw characters in the output of scrapy frontier status"
    exchange = Frontier.exchange

    def lose(self: Frontier, batch: Any) -> Any:
        self.server.delete("shop:requests:slot:www.books.example")
        return exchange(self, batch)

    monkeypatch.setattr(Frontier, "exchange", lose)
    assert told(target, [[[], {"exchange": True}]]) == "an exchange has lost a request"


def test_the_target_of_files_sees_a_lost_item(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"page": "p", "n": 0, "item": {"a": "1"}}
    case = {"format": "jsonlines", "batches": [[entry]], "dies": False}
    target = TARGETS["item-file"](world)
    assert told(target, [case]) == ""
    monkeypatch.setattr(ItemFormat, "line", lambda *_: b"")
    assert told(target, [case]) == "an item is missing"


def test_the_import_target_sees_a_forged_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    target: Any = TARGETS["import"](world)
    lines = [line.decode() for line in target._lines]
    kind, header = json.loads(lines[0])
    lines[0] = json.dumps([kind, {**header, "spider": f"x\n{FORGED}"}]) + "\n"
    case = {"lines": lines, "fits": True}
    assert told(target, [case]) == ""
    monkeypatch.setattr(transfer, "one_line", str)
    assert told(target, [case]) == "a forged line in the output of scrapy frontier import"


def test_the_api_target_sees_an_unexpected_exception(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    case = [{}, "GET", "/api/v1/peek", "spider=shop&offset=x", SHOWN, ""]
    target = TARGETS["api"](world)
    assert told(target, [case]) == ""
    monkeypatch.setattr(page, "answer_of", lambda made: 1 / 0)
    assert "ZeroDivisionError" in told(target, [case])


# -- the judge and the runner --------------------------------------------------------------------------


def test_a_forged_line_and_raw_characters_of_a_log_are_seen() -> None:
    log = f"2026-01-01 00:00:00 [a] INFO: fine\n2026-01-01 00:00:00 [a] INFO: x\n{FORGED}\n\x1b[2J\n"
    kinds = [complaint.kind.partition(":")[0] for complaint in log_faults(log, "log")]
    assert kinds == ["a forged line in the log", "raw characters in the log"]
    assert list(log_faults("2026-01-01 00:00:00 [a] INFO: fine\n", "log")) == []


def test_a_traceback_counts_if_it_ends_in_the_package() -> None:
    block = 'Traceback (most recent call last):\n  File "{}", line 3, in f\nValueError: x\n2026-01-01'
    assert list(log_faults(block.format("/usr/lib/scrapy/x.py"), "log")) == []
    (complaint,) = log_faults(block.format(page.__file__), "log")
    assert complaint.kind == "a traceback from dashboard/api.py:f (log)"


def test_a_second_line_is_seen() -> None:
    assert [complaint.kind for complaint in one_line_faults("a\nb", "answer")] == [
        "more than one line in the answer"
    ]


class _Broken(Target):
    """Complains of each case that has a seven."""

    name = "broken"

    def cases(self) -> st.SearchStrategy[str]:
        return st.lists(st.integers(0, 9), max_size=5).map(lambda found: "".join(map(str, found)))

    def examine(self, cases: list[str]) -> Iterator[Complaint]:
        if any("7" in case for case in cases):
            yield Complaint("a seven", "".join(cases))

    def simpler(self, case: str) -> Iterator[str]:
        return (case[:place] + case[place + 1 :] for place in range(len(case)))


@pytest.mark.parametrize("batch", [1, 50])
def test_a_finding_is_the_smallest_case_and_can_be_replayed(batch: int, world: World, tmp_path: Path) -> None:
    target = _Broken(world)
    target.batch = batch  # type: ignore[misc]
    report = fuzz(target, 60, seed=1, most=300)
    assert [(finding.kind, finding.cases) for finding in report.findings] == [("a seven", ["7"])]
    again = Finding.read(report.findings[0].write(tmp_path / "findings"))
    assert replay(target, again) == [Complaint("a seven", "7")]


def test_an_examiner_that_fails_is_a_finding(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Target, cases: list[str]) -> Iterator[Complaint]:
        raise ZeroDivisionError

    monkeypatch.setattr(_Broken, "examine", fail)
    (finding,) = fuzz(_Broken(world), 60, seed=1, most=20).findings
    assert "in the examiner itself" in finding.kind
