"""Statistics of a fleet: real workers on a real Redis, and collectors by themselves."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Spider
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import stats
from scrapy_rq_sched.collect.pending_stats import Change, Tally
from scrapy_rq_sched.collect.stat_values import decode, encode
from scrapy_rq_sched.embedded import PrivateRedis
from scrapy_rq_sched.stats import RedisStatsCollector

from ..project.crawls.graph import page_url
from ..support.crawl import PROJECT, Fleet, wait_until
from ..support.proxy import Proxy

OURS = "scrapy_rq_sched.stats.RedisStatsCollector"
KEY = "graph:stats"


def fleet_stats(server: redis.Redis, key: str = KEY) -> dict[str, Any]:
    return {name.decode(): decode(value) for name, value in server.hgetall(key).items()}


# -- crawls ------------------------------------------------------------------------------------------


def test_the_sums_count_the_whole_fleet(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", 3, GRAPH_PAGES=500, GRAPH_LATENCY=0.01, STATS_CLASS=OURS)
    fleet.wait()
    found = fleet_stats(server)
    assert found["scheduler/dequeued"] == found["response_received_count"] == 500
    assert found["finish_reason"] == "finished"
    assert isinstance(found["finish_time"], datetime)


def test_statistics_of_a_finished_crawl_have_a_time_to_live(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", 2, GRAPH_PAGES=100, STATS_CLASS=OURS)
    fleet.wait()
    assert 0 < server.ttl(KEY) <= stats.KEPT


def test_the_next_crawl_counts_from_nothing(fleet: Fleet, server: redis.Redis) -> None:
    for _ in range(2):
        fleet.start("graph", GRAPH_PAGES=100, STATS_CLASS=OURS)
        fleet.wait()
    assert fleet_stats(server)["response_received_count"] == 100


def test_a_crawl_that_is_resumed_counts_on(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", GRAPH_PAGES=300, GRAPH_LATENCY=0.02, STATS_CLASS=OURS)
    wait_until(lambda: len(fleet.events("parsed")) > 50)
    fleet.kill(0, signal.SIGINT)
    fleet.wait()
    assert server.ttl(KEY) == -1
    fleet.start("graph", GRAPH_PAGES=300, STATS_CLASS=OURS)
    fleet.wait()
    assert fleet_stats(server)["response_received_count"] == 300


def test_statistics_stay_if_the_scheduler_persists(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", GRAPH_PAGES=20, STATS_CLASS=OURS, SCHEDULER_PERSIST=True)
    fleet.wait()
    assert server.ttl(KEY) == -1


def test_no_statistic_is_told_on_the_event_loop(fleet: Fleet, private_redis: PrivateRedis) -> None:
    with Proxy(private_redis.url, 50) as far:
        fleet.start("loopthread", GRAPH_PAGES=200, REDIS_URL=far.url, STATS_CLASS=OURS)
        fleet.wait()
    assert fleet.urls("redis")["loop"] == 0
    assert fleet.reasons() == ["finished"]


@pytest.mark.long
def test_the_process_ends_when_the_last_is_told(
    fleet: Fleet, private_redis: PrivateRedis, server: redis.Redis
) -> None:
    with Proxy(private_redis.url, 300) as far:
        fleet.start("starts", REDIS_URL=far.url, STATS_CLASS=OURS)
        fleet.wait()
        assert fleet_stats(server, "starts:stats")["finish_reason"] == "finished"


def test_an_outage_loses_no_count(fleet: Fleet, tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, ["--appendonly", "yes", "--appendfsync", "always"]) as server:
        settings = {"GRAPH_PAGES": 500, "GRAPH_LATENCY": 0.05, "STATS_CLASS": OURS}
        fleet.start("graph", 2, REDIS_URL=server.url, **settings)
        wait_until(lambda: len(fleet.events("parsed")) > 100)
        server.stop()
        wait_until(lambda: all("the statistics are kept" in fleet.log(number) for number in (0, 1)))
        server.start()
        fleet.wait()
        found = fleet_stats(redis.Redis.from_url(server.url))
    assert found["response_received_count"] == 500
    assert fleet.log(0).count("the statistics are kept") == 1


@pytest.mark.long
def test_a_redis_that_is_away_at_the_end_is_one_line_and_no_error(fleet: Fleet, tmp_path: Path) -> None:
    with PrivateRedis(tmp_path) as server:
        settings = {"STATS_CLASS": OURS, "FRONTIER_LEASE_TIMEOUT": 1}
        fleet.start("seeds", REDIS_URL=server.url, **settings)
        wait_until(lambda: fleet.events("opened"))
        server.stop()
        fleet.kill(0, signal.SIGINT)
        fleet.wait()
    assert fleet.log().count("The last statistics of this worker were not stored") == 1
    assert "Traceback" not in fleet.log()
    assert fleet.reasons() == ["shutdown"]


def test_a_shell_tells_nothing(server: redis.Redis, fleet: Fleet) -> None:

    code = f"__import__('time').sleep({2.5 * stats.INTERVAL})"  # so that it could tell something
    command = [sys.executable, "-m", "scrapy", "shell", page_url(1), "-s", f"STATS_CLASS={OURS}", "-c", code]
    environment = {**os.environ, "REDIS_URL": fleet.redis_url}
    shell = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, timeout=30)
    assert shell.stdout.strip() == b"None", shell.stderr
    assert server.keys() == []


def test_scrapy_has_nothing_to_deprecate(fleet: Fleet) -> None:
    fleet.start("graph", GRAPH_PAGES=5, STATS_CLASS=OURS)
    fleet.wait()
    assert fleet.reasons() == ["finished"]
    assert "DeprecationWarning" not in fleet.log()


# -- collectors by themselves ------------------------------------------------------------------------


class GraphSpider(Spider):
    name = "graph"


class Collectors:
    """Makes collectors, and ends them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made: list[RedisStatsCollector] = []

    def __call__(self, **settings: Any) -> RedisStatsCollector:
        collector = RedisStatsCollector(get_crawler(GraphSpider, {"REDIS_URL": self._url, **settings}))
        collector.open_spider()
        self._made.append(collector)
        return collector

    def close(self) -> None:
        for collector in self._made:
            collector.close_spider(reason="shutdown")
        for thread in threading.enumerate():
            if thread.name == "stats-rest":
                thread.join()


