"""``FRONTIER_ORDER = "priority"``: the highest priority over all slots comes first."""

from __future__ import annotations

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.queues import Queues

from ..support.client import Client, Join, payloads

BY_PRIORITY = {"order": "priority"}


@pytest.fixture
def worker(join: Join) -> Client:
    return join(bounds=BY_PRIORITY)


def push(worker: Client, *said: tuple[str, str, float]) -> None:
    """Push requests of these names, slots and priorities."""
    worker.say(pushes=[Push("force", "", priority, name.encode(), slot) for name, slot, priority in said])


def test_the_highest_priority_over_all_slots_comes_first(worker: Client) -> None:
    push(worker, ("low", "a", -5), ("middle", "b", 0), ("high", "c", 7), ("higher", "a", 8))
    assert payloads(worker.take(9)) == ["higher", "high", "middle", "low"]


def test_equal_priorities_of_all_slots_come_in_the_order_of_arrival(worker: Client) -> None:
    names = [f"{slot}{number}" for number in range(4) for slot in "cab"]
    push(worker, *((name, name[0], 0) for name in names))
    assert payloads(worker.take(5)) + payloads(worker.take(50)) == names


def test_a_later_request_with_a_higher_priority_comes_first(worker: Client) -> None:
    push(worker, ("a1", "a", 1), ("b1", "b", 2), ("b2", "b", 0))
    assert payloads(worker.take(1)) == ["b1"]
    push(worker, ("b3", "b", 3))
    assert payloads(worker.take(9)) == ["b3", "a1", "b2"]


def test_requests_of_no_known_slot_have_their_place_by_their_priority(worker: Client) -> None:
    push(worker, ("a1", "a", 5), ("flat1", "", 7), ("flat2", "", 3), ("b1", "b", 4))
    assert payloads(worker.take(9)) == ["flat1", "a1", "b1", "flat2"]


def test_a_slot_that_has_to_wait_for_its_time_leaves_its_place_to_others(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds={**BY_PRIORITY, "slots": SlotLimits(delay=60.0)})
    push(worker, ("a1", "a", 5), ("a2", "a", 5), ("b1", "b", 0))
    assert payloads(worker.take(9)) == ["a1", "b1"]
    assert worker.take(9) == []
    server.delete("s:slots:state:a")
    server.zadd("s:slots", {"a": float(server.time()[0] * 1e6)})
    assert payloads(worker.take(9)) == ["a2"]


def test_more_slots_than_are_looked_at_together_are_in_order(worker: Client) -> None:
    push(worker, *((f"r{number}", f"slot{number}", number) for number in range(700)))
    assert payloads(worker.take(700)) == [f"r{number}" for number in reversed(range(700))]


def test_garbage_at_the_key_of_a_slot_stops_no_other(worker: Client, server: redis.Redis) -> None:
    push(worker, ("a1", "a", 5), ("b1", "b", 4))
    server.set("s:requests:slot:a", "garbage")
    assert payloads(worker.take(9)) == ["b1"]


def test_a_worker_that_has_enough_of_a_slot_is_given_others(worker: Client) -> None:
    push(worker, ("a1", "a", 5), ("b1", "b", 4), ("b2", "b", 3))
    assert payloads(worker.say(want=9, saturated=["a"]).leases) == ["b1", "b2"]
    assert payloads(worker.take(9)) == ["a1"]


def test_a_frontier_by_slot_goes_on_by_priority_and_the_other_way_round(join: Join) -> None:
    by_turns, by_priority = join("t"), join("p", bounds=BY_PRIORITY)
    push(by_turns, *((f"{slot}{n}", slot, n) for slot in "abc" for n in range(3)))
    assert payloads(by_turns.take(1)) == ["a2"]
    assert payloads(by_priority.take(2)) == ["b2", "c2"]
    assert sorted(payloads(by_turns.take(3))) == ["a1", "b1", "c1"]
    assert payloads(by_priority.take(9)) + payloads(by_priority.take(9)) == ["a0", "b0", "c0"]


def test_a_request_that_goes_back_comes_first_again(worker: Client) -> None:
    push(worker, ("a1", "a", 5), ("b1", "b", 4))
    (lease,) = worker.take(1)
    worker.say(given_back=[lease.name])
    assert payloads(worker.take(9)) == ["a1", "b1"]


def test_to_peek_shows_them_in_the_order_in_which_they_come(join: Join, redis_url: str) -> None:
    worker = join(bounds=BY_PRIORITY)
    push(worker, ("low", "a", -5), ("flat", "", 1), ("high", "c", 7), ("higher", "a", 8))
    assert payloads(worker.take(1)) == ["higher"]
    push(worker, ("highest", "a", 9))
    settings = Settings({"REDIS_URL": redis_url, "FRONTIER_ORDER": "priority"})
    names = [entry.data.decode() for entry in Queues(View.from_settings(settings, "s")).next(3)]
    assert names == ["highest", "high", "flat"]


def test_not_all_slots_are_looked_at_that_have_to_wait(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={**BY_PRIORITY, "slots": SlotLimits(delay=60.0)})
    push(worker, *((f"{n}", f"slot{n}", 0) for n in range(400)))
    server.hset("s:meta", "rewound", server.time()[0] * 1000)  # nothing begins for a moment
    assert worker.take(9) == []
    assert server.zcount("s:slots", 1e14, "+inf") == 64


def test_a_slot_of_which_some_was_given_keeps_its_place_though_it_has_a_concurrency(join: Join) -> None:
    worker = join(bounds={**BY_PRIORITY, "slots": SlotLimits(concurrency=8)})
    push(worker, *((f"a{number}", "a", 5) for number in range(9)), ("b", "b", 0))
    assert payloads(worker.take(3)) == ["a0", "a1", "a2"]
    assert payloads(worker.take(3)) == ["a3", "a4", "a5"]
