"""Caps with real workers: how many pages a crawl has, whatever dies."""

from __future__ import annotations

import json
from collections import Counter

import redis

from ..support.crawl import Fleet, wait_until

CAP = 300
SLOW = {"GRAPH_LATENCY": 0.02, "GRAPH_PAGES": 5000}


def test_a_crawl_ends_with_exactly_as_many_pages_as_its_cap(fleet: Fleet) -> None:
    fleet.start("graph", 3, FRONTIER_MAX_PAGES=CAP, **SLOW)
    fleet.wait()
    assert Counter(fleet.urls("parsed").values()) == {1: CAP}
    assert set(fleet.reasons()) == {"max_pages"}
    assert "A request of graph.test is dropped, because the crawl or this slot has as many" in fleet.log(0)


def test_killed_workers_do_not_lift_the_cap(fleet: Fleet) -> None:
    settings = {**SLOW, "FRONTIER_LEASE_TIMEOUT": 2}
    fleet.start("graph", 3, FRONTIER_MAX_PAGES=CAP, **settings)
    for victim in range(6):
        before = len(fleet.urls("parsed"))
        wait_until(lambda before=before: len(fleet.urls("parsed")) >= min(before + 30, CAP - 60))
        fleet.kill(victim)
        fleet.start("graph", FRONTIER_MAX_PAGES=CAP, **settings)
    fleet.wait()
    assert len(fleet.urls("parsed")) == CAP


def test_retries_are_no_further_pages(fleet: Fleet) -> None:
    failing = json.dumps({"crawls.spiders.FailEachOnce": 960})
    fleet.start("graph", 2, FRONTIER_MAX_PAGES=CAP, DOWNLOADER_MIDDLEWARES=failing, **SLOW)
    fleet.wait()
    assert len(fleet.urls("parsed")) == CAP
    assert fleet.stat("retry/count") > CAP


def test_requests_that_a_middleware_sends_again_are_no_further_pages(fleet: Fleet) -> None:
    asking = json.dumps({"crawls.spiders.AskEachAgain": 960})
    fleet.start("graph", 2, FRONTIER_MAX_PAGES=CAP, DOWNLOADER_MIDDLEWARES=asking, **SLOW)
    fleet.wait()
    assert len(fleet.urls("parsed")) == CAP


def test_requests_that_were_queued_without_slots_are_counted_once(fleet: Fleet) -> None:
    settings = {"FRONTIER_MAX_PAGES": CAP, "SCHEDULER_PERSIST": True, **SLOW}
    fleet.start("graph", 1, FRONTIER_BY_SLOT=False, FRONTIER_CLOSE_PAGECOUNT=30, **settings)
    fleet.wait()
    fleet.start("graph", 2, DOWNLOAD_DELAY=0.005, **settings)
    fleet.wait()
    assert len(fleet.urls("parsed")) == CAP


def test_a_slot_has_as_many_pages_as_its_cap_and_others_have_all(fleet: Fleet) -> None:
    rules = json.dumps({"host0.test": {"max_pages": 20}})
    hosts_spider = {"SPIDER_MODULES": "crawls.hosts", "HOSTS": 4, "GRAPH_PAGES": 400}
    fleet.start("hosts", 2, FRONTIER_SLOTS=rules, **hosts_spider)
    fleet.wait()
    hosts = Counter(url.split("/")[2] for url in fleet.urls("parsed"))
    assert hosts["host0.test"] == 20
    assert min(hosts.values()) == 20
    assert set(fleet.reasons()) == {"finished"}


def test_a_worker_with_a_larger_cap_crawls_the_rest(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", 2, FRONTIER_MAX_PAGES=CAP, SCHEDULER_PERSIST=True, **SLOW)
    wait_until(lambda: int(server.hget("graph:slots:pages", "dropped") or 0))
    fleet.start("graph", 1, FRONTIER_MAX_PAGES=2 * CAP, SCHEDULER_PERSIST=True, **SLOW)
    fleet.wait()
    assert CAP < len(fleet.urls("parsed")) <= 2 * CAP
