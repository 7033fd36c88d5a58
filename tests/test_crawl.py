"""Whole crawls: real processes, a real Redis."""

from __future__ import annotations

import signal

import pytest
import redis

from .crawl import Fleet, wait_until
from .project.crawls.graph import page_url


def pages(count: int) -> set[str]:
    return {page_url(number) for number in range(count)}


def test_one_worker_crawls_every_page_once_and_finishes(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", GRAPH_PAGES=500)
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(500), 1)
    assert fleet.reasons() == ["finished"]


@pytest.mark.parametrize("queue", ["PriorityQueue", "FifoQueue", "LifoQueue"])
@pytest.mark.parametrize("serializer", ["json", "msgpack", "pickle"])
def test_two_workers_crawl_every_page_once_with_each_queue_and_serializer(
    fleet: Fleet, queue: str, serializer: str
) -> None:
    settings = {"SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.{queue}", "SCHEDULER_SERIALIZER": serializer}
    fleet.start("graph", 2, GRAPH_PAGES=200, GRAPH_LATENCY=0.01, **settings)
    fleet.wait()
    assert fleet.urls("downloaded") == dict.fromkeys(pages(200), 1)
    assert fleet.reasons() == ["finished", "finished"]


def test_what_a_killed_worker_held_is_crawled_by_the_others(fleet: Fleet) -> None:
    fleet.start("graph", 3, GRAPH_PAGES=2000, GRAPH_LATENCY=0.05, FRONTIER_LEASE_TIMEOUT=2)
    wait_until(lambda: len(fleet.events("parsed", 0)) > 200)
    fleet.kill(0)
    fleet.wait()
    assert set(fleet.urls("parsed")) == pages(2000)
    repeats = sum(fleet.urls("downloaded").values()) - 2000
    assert repeats <= 16  # what it had begun: its concurrent requests
    closed = fleet.events("closed")
    assert [event.what for event in closed] == ["finished", "finished"]
    assert closed[1].time - closed[0].time < 5
    assert closed[0].time >= max(event.time for event in fleet.events("parsed"))


def test_ctrl_c_on_one_of_two_workers_leaves_the_other_everything(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", 2, GRAPH_PAGES=1000, GRAPH_LATENCY=0.05)
    wait_until(lambda: len(fleet.events("parsed", 0)) > 100)
    fleet.kill(0, signal.SIGINT)
    fleet.wait(workers=[0])
    assert server.zcard("graph:requests") > 0
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(1000), 1)
    assert fleet.reasons() == ["shutdown", "finished"]


def test_start_requests_are_crawled_once_by_the_fleet(fleet: Fleet) -> None:
    fleet.start("starts", 3)
    fleet.wait()
    assert len(fleet.urls("downloaded")) == 40
    assert set(fleet.urls("downloaded").values()) == {1}
    assert fleet.reasons() == ["finished"] * 3
