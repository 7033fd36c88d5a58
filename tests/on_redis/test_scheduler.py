"""The scheduler driven by hand: no engine, no event loop, a real Redis."""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

import pytest
import redis
from scrapy import Request, Spider, signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import FrontierError, PriorityQueue, RedisSpider, RFPDupeFilter, Scheduler
from scrapy_rq_sched.errors import FrontierMismatchError, RedisUnreachableError, SettingError
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.keys.table import KEYS

from ..support.by_hand import URL, ExampleSpider, Make, urls
from ..support.crawl import wait_until


class LessSpider(Spider):
    """The same spider before ``other`` was added."""

    name = "example"


def test_a_request_goes_through_redis_and_comes_back(make: Make, server: redis.Redis) -> None:
    scheduler = make()
    callback = scheduler.queue.spider.other
    assert scheduler.enqueue_request(Request(URL, callback, meta={"a": [1]}, headers={"Referer": "x"}))
    assert server.zcard("example:requests:slot:example.com") == 1
    request = scheduler.next_request()
    assert request is not None
    assert request.callback == callback
    assert (request.meta, request.headers[b"Referer"]) == ({"a": [1]}, b"x")


def test_it_has_as_many_requests_as_wait(make: Make) -> None:
    scheduler = make()
    assert (len(scheduler), scheduler.has_pending_requests()) == (0, False)
    scheduler.enqueue_request(Request(URL))
    assert (len(scheduler), scheduler.has_pending_requests()) == (1, True)
    scheduler.next_request()
    assert (len(scheduler), scheduler.has_pending_requests()) == (0, False)


def test_a_duplicate_is_refused_and_counted(make: Make) -> None:
    scheduler = make()
    assert scheduler.enqueue_request(Request(URL))
    assert not scheduler.enqueue_request(Request(URL))
    assert scheduler.stats.get_value("dupefilter/filtered") == 1
    assert scheduler.stats.get_value("scheduler/enqueued") == 1


def test_a_duplicate_of_another_workers_request_is_refused_and_announced(make: Make) -> None:
    one, two = make(), make()
    dropped: list[Request] = []

    def record(request: Request) -> None:
        dropped.append(request)

    two.crawler.signals.connect(record, signals.request_dropped)
    request = Request(URL)
    assert one.enqueue_request(Request(URL))
    assert not two.enqueue_request(request)
    assert dropped == [request]


def test_two_identical_unfiltered_requests_are_two(make: Make) -> None:
    scheduler = make()
    for _ in range(2):
        assert scheduler.enqueue_request(Request(URL, dont_filter=True))
    assert urls(scheduler) == [URL, URL]


def test_a_start_request_is_taken_from_one_worker_only(make: Make) -> None:
    start = {"is_start_request": True}
    one, two = make(), make()
    assert one.enqueue_request(Request(URL, dont_filter=True, meta=start))
    assert not two.enqueue_request(Request(URL, dont_filter=True, meta=start))


def test_the_retry_of_a_start_request_is_not_taken_for_its_duplicate(make: Make) -> None:
    scheduler = make()
    start = {"is_start_request": True}
    scheduler.enqueue_request(Request(URL, dont_filter=True, meta=start))
    retry = Request(URL, dont_filter=True, meta={**start, "retry_times": 1})
    assert scheduler.enqueue_request(retry)


def test_a_request_in_hand_is_leased_until_the_next_is_asked_for(make: Make, server: redis.Redis) -> None:
    scheduler = make()
    scheduler.enqueue_request(Request(URL))
    scheduler.next_request()
    leases = f"example:leases:{scheduler.name}"
    assert server.hlen(leases) == 1
    scheduler.next_request()
    assert server.hlen(leases) == 0


def test_two_workers_share_the_waiting_requests(make: Make) -> None:
    one, two = make(), make()
    for number in range(10):
        one.enqueue_request(Request(f"{URL}{number}"))
    taken = []
    for scheduler in [one, two] * 5:
        request = scheduler.next_request()
        assert request is not None
        taken.append(request.url)
    assert taken == [f"{URL}{number}" for number in range(10)]


