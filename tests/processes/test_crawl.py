"""Whole crawls: real processes, a real Redis."""

from __future__ import annotations

import inspect
import json
import signal
import time
from pathlib import Path

import pytest
import redis
from scrapy.core.downloader import Downloader

from scrapy_rq_sched.embedded import PrivateRedis

from ..project.crawls.graph import page_url
from ..support.crawl import Fleet, wait_until
from ..support.proxy import Proxy


def pages(count: int) -> set[str]:
    return {page_url(number) for number in range(count)}


def test_one_worker_crawls_every_page_once_and_finishes(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", GRAPH_PAGES=500)
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(500), 1)
    assert fleet.reasons() == ["finished"]


@pytest.mark.parametrize(
    ("queue", "serializer"),
    [
        ("PriorityQueue", "json"),
        ("FifoQueue", "json+deflate"),
        ("LifoQueue", "msgpack"),
        ("PriorityQueue", "pickle"),
    ],
)
def test_two_workers_crawl_every_page_once_with_each_queue_and_serializer(
    fleet: Fleet, queue: str, serializer: str
) -> None:
    settings = {"SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.{queue}", "SCHEDULER_SERIALIZER": serializer}
    fleet.start("graph", 2, GRAPH_PAGES=200, GRAPH_LATENCY=0.01, **settings)
    fleet.wait()
    assert fleet.urls("downloaded") == dict.fromkeys(pages(200), 1)
    assert fleet.reasons() == ["finished", "finished"]


def test_two_workers_crawl_every_page_once_with_a_queue_of_the_users_own(fleet: Fleet) -> None:
    queue = "crawls.spiders.PlainQueue"
    fleet.start("graph", 2, GRAPH_PAGES=200, GRAPH_LATENCY=0.01, SCHEDULER_QUEUE_CLASS=queue)
    fleet.wait()
    assert fleet.urls("downloaded") == dict.fromkeys(pages(200), 1)
    assert fleet.reasons() == ["finished", "finished"]


def first_to_parse(fleet: Fleet, count: int, workers: int) -> int:
    """Return the worker that is the first to have parsed more than *count* pages: any may come late."""

    def parsed(worker: int) -> int:
        return len(fleet.events("parsed", worker))

    wait_until(lambda: max(map(parsed, range(workers))) > count)
    return max(range(workers), key=parsed)


def test_the_leases_of_a_killed_worker_are_crawled_by_the_others(fleet: Fleet) -> None:
    fleet.start("graph", 3, forked=False, GRAPH_PAGES=1000, GRAPH_LATENCY=0.1, FRONTIER_LEASE_TIMEOUT=2)
    fleet.kill(first_to_parse(fleet, 200, workers=3))
    fleet.wait()
    assert set(fleet.urls("parsed")) == pages(1000)
    repeats = sum(fleet.urls("downloaded").values()) - 1000
    assert repeats <= 52  # begun and not released: three and a quarter for each of its concurrent requests
    closed = fleet.events("closed")
    assert [event.what for event in closed] == ["finished", "finished"]
    assert closed[1].time - closed[0].time < 5
    assert closed[0].time >= max(event.time for event in fleet.events("parsed"))


def test_ctrl_c_on_one_of_two_workers_leaves_the_other_everything(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", 2, forked=False, GRAPH_PAGES=500, GRAPH_LATENCY=0.1)
    stopped = first_to_parse(fleet, 100, workers=2)
    fleet.kill(stopped, signal.SIGINT)
    fleet.wait(workers=[stopped])
    assert server.zcard("graph:slots") > 0
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(500), 1)
    assert fleet.reasons() == ["shutdown", "finished"]


@pytest.mark.skipif(
    "0 < self.total_concurrency" not in inspect.getsource(Downloader.needs_backout),
    reason="older Scrapys download nothing with a limit of 0",
)
def test_without_a_limit_of_concurrent_requests_all_that_wait_are_begun_at_once(fleet: Fleet) -> None:
    fleet.start("starts", GRAPH_LATENCY=2, CONCURRENT_REQUESTS=0)
    fleet.wait()
    ended = [event.time for event in fleet.events("downloaded")]
    assert len(ended) == 40
    assert max(ended) - min(ended) < 2


