"""Whatever a crawl leaves behind, however it ended, the next one crawls what it should."""

from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest
import redis

from scrapy_rq_sched.connection import ResponseError
from scrapy_rq_sched.errors import FrontierMismatchError
from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.inspect.status import Status

from ..project.crawls.graph import page_url
from ..support.client import Client, Join, failed, payloads
from ..support.crawl import Fleet, wait_until


def expire(server: redis.Redis) -> None:
    """Have all keys that have a time to live be gone, as they are after some minutes."""
    for key in server.scan_iter():
        if server.ttl(key) > 0:
            server.delete(key)


def crawl_to_the_end(worker: Client, *names: str) -> None:
    worker.push(*names)
    leases = worker.take(len(names))
    assert worker.say(finished=[lease.name for lease in leases], in_hand=0).finished


def sees_nothing(join: Join, name: str) -> bool:
    return join(name).push("one", mode="start+filter").duplicates == ()


@pytest.mark.parametrize("minutes", [0, 10], ids=["at once", "after ten minutes"])
def test_a_crawl_with_an_idle_worker_killed_before_its_end_is_cleared_by_the_next(
    join: Join, server: redis.Redis, minutes: int
) -> None:
    last, killed = join("last"), join("killed")
    killed.say()
    last.push("one", mode="start+filter")
    (lease,) = last.take(1)
    last.say(finished=[lease.name], in_hand=0)
    last.say(finishing=True, in_hand=0)
    assert not last.frontier.leave(finished=True, persist=False).cleared
    if minutes:
        expire(server)
    assert sees_nothing(join, "next")


def test_the_last_worker_to_leave_a_finished_crawl_clears_it_for_any_reason(join: Join) -> None:
    first, last = join("first"), join("last")
    crawl_to_the_end(first, "one")
    first.say(finishing=True, in_hand=0)
    first.frontier.leave(finished=True, persist=False)
    assert last.frontier.leave(finished=False, persist=False).cleared
    assert sees_nothing(join, "next")


def test_a_finish_holds_though_no_worker_could_leave(join: Join, server: redis.Redis) -> None:
    worker = join("worker")
    crawl_to_the_end(worker, "one")
    worker.say(finishing=True, in_hand=0)
    expire(server)
    assert sees_nothing(join, "next")


def test_a_crawl_that_goes_on_after_a_finish_has_not_finished(join: Join, server: redis.Redis) -> None:
    first, other = join("first"), join("other")
    crawl_to_the_end(first, "one")
    first.say(finishing=True, in_hand=0)
    first.frontier.leave(finished=True, persist=False)
    other.push("two")
    assert not other.frontier.leave(finished=False, persist=False).cleared
    assert server.exists("s:dupefilter")


def test_an_idle_spider_that_waits_for_seeds_has_not_finished(join: Join, server: redis.Redis) -> None:
    worker = join("worker")
    crawl_to_the_end(worker, "one")
    assert not worker.frontier.leave(finished=False, persist=False).cleared
    assert server.exists("s:dupefilter")


def test_a_persistent_finish_is_dealt_with_and_the_filter_stays(join: Join, server: redis.Redis) -> None:
    worker = join("worker")
    crawl_to_the_end(worker, "one")
    worker.say(finishing=True, in_hand=0)
    worker.frontier.leave(finished=True, persist=True)
    expire(server)
    later = join("later")
    assert later.push("one").duplicates == (0,)


def test_a_worker_that_slept_through_the_end_does_not_say_when_it_was(
    join: Join, server: redis.Redis
) -> None:
    asleep, last = join("asleep", lease=0.1), join("last")
    asleep.say()
    crawl_to_the_end(last, "one")
    wait_until(lambda: last.say(in_hand=0).dead)
    last.say(finishing=True, in_hand=0)
    assert last.frontier.leave(finished=True, persist=False).cleared
    finished = server.get("s:finished")
    asleep.say(in_hand=0)
    asleep.say(finishing=True, in_hand=0)
    asleep.frontier.leave(finished=True, persist=False)
    assert server.get("s:finished") == finished


def test_an_exchange_that_comes_after_its_worker_has_left_changes_nothing(
    join: Join, server: redis.Redis
) -> None:
    gone, other = join("gone"), join("other")
    other.push("one")
    gone.say()
    epoch = other.say().epoch
    gone.frontier.leave(finished=False, persist=False)
    with pytest.raises(ResponseError, match="has left"):
        gone.say(want=1)
    assert other.say().epoch == epoch
    assert server.zrange("s:workers", 0, -1) == [b"other"]
    assert payloads(other.take(1)) == ["one"]


