"""The limits of slots, kept by a fleet: real processes, and when each host was asked."""

from __future__ import annotations

import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from typing import Any

import pytest
import redis

from ..project.crawls.hosts import MovedSpider, host_url
from ..support.crawl import Fleet, wait_until
from ..support.site import listening

#: Seconds between two requests to a host, and which part of it a gap has to have: a process may be held up
#: between the time of a request and its record.
DELAY, PART = 0.4, 0.75
HOSTS, PAGES = 4, 60
WARNING = "The limits of slots in this worker's settings"
POLITE: dict[str, Any] = {
    "SPIDER_MODULES": "crawls.hosts",
    "HOSTS": HOSTS,
    "GRAPH_PAGES": PAGES,
    "DOWNLOAD_DELAY": DELAY,
    "RANDOMIZE_DOWNLOAD_DELAY": False,
}


def gaps(fleet: Fleet, since: float = 0.0) -> list[float]:
    """Return the seconds between any two requests to a host that follow one another, from *since* on."""
    asked = defaultdict(list)
    for event in fleet.events("downloaded"):
        if event.time >= since:
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_worker_that_joins_asks_no_host_sooner(fleet: Fleet) -> None:
    fleet.start("hosts", 1, **POLITE)
    for count in (10, 20, 30):
        wait_until(lambda count=count: is_under_way(fleet, count))
        fleet.start("hosts", 1, **POLITE)
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(), 1)
    assert min(gaps(fleet)) >= PART * DELAY


@pytest.mark.long
def test_requests_queued_without_slots_are_crawled_with_the_limits_of_slots(fleet: Fleet) -> None:
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


@pytest.mark.long
def test_requests_crawled_from_memory_keep_the_delay_as_well(fleet: Fleet) -> None:
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


@pytest.mark.parametrize(
    ("pattern", "limits"),
    [
        ("host1.test", {}),
        ("*1.test", {"FRONTIER_FLEET_LIMITS": "delay,concurrency"}),
        ("*1.test", {"DOWNLOAD_DELAY": 0.02}),
    ],
)
def test_a_rule_for_one_slot_is_kept_by_a_fleet_that_was_started_again(
    fleet: Fleet, pattern: str, limits: dict[str, Any]
) -> None:
    latency, count = 0.3, 30
    settings = {
        **POLITE,
        "DOWNLOAD_DELAY": 0,
        "HOSTS": 2,
        "GRAPH_LATENCY": latency,
        "GRAPH_PAGES": count,
        **limits,
    }
    settings["FRONTIER_SLOTS"] = f'{{"{pattern}": {{"concurrency": 1}}}}'
    fleet.start("hosts", 2, **settings)
    wait_until(lambda: is_under_way(fleet, 18))
    for worker in (0, 1):
        fleet.kill(worker, signal.SIGINT)
    fleet.wait()
    fleet.start("hosts", 2, **settings)
    fleet.wait()
    asked = sorted(event.time for event in fleet.events("downloaded") if "//host1.test/" in event.what)
    assert len(asked) >= count // 2
    assert min(after - before for before, after in pairwise(asked)) >= PART * latency


@pytest.mark.long
def test_a_worker_with_another_delay_than_the_others_warns_once(fleet: Fleet) -> None:
    fleet.start("hosts", 1, **POLITE)
    wait_until(lambda: is_under_way(fleet, 4))
    fleet.start("hosts", 1, **POLITE | {"DOWNLOAD_DELAY": 0.2})
    fleet.wait()
    of_last = "(by default delay 0.2 s, jitter 0 here, delay 0.4 s, jitter 0 there)"
    assert fleet.log(1).count(of_last) == fleet.log(1).count(WARNING) == 1
    of_first = (
        "a worker that joined later (by default delay 0.4 s, jitter 0 here, delay 0.2 s, jitter 0 there)"
    )
    assert fleet.log(0).count(of_first) == fleet.log(0).count(WARNING) == 1


@pytest.mark.parametrize("is_first", [True, False])
def test_a_worker_without_a_delay_keeps_that_of_the_others_and_one_warns(
    fleet: Fleet, is_first: bool
) -> None:
    # As in Scrapy's default settings: a jitter of no delay.
    without = {"DOWNLOAD_DELAY": 0, "RANDOMIZE_DOWNLOAD_DELAY": True}
    settings = POLITE | {"GRAPH_PAGES": 120, "GRAPH_LATENCY": 0.5, "CONCURRENT_REQUESTS": 4}
    fleet.start("hosts", 1, **settings | (without if is_first else {}))
    wait_until(lambda: is_under_way(fleet, 4))
    fleet.start("hosts", 1, **settings | ({} if is_first else without))
    wait_until(lambda: WARNING in fleet.log(1))
    # The downloader of the first worker has up to ten requests of a slot that were given to it before.
    since = time.time() + 2
    fleet.wait()
    assert len(gaps(fleet, since)) > 10
    assert min(gaps(fleet, since)) >= PART * DELAY
    assert "no delay" in fleet.log(1)


# -- redirects ---------------------------------------------------------------------------------------


def test_the_target_of_a_redirect_counts_for_its_own_host(fleet: Fleet) -> None:
    fleet.start("moved", 2, **POLITE)
    fleet.wait()
    moved = [f"http://{host}.test/{page}" for host in ("www", "other") for page in range(MovedSpider.PAGES)]
    own = [f"http://{host}.test/own" for host in ("www", "other")]
    assert fleet.urls("slot") == {
        **{f"{url} {url.split('/')[2]}": 1 for url in moved},
        **{f"{url} proxy-1": 1 for url in own},
    }
    asked = defaultdict(list)
    for event in fleet.events("downloaded"):
        if event.what in moved:
            asked[event.what.split("/")[2]].append(event.time)
    gaps_of_moved = [after - before for times in asked.values() for before, after in pairwise(sorted(times))]
    assert len(gaps_of_moved) == len(moved) - 2
    assert min(gaps_of_moved) >= PART * DELAY


# -- robots.txt --------------------------------------------------------------------------------------


@contextmanager
def forbidding_site(fleet: Fleet, asked: Counter[str]) -> Iterator[str]:
    """Yield the URL of a site that forbids its odd pages, once the worker has begun several requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[self.path] += 1
            body = b""
            if self.path == "/robots.txt":
                wait_until(lambda: len(fleet.urls("begun")) > 8)
                forbidden = "".join(f"Disallow: /{number}$\n" for number in range(1, 16, 2))
                body = f"User-agent: *\n{forbidden}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with listening(Handler) as url:
        yield url


@pytest.mark.parametrize("event_loop", ["asyncio", "select"])
def test_no_page_that_robots_txt_forbids_is_fetched(fleet: Fleet, event_loop: str) -> None:
    asked: Counter[str] = Counter()
    with forbidding_site(fleet, asked) as url:
        fleet.start(
            "manypages",
            1,
            environment={"SITE_URL": url, "REAL_DOWNLOADS": "1", "EVENT_LOOP": event_loop},
            SPIDER_MODULES="crawls.hosts",
            ROBOTSTXT_OBEY=True,
        )
        fleet.wait()
    allowed = Counter(f"/{number}" for number in range(0, 16, 2))
    assert asked == allowed + Counter(["/robots.txt"])
    assert fleet.stat("robotstxt/forbidden") == 8