def depth(url: str) -> int:
    """Return how many links lead from the first page of the graph to this one, by its own tree."""
    number, links = int(url.rpartition("/")[2]), 0
    while number:
        number, links = (number - 1) // 10, links + 1
    return links


def test_a_crawl_is_breadth_first(fleet: Fleet) -> None:
    fleet.start("graph", GRAPH_PAGES=200, CONCURRENT_REQUESTS=1)
    fleet.wait()
    begun = [depth(event.what) for event in fleet.events("downloaded")]
    assert begun == sorted(begun)


@pytest.mark.parametrize(
    "setting",
    [{"DEPTH_PRIORITY": -1}, {"SCHEDULER_QUEUE_CLASS": "scrapy_rq_sched.LifoQueue"}],
    ids=["DEPTH_PRIORITY", "LifoQueue"],
)
@pytest.mark.long
def test_a_crawl_is_depth_first_if_that_is_set(fleet: Fleet, setting: dict[str, object]) -> None:
    fleet.start("graph", GRAPH_PAGES=400, CONCURRENT_REQUESTS=1, FRONTIER_PREFETCH=1, **setting)
    fleet.wait()
    begun = [depth(event.what) for event in fleet.events("downloaded")]
    assert len(begun) == 400
    # The bottom is reached on the straight way down, not after the levels before.
    assert begun.index(3) < 8


def test_start_requests_are_crawled_once_by_the_fleet(fleet: Fleet) -> None:
    fleet.start("starts", 3)
    fleet.wait()
    assert len(fleet.urls("downloaded")) == 40
    assert set(fleet.urls("downloaded").values()) == {1}
    assert fleet.reasons() == ["finished"] * 3


def test_a_retried_start_request_is_not_taken_for_a_duplicate(fleet: Fleet) -> None:
    fleet.start("retry")
    fleet.wait()
    assert fleet.urls("downloaded") == {page_url(0): 3}
    assert fleet.urls("parsed") == {page_url(0): 1}


def test_requests_that_cannot_be_serialized_are_crawled_and_named(fleet: Fleet) -> None:
    fleet.start("memory")
    fleet.wait()
    assert fleet.urls("parsed") == {page_url(1): 1, f"{page_url(2)} [1, 2]": 1}
    assert "callback <function" in fleet.log()
    assert "meta['kept'] is a set" in fleet.log()
    assert fleet.stat("scheduler/unserializable") == 2


def test_no_worker_ends_while_another_reads_its_start_requests(fleet: Fleet) -> None:
    fleet.start("slowstart", 1, "-a", "pause=3")
    wait_until(lambda: fleet.events("parsed"))
    fleet.start("slowstart", 1, "-a", "pause=0")
    fleet.wait()
    assert fleet.urls("downloaded") == {page_url(900_001): 1, page_url(900_002): 1}
    first, last = fleet.events("closed")
    assert (first.what, last.what) == ("finished", "finished")
    # Without the second worker waiting for the first, they would end 2 s apart or more.
    assert last.time - first.time < 2


def test_a_page_that_kills_its_workers_is_set_aside_and_the_rest_is_crawled(
    fleet: Fleet, server: redis.Redis
) -> None:
    settings = {"FRONTIER_LEASE_TIMEOUT": 1, "FRONTIER_MAX_DELIVERIES": 3, "CONCURRENT_REQUESTS": 4}
    while not fleet.reasons():
        assert len(fleet.workers) < 6
        fleet.start("kill", **settings)
        fleet.wait()
    assert set(fleet.urls("parsed")) == pages(20) - {page_url(7)}
    (entry,) = server.lrange("kill:failed", 0, -1)
    assert page_url(7).replace("/", "\\/").encode() in entry
    assert entry.count(b"died:") == 3