@pytest.fixture
def make(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collectors]:
    monkeypatch.setattr(stats, "INTERVAL", 0.02)
    collectors = Collectors(redis_url)
    yield collectors
    collectors.close()


def test_counts_are_added_up(make: Collectors, server: redis.Redis) -> None:
    one, other = make(), make()
    for _ in range(10):
        one.inc_value("n")
        other.inc_value("n", 2)
        other.inc_value("x", 0.5, start=1)
    wait_until(lambda: one.get_value("n") == other.get_value("n") == 30)
    assert fleet_stats(server) | {"n": 30, "x": 6.0} == fleet_stats(server)


def test_a_count_is_there_at_once(make: Collectors) -> None:
    collector = make()
    for number in range(1, 2000):
        collector.inc_value("n")
        assert collector.get_value("n") == number


@pytest.mark.parametrize(
    ("method", "values", "expected"), [("max_value", (3, 7, 5), 7), ("min_value", (5, 2.5, 9), 2.5)]
)
def test_the_highest_and_the_lowest_value_count_the_whole_fleet(
    make: Collectors, server: redis.Redis, method: str, values: tuple[float, ...], expected: float
) -> None:
    collectors = [make(), make(), make()]
    for collector, value in zip(collectors, values, strict=True):
        getattr(collector, method)("n", value)
        wait_until(lambda collector=collector: not collector._tally.has_news)
    assert decode(server.hget(KEY, "n") or b"") == expected
    wait_until(lambda: all(collector.get_value("n") == expected for collector in collectors))


