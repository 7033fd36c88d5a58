"""What a worker says when it is told to close while downloads are slow, and when it is told so twice."""

from __future__ import annotations

import re
import signal

import pytest
import redis

from ..support.crawl import Fleet, wait_until


def closing(fleet: Fleet) -> list[str]:
    return re.findall(r"\[scrapy_rq_sched\.worker\.log\.farewell\] INFO: (.+)", fleet.log())


def cut_short(fleet: Fleet) -> list[str]:
    return re.findall(r"\[scrapy_rq_sched\.worker\.log\.farewell\] WARNING: (.+)", fleet.log())


def interrupt(fleet: Fleet, *, latency: float, event_loop: str = "asyncio", **settings: object) -> None:
    """Start a worker whose downloads are slow, and press Ctrl-C when four of them are under way."""
    fleet.start(
        "starts",
        1,
        environment={"EVENT_LOOP": event_loop},
        **{"GRAPH_LATENCY": latency, "CONCURRENT_REQUESTS": 4, **settings},
    )
    wait_until(lambda: len(fleet.events("downloaded")) >= 4)
    fleet.kill(0, signal.SIGINT)
    wait_until(lambda: closing(fleet))


def test_a_worker_that_closes_says_which_downloads_it_waits_for(fleet: Fleet) -> None:
    interrupt(fleet, latency=2, DOWNLOAD_TIMEOUT=70)
    fleet.wait()
    assert closing(fleet) == [
        "This worker closes when it has finished 4 requests, 4 of them downloads: "
        "downloads take at most 70 s (DOWNLOAD_TIMEOUT). A second Ctrl-C would end it at once; its requests "
        "then go back to the queue after 30 s (FRONTIER_LEASE_TIMEOUT), and are fetched again"
    ]
    assert fleet.reasons() == ["shutdown"]
    assert cut_short(fleet) == []


def test_the_delay_between_downloads_counts(fleet: Fleet) -> None:
    interrupt(fleet, latency=600, DOWNLOAD_TIMEOUT=70, DOWNLOAD_DELAY=1, CONCURRENT_REQUESTS=10)
    (line,) = closing(fleet)
    said = re.search(r"(\d+) of them downloads: downloads take at most (\d+) s \(DOWNLOAD_TIMEOUT, and", line)
    assert said is not None, line
    assert int(said[2]) == 70 + int(said[1])


@pytest.mark.parametrize("event_loop", ["asyncio", "none"])
def test_a_second_ctrl_c_names_its_cost(fleet: Fleet, server: redis.Redis, event_loop: str) -> None:
    interrupt(fleet, latency=600, event_loop=event_loop)
    # What it has not begun is given back.
    wait_until(lambda: [server.hlen(key) for key in server.scan_iter("starts:leases:*")] == [4])
    fleet.kill(0, signal.SIGINT)
    fleet.wait()
    assert cut_short(fleet) == [
        "This worker ended without finishing its requests: they go back to the queue 30 s after its last "
        "exchange (FRONTIER_LEASE_TIMEOUT), and are fetched again (4 requests)"
    ]
    (leases,) = server.scan_iter("starts:leases:*")
    assert server.hlen(leases) == 4


def test_a_crawl_that_finishes_says_nothing_of_it(fleet: Fleet) -> None:
    fleet.start("starts")
    fleet.wait()
    assert fleet.reasons() == ["finished"]
    assert "scrapy_rq_sched.worker.log.farewell" not in fleet.log()