@pytest.mark.single("a proxy before it")
def test_no_redis_call_is_made_on_the_event_loop(fleet: Fleet, private_redis: PrivateRedis) -> None:
    with Proxy(private_redis.url, 10) as far:
        fleet.start("loopthread", GRAPH_PAGES=300, REDIS_URL=far.url)
        fleet.wait()
    assert set(fleet.urls("parsed")) == pages(300)
    calls = fleet.urls("redis")
    assert calls["loop"] == 0
    assert calls["thread"] > 10


def test_a_thousand_seeds_pushed_to_an_idle_spider(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("seeds", 2)
    wait_until(lambda: len(fleet.events("opened")) == 2)
    seeds = [page_url(number) for number in range(1000)]
    seeds[500] = "not a URL"
    server.lpush("seeds:start_urls", *seeds)
    wait_until(lambda: len(fleet.events("parsed")) >= 999)
    wait_until(lambda: server.llen("seeds:failed"))
    assert fleet.urls("parsed") == dict.fromkeys(pages(1000) - {page_url(500)}, 1)
    assert [worker.poll() for worker in fleet.workers] == [None, None]
    (entry,) = server.lrange("seeds:failed", 0, -1)
    assert b"not a URL" in entry


def test_a_seed_may_name_a_callback_and_its_arguments(fleet: Fleet, server: redis.Redis) -> None:
    seed = {"url": page_url(1), "callback": "other", "cb_kwargs": {"colour": "red"}}
    server.lpush("seeds:start_urls", json.dumps(seed))
    fleet.start("seeds", MAX_IDLE_TIME_BEFORE_CLOSE=1)
    fleet.wait()
    assert fleet.urls("other") == {f"{page_url(1)} {{'colour': 'red'}}": 1}
    assert fleet.reasons() == ["finished"]


def test_any_spider_takes_seeds(fleet: Fleet, server: redis.Redis) -> None:
    server.lpush("starts:start_urls", page_url(5))
    fleet.start("starts")
    fleet.wait()
    assert fleet.urls("parsed")[page_url(5)] == 1


def test_a_stopped_crawl_is_resumed_where_it_stood(fleet: Fleet) -> None:
    fleet.start("graph", GRAPH_PAGES=500, GRAPH_LATENCY=0.02)
    wait_until(lambda: len(fleet.events("parsed")) > 100)
    fleet.kill(0, signal.SIGINT)
    fleet.wait()
    assert len(fleet.events("parsed")) < 500
    fleet.start("graph", GRAPH_PAGES=500)
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(500), 1)


def test_the_next_crawl_begins_anew(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.start("starts")
        fleet.wait()
    assert set(fleet.urls("downloaded").values()) == {2}


def test_a_redis_that_goes_away_and_comes_back_loses_nothing(fleet: Fleet, tmp_path: Path) -> None:
    options = ["--appendonly", "yes", "--appendfsync", "always"]
    with PrivateRedis(tmp_path, options) as server:
        fleet.start("graph", 2, GRAPH_PAGES=600, GRAPH_LATENCY=0.1, REDIS_URL=server.url)
        wait_until(lambda: len(fleet.events("parsed")) > 200)
        server.stop()
        wait_until(lambda: all("cannot be reached" in fleet.log(number) for number in (0, 1)))
        server.start()
        fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(600), 1)
    assert "Redis answers again" in fleet.log(0)
    assert fleet.reasons() == ["finished", "finished"]