def test_a_worker_reads_a_value_of_its_own_as_it_set_it(make: Collectors, server: redis.Redis) -> None:
    one, other = make(), make()
    mine, theirs = datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2027, 1, 1, tzinfo=timezone.utc)
    one.set_value("start_time", mine)
    wait_until(lambda: other.get_value("start_time") == mine)
    other.set_value("start_time", theirs)
    wait_until(lambda: fleet_stats(server)["start_time"] == theirs)
    assert one.get_value("start_time") is mine
    assert make().get_value("start_time", "none") in ("none", theirs)


def test_a_value_that_is_set_and_then_counted_belongs_to_the_fleet(make: Collectors) -> None:
    one, other = make(), make()
    one.set_value("n", 5)
    one.inc_value("n")
    wait_until(lambda: other.get_value("n") == 6)
    other.inc_value("n")
    wait_until(lambda: one.get_value("n") == 7)


def test_a_value_that_redis_cannot_count_is_counted_in_the_worker(make: Collectors) -> None:
    collector = make()
    collector.inc_value("time", timedelta(seconds=1), start=timedelta())  # type: ignore[arg-type]
    collector.max_value("last", datetime(2026, 1, 2))
    collector.max_value("last", datetime(2026, 1, 1))
    assert collector.get_value("time") == timedelta(seconds=1)
    assert collector.get_value("last") == datetime(2026, 1, 2)


def test_a_count_onto_text_begins_anew(make: Collectors, server: redis.Redis) -> None:
    server.hset(KEY, "n", "text")
    collector = make()
    collector.inc_value("n", 3)
    wait_until(lambda: server.hget(KEY, "n") == b"3")


def test_all_values_are_known_and_the_others_too(make: Collectors) -> None:
    one, other = make(), make()
    one.set_stats({"a": 1, "b": None})
    other.inc_value("c")
    wait_until(lambda: one.get_stats() == {"a": 1, "b": None, "c": 1})


def test_cleared_statistics_are_gone_for_all(make: Collectors, server: redis.Redis) -> None:
    one, other = make(), make()
    one.inc_value("n", 5)
    wait_until(lambda: other.get_value("n") == 5)
    one.clear_stats()
    one.inc_value("m")
    assert one.get_stats() == {"m": 1}
    wait_until(lambda: other.get_stats() == {"m": 1})


def test_a_batch_with_a_lost_reply_is_counted_once(
    make: Collectors, private_redis: PrivateRedis, server: redis.Redis
) -> None:
    with Proxy(private_redis.url) as lossy:
        collector = make(REDIS_URL=lossy.url)
        lossy.swallow(0.5)
        count = 0
        while lossy.faults < 4:
            count += 2
            collector.inc_value("n")
            before = lossy.faults
            wait_until(lambda: server.hget(KEY, "n") is not None)
            collector.inc_value("n")
            wait_until(lambda before=before: not collector._tally.has_news or lossy.faults > before)
        lossy.swallow(0)
        wait_until(lambda: not collector._tally.has_news)
    assert server.hget(KEY, "n") == b"%d" % count


def test_no_method_waits_for_a_redis_that_does_not_answer(
    private_redis: PrivateRedis, server: redis.Redis
) -> None:
    with Proxy(private_redis.url) as stalled:
        stalled.stall()
        crawler = get_crawler(GraphSpider, {"REDIS_URL": stalled.url})
        begun = time.monotonic()
        collector = RedisStatsCollector(crawler)
        collector.open_spider()
        collector.inc_value("n")
        collector.set_value("m", 1)
        assert collector.get_stats() == {"n": 1, "m": 1}
        collector.close_spider(reason="finished")
        assert time.monotonic() - begun < 1
        stalled.go()
        wait_until(lambda: server.hget(KEY, "n") == b"1")


