"""``scrapy frontier deny`` while workers crawl: within two seconds, none of them asks the host any more."""

from __future__ import annotations

import json
import time

import redis

from ..support.crawl import Fleet, run_python, wait_until
from .test_backoff import REAL, site

HOSTS = {"SPIDER_MODULES": "crawls.hosts", "HOSTS": 4, "GRAPH_PAGES": 3000}
#: Seconds within which all workers obey.
OBEYED = 2.0


def frontier(fleet: Fleet, *arguments: str) -> str:
    modules = ("-s", f"SPIDER_MODULES={REAL['SPIDER_MODULES']}")
    done = run_python("-m", "scrapy", "frontier", *arguments, *modules, redis_url=fleet.redis_url)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_worker_begins_a_request_of_a_denied_host(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("hosts", 3, DOWNLOAD_DELAY=0.02, **HOSTS)
    wait_until(lambda: len(fleet.urls("downloaded")) > 50)
    shown = frontier(fleet, "deny", "hosts", "host1.test")
    assert "No worker will begin a request of host1.test from now on" in shown
    denied = time.time()
    fleet.wait()
    late = [e for e in fleet.events("downloaded") if "//host1.test" in e.what and e.time > denied + OBEYED]
    assert late == []
    others = {url.split("/")[2] for url in fleet.urls("parsed")}
    assert {"host0.test", "host2.test", "host3.test"} <= others
    assert fleet.stat("frontier/denied") > 0
    assert all("Denied by an operator" in fleet.log(number) for number in range(3))
    assert fleet.reasons() == ["finished"] * 3
    assert server.hkeys("hosts:meta:denied") == [b"host1.test"]
    shown = frontier(fleet, "denied", "hosts", "--json")
    assert [json.loads(line)["text"] for line in shown.splitlines()] == ["host1.test"]


def test_the_next_crawl_does_not_ask_the_host_either(fleet: Fleet) -> None:
    frontier(fleet, "deny", "hosts", "host1.test")
    settings = {**HOSTS, "GRAPH_PAGES": 100}
    fleet.start("hosts", 2, **settings)
    fleet.wait()
    assert not any("//host1.test" in url for url in fleet.urls("downloaded"))
    frontier(fleet, "allow", "hosts", "host1.test")
    fleet.start("hosts", 2, **settings)
    fleet.wait()
    assert any("//host1.test" in url for url in fleet.urls("downloaded"))


def test_requests_in_the_downloader_and_for_robots_txt_are_not_sent(fleet: Fleet) -> None:
    with site("", 0, {}) as (url, asked):
        environment = {"SITE_URL": url, "REAL_DOWNLOADS": "1"}
        own_delays = {"FRONTIER_FLEET_LIMITS": "", "DOWNLOAD_DELAY": 3, "ROBOTSTXT_OBEY": True}
        fleet.start("manypages", 1, environment=environment, **REAL, **own_delays)
        wait_until(lambda: asked)
        frontier(fleet, "deny", "manypages", "127.0.0.1")
        denied = time.monotonic()
        fleet.wait()
    assert [one.path for one in asked if one.at > denied + OBEYED] == []
    assert time.monotonic() - denied < 20
