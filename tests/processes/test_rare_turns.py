"""Turns that a crawl rarely takes: late releases, lost replies, large entries, second thoughts."""

from __future__ import annotations

import pytest
import redis
from scrapy import Request

from scrapy_rq_sched import RedisSpider
from scrapy_rq_sched.errors import RedisUnreachableError
from scrapy_rq_sched.frontier.messages import Batch, Finished, Push

from ..support.by_hand import URL, Make, urls
from ..support.client import Client, Join, payloads
from ..support.crawl import Fleet, wait_until

MEGABYTE = 1024 * 1024


def presume_dead(server: redis.Redis, worker: Client) -> None:
    server.zadd("s:workers", {worker.name: 1})


# -- a worker that was only slow -------------------------------------------------------------------------


@pytest.mark.parametrize("pushes", [1, 0], ids=["no room", "after failures"])
def test_a_late_release_does_not_count_before_its_children_are_stored(
    join: Join, server: redis.Redis, pushes: int
) -> None:
    bound = {"max_waiting": 1}
    slow, other = join("slow", bounds=bound), join("other", bounds=bound)
    slow.push("parent")
    (lease,) = slow.take(1)
    slow.say(begun=lease.name)
    presume_dead(server, slow)
    assert other.say().returned == 1
    child = Push("filter", "fp-child", 0, b"child")
    batch = Batch(slow.number + 1, in_hand=1, pushes=[child], finished=[Finished(lease.name, 1)])
    assert slow.frontier.exchange(batch.of_first(pushes)).stored == 0
    assert payloads(other.take(1)) == ["parent"]


def test_a_repeat_tells_the_leases_in_the_order_in_which_they_were_told_first(join: Join) -> None:
    worker = join()
    worker.push(*(f"{number:03d}" + "x" * 100 for number in range(200)))
    first = worker.take(200)
    assert worker.repeat(want=200).leases == first


# -- large entries -----------------------------------------------------------------------------------------


def size_of(leases: list[object]) -> int:
    return sum(len(lease.payload) for lease in leases)  # type: ignore[attr-defined]


def test_large_requests_behind_small_ones_are_not_handed_out_all_at_once(join: Join, discipline: str) -> None:
    worker = join()
    large = [Push("force", "", 0, b"%d" % number + b"x" * MEGABYTE) for number in range(16)]
    small = [Push("force", "", 1, b"small %d" % number) for number in range(21)]
    for push in large if discipline == "lifo" else small + large:
        worker.say(pushes=[push])
    if discipline == "lifo":
        worker.say(pushes=small)
    leases = worker.take(256)
    assert len(leases) > len(small)
    assert size_of(leases) < 6 * MEGABYTE
    seen = [*leases]
    while leases := worker.take(256):
        seen += leases
    assert len(seen) == len(small) + len(large)


