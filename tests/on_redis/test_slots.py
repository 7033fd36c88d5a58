"""Requests that wait by slot: what is kept in Redis, which slot has its turn, and that nothing is lost."""

from __future__ import annotations

import io

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.errors import FrontierMismatchError
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.frontier.replies import Lease
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.archive import ArchiveReader
from scrapy_rq_sched.inspect.export import Export
from scrapy_rq_sched.inspect.operations.clear import clear
from scrapy_rq_sched.inspect.restore import Import

from ..support.client import Client, Join, failed, payloads
from ..support.crawl import wait_until


def slots(leases: list[Lease]) -> list[str]:
    return [lease.slot for lease in leases]


def push_to(worker: Client, **counts: int) -> None:
    """Push so many requests to each slot, called 'a1', 'a2' and so on."""
    for slot, count in counts.items():
        worker.push(*(f"{slot}{number}" for number in range(1, count + 1)), slot=slot)


def index(server: redis.Redis) -> list[bytes]:
    return server.zrange("s:slots", 0, -1)


# -- what is kept ------------------------------------------------------------------------------------


def test_requests_wait_in_the_queue_of_their_slot(join: Join, server: redis.Redis, discipline: str) -> None:
    worker = join()
    worker.push("a", slot="books.example.com")
    worker.push("b")
    key = "s:requests:slot:books.example.com"
    kind = "zset" if discipline == "priority" else "list"
    assert server.type(key).decode() == server.type("s:requests").decode() == kind
    assert index(server) == [b"books.example.com"]


def test_waiting_requests_are_counted_over_all_slots(join: Join, discipline: str) -> None:
    worker = join()
    push_to(worker, a=3, b=2)
    assert worker.push("x").waiting == 6
    worker.take(4)
    assert worker.say().waiting == 2


def test_one_exchange_may_push_to_several_slots(join: Join, discipline: str) -> None:
    worker = join()
    pushes = [
        Push("filter", f"fp-{n}", 0, f"r{n}".encode(), slot) for n, slot in enumerate(["a", "", "b", "a"])
    ]
    assert worker.say(pushes=pushes).waiting == 4
    taken = {lease.payload.decode(): lease.slot for lease in worker.take(4)}
    assert taken == {"r0": "a", "r1": "", "r2": "b", "r3": "a"}


