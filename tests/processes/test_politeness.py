"""The limits of slots, kept by a fleet: real processes, and when each host was asked."""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
import redis

from ..crawl import Fleet, wait_until
from ..project.crawls.hosts import host_url

#: Seconds between two requests to a host, and which part of it a gap has to have: a process may be held up
#: between the time of a request and its record.
DELAY, PART = 0.4, 0.75
HOSTS, PAGES = 4, 60
POLITE: dict[str, Any] = {
    "SPIDER_MODULES": "crawls.hosts",
    "HOSTS": HOSTS,
    "GRAPH_PAGES": PAGES,
    "DOWNLOAD_DELAY": DELAY,
    "RANDOMIZE_DOWNLOAD_DELAY": False,
}


def gaps(fleet: Fleet) -> list[float]:
    """Return the seconds between any two requests to a host that follow one another."""
    asked = defaultdict(list)
    for event in fleet.events("downloaded"):
        asked[event.what.split("/")[2]].append(event.time)
    return [after - before for times in asked.values() for before, after in pairwise(sorted(times))]


def pages(count: int = PAGES) -> set[str]:
    return {host_url(number, HOSTS) for number in range(count)}


def is_under_way(fleet: Fleet, count: int = 20) -> bool:
    return len(fleet.events("parsed")) >= count


def test_a_fleet_asks_each_host_no_sooner_than_the_delay(fleet: Fleet) -> None:
    fleet.start("hosts", 4, **POLITE)
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(), 1)
    assert min(gaps(fleet)) >= PART * DELAY
    assert "All workers together keep the delay of each slot (0.4 s by default)" in fleet.log()
    stats = [event.what.partition("=") for event in fleet.events("stat")]
    assert sum(float(value) for name, _, value in stats if name == "frontier/blocked_seconds") > 1


def test_each_worker_has_the_delay_by_itself_if_the_setting_says_so(fleet: Fleet) -> None:
    fleet.start("hosts", 4, **POLITE, FRONTIER_FLEET_LIMITS="")
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(), 1)
    assert min(gaps(fleet)) < PART * DELAY
    assert "All workers together" not in fleet.log()


def test_the_delay_is_kept_when_a_worker_is_killed(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("hosts", 3, **POLITE, FRONTIER_LEASE_TIMEOUT=2)
    wait_until(lambda: is_under_way(fleet))
    fleet.kill(0)
    fleet.wait(workers=[1, 2])
    assert set(fleet.urls("parsed")) == pages()
    assert min(gaps(fleet)) >= PART * DELAY


def test_the_delay_is_kept_when_a_worker_is_stopped_for_longer_than_a_lease(fleet: Fleet) -> None:
    fleet.start("hosts", 3, **POLITE, FRONTIER_LEASE_TIMEOUT=1.5)
    wait_until(lambda: is_under_way(fleet))
    fleet.kill(0, signal.SIGSTOP)
    until = time.monotonic() + 3
    wait_until(lambda: time.monotonic() > until)
    fleet.kill(0, signal.SIGCONT)
    fleet.wait()
    assert set(fleet.urls("parsed")) == pages()
    assert min(gaps(fleet)) >= PART * DELAY


def test_a_worker_that_joins_asks_no_host_sooner(fleet: Fleet) -> None:
    fleet.start("hosts", 1, **POLITE)
    for count in (10, 20, 30):
        wait_until(lambda count=count: is_under_way(fleet, count))
        fleet.start("hosts", 1, **POLITE)
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(), 1)
    assert min(gaps(fleet)) >= PART * DELAY


def test_what_was_queued_without_slots_is_crawled_with_their_limits(fleet: Fleet) -> None:
    fleet.start("hosts", 1, **POLITE | {"DOWNLOAD_DELAY": 0}, FRONTIER_BY_SLOT=False, CONCURRENT_REQUESTS=1)
    wait_until(lambda: is_under_way(fleet, 5))
    fleet.kill(0, signal.SIGINT)
    fleet.wait()
    before = time.time()
    fleet.start("hosts", 2, **POLITE)
    fleet.wait()
    assert set(fleet.urls("parsed")) == pages()
    asked = defaultdict(list)
    for event in fleet.events("downloaded"):
        if event.time > before:
            asked[event.what.split("/")[2]].append(event.time)
    apart = [after - first for times in asked.values() for first, after in pairwise(sorted(times))]
    assert min(apart) >= PART * DELAY


def test_what_workers_crawl_from_their_memories_keeps_the_delay_as_well(fleet: Fleet) -> None:
    fleet.start("memoryhosts", 3, **POLITE)
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(), 1)
    assert min(gaps(fleet)) >= PART * DELAY


def test_a_host_that_answers_slowly_does_not_keep_others_waiting(fleet: Fleet) -> None:
    settings = {"SPIDER_MODULES": "crawls.hosts", "CONCURRENT_REQUESTS_PER_DOMAIN": 4, "GRAPH_LATENCY": 0.02}
    fleet.start("oneslowhost", 1, CONCURRENT_REQUESTS=16, **settings)

    def others() -> int:
        return sum("slow.test" not in event.what for event in fleet.events("parsed"))

    wait_until(lambda: others() == 200)
    # It takes 75 s by itself; in memory the others are through when a few of its pages are.
    assert len(fleet.events("parsed")) - others() < 20


@pytest.mark.parametrize("limits", ['{"*.test": {"delay": -1}}', "{", '{"a": {"dela": 1}}'])
def test_limits_that_are_not_valid_are_one_line_and_the_end(fleet: Fleet, limits: str) -> None:
    fleet.start("hosts", 1, **POLITE, FRONTIER_SLOTS=limits)
    fleet.wait()
    assert "The crawl cannot start: FRONTIER_SLOTS" in fleet.log()
    assert not fleet.events("downloaded")
