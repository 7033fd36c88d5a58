"""What a request needs of a worker, and what a worker makes of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from scrapy import Request
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.codec.names import joined, names_in, shown
from scrapy_rq_sched.codec.needs import place_of, split_place
from scrapy_rq_sched.frontier.replies import Reply
from scrapy_rq_sched.worker.needs import Needs


@pytest.fixture
def stats() -> MemoryStatsCollector:
    return MemoryStatsCollector(get_crawler())


@pytest.fixture
def needs(stats: MemoryStatsCollector) -> Needs:
    return Needs(frozenset({"browser"}), True, stats)


def request(value: Any) -> Request:
    return Request("http://example.com/", meta={"needs": value})


@pytest.mark.parametrize(
    ("value", "lane"),
    [
        ("browser", "browser"),
        (["gpu", "browser"], "browser|gpu"),
        ({"gpu", "browser"}, "browser|gpu"),
        (("gpu", "gpu"), "gpu"),
        (" browser ", "browser"),
        ("a|b", "a%7Cb"),
        ("Köln", "K%C3%B6ln"),
        (None, ""),
        ([], ""),
    ],
)
def test_a_lane_is_named_by_the_needs_of_its_requests(needs: Needs, value: Any, lane: str) -> None:
    assert needs.lane(request(value)) == lane
    assert joined(names_in(lane)) == lane


def test_a_request_without_needs_is_in_no_lane(needs: Needs) -> None:
    assert needs.lane(Request("http://example.com/")) == ""


@pytest.mark.parametrize("value", [5, "", "  ", ["a", ""], [["a"]], {"a": 1}, True, b"a", "x" * 201])
def test_needs_that_are_no_names_are_invalid(needs: Needs, value: Any) -> None:
    with pytest.raises(ValueError, match=r"must (be a name or a list of names|have names of at most)"):
        needs.lane(request(value))
    with pytest.raises(ValueError, match=r"must (be a name or a list of names|have names of at most)"):
        needs.lacking(request(value))


@pytest.mark.parametrize("value", [{"gpu", "browser"}, ("gpu", "browser")])
def test_needs_become_a_list_that_every_serializer_keeps(needs: Needs, value: Any) -> None:
    made = request(value)
    needs.lane(made)
    assert made.meta["needs"] == ["browser", "gpu"]


def test_a_place_is_the_slot_and_the_lane() -> None:
    assert place_of("example.com", "") == "example.com"
    assert split_place(place_of("example.com", "browser|gpu")) == ("example.com", "browser|gpu")
    assert split_place("example.com") == ("example.com", "")


def test_a_worker_lacks_the_needs_that_it_does_not_offer(needs: Needs) -> None:
    assert needs.lacking(request(["browser", "gpu"])) == {"gpu"}
    assert needs.lacking(request("browser")) == set()
    assert needs.lacking(Request("http://example.com/")) == set()


def test_a_request_in_memory_is_dropped_if_its_worker_does_not_meet_its_needs(
    needs: Needs, stats: MemoryStatsCollector, caplog: pytest.LogCaptureFixture
) -> None:
    assert needs.refuses_in_memory(request("gpu"))
    assert not needs.refuses_in_memory(request("browser"))
    assert "is dropped: it cannot be stored in Redis, and it needs 'gpu', which this" in caplog.text
    assert stats.get_value("frontier/needs_refused") == 1


def test_a_queue_class_with_its_own_push_ignores_needs_with_one_warning(
    stats: MemoryStatsCollector, caplog: pytest.LogCaptureFixture
) -> None:
    ignoring = Needs(frozenset(), False, stats)
    assert [ignoring.lane(request("browser")) for _ in range(2)] == ["", ""]
    assert ignoring.lacking(request("browser")) == set()
    assert caplog.text.count('meta["needs"] is ignored') == 1


def test_needs_that_no_worker_meets_are_logged_once_each_and_again_when_they_are_met(
    needs: Needs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def reply(*unmet: str) -> None:
        needs.applied(Reply("e", unmet=unmet))

    reply("gpu")
    reply("gpu", "browser|screen")
    reply("gpu")
    reply("gpu")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert lines[0].startswith("No worker that is alive offers 'gpu': ")
    assert "'browser' and 'screen'" in lines[1]
    assert lines[1].endswith("FRONTIER_OFFERS = ['browser', 'screen']")
    assert lines[2] == "Requests no longer wait for 'browser' and 'screen'"


@pytest.mark.parametrize(
    ("names", "text"), [(["b"], "'b'"), (["b", "a"], "'a' and 'b'"), (["c", "a", "b"], "'a', 'b' and 'c'")]
)
def test_needs_are_listed_in_words(names: list[str], text: str) -> None:
    assert shown(names) == text
