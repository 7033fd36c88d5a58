"""A fleet at a real site that asks to slow down, or that cannot be reached: when its requests arrive."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from scrapy import signals

from ..support.crawl import Fleet
from ..support.site import listening

#: How many pages the spider asks for.
PAGES = 16
REAL: dict[str, Any] = {"SPIDER_MODULES": "crawls.hosts", "RANDOMIZE_DOWNLOAD_DELAY": False}


class Asked(NamedTuple):
    """A request, as the site sees it."""

    at: float
    path: str
    status: int
    host: str


@contextmanager
def site(
    refused: str, times: int, headers: dict[str, str], robots: bytes = b"", address: str = "127.0.0.1"
) -> Iterator[tuple[str, list[Asked]]]:
    """Yield the URL of a site, and its requests; it answers 429 to the first *times* for *refused*.

    :param robots: its robots.txt.
    :param address: where it listens.
    """
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/robots.txt":
                asked.append(Asked(time.monotonic(), self.path, 200, self.host))
                self.send_response(200)
                self.send_header("Content-Length", str(len(robots)))
                self.end_headers()
                self.wfile.write(robots)
                return
            is_refused = self.path == refused and sum(one.path == refused for one in asked) < times
            status = 429 if is_refused else 200
            asked.append(Asked(time.monotonic(), self.path, status, self.host))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            for name, value in headers.items() if is_refused else ():
                self.send_header(name, value)
            self.end_headers()

        @property
        def host(self) -> str:
            return self.headers["Host"].partition(":")[0]

        def log_message(self, *arguments: object) -> None:
            pass

    with listening(Handler, address) as url:
        yield url, asked


def crawl(fleet: Fleet, url: str, workers: int = 2, **settings: Any) -> None:
    environment = {"SITE_URL": url, "REAL_DOWNLOADS": "1"}
    fleet.start("manypages", workers, environment=environment, **REAL, **settings)
    fleet.wait()


def after_the_refusal(asked: list[Asked]) -> list[float]:
    """Return how many seconds after the 429 each later request came."""
    refused = next(one for one in asked if one.status == 429)
    return [one.at - refused.at for one in asked if one.at > refused.at]


def test_no_worker_asks_a_site_before_the_end_of_its_retry_after(fleet: Fleet) -> None:
    with site("/5", 1, {"Retry-After": "2"}) as (url, asked):
        crawl(fleet, url, DOWNLOAD_DELAY=0.1)
    # On a busy machine, the other worker may have sent a request before it heard of it.
    assert not [later for later in after_the_refusal(asked) if 0.5 < later < 1.9]
    assert {one.path for one in asked} == {f"/{number}" for number in range(PAGES)}
    assert len(asked) == PAGES + 1
    logs = fleet.log(0) + fleet.log(1)
    assert logs.count("127.0.0.1 has answered 429, and asks to wait for 2 s: no worker begins") == 1
    assert logs.count("127.0.0.1 is no longer blocked") == 1


def test_a_site_that_answers_429_is_asked_more_slowly(fleet: Fleet) -> None:
    with site("/5", 1, {}) as (url, asked):
        crawl(fleet, url, DOWNLOAD_DELAY=0.1, BACKOFF_MIN_DELAY=0.5)
    later = after_the_refusal(asked)
    assert len(asked) == PAGES + 1
    assert sum(one < 0.4 for one in later) <= 1
    line = "127.0.0.1 has answered 429: all workers together send it one request every 0.5 s from now on"
    assert line in fleet.log(0) + fleet.log(1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_fleet_without_a_delay_waits_as_well(fleet: Fleet, workers: int) -> None:
    with site("/1", 1, {"Retry-After": "1"}) as (url, asked):
        crawl(fleet, url, workers, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    assert len(asked) == PAGES + 1
    # Each worker may have had a request under way, and on a busy machine two more before it heard of it.
    assert sum(later < 0.9 for later in after_the_refusal(asked)) <= 3 * workers < PAGES / 2


def test_without_back_off_in_the_setting_a_site_is_asked_again_at_once(fleet: Fleet) -> None:
    with site("/5", 1, {"Retry-After": "60"}) as (url, asked):
        crawl(fleet, url, DOWNLOAD_DELAY=0.1, FRONTIER_FLEET_LIMITS="delay")
    assert min(after_the_refusal(asked)) < 5
    assert "asks to wait" not in fleet.log(0) + fleet.log(1)


@contextmanager
def broken_site(breaks: int) -> Iterator[tuple[str, list[float]]]:
    """Yield the URL of a site that breaks off its first connections, and the times of all of them."""
    times: list[float] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            times.append(time.monotonic())
            number = len(times)
            self.rfile.readline()
            if number > breaks:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.2", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.2:{server.server_address[1]}", times
        finally:
            server.shutdown()


def crawl_with_dead_host(fleet: Fleet, url: str, dead: str, **settings: Any) -> None:
    environment = {"SITE_URL": url, "DEAD_URL": dead, "REAL_DOWNLOADS": "1"}
    pauses = {"BACKOFF_MIN_DELAY": 0.2, "BACKOFF_MAX_DELAY": 0.8}
    fleet.start("onedeadhost", 2, environment=environment, **REAL, **pauses, **settings)
    fleet.wait()


def test_a_site_that_cannot_be_reached_is_tried_after_growing_pauses(fleet: Fleet) -> None:
    with site("", 0, {}) as (url, asked), broken_site(breaks=100) as (dead, times):
        crawl_with_dead_host(fleet, url, dead)
    assert len(times) == 6 * 3  # each page has two retries
    # Each worker may have had failures before it had three in a row, and all pages under way then.
    pauses = [after - before for before, after in pairwise(times[12:])]
    assert min(pauses) > 0.15
    assert min(pauses[2:]) > 0.6
    assert {one.path for one in asked} == {f"/{number}" for number in range(PAGES)}
    logs = fleet.log(0) + fleet.log(1)
    assert logs.count("127.0.0.2 cannot be reached (") == 1


def test_a_site_that_is_back_is_crawled_as_before(fleet: Fleet) -> None:
    with site("", 0, {}) as (url, _), broken_site(breaks=14) as (dead, times):
        crawl_with_dead_host(fleet, url, dead, RETRY_TIMES=9)
    parsed = [event.what for event in fleet.events("parsed")]
    assert sum(page.startswith(dead) for page in parsed) == 6
    assert len(times) == 14 + 6
    assert (fleet.log(0) + fleet.log(1)).count("127.0.0.2 can be reached again") == 1


def test_a_site_that_is_given_up_does_not_keep_the_crawl_open(fleet: Fleet) -> None:
    with site("", 0, {}) as (url, asked), broken_site(breaks=100) as (dead, times):
        crawl_with_dead_host(fleet, url, dead, FRONTIER_SLOT_GIVE_UP=1)
    assert len(times) < 6 * 3
    assert len(asked) == PAGES
    logs = fleet.log(0) + fleet.log(1)
    assert logs.count("127.0.0.2 could not be reached for 1 s (FRONTIER_SLOT_GIVE_UP)") == 1


@pytest.mark.skipif(not hasattr(signals, "robots_parsed"), reason="Scrapy 2.18 tells of robots.txt")
def test_the_fleet_keeps_the_crawl_delay_of_a_robots_txt(fleet: Fleet) -> None:
    robots = b"User-agent: other\nCrawl-delay: 90\nUser-agent: *\nCrawl-delay: 0.3\n"
    with site("", 0, {}, robots) as (url, asked):
        crawl(fleet, url, 3, ROBOTSTXT_OBEY=True, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    pages = [one.at for one in asked if one.path != "/robots.txt"]
    assert len(pages) == PAGES
    # Each worker may have had a page under way when it read the robots.txt, and one before it heard of it.
    # A busy machine accepts a connection up to 0.1 s late.
    assert sum(after - before < 0.2 for before, after in pairwise(pages)) <= 5
    assert pages[-1] - pages[0] > 0.28 * (PAGES - 6)


def test_without_robots_in_the_setting_the_crawl_delay_does_not_count(fleet: Fleet) -> None:
    with site("", 0, {}, b"User-agent: *\nCrawl-delay: 30\n") as (url, asked):
        crawl(fleet, url, 1, ROBOTSTXT_OBEY=True, FRONTIER_FLEET_LIMITS="delay,backoff")
    assert len(asked) == PAGES + 1
    assert asked[-1].at - asked[0].at < 20


def test_autothrottle_has_as_many_requests_under_way_as_the_target_for_the_whole_fleet(fleet: Fleet) -> None:
    latency, under_way, most = 0.5, [0], [0]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
            time.sleep(latency)
            under_way[0] -= 1
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    throttle = {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.5}
    began = time.monotonic()
    with listening(Handler) as url:
        crawl(fleet, url, 3, AUTOTHROTTLE_TARGET_CONCURRENCY=2, **throttle)
    # With a delay of its own, each worker would have two under way.
    assert most[0] <= 3
    assert time.monotonic() - began > PAGES * latency / 2
    line = "all workers together keep one delay for each slot, and adjust it so that 2 of its requests"
    assert line in fleet.log(0)
