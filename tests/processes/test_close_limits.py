"""``FRONTIER_CLOSE_PAGECOUNT`` and the like with real workers: the fleet closes, and what waits stays."""

from __future__ import annotations

import pytest
import redis

from ..support.crawl import Fleet

WORKERS = 3
#: What each worker may be at when it is told to close.
AT_WORK = 4
SLOW = {"GRAPH_LATENCY": 0.05, "CONCURRENT_REQUESTS": AT_WORK, "GRAPH_PAGES": 5000}


def closed(fleet: Fleet, spider: str, **settings: object) -> None:
    """Have a fleet run until it closes."""
    fleet.start(spider, WORKERS, **{**SLOW, **settings})
    fleet.wait(60)
    assert [worker.returncode for worker in fleet.workers] == [0] * len(fleet.workers)
    assert "Unhandled" not in fleet.log(0)


def test_a_fleet_closes_after_so_many_pages_and_the_next_goes_on(fleet: Fleet) -> None:
    for round_ in (1, 2):
        closed(fleet, "graph", FRONTIER_CLOSE_PAGECOUNT=100)
        assert fleet.reasons() == ["closespider_pagecount"] * WORKERS * round_
        # What is under way when the hundredth is done is done as well: of two exchanges, at the most.
        assert 100 * round_ <= len(fleet.urls("parsed")) <= (100 + 4 * WORKERS * AT_WORK) * round_
    assert set(fleet.urls("parsed").values()) == {1}
    assert "has reached the limit of FRONTIER_CLOSE_PAGECOUNT" in fleet.log(0)


@pytest.mark.long
def test_a_fleet_closes_after_so_many_items(fleet: Fleet) -> None:
    closed(fleet, "starts", FRONTIER_CLOSE_ITEMCOUNT=15, GRAPH_LATENCY=0.5, CONCURRENT_REQUESTS=1)
    assert fleet.reasons() == ["closespider_itemcount"] * WORKERS
    assert 15 <= fleet.stat("item_scraped_count") < 40


def test_a_fleet_closes_after_so_many_errors(fleet: Fleet) -> None:
    closed(fleet, "raising", FRONTIER_CLOSE_ERRORCOUNT=50)
    assert fleet.reasons() == ["closespider_errorcount"] * WORKERS
    assert 50 <= fleet.stat("spider_exceptions/KeyError") <= 50 + 4 * WORKERS * AT_WORK


def test_a_fleet_closes_after_so_many_seconds(fleet: Fleet, server: redis.Redis) -> None:
    closed(fleet, "graph", FRONTIER_CLOSE_TIMEOUT=2, GRAPH_PAGES=100_000)
    assert fleet.reasons() == ["closespider_timeout"] * WORKERS
    opened, last = fleet.events("opened")[0].time, fleet.events("closed")[-1].time
    assert 1.5 < last - opened < 10
