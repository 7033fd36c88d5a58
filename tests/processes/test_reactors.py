"""Whole crawls on what else than asyncio's reactor may drive Scrapy. All other tests are on that."""

from __future__ import annotations

import signal
import statistics
import sys
import time

import pytest
import redis
from scrapy.settings import default_settings

from ..project.crawls.graph import page_url
from ..support.crawl import Fleet, wait_until

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has epoll")
without_reactor = pytest.mark.skipif(
    not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"), reason="this Scrapy needs a reactor"
)

event_loops = pytest.mark.parametrize(
    ("event_loop", "reactor"),
    [
        pytest.param("select", "SelectReactor", id="select"),
        pytest.param("epoll", "EPollReactor", id="epoll", marks=[on_linux, pytest.mark.long]),
        pytest.param("none", "none", id="none", marks=without_reactor),
    ],
)


@event_loops
def test_two_workers_crawl_every_page_once_and_finish(fleet: Fleet, event_loop: str, reactor: str) -> None:
    environment = {"EVENT_LOOP": event_loop}
    fleet.start("graph", 2, forked=False, GRAPH_PAGES=300, GRAPH_LATENCY=0.01, environment=environment)
    fleet.wait()
    assert fleet.urls("loop") == {reactor: 2}
    assert fleet.urls("downloaded") == {page_url(number): 1 for number in range(300)}
    assert fleet.reasons() == ["finished", "finished"]


@event_loops
def test_a_seed_wakes_an_idle_worker(
    fleet: Fleet, server: redis.Redis, event_loop: str, reactor: str
) -> None:
    fleet.start("seeds", forked=False, environment={"EVENT_LOOP": event_loop})
    times = []
    for number in range(5):
        pushed = time.time()
        server.rpush("seeds:start_urls", page_url(number))
        wait_until(lambda: len(fleet.events("parsed")) > number)  # noqa: B023 - it is called here only
        times.append(fleet.events("parsed")[-1].time - pushed)
    # An idle worker looks for itself every second, and its engine every five. The first waits for its start.
    assert statistics.median(times[1:]) < 0.2, times


@event_loops
def test_ctrl_c_ends_a_worker_that_then_is_gone(
    fleet: Fleet, server: redis.Redis, event_loop: str, reactor: str
) -> None:
    fleet.start(
        "graph", forked=False, GRAPH_PAGES=500, GRAPH_LATENCY=0.05, environment={"EVENT_LOOP": event_loop}
    )
    wait_until(lambda: len(fleet.events("parsed")) > 20)
    fleet.kill(0, signal.SIGINT)
    fleet.wait()
    assert fleet.reasons() == ["shutdown"]
    assert fleet.workers[0].returncode == 0
    assert "Traceback" not in fleet.log()
    assert server.keys("graph:workers") == server.keys("graph:leases:*") == []


@event_loops
def test_no_redis_call_is_made_on_the_event_loop(fleet: Fleet, event_loop: str, reactor: str) -> None:
    fleet.start("loopthread", forked=False, GRAPH_PAGES=100, environment={"EVENT_LOOP": event_loop})
    fleet.wait()
    assert fleet.reasons() == ["finished"]
    assert fleet.urls("redis")["loop"] == 0
    assert fleet.urls("redis")["thread"] > 10
