"""The compact dupefilter: as right as the exact one, in a tenth of its memory."""

from __future__ import annotations

import random
from collections.abc import Iterable
from hashlib import sha1

import pytest
import redis
from scrapy import Request
from scrapy.core.scheduler import Scheduler as ScrapysScheduler
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import CompactDupeFilter
from scrapy_rq_sched.errors import FrontierMismatchError, RedisUnsuitableError
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.frontier.scripts import filter_step

from ..conftest import INTSETS
from ..processes.test_crawl import pages
from ..support.client import Client, Join, compact_member, compact_members
from ..support.crawl import Fleet
from ..unit.test_request import PagesSpider

KEY = "s:dupefilter"
COMPACT = {"DUPEFILTER_CLASS": "scrapy_rq_sched.CompactDupeFilter"}


def a_fingerprint(number: int) -> str:
    return sha1(b"%d" % number).hexdigest()


def push(worker: Client, numbers: Iterable[int]) -> tuple[int, ...]:
    """Push requests, and return which of them were duplicates, by their place."""
    pushes = [Push("filter", a_fingerprint(number), 0, b"%d" % number) for number in numbers]
    return worker.say(pushes=pushes).duplicates


def buckets(server: redis.Redis) -> list[bytes]:
    names = server.scan_iter(f"{KEY}:*")
    return [name for name in names if server.type(name) == b"set" and not name.endswith(b":frontiers")]


@pytest.mark.slow
@pytest.mark.parametrize(("largest", "bytes_a_url"), [(512, 12), (128, 15), (16, 45)])
def test_a_compact_filter_is_exact_and_small_with_each_limit_of_the_server(
    server: redis.Redis, largest: int, bytes_a_url: float
) -> None:
    server.config_set(INTSETS, largest)
    step, seen, choose = filter_step(server, KEY, "compact"), set(), random.Random(largest)
    for _ in range(12_000):
        number = choose.randrange(20_000)
        if choose.random() < 0.1:
            assert step("remove", a_fingerprint(number)) == (number in seen)
            seen.discard(number)
        else:
            assert step("add", a_fingerprint(number)) == (number not in seen)
            seen.add(number)
    assert sorted(compact_members(server)) == sorted(compact_member(a_fingerprint(n)) for n in seen)
    assert {server.object("encoding", name) for name in buckets(server)} == {b"intset"}
    assert int(server.hget(f"{KEY}:buckets", "count")) == len(seen)
    assert sum(server.memory_usage(name) for name in buckets(server)) < bytes_a_url * len(seen)


def test_buckets_are_split_again_on_a_server_that_takes_less_for_small(
    join: Join, server: redis.Redis
) -> None:
    first = join(dupefilter="compact")
    push(first, range(900))
    server.config_set(INTSETS, 64)
    again = join("b", dupefilter="compact")
    for start in range(0, 100, 10):
        push(again, range(900 + start, 910 + start))
    assert max(server.scard(name) for name in buckets(server)) <= 64
    assert push(first, range(1000)) == tuple(range(1000))


@pytest.mark.parametrize("fingerprint", ["example.com", "", "x" * 40, "ab" * 20, "AB" * 20, "é" * 20])
def test_a_fingerprint_may_be_any_text(server: redis.Redis, fingerprint: str) -> None:
    step = filter_step(server, KEY, "compact")
    assert [step(what, fingerprint) for what in ("add", "add", "remove", "remove")] == [1, 0, 1, 0]


@pytest.mark.parametrize("alike", ["ab" * 8, "-1234567" * 2, "0x123456" * 2], ids=["hex", "minus", "0x"])
def test_fingerprints_that_begin_alike_are_told_apart(server: redis.Redis, alike: str) -> None:
    step = filter_step(server, KEY, "compact")
    assert [step("add", f"{alike}{number:024d}") for number in (1, 2, 3, 1)] == [1, 1, 1, 0]


