"""The lanes of pools: what waits for an item holds up nothing else, and no item is lost with its user."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from scrapy_rq_sched.codec.pools import Pool, lane_of
from scrapy_rq_sched.frontier.replies import Membership, Order

from ..support.client import Client, Join, payloads

ACCOUNTS = {"pools": (Pool("accounts", items=("alice",)),)}
LIFE = {"pools": (Pool("life", is_for_worker=True, items=("alice",)),)}
LANE = lane_of("", "accounts")


def uses(server: redis.Redis) -> list[str]:
    return [use.decode() for use in server.zrange("s:pools:uses", 0, -1)]


def test_a_refused_request_is_given_to_a_worker_when_its_item_is_free(
    server: redis.Redis, join: Join
) -> None:
    first, second = join("a", bounds=ACCOUNTS), join("b", bounds=ACCOUNTS)
    first.push("x", slot="s", lane=LANE)
    (lease,) = first.take(1)
    first.say(refused=[(lease.name, "no callback")], in_hand=0)
    assert uses(server) == []
    (parked,) = server.zrange("s:delayed", 0, -1)
    server.zadd("s:delayed", {parked: 0})
    (again,) = second.take(1)
    assert (payloads([again]), again.item) == (["x"], "alice")
    # Nor is it given without an item.
    second.push("y", slot="s", lane=LANE)
    assert first.take(1) == []


@pytest.mark.parametrize("order", ["slots", "priority"])
def test_requests_that_wait_for_an_item_hold_up_no_others(join: Join, order: Any) -> None:
    worker = join("a", bounds={"order": order, **ACCOUNTS})
    for slot in "bcd":
        worker.push(f"{slot}1", f"{slot}2", slot=slot, lane=LANE, priority=5)
    worker.push("e1", "e2", slot="e", priority=1)
    taken = worker.take(3)
    assert sorted(payloads(taken)) == ["b1", "e1", "e2"]
    assert [lease.item for lease in taken].count("alice") == 1


def test_older_data_of_redis_frees_the_items_of_the_leases(server: redis.Redis, join: Join) -> None:
    worker = join("a", bounds=ACCOUNTS)
    worker.push("x", slot="s", lane=LANE)
    worker.take(1)
    assert len(uses(server)) == 1
    worker.number += 1  # an exchange that Redis does not know
    assert worker.say().membership is Membership.ROLLED_BACK
    assert uses(server) == []
    assert payloads(worker.take(1)) == ["x"]


def end(worker: Client) -> None:
    while worker.frontier.leave(finished=True, persist=False).awaits:
        pass


def test_the_item_of_a_worker_that_dies_at_the_end_is_free_in_the_next_crawl(
    server: redis.Redis, join: Join
) -> None:
    last = join("a", bounds=ACCOUNTS)
    dead = join("b", lease=0.2, bounds=LIFE)
    last.push("x")
    (lease,) = last.take(1)
    dead.say(own_items={"life": ""}, in_hand=0)
    assert uses(server) == ["life alice b/"]
    assert last.say(finished=[lease.name], in_hand=0).finished
    end(last)
    assert uses(server) == []
    following = join("c", bounds=LIFE)
    assert following.say(own_items={"life": ""}).own_items == (("life", "alice", '"alice"', ""),)


def test_an_idle_worker_leaves_its_item_to_one_that_waits(server: redis.Redis, join: Join) -> None:
    idle, waiting = join("a", bounds=LIFE), join("b", bounds=LIFE)
    assert idle.say(own_items={"life": ""}, in_hand=0).order is Order.CRAWL
    assert waiting.say(own_items={"life": ""}, in_hand=0, busy=True).order is Order.ITEM
    assert idle.say(own_items={"life": "alice"}, idle=1000, in_hand=0).order is Order.CRAWL
    assert idle.say(own_items={"life": "alice"}, idle=6000, in_hand=0).order is Order.ITEM
    assert waiting.say(own_items={"life": ""}, in_hand=0, busy=True).order is Order.CRAWL
    assert uses(server) == ["life alice b/"]
