"""Files, which a pipeline downloads without the scheduler, at a real site: when its requests arrive."""

from __future__ import annotations

import json
import signal
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from ..conftest import PrivateRedis
from ..support.crawl import Fleet, wait_until
from ..support.proxy import Proxy
from .test_backoff import PAGES, REAL, Asked, site
from .test_deny_list import frontier


def start(
    fleet: Fleet, url: str, folder: Path, workers: int = 1, spider: str = "files", **settings: Any
) -> None:
    pipelines = {
        "ITEM_PIPELINES": json.dumps({"scrapy.pipelines.files.FilesPipeline": 1}),
        "FILES_STORE": folder,
    }
    environment = {"SITE_PORT": url.rpartition(":")[2], "REAL_DOWNLOADS": "1"}
    recording = {"DOWNLOAD_HANDLERS": json.dumps({"http": "crawls.web.RecordingHandler"})}
    fleet.start(spider, workers, environment=environment, **REAL, **recording, **pipelines, **settings)


def by_host(asked: list[Asked]) -> dict[str, list[float]]:
    times = defaultdict(list)
    for one in asked:
        times[one.host].append(one.at)
    return times


def least_gap(fleet: Fleet) -> float:
    """Return the least time between two requests of the fleet to a host, from when its workers sent them.

    How long a connection takes on a busy machine until the site accepts it is not the fleet's.
    """
    times = defaultdict(list)
    for sent in fleet.events("sent"):
        times[urlsplit(sent.what).hostname].append(sent.time)
    return min(after - before for sent in times.values() for before, after in pairwise(sorted(sent)))


@pytest.mark.parametrize("robots", [True, False])
def test_requests_for_robots_txt_and_files_keep_the_delay_of_the_fleet(
    fleet: Fleet, robots: bool, tmp_path: Path
) -> None:
    delay = 0.3
    with site("", 0, {}, address="0.0.0.0") as (url, asked):
        start(fleet, url, tmp_path, 4, DOWNLOAD_DELAY=delay, ROBOTSTXT_OBEY=robots)
        fleet.wait()
    paths = [one.path for one in asked]
    assert len(paths) - paths.count("/robots.txt") == 4 * PAGES
    assert bool(paths.count("/robots.txt")) == robots
    assert len(by_host(asked)["127.0.0.2"]) >= 3 * PAGES
    assert least_gap(fleet) >= 0.95 * delay


def test_pages_and_files_of_one_host_keep_its_delay_together(fleet: Fleet, tmp_path: Path) -> None:
    with site("", 0, {}, address="0.0.0.0") as (url, asked):
        start(fleet, url, tmp_path, 3, "filesbeside", DOWNLOAD_DELAY=0.3)
        fleet.wait()
    assert len({one.path for one in asked}) == len(asked) == 4 * PAGES + PAGES // 2
    assert least_gap(fleet) >= 0.95 * 0.3


@pytest.mark.parametrize("of_another_host", [{}, {"FRONTIER_SLOTS": '{"other.test": {"delay": 1}}'}], ids=str)
def test_files_of_a_worker_without_a_delay_keep_that_of_the_others(
    fleet: Fleet, of_another_host: dict[str, Any], tmp_path: Path
) -> None:
    with site("", 0, {}, address="0.0.0.0") as (url, asked):
        start(fleet, url, tmp_path, 1, "filesbeside", DOWNLOAD_DELAY=0.3, ROBOTSTXT_OBEY=True)
        wait_until(lambda: fleet.events("sent"))
        start(
            fleet, url, tmp_path, 1, "filesbeside", DOWNLOAD_DELAY=0, ROBOTSTXT_OBEY=True, **of_another_host
        )
        fleet.wait()
    paths = [one.path for one in asked if one.path != "/robots.txt"]
    assert len(set(paths)) == len(paths) == 4 * PAGES + PAGES // 2
    assert len(asked) > len(paths)
    assert least_gap(fleet) >= 0.95 * 0.3


