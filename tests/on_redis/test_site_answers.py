"""What sites answer: the fleet blocks a slot as long as its site asks, and asks it more slowly after 429.

A site that cannot be reached is tried by one request at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.events.stream import Stream
from scrapy_rq_sched.frontier.messages import SlotAnswers
from scrapy_rq_sched.frontier.replies import Lease, Reply
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.operations.failed import requeue_failed
from scrapy_rq_sched.inspect.operations.operation import Observer
from scrapy_rq_sched.inspect.slots import Slots, SlotStatus

from ..support.client import Client, Join, calls_of
from ..support.crawl import wait_until
from .test_limits import push, server_ms, take

#: Milliseconds for which answers after a raise may be to requests that were sent before it, and a moment.
SETTLING = 502


def hear(worker: Client, slot: str = "a", **answers: Any) -> Reply:
    """Let *worker* tell the answers of *slot*, and ask for nothing."""
    return worker.say(answers={slot: SlotAnswers(**answers)})


def too_fast(worker: Client, slot: str = "a", ago: float = 0.0) -> Reply:
    return hear(worker, slot, is_bad=True, ago=ago, reason="429")


def asked_to_wait(worker: Client, seconds: float, slot: str = "a") -> Reply:
    return hear(worker, slot, wait=1000 * seconds, reason="429, and asks to wait")


def refused(worker: Client, wait_ms: float) -> Reply:
    """Let *worker* tell a 429 that asks to wait."""
    return hear(worker, is_bad=True, wait=wait_ms, reason="429, and asks to wait")


def take_when_due(worker: Client, want: int = 100) -> list[Lease]:
    """Return the first leases that *worker* is given."""
    leases: list[Lease] = []
    wait_until(lambda: leases.extend(take(worker, want)) or leases)
    return leases


def age_raise(worker: Client, by_ms: float, slot: str = "a") -> None:
    """Move the times of what was learnt of *slot* to the past."""
    server, key = worker.frontier.server, worker.frontier.keys.slot(slot)
    kind, delay, good, raised, since, answers = server.hget(key, "learnt").decode().split()
    times = (f"{float(time) - by_ms:.0f}" for time in (raised, since))
    server.hset(key, "learnt", " ".join((kind, delay, good, *times, answers)))


def types(worker: Client) -> list[str]:
    """Return the types of the events of slots."""
    frontier = worker.frontier
    events = Stream(frontier.keys.events, "s").latest(frontier.server, 100)
    return [event.type for event in events if event.type.startswith("slot")]


# -- a site that asks to wait ------------------------------------------------------------------------


def test_no_worker_is_given_requests_of_a_site_that_asks_to_wait(join: Join) -> None:
    worker, other = join("a"), join("b")
    push(worker, "a", 5)
    push(worker, "b", 1)
    asked_to_wait(worker, 60)
    assert [lease.slot for lease in take(other)] == ["b"]
    assert take(worker) == []


def test_the_slot_gives_requests_again_as_soon_as_its_time_is_over(join: Join, server: redis.Redis) -> None:
    worker, other = join("a"), join("b")
    push(worker, "a", 5)
    began = time.monotonic()
    asked_to_wait(worker, 0.3)
    reply = other.say(want=1)
    assert reply.next_turn is not None
    assert 0 < reply.next_turn - server_ms(server) <= 300
    wait_until(lambda: take(other, 1))
    assert 0.3 <= time.monotonic() - began < 1


def test_the_reply_names_a_slot_that_is_no_longer_blocked(join: Join) -> None:
    worker = join()
    push(worker, "a", 5)
    asked_to_wait(worker, 0.05)
    freed = []
    wait_until(lambda: freed.extend(worker.say(want=1).freed) or freed)
    assert freed == ["a"]


def test_a_shorter_time_does_not_end_a_longer_block(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join()
    push(worker, "a", 1)
    asked_to_wait(worker, 60)
    assert asked_to_wait(worker, 1).backed_off == {}
    assert 50 < status().blocked_for <= 60


def test_the_reply_tells_for_how_long_the_slot_is_blocked_and_why(join: Join) -> None:
    its = asked_to_wait(join(), 7).backed_off["a"]
    assert (its.blocked_for, its.delay, its.reason) == (7, 0, "429, and asks to wait")


def test_a_block_is_one_event_and_its_end_another(join: Join) -> None:
    worker = join()
    push(worker, "a", 2)
    asked_to_wait(worker, 0.05)
    asked_to_wait(worker, 0.1)
    wait_until(lambda: take(worker, 1))
    assert types(worker) == ["slot_blocked", "slot_free"]


def test_the_status_of_a_slot_names_the_answer(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join()
    push(worker, "a", 1)
    asked_to_wait(worker, 60)
    its = status()
    assert (its.why, its.block_reason) == ("blocked", "429, and asks to wait")


def test_an_operator_can_end_the_wait_of_a_site(
    join: Join, slots: Callable[[], Slots], status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 2)
    asked_to_wait(worker, 60)
    too_fast(worker)
    slots().unblock("a")
    its = status()
    assert (its.blocked_for, its.block_reason, its.is_learnt) == (0, "", False)
    assert len(take(worker)) == 2


# -- recalls -----------------------------------------------------------------------------------------


def test_every_worker_gives_back_the_leases_of_the_slot_once(join: Join) -> None:
    worker, other = join("a"), join("b")
    other.say()
    worker.say()
    assert asked_to_wait(worker, 60).recalled == ("a",)
    reply = other.say()
    assert reply.recalled == ("a",)
    assert other.say(recalled=reply.last_recall).recalled == ()
    asked_to_wait(worker, 60, "b")
    assert other.say(recalled=reply.last_recall).recalled == ("b",)


def test_a_recall_with_a_lost_reply_comes_again(join: Join) -> None:
    worker, other = join("a"), join("b")
    other.say()
    asked_to_wait(worker, 60)
    assert other.say().recalled == ("a",)
    assert other.say().recalled == ("a",)


def test_a_worker_that_joins_gives_back_nothing(join: Join) -> None:
    asked_to_wait(join("a"), 60)
    joined = join("b")
    reply = joined.say()
    assert reply.recalled == ()
    assert reply.last_recall > 0


def test_recalls_of_one_slot_do_not_pile_up(join: Join, server: redis.Redis) -> None:
    worker = join()
    for seconds in range(1, 20):
        asked_to_wait(worker, seconds)
    assert server.hget(worker.frontier.keys.meta, "recalled").count(b":") == 1


# -- a site that is asked too fast -------------------------------------------------------------------


def test_after_429_the_fleet_asks_once_in_the_shortest_delay(join: Join) -> None:
    worker = join(bounds={"backoff_min_delay": 0.2})
    push(worker, "a", 9)
    assert too_fast(worker).backed_off["a"].delay == 0.2
    assert take(worker) == []
    leases = take_when_due(worker, 1)
    leases += take(worker, ahead=60_000)
    times = [lease.begin for lease in leases]
    assert len(times) == 9
    assert all(180 <= after - before <= 220 for before, after in pairwise(times))


def test_the_delay_of_the_settings_is_doubled(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=10)})
    push(worker, "a", 1)
    assert too_fast(worker).backed_off["a"].delay == 20
    assert status().delay == 20
    assert status().is_learnt


def test_the_delay_doubles_with_each_429_up_to_the_longest(join: Join) -> None:
    worker = join(bounds={"backoff_max_delay": 5})
    found = []
    for _ in range(4):
        found.append(too_fast(worker).backed_off["a"].delay)
        age_raise(worker, SETTLING)
    assert found == [1, 2, 4, 5]
    assert too_fast(worker).backed_off == {}


def test_an_answer_to_a_request_that_was_sent_before_the_raise_changes_nothing(join: Join) -> None:
    worker, other = join("a"), join("b")
    too_fast(worker)
    age_raise(worker, 2000)
    assert too_fast(other, ago=2100).backed_off == {}
    assert too_fast(other, ago=0).backed_off["a"].delay == 2


def test_good_answers_shorten_the_delay_step_by_step(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join()
    push(worker, "a", 1)
    too_fast(worker)
    for step in range(1, 4):
        age_raise(worker, 2000)
        hear(worker, good=1)
        assert status().delay == pytest.approx(0.9**step, abs=0.002)


def test_a_second_good_answer_within_the_step_changes_nothing(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 1)
    too_fast(worker)
    hear(worker, good=50)
    assert status().delay == 1


def test_after_another_429_the_last_good_delay_holds(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join()
    push(worker, "a", 1)
    too_fast(worker)
    age_raise(worker, 2000)
    hear(worker, good=1)
    assert too_fast(worker).backed_off["a"].delay == 0
    assert status().delay == 1


def test_a_kept_delay_is_tried_a_little_shorter_after_a_hundred_good_answers(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 1)
    too_fast(worker)
    age_raise(worker, 2000)
    hear(worker, good=1)
    too_fast(worker)
    hear(worker, good=99)
    assert status().delay == 1
    hear(worker, good=1)
    assert status().delay == pytest.approx(0.99)


def test_the_limits_of_the_settings_hold_again_when_the_delay_has_come_down(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=10)})
    push(worker, "a", 1)
    too_fast(worker)
    for _ in range(7):
        age_raise(worker, 30_000)
        hear(worker, good=1)
    assert (status().delay, status().is_learnt) == (10, False)
    assert types(worker) == ["slot_slowed", "slot_recovered"]


def test_a_slot_is_forgiven_after_half_an_hour(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join()
    push(worker, "a", 1)
    too_fast(worker)
    age_raise(worker, 1_800_001)
    assert not status().is_learnt


def test_a_long_delay_is_not_forgiven_before_the_site_is_asked_again(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join(bounds={"backoff_min_delay": 3600, "backoff_max_delay": 3600})
    push(worker, "a", 1)
    too_fast(worker)
    age_raise(worker, 3_700_000)
    assert status().delay == 3600


def test_a_long_block_does_not_make_the_fleet_forget_that_it_asks_too_fast(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 1)
    refused(worker, 3_600_000)
    age_raise(worker, 3_610_000)
    too_fast(worker)
    assert status().delay == 1


def test_after_one_answer_the_slots_of_a_crawl_without_limits_have_no_further_limits(
    join: Join, server: redis.Redis
) -> None:
    worker = join()
    too_fast(worker)
    assert server.hget(worker.frontier.keys.meta, "limited") == b"2"
    for slot in "bcd":
        push(worker, slot, 1)
    before = calls_of(server, "hmget")
    assert len(take(worker)) == 3
    # Of the crawl and of the worker; with limits of its own, also of each slot.
    assert calls_of(server, "hmget") - before == 2


def test_a_learnt_delay_is_kept_for_half_an_hour(join: Join, server: redis.Redis) -> None:
    worker = join()
    push(worker, "a", 1)
    too_fast(worker)
    assert server.ttl(worker.frontier.keys.slot("a")) > 1700


def test_a_worker_that_is_given_a_request_learns_the_delay_of_its_slot(join: Join) -> None:
    worker, other = join("a"), join("b")
    push(worker, "a", 2)
    too_fast(worker)
    replies = []
    wait_until(lambda: replies.append(other.say(want=1)) or replies[-1].leases)
    assert replies[-1].learnt == {"a"}
    assert replies[-1].limits["a"].delay == 1
    assert replies[-1].with_delay == {"a"}


def test_other_slots_are_as_fast_as_before(join: Join) -> None:
    worker = join()
    push(worker, "a", 1)
    push(worker, "b", 5)
    too_fast(worker)
    assert [lease.begin for lease in take(worker)] == [0] * 5


def test_a_repeated_exchange_raises_the_delay_once(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join()
    push(worker, "a", 1)
    answers = {"a": SlotAnswers(is_bad=True, reason="429")}
    worker.say(answers=answers)
    age_raise(worker, SETTLING)
    worker.repeat(answers=answers)
    assert status().delay == 1


def test_garbage_in_place_of_a_learnt_delay_is_forgotten(
    join: Join, server: redis.Redis, status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 2)
    too_fast(worker)
    for garbage in ("x", "search nan 0 0 0 0", "search 1e999 0 1 1 1", "search 1 2 3"):
        server.hset(worker.frontier.keys.slot("a"), "learnt", garbage)
        server.hset(worker.frontier.keys.meta, "recalled", garbage)
        worker.say(want=1)
    assert not status().is_learnt


def test_a_site_that_asks_to_wait_once_is_then_asked_as_fast_as_before(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 5)
    refused(worker, 50)
    leases = take_when_due(worker)
    assert len(leases) == 5
    assert not status().is_learnt


def test_a_site_that_asks_to_wait_again_is_asked_too_fast(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 5)
    refused(worker, 50)
    refused(worker, 50)
    assert not status().is_learnt
    age_raise(worker, SETTLING)
    refused(worker, 50)
    assert status().delay == 1


def test_a_learnt_delay_does_not_vary_below_the_delay_of_the_settings(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=1)})
    push(worker, "a", 60)
    too_fast(worker)
    key = worker.frontier.keys.slot("a")
    kind, _, good, raised, since, answers = server.hget(key, "learnt").decode().split()
    server.hset(key, mapping={"learnt": f"{kind} 1010 {good} {raised} {since} {answers}", "tat": 0})
    leases = take_when_due(worker, 1)
    leases += take(worker, ahead=60_000)
    gaps = [after.begin - before.begin for before, after in pairwise(leases)]
    assert len(gaps) > 40
    assert min(gaps) >= 999.9
    assert max(gaps) > 1010


# -- a site that cannot be reached -------------------------------------------------------------------


def lost(worker: Client, failures: int = 3, ago: float = 0.0) -> Reply:
    return hear(worker, failures=failures, ago=ago, reason="refused")


def after_the_pause(worker: Client) -> None:
    """Let the pause until the next attempt be over."""
    age_raise(worker, 300_000)
    worker.frontier.server.hset(worker.frontier.keys.slot("a"), "tat", 0)


def test_a_site_that_cannot_be_reached_is_tried_by_one_request_at_a_time(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker, other = join("a", bounds={"backoff_min_delay": 2}), join("b")
    push(worker, "a", 9)
    assert lost(worker).backed_off["a"].change == "down"
    assert status().why == "unreachable"
    assert len(take_when_due(worker)) == 1
    after_the_pause(worker)
    assert take(worker, 9) == take(other, 9) == []


def test_fewer_failures_than_three_in_a_row_change_nothing(join: Join) -> None:
    worker = join()
    push(worker, "a", 9)
    assert lost(worker, 2).backed_off == {}
    assert len(take(worker)) == 9


def test_the_pause_doubles_with_each_attempt_up_to_a_minute(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 1)
    found = []
    for _ in range(8):
        lost(worker)
        found.append(status().delay)
        after_the_pause(worker)
    assert found == [1, 2, 4, 8, 16, 32, 60, 60]
    assert types(worker) == ["slot_unreachable"]


def test_failures_of_requests_that_were_sent_before_the_pause_do_not_lengthen_it(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker, other = join("a"), join("b")
    push(worker, "a", 1)
    lost(worker)
    lost(other)
    assert status().delay == 1


def test_a_late_report_of_a_request_from_before_the_pause_does_not_lengthen_it(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker, other = join("a"), join("b")
    push(worker, "a", 1)
    lost(worker)
    after_the_pause(worker)
    lost(other, ago=400_000)
    assert status().delay == 1
    lost(worker, ago=200)
    assert status().delay == 2


def test_one_answer_restores_the_limits_of_the_settings(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=10, concurrency=4)})
    push(worker, "a", 1)
    lost(worker)
    assert status().is_learnt
    assert hear(worker, has_answered=True).backed_off["a"].change == "up"
    its = status()
    assert (its.is_learnt, its.delay, its.concurrency) == (False, 10, 4)
    assert types(worker) == ["slot_unreachable", "slot_recovered"]


def test_an_answer_of_another_slot_with_a_learnt_delay_does_not_end_that_delay(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 1)
    too_fast(worker)
    assert hear(worker, has_answered=True).backed_off == {}
    assert status().is_learnt


def test_by_default_a_slot_is_never_given_up(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"backoff_min_delay": 0.05})
    push(worker, "a", 3)
    lost(worker)
    age_raise(worker, 10**9)
    lost(worker)
    take(worker)
    assert server.llen(worker.frontier.keys.failed) == 0


def test_after_the_time_of_the_setting_the_requests_that_wait_are_set_aside(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds={"slot_give_up": 60})
    push(worker, "a", 700)
    push(worker, "b", 1)
    lost(worker)
    age_raise(worker, 61_000)
    its = lost(worker).backed_off["a"]
    assert (its.change, its.delay) == ("gone", 60)
    leases = []
    wait_until(lambda: leases.extend(take(worker)) or not worker.say(want=1).waiting)
    assert [lease.slot for lease in leases] == ["b"]
    keys = worker.frontier.keys
    assert server.llen(keys.failed) == 700
    entries = {entry.split(b'"reason":')[1].split(b",")[0] for entry in server.lrange(keys.failed, 0, -1)}
    assert len(entries) == 1
    assert b"FRONTIER_SLOT_GIVE_UP" in entries.pop()


def test_a_request_for_a_site_that_was_given_up_is_set_aside_as_well(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slot_give_up": 60})
    lost(worker)
    age_raise(worker, 61_000)
    lost(worker)
    push(worker, "a", 1)
    assert take(worker) == []
    assert server.llen(worker.frontier.keys.failed) == 1


# -- the Crawl-delay of a robots.txt -----------------------------------------------------------------


def crawl_delay(worker: Client, seconds: float) -> Reply:
    return hear(worker, crawl_delay=1000 * seconds)


def gaps_of(worker: Client) -> list[float]:
    leases = take_when_due(worker, 1)
    leases += take(worker, ahead=600_000)
    return [after.begin - before.begin for before, after in pairwise(leases)]


def test_all_workers_keep_the_crawl_delay_that_one_has_read(join: Join) -> None:
    worker, other = join("a"), join("b")
    push(worker, "a", 20)
    assert crawl_delay(worker, 0.2).backed_off["a"].change == "robots"
    gaps = gaps_of(other)
    assert len(gaps) > 5
    assert gaps == pytest.approx([200] * len(gaps), abs=0.01)


def test_a_longer_delay_of_the_settings_holds_but_no_gap_is_shorter_than_the_crawl_delay(
    join: Join,
) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=0.3, jitter=0.5)})
    push(worker, "a", 50)
    assert crawl_delay(worker, 0.25).backed_off == {}
    gaps = gaps_of(worker)
    assert 249.9 <= min(gaps) < 275
    assert 325 < max(gaps) <= 350.1


def test_a_delay_that_an_operator_has_set_replaces_the_crawl_delay(
    join: Join, slots: Callable[[], Slots], status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 1)
    slots().set("a", SlotRule("a", delay=1))
    crawl_delay(worker, 9)
    assert status().delay == 1


def test_the_crawl_delay_is_kept_beside_a_learnt_delay(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join()
    push(worker, "a", 1)
    crawl_delay(worker, 5)
    assert (status().delay, status().crawl_delay, status().is_learnt) == (5, 5, False)
    too_fast(worker)
    assert (status().delay, status().is_learnt) == (10, True)


def test_the_leases_of_the_slot_come_back_once(join: Join) -> None:
    worker = join()
    worker.say()
    assert crawl_delay(worker, 5).recalled == ("a",)
    assert crawl_delay(worker, 5).backed_off == {}


def test_a_worker_that_is_given_a_request_learns_the_crawl_delay(join: Join) -> None:
    worker = join()
    push(worker, "a", 1)
    crawl_delay(worker, 0.05)
    replies = []
    wait_until(lambda: replies.append(worker.say(want=1)) or replies[-1].leases)
    assert replies[-1].limits["a"].delay == 0.05
    assert (replies[-1].with_delay, replies[-1].learnt) == ({"a"}, set())


def give_up(worker: Client) -> None:
    lost(worker)
    age_raise(worker, 61_000)
    lost(worker)


def test_no_entry_of_the_failed_list_is_lost_when_a_slot_is_given_up(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slot_give_up": 60, "max_failed": 100})
    push(worker, "a", 300)
    give_up(worker)
    for _ in range(5):
        take(worker)
    keys = worker.frontier.keys
    assert server.llen(keys.failed) == 100
    assert worker.say().waiting >= 199


def test_an_exchange_sets_aside_a_limited_number_of_requests(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slot_give_up": 60})
    for slot in "abc":
        push(worker, slot, 400)
        hear(worker, slot, failures=3)
        age_raise(worker, 61_000, slot)
        hear(worker, slot, failures=3)
    keys, before = worker.frontier.keys, 0
    while before < 1200:
        take(worker)
        assert 0 < server.llen(keys.failed) - before <= 500
        before = server.llen(keys.failed)


def test_the_requests_of_a_slot_that_is_given_up_are_one_event(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slot_give_up": 60})
    push(worker, "a", 10)
    give_up(worker)
    take(worker)
    events = Stream(worker.frontier.keys.events, "s").latest(server, 100)
    found = [event.type for event in events]
    assert (found.count("slot_given_up"), found.count("request_set_aside")) == (1, 0)


def test_requests_that_are_put_back_are_tried_again(
    join: Join, server: redis.Redis, redis_url: str, status: Callable[[], SlotStatus]
) -> None:
    worker = join(bounds={"slot_give_up": 60})
    push(worker, "a", 10)
    give_up(worker)
    take(worker)
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), "s")
    requeue_failed(view, Observer(), reason="the site of its slot").do()
    assert not status().is_learnt
    assert len(take_when_due(worker)) == 10


def test_a_worker_without_the_setting_sets_nothing_aside(join: Join, server: redis.Redis) -> None:
    worker, other = join("a", bounds={"slot_give_up": 60}), join("b")
    push(worker, "a", 10)
    give_up(worker)
    server.hset(worker.frontier.keys.slot("a"), "tat", 0)
    assert len(take(other)) == 1
    assert server.llen(worker.frontier.keys.failed) == 0


def test_a_delay_that_was_learnt_before_holds_again_when_the_site_is_back(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join()
    push(worker, "a", 1)
    too_fast(worker)
    lost(worker)
    after_the_pause(worker)
    lost(worker)
    hear(worker, has_answered=True)
    its = status()
    assert (its.delay, its.is_learnt) == (1, True)
    assert its.why != "unreachable"