def test_large_seeds_are_not_handed_out_all_at_once(join: Join, server: redis.Redis) -> None:
    for _ in range(30):
        server.rpush("s:start_urls", b"x" * (MEGABYTE // 2))
    worker = join()
    assert 1 <= len(worker.say(want_seeds=100).leases) <= 9
    assert server.llen("s:start_urls") >= 21


# -- everything is gone ------------------------------------------------------------------------------------


def test_each_worker_is_told_that_the_frontier_is_gone(join: Join, server: redis.Redis) -> None:
    first, second = join("first"), join("second")
    first.push(*map(str, range(20)))
    first.take(5)
    second.take(5)
    server.flushall()
    assert first.say(in_hand=5).lost == ("frontier",)
    assert second.say(in_hand=5).lost == ("frontier",)
    assert second.say(in_hand=5).lost == ()


def test_a_worker_may_join_after_everything_was_deleted_in_mid_crawl(make: Make, server: redis.Redis) -> None:
    first = make()
    first.enqueue_request(Request(f"{URL}1"))
    server.flushall()
    first.enqueue_request(Request(f"{URL}2"))
    assert f"{URL}2" in urls(make())


# -- the end -----------------------------------------------------------------------------------------------


def test_a_worker_that_joins_after_the_end_it_was_started_for_does_not_say_when_that_was(
    join: Join, server: redis.Redis
) -> None:
    first = join("first")
    first.push("one", mode="start+filter")
    (lease,) = first.take(1)
    first.say(finished=[lease.name], in_hand=0)
    first.say(finishing=True, in_hand=0)
    assert first.frontier.leave(finished=True, persist=False).cleared
    finished = server.get("s:finished")
    late = join("late", age=60.0)
    assert late.push("one", mode="start+filter").duplicates == (0,)
    late.say(finishing=True, in_hand=0)
    late.frontier.leave(finished=True, persist=False)
    assert server.get("s:finished") == finished


def test_to_leave_twice_clears_a_compact_filter_wholly(
    join: Join, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = join(dupefilter="compact")
    worker.push(*map(str, range(3000)))
    while leases := worker.take(1000):
        worker.say(finished=[lease.name for lease in leases], in_hand=0)
    worker.say(finishing=True, in_hand=0)
    with monkeypatch.context() as patch:
        patch.setattr(worker.frontier, "_sweep", lambda: None)  # the reply was lost
        worker.frontier.leave(finished=True, persist=False)
    worker.frontier.leave(finished=True, persist=False)
    assert [key for key in server.scan_iter() if server.ttl(key) < 0] == []


def test_a_clock_that_was_set_back_does_not_hide_the_end_from_a_large_fleet(
    join: Join, server: redis.Redis
) -> None:
    workers = [join(f"worker{number}") for number in range(60)]
    seconds, _ = server.time()
    server.hset("s:meta", "fleet", f"{(seconds + 3600) * 1000} 1 0")
    assert workers[0].say(in_hand=0).finished


class StayingSpider(RedisSpider):
    """Waits for seeds."""

    name = "example"


@pytest.mark.parametrize("reason", ["memusage_exceeded", "redeploy"])
def test_an_idle_spider_that_waits_for_seeds_keeps_its_fingerprints_when_it_is_closed(
    make: Make, server: redis.Redis, reason: str
) -> None:
    scheduler = make(StayingSpider)
    scheduler.enqueue_request(Request(URL))
    assert urls(scheduler) == [URL]
    scheduler.close(reason)
    assert server.exists("example:dupefilter")


# -- by hand -----------------------------------------------------------------------------------------------


def test_a_scheduler_by_hand_may_be_closed_and_opened_again(make: Make) -> None:
    scheduler = make(SCHEDULER_PERSIST=True)
    scheduler.enqueue_request(Request(URL))
    scheduler.close("shutdown")
    assert not scheduler.has_pending_requests()
    scheduler.open(scheduler.spider)
    assert len(scheduler) == 1
    assert urls(scheduler) == [URL]


@pytest.mark.single("the largest entry that it takes")
def test_a_request_that_cannot_be_sent_does_not_stop_a_scheduler_by_hand(
    make: Make, server: redis.Redis
) -> None:
    scheduler = make()
    largest = server.config_get("proto-max-bulk-len")["proto-max-bulk-len"]
    server.config_set("proto-max-bulk-len", MEGABYTE)
    taken: list[str] = []
    try:
        with pytest.raises(RedisUnreachableError):
            scheduler.enqueue_request(Request(f"{URL}large", body=b"x" * 2 * MEGABYTE))

        def take() -> bool:
            try:
                scheduler.enqueue_request(Request(f"{URL}small"))
                taken.extend(urls(scheduler))
            except RedisUnreachableError:
                return False
            return len(taken) == 2

        wait_until(take)
    finally:
        server.config_set("proto-max-bulk-len", largest)
    assert sorted(taken) == [f"{URL}large", f"{URL}small"]


# -- what kills, and what refuses ----------------------------------------------------------------------------


def test_a_seed_that_kills_its_workers_is_set_aside(fleet: Fleet, server: redis.Redis) -> None:
    server.rpush("deadlyseed:start_urls", "deadly")
    settings = {
        "SPIDER_MODULES": "crawls.unusual",
        "FRONTIER_LEASE_TIMEOUT": 0.5,
        "FRONTIER_MAX_DELIVERIES": 3,
    }
    for _ in range(12):
        fleet.start("deadlyseed", **settings)
        number = len(fleet.workers) - 1
        wait_until(
            lambda number=number: fleet.workers[number].poll() is not None or server.llen("deadlyseed:failed")
        )
        if server.llen("deadlyseed:failed"):
            break
    assert server.llen("deadlyseed:failed") == 1


def test_a_queue_of_the_users_own_that_redis_refuses_something_goes_on_with_the_rest(fleet: Fleet) -> None:
    queue = "crawls.unusual.RefusingQueue"
    fleet.start("graph", GRAPH_PAGES=60, SCHEDULER_QUEUE_CLASS=queue)
    fleet.wait()
    assert len(fleet.urls("parsed")) == 60
    assert fleet.reasons() == ["finished"]