def test_a_step_of_a_thousand_new_urls_splits_no_more_than_some_buckets(
    join: Join, server: redis.Redis
) -> None:
    worker = join(dupefilter="compact")
    for start in range(0, 20_000, 1000):
        before = len(buckets(server))
        push(worker, range(start, start + 1000))
        assert len(buckets(server)) - before <= 8
    sizes = [server.scard(name) for name in buckets(server)]
    assert sum(sizes) == 20_000
    assert sum(sizes) / len(sizes) <= 200


def test_duplicates_are_found_within_an_exchange_and_between_them(join: Join) -> None:
    worker, other = join(dupefilter="compact"), join("b", dupefilter="compact")
    assert push(worker, [1, 2, 1]) == (2,)
    assert push(other, [2, 3]) == (0,)


def test_a_forgotten_url_is_new_again(join: Join) -> None:
    worker = join(dupefilter="compact")
    push(worker, range(500))
    epoch = worker.say().epoch
    assert worker.say(forgotten=[("filter", a_fingerprint(7))]).epoch != epoch
    assert push(worker, [6, 7, 8]) == (0, 2)


def test_an_overwritten_bucket_costs_only_its_own_fingerprints(join: Join, server: redis.Redis) -> None:
    worker = join(dupefilter="compact")
    push(worker, range(150))
    (bucket,) = buckets(server)
    server.set(bucket, "something else")
    assert push(worker, range(150)) == ()
    assert push(worker, range(150)) == tuple(range(150))


def test_a_full_redis_refuses_a_url_and_forgets_none(server: redis.Redis) -> None:
    step = filter_step(server, KEY, "compact")
    for number in range(100):
        step("add", a_fingerprint(number))
    server.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.exceptions.ResponseError, match=r"OOM|maxmemory"):
            step("add", a_fingerprint(100))
    finally:
        server.config_set("maxmemory", 0)
    assert [step("add", a_fingerprint(number)) for number in range(101)] == [0] * 100 + [1]


@pytest.mark.parametrize("first", ["inf", "-1", "0", "1.5", "1e300", "nan", "many"])
def test_a_state_that_makes_no_sense_is_begun_anew(join: Join, server: redis.Redis, first: str) -> None:
    worker = join(dupefilter="compact")
    push(worker, range(300))
    server.hset(f"{KEY}:buckets", "first", first)
    assert push(worker, range(300)) == ()
    assert push(worker, range(300)) == tuple(range(300))
    server.hset(f"{KEY}:buckets", "first", first)
    step = filter_step(server, KEY, "compact")
    step("clear")
    assert step("sweep") == 0


def test_an_entry_to_sweep_that_makes_no_sense_is_passed_over(server: redis.Redis) -> None:
    server.rpush(f"{KEY}:cleared", "x 1 " + "9" * 300, "nonsense", "a 1 3")
    step = filter_step(server, KEY, "compact")
    assert [step("sweep") for _ in range(3)] == [1, 1, 0]


# -- converting an exact filter ----------------------------------------------------------------


def an_exact_crawl(join: Join, count: int) -> None:
    exact = join("exact")
    for start in range(0, count, 500):
        push(exact, range(start, start + 500))
    exact.frontier.leave(finished=False, persist=True)


def test_an_exact_filter_is_converted_in_steps_while_the_crawl_runs(join: Join, server: redis.Redis) -> None:
    an_exact_crawl(join, 2000)
    worker = join(dupefilter="compact")
    left = [server.scard(KEY)]
    while left[-1]:
        new = 2000 + len(left)
        assert push(worker, [new - 1, new, len(left)]) == ((0, 2) if len(left) > 1 else (2,))
        left.append(server.scard(KEY))
        assert 0 < left[-2] - left[-1] <= 250
    assert not server.exists(KEY)
    assert set(compact_members(server)) >= {compact_member(a_fingerprint(n)) for n in range(2000)}
    assert push(worker, range(1000)) == tuple(range(1000))


