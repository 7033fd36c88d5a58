"""Items in Redis: real workers on a real Redis, and the store of items by itself where replies are lost."""

from __future__ import annotations

import json
import queue
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.collect import item_store as items
from scrapy_rq_sched.collect.item_store import ItemStore
from scrapy_rq_sched.connection import get_redis, no_retry
from scrapy_rq_sched.embedded import PrivateRedis
from scrapy_rq_sched.errors import ItemNotStoredError, SettingError, UnserializableItemError
from scrapy_rq_sched.pipelines import RedisPipeline

from ..support.crawl import Fleet, wait_until
from ..support.proxy import Proxy
from .test_crawl import first_to_parse

OURS = "scrapy_rq_sched.pipelines.RedisPipeline"
APPEND_ONLY = ["--appendonly", "yes", "--appendfsync", "always"]


def pipelines(*paths: str) -> str:
    return json.dumps({path: 300 + place for place, path in enumerate(paths)})


def stored(server: redis.Redis, key: str = "items:items") -> list[int]:
    return [json.loads(item)["page"] for item in server.lrange(key, 0, -1)]


# -- crawls ------------------------------------------------------------------------------------------


def test_every_item_is_in_the_list_once_as_json(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("items", 2, GRAPH_PAGES=300, ITEM_PIPELINES=pipelines(OURS))
    fleet.wait()
    assert sorted(stored(server)) == list(range(300))
    assert fleet.stat("items/stored") == 300


def test_no_item_is_stored_on_the_event_loop(fleet: Fleet, private_redis: PrivateRedis) -> None:
    with Proxy(private_redis.url, 10) as far:
        fleet.start("items", GRAPH_PAGES=200, REDIS_URL=far.url, ITEM_PIPELINES=pipelines(OURS))
        fleet.wait()
    assert fleet.urls("redis")["loop"] == 0
    assert fleet.urls("redis")["thread"] > 10


def test_many_items_go_in_few_batches(fleet: Fleet, private_redis: PrivateRedis) -> None:
    with Proxy(private_redis.url, 50) as far:
        fleet.start("items", GRAPH_PAGES=300, REDIS_URL=far.url, ITEM_PIPELINES=pipelines(OURS))
        fleet.wait()
    # An exchange, or a batch of items, is a command: if each item were one, there were more than 300.
    assert fleet.urls("redis")["thread"] < 250


def test_an_item_is_processed_when_redis_has_it(fleet: Fleet, tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, APPEND_ONLY) as server:
        paths = pipelines(OURS, "crawls.pipelines.AfterPipeline")
        settings = {"GRAPH_PAGES": 2000, "GRAPH_LATENCY": 0.05, "ITEM_PIPELINES": paths}
        fleet.start("items", REDIS_URL=server.url, **settings)
        wait_until(lambda: len(fleet.events("after")) > 100)
        fleet.kill(0)
        fleet.wait()
        processed = {int(event.what) for event in fleet.events("after")}
        assert processed <= set(stored(redis.Redis.from_url(server.url)))


def test_pages_with_items_that_a_killed_worker_had_not_stored_are_crawled_again(
    fleet: Fleet, server: redis.Redis
) -> None:
    settings = {"GRAPH_PAGES": 1000, "GRAPH_LATENCY": 0.05, "FRONTIER_LEASE_TIMEOUT": 1}
    fleet.start("items", 2, ITEM_PIPELINES=pipelines(OURS), **settings)
    fleet.kill(first_to_parse(fleet, 100, workers=2))
    fleet.wait()
    assert set(stored(server)) == set(range(1000))


@pytest.mark.long
def test_an_outage_loses_no_item_and_is_one_line(fleet: Fleet, tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, APPEND_ONLY) as server:
        settings = {"GRAPH_PAGES": 600, "GRAPH_LATENCY": 0.05, "ITEM_PIPELINES": pipelines(OURS)}
        fleet.start("items", REDIS_URL=server.url, **settings)
        wait_until(lambda: len(fleet.events("parsed")) > 100)
        server.stop()
        wait_until(lambda: "to store, and tries again" in fleet.log())
        server.start()
        fleet.wait()
        assert sorted(stored(redis.Redis.from_url(server.url))) == list(range(600))
    assert len(re.findall(r"the worker keeps \d+ items? to store, and tries again", fleet.log())) == 1


@pytest.mark.long
def test_pages_with_items_that_could_not_be_stored_at_a_stop_are_crawled_again(
    fleet: Fleet, tmp_path: Path
) -> None:
    with PrivateRedis(tmp_path, APPEND_ONLY) as server:
        settings = {"GRAPH_PAGES": 600, "GRAPH_LATENCY": 0.05, "FRONTIER_LEASE_TIMEOUT": 2}
        fleet.start("items", REDIS_URL=server.url, ITEM_PIPELINES=pipelines(OURS), **settings)
        wait_until(lambda: len(fleet.events("parsed")) > 100)
        server.stop()
        wait_until(lambda: "to store, and tries again" in fleet.log())
        fleet.kill(0, signal.SIGINT)
        wait_until(lambda: "not stored: Redis did not answer" in fleet.log())
        # The scheduler gets through with what it has to say: these pages must not be among the released.
        server.start()
        fleet.wait()
        assert fleet.stat("items/not_stored") > 0
        fleet.start("items", REDIS_URL=server.url, ITEM_PIPELINES=pipelines(OURS), **settings)
        fleet.wait()
        assert set(stored(redis.Redis.from_url(server.url))) == set(range(600))
    assert fleet.reasons() == ["shutdown", "finished"]


def test_an_item_that_cannot_be_written_is_an_error_of_its_own(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("items", 1, "-a", "odd=1", GRAPH_PAGES=30, ITEM_PIPELINES=pipelines(OURS))
    fleet.wait()
    assert sorted(stored(server)) == list(range(30))
    assert fleet.log().count("An item of spider 'items' cannot be stored: kept: ") == 30
    assert fleet.reasons() == ["finished"]


@pytest.mark.single("keys with other names")
def test_a_subclass_may_sort_items_into_several_lists(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("items", GRAPH_PAGES=100, ITEM_PIPELINES=pipelines("crawls.pipelines.KeyedPipeline"))
    fleet.wait()
    assert sorted(stored(server, "items:even")) == list(range(0, 100, 2))
    assert sorted(stored(server, "items:odd")) == list(range(1, 100, 2))


@pytest.mark.single("keys with other names")
def test_a_subclass_may_wait_in_a_thread_as_with_scrapy_redis(fleet: Fleet, server: redis.Redis) -> None:
    paths = pipelines("crawls.pipelines.BlockingPipeline", "crawls.pipelines.AfterPipeline")
    fleet.start("items", GRAPH_PAGES=50, ITEM_PIPELINES=paths)
    fleet.wait()
    assert sorted(stored(server)) == list(range(50))
    assert len(fleet.events("blocking")) == len(fleet.events("after")) == 50
    assert b'"spider": "items"' in server.lindex("items:items", 0)


@pytest.mark.single("keys with other names")
def test_the_key_and_the_serializer_are_settings(fleet: Fleet, server: redis.Redis) -> None:
    own = {"REDIS_ITEMS_KEY": "of-%(spider)s", "REDIS_ITEMS_SERIALIZER": "crawls.pipelines.upper_case"}
    fleet.start("items", GRAPH_PAGES=1, ITEM_PIPELINES=pipelines(OURS), **own)
    fleet.wait()
    assert server.lrange("of-items", 0, -1) == [b"{'PAGE': 0}"]


@pytest.mark.parametrize("reactor", ["asyncio", "select", "none"])
def test_items_are_stored_with_any_event_loop(fleet: Fleet, server: redis.Redis, reactor: str) -> None:
    import scrapy

    if reactor == "none" and scrapy.version_info < (2, 15):
        pytest.skip("this Scrapy needs a reactor")
    settings: dict[str, Any] = {
        "asyncio": {},
        "select": {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"},
        "none": {"TWISTED_REACTOR_ENABLED": "False"},
    }[reactor]
    paths = pipelines(OURS, "crawls.pipelines.AfterPipeline")
    fleet.start("items", GRAPH_PAGES=30, ITEM_PIPELINES=paths, **settings)
    fleet.wait()
    assert sorted(stored(server)) == list(range(30)), fleet.log()[-3000:]


def test_scrapy_has_nothing_to_deprecate(fleet: Fleet) -> None:
    fleet.start("items", GRAPH_PAGES=5, ITEM_PIPELINES=pipelines(OURS))
    fleet.wait()
    assert fleet.reasons() == ["finished"]
    assert "DeprecationWarning" not in fleet.log()


@pytest.mark.parametrize(
    ("setting", "value", "shown"),
    [
        ("REDIS_ITEMS_KEY", "%(items)s", "%(items)s"),
        ("REDIS_ITEMS_SERIALIZER", "no.such.thing", "no.such.thing"),
        ("REDIS_URL", "nowhere", "…"),  # it could be a password
    ],
)
def test_a_bad_setting_ends_the_crawl_with_a_line_and_no_traceback(
    fleet: Fleet, setting: str, value: str, shown: str
) -> None:
    fleet.start("items", ITEM_PIPELINES=pipelines(OURS), **{setting: value})
    fleet.wait()
    assert fleet.workers[0].returncode == 1
    assert re.search(f"The crawl cannot start: {setting} .*'{re.escape(shown)}'", fleet.log())
    assert "Traceback" not in fleet.log()


def test_a_stop_in_peace_leaves_no_item_behind(fleet: Fleet, server: redis.Redis) -> None:
    settings = {"GRAPH_PAGES": 2000, "GRAPH_LATENCY": 0.02, "ITEM_PIPELINES": pipelines(OURS)}
    fleet.start("items", **settings)
    wait_until(lambda: len(fleet.events("parsed")) > 100)
    fleet.kill(0, signal.SIGINT)
    fleet.wait()
    parsed = {int(url.rpartition("/")[2]) for url in fleet.urls("parsed")}
    assert Counter(stored(server)) == dict.fromkeys(parsed, 1)


# -- by hand -----------------------------------------------------------------------------------------


def test_a_bad_setting_is_refused_by_name_where_no_crawl_is_under_way() -> None:
    with pytest.raises(SettingError, match=r"REDIS_ITEMS_KEY must be a key .*, not '%'"):
        RedisPipeline.from_crawler(get_crawler(settings_dict={"REDIS_ITEMS_KEY": "%"}))


def test_a_pipeline_may_be_used_by_hand_without_an_event_loop(server: redis.Redis) -> None:
    from scrapy import Spider

    assert RedisPipeline(server)._process_item({"page": 1}, Spider(name="hand")) == {"page": 1}
    assert server.lrange("hand:items", 0, -1) == [b'{"page": 1}']


@pytest.mark.single("keys with other names")
def test_the_constructor_is_that_of_scrapy_redis(server: redis.Redis) -> None:
    from scrapy import Spider

    pipeline = RedisPipeline(server, key="%(spider)s!", serialize_func=str)
    pipeline._process_item({"page": 1}, Spider(name="hand"))
    assert server.lrange("hand!", 0, -1) == [b"{'page': 1}"]
    assert isinstance(RedisPipeline.from_settings(Settings()), RedisPipeline)


# -- the store of items ------------------------------------------------------------------------------


class HandLoop:
    """An event loop that runs when the test says so."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()

    def call_later(self, delay: float, call: Callable[[], None]) -> Callable[[], None]:
        self._calls.put(call)
        return lambda: None

    def call_from_thread(self, call: Callable[..., None], *arguments: Any) -> None:
        self._calls.put(lambda: call(*arguments))

    def run_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            self._calls.get(timeout=max(0.01, deadline - time.monotonic()))()


class Hand:
    """An item store, and what it said."""

    def __init__(self, client: Any, patience: float = 30.0) -> None:
        self.counts: Counter[str] = Counter()
        self.is_closing = False
        self.given_up = 0
        self.results: list[Any] = []

        def give_up() -> None:
            self.given_up += 1

        def count(name: str, by: int) -> None:
            self.counts[name] += by

        self.store = ItemStore(
            client, "hand:items:batch:a", lambda: self.is_closing, give_up, patience, count
        )
        self.loop: Any = self.store._loop

    def append(self, data: bytes | Exception, key: bytes = b"hand:items") -> None:
        def entry() -> tuple[bytes, bytes]:
            if isinstance(data, Exception):
                raise data
            return key, data

        self.store.append(entry).addBoth(self.results.append)

    def run(self) -> None:
        """Wait until all are stored or failed."""
        waiting = self.store._waiting() + len(self.results)
        self.loop.run_until(lambda: len(self.results) == waiting)


@pytest.fixture
def hand_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "EventLoop", HandLoop)


def hand(url: str, patience: float = 30.0, **options: Any) -> Hand:
    return Hand(get_redis(url=url, retry=no_retry(), **options), patience)


@pytest.mark.usefixtures("hand_loop")
def test_a_batch_with_a_lost_reply_is_stored_once(private_redis: PrivateRedis, server: redis.Redis) -> None:
    with Proxy(private_redis.url) as lossy:
        lossy.swallow(0.5)
        store = hand(lossy.url)
        expected = []
        for number in range(100):
            store.append(b"%d" % number)
            expected.append(b"%d" % number)
            if number % 3 == 0:
                store.run()
        store.run()
        assert lossy.faults > 10
    assert server.lrange("hand:items", 0, -1) == expected


@pytest.mark.usefixtures("hand_loop")
def test_items_keep_their_order_through_outages(private_redis: PrivateRedis, server: redis.Redis) -> None:
    with Proxy(private_redis.url) as shaky:
        shaky.break_before(0.3)
        store = hand(shaky.url)
        for number in range(2500):
            store.append(b"%d" % number)
        store.run()
    assert server.lrange("hand:items", 0, -1) == [b"%d" % number for number in range(2500)]
    assert store.counts["items/stored"] == 2500


@pytest.mark.usefixtures("hand_loop")
def test_large_items_go_in_steps_of_a_bounded_size(
    private_redis: PrivateRedis, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "STEP_BYTES", 1000)
    store = hand(private_redis.url)
    server.config_resetstat()
    for number in range(20):
        store.append(b"%d" % number * 200)
    store.run()
    assert [len(item) for item in server.lrange("hand:items", 0, -1)] == [200] * 10 + [400] * 10
    assert server.info("commandstats")["cmdstat_evalsha"]["calls"] >= 6


@pytest.mark.usefixtures("hand_loop")
def test_an_exception_of_one_item_is_the_error_of_that_item(
    private_redis: PrivateRedis, server: redis.Redis
) -> None:
    store = hand(private_redis.url)
    for data in (b"1", UnserializableItemError("no"), b"2"):
        store.append(data)
    store.run()
    assert [getattr(result, "value", result).__class__ for result in store.results] == [
        type(None),
        UnserializableItemError,
        type(None),
    ]
    assert server.lrange("hand:items", 0, -1) == [b"1", b"2"]


@pytest.mark.usefixtures("hand_loop")
def test_a_list_that_is_none_changes_nothing_and_is_waited_for(
    private_redis: PrivateRedis, server: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    server.set("hand:other", "text")
    store = hand(private_redis.url)
    store.append(b"1")
    store.append(b"2", key=b"hand:other")
    store.loop.run_until(lambda: store.counts["items/redis_errors"])
    assert "Key 'hand:other' is a string" in caplog.text
    assert not server.exists("hand:items")
    server.delete("hand:other")
    store.run()
    assert (server.lrange("hand:items", 0, -1), server.lrange("hand:other", 0, -1)) == ([b"1"], [b"2"])


@pytest.mark.usefixtures("hand_loop")
def test_a_full_redis_is_waited_for(private_redis: PrivateRedis, server: redis.Redis) -> None:
    store = hand(private_redis.url)
    try:
        server.config_set("maxmemory", 1)
        store.append(b"1")
        store.loop.run_until(lambda: store.counts["items/redis_errors"])
        assert store.results == []
    finally:
        server.config_set("maxmemory", 0)
    store.run()
    assert server.lrange("hand:items", 0, -1) == [b"1"]


@pytest.mark.usefixtures("hand_loop")
def test_a_closing_spider_waits_for_redis_no_longer_than_it_may(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    store = hand(f"unix://{tmp_path}/nobody", patience=0.3)
    store.append(b"1")
    store.loop.run_until(lambda: store.counts["items/redis_errors"])
    assert store.given_up == 0
    store.is_closing = True
    store.append(b"2")
    store.run()
    assert [result.type for result in store.results] == [ItemNotStoredError] * 2
    assert store.given_up == 1
    assert "2 items were not stored: Redis did not answer for 0.3 s" in caplog.text


@pytest.mark.usefixtures("hand_loop")
def test_a_store_is_closed_when_its_last_item_is_stored(
    private_redis: PrivateRedis, server: redis.Redis
) -> None:
    store = hand(private_redis.url)
    store.append(b"1")
    closed: list[int] = []
    store.store.close().addCallback(lambda _: closed.append(server.llen("hand:items")))
    assert closed == []
    store.loop.run_until(lambda: closed)
    assert closed == [1]


@pytest.mark.usefixtures("hand_loop")
def test_the_key_of_a_batch_has_a_time_to_live(private_redis: PrivateRedis, server: redis.Redis) -> None:
    store = hand(private_redis.url)
    store.append(b"1")
    store.run()
    assert 0 < server.ttl("hand:items:batch:a") <= items.REPEATED_WITHIN