def test_a_crawl_that_never_began_leaves_nothing_without_a_time_to_live(
    join: Join, server: redis.Redis
) -> None:
    join("worker").frontier.leave(finished=False, persist=False)
    assert [key for key in server.scan_iter() if server.ttl(key) < 0] == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_is_late_for_a_finished_crawl_leaves_nothing_without_a_time_to_live(
    join: Join, server: redis.Redis, workers: int
) -> None:
    first = join("first")
    first.push("one", mode="start+filter")
    first.say(finished=[first.take(1)[0].name], in_hand=0)
    first.say(finishing=True, in_hand=0)
    assert first.frontier.leave(finished=True, persist=False).cleared
    late = [join(f"late{number}", age=60.0, busy=True) for number in range(workers)]
    for worker in late:
        assert worker.push("one", mode="start+filter").duplicates == (0,)
        worker.say(in_hand=0)
    for worker in late:
        worker.say(in_hand=0, finishing=True)
        worker.frontier.leave(finished=True, persist=False)
    assert [key for key in server.scan_iter() if server.ttl(key) < 0] == []
    Frontier(server, late[0].frontier.keys, "next", "fifo").open({"SCHEDULER_SERIALIZER": "pickle"})


def test_a_worker_that_was_killed_before_it_began_binds_no_crawl_to_its_settings(
    join: Join, server: redis.Redis
) -> None:
    killed = join("killed", busy=True)
    server.zadd(killed.frontier.keys.workers, {"killed": 1})
    Frontier(server, killed.frontier.keys, "next", "fifo").open({"SCHEDULER_SERIALIZER": "pickle"})
    with pytest.raises(FrontierMismatchError):
        join("other")


# -- deaths that are nobody's fault ----------------------------------------------------------------------


def test_a_request_that_dead_workers_had_not_begun_is_never_set_aside(
    join: Join, server: redis.Redis
) -> None:
    alive = join("alive")
    alive.push("innocent")
    for number in range(12):
        dying = join(f"dying{number}")
        assert payloads(dying.take(1)) == ["innocent"]
        server.zadd("s:workers", {f"dying{number}": 1})
        assert alive.say().returned == 1
    assert failed(server) == []
    (lease,) = alive.take(1)
    assert lease.deaths == 12


def test_a_request_that_a_slow_worker_finishes_after_all_is_not_crawled_again(
    join: Join, server: redis.Redis
) -> None:
    slow, other = join("slow"), join("other")
    slow.push("one")
    (lease,) = slow.take(1)
    slow.say(begun=lease.name)
    server.zadd("s:workers", {"slow": 1})
    assert other.say().returned == 1
    slow.say(finished=[lease.name], in_hand=0)
    assert other.take(1) == []
    assert other.say(in_hand=0).finished


def test_a_request_of_two_slow_workers_ends_when_one_of_them_has_finished_it(
    join: Join, server: redis.Redis
) -> None:
    first, second, third = join("first"), join("second"), join("third")
    first.push("one")
    (lease,) = first.take(1)
    first.say(begun=lease.name)
    server.zadd("s:workers", {"first": 1})
    (again,) = second.take(1)
    second.say(begun=again.name)
    first.say(finished=[lease.name], in_hand=0)
    server.zadd("s:workers", {"second": 1})
    third.say()
    assert third.take(1) == []
    assert third.say(in_hand=0).finished


# -- what is gone from Redis -------------------------------------------------------------------------------


def test_requests_that_vanish_are_told_of_with_their_number(join: Join, server: redis.Redis) -> None:
    worker = join("worker")
    worker.push(*map(str, range(40)))
    server.delete("s:requests")
    assert worker.say().lost == ("requests", "40")
    assert worker.say().lost == ()


def test_a_filter_that_vanishes_is_told_of(join: Join, server: redis.Redis) -> None:
    worker = join("worker")
    worker.push(*map(str, range(40)))
    server.delete("s:dupefilter")
    assert worker.say().lost == ("dupefilter", "40")


def test_a_queue_that_is_worked_off_has_not_vanished(join: Join, discipline: str) -> None:
    worker = join("worker")
    worker.push(*map(str, range(40)))
    assert len(worker.take(40)) == 40
    assert worker.say().lost == ()


def test_a_frontier_that_vanishes_is_told_of_and_made_anew(join: Join, server: redis.Redis) -> None:
    worker = join("worker")
    worker.push("one")
    server.flushall()
    reply = worker.say()
    assert reply.lost == ("frontier",)
    assert reply.epoch
    assert worker.push("one").duplicates == ()