def test_an_exact_filter_is_converted_also_by_a_worker_with_nothing_to_push(
    join: Join, server: redis.Redis
) -> None:
    an_exact_crawl(join, 500)
    worker = join(dupefilter="compact")
    worker.say()
    worker.say()
    assert not server.exists(KEY)
    assert server.hget(f"{KEY}:buckets", "count") == b"500"


def test_a_url_is_forgotten_whether_it_is_converted_or_not(join: Join, server: redis.Redis) -> None:
    an_exact_crawl(join, 1000)
    worker = join(dupefilter="compact")
    worker.say()
    everything = [("filter", a_fingerprint(number)) for number in range(1000)]
    worker.say(forgotten=everything)
    assert not server.exists(KEY)
    assert compact_members(server) == []
    assert push(worker, range(1000)) == ()


def test_an_exact_filter_is_not_converted_while_others_use_it(join: Join) -> None:
    join("exact")
    with pytest.raises(FrontierMismatchError, match=r"dupefilter 'exact'.*'compact'.*Stop all workers"):
        join("b", dupefilter="compact")


def test_a_compact_filter_is_not_taken_for_an_exact_one(join: Join) -> None:
    worker = join(dupefilter="compact")
    worker.push("one")
    worker.frontier.leave(finished=False, persist=True)
    with pytest.raises(FrontierMismatchError, match=r"dupefilter 'compact'.*'exact'"):
        join("b")


@pytest.mark.single("the name of the key in what is said")
def test_a_worker_with_an_exact_filter_does_not_join_where_another_spider_keeps_a_compact_one(
    join: Join, server: redis.Redis
) -> None:
    filter_step(server, KEY, "compact")("add", a_fingerprint(1))
    with pytest.raises(RedisUnsuitableError, match=r"'s:dupefilter' are stored by CompactDupeFilter"):
        join()


@pytest.mark.single("the name of the key in what is said")
def test_a_worker_with_an_exact_filter_does_not_go_on_where_a_compact_one_has_come(
    join: Join, server: redis.Redis
) -> None:
    worker = join()
    push(worker, [1])
    filter_step(server, KEY, "compact")("add", a_fingerprint(2))
    with pytest.raises(
        redis.exceptions.ResponseError, match=r"'s:dupefilter' are stored by CompactDupeFilter"
    ):
        push(worker, [2])


# -- clearing ----------------------------------------------------------------------------------


def test_the_end_of_a_crawl_clears_all_buckets(join: Join, server: redis.Redis) -> None:
    worker = join(dupefilter="compact")
    push(worker, range(900))
    leases = worker.take(1000)
    worker.say(finished=[lease.name for lease in leases], in_hand=0)
    assert worker.frontier.leave(finished=True, persist=False)[:2] == (True, 0)
    assert not list(server.scan_iter(f"{KEY}*"))


