"""What others have done to the keys of slots, and what Redis has lost of them: the crawl goes on."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.errors import RedisUnsuitableError
from scrapy_rq_sched.frontier.messages import Push, Turns
from scrapy_rq_sched.frontier.slot_limits import SlotLimits
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.slots import Slots

from ..client import Client, Join, payloads
from ..crawl import wait_until
from .test_limits import DELAY, push, take


def slots_of(redis_url: str) -> Slots:
    return Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"))


# -- keys of other types, and garbage ----------------------------------------------------------------


def test_limits_of_a_wrong_type_are_named_before_anything_is_taken(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 3, limits={"a": SlotLimits(delay=1)})
    worker.push("flat")
    server.set("s:slots:limits", "x")
    with pytest.raises((redis.ResponseError, RedisUnsuitableError), match="s:slots:limits"):
        take(worker)
    assert (server.zcard("s:requests"), server.zcard("s:requests:slot:a")) == (1, 3)


def test_a_slot_whose_key_is_of_a_wrong_type_stops_no_drop(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_waiting": 3, "policy": "drop-lowest"})
    push(worker, "a", 5)
    server.set("s:requests:slot:b", "x")
    server.zadd("s:slots", {"b": 9e15})
    held = server.hlen("s:leases:a")
    leases = take(worker)
    assert leases
    assert server.hlen("s:leases:a") == held + len(leases)


def test_a_state_of_a_wrong_type_does_not_stop_the_report_of_a_download(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds={"slots": SlotLimits(concurrency=1)})
    push(worker, "a", 3)
    assert len(take(worker)) == 1
    server.set("s:slots:state:a", "x")
    assert len(take(worker, downloaded={"a": 1})) == 1


@pytest.mark.parametrize("field", ["in_slots", "clock", "clock_ahead", "rewound", "rules", "slot_default"])
@pytest.mark.parametrize("value", ["inf", "nan", "-1", "x", ""])
def test_garbage_in_what_is_known_of_slots_stops_nothing(
    join: Join, server: redis.Redis, field: str, value: str
) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=0.001)})
    push(worker, "a", 2)
    server.hset("s:meta", field, value)
    met: list[Any] = []
    wait_until(lambda: met.extend(take(worker)) or len(met) == 2)
    assert worker.say(finished=[lease.name for lease in met], in_hand=0).finished


@pytest.mark.parametrize("value", ["{", "[1]", "7", '"x"', '{"a": "x"}', "null"])
def test_garbage_in_what_a_worker_was_given_is_given_to_nobody(
    join: Join, server: redis.Redis, value: str
) -> None:
    worker = join(bounds=DELAY)
    worker.say(asks={"a": 1})
    server.hset("s:worker:a", "given", value)
    assert worker.repeat(asks={"a": 1}).given == {}


def test_what_makes_way_is_not_at_the_key_of_another_slot(join: Join, server: redis.Redis) -> None:
    worker = join()
    for name in ("a:garbage", "a"):
        push(worker, name, 1)
    server.set("s:requests:slot:a", "x")
    assert payloads(take(worker)) == ["a:garbage1"]


# -- requests that somebody has deleted --------------------------------------------------------------


def test_no_more_is_dropped_because_somebody_has_deleted_what_waited(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_waiting": 200, "policy": "drop-lowest"})
    push(worker, "a", 200)
    server.delete("s:requests:slot:a")
    for _ in range(3):
        take(worker, want=1)
    push(worker, "b", 50)
    leases = take(worker, want=50)
    assert [lease.kind for lease in leases] == ["request"] * 50


def test_a_slot_that_sleeps_and_was_deleted_does_not_keep_the_crawl_open(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=3600)})
    push(worker, "a", 2)
    (lease,) = take(worker)
    worker.say(finished=[lease.name], turns={"a": Turns(1, 0)})
    server.delete("s:requests:slot:a")
    assert worker.say(want=5, in_hand=0).finished


# -- what Redis has lost -----------------------------------------------------------------------------


def test_turns_of_requests_in_memory_do_not_outlive_older_data(join: Join, server: redis.Redis) -> None:
    worker, other = (join(name, bounds={"slots": SlotLimits(concurrency=1)}) for name in "ab")
    assert worker.say(asks={"x": 1}).given
    worker.number += 5  # as if Redis had lost five exchanges
    worker.say(in_hand=0)
    worker.say(in_hand=0, turns={"x": Turns(1, 0)}, downloaded={"x": 1})  # what it had, it does not use
    push(other, "x", 1)
    server.hdel("s:meta", "rewound")
    assert len(take(other)) == 1


def test_after_all_keys_are_deleted_a_slot_with_a_rule_waits_for_its_delay(
    join: Join, server: redis.Redis
) -> None:
    worker, other = join("a"), join("b")
    rule = {"limits": {"x": SlotLimits(delay=10)}}
    push(worker, "x", 3, **rule)
    assert len(take(worker)) == 1
    server.flushall()
    push(worker, "x", 3, **rule)
    assert take(other) == []


def test_a_block_outlives_what_is_in_flight(join: Join, server: redis.Redis, redis_url: str) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 3)
    take(worker)
    slots_of(redis_url).block("a", 36_000)
    worker.say(turns={"a": Turns(1, 0)})
    assert server.pttl("s:slots:state:a") > 36_000_000


def test_a_slot_that_sleeps_for_long_is_looked_at_before(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=86_400)})
    push(worker, "a", 3)
    take(worker)
    seconds, _ = server.time()
    assert float(server.zscore("s:slots", "a")) / 1e6 < seconds + 700


def test_a_repeated_exchange_tells_the_limits_that_were_set(join: Join, redis_url: str) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 3)
    slots_of(redis_url).set("a", SlotRule("a", delay=0.5))
    first = worker.say(want=9)
    assert first.limits == {"a": SlotLimits(delay=0.5)}
    assert worker.repeat(want=9).limits == first.limits


# -- paused ------------------------------------------------------------------------------------------


def test_a_worker_that_is_paused_is_given_no_turns(join: Join, server: redis.Redis) -> None:
    worker: Client = join(bounds=DELAY)
    server.hset("s:meta", "state", "paused")
    assert worker.say(asks={"a": 1}).given == {}


def test_a_push_to_a_slot_with_the_name_of_another_key_is_a_request(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.say(pushes=[Push("force", "", 0, b"one", "..:meta")])
    assert payloads(take(worker)) == ["one"]


def test_what_was_held_of_very_many_slots_goes_back(join: Join, server: redis.Redis) -> None:
    worker = join()
    for first in range(0, 9000, 1000):
        worker.say(pushes=[Push("force", "", 0, b"x", f"slot{n}") for n in range(first, first + 1000)])
    assert len(take(worker, 9000)) == 9000
    worker.number += 5  # Redis came back with older data
    worker.say()
    assert server.zcard("s:slots") == 9000


def test_garbage_at_the_index_of_a_workers_slots_makes_way(join: Join, server: redis.Redis) -> None:
    worker = join("w", bounds=DELAY)
    push(worker, "a", 3)
    server.set("s:slots:of:w", "x")
    assert len(take(worker)) == 1
    assert server.zcard("s:slots:of:w") == 1