# -- whole crawls ------------------------------------------------------------------------------------------


def pages(count: int) -> set[str]:
    return {page_url(number) for number in range(count)}


def test_a_spider_that_closes_itself_when_it_is_idle_crawls_everything_the_next_time_as_well(
    fleet: Fleet, server: redis.Redis
) -> None:
    for crawl in (1, 2):
        fleet.start("ownreason", GRAPH_PAGES=30, SPIDER_MODULES="crawls.unusual")
        fleet.wait()
        assert fleet.urls("parsed") == dict.fromkeys(pages(30), crawl)
    assert fleet.reasons() == ["nothing_left"] * 2


def test_start_requests_are_crawled_filtered_and_unfiltered_as_scrapy_does_it(fleet: Fleet) -> None:
    fleet.start("twice", 2, SPIDER_MODULES="crawls.unusual")
    fleet.wait()
    assert fleet.urls("downloaded") == {page_url(1): 2, page_url(2): 2}


@pytest.mark.single("the largest entry that it takes")
def test_a_request_that_redis_does_not_take_holds_up_no_other(fleet: Fleet, server: redis.Redis) -> None:
    largest = server.config_get("proto-max-bulk-len")["proto-max-bulk-len"]
    server.config_set("proto-max-bulk-len", 1024 * 1024)
    try:
        fleet.start("large", SPIDER_MODULES="crawls.unusual", CONCURRENT_REQUESTS=4)
        fleet.wait()
    finally:
        server.config_set("proto-max-bulk-len", largest)
    assert fleet.urls("parsed") == dict.fromkeys(pages(101), 1)
    assert fleet.reasons() == ["finished"]
    assert "bytes cannot be sent to Redis" in fleet.log()


@pytest.mark.long
def test_a_seed_that_stands_for_very_many_requests_does_not_make_its_worker_count_as_dead(
    fleet: Fleet, server: redis.Redis
) -> None:
    # Made in one go, so many requests take 6 s, on any machine.
    settings = {"FRONTIER_LEASE_TIMEOUT": 3}
    fleet.start("manyseeds", 2, SPIDER_MODULES="crawls.unusual", **settings)
    wait_until(lambda: len(fleet.events("opened")) == 2)
    server.rpush("manyseeds:start_urls", 600)
    wait_until(lambda: fleet.urls("parsed") == {page_url(1): 1, page_url(2): 1}, 240)
    for worker in (0, 1):
        assert "Workers that died" not in fleet.log(worker)
        assert "counted as dead" not in fleet.log(worker)
    assert server.llen("manyseeds:failed") == 0


def test_a_callback_that_computes_for_longer_than_a_lease_is_not_set_aside(
    fleet: Fleet, server: redis.Redis
) -> None:
    settings = {"FRONTIER_LEASE_TIMEOUT": 0.6, "FRONTIER_MAX_DELIVERIES": 2, "CONCURRENT_REQUESTS": 4}
    fleet.start("slowpage", 2, GRAPH_PAGES=30, SPIDER_MODULES="crawls.unusual", **settings)
    fleet.wait()
    assert set(fleet.urls("parsed")) == pages(30)
    # What stood beside it in both workers may be: two deaths are all that are allowed here.
    assert page_url(5) not in {json.loads(entry["data"])["url"] for entry in failed(server, "slowpage")}


@pytest.mark.long
def test_a_callback_that_never_returns_is_set_aside_by_the_last_worker_that_does_not_hang(
    fleet: Fleet, server: redis.Redis
) -> None:
    limits = {"FRONTIER_LEASE_TIMEOUT": 3, "FRONTIER_MAX_DELIVERIES": 3, "CONCURRENT_REQUESTS": 4}
    site = {"GRAPH_PAGES": 100, "GRAPH_LATENCY": 0.1, "SPIDER_MODULES": "crawls.unusual"}
    fleet.start("hanging", 4, "-a", "waits=1", **limits, **site)
    wait_until(lambda: fleet.reasons() == ["finished"])
    assert set(fleet.urls("parsed")) == pages(100) - {page_url(50)}
    assert len(fleet.events("hangs")) == 3
    assert [json.loads(entry["data"])["url"] for entry in failed(server, "hanging")] == [page_url(50)]


