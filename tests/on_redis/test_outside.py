"""Turns for requests that a worker sends without the scheduler: no request of the slot comes too soon."""

from __future__ import annotations

from itertools import pairwise

import pytest
import redis

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.frontier.messages import UsedGrants
from scrapy_rq_sched.frontier.replies import AT_ONCE, Reply

from ..support.client import Client, Join
from .test_limits import push, server_ms, take
from .test_site_answers import asked_to_wait

DELAY = {"slots": SlotLimits(delay=10)}
#: The longest time ahead.
AHEAD = 600_000


def ask(worker: Client, count: int = 1, ahead: int = 0, latency: float = 0) -> Reply:
    return worker.say(outside={"a": count}, ahead=ahead, latency=latency)


def outside(worker: Client, count: int = 1, ahead: int = 0, latency: float = 0) -> list[float]:
    return ask(worker, count, ahead, latency).given_outside["a"]


def test_a_slot_without_turns_gives_one_now(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    (at,) = outside(worker, 3)
    assert abs(at - server_ms(server)) < 1000


def test_the_next_turn_of_another_worker_comes_after_it(join: Join) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    (at,) = outside(worker)
    (again,) = outside(other)
    assert again - at == pytest.approx(10_250, abs=1)
    push(worker, "a", 3)
    assert take(other) == []


def test_it_comes_after_the_turns_that_another_worker_has_with_room_for_one_that_is_late(join: Join) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(worker, "a", 8)
    leases = take(worker, 3, ahead=AHEAD)
    (at,) = outside(other)
    assert at - leases[-1].begin == pytest.approx(10_250, abs=1)
    later = take(worker, 3, ahead=AHEAD)
    assert later[0].begin - at == pytest.approx(10_250, abs=1)


def test_the_worker_that_has_the_turns_is_given_more_of_them_without_further_room(join: Join) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 1)
    leases = take(worker, 1, ahead=AHEAD)
    times = [lease.begin for lease in leases] + outside(worker, 3, AHEAD)
    gaps = [after - before for before, after in pairwise(times)]
    assert len(gaps) >= 3
    assert gaps == pytest.approx([10_000] * len(gaps), abs=1)


def test_a_worker_that_sent_the_last_file_needs_no_room_after_it(join: Join) -> None:
    worker = join(bounds=DELAY)
    times = outside(worker) + outside(worker, 4, AHEAD) + outside(worker)
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps == pytest.approx([10_000] * 5, abs=1)


def test_a_turn_of_another_worker_comes_after_the_reply_to_it(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    (at,) = outside(worker, latency=3000)
    assert 2000 < at - server_ms(server) <= 3000


def test_the_turn_after_a_file_is_left_to_a_page_that_waits(join: Join, server: redis.Redis) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(worker, "a", 3)
    take(worker, 1, ahead=AHEAD)
    (at,) = outside(other, 4, AHEAD)
    reply = ask(other)
    assert reply.given_outside == {}
    assert reply.ask_outside_at["a"] - at == pytest.approx(20_250, abs=1)
    (page,) = take(worker, 1, ahead=AHEAD)
    assert page.begin > at
    assert ask(other).given_outside["a"][0] - page.begin == pytest.approx(10_250, abs=1)


def test_a_turn_that_no_page_takes_is_for_the_next_file(join: Join) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=0.05)})
    push(worker, "a", 2)
    times = outside(worker)
    while not (given := ask(worker).given_outside):
        pass
    assert given["a"][0] - times[0] > 200


def test_the_concurrency_of_the_slot_does_not_count(join: Join) -> None:
    limits = SlotLimits(delay=0.001, concurrency=1)
    worker = join(bounds={"slots": limits})
    push(worker, "a", 2)
    assert len(take(worker)) == 1
    assert take(worker) == []
    assert len(outside(worker)) == 1


def test_a_blocked_slot_gives_a_turn_at_the_end_of_its_block(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    asked_to_wait(worker, 60)
    (at,) = outside(worker)
    assert 59_000 < at - server_ms(server) <= 60_000


def test_a_slot_without_a_delay_gives_turns_at_once(join: Join) -> None:
    assert outside(join(), 3) == 3 * [AT_ONCE]


def test_a_repeated_exchange_gets_the_same_turns(join: Join) -> None:
    worker = join(bounds=DELAY)
    first = outside(worker)
    assert worker.repeat(outside={"a": 1}).given_outside["a"] == first


def test_a_turn_that_was_used_late_delays_the_next_one(join: Join, server: redis.Redis) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    outside(worker)
    late = server_ms(server) + 8000
    worker.say(grants={"a": UsedGrants(0, late)})
    (at,) = outside(other)
    assert at >= server_ms(server) + 9000
