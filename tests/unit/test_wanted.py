"""How many workers a crawl could use."""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_rq_sched.inspect.status import Status, Worker
from scrapy_rq_sched.inspect.wanted import workers_wanted


def wanted(state: str = "crawling", alive: int = 2, delay: float = 0.0, **fields: Any) -> int:
    workers = [Worker(f"w{number}", True) for number in range(alive)]
    return workers_wanted(Status("s", "s:requests", state, 0.0, workers=workers, **fields), delay)


@pytest.mark.parametrize("state", ["finished", "idle", "stopping", "importing", "converting"])
def test_none_where_there_is_nothing_to_do(state: str) -> None:
    assert wanted(state, waiting=10_000, per_second=1.0) == 0


@pytest.mark.parametrize("fields", [{"waiting": 1}, {"seeds": 1}, {"delayed": 1}, {"leased": 1}])
def test_a_frontier_without_workers_wants_one(fields: dict[str, int]) -> None:
    assert wanted("stopped", 0, **fields) == wanted("new", 0, **fields) == 1


def test_a_paused_or_draining_crawl_wants_no_more_workers() -> None:
    assert [wanted(state, 3, waiting=10**6, per_second=1.0) for state in ("paused", "draining")] == [3, 3]


def test_so_many_as_are_through_with_it_in_ten_minutes() -> None:
    # Two workers do twenty pages a second: ten each.
    assert wanted(waiting=60_000, per_second=20.0) == 10
    assert wanted(waiting=60_001, per_second=20.0) == 11


def test_fewer_when_little_is_left_but_never_none() -> None:
    assert wanted(alive=8, leased=5, per_second=80.0) == 1


def test_no_more_before_it_is_known_how_fast_a_worker_is() -> None:
    assert wanted(alive=2, waiting=10**6) == 2


def test_no_more_where_all_that_waits_has_to_wait_for_its_time() -> None:
    assert wanted(waiting=10**6, per_second=20.0, slots=50, limit="politeness") == 2


def test_no_more_where_the_delays_allow_hardly_more_pages() -> None:
    # Fifty hosts that may be asked every two seconds give twenty-five pages a second.
    assert wanted(waiting=10**6, per_second=24.0, slots=50, delay=2.0) == 2
    assert wanted(waiting=10**6, per_second=12.0, slots=50, delay=2.0) > 2


def test_never_more_than_there_may_be() -> None:
    assert wanted(waiting=10**6, per_second=20.0, max_workers=5) == 5
