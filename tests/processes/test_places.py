"""``FRONTIER_MAX_WORKERS`` with real workers: never more than that, and the line moves."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest
import redis
from scrapy import version_info
from scrapy.settings import Settings

from scrapy_rq_sched.inspect import View, read_status

from ..support.crawl import Fleet, run_python, wait_until

pytestmark = pytest.mark.single("names of keys")

#: Long enough for a test to look at the fleet.
SLOW = {"GRAPH_LATENCY": 0.05, "CONCURRENT_REQUESTS": 1, "GRAPH_PAGES": 100_000}


def places(server: redis.Redis) -> int:
    return int(server.zcard("graph:places"))


def in_line(server: redis.Redis) -> int:
    return int(server.zcard("graph:places:line"))


def one_at_work_and_one_in_line(fleet: Fleet, server: redis.Redis, **limits: object) -> None:
    for _ in range(2):
        fleet.start("graph", **{"FRONTIER_MAX_WORKERS": 1, **SLOW, **limits})
        wait_until(lambda: fleet.urls("downloaded", 0))
    wait_until(lambda: in_line(server) == 1)


def test_of_five_workers_two_crawl_at_a_time_and_all_finish(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", 5, FRONTIER_MAX_WORKERS=2, GRAPH_PAGES=300, GRAPH_LATENCY=0.05)
    most = 0
    while any(worker.poll() is None for worker in fleet.workers):
        most = max(most, server.zcard("graph:workers"))
        time.sleep(0.002)
    assert most == 2
    assert fleet.reasons() == ["finished"] * 5
    assert len(fleet.urls("parsed")) == 300
    assert set(fleet.urls("parsed").values()) == {1}
    logs = "\n".join(map(fleet.log, range(5)))
    assert logs.count("This worker waits for a place in the fleet of spider 'graph'") == 3
    for place in (1, 2, 3):
        assert f"number {place} in line" in logs
    assert "Traceback" not in logs
    assert places(server) == in_line(server) == 0


def test_the_place_of_one_that_stops_is_taken_within_a_second(fleet: Fleet, server: redis.Redis) -> None:
    one_at_work_and_one_in_line(fleet, server)
    fleet.kill(0, signal.SIGINT)
    wait_until(lambda: places(server) == 0 or in_line(server) == 0)
    left = time.monotonic()
    wait_until(lambda: in_line(server) == 0 and places(server) == 1)
    assert time.monotonic() - left < 1
    wait_until(lambda: fleet.urls("downloaded", 1))
    assert "This worker has a place after" in fleet.log(1)


def test_the_place_of_one_that_is_killed_is_taken_when_its_lease_is_over(
    fleet: Fleet, server: redis.Redis
) -> None:
    one_at_work_and_one_in_line(fleet, server, FRONTIER_LEASE_TIMEOUT=2)
    fleet.kill(0)
    killed = time.monotonic()
    wait_until(lambda: fleet.urls("downloaded", 1))
    assert time.monotonic() - killed < 2 + 2


def test_a_worker_that_is_not_to_wait_closes_at_once_and_nothing_went_wrong(fleet: Fleet) -> None:
    fleet.start("graph", FRONTIER_MAX_WORKERS=1, **SLOW)
    wait_until(lambda: fleet.urls("downloaded", 0))
    fleet.start("graph", FRONTIER_MAX_WORKERS=1, FRONTIER_MAX_WORKERS_POLICY="exit", **SLOW)
    fleet.wait(30, workers=[1])
    assert fleet.workers[1].returncode == 0
    assert fleet.reasons() == ["max_workers"]
    (line,) = [line for line in fleet.log(1).splitlines() if "This worker closes: " in line]
    assert "1 worker is running, and FRONTIER_MAX_WORKERS allows no more" in line
    assert "ERROR" not in fleet.log(1)


@pytest.mark.parametrize(
    "loop",
    [
        "asyncio",
        pytest.param(
            "none", marks=pytest.mark.skipif(version_info < (2, 15), reason="this Scrapy needs a reactor")
        ),
    ],
)
def test_ctrl_c_ends_the_wait(fleet: Fleet, server: redis.Redis, loop: str) -> None:
    fleet.start("graph", FRONTIER_MAX_WORKERS=1, **SLOW)
    wait_until(lambda: fleet.urls("downloaded", 0))
    fleet.start("graph", environment={"EVENT_LOOP": loop}, FRONTIER_MAX_WORKERS=1, **SLOW)
    wait_until(lambda: in_line(server) == 1)
    fleet.kill(1, signal.SIGINT)
    fleet.wait(10, workers=[1])
    assert "Traceback" not in fleet.log(1)
    assert fleet.urls("downloaded", 1) == {}
    assert in_line(server) == 0
    assert places(server) == 1


def test_workers_in_line_close_when_the_fleet_is_stopped(
    fleet: Fleet, redis_url: str, server: redis.Redis
) -> None:
    one_at_work_and_one_in_line(fleet, server)
    run_python("-m", "scrapy", "frontier", "stop", "graph", redis_url=redis_url)
    fleet.wait(30)
    assert fleet.reasons() == ["stopped", "stopped"]
    assert fleet.urls("downloaded", 1) == {}
    assert [worker.returncode for worker in fleet.workers] == [0, 0]
    assert "This worker closes: The fleet of spider 'graph' was told to stop" in fleet.log(1)


def test_workers_in_line_do_not_crawl_a_finished_crawl_again(fleet: Fleet, server: redis.Redis) -> None:
    limits = {"FRONTIER_MAX_WORKERS": 1, "GRAPH_PAGES": 200, "SCHEDULER_FLUSH_ON_START": 1}
    fleet.start("graph", GRAPH_LATENCY=0.05, **limits)
    wait_until(lambda: fleet.urls("downloaded", 0))
    fleet.start("graph", 2, GRAPH_LATENCY=0.05, **limits)
    fleet.wait(60)
    assert fleet.reasons() == ["finished"] * 3
    assert len(fleet.urls("parsed")) == 200
    assert set(fleet.urls("parsed").values()) == {1}


def test_a_wait_outlives_an_outage(fleet: Fleet, server: redis.Redis) -> None:
    one_at_work_and_one_in_line(fleet, server, FRONTIER_JOIN_TIMEOUT=1)
    # The time in which it would have had to join is over when Redis is away.
    time.sleep(1.5)
    server.client_kill_filter(_type="normal", skipme=True)
    fleet.kill(0, signal.SIGINT)
    wait_until(lambda: fleet.urls("downloaded", 1))


def test_status_and_workers_show_the_line(fleet: Fleet, redis_url: str, server: redis.Redis) -> None:
    one_at_work_and_one_in_line(fleet, server)
    status = read_status(View.from_settings(Settings({"REDIS_URL": redis_url}), "graph"))
    assert (status.max_workers, status.places_taken, status.alive) == (1, 1, 1)
    (waiting,) = status.in_line
    assert (waiting.place, waiting.pid) == (1, fleet.workers[1].pid)

    def said(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_python("-m", "scrapy", "frontier", *arguments, "graph", redis_url=redis_url)

    assert "1 of 1 taken; 1 in line" in said("status").stdout
    assert "1 in line" in said("workers").stdout
    lines = [json.loads(line) for line in said("workers", "--json").stdout.splitlines()]
    assert [line["place"] for line in lines] == [0, 1]
    assert len(json.loads(said("status", "--json").stdout)["in_line"]) == 1