def test_files_of_a_dead_host_hold_up_no_pages(fleet: Fleet, tmp_path: Path) -> None:
    with site("", 0, {}, address="0.0.0.0") as (url, _):
        start(fleet, url, tmp_path, 2, "deadfiles", DOWNLOAD_DELAY=0.1, CONCURRENT_REQUESTS=4)
        fleet.wait(timeout=90)
    assert len(fleet.urls("parsed")) == PAGES
    assert fleet.stat("item_scraped_count") == PAGES
    log = fleet.log(0) + fleet.log(1)
    assert "is not sent: its site could not be reached before, and is tried again later" in log


def test_a_worker_ends_though_files_of_a_blocked_host_wait(fleet: Fleet, tmp_path: Path) -> None:
    with site("", 0, {}, address="0.0.0.0") as (url, asked):
        start(fleet, url, tmp_path, DOWNLOAD_DELAY=2)
        wait_until(lambda: len(fleet.events("parsed")) >= 4)
        frontier(fleet, "slots", "files", "block", "127.0.0.2", "10m")
        fleet.kill(0, signal.SIGINT)
        blocked = time.monotonic()
        fleet.wait(timeout=60)
    assert fleet.reasons() == ["shutdown"]
    assert max(by_host(asked)["127.0.0.2"]) < blocked + 2
    assert "or an operator has blocked it, for longer than a minute" in fleet.log()


@pytest.mark.single("a proxy before it")
def test_files_are_sent_though_redis_is_farther_away_than_the_delay(
    fleet: Fleet, private_redis: PrivateRedis, tmp_path: Path
) -> None:
    with site("", 0, {}, address="0.0.0.0") as (url, asked), Proxy(private_redis.url, 150) as far:
        start(fleet, url, tmp_path, DOWNLOAD_DELAY=0.1, REDIS_URL=far.url)
        fleet.wait()
    assert len(asked) == 4 * PAGES


def test_a_worker_that_the_frontier_refuses_ends_though_files_wait(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    with site("", 0, {}, address="0.0.0.0") as (url, asked):
        start(fleet, url, tmp_path, DOWNLOAD_DELAY=1)
        wait_until(lambda: fleet.events("parsed"))
        server.hset("files:meta", "format", "7")
        fleet.wait(timeout=60)
    assert fleet.reasons() == ["frontier_error"]
    # A page that was parsed has its files, with the delay that this worker keeps by itself.
    assert sum("file" in one.path for one in asked) == 3 * len(fleet.events("parsed"))
    assert least_gap(fleet) >= 0.95


@pytest.mark.single("a proxy before it")
def test_a_worker_that_is_interrupted_while_redis_is_away_ends_though_files_wait(
    fleet: Fleet, private_redis: PrivateRedis, tmp_path: Path
) -> None:
    with site("", 0, {}, address="0.0.0.0") as (url, asked), Proxy(private_redis.url) as between:
        start(fleet, url, tmp_path, DOWNLOAD_DELAY=1, REDIS_URL=between.url, FRONTIER_LEASE_TIMEOUT=5)
        wait_until(lambda: fleet.events("parsed"))
        between.refuse()
        between.cut()
        fleet.kill(0, signal.SIGINT)
        fleet.wait(timeout=60)
    assert fleet.reasons() == ["shutdown"]
    assert sum("file" in one.path for one in asked) == 3 * len(fleet.events("parsed"))


def test_files_keep_the_delay_of_the_fleet_while_its_workers_are_interrupted(
    fleet: Fleet, tmp_path: Path
) -> None:
    delay = 0.5
    with site("", 0, {}, address="0.0.0.0") as (url, asked):
        start(fleet, url, tmp_path, 3, DOWNLOAD_DELAY=delay)
        wait_until(lambda: len(fleet.events("parsed")) > 4)
        for worker in range(3):
            fleet.kill(worker, signal.SIGINT)
        interrupted = time.monotonic()
        fleet.wait()
    assert sum(one.at > interrupted for one in asked if "file" in one.path) > 5
    assert least_gap(fleet) >= 0.95 * delay
    assert sum("file" in one.path for one in asked) == 3 * len(fleet.events("parsed"))