def test_requests_that_a_closed_worker_had_not_begun_wait_for_the_others(make: Make) -> None:
    one, two = make(), make()
    for number in range(3):
        one.enqueue_request(Request(f"{URL}{number}"))
    one.next_request()
    one.close("shutdown")
    assert urls(two) == [f"{URL}1", f"{URL}2"]


def test_closing_an_unfinished_crawl_clears_nothing(make: Make, server: redis.Redis) -> None:
    scheduler = make()
    scheduler.enqueue_request(Request(URL))
    scheduler.close("shutdown")
    assert server.zcard("example:requests:slot:example.com") == 1
    assert server.scard("example:dupefilter") == 1


@pytest.mark.single("all of its keys")
def test_closing_a_finished_crawl_clears_it_all(make: Make, server: redis.Redis) -> None:
    scheduler = make()
    scheduler.enqueue_request(Request(URL))
    urls(scheduler)
    scheduler.close("finished")
    left = server.keys()
    assert {key.split(b"-")[0].rpartition(b":")[0] for key in left} == {
        b"example",
        b"example:worker",
        b"example:meta",
    }
    assert b"example:finished" in left
    assert all(server.ttl(key) > 0 for key in left)


def test_a_persistent_crawl_remembers_its_fingerprints(make: Make) -> None:
    scheduler = make(SCHEDULER_PERSIST=True)
    scheduler.enqueue_request(Request(URL))
    urls(scheduler)
    scheduler.close("finished")
    assert not make(SCHEDULER_PERSIST=True).enqueue_request(Request(URL))


def test_seeds_become_requests_with_their_priority(make: Make, server: redis.Redis) -> None:
    scheduler = make()
    for number in range(2):
        scheduler.enqueue_request(Request(f"{URL}known{number}", priority=1))
    server.rpush("example:start_urls", f"{URL}low", json.dumps({"url": f"{URL}high", "priority": 2}))
    assert urls(scheduler) == [f"{URL}known0", f"{URL}high", f"{URL}known1", f"{URL}low"]
    assert scheduler.stats.get_value("frontier/seeds") == 2


def test_a_bad_seed_is_set_aside_and_the_others_of_its_batch_are_crawled(
    make: Make, server: redis.Redis
) -> None:
    scheduler = make()
    server.rpush(
        "example:start_urls", f"{URL}1", "no url", f"{URL}2", '{"url": "http://x.com/", "colour": 1}'
    )
    assert urls(scheduler) == [f"{URL}1", f"{URL}2"]
    entries = [json.loads(entry) for entry in server.lrange("example:failed", 0, -1)]
    assert [(entry["kind"], entry["data"][:6]) for entry in entries] == [
        ("seed", "no url"),
        ("seed", '{"url"'),
    ]
    assert "colour" in entries[1]["reason"]


def test_an_entry_that_cannot_be_decoded_is_set_aside_and_the_crawl_goes_on(
    make: Make, server: redis.Redis
) -> None:
    scheduler = make()
    server.zadd("example:requests", {b"\x80\x04 a pickle": -9, b'{"url": 3}': -8})
    scheduler.enqueue_request(Request(URL))
    assert urls(scheduler) == [URL]
    assert server.llen("example:failed") == 2


def test_a_request_with_an_unknown_callback_is_left_to_a_worker_that_has_it(make: Make) -> None:
    new, old = make(FRONTIER_PROJECT="example"), make(LessSpider, FRONTIER_PROJECT="example")
    new.enqueue_request(Request(URL, new.queue.spider.other))
    assert old.next_request() is None
    taken: list[Request] = []

    def take() -> list[Request]:
        request = new.next_request()
        taken.extend([request] if request else [])
        return taken

    wait_until(take)
    assert taken[0].callback == new.queue.spider.other