def test_a_slot_with_no_requests_left_leaves_nothing_behind(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    worker = join()
    push_to(worker, a=2, b=1)
    leases = worker.take(3)
    assert len(leases) == 3
    assert index(server) == []
    assert not list(server.scan_iter("s:requests:slot:*"))


def test_the_fleet_is_not_finished_while_a_request_waits_in_a_slot(join: Join, discipline: str) -> None:
    worker = join()
    push_to(worker, a=1)
    assert not worker.say().finished
    (lease,) = worker.take(1)
    assert worker.say(finished=[lease.name], in_hand=0).finished


# -- turns -------------------------------------------------------------------------------------------


def test_slots_take_turns(join: Join, discipline: str) -> None:
    worker = join()
    push_to(worker, a=10, b=10, c=10)
    assert slots(worker.take(3)) == ["a", "b", "c"]
    assert slots(worker.take(2)) == ["a", "b"]
    assert slots(worker.take(2)) == ["c", "a"]


def test_a_long_slot_does_not_keep_a_short_one_waiting(join: Join, discipline: str) -> None:
    worker = join()
    push_to(worker, long=500)
    push_to(worker, short=1)
    assert "short" in slots(worker.take(4))


def test_many_requests_are_spread_over_all_slots(join: Join, discipline: str) -> None:
    worker = join()
    push_to(worker, a=50, b=50, c=50, d=2)
    taken = slots(worker.take(32))
    assert len(taken) == 32
    assert {slot: taken.count(slot) for slot in "abcd"} == {"a": 10, "b": 10, "c": 10, "d": 2}


def test_the_only_slot_gives_all_that_is_asked_for(join: Join, discipline: str) -> None:
    worker = join()
    push_to(worker, a=40)
    assert len(worker.take(30)) == 30


def test_within_a_slot_the_order_is_the_disciplines(join: Join, discipline: str) -> None:
    worker = join()
    worker.push("one", "two", slot="a")
    worker.push("three", priority=1, slot="a")
    order = {
        "priority": ["three", "one", "two"],
        "fifo": ["one", "two", "three"],
        "lifo": ["three", "two", "one"],
    }
    assert payloads(worker.take(3)) == order[discipline]


def test_requests_of_no_known_slot_have_their_turn_as_a_slot_has(join: Join, discipline: str) -> None:
    worker = join()
    worker.push(*(f"x{n}" for n in range(20)))
    push_to(worker, a=20, b=20)
    taken = slots(worker.take(12))
    assert [taken.count(slot) for slot in ("", "a", "b")] == [4, 4, 4]


def test_more_slots_than_an_exchange_looks_at_all_have_their_turn(join: Join) -> None:
    worker = join()
    pushes = [Push("force", "", 0, f"r{n}".encode(), f"slot{n}") for n in range(1000)]
    worker.say(pushes=pushes)
    taken = [lease for _ in range(4) for lease in worker.take(250)]
    assert len({lease.slot for lease in taken}) == 1000


# -- what comes back ---------------------------------------------------------------------------------


def test_a_request_given_back_keeps_its_place_in_its_slot(join: Join, discipline: str) -> None:
    worker = join()
    push_to(worker, a=4)
    leases = worker.take(3)
    worker.say(given_back=[lease.name for lease in leases])
    again = worker.take(4)
    assert payloads(again)[:3] == payloads(leases)
    assert slots(again) == ["a"] * 4


def test_the_leases_of_a_dead_worker_go_back_to_their_slots(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    dead, alive = join("dead", lease=0.1), join("alive")
    push_to(alive, a=3, b=3)
    taken = dead.take(4)
    wait_until(lambda: alive.say().returned)
    assert alive.say().waiting == 6
    assert server.zcard("s:slots") == 2
    again = alive.take(100)
    assert sorted(payloads(again)) == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert {lease.payload: lease.slot for lease in taken}.items() <= {
        lease.payload: lease.slot for lease in again
    }.items()


def test_a_lease_that_is_given_again_has_the_same_slot(join: Join, discipline: str) -> None:
    worker = join()
    push_to(worker, a=1, b=1)
    first = worker.take(2)
    assert worker.repeat(want=2).leases == first


def test_a_refused_request_keeps_its_slot(join: Join, server: redis.Redis) -> None:
    one, other = join("one"), join("other")
    push_to(one, a=1)
    (lease,) = one.take(1)
    one.say(refused=[(lease.name, "no such callback")])
    assert server.zcard("s:delayed") == 1
    (again,) = other.take(1)
    assert (again.payload, again.slot) == (b"a1", "a")


def test_a_failed_request_names_its_slot(join: Join, server: redis.Redis) -> None:
    one = join("one")
    push_to(one, a=1)
    (lease,) = one.take(1)
    one.say(refused=[(lease.name, "no such callback")])
    (entry,) = failed(server)
    assert entry["slot"] == "a"


# -- what others have done ---------------------------------------------------------------------------


def test_requests_left_at_the_key_of_a_slot_outside_the_index_are_not_crawled(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    worker = join()
    key = "s:requests:slot:a"
    if discipline == "priority":
        server.zadd(key, {"left": 0})
    else:
        server.lpush(key, "left")
    push_to(worker, a=1)
    assert payloads(worker.take(10)) == ["a1"]


def test_garbage_at_the_key_of_a_slot_makes_way_and_stops_no_other(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    worker = join()
    push_to(worker, a=1, b=1)
    server.set("s:requests:slot:a", "garbage")
    assert payloads(worker.take(10)) == ["b1"]
    worker.push("a2", slot="a")
    assert payloads(worker.take(10)) == ["a2"]
    assert server.get("s:requests:slot:a~garbage") == b"garbage"


def test_a_slot_with_deleted_requests_does_not_keep_the_crawl_from_its_end(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    worker = join()
    push_to(worker, a=3)
    server.delete("s:requests:slot:a")
    assert worker.take(1) == []
    reply = worker.say(in_hand=0)
    assert (reply.waiting, reply.finished) == (0, True)


def test_an_overwritten_count_does_not_stop_the_crawl(join: Join, server: redis.Redis) -> None:
    worker = join()
    push_to(worker, a=3)
    server.hset("s:meta", "in_slots", "many")
    leases = [lease for _ in range(3) for lease in worker.take(3)]
    reply = worker.say(finished=[lease.name for lease in leases], in_hand=0)
    assert (len(leases), reply.waiting, reply.finished) == (3, 0, True)


def test_a_frontier_that_was_made_without_slots_is_crawled_on(join: Join, server: redis.Redis) -> None:
    old = join("old")
    old.push("one", "two")
    server.hset("s:meta", "format", "5")
    with pytest.raises(FrontierMismatchError):
        join("early")  # somebody is at it who would not find what waits by slot
    old.frontier.leave(finished=False, persist=False)
    new = join("new")
    assert payloads(new.take(9)) == ["one", "two"]
    assert server.hget("s:meta", "format") == b"6"


def test_a_frontier_of_many_slots_is_cleared_in_steps(
    join: Join, server: redis.Redis, redis_url: str
) -> None:
    worker = join()
    worker.say(pushes=[Push("force", "", 0, f"r{n}".encode(), f"slot{n}") for n in range(1000)])
    worker.frontier.leave(finished=False, persist=False)
    again = join("again", flush=True)
    push_to(again, slot1=1)
    assert again.say().waiting == 1
    wait_until(lambda: again.say() and not server.exists("s:slots:cleared"))
    assert [key.decode() for key in server.scan_iter("s:requests:slot:*")] == ["s:requests:slot:slot1"]
    assert payloads(again.take(5)) == ["slot11"]


def test_clear_removes_the_requests_of_all_slots(join: Join, server: redis.Redis, redis_url: str) -> None:
    worker = join()
    worker.say(pushes=[Push("force", "", 0, f"r{n}".encode(), f"slot{n}") for n in range(1000)])
    worker.frontier.leave(finished=False, persist=False)
    clear(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"), with_history=True)
    # Only that it has left is known of the worker, for a minute.
    assert list(server.scan_iter("s:*")) == [b"s:worker:a"]


def test_requests_of_many_slots_are_exported_and_imported_where_they_stood(
    join: Join, server: redis.Redis, redis_url: str, discipline: str
) -> None:
    worker = join()
    push_to(worker, a=60, b=3)
    worker.push("x")
    settings = Settings(
        {"REDIS_URL": redis_url, "SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.{discipline.title()}Queue"}
    )
    lines = b"".join(Export(View.from_settings(settings, "s")).lines())
    worker.frontier.leave(finished=False, persist=False)
    clear(View.from_settings(settings, "s"))
    for _ in Import(View.from_settings(settings, "s"), ArchiveReader(io.BytesIO(lines))).steps():
        pass
    again = join("again")
    assert again.say().waiting == 64
    taken = again.take(64)
    order = {
        slot: [lease.payload.decode() for lease in taken if lease.slot == slot] for slot in ("a", "b", "")
    }
    steps = -1 if discipline == "lifo" else 1
    assert order == {
        "a": [f"a{n}" for n in range(1, 61)][::steps],
        "b": ["b1", "b2", "b3"][::steps],
        "": ["x"],
    }
