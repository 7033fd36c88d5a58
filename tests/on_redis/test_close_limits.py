"""``FRONTIER_CLOSE_PAGECOUNT`` and the like, on a real Redis: when a whole fleet is told to close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.frontier.close_limits import CloseLimits
from scrapy_rq_sched.frontier.replies import Order
from scrapy_rq_sched.keys import Keys

from ..support.client import Client
from ..support.crawl import wait_until

Worker = Callable[..., Client]


@pytest.fixture
def worker(server: redis.Redis) -> Worker:
    """Return what makes a worker of a fleet that closes."""

    def make(name: str, **limits: Any) -> Client:
        keys = Keys("s", hash_tag=needs_hash_tag(server))
        return Client(server, name, "priority", 30, 5, keys=keys, close=CloseLimits(**limits)).open()

    return make


@pytest.mark.parametrize("name", ["pagecount", "itemcount", "errorcount"])
def test_all_are_told_to_stop_when_together_they_have_done_as_much(worker: Worker, name: str) -> None:
    one, other = worker("one", **{name: 10}), worker("other", **{name: 10})
    assert one.say(counted={name: 6}).order == Order.CRAWL
    assert other.say(counted={name: 3}).order == Order.CRAWL
    reply = other.say(counted={name: 1})
    assert (reply.order, reply.stop_reason) == (Order.STOP, f"closespider_{name}")
    reply = one.say()
    assert (reply.order, reply.stop_reason) == (Order.STOP, f"closespider_{name}")


def test_a_repeated_exchange_counts_once(worker: Worker) -> None:
    one = worker("one", pagecount=10)
    one.say(counted={"pagecount": 6})
    assert one.repeat(counted={"pagecount": 6}).order == Order.CRAWL
    assert one.say(counted={"pagecount": 3}).order == Order.CRAWL
    assert one.say(counted={"pagecount": 1}).order == Order.STOP


def test_a_count_without_a_limit_is_not_held_against_another_limit(worker: Worker) -> None:
    one = worker("one", pagecount=10)
    assert one.say(counted={"itemcount": 100, "errorcount": 100, "pagecount": 9}).order == Order.CRAWL


def test_one_that_joins_while_the_others_close_is_told_so_too(worker: Worker) -> None:
    one = worker("one", pagecount=10)
    assert one.say(counted={"pagecount": 10}).order == Order.STOP
    late = worker("late", pagecount=10)
    assert late.say().order == Order.STOP


def test_a_fleet_that_starts_anew_may_do_as_much_again(worker: Worker) -> None:
    one = worker("one", pagecount=10)
    one.push("a", "b")
    assert one.say(counted={"pagecount": 10}).order == Order.STOP
    one.frontier.leave(False, True)
    again = worker("again", pagecount=10)
    reply = again.say(counted={"pagecount": 9}, want=1)
    assert (reply.order, len(reply.leases)) == (Order.CRAWL, 1)
    assert again.say(counted={"pagecount": 1}).order == Order.STOP


def test_a_fleet_closes_after_so_many_seconds(worker: Worker) -> None:
    one = worker("one", timeout=0.3)
    assert one.say().order == Order.CRAWL
    wait_until(lambda: one.say().order == Order.STOP, timeout=5)
    assert one.say().stop_reason == "closespider_timeout"


def test_the_time_is_counted_anew_where_redis_has_lost_when_it_began(
    worker: Worker, server: redis.Redis
) -> None:
    one = worker("one", timeout=0.3)
    server.hdel(one.frontier.keys.meta, "run_since")
    assert one.say().order == Order.CRAWL
    wait_until(lambda: one.say().order == Order.STOP, timeout=5)


def test_a_stop_by_hand_replaces_the_reason_of_a_close_limit(worker: Worker, server: redis.Redis) -> None:
    one = worker("one", pagecount=10)
    assert one.say(counted={"pagecount": 10}).stop_reason == "closespider_pagecount"
    later = worker("later", pagecount=20)
    meta = one.frontier.keys.meta
    server.hdel(meta, "stop_reason")  # as `scrapy frontier stop` does
    server.hset(meta, "stop", 2**52)
    assert later.say().stop_reason == "stopped"


@pytest.mark.parametrize("garbage", [b"x", b"\xff\x00", b"1e400", b"-5"])
def test_garbage_in_the_counts_counts_as_nothing(worker: Worker, server: redis.Redis, garbage: bytes) -> None:
    one = worker("one", pagecount=10, timeout=1000)
    meta = one.frontier.keys.meta
    server.hset(meta, mapping={"run_itemcount": garbage, "run_errorcount": garbage, "stop_reason": garbage})
    assert one.say(counted={"pagecount": 1}).order == Order.CRAWL
    assert one.say(counted={"pagecount": 9}).stop_reason == "closespider_pagecount"


def test_without_limits_nothing_of_it_is_written(worker: Worker, server: redis.Redis) -> None:
    one = worker("one")
    one.say(counted={"pagecount": 9})
    assert not [name for name in server.hgetall(one.frontier.keys.meta) if name.endswith(b"count")]