def test_a_request_that_cannot_be_serialized_is_crawled_from_memory(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make()
    request = Request(URL, meta={"kept": {1, 2}})
    assert scheduler.enqueue_request(request)
    assert scheduler.has_pending_requests()
    assert scheduler.next_request() is request
    assert "meta['kept'] is a set" in caplog.text
    assert scheduler.stats.get_value("scheduler/unserializable") == 1


def test_a_request_in_memory_is_filtered_by_the_whole_fleet(make: Make) -> None:
    one, two = make(), make()
    assert one.enqueue_request(Request(URL, meta={"kept": {1}}))
    assert not two.enqueue_request(Request(URL))


def test_a_dupefilter_of_the_users_own_is_asked(make: Make) -> None:
    class NoFilter(BaseDupeFilter):
        pass

    scheduler = make(DUPEFILTER_CLASS=NoFilter)
    assert scheduler.enqueue_request(Request(URL))
    assert scheduler.enqueue_request(Request(URL))
    assert len(scheduler) == 2


def test_scrapys_default_dupefilter_gives_way_to_the_shared_one(make: Make, server: redis.Redis) -> None:
    make().enqueue_request(Request(URL))
    assert server.scard("example:dupefilter") == 1


def test_the_crawlers_own_fingerprinter_is_used(make: Make) -> None:
    class ByPath:
        def fingerprint(self, request: Request) -> bytes:
            return request.url.partition("?")[0].encode()

    scheduler = make(REQUEST_FINGERPRINTER_CLASS=ByPath)
    assert scheduler.enqueue_request(Request(f"{URL}?a"))
    assert not scheduler.enqueue_request(Request(f"{URL}?b"))


def test_a_worker_with_another_queue_class_is_refused(make: Make) -> None:
    make().enqueue_request(Request(URL))
    with pytest.raises(FrontierError, match=r"queue\.PriorityQueue'.*queue\.FifoQueue'"):
        make(SCHEDULER_QUEUE_CLASS="scrapy_rq_sched.FifoQueue")


def test_a_worker_with_another_serializer_is_refused_with_both_names(make: Make) -> None:
    make()
    with pytest.raises(FrontierError, match=r"'json'.*'pickle'"):
        make(SCHEDULER_SERIALIZER="pickle")


def test_a_bad_setting_is_refused_by_name(make: Make) -> None:
    with pytest.raises(SettingError, match=r"FRONTIER_LEASE_TIMEOUT must be a number ≥ 0\.1, not 'soon'"):
        make(FRONTIER_LEASE_TIMEOUT="soon")


def test_a_redis_that_is_not_there_is_one_error_with_its_address(make: Make) -> None:
    with pytest.raises(RedisUnreachableError, match=r"redis://:\*\*\*@127.0.0.1:1/0 cannot be reached"):
        make(REDIS_URL="redis://:secret@127.0.0.1:1/0")


@pytest.mark.single("all of its keys")
def test_every_key_that_a_running_crawl_has_is_one_of_the_table(make: Make, server: redis.Redis) -> None:
    scheduler = make()
    scheduler.enqueue_request(Request(URL, dont_filter=True, meta={"is_start_request": True}))
    scheduler.enqueue_request(Request(URL))
    server.rpush("example:start_urls", "bad", URL)
    scheduler.next_request()
    names = {"<spider>": "example", "<id>": scheduler.name, "<slot>": "example.com"}
    labels = [key.label(Keys("<spider>")) for key in KEYS]
    named = {re.sub("<[a-z]+>", lambda part: names.get(part[0], part[0]), label) for label in labels}
    assert {key.decode() for key in server.scan_iter()} <= named


def test_an_attribute_set_after_open_holds(make: Make, server: redis.Redis) -> None:
    scheduler = make()
    scheduler.enqueue_request(Request(URL))
    scheduler.persist = True
    assert urls(scheduler) == [URL]
    scheduler.close("finished")
    assert server.exists("example:dupefilter")


def test_opened_again_without_a_close_it_is_the_same_worker(make: Make, server: redis.Redis) -> None:
    scheduler = make()
    scheduler.enqueue_request(Request(URL))
    scheduler.next_request()
    scheduler.open(scheduler.spider)
    assert server.zcard("example:workers") == 1


@pytest.mark.parametrize("use", ["enqueue_request", "next_request", "has_pending_requests", "__len__"])
def test_a_scheduler_that_is_not_open_says_so(redis_url: str, use: str) -> None:
    scheduler = Scheduler.from_crawler(get_crawler(ExampleSpider, {"REDIS_URL": redis_url}))
    arguments = [Request(URL)] if use == "enqueue_request" else []
    with pytest.raises(RuntimeError, match="not open"):
        getattr(scheduler, use)(*arguments)
    assert scheduler.close("finished") is None
    assert not scheduler.refused


class OwnQueue:
    """A queue of a user's own, as scrapy-redis's documentation shows how to write one."""

    def __init__(self, server: redis.Redis, spider: Spider, key: str, serializer: Any = None) -> None:
        self.server, self.key = server, key % {"spider": spider.name}

    def push(self, request: Request) -> None:
        if "unwelcome" in request.url:
            raise ValueError("not in this queue")
        self.server.rpush(self.key, request.url)

    def pop(self, timeout: float = 0) -> Request | None:
        url = self.server.lpop(self.key)
        return Request(url.decode()) if url else None

    def clear(self) -> None:
        self.server.delete(self.key)

    def __len__(self) -> int:
        return int(self.server.llen(self.key))


class BreakingQueue(OwnQueue):
    """Redis goes away in the middle of the pushes, and in the middle of the pops, once each."""

    breaks: ClassVar[set[str]] = set()

    def push(self, request: Request) -> None:
        if "2" in request.url and "push" in self.breaks:
            self.breaks.remove("push")
            raise redis.exceptions.ConnectionError("gone")
        super().push(request)

    def pop(self, timeout: float = 0) -> Request | None:
        request = super().pop()
        if request and "pop" in self.breaks:
            self.breaks.remove("pop")
            self.server.lpush(self.key, request.url)
            raise redis.exceptions.ConnectionError("gone")
        return request


class LoudQueue(PriorityQueue):
    """One of ours, with a push of its own."""

    pushed: ClassVar[list[str]] = []

    def push(self, request: Request) -> None:
        self.pushed.append(request.url)
        super().push(request)


def test_a_queue_class_of_the_users_own_is_pushed_to_and_popped_from(make: Make, server: redis.Redis) -> None:
    one, two = make(SCHEDULER_QUEUE_CLASS=OwnQueue), make(SCHEDULER_QUEUE_CLASS=OwnQueue)
    assert one.enqueue_request(Request(URL))
    assert not two.enqueue_request(Request(URL))
    assert server.lrange("example:requests", 0, -1) == [URL.encode()]
    assert len(two) == 1
    assert urls(two) == [URL]
    assert not one.has_pending_requests()


def test_a_queue_class_of_the_users_own_is_warned_of(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    make(SCHEDULER_QUEUE_CLASS=OwnQueue)
    assert "OwnQueue, which has its own push or pop" in caplog.text


def test_a_request_refused_by_a_custom_queue_is_crawled_from_memory(make: Make) -> None:
    scheduler = make(SCHEDULER_QUEUE_CLASS=OwnQueue)
    scheduler.enqueue_request(Request(f"{URL}unwelcome"))
    assert urls(scheduler) == [f"{URL}unwelcome"]


def test_an_outage_between_the_pushes_of_a_queue_of_the_users_own_loses_none(make: Make) -> None:
    scheduler = make(SCHEDULER_QUEUE_CLASS=BreakingQueue)
    BreakingQueue.breaks.update({"push", "pop"})
    scheduler.enqueue_request(Request(f"{URL}1"))
    with pytest.raises(RedisUnreachableError):
        scheduler.enqueue_request(Request(f"{URL}2"))
    scheduler.enqueue_request(Request(f"{URL}3"))
    with pytest.raises(RedisUnreachableError):
        scheduler.next_request()
    assert urls(scheduler) == [f"{URL}1", f"{URL}2", f"{URL}3"]


def test_a_redis_key_that_is_no_key_is_refused(make: Make) -> None:
    class KeyedSpider(ExampleSpider):
        redis_key = "50%off"

    with pytest.raises(SettingError, match=r"redis_key must be a key such as .*, not '50%off'"):
        make(KeyedSpider)


def test_a_push_that_overrides_ours_is_called(make: Make) -> None:
    scheduler = make(SCHEDULER_QUEUE_CLASS=LoudQueue)
    scheduler.enqueue_request(Request(URL))
    assert LoudQueue.pushed == [URL]
    assert urls(scheduler) == [URL]


DROP = {"FRONTIER_MAX_WAITING": 2, "FRONTIER_MAX_WAITING_POLICY": "drop-lowest"}


def test_to_drop_a_request_that_was_not_filtered_forgets_no_other(make: Make) -> None:
    scheduler = make(**DROP)
    for name, priority in (("x", 9), ("y", 8)):
        scheduler.enqueue_request(Request(f"{URL}{name}", priority=priority))
    # A retry of x, say: it would come last, and is dropped.
    scheduler.enqueue_request(Request(f"{URL}x", priority=-1, dont_filter=True))
    scheduler.enqueue_request(Request(f"{URL}z", priority=-2))
    assert not scheduler.enqueue_request(Request(f"{URL}x", priority=9))
    assert urls(scheduler) == [f"{URL}x", f"{URL}y"]


def test_a_dropped_request_is_new_at_once_to_the_worker_that_dropped_it(make: Make) -> None:
    scheduler = make(**DROP)
    for name, priority in (("x", 9), ("y", 8), ("z", 7)):
        scheduler.enqueue_request(Request(f"{URL}{name}", priority=priority))
    scheduler.next_request()
    assert scheduler.enqueue_request(Request(f"{URL}z", priority=7))


# -- what a spider or a dupefilter says itself -----------------------------------------------------


class InTens(ExampleSpider):
    redis_batch_size = "10"


class InMany(ExampleSpider):
    redis_batch_size = 5000


class InNone(ExampleSpider):
    redis_batch_size = 0


def test_a_spider_may_say_how_many_seeds_an_exchange_takes(make: Make, server: redis.Redis) -> None:
    assert make(InTens).settings.seed_batch == 10
    with pytest.raises(SettingError, match="redis_batch_size must be an integer ≥ 1, not 0"):
        make(InNone)


@pytest.mark.parametrize(
    ("cls", "settings", "name"),
    [
        (InMany, {}, "redis_batch_size"),
        (ExampleSpider, {"REDIS_START_URLS_BATCH_SIZE": "5000"}, "REDIS_START_URLS_BATCH_SIZE"),
    ],
)
def test_more_seeds_than_an_exchange_may_take_are_lowered_with_one_line(
    make: Make, caplog: pytest.LogCaptureFixture, cls: Any, settings: dict[str, Any], name: str
) -> None:
    assert make(cls, **settings).settings.seed_batch == 1000
    assert caplog.text.count(f"{name} is 5000: the scheduler takes at most 1000 seeds at a time") == 1


class FedSpider(RedisSpider):
    name = "example"


def test_a_redis_spider_that_says_nothing_leaves_the_number_of_seeds_to_the_settings(make: Make) -> None:
    assert make(FedSpider).settings.seed_batch == 100
    assert make(FedSpider, REDIS_START_URLS_BATCH_SIZE=30).settings.seed_batch == 30


class ByHost(RFPDupeFilter):
    def request_fingerprint(self, request: Request) -> str:
        return request.url.split("/")[2]


def test_workers_with_other_fingerprints_do_not_share_a_frontier(make: Make) -> None:
    make()
    with pytest.raises(
        FrontierMismatchError, match=r"REQUEST_FINGERPRINTER_CLASS .*ByHost.request_fingerprint"
    ):
        make(DUPEFILTER_CLASS=ByHost)


def test_workers_may_call_pickle_by_either_name(make: Make) -> None:
    make(SCHEDULER_SERIALIZER="pickle")
    make(SCHEDULER_SERIALIZER="scrapy_rq_sched.picklecompat")


def test_a_scheduler_that_is_closed_does_not_join_again_when_it_is_asked_for_its_length(
    make: Make, server: redis.Redis
) -> None:
    scheduler = make()
    scheduler.enqueue_request(Request(URL))
    scheduler.close("shutdown")
    assert len(scheduler) == 0
    assert server.zcard("example:workers") == 0