@pytest.mark.long
def test_a_redis_spider_is_not_idle_while_another_worker_is_busy(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    server.lpush("seeds:start_urls", page_url(1))
    fleet.start("seeds", 2, GRAPH_GATE=gate, MAX_IDLE_TIME_BEFORE_CLOSE=3)
    wait_until(lambda: len(fleet.events("opened")) == 2 and fleet.events("downloaded"))
    longer_than_idle = time.monotonic() + 4
    wait_until(lambda: time.monotonic() > longer_than_idle)
    gate.touch()
    fleet.wait()
    (parsed,) = fleet.events("parsed")
    assert [closed.what for closed in fleet.events("closed")] == ["finished", "finished"]
    assert min(closed.time for closed in fleet.events("closed")) - parsed.time > 2.9


def test_a_start_request_that_is_made_twice_on_purpose_is_crawled_twice(fleet: Fleet) -> None:
    fleet.start("twice", 2)
    fleet.wait()
    assert len(fleet.urls("downloaded")) == 40
    assert set(fleet.urls("downloaded").values()) == {2}


def test_start_requests_that_were_only_in_memory_are_crawled_after_a_restart(fleet: Fleet) -> None:
    fleet.start("memorystart", GRAPH_LATENCY=0.2, CONCURRENT_REQUESTS=2)
    wait_until(lambda: len(fleet.events("parsed")) > 3)
    fleet.kill(0, signal.SIGINT)
    fleet.wait()
    assert "were not crawled by this worker" in fleet.log()
    fleet.start("memorystart")
    fleet.wait()
    assert len(fleet.urls("parsed")) == 40


def test_a_start_that_raises_does_not_keep_the_next_crawl_from_starting(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.start("brokenstart")
        fleet.wait()
    assert fleet.urls("parsed") == {page_url(1_000_001): 2}


def test_a_long_start_does_not_keep_the_worker_from_its_heartbeat(fleet: Fleet) -> None:
    fleet.start("bigstart", FRONTIER_LEASE_TIMEOUT=0.5, FRONTIER_OUTBOX_SIZE=2000)
    wait_until(lambda: fleet.events("opened"))
    fleet.start("starts", SCHEDULER_QUEUE_KEY="bigstart:requests")
    wait_until(lambda: len(fleet.events("parsed")) > 100)
    fleet.kill(0, signal.SIGINT)
    fleet.wait(workers=[0])
    assert "counted as dead" not in fleet.log(0)


@pytest.mark.long
def test_a_worker_goes_on_with_its_leases_while_redis_is_away(fleet: Fleet, tmp_path: Path) -> None:
    options = ["--appendonly", "yes", "--appendfsync", "always"]
    with PrivateRedis(tmp_path, options) as server:
        # Exchanges are rare, so that much is held ready.
        settings = {"GRAPH_PAGES": 3000, "GRAPH_LATENCY": 0.2, "FRONTIER_FLUSH_INTERVAL": 1}
        fleet.start("graph", REDIS_URL=server.url, **settings)
        wait_until(lambda: len(fleet.events("parsed")) > 300)
        server.stop()
        wait_until(lambda: "cannot be reached" in fleet.log())
        begun = len(fleet.events("downloaded"))
        wait_until(lambda: len(fleet.events("downloaded")) > begun + 10)
        server.start()
        wait_until(lambda: "Redis answers again" in fleet.log())


@pytest.mark.long
def test_an_idle_spider_does_not_call_an_outage_the_end(fleet: Fleet, tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, ["--appendonly", "yes"]) as server:
        fleet.start("seeds", MAX_IDLE_TIME_BEFORE_CLOSE=3, REDIS_URL=server.url)
        wait_until(lambda: fleet.events("opened"))
        server.stop()
        started = time.monotonic()
        wait_until(lambda: time.monotonic() - started > 9)  # longer than the idle time, and 5 s to ask
        assert fleet.workers[0].poll() is None
        server.start()
        fleet.wait()
    assert fleet.reasons() == ["finished"]


@pytest.mark.long
def test_slow_callbacks_do_not_keep_the_downloader_waiting(fleet: Fleet) -> None:
    fleet.start("slowcallback", LOG_LEVEL="DEBUG", FRONTIER_FLUSH_INTERVAL=0.02)
    fleet.wait()
    assert len(fleet.urls("parsed")) == 600
    seconds = fleet.events("parsed")[-1].time - fleet.events("parsed")[0].time
    # 600 callbacks of about a second, 16 at a time, would take 35 s.
    assert "Callbacks are slow" in fleet.log()
    assert seconds < 25


def test_code_of_the_users_own_that_raises_loses_only_its_entry(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", GRAPH_PAGES=200, SCHEDULER_QUEUE_CLASS="crawls.spiders.BadCodeQueue")
    fleet.wait()
    assert server.llen("graph:failed") == 1
    assert fleet.reasons() == ["finished"]


def test_statistics_that_raise_lose_nothing(fleet: Fleet) -> None:
    fleet.start("graph", GRAPH_PAGES=200, STATS_CLASS="crawls.spiders.BadStats")
    fleet.wait()
    assert set(fleet.urls("parsed")) == pages(200)


def test_statistics_that_raise_lose_nothing_that_is_in_memory_only(fleet: Fleet) -> None:
    fleet.start("memory", STATS_CLASS="crawls.spiders.BadStats")
    fleet.wait()
    assert len(fleet.urls("parsed")) == 2


@pytest.mark.single("a proxy before it")
def test_a_spider_with_an_endless_start_can_be_closed(fleet: Fleet, private_redis: PrivateRedis) -> None:
    with Proxy(private_redis.url, 20) as far:
        fleet.start("endless", CLOSESPIDER_PAGECOUNT=50, REDIS_URL=far.url)
        fleet.wait(timeout=20)
    assert fleet.reasons() == ["closespider_pagecount"]


def test_an_error_text_that_cannot_be_sent_stops_no_worker(fleet: Fleet, server: redis.Redis) -> None:
    server.rpush("badwords:start_urls", "bad", page_url(1))
    fleet.start("badwords", MAX_IDLE_TIME_BEFORE_CLOSE=1)
    fleet.wait()
    assert fleet.urls("parsed") == {page_url(1): 1}
    assert server.llen("badwords:failed") == 1


@pytest.mark.long
def test_a_worker_that_slept_through_the_finish_crawls_nothing_again(fleet: Fleet) -> None:
    settings = {"GRAPH_PAGES": 300, "GRAPH_LATENCY": 0.05, "FRONTIER_LEASE_TIMEOUT": 1}
    fleet.start("graph", 2, **settings)
    stopped = first_to_parse(fleet, 20, workers=2)
    fleet.kill(stopped, signal.SIGSTOP)
    fleet.wait(workers=[1 - stopped])
    fleet.kill(stopped, signal.SIGCONT)
    fleet.wait()
    assert set(fleet.urls("parsed")) == pages(300)
    # What it had begun and not released, three and a quarter for each concurrent request: not the site.
    repeated = sum(fleet.urls("downloaded").values()) - 300
    assert repeated <= 52, fleet.log(stopped)[-3000:]
    assert fleet.reasons() == ["finished", "finished"]


def test_a_suspended_worker_closes_with_one_line_after_a_newer_version_took_over(
    fleet: Fleet, server: redis.Redis
) -> None:
    fleet.start("graph", GRAPH_LATENCY=0.2, FRONTIER_LEASE_TIMEOUT=1)
    wait_until(lambda: len(fleet.events("parsed")) > 3)
    fleet.kill(0, signal.SIGSTOP)
    server.hset("graph:meta", "format", "7")
    worker, *_ = server.zrange("graph:workers", 0, -1)
    server.zrem("graph:workers", worker)
    waiting = server.zcard("graph:slots")
    fleet.kill(0, signal.SIGCONT)
    fleet.wait(timeout=30)
    assert fleet.reasons() == ["frontier_error"]
    assert fleet.workers[0].returncode == 1
    assert fleet.log().count("] ERROR: ") == 1
    assert "its data in Redis now has the format 7" in fleet.log()
    # It has neither joined again nor put back what belongs to others.
    assert not server.exists("graph:workers")
    assert server.zcard("graph:slots") == waiting