def test_a_worker_that_was_started_before_the_finish_keeps_the_sums(
    make: Collectors, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.hset(KEY, "n", 5)
    server.expire(KEY, stats.KEPT - 10)
    monkeypatch.setattr(stats.identity, "age", lambda: 30.0)
    late = make()
    late.inc_value("n")
    wait_until(lambda: server.hget(KEY, "n") == b"6")


def test_a_worker_that_was_started_after_the_finish_counts_from_nothing(
    make: Collectors, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.hset(KEY, "n", 5)
    server.expire(KEY, stats.KEPT - 30)
    monkeypatch.setattr(stats.identity, "age", lambda: 10.0)
    new = make()
    new.inc_value("n")
    wait_until(lambda: server.hget(KEY, "n") == b"1")


@pytest.mark.single("keys with other names")
def test_the_key_is_a_setting(make: Collectors, server: redis.Redis) -> None:
    make(STATS_KEY="of-%(spider)s").inc_value("n")
    wait_until(lambda: server.hget("of-graph", "n") == b"1")


def test_a_bad_setting_leaves_the_statistics_in_memory_and_is_said(caplog: pytest.LogCaptureFixture) -> None:
    collector = RedisStatsCollector(get_crawler(GraphSpider, {"STATS_KEY": "%(x)s"}))
    collector.open_spider()
    collector.inc_value("n")
    assert collector.get_value("n") == 1
    assert "are not added to those in Redis: STATS_KEY must be" in caplog.text
    collector.close_spider(reason="finished")


# -- values ------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    assert decode(encode(value)) == value
    assert type(decode(encode(value))) is type(value)


@given(st.datetimes())
def test_a_date_is_read_as_a_date(value: datetime) -> None:
    assert decode(encode(value)) == value
    assert decode(encode(value.replace(tzinfo=timezone.utc))) == value.replace(tzinfo=timezone.utc)


@given(st.datetimes().map(str) | st.integers().map(str) | st.sampled_from(["null", "[]", "NaN"]))
def test_text_that_looks_like_something_else_stays_text(value: str) -> None:
    assert decode(encode(value)) == value


@pytest.mark.parametrize("value", [7, 0.5, "text"])
def test_numbers_and_text_are_written_as_they_are(value: Any) -> None:
    assert encode(value) == str(value).encode()


def test_nan_is_read_as_nan() -> None:
    assert math.isnan(decode(encode(math.nan)))


class Odd:
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    "value", [{(1, 2): 3}, Odd(), [Odd()], {1, 2}, "\ud800"], ids=["keys", "odd", "odd list", "set", "text"]
)
def test_an_odd_value_is_encoded(value: Any) -> None:
    assert isinstance(encode(value), bytes)


# -- the tally ---------------------------------------------------------------------------------------

changes = st.tuples(
    st.sampled_from(["set", "add", "max", "min"]), st.integers(-9, 9), st.integers(-9, 9)
).map(lambda args: Change(*args))


@given(st.lists(changes | st.sampled_from(["take", "settle", "clear"]), max_size=30))
def test_batches_of_changes_give_the_same_values_as_single_changes(steps: list[Any]) -> None:
    tally = Tally()
    here: dict[str, Any] = {}
    redis_has: dict[str, Any] = {}

    def settle() -> None:
        told = tally.take()
        if told.clear:
            redis_has.clear()
        for key, change in told.of.items():
            redis_has[key] = (
                change.applied_to(redis_has[key])
                if key in redis_has
                else change.applied_to(change.start)
                if change.how == "add"
                else change.value
            )
        tally.settle(dict(redis_has))

    for step in steps:
        if step == "take":
            tally.take()
        elif step == "settle":
            settle()
        elif step == "clear":
            here.clear()
            tally.clear()
        else:
            before = here.get("n", step.start if step.how == "add" else step.value)
            here["n"] = step.applied_to(before)
            tally.change("n", step.how, step.value, step.start)
        assert tally.get("n") == here.get("n")
    while tally.has_news:
        settle()
    assert redis_has == here
