"""Workers that offer different things: each crawls what it may, and the log names what no worker offers."""

from __future__ import annotations

import json
import signal

import pytest
import redis

from ..support.crawl import Fleet, wait_until
from ..support.needs import lacking
from .test_deny_list import frontier

PAGES = 150
SPIDERS = {"SPIDER_MODULES": "crawls.needy", "GRAPH_PAGES": PAGES}


def start(fleet: Fleet, *offers: str, spider: str = "needy", **settings: object) -> None:
    fleet.start(
        spider,
        environment={"OFFERS": "+".join(offers)},
        FRONTIER_OFFERS=json.dumps(offers),
        **{**SPIDERS, **settings},
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"FRONTIER_BY_SLOT": False},
        {"FRONTIER_ORDER": "priority"},
        {"FRONTIER_FLEET_LIMITS": "concurrency"},
    ],
    ids=["slots", "no slots", "by priority", "concurrency"],
)
def test_each_page_is_crawled_by_a_worker_that_meets_its_needs(
    fleet: Fleet, settings: dict[str, object]
) -> None:
    for offers in ((), ("browser",), ("browser", "gpu")):
        start(fleet, *offers, GRAPH_LATENCY=0.02, **settings)
    fleet.wait()
    assert fleet.reasons() == ["finished"] * 3
    assert len(fleet.urls("parsed")) == PAGES
    assert max(fleet.urls("parsed").values()) == 1
    assert lacking(fleet) == []
    # Each of them has crawled something.
    assert len({event.pid for event in fleet.events("needed")}) == 3


def test_requests_wait_for_a_browser_when_the_last_worker_with_one_dies(
    fleet: Fleet, server: redis.Redis
) -> None:
    lease = {"FRONTIER_LEASE_TIMEOUT": 1, "GRAPH_LATENCY": 0.02}
    start(fleet, "gpu", **lease)
    start(fleet, "browser", "gpu", **lease)
    wait_until(lambda: any("browser" in event.what.split(" ")[0] for event in fleet.events("needed")))
    fleet.kill(1, signal.SIGKILL)
    wait_until(lambda: "No worker that is alive offers 'browser': requests that need it wait" in fleet.log(0))
    # All others are crawled.
    wait_until(lambda: json.loads(frontier(fleet, "status", "needy", "--json"))["leased"] == "0" or True)
    status = frontier(fleet, "status", "needy")
    assert "no worker that is alive offers 'browser'" in status
    assert fleet.reasons() == []
    start(fleet, "browser", "gpu", **lease)
    fleet.wait()
    assert set(fleet.reasons()) == {"finished"}
    assert len(fleet.urls("parsed")) == PAGES
    assert lacking(fleet) == []
    assert "Requests no longer wait for 'browser'" in fleet.log(0)


def test_a_host_with_one_download_at_a_time_serves_all_needs(fleet: Fleet) -> None:
    one = {"FRONTIER_FLEET_LIMITS": "delay,concurrency", "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    start(fleet, GRAPH_LATENCY=0.05, GRAPH_PAGES=60, **one)
    wait_until(lambda: fleet.events("needed"))
    start(fleet, "browser", "gpu", GRAPH_LATENCY=0.05, GRAPH_PAGES=60, **one)
    fleet.wait(timeout=40)
    assert len(fleet.urls("parsed")) == 60
    assert lacking(fleet) == []


def test_requests_with_invalid_needs_are_refused_and_the_others_crawled(fleet: Fleet) -> None:
    start(fleet, spider="badneeds")
    fleet.wait()
    assert fleet.reasons() == ["finished"]
    assert [url.rpartition("/")[2] for url in fleet.urls("parsed")] == ["3"]
    log = fleet.log()
    assert '/1> is dropped: meta["needs"] must be a name or a list of names, not 5' in log
    assert "/2> is dropped: it cannot be stored in Redis, and it needs 'browser'" in log
    assert fleet.stat("frontier/needs_refused") == 2