@pytest.mark.parametrize("name", ["buckets", "cleared"])
def test_the_end_of_a_crawl_clears_all_keys_but_an_overwritten_one(
    join: Join, server: redis.Redis, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = join(dupefilter="compact")
    push(worker, range(10))
    leases = worker.take(10)
    worker.say(finished=[lease.name for lease in leases], in_hand=0)
    server.delete(f"{KEY}:{name}")
    server.set(f"{KEY}:{name}", "something else")
    worker.frontier.leave(finished=True, persist=False)
    assert ("is not deleted yet" in caplog.text) == (name == "cleared")
    assert not server.exists("s:requests", "s:meta", KEY)
    server.delete(f"{KEY}:{name}")
    assert push(join("b", dupefilter="compact", age=0.0), range(10)) == ()


@pytest.mark.single("all of its keys")
def test_a_flush_clears_all_buckets_also_by_a_worker_with_an_exact_filter(
    join: Join, server: redis.Redis
) -> None:
    worker = join(dupefilter="compact")
    push(worker, range(900))
    worker.frontier.leave(finished=False, persist=True)
    exact = join("b", flush=True)
    assert push(exact, range(900)) == ()
    assert {*server.scan_iter(f"{KEY}*")} == {KEY.encode(), f"{KEY}:frontiers".encode()}


@pytest.mark.single("all of its keys")
def test_each_exchange_deletes_some_buckets_of_a_cleared_filter(join: Join, server: redis.Redis) -> None:
    server.config_set(INTSETS, 16)
    step = filter_step(server, KEY, "compact")
    for number in range(3000):
        step("add", a_fingerprint(number))
    step("clear")
    left = [len(buckets(server))]
    worker = join()
    # What waits for nothing else does not keep the worker from its work.
    assert len(buckets(server)) == left[0]
    while left[-1]:
        worker.say()
        left.append(len(buckets(server)))
        assert left[-2] - 100 <= left[-1] < left[-2]
    assert list(server.scan_iter(f"{KEY}*")) == [f"{KEY}:frontiers".encode()]


def test_buckets_that_a_killed_worker_had_not_swept_are_swept_by_the_next(
    join: Join, server: redis.Redis
) -> None:
    step = filter_step(server, KEY, "compact")
    for number in range(900):
        step("add", a_fingerprint(number))
    step("clear")
    assert buckets(server)
    assert step("add", a_fingerprint(1)) == 1  # the new filter is not the old one
    worker = join(dupefilter="compact")
    assert push(worker, [1, 2]) == (0,)
    assert push(worker, [1, 2]) == (0, 1)
    assert len(buckets(server)) == 1


@pytest.mark.slow
def test_a_sweep_is_made_in_steps(server: redis.Redis) -> None:
    server.config_set(INTSETS, 16)
    step = filter_step(server, KEY, "compact")
    for number in range(6000):
        step("add", a_fingerprint(number))
    count = len(buckets(server))
    assert count > 1000
    step("clear")
    assert step("sweep") == 1
    assert 900 <= count - len(buckets(server)) <= 1000  # some are empty
    while step("sweep"):
        pass
    assert not list(server.scan_iter(f"{KEY}*"))


# -- the class ---------------------------------------------------------------------------------


def test_by_itself_it_asks_redis(server: redis.Redis) -> None:
    dupefilter = CompactDupeFilter(server, KEY)
    one, two = (Request(f"http://example.com/{number}") for number in "12")
    assert [dupefilter.request_seen(request) for request in (one, one, two)] == [False, True, False]
    assert [dupefilter.forget(one), dupefilter.forget(one)] == [True, False]
    assert not dupefilter.request_seen(one)
    dupefilter.clear()
    assert not list(server.scan_iter(f"{KEY}*"))
    assert not dupefilter.request_seen(two)


def test_it_serves_scrapys_own_scheduler(redis_url: str, server: redis.Redis) -> None:
    by_itself = {"REDIS_URL": redis_url, "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}
    crawler = get_crawler(PagesSpider, {**COMPACT, **by_itself})
    crawler.spider = PagesSpider.from_crawler(crawler)
    scheduler = ScrapysScheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    request = Request("http://example.com/")
    assert [scheduler.enqueue_request(request.copy()) for _ in range(2)] == [True, False]
    assert compact_members(server, "pages:dupefilter")
    scheduler.close("finished")


@pytest.mark.slow
def test_two_workers_crawl_every_page_once_with_it(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("graph", 2, GRAPH_PAGES=500, GRAPH_LATENCY=0.01, SCHEDULER_PERSIST=True, **COMPACT)
    fleet.wait()
    assert fleet.urls("downloaded") == dict.fromkeys(pages(500), 1)
    assert fleet.reasons() == ["finished", "finished"]
    assert len(compact_members(server, "graph:dupefilter")) == 500
