"""Pools of items that are for one user at a time: which request or worker has one, and when it is free."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.pools import Pool
from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.errors import SettingError
from scrapy_rq_sched.frontier.messages import Failed, Push
from scrapy_rq_sched.frontier.replies import Lease, Order, Reply
from scrapy_rq_sched.frontier.scripts import register
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.operations.clear import clear

from ..support.client import Client, Start, key_of, payloads
from ..support.crawl import wait_until

LANE = "~accounts"


def accounts(*items: Any, **more: Any) -> dict[str, Any]:
    return {"pools": (Pool("accounts", items=items or ("alice", "bob"), **more),)}


def push(worker: Client, *names: str, slot: str = "a", lane: str = LANE) -> None:
    worker.push(*names, slot=slot, lane=lane)


def items(leases: list[Lease]) -> list[str]:
    return [lease.item for lease in leases]


def users(server: redis.Redis) -> list[bytes]:
    return list(server.zrange(key_of(server, "pools:uses"), 0, -1))


def change(server: redis.Redis, worker: Client, *arguments: object) -> int:
    """Change a pool as an operator does."""
    return int(register(server, "pools")(keys=worker.frontier.keys.all(), args=arguments))


# -- requests ----------------------------------------------------------------------------------------


def test_each_request_has_an_item_of_its_own(start: Start, way: dict[str, str]) -> None:
    one, other = start("one", **accounts(), **way), start("other", **accounts(), **way)
    push(one, "x", "y", "z")
    first, second = one.take(1), other.take(9)
    assert sorted(items(first + second)) == ["alice", "bob"]
    assert one.take(9) == other.take(9) == []


def test_an_item_is_free_again_when_its_request_is_finished(start: Start) -> None:
    one, other = start("one", **accounts("alice")), start("other", **accounts("alice"))
    push(one, "x", "y")
    (lease,) = one.take(9)
    assert other.take(9) == []
    one.say(finished=[lease.name])
    assert items(other.take(9)) == ["alice"]


@pytest.mark.parametrize("way_back", ["given back", "refused", "failed"])
def test_an_item_is_free_again_when_its_request_goes_back(
    start: Start, server: redis.Redis, way_back: str
) -> None:
    one = start("one", **accounts("alice"))
    push(one, "x", "y")
    (lease,) = one.take(9)
    if way_back == "given back":
        one.say(given_back=[lease.name])
    elif way_back == "refused":
        one.say(refused=[(lease.name, "its callback is missing")])
    else:
        one.say(failed=[Failed(lease.name, 0, "its callback failed")])
    assert users(server) == []
    assert items(start("other", **accounts("alice")).take(1)) == ["alice"]


def test_an_item_of_a_dead_worker_is_free_after_its_lease_and_not_before(
    start: Start, server: redis.Redis
) -> None:
    dead, other = start("dead", lease=0.5, **accounts("alice")), start("other", **accounts("alice"))
    push(dead, "x", "y")
    dead.take(1)
    deadline = server.zscore(key_of(server, "workers"), "dead")
    assert deadline is not None
    leases: list[Lease] = []

    def is_free() -> bool:
        leases.extend(other.take(1))
        return bool(leases)

    wait_until(is_free, 10)
    seconds, microseconds = server.time()
    assert seconds * 1000 + microseconds / 1000 >= deadline
    assert items(leases) == ["alice"]
    assert users(server) == [f"accounts alice other/{leases[0].name}".encode()]


def test_an_item_of_a_worker_that_leaves_is_free(start: Start, server: redis.Redis) -> None:
    one, other = start("one", **accounts("alice")), start("other", **accounts("alice"))
    push(one, "x", "y")
    one.take(1)
    one.frontier.leave(finished=False, persist=False)
    assert items(other.take(1)) == ["alice"]


def test_a_repeated_exchange_brings_the_same_item(start: Start) -> None:
    one = start("one", **accounts())
    push(one, "x", "y")
    reply = one.say(want=1)
    again = one.repeat(want=1)
    assert items(again.leases) == items(reply.leases) == ["alice"]
    assert again.pool_items == reply.pool_items == (("accounts", "alice", '"alice"', ""),)


def test_items_have_their_turns_one_after_the_other(start: Start) -> None:
    one = start("one", **accounts("a", "b", "c"))
    push(one, *"123456")
    order = []
    for _ in range(6):
        (lease,) = one.take(1)
        order.append(lease.item)
        one.say(finished=[lease.name])
    assert order == ["a", "b", "c", "a", "b", "c"]


def test_an_item_with_a_concurrency_has_so_many_users(start: Start, way: dict[str, str]) -> None:
    one = start("one", **accounts("alice", concurrency=3), **way)
    push(one, *"12345")
    leases = one.take(9) + one.take(9) + one.take(9)
    assert items(leases) == ["alice"] * 3
    one.say(finished=[leases[0].name])
    assert items(one.take(9)) == ["alice"]


def test_other_requests_do_not_wait_for_an_item(start: Start, way: dict[str, str]) -> None:
    one = start("one", **accounts("alice"), **way)
    push(one, "x", "y", "z")
    one.push("page", slot="a")
    found = [lease for _ in range(3) for lease in one.take(9)]
    assert len(found) == 2
    assert "page" in payloads(found)


def test_a_request_may_need_an_item_and_a_browser(start: Start) -> None:
    plain = start("plain", **accounts())
    browser = start("browser", offers=frozenset({"browser"}), **accounts())
    push(plain, "x", lane=f"browser|{LANE}")
    assert plain.take(9) == []
    assert items(browser.take(9)) == ["alice"]


def test_a_worker_without_the_pool_is_given_no_request_of_it(start: Start) -> None:
    one, other = start("one", **accounts()), start("other")
    push(one, "x")
    assert other.take(9) == []
    assert items(one.take(9)) == ["alice"]


def test_a_request_of_a_pool_that_no_worker_has_is_named(start: Start, server: redis.Redis) -> None:
    other = start("other", lease=0.3)
    push(other, "x")
    wait_until(lambda: bool(other.say(want=1, in_hand=0).unmet), 10)
    assert other.say(want=1, in_hand=0).unmet == (LANE,)


def test_a_slot_with_a_delay_keeps_it_with_items(start: Start) -> None:
    one = start("one", slots=SlotLimits(5.0, 0, 0), **accounts())
    push(one, "x", "y", "z")
    assert len(one.take(9)) == 1
    assert one.take(9) == []


def test_a_request_that_was_set_back_has_an_item_when_it_begins(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts("alice"))
    push(one, "x")
    (lease,) = one.take(1)
    start("other", **accounts("alice"))  # which may have the code that the first one lacks
    one.say(refused=[(lease.name, "its callback is missing")])
    assert server.zcard(key_of(server, "delayed")) == 1
    other = Client(server, "third", "priority", 30.0, 5, **accounts("alice")).open()
    found: list[Lease] = []
    wait_until(lambda: bool(found.extend(other.take(1)) or found), 10)
    assert items(found) == ["alice"]


# -- delays, rests, the end of an item ---------------------------------------------------------------


def report(worker: Client, item: str, *finished: Lease, **its: Any) -> Reply:
    return worker.say(pool_reports=[("accounts", item, its)], finished=[lease.name for lease in finished])


def test_an_item_with_a_delay_waits_for_it_after_its_answer(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts("alice", delay=0.4))
    push(one, "x", "y")
    (lease,) = one.take(1)
    answered = server.time()
    report(one, "alice", lease, ago=0)
    reply = one.say(want=1)
    assert reply.leases == []
    assert reply.next_item is not None
    assert reply.why == "pool"
    found: list[Lease] = []
    wait_until(lambda: bool(found.extend(one.take(1)) or found), 10)
    seconds, microseconds = server.time()
    assert seconds - answered[0] + (microseconds - answered[1]) / 1e6 >= 0.4


def test_the_time_since_the_answer_counts_for_the_delay(start: Start) -> None:
    one = start("one", **accounts("alice", delay=5))
    push(one, "x", "y")
    (lease,) = one.take(1)
    report(one, "alice", lease, ago=5001)
    assert items(one.take(1)) == ["alice"]


def test_an_unused_item_needs_no_delay(start: Start) -> None:
    one = start("one", **accounts("alice", delay=60))
    push(one, "x", "y")
    (lease,) = one.take(1)
    one.say(given_back=[lease.name])
    assert items(one.take(1)) == ["alice"]


def test_an_item_of_a_dead_worker_waits_for_its_delay(start: Start) -> None:
    dead, other = (
        start("dead", lease=0.2, **accounts("alice", delay=60)),
        start("other", **accounts("alice", delay=60)),
    )
    push(dead, "x", "y")
    dead.take(1)
    wait_until(lambda: other.say(want=1).dead == ("dead",), 10)
    reply = other.say(want=1)
    assert reply.leases == []
    assert reply.next_item is not None


def test_an_item_of_a_dead_worker_needs_no_delay_that_is_shorter_than_its_silence(start: Start) -> None:
    dead, other = (
        start("dead", lease=0.6, **accounts("alice", delay=0.3)),
        start("other", **accounts("alice")),
    )
    push(dead, "x", "y")
    dead.take(1)
    found: list[Reply] = []
    wait_until(lambda: bool(found.append(other.say(want=1)) or found[-1].dead), 10)
    assert items(found[-1].leases) == ["alice"]


def test_an_item_with_several_users_has_its_next_one_a_delay_after_an_answer(start: Start) -> None:
    one = start("one", **accounts("alice", concurrency=3, delay=0.3))
    push(one, *"12345")
    (lease,) = one.take(9)
    assert one.take(9) == []
    report(one, "alice", ago=0)  # of another request, as a login
    assert one.take(9) == []
    report(one, "alice", ago=0, leases=[lease.name])
    assert one.take(9) == []
    found: list[Lease] = []
    wait_until(lambda: bool(found.extend(one.take(9)) or found), 10)
    assert items(found) == ["alice"]
    one.say(given_back=[found[0].name])
    assert items(one.take(9)) == ["alice"]


def test_an_item_with_limits_of_its_own_has_these(start: Start) -> None:
    one = start("one", **accounts({"name": "alice", "concurrency": 2}, "bob"))
    push(one, *"12345")
    assert sorted(items(one.take(9) + one.take(9))) == ["alice", "alice", "bob"]


def test_an_item_that_rests_is_given_to_no_request(start: Start) -> None:
    one = start("one", **accounts())
    push(one, "x", "y", "z")
    leases = one.take(2)
    report(one, "alice", *leases, rest=60_000, why="status 403", bad=1)
    assert items(one.take(9) + one.take(9)) == ["bob"]


def test_a_shorter_rest_does_not_end_a_longer_one(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts("alice"))
    report(one, "alice", rest=60_000, why="status 403")
    before = server.hget(key_of(server, "pools:item:accounts/alice"), "rests")
    report(one, "alice", rest=1000, why="status 429")
    assert server.hget(key_of(server, "pools:item:accounts/alice"), "rests") == before
    assert server.hget(key_of(server, "pools:item:accounts/alice"), "why") == b"status 403"


def test_an_item_is_retired_after_so_many_bad_answers_in_a_row(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts("alice", retire_after=3))
    push(one, "x", "y")
    assert report(one, "alice", bad=2, why="status 403").retired_items == ()
    assert report(one, "alice", good=True, bad=2, why="status 403").retired_items == ()
    retired = report(one, "alice", bad=1, why="status 403").retired_items
    assert retired == (("accounts", "alice", "3 bad answers in a row, the last one: status 403", False),)
    assert one.take(1) == []
    events = [json.loads(fields[b"event"]) for _, fields in server.xrange(key_of(server, "events"))]
    (event,) = [event for event in events if event["type"] == "item_retired"]
    assert (event["pool"], event["item"]) == ("accounts", "alice")


def test_code_of_the_spider_retires_an_item(start: Start) -> None:
    one = start("one", **accounts())
    push(one, *"123")
    report(one, "alice", retire="its password is wrong")
    assert items(one.take(9)) == ["bob"]


def test_cookies_go_with_the_item(start: Start) -> None:
    one, other = start("one", **accounts("alice")), start("other", **accounts("alice"))
    push(one, "x", "y")
    (lease,) = one.take(1)
    report(one, "alice", lease, cookies="[1]")
    assert other.say(want=1).pool_items == (("accounts", "alice", '"alice"', "[1]"),)


# -- for the life of a worker ------------------------------------------------------------------------


def for_life(*names: str, **more: Any) -> dict[str, Any]:
    return accounts(*names, is_for_worker=True, **more)


def beat(worker: Client, known: str = "", **more: Any) -> Reply:
    return worker.say(own_items={"accounts": known}, **more)


def test_a_worker_has_an_item_for_its_life(start: Start) -> None:
    one = start("one", **for_life("alice"))
    assert beat(one).own_items == (("accounts", "alice", '"alice"', ""),)
    reply = beat(one, "alice")
    assert (reply.own_items, reply.order) == ((), Order.CRAWL)


def test_a_worker_without_an_item_is_given_nothing(start: Start) -> None:
    one, other = start("one", **for_life("alice")), start("other", **for_life("alice"))
    beat(one)
    one.push("x", slot="a")
    reply = beat(other, want=1, want_seeds=1)
    assert (reply.order, reply.lacks_item, reply.leases) == (Order.ITEM, "accounts", [])


def test_the_item_of_a_dead_worker_goes_to_the_next(start: Start, server: redis.Redis) -> None:
    dead, other = start("dead", lease=0.4, **for_life("alice")), start("other", **for_life("alice"))
    beat(dead)
    deadline = server.zscore(key_of(server, "workers"), "dead")
    wait_until(lambda: bool(beat(other).own_items), 10)
    seconds, microseconds = server.time()
    assert seconds * 1000 + microseconds / 1000 >= deadline


def test_the_item_of_a_worker_that_leaves_goes_to_the_next(start: Start) -> None:
    one, other = start("one", **for_life("alice")), start("other", **for_life("alice"))
    beat(one)
    one.frontier.leave(finished=False, persist=False)
    assert beat(other).own_items[0][:2] == ("accounts", "alice")


def test_the_item_of_a_worker_that_died_at_the_end_of_a_crawl_is_free_in_the_next(
    start: Start, server: redis.Redis
) -> None:
    dead, last = (
        start("dead", lease=0.2, **for_life("alice", "bob")),
        start("last", **for_life("alice", "bob")),
    )
    beat(last, in_hand=0)
    beat(dead)
    beat(last, "alice", in_hand=0, finishing=True)
    deadline = server.zscore(key_of(server, "workers"), "dead")
    assert deadline is not None
    wait_until(lambda: server.time()[0] * 1000 > deadline + 1000, 10)
    assert last.frontier.leave(finished=True, persist=False)
    assert users(server) == []


@pytest.mark.parametrize("left", ["a key of a worker that is gone", "nothing"])
def test_a_use_for_life_of_a_worker_that_is_gone_ends_when_a_worker_joins(
    start: Start, server: redis.Redis, left: str
) -> None:
    one = start("one", **for_life("alice"))
    beat(one)
    server.zrem(key_of(server, "workers"), "one")
    if left == "nothing":
        server.delete(key_of(server, "worker:one"))
    assert beat(start("other", **for_life("alice"))).own_items[0][:2] == ("accounts", "alice")


def test_a_worker_takes_another_item_while_its_own_rests(start: Start) -> None:
    one = start("one", **for_life("alice", "bob"))
    beat(one)
    reply = one.say(
        own_items={"accounts": "alice"},
        pool_reports=[("accounts", "alice", {"rest": 60_000, "why": "status 403"})],
    )
    reply = reply if reply.own_items else beat(one, "alice")
    assert reply.own_items[0][:2] == ("accounts", "bob")


@pytest.mark.parametrize(
    "deed",
    [
        ("rest", "accounts", "alice", 60_000, ""),
        ("retire", "accounts", "alice", ""),
        ("remove", "accounts", 1, "alice"),
    ],
    ids=["rest", "retire", "remove"],
)
def test_a_worker_keeps_its_item_until_no_request_is_in_flight_with_it(
    start: Start, server: redis.Redis, deed: tuple[Any, ...]
) -> None:
    one = start("one", **for_life("alice"))
    beat(one)
    change(server, one, *deed)
    reply = beat(one, "alice", own_in_flight=["accounts"])
    assert (reply.order, reply.own_items) == (Order.ITEM, ())
    assert len(users(server)) == 1
    assert beat(one).order == Order.ITEM
    assert users(server) == []


def test_the_item_of_a_dead_worker_is_free_though_its_key_is_gone(start: Start, server: redis.Redis) -> None:
    dead, other = start("dead", lease=0.3, **for_life("alice")), start("other", **for_life("alice"))
    beat(dead)
    server.delete(key_of(server, "worker:dead"))
    wait_until(lambda: bool(beat(other).own_items), 10)


def test_a_worker_is_given_nothing_more_with_an_item_that_its_report_retires(start: Start) -> None:
    one = start("one", **for_life("alice"))
    beat(one)
    one.push("x", "y", slot="a")
    reply = one.say(
        own_items={"accounts": "alice"}, pool_reports=[("accounts", "alice", {"retire": "closed"})], want=9
    )
    assert (reply.order, reply.leases) == (Order.ITEM, [])


def test_a_worker_that_counted_as_dead_and_is_back_has_an_item_of_its_own(start: Start) -> None:
    slow, other = (
        start("slow", lease=0.2, **for_life("alice", "bob")),
        start("other", **for_life("alice", "bob")),
    )
    beat(slow)
    beat(other)
    third = start("third", **for_life("alice", "bob"))
    wait_until(lambda: bool(beat(third).own_items), 10)
    assert beat(slow, "alice").lacks_item == "accounts"


def test_a_worker_that_counted_as_dead_can_have_its_item_again(start: Start, server: redis.Redis) -> None:
    slow, other = start("slow", lease=0.2, **for_life("alice")), start("other", **accounts("alice"))
    beat(slow)
    wait_until(lambda: other.say().dead == ("slow",), 10)
    assert users(server) == []
    assert beat(slow, "alice").order == Order.CRAWL
    assert users(server) == [b"accounts alice slow/"]


def test_a_worker_that_redis_has_forgotten_has_its_item_again(start: Start, server: redis.Redis) -> None:
    one = start("one", **for_life("alice", "bob"))
    other = start("other", **for_life("alice", "bob"))
    beat(one)
    beat(other)
    for name in ("one", "other"):
        server.hdel(key_of(server, f"worker:{name}"), "pool accounts")
    server.delete(key_of(server, "pools:uses"))
    # As their next uses would settle them.
    for item in ("alice", "bob"):
        change(server, one, "rest", "accounts", item, 0, "")
    assert beat(other, "bob", own_in_flight=["accounts"]).order == Order.CRAWL
    assert beat(one, "alice", own_in_flight=["accounts"]).order == Order.CRAWL
    assert users(server) == [b"accounts alice one/", b"accounts bob other/"]


def test_an_idle_worker_leaves_its_item_to_one_that_has_none(start: Start) -> None:
    one, other = start("one", **for_life("alice")), start("other", **for_life("alice"))
    beat(one)
    beat(other, busy=True)
    assert beat(one, "alice", idle=4000).order == Order.CRAWL
    assert beat(one, "alice", idle=6000).order == Order.ITEM
    assert beat(other, idle=9000).own_items[0][:2] == ("accounts", "alice")


def test_two_idle_workers_with_nothing_to_do_leave_each_other_alone(start: Start) -> None:
    one, other = start("one", **for_life("alice")), start("other", **for_life("alice"))
    beat(one)
    beat(other)
    assert beat(one, "alice", idle=6000).order == Order.CRAWL


def of_two_pools(*names: str) -> dict[str, Any]:
    return {"pools": tuple(Pool(name, items=(f"{name}-1",), is_for_worker=True) for name in names)}


def test_a_worker_has_an_item_of_each_pool_or_none(start: Start, server: redis.Redis) -> None:
    one, other = start("one", **of_two_pools("acc", "px")), start("other", **of_two_pools("acc", "px"))
    one.say(own_items={"acc": ""})
    other.say(own_items={"px": ""})
    wants = {"acc": "", "px": ""}
    assert one.say(own_items=wants).lacks_item == "px"
    assert users(server) == [b"px px-1 other/"]
    reply = other.say(own_items=wants)
    assert {name for name, *_ in reply.own_items} == {"acc", "px"}


def test_a_worker_that_has_lost_its_place_leaves_its_item(start: Start, server: redis.Redis) -> None:
    one = start("one", lease=0.3, max_workers=1, **for_life("alice"))
    beat(one)
    seconds, _ = server.time()
    server.zadd(key_of(server, "places"), {"another": 1000 * seconds + 60_000})
    server.zrem(key_of(server, "places"), "one")
    if beat(one, "alice").order == Order.WAIT:
        assert users(server) == []
    else:
        pytest.fail("the worker still has its place")


def test_a_worker_with_items_that_cannot_be_read_has_not_joined(start: Start, server: redis.Redis) -> None:
    with pytest.raises(SettingError, match="cannot be read"):
        start("one", pools=(Pool("accounts", file="nowhere"),))
    assert not server.exists(key_of(server, "workers"))


def test_an_idle_worker_keeps_its_item_while_another_has_requests(start: Start) -> None:
    one, other = start("one", **for_life("alice", "bob")), start("other", **for_life("alice", "bob"))
    third = start("third", **for_life("alice", "bob"))
    beat(one)
    beat(other)
    beat(third)
    other.push("x", slot="a")
    assert len(beat(other, "bob", want=1).leases) == 1
    assert beat(one, "alice", idle=6000).order == Order.CRAWL


# -- the settings, and the operator ------------------------------------------------------------------


def test_a_removed_item_is_given_to_nothing_and_not_added_again_by_the_settings(
    start: Start, server: redis.Redis
) -> None:
    one = start("one", **accounts())
    push(one, *"123")
    (lease,) = one.take(1)
    assert change(server, one, "remove", "accounts", 1, "alice") == 1
    one.say(finished=[lease.name])
    start("other", **accounts())
    assert items(one.take(9) + one.take(9)) == ["bob"]
    assert change(server, one, "remove", "accounts", 1, "alice") == 0


def test_an_item_that_is_added_again_is_used(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts())
    push(one, *"123")
    change(server, one, "remove", "accounts", 1, "alice")
    change(server, one, "retire", "accounts", "bob", "of no use")
    assert one.take(9) == []
    change(server, one, "add", "accounts", "0 1 0", 1, "alice", '"alice"', "- -")
    change(server, one, "add", "accounts", "0 1 0", 1, "bob", '"bob"', "- -")
    assert sorted(items(one.take(9))) == ["alice", "bob"]


def test_an_operator_lets_an_item_rest_and_ends_that(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts("alice"))
    push(one, "x")
    change(server, one, "rest", "accounts", "alice", 60_000, "an operator")
    assert one.take(1) == []
    change(server, one, "rest", "accounts", "alice", 0, "")
    assert items(one.take(1)) == ["alice"]


def test_an_item_that_is_unknown_cannot_be_changed(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts())
    assert change(server, one, "rest", "accounts", "carol", 1000, "") == 0
    assert change(server, one, "retire", "accounts", "carol", "") == 0
    assert not server.exists(key_of(server, "pools:item:accounts/carol"))


def test_items_that_left_the_settings_leave_the_pool_when_the_first_worker_starts(
    start: Start, server: redis.Redis
) -> None:
    one = start("one", **accounts("alice", "bob"))
    change(server, one, "add", "accounts", "0 1 0", 1, "carol", '"carol"', "- -")
    start("other", **accounts("bob"))
    assert server.zrange(key_of(server, "pools:items:accounts"), 0, -1) == [b"alice", b"bob", b"carol"]
    for name in ("one", "other"):
        server.zrem(key_of(server, "workers"), name)
    start("third", **accounts("bob"))
    assert server.zrange(key_of(server, "pools:items:accounts"), 0, -1) == [b"bob", b"carol"]


def test_a_worker_with_other_pools_removes_no_pool(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts("alice"))
    change(server, one, "retire", "accounts", "alice", "closed")
    server.zrem(key_of(server, "workers"), "one")
    start("other", pools=(Pool("new", items=("x",)),))
    assert server.hget(key_of(server, "pools:item:accounts/alice"), "retired") == b"closed"


def test_another_concurrency_holds_from_when_it_is_set(start: Start) -> None:
    one = start("one", **accounts("alice", concurrency=2))
    push(one, "x", "y", "z")
    assert len(one.take(1)) == 1
    other = start("other", **accounts("alice", concurrency=1))
    assert other.take(1) == []
    assert len(start("third", **accounts("alice", concurrency=2)).take(1)) == 1


def test_a_changed_password_reaches_the_pool(start: Start) -> None:
    start("one", **accounts({"name": "alice", "password": "old"}))
    other = start("other", **accounts({"name": "alice", "password": "new"}))
    push(other, "x")
    ((_, _, value, _),) = other.say(want=1).pool_items
    assert json.loads(value)["password"] == "new"


@pytest.mark.parametrize("kind", ["list", "set"])
def test_items_come_from_a_key_of_the_users_own(start: Start, server: redis.Redis, kind: str) -> None:
    values = ["alice", '{"name": "bob", "password": "x"}']
    server.rpush("mine", *values) if kind == "list" else server.sadd("mine", *values)
    one = start("one", pools=(Pool("accounts", key="mine"),))
    push(one, *"123")
    assert sorted(items(one.take(9))) == ["alice", "bob"]


def test_a_key_of_another_type_is_refused(start: Start, server: redis.Redis) -> None:
    server.set("mine", "secret")
    with pytest.raises(SettingError, match=r"key 'mine' .* must be a list or a set, not a string") as refused:
        start("one", pools=(Pool("accounts", key="mine"),))
    assert "secret" not in str(refused.value)


# -- what others do to the keys ----------------------------------------------------------------------


def test_pools_are_stored_again_after_redis_has_lost_everything(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts())
    push(one, "x")
    server.flushdb()
    wait_until(lambda: server.zcard(key_of(server, "pools:items:accounts")) == 2 or one.say() is None, 10)
    push(one, "y")
    assert items(one.take(1)) == ["alice"]


def test_a_use_without_a_lease_ends_when_a_worker_joins(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts("alice"))
    push(one, "x", "y")
    one.take(1)
    server.delete(key_of(server, "leases:one"))
    start("other", **accounts("alice"))
    assert items(one.take(1)) == ["alice"]


@pytest.mark.parametrize("key", ["pools:uses", "pools:items:accounts", "pools:item:accounts/alice"])
def test_a_value_of_another_type_stops_no_worker(start: Start, server: redis.Redis, key: str) -> None:
    one = start("one", **accounts())
    push(one, "x", "y")
    server.delete(key_of(server, key))
    server.set(key_of(server, key), "garbage")
    one.take(9)
    start("other", **accounts())
    assert one.say(want=9).waiting < 2


def test_clear_removes_the_pools(start: Start, server: redis.Redis, redis_url: str) -> None:
    one = start("one", **accounts())
    push(one, "x")
    one.take(1)
    assert list(server.scan_iter(key_of(server, "pools*")))
    clear(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"), force=True)
    assert not list(server.scan_iter(key_of(server, "pools*")))


def test_pools_stay_when_a_crawl_finishes(start: Start, server: redis.Redis) -> None:
    one = start("one", **accounts("alice"))
    push(one, "x")
    (lease,) = one.take(1)
    report(one, "alice", lease, cookies="[1]", rest=60_000, why="status 403")
    one.say(in_hand=0, finishing=True)
    assert one.frontier.leave(finished=True, persist=False).cleared
    other = start("other", **accounts("alice"))
    push(other, "y")
    reply = other.say(want=1)
    assert reply.leases == []
    change(server, other, "rest", "accounts", "alice", 0, "")
    assert other.say(want=1).pool_items == (("accounts", "alice", '"alice"', "[1]"),)


def test_an_exchange_without_pools_asks_redis_for_none(start: Start, server: redis.Redis) -> None:
    one = start("one")
    one.push("x", slot="a")
    server.config_resetstat()
    (lease,) = one.take(1)
    one.say(finished=[lease.name])
    commands = server.info("commandstats")
    assert not {"cmdstat_zlexcount"} & commands.keys()


def test_pushes_keep_their_lane_through_a_restart_of_all_workers(start: Start) -> None:
    one = start("one", **accounts())
    one.say(pushes=[Push("force", "", 0, b"x", "a", lane=LANE)])
    one.frontier.leave(finished=False, persist=True)
    assert items(start("other", **accounts()).take(1)) == ["alice"]
