"""Turns for requests that a worker sends without the scheduler: no request of the slot comes too soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import redis

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.frontier.messages import UsedGrants
from scrapy_rq_sched.frontier.replies import AT_ONCE, Reply
from scrapy_rq_sched.inspect.slots import Slots, SlotStatus

from ..support.client import Client, Join
from ..support.crawl import wait_until
from .test_limits import push, server_ms, take
from .test_site_answers import asked_to_wait, hear

#: A delay in seconds and in milliseconds, and the milliseconds between turns of two workers.
DELAY, GAP, ROOM = {"slots": SlotLimits(delay=0.3)}, 300, 150
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
    late = at + 40
    assert ask(other).given_outside == {}
    worker.say(grants={"a": UsedGrants(0, late)})
    (again,) = outside(other)
    # The server's clock may not have come to that time, which it then counts for.
    assert again - at >= GAP - 1
    push(worker, "a", 3)
    assert take(other) == []


def test_it_comes_after_the_turns_that_another_worker_has_with_room_for_one_that_is_late(join: Join) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(worker, "a", 8)
    leases = take(worker, 2, ahead=350)
    (at,) = outside(other)
    assert at - leases[-1].begin == pytest.approx(GAP + ROOM, abs=1)
    later = take(worker, 3, ahead=AHEAD)
    assert later[0].begin - at == pytest.approx(GAP + ROOM, abs=1)


def test_a_worker_alone_needs_no_room_between_its_pages_and_files(join: Join) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 1)
    times = [lease.begin for lease in take(worker, 1, ahead=AHEAD)] + outside(worker, 3, AHEAD)
    assert len(times) == 4
    assert [after - before for before, after in pairwise(times)] == pytest.approx([GAP] * 3, abs=1)


def test_a_file_of_the_owner_of_the_slot_has_room_after_it(join: Join) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(worker, "a", 1)
    (page,) = take(worker, 1)
    worker.say(grants={"a": UsedGrants(1, page.begin)})
    (at,) = outside(worker)
    assert ask(other).given_outside == {}
    wait_until(lambda: server_ms(worker.frontier.server) > at + 20)
    worker.say(grants={"a": UsedGrants(0, at + 20)})
    (again,) = outside(other)
    assert again - at == pytest.approx(GAP + 20, abs=1)


def test_a_worker_that_waits_for_a_turn_has_the_next_one(join: Join) -> None:
    worker, other, third = join("a", bounds=DELAY), join("b", bounds=DELAY), join("c", bounds=DELAY)
    (at,) = outside(worker)
    assert ask(other).given_outside == {}
    wait_until(lambda: server_ms(worker.frontier.server) > at)
    worker.say(grants={"a": UsedGrants(0, at)})
    assert ask(worker).given_outside == ask(third).given_outside == {}
    assert len(outside(other)) == 1


def test_a_worker_that_has_missed_its_turn_is_not_waited_for(join: Join) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    (at,) = outside(worker)
    assert ask(other).given_outside == {}
    wait_until(lambda: server_ms(worker.frontier.server) > at)
    # It asks again, because it was too late, and the other one has asked before.
    assert ask(worker).given_outside == {}
    (again,) = outside(other)
    assert again - at >= GAP + ROOM - 1


def test_pages_that_have_had_turns_since_end_the_row_of_files(join: Join) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    (at,) = outside(other)
    hear_latencies = {"latencies": {"a": [20.0]}, "throttle": (1.0, 0.0, 60_000.0)}
    worker.say(**hear_latencies)
    push(worker, "a", 3)
    wait_until(lambda: (leases := take(worker, 1)) and leases[0].begin > at)
    # The delay has become shorter, but the page has had the last turn.
    assert server_ms(worker.frontier.server) - 1 <= outside(other)[0]
    state = worker.frontier.server.hgetall(worker.frontier.keys.slot("a"))
    assert float(state[b"tat"]) > at


def test_a_dead_worker_is_not_waited_for(join: Join, server: redis.Redis) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    (at,) = outside(worker)
    assert ask(other).given_outside == {}
    server.zadd(worker.frontier.keys.workers, {"a": 1})
    (again,) = outside(other)
    assert again - at >= GAP + ROOM - 1


def test_a_worker_that_sent_the_last_file_needs_no_room_after_it(join: Join) -> None:
    worker, _ = join("a", bounds=DELAY), join("b", bounds=DELAY)
    times = outside(worker) + outside(worker, 4)
    assert [after - before for before, after in pairwise(times)] == pytest.approx([GAP] * 4, abs=1)


def test_no_turn_is_given_long_ahead(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=30)})
    (at,) = outside(worker)
    reply = ask(worker)
    assert reply.given_outside == {}
    assert 28_000 < reply.ask_outside_at["a"] - at < 29_000


def test_a_turn_of_another_worker_comes_after_the_reply_to_it(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    (at,) = outside(worker, latency=300)
    assert at - server_ms(server) > 250


def test_the_turn_after_a_file_is_left_to_a_page_that_waits(join: Join) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(worker, "a", 3)
    take(worker, 1, ahead=AHEAD)
    (at,) = outside(other, 4, AHEAD)
    reply = ask(other, ahead=AHEAD)
    assert reply.given_outside == {}
    assert reply.ask_outside_at["a"] - at == pytest.approx(2 * GAP + ROOM, abs=1)
    (page,) = take(worker, 1, ahead=1000)
    assert page.begin - at == pytest.approx(GAP + ROOM, abs=1)
    assert ask(other).given_outside["a"][0] - page.begin == pytest.approx(GAP + ROOM, abs=1)


def test_pages_are_not_left_to_an_owner_that_takes_none(join: Join) -> None:
    brief = {"slots": SlotLimits(delay=0.1)}
    owner, worker, other = join("a", bounds=brief), join("b", bounds=brief), join("c", bounds=brief)
    push(owner, "a", 9)
    (page,) = take(owner, 1)
    owner.say(grants={"a": UsedGrants(1, page.begin)})
    outside(worker)
    begun = time.monotonic()
    while not take(other):
        ask(worker)
        assert time.monotonic() < begun + 5


def test_the_owner_of_a_slot_leaves_it_to_others_if_it_takes_no_pages(join: Join) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(worker, "a", 9)
    (page,) = take(worker, 1)
    worker.say(grants={"a": UsedGrants(1, page.begin)})
    (at,) = outside(worker)
    assert ask(worker).given_outside == {}
    wait_until(lambda: server_ms(worker.frontier.server) > at + GAP + ROOM)
    assert len(take(other)) == 1


def test_a_worker_alone_that_takes_no_pages_sends_its_files_without_them(join: Join) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 9)
    times = [outside(worker)[0] for _ in range(4)]
    assert [after - before for before, after in pairwise(times)] == pytest.approx([GAP] * 3, abs=1)


def test_a_turn_that_no_page_takes_is_for_the_next_file(join: Join) -> None:
    brief = {"slots": SlotLimits(delay=0.05)}
    worker, _ = join("a", bounds=brief), join("b", bounds=brief)
    push(worker, "a", 2)
    times = outside(worker)
    while not (given := ask(worker).given_outside):
        pass
    assert given["a"][0] - times[0] > 200


def test_no_turn_is_given_before_the_limits_are_known(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    worker.say()
    server.flushall()
    reply = ask(worker, 3)
    assert (reply.wants_policy, reply.given_outside) == (True, {})


def test_an_unused_turn_of_a_page_does_not_bring_the_next_one_before_a_file(join: Join) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(worker, "a", 5)
    take(worker, 1)
    (at,) = outside(other)
    worker.say(grants={"a": UsedGrants(1, 0, 1)})
    (page,) = take(worker, 1, ahead=AHEAD)
    assert page.begin - at >= GAP - 1


def test_files_of_a_site_that_cannot_be_reached_fail_while_a_page_waits_to_try_it(join: Join) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 1)
    hear(worker, failures=3, reason="refused")
    reply = ask(worker)
    assert (reply.given_outside, reply.refused_outside) == ({}, {"a": "unreachable"})


def test_a_file_tries_a_site_that_cannot_be_reached_if_no_page_does(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker, other = join("a", bounds={"backoff_min_delay": 0.2}), join("b")
    hear(worker, failures=3, reason="refused")
    assert len(outside(worker, 4)) == 1
    for one in (worker, other):
        assert ask(one).refused_outside == {"a": "unreachable"}


def test_files_of_a_slot_that_is_blocked_for_long_fail(join: Join) -> None:
    worker = join(bounds=DELAY)
    asked_to_wait(worker, 90)
    assert ask(worker).refused_outside == {"a": "blocked"}


@pytest.mark.parametrize("bounds", [DELAY, {}])
def test_files_wait_for_the_end_of_a_short_block(join: Join, server: redis.Redis, bounds: Any) -> None:
    worker = join(bounds=bounds)
    asked_to_wait(worker, 50)
    reply = ask(worker)
    assert (reply.given_outside, reply.refused_outside) == ({}, {})
    assert 48_000 < reply.ask_outside_at["a"] - server_ms(server) <= 50_000


def test_after_an_unblocked_slot_nothing_waits_for_the_block(
    join: Join, slots: Callable[[], Slots], status: Callable[[], SlotStatus]
) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 1)
    slots().block("a", 30)
    ask(worker)
    slots().unblock("a")
    wait_until(lambda: take(worker))


def test_a_repeated_exchange_does_not_bring_back_turns_that_were_recalled(join: Join) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    worker.say()
    outside(worker)
    asked_to_wait(other, 50)
    reply = worker.repeat(outside={"a": 1})
    assert (reply.recalled, reply.given_outside) == (("a",), {})


def test_turns_that_were_recalled_many_times_do_not_push_the_next_one_away(
    join: Join, server: redis.Redis
) -> None:
    workers = [join(f"w{number}", bounds=DELAY) for number in range(5)]
    for wait in range(1, 9):
        for worker in workers:
            ask(worker)
        asked_to_wait(workers[0], wait / 10)
    reply = ask(workers[0])
    latest = [*reply.ask_outside_at.values(), *(at for times in reply.given_outside.values() for at in times)]
    assert max(latest) - server_ms(server) < 4_000


def test_the_concurrency_of_the_slot_does_not_count(join: Join) -> None:
    limits = SlotLimits(delay=0.001, concurrency=1)
    worker = join(bounds={"slots": limits})
    push(worker, "a", 2)
    assert len(take(worker)) == 1
    assert take(worker) == []
    assert len(outside(worker)) == 1


def test_a_slot_without_a_delay_gives_turns_at_once(join: Join) -> None:
    assert outside(join(), 3) == 3 * [AT_ONCE]


def test_a_repeated_exchange_gets_the_same_turns(join: Join) -> None:
    worker = join(bounds=DELAY)
    first = outside(worker)
    assert worker.repeat(outside={"a": 1}).given_outside["a"] == first


def test_a_turn_that_was_used_late_delays_the_next_one(join: Join, server: redis.Redis) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    outside(worker)
    late = server_ms(server)
    worker.say(grants={"a": UsedGrants(0, late)})
    (at,) = outside(other)
    assert at - late >= GAP - 1
