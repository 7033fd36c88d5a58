"""Groups of requests: follow-ups begin when their group is finished, and one worker is told of it."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import redis

from ..support.crawl import Fleet, wait_until
from ..support.groups import too_early
from .test_deny_list import frontier

GROUPS, PAGES = 20, 8
ALL = {str(group): {str(page) for page in range(PAGES)} for group in range(GROUPS)}


def start(fleet: Fleet, count: int = 1, spider: str = "grouped", **settings: object) -> None:
    fleet.start(
        spider,
        count,
        GROUPS=GROUPS,
        GROUP_PAGES=PAGES,
        SPIDER_MODULES="crawls.grouped",
        **settings,
    )


def crawled(fleet: Fleet) -> dict[str, set[str]]:
    """Return the crawled pages of each group."""
    pages: dict[str, set[str]] = {}
    for event in fleet.events("group"):
        group, page = event.what.split()
        pages.setdefault(group, set()).add(page)
    return pages


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"FRONTIER_BY_SLOT": False},
        {"SCHEDULER_QUEUE_CLASS": "scrapy_rq_sched.LifoQueue"},
        {"SCHEDULER_SERIALIZER": "pickle"},
        {"IN_MEMORY": True},
    ],
    ids=["slots", "no slots", "lifo", "pickle", "in memory"],
)
def test_each_follow_up_is_crawled_once_and_after_its_group(
    fleet: Fleet, settings: dict[str, object]
) -> None:
    start(fleet, 3, GRAPH_LATENCY=0.02, **settings)
    fleet.wait()
    assert fleet.reasons() == ["finished"] * 3
    assert crawled(fleet) == ALL
    assert Counter(event.what for event in fleet.events("follow-up")) == Counter(list(ALL))
    assert too_early(fleet) == []
    assert Counter(event.what for event in fleet.events("finished")) == Counter(
        f"g-{group} 0" for group in range(GROUPS)
    )


def test_a_request_of_a_handler_of_the_signal_is_crawled(fleet: Fleet, server: redis.Redis) -> None:
    start(fleet, 2, YIELD_ON_SIGNAL=True)
    fleet.wait()
    assert fleet.reasons() == ["finished"] * 2
    assert Counter(event.what for event in fleet.events("signalled")) == Counter(list(ALL))
    assert not list(server.scan_iter("grouped:groups*"))


def test_a_second_crawl_waits_for_its_groups_again(fleet: Fleet) -> None:
    for crawl in (1, 2):
        began = time.time()
        start(fleet)
        fleet.wait()
        assert len(fleet.events("follow-up")) == len(fleet.events("finished")) == crawl * GROUPS
        assert too_early(fleet, began) == []


def test_groups_outlast_a_stop(fleet: Fleet) -> None:
    start(fleet, GRAPH_LATENCY=0.05)
    wait_until(lambda: len(fleet.events("group")) > 10)
    frontier(fleet, "stop", "grouped")
    fleet.wait()
    start(fleet, 2)
    fleet.wait()
    assert crawled(fleet) == ALL
    assert Counter(event.what for event in fleet.events("follow-up")) == Counter(list(ALL))
    assert too_early(fleet) == []


def test_groups_that_are_not_valid_are_ignored_and_their_requests_crawled(fleet: Fleet) -> None:
    start(fleet, spider="badgroups")
    fleet.wait()
    assert fleet.reasons() == ["finished"]
    assert sorted(url.rpartition("/")[2] for url in fleet.urls("parsed")) == ["1", "2", "3", "4", "5"]
    log = fleet.log()
    assert '/1> are ignored: meta["group"] must be a name or a list of names, not {}.' in log
    assert "Requests that wait for group 'never' begin at once: no request of this group was found" in log
    assert fleet.stat("frontier/groups_ignored") == 4