def test_the_second_crawl_of_a_persistent_spider_logs_how_many_urls_it_has_seen(fleet: Fleet) -> None:
    fleet.start("graph", GRAPH_PAGES=30, SCHEDULER_PERSIST=True)
    fleet.wait()
    fleet.start("graph", GRAPH_PAGES=30, SCHEDULER_PERSIST=True)
    fleet.wait()
    assert "30 URLs were seen by an earlier crawl of spider 'graph'" in fleet.log(1)
    assert "SCHEDULER_FLUSH_ON_START" in fleet.log(1)


def test_another_project_with_the_same_spider_is_refused_with_the_setting_to_use(fleet: Fleet) -> None:
    fleet.start("graph", GRAPH_PAGES=200, GRAPH_LATENCY=1)
    wait_until(lambda: fleet.events("parsed"))
    fleet.start("graph", BOT_NAME="another")
    fleet.wait(workers=[1])
    assert "belongs to another project" in fleet.log(1)
    assert "FRONTIER_JOB" in fleet.log(1)
    assert fleet.workers[1].returncode == 1
    fleet.start("graph", BOT_NAME="another", FRONTIER_PROJECT="crawls/crawls.spiders.GraphSpider")
    wait_until(lambda: fleet.events("opened", 2))


def test_a_crawl_says_at_its_begin_and_its_end_that_something_was_set_aside(
    fleet: Fleet, server: redis.Redis
) -> None:
    server.rpush("graph:failed", "{}")
    fleet.start("graph", GRAPH_PAGES=5)
    fleet.wait()
    assert fleet.log().count("The failed list of spider 'graph' has 1 entry: ") == 2


def test_a_spider_with_requests_that_cannot_be_shared_logs_errors(fleet: Fleet) -> None:
    fleet.start("unshared", SPIDER_MODULES="crawls.unusual")
    fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys(pages(150), 1)
    errors = [line for line in fleet.log().splitlines() if "ERROR" in line and "cannot be shared" in line]
    assert len(errors) == 2
    assert "99 % of the requests found by this worker (99 of 100)" in errors[0]
    assert "meta['kept'] is a set" in errors[1]


def test_a_start_that_waits_for_an_empty_scheduler_is_read_as_lazily_as_it_asks_for(fleet: Fleet) -> None:
    fleet.start("lazy", GRAPH_PAGES=300, GRAPH_LATENCY=0.05, SPIDER_MODULES="crawls.unusual")
    fleet.wait()
    assert len(fleet.urls("parsed")) == 300
    begun, ahead = 0, []
    for event in sorted([*fleet.events("read"), *fleet.events("downloaded")], key=lambda event: event.time):
        begun += 1 if event.kind == "read" else -1
        ahead.append(begun)
    # Some times the 16 concurrent requests, and far from all: this worker may stand still for a moment.
    assert max(ahead) <= 4 * 16


def test_a_crawl_without_any_request_ends_as_finished(fleet: Fleet) -> None:
    fleet.start("empty", 2, SPIDER_MODULES="crawls.unusual")
    fleet.wait()
    assert fleet.reasons() == ["finished", "finished"]


def test_status_and_doctor_say_that_the_work_is_not_shared(join: Join, server: redis.Redis) -> None:
    worker = join("worker")
    worker.push("one")
    worker.say(found=200, local_only=196, local_only_reason="meta['kept'] is a set")
    found = server.hmget("s:meta", "found", "unshared", "unshared_reason")
    assert found == [b"200", b"196", b"meta['kept'] is a set"]
    status = replace(
        Status("s", "s:requests", "crawling", 0.0), found=200, unshared=196, unshared_reason="why"
    )
    assert status.unshared_share == "98 % of the requests found (196 of 200): why"
    assert not replace(status, unshared=2).unshared_share
    # Another program has changed the numbers.
    assert replace(status, found=0).unshared_share


def test_a_worker_that_is_stopped_while_it_makes_requests_of_a_seed_makes_each_once(
    fleet: Fleet, server: redis.Redis
) -> None:
    fleet.start("longseed", SPIDER_MODULES="crawls.unusual", GRAPH_LATENCY=0.2)
    wait_until(lambda: fleet.events("opened"))
    server.rpush("longseed:start_urls", 600)
    wait_until(lambda: fleet.events("parsed"))
    fleet.kill(0, signal.SIGINT)
    fleet.wait()
    fleet.start("longseed", SPIDER_MODULES="crawls.unusual")
    wait_until(lambda: len(fleet.urls("parsed")) == 600, 60)
    fleet.kill(1, signal.SIGINT)
    fleet.wait()
    assert fleet.urls("downloaded") == dict.fromkeys(pages(600), 1)
