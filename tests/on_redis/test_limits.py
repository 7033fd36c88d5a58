"""Limits of slots that the fleet keeps: when each request may begin, and what becomes of a worker's turns."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_limits import UNLIMITED, SlotLimits, SlotPolicy
from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.codec.slots import slot_name
from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.frontier.client import Opened
from scrapy_rq_sched.frontier.messages import Push, UsedGrants
from scrapy_rq_sched.frontier.replies import Lease
from scrapy_rq_sched.frontier.scripts import compose
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.read_status import read_status
from scrapy_rq_sched.inspect.slots import Slots, SlotStatus
from scrapy_rq_sched.keys import Keys

from ..support.client import MADE_WITH, Client, Join, calls_of, payloads
from ..support.crawl import wait_until

DELAY = {"slots": SlotLimits(delay=10)}
#: What a worker says that looks a minute ahead.
AHEAD = 60_000
#: Milliseconds for which a slot is left to the worker that had it last.
LEFT_FOR = 1000


def push(worker: Client, slot: str, count: int, **said: Any) -> None:
    pushes = [Push("force", "", 0, f"{slot}{n}".encode(), slot) for n in range(1, count + 1)]
    worker.say(pushes=pushes, **said)


def take(worker: Client, want: int = 100, **said: Any) -> list[Lease]:
    return worker.say(want=want, **said).leases


def server_ms(server: redis.Redis) -> float:
    seconds, microseconds = server.time()
    return float(seconds * 1000 + microseconds / 1000)


def opened_again(worker: Client) -> Opened:
    """Return what a worker that has joined hears when it asks again: its reply was lost."""
    opened = worker.frontier.open(MADE_WITH)
    assert isinstance(opened, Opened)
    return opened


def begins(leases: list[Lease], server: redis.Redis) -> list[int]:
    """Return in how many seconds each may begin."""
    now = server_ms(server)
    return [round((lease.begin - now) / 1000) for lease in leases]


# -- the delay ---------------------------------------------------------------------------------------


def test_a_jitter_without_a_delay_is_no_limit(join: Join) -> None:
    # RANDOMIZE_DOWNLOAD_DELAY is True by default, so most crawls have such settings.
    worker = join(bounds={"slots": SlotLimits(jitter=0.5)})
    push(worker, "a", 2)
    assert worker.say().next_turn is None
    assert len(take(worker)) == 2


def test_a_request_of_a_slot_without_limits_may_begin_at_once(join: Join, discipline: str) -> None:
    worker = join()
    push(worker, "a", 3)
    assert [lease.begin for lease in take(worker)] == [0, 0, 0]


def test_a_slot_with_a_delay_gives_one_request_that_is_due(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 3)
    assert begins(take(worker), server) == [0]
    assert take(worker) == []


def test_a_worker_that_asks_in_vain_learns_the_owner_of_the_only_slot(join: Join) -> None:
    owner, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(owner, "a", 5)
    assert len(take(owner, 1)) == 1
    assert (owner.say(want=1).owner, other.say(want=1).owner) == ("", "a")
    push(owner, "b", 1)
    assert other.say(want=2).owner == ""


def test_each_slot_has_a_delay_of_its_own(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    for slot in "abc":
        push(worker, slot, 2)
    assert [lease.slot for lease in take(worker)] == ["a", "b", "c"]


def test_the_worker_that_asks_a_slot_has_its_next_turns_ahead_of_their_time(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 9)
    take(worker)
    leases = take(worker, ahead=35_000)
    assert begins(leases, server) == [10, 20, 30]
    gaps = [after.begin - before.begin for before, after in pairwise(leases)]
    assert gaps == [10_000, 10_000]


def test_turns_follow_one_another_however_late_the_worker_asks(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=0.05)})
    push(worker, "a", 50)
    (first,) = take(worker)
    met = [first.begin]
    while len(met) < 20:
        met += [lease.begin for lease in take(worker, ahead=200)]
    assert [round(begin - first.begin) for begin in met] == [50 * n for n in range(len(met))]


def test_a_slot_that_was_not_asked_for_long_has_no_turns_to_catch_up(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=0.02)})
    push(worker, "a", 50)
    take(worker)
    until = time.monotonic() + 0.2
    wait_until(lambda: time.monotonic() > until)
    assert len(take(worker)) == 1


def test_no_other_worker_has_a_turn_while_one_has_not_begun_its_own(join: Join, server: redis.Redis) -> None:
    worker, other = join("a", bounds={"slots": SlotLimits(delay=0.01)}), join("b")
    other.frontier.config = worker.frontier.config
    push(worker, "a", 9)
    take(worker)
    until = time.monotonic() + 0.1
    while time.monotonic() < until:
        assert take(other) == []
    worker.say(grants={"a": UsedGrants(1, server_ms(server))})
    wait_until(lambda: take(other))


def test_the_next_turn_is_a_delay_after_the_last_that_was_begun_though_it_was_late(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 9)
    (lease,) = take(worker)
    late = lease.begin + 300
    wait_until(lambda: server_ms(server) > late)
    worker.say(grants={"a": UsedGrants(1, late)})
    (following,) = take(worker, ahead=AHEAD)[:1]
    assert following.begin == pytest.approx(late + 10_000, abs=0.01)


def test_a_report_that_redis_has_forgotten_slows_down_no_slot(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 9)
    (lease,) = take(worker)
    # As after a failover: the worker has used a turn and has said so, and Redis does not know it.
    server.hincrby("s:slots:state:a", "pending", 1)
    worker.say(grants={"a": UsedGrants(1, lease.begin, left=0)})
    assert server.hget("s:slots:state:a", "pending") == b"0"
    (following,) = take(worker, ahead=AHEAD)[:1]
    assert following.begin == pytest.approx(lease.begin + 10_000, abs=0.01)


def test_the_last_worker_to_ask_a_slot_has_its_next_turn_before_others(
    join: Join, server: redis.Redis
) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(worker, "a", 9)
    take(worker)
    worker.say(grants={"a": UsedGrants(1, 0)})
    assert take(other, ahead=AHEAD) == []
    assert begins(take(worker, ahead=15_000), server) == [10]


def test_a_worker_looks_at_no_slot_of_another_before_it_is_due(join: Join, server: redis.Redis) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    for slot in "abcde":
        push(worker, slot, 2)
    assert len(take(worker)) == 5
    worker.say(grants={slot: UsedGrants(1, server_ms(server)) for slot in "abcde"}, is_late=True)
    push(other, "own", 2)
    take(other)
    other.say(grants={"own": UsedGrants(1, server_ms(server))})
    before = calls_of(server, "hgetall")
    assert begins(take(other, ahead=AHEAD), server) == [10]
    assert calls_of(server, "hgetall") - before <= 1


def test_a_slot_of_a_late_worker_is_left_to_no_worker(join: Join, server: redis.Redis) -> None:
    worker, other = join("a", bounds={"slots": SlotLimits(delay=0.2)}), join("b")
    other.frontier.config = worker.frontier.config
    push(worker, "a", 9)
    (lease,) = take(worker)
    worker.say(grants={"a": UsedGrants(1, lease.begin)}, is_late=True)
    taken: list[Lease] = []
    wait_until(lambda: taken.extend(take(other)) or taken)
    assert 200 <= taken[0].begin - lease.begin < 200 + LEFT_FOR / 2


def test_a_slot_with_unused_turns_of_a_late_worker_is_left_to_it(join: Join, server: redis.Redis) -> None:
    worker, other = join("a", bounds={"slots": SlotLimits(delay=0.05)}), join("b")
    other.frontier.config = worker.frontier.config
    push(worker, "a", 9)
    (lease,) = take(worker)
    following = take(worker, ahead=200)
    worker.say(grants={"a": UsedGrants(1, lease.begin)}, is_late=True)
    wait_until(lambda: server_ms(server) > following[-1].begin + 100)
    assert take(other) == []


def test_a_slot_with_limits_of_its_own_has_no_others(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={**DELAY, "named": {"fast": SlotLimits(delay=0)}})
    push(worker, "fast", 9)
    push(worker, "slow", 9)
    taken = [lease.slot for lease in take(worker)]
    assert (taken.count("fast"), taken.count("slow")) == (9, 1)


def test_limits_from_settings_are_void_when_all_workers_with_them_are_gone(
    join: Join, server: redis.Redis
) -> None:
    before = join("before", bounds={"named": {"a": SlotLimits(delay=60)}})
    push(before, "a", 3)
    assert len(take(before)) == 1
    before.frontier.leave(finished=False, persist=True)
    server.zremrangebyscore("s:workers", "-inf", "+inf")
    server.zadd("s:slots", {"a": 1})  # as if its time had come
    assert len(take(join("now"))) == 2


def test_limits_that_were_set_stay_when_all_workers_are_gone(
    join: Join, server: redis.Redis, slots: Slots
) -> None:
    before = join("before")
    push(before, "a", 3)
    slots.set("a", SlotRule("a", delay=60))
    before.frontier.leave(finished=False, persist=True)
    assert len(take(join("now"))) == 1


def test_a_worker_learns_that_a_slot_was_set_to_have_no_limits(join: Join, slots: Slots) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 3)
    slots.set("a", SlotRule("a", delay=0, concurrency=0))
    reply = worker.say(want=9)
    assert [lease.begin for lease in reply.leases] == [0, 0]
    assert reply.limits == {"a": SlotLimits()}


# -- the policy: the limits in the settings of the workers -------------------------------------------

ONE_AT_A_TIME = SlotLimits(concurrency=1)
POLICIES: list[dict[str, Any]] = [
    {"named": {"a": ONE_AT_A_TIME}},
    {"patterns": {"?": ONE_AT_A_TIME}},
    {"slots": SlotLimits(delay=0.001), "named": {"a": ONE_AT_A_TIME}},
    {"slots": ONE_AT_A_TIME},
]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_fleet_that_is_started_again_keeps_the_limits_from_the_first_request_on(
    join: Join, policy: dict[str, Any]
) -> None:
    first = join("first", bounds=policy)
    push(first, "a", 9)
    first.frontier.leave(finished=False, persist=False)
    again = join("again", bounds=policy)
    assert len(take(again)) == 1
    assert take(join("more", bounds=policy)) == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_frontier_that_lost_the_limits_hands_out_nothing_until_a_worker_sends_them(
    join: Join, server: redis.Redis, policy: dict[str, Any]
) -> None:
    worker = join(bounds=policy)
    push(worker, "a", 9)
    server.hdel("s:meta", "rules", "slot_default", "slot_patterns", "limited")
    server.delete("s:slots:limits")
    reply = worker.say(want=9)
    assert (reply.leases, reply.wants_policy) == ([], True)
    reply = worker.say(want=9)
    assert (len(reply.leases), reply.wants_policy) == (1, False)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_slot_that_is_reset_has_the_limits_of_the_settings_at_once(
    join: Join, slots: Slots, policy: dict[str, Any]
) -> None:
    worker = join(bounds=policy)
    push(worker, "a", 9)
    slots.set("a", SlotRule("a", concurrency=0, delay=0.0))
    assert len(take(worker, want=2)) == 2
    worker.say(downloaded={"a": 2})
    slots.reset("a")
    while worker.say(want=0).wants_policy:
        pass
    assert len(take(worker)) == 1
    assert take(worker) == []


def test_limits_by_a_pattern_keep_nothing_in_redis_for_a_slot(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"patterns": {"*.test": SlotLimits(delay=5)}})
    for n in range(50):
        push(worker, f"host{n}.test", 2)
    leases = take(worker)
    assert len(leases) == 50
    assert not server.exists("s:slots:limits")
    assert {server.hget(f"s:slots:state:{lease.slot}", "delay") for lease in leases} == {b"5000"}


@pytest.mark.parametrize(
    ("policy", "lost"),
    [
        ({"named": {"a": ONE_AT_A_TIME}}, "slots:limits"),
        ({"patterns": {"a": ONE_AT_A_TIME}}, "slot_patterns"),
    ],
)
def test_a_frontier_that_lost_a_part_of_the_limits_wants_them_again(
    join: Join, server: redis.Redis, policy: dict[str, Any], lost: str
) -> None:
    worker = join(bounds=policy)
    push(worker, "a", 9)
    server.delete(f"s:{lost}")
    server.hdel("s:meta", lost)
    assert worker.say(want=9).wants_policy
    assert len(take(worker)) == 1


@pytest.mark.parametrize("kind", ["named", "patterns"])
def test_a_new_crawl_beside_an_idle_worker_of_the_last_one_keeps_the_limits(join: Join, kind: str) -> None:
    policy: dict[str, Any] = {kind: {"a": ONE_AT_A_TIME}}
    idle = join("idle", bounds=policy)
    assert idle.say(in_hand=0, finishing=True).finished
    fresh = join("fresh", bounds=policy, age=-1, persist=True)
    push(fresh, "a", 9)
    assert len(take(fresh)) == 1


def test_a_repeated_exchange_that_wants_the_limits_gives_no_turn_again(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds=DELAY)
    assert worker.say(asks={"a": 1}).given
    server.hdel("s:meta", "rules")
    assert worker.say(asks={"a": 1}).wants_policy
    assert not worker.repeat(asks={"a": 1}).given


def test_a_name_in_the_settings_has_its_own_limits_though_a_pattern_fits(join: Join) -> None:
    own = {"a.test": SlotLimits()}
    worker = join(bounds={"named": own, "patterns": {"*.test": ONE_AT_A_TIME}})
    push(worker, "a.test", 3)
    push(worker, "b.test", 3)
    slots = [lease.slot for lease in take(worker)]
    assert (slots.count("a.test"), slots.count("b.test")) == (3, 1)


def test_a_limit_that_is_not_set_stays_that_of_the_settings(join: Join, slots: Slots) -> None:
    worker = join(bounds={"named": {"a": SlotLimits(delay=7)}, "patterns": {"b*": SlotLimits(delay=8)}})
    for slot in ("a", "bb"):
        push(worker, slot, 2)
        slots.set(slot, SlotRule(slot, concurrency=3))
    take(worker)
    assert {slot: its.delay for slot, its in by_name(slots).items()} == {"a": 7, "bb": 8}


def test_a_limit_that_is_set_does_not_revive_a_rule_that_no_longer_applies(join: Join, slots: Slots) -> None:
    first = join("first", bounds={"named": {"a": SlotLimits(delay=0.1)}})
    first.say()
    first.frontier.leave(False, True)
    worker = join("second", bounds=DELAY)
    push(worker, "a", 2)
    slots.set("a", SlotRule("a", concurrency=3))
    take(worker)
    assert by_name(slots)["a"].delay == 10


def test_a_limit_that_is_not_set_follows_the_settings_of_later_workers(join: Join, slots: Slots) -> None:
    join("first", bounds={"named": {"a": SlotLimits(delay=1, concurrency=1)}}).say()
    slots.set("a", SlotRule("a", concurrency=2))
    worker = join("later", bounds={"named": {"a": SlotLimits(delay=60, concurrency=1)}})
    push(worker, "a", 2)
    assert worker.say(want=1).limits == {"a": SlotLimits(delay=60, concurrency=2)}
    assert (by_name(slots)["a"].delay, by_name(slots)["a"].concurrency) == (60, 2)


def test_a_worker_keeps_its_own_delay_of_a_named_slot_if_only_the_concurrency_is_set(
    join: Join, slots: Slots
) -> None:
    worker = join(bounds={"named": {"a": SlotLimits(concurrency=1)}})
    push(worker, "a", 2)
    slots.set("a", SlotRule("a", concurrency=2))
    assert worker.say(want=1).with_delay == frozenset()


def test_a_slot_with_upper_case_keeps_its_rule_if_another_limit_is_set(join: Join, slots: Slots) -> None:
    worker = join(bounds={"named": {"shop": SlotLimits(delay=5, concurrency=1)}})
    push(worker, "Shop", 2)
    slots.set("Shop", SlotRule("Shop", concurrency=2))
    assert worker.say(want=1).limits == {"Shop": SlotLimits(delay=5, concurrency=2)}
    assert by_name(slots)["Shop"].delay == 5


def test_limits_that_an_older_version_has_set_apply_until_they_are_set_again(
    join: Join, slots: Slots, server: redis.Redis
) -> None:
    worker = join(bounds={"named": {"a": SlotLimits(delay=5)}})
    push(worker, "a", 2)
    server.hset("s:slots:limits", "a", "7000 0 2 set")
    assert worker.say(want=1).limits == {"a": SlotLimits(delay=7, concurrency=2)}
    assert (by_name(slots)["a"].delay, by_name(slots)["a"].is_set) == (7, True)
    slots.set("a", SlotRule("a", concurrency=3))
    while worker.say().wants_policy:
        pass
    assert (by_name(slots)["a"].delay, by_name(slots)["a"].concurrency) == (5, 3)


def test_the_limits_of_the_worker_that_joined_last_apply(join: Join, slots: Slots) -> None:
    first = join("first", bounds=DELAY)
    push(first, "a", 2)
    last = join("last", bounds={"slots": SlotLimits(delay=3)})
    assert last.say().other_limits == DELAY["slots"]
    take(first)
    assert by_name(slots)["a"].delay == 3
    assert first.say().other_limits is None


@pytest.mark.parametrize(
    "bounds",
    [
        {"named": {"b": SlotLimits(delay=7)}},
        {"patterns": {"b*": SlotLimits(delay=7)}},
        {"named": {"b": SlotLimits(concurrency=3)}, "slots": SlotLimits(jitter=0.5)},
        {"patterns": {"*": SlotLimits(concurrency=3)}},
    ],
    ids=str,
)
def test_a_worker_with_limits_of_another_slot_only_leaves_the_limits_of_the_others(
    join: Join, slots: Slots, bounds: dict[str, Any]
) -> None:
    others = {"named": {"c": SlotLimits(delay=20)}, "patterns": {"[de]*": SlotLimits(delay=30)}}
    first = join("first", bounds={**DELAY, **others})
    for slot in "abcde":
        push(first, slot, 2)
    before = {slot: its for slot, its in by_name(slots).items() if slot != "b"}
    for n in range(2):
        last = join(f"last{n}", bounds=bounds)
        last.say()
        delays = {slot: its.delay for slot, its in by_name(slots).items() if slot != "b"}
        assert delays == {slot: its.delay for slot, its in before.items()}
        assert delays == {"a": 10, "c": 20, "d": 30, "e": 30}
        assert (by_name(slots)["b"].delay, by_name(slots)["b"].concurrency) in [(7, 0), (10, 3)]
        last.frontier.leave(True, False)
    assert {slot: its.delay for slot, its in by_name(slots).items() if slot != "b"} == delays


@pytest.mark.parametrize("is_first", [True, False])
def test_the_limits_of_all_workers_come_back_after_redis_has_lost_its_data(
    join: Join, slots: Slots, server: redis.Redis, is_first: bool
) -> None:
    workers = [join("a", bounds=DELAY), join("b", bounds={"named": {"b": SlotLimits(delay=7)}})]
    for worker in workers:
        worker.say()
    server.flushall()
    for worker in workers if is_first else workers[::-1]:
        for _ in range(3):
            worker.say()
    assert not any(worker.say().wants_policy for worker in workers)
    push(workers[0], "a", 2)
    assert by_name(slots)["a"].delay == 10


def test_a_worker_with_a_concurrency_only_leaves_the_delay_of_the_others(join: Join, slots: Slots) -> None:
    first = join("first", bounds={**DELAY, "patterns": {"b*": SlotLimits(delay=20)}})
    push(first, "a", 2)
    push(first, "bc", 2)
    join(
        "last", bounds={"slots": SlotLimits(concurrency=8), "named": {"bc": SlotLimits(concurrency=2)}}
    ).say()
    found = {slot: (its.delay, its.concurrency) for slot, its in by_name(slots).items()}
    assert found == {"a": (10, 8), "bc": (20, 2)}
    join("another", bounds={"named": {"a": SlotLimits(delay=30)}}).say()
    found = {slot: (its.delay, its.concurrency) for slot, its in by_name(slots).items()}
    assert found == {"a": (30, 8), "bc": (20, 2)}


def test_a_fleet_is_not_mixed_any_more_when_all_its_workers_have_the_same_limits(
    join: Join, slots: Slots
) -> None:
    def bounds(delay: float) -> dict[str, Any]:
        return {"named": {"a": SlotLimits(delay=delay), "b": SlotLimits(delay=5)}}

    old = [join(f"old{n}", bounds=bounds(9)) for n in range(2)]
    push(old[0], "a", 2)
    new = []
    for n, worker in enumerate(old):
        new.append(join(f"new{n}", bounds=bounds(3)))
        new[n].say()
        assert by_name(slots)["a"].delay == 3
        worker.frontier.leave(True, False)
    last = join("last", bounds=bounds(3)).say()
    assert (last.other_limits, last.limits_in_force) == (None, None)
    assert [worker.say().limits_in_force for worker in new] == [None, None]
    again = join("again", bounds=bounds(3)).say()
    assert (again.other_limits, again.limits_changed) == (None, last.limits_changed)


def test_patterns_of_several_workers_apply_together_once_each(join: Join, server: redis.Redis) -> None:
    join("first", bounds={"patterns": {"a*": SlotLimits(delay=1), "c*": SlotLimits(delay=3)}}).say()
    for n in range(3):
        join(f"b{n}", bounds={"patterns": {"b*": SlotLimits(delay=2), "c*": SlotLimits(delay=9)}}).say()
        join(f"d{n}", bounds={"patterns": {"d*": SlotLimits(delay=4)}}).say()
    patterns = json.loads(server.hget("s:meta", "slot_patterns"))
    assert {glob: delay for glob, _, delay, _, _ in patterns} == {"a*": 1e3, "b*": 2e3, "c*": 9e3, "d*": 4e3}
    assert len(patterns) == 4


def test_workers_hear_which_limits_apply_unless_their_own_do(join: Join) -> None:
    without = join("without")
    assert without.say().limits_in_force is None
    first = join("first", bounds=DELAY)
    assert first.say().limits_in_force is None
    assert without.say().limits_in_force == DELAY["slots"]
    last = join("last", bounds={"named": {"b": SlotLimits(delay=7)}})
    assert [its.say().limits_in_force for its in (last, first, without)] == [DELAY["slots"]] * 3
    again = join("again", bounds=DELAY)
    assert [its.say().limits_in_force for its in (again, first)] == [None] * 2


def test_the_others_give_back_their_requests_when_a_worker_with_other_limits_joins(join: Join) -> None:
    first = join("first")
    push(first, "a", 2)
    before = first.say().limits_changed
    join("second").say()
    assert first.say().limits_changed == before
    join("last", bounds=DELAY).say()
    since = first.say().limits_changed
    assert since != before
    join("alike", bounds=DELAY).say()
    assert first.say().limits_changed == since


def test_a_worker_without_limits_hears_once_that_the_others_have_some(join: Join) -> None:
    join("first", bounds=DELAY).say()
    other = join("other")
    assert other.say().other_limits == DELAY["slots"]
    assert other.say().other_limits is None


@pytest.mark.parametrize("count", [1, 3])
def test_workers_with_the_same_settings_hear_of_no_others(join: Join, count: int) -> None:
    workers = [join(str(n), bounds=DELAY) for n in range(count)]
    assert [worker.say().other_limits for worker in workers * 2] == [None] * 2 * count


@pytest.mark.parametrize(
    ("first", "last"), [(DELAY, {"slots": SlotLimits(delay=3)}), (DELAY, {}), ({}, DELAY)], ids=str
)
def test_a_worker_that_joins_hears_of_a_running_one_with_other_limits(
    join: Join, first: dict[str, SlotLimits], last: dict[str, SlotLimits]
) -> None:
    join("first", bounds=first)
    opened = opened_again(join("last", bounds=last))
    assert (opened.other, opened.other_limits) == ("first", str(first.get("slots", UNLIMITED)))


@pytest.mark.parametrize(
    ("first", "last"),
    [(DELAY, DELAY), ({"slots": SlotLimits(jitter=0.5)}, {}), (DELAY, {**DELAY, "named": {"a": UNLIMITED}})],
    ids=str,
)
def test_a_worker_that_joins_hears_of_no_worker_with_its_own_limits(
    join: Join, first: dict[str, Any], last: dict[str, Any]
) -> None:
    join("first", bounds=first)
    assert opened_again(join("last", bounds=last)).other == ""


def test_a_worker_that_joins_hears_of_no_dead_worker(join: Join, server: redis.Redis) -> None:
    join("first", bounds=DELAY)
    server.zadd("s:workers", {"first": 1})
    assert opened_again(join("last")).other == ""


def test_limits_of_a_worker_that_another_program_has_changed_keep_nothing_from_joining(
    join: Join, server: redis.Redis
) -> None:
    join("first", bounds=DELAY)
    server.set("s:worker:first", "of another program")
    assert opened_again(join("last")).other == ""


# As in Redis: there, an escape is never a part of a character.
names = st.text("abC.-%2]~", max_size=8).map(slot_name)


@pytest.mark.slow
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([*"ab.-%*?", "[ab]", "[!a]", "[a-c]", "]"]), min_size=1).map("".join), names)
def test_a_pattern_fits_the_same_slots_in_redis_as_in_a_worker(
    server: redis.Redis, glob: str, name: str
) -> None:
    rule = SlotRule(glob)
    policy = SlotPolicy(patterns=((glob, SlotLimits(delay=1)),))
    text = compose("slots/slot_patterns")
    assert text.count(b"return slot_patterns -- seldom used") == 1
    text = text.replace(b"return slot_patterns -- seldom used", b"return slot_patterns.limits_of(ARGV[1])")
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    server.hset(keys.meta, "slot_patterns", policy.to_wire()["patterns"])
    try:
        found = server.eval(text, len(keys.all()), *keys.all(), name)
    except redis.ResponseError as error:
        pytest.fail(f"{policy.to_wire()}: {error}")
    assert bool(found) == rule.fits(name)


# -- requests in a worker's memory -------------------------------------------------------------------


def test_requests_in_the_memory_of_a_worker_are_granted_turns_of_their_slot(
    join: Join, server: redis.Redis
) -> None:
    worker, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(other, "a", 3)
    reply = worker.say(asks={"a": 3}, ahead=AHEAD)
    assert [round((at - server_ms(server)) / 1000) for at in reply.given["a"]] == [0]
    assert take(other) == []
    again = worker.say(asks={"a": 2}, ahead=15_000)
    assert [round((at - server_ms(server)) / 1000) for at in again.given["a"]] == [10]
    assert again.ask_at == pytest.approx(again.given["a"][0] + 10_000, abs=0.01)


def test_a_repeated_exchange_is_given_the_same_turns(join: Join) -> None:
    worker = join(bounds=DELAY)
    first = worker.say(asks={"a": 3})
    assert worker.repeat(asks={"a": 3}).given == first.given


def test_the_reply_to_a_worker_with_all_turns_that_it_needs_names_no_more(join: Join) -> None:
    worker = join(bounds={"slots": SlotLimits(concurrency=2)})
    reply = worker.say(asks={"a": 2})
    assert len(reply.given["a"]) == 2
    assert reply.ask_at is None
    refused = worker.say(asks={"a": 1})
    assert refused.given == {}
    assert refused.ask_at is not None
    assert len(worker.say(asks={"a": 1}, downloaded={"a": 1}).given["a"]) == 1


def test_jitter_spreads_the_gaps_about_the_delay(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=1, jitter=0.5)})
    push(worker, "a", 200)
    take(worker)
    leases = take(worker, want=150, ahead=1_000_000)
    gaps = [after.begin - before.begin for before, after in pairwise(leases)]
    assert all(500 <= gap <= 1500 for gap in gaps)
    assert len({round(gap) for gap in gaps}) > 50
    assert 800 < sum(gaps) / len(gaps) < 1200


def test_jitter_differs_from_exchange_to_exchange(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=1, jitter=0.5)})
    push(worker, "a", 50)
    met = [lease for n in range(10) for lease in take(worker, ahead=1500 * n)]
    gaps = [after.begin - before.begin for before, after in pairwise(met)]
    assert len({round(gap) for gap in gaps}) > len(gaps) / 2


def test_a_slow_slot_keeps_no_request_of_another_waiting(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    for n in range(300):
        push(worker, f"slow{n}", 2)
    while take(worker):
        pass
    push(worker, "new", 1)
    assert [lease.slot for lease in take(worker, want=1)] == ["new"]


def test_slots_that_have_to_wait_take_no_share_of_the_others(join: Join) -> None:
    worker = join(bounds={**DELAY, "named": {"fast": SlotLimits(delay=0)}})
    for n in range(50):
        push(worker, f"slow{n}", 2)
    while take(worker, ahead=20_000):
        pass
    push(worker, "fast", 40)
    assert [lease.slot for lease in take(worker, want=32, ahead=20_000)] == ["fast"] * 32


def test_the_reply_names_the_time_of_the_next_turn(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 2)
    take(worker)
    reply = worker.say()
    assert reply.now is not None
    assert reply.next_turn is not None
    assert reply.next_turn - reply.now == pytest.approx(10_000, abs=500)


def test_the_reply_names_no_turn_of_slots_without_requests(join: Join) -> None:
    worker = join(bounds={**DELAY, "named": {f"dry{n}": SlotLimits(delay=2) for n in range(40)}})
    push(worker, "a", 2)
    for n in range(40):
        push(worker, f"dry{n}", 1)
    leases = take(worker)
    assert len(leases) == 41
    reply = worker.say(grants={lease.slot: UsedGrants(1, lease.begin) for lease in leases})
    assert reply.now is not None
    assert reply.next_turn is not None
    assert reply.next_turn - reply.now == pytest.approx(10_000, abs=500)


def test_a_repeated_exchange_gives_the_same_turns_again_and_no_others(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 9)
    take(worker)
    said = {"want": 100, "ahead": 25_000, "grants": {"a": UsedGrants(1, 0)}}
    first = worker.say(**said)
    state = server.hgetall("s:slots:state:a")
    again = worker.repeat(**said)
    assert again.leases == first.leases
    assert server.hgetall("s:slots:state:a") == state


# -- a worker that is gone ---------------------------------------------------------------------------


def test_the_turns_of_a_dead_worker_are_anothers(join: Join, server: redis.Redis) -> None:
    limits = {"slots": SlotLimits(delay=0.01)}
    dead, other = join("dead", lease=0.3, bounds=limits), join("other", bounds=limits)
    push(dead, "a", 9)
    take(dead)
    wait_until(lambda: take(other))
    assert server.hget("s:slots:state:a", "owner") == b"other"


def test_a_request_given_back_leaves_its_slot_free(join: Join, server: redis.Redis) -> None:
    limits = {"slots": SlotLimits(delay=0.01)}
    worker, other = join("a", bounds=limits), join("b", bounds=limits)
    push(worker, "a", 9)
    (lease,) = take(worker)
    worker.say(given_back=[lease.name], grants={"a": UsedGrants(1, 0)})
    wait_until(lambda: take(other))


def test_nothing_begins_for_a_moment_after_redis_has_come_back_with_older_data(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=0.01)})
    push(worker, "a", 9)
    take(worker)
    worker.number += 5  # as if Redis had lost five exchanges
    wait_until(lambda: not take(worker) and by_time(server) > 1000)


def test_after_older_data_a_slot_waits_for_its_delay(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 9)
    server.delete("s:slots:state:a")
    worker.number += 5
    assert take(worker) == []
    assert by_time(server) == pytest.approx(10_000, abs=500)


# -- concurrency -------------------------------------------------------------------------------------


def test_no_more_leases_of_a_slot_are_out_than_its_concurrency_allows(
    join: Join, server: redis.Redis
) -> None:
    limits = {"slots": SlotLimits(concurrency=3)}
    worker, other = join("a", bounds=limits), join("b", bounds=limits)
    push(worker, "a", 20)
    taken = take(worker) + take(other)
    assert len(taken) == 3
    worker.say(downloaded={"a": 2})
    assert len(take(other)) == 2
    assert take(other) == []


def test_the_downloads_of_a_dead_worker_count_no_longer(join: Join, server: redis.Redis) -> None:
    limits = {"slots": SlotLimits(concurrency=1)}
    dead, other = join("dead", lease=0.3, bounds=limits), join("other", bounds=limits)
    push(dead, "a", 9)
    assert len(take(dead)) == 1
    wait_until(lambda: take(other))
    assert b"a:dead" not in server.hgetall("s:slots:state:a")


# -- garbage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["tat", "pending", "owner", "blocked", "a:b"])
@pytest.mark.parametrize("value", ["", "nan", "-1", "inf", "x" * 100, "1e300"])
def test_garbage_in_the_state_of_a_slot_stops_nothing(
    join: Join, server: redis.Redis, field: str, value: str
) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=0.01)})
    server.hset("s:slots:state:a", field, value)
    push(worker, "a", 1)
    assert payloads(take(worker)) == ["a1"]


def test_a_foreign_value_at_the_key_of_a_slot_state_is_replaced(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=0.01)})
    server.set("s:slots:state:a", "x")
    push(worker, "a", 1)
    assert payloads(take(worker)) == ["a1"]


def test_the_state_of_a_slot_has_a_time_to_live(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=1, concurrency=5)})
    push(worker, "a", 5)
    (lease,) = take(worker)
    # A download may take longer than an unused state is kept.
    assert 80_000_000 < server.pttl("s:slots:state:a") <= 86_500_000
    worker.say(grants={"a": UsedGrants(1, lease.begin)}, downloaded={"a": 1})
    assert 0 < server.pttl("s:slots:state:a") <= 700_000


def test_the_end_of_a_download_does_not_shorten_a_block(
    join: Join, slots: Slots, server: redis.Redis
) -> None:
    worker = join(bounds={"slots": SlotLimits(concurrency=1)})
    push(worker, "a", 1)
    take(worker)
    slots.block("a", 7200)
    worker.say(downloaded={"a": 1})
    assert server.pttl("s:slots:state:a") > 7_200_000


def test_the_owner_of_a_slot_with_a_concurrency_has_its_next_turn_ahead_when_a_download_ends(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=10, concurrency=1)})
    push(worker, "a", 5)
    take(worker)
    used = {"a": UsedGrants(1, server_ms(server), 0, 0)}
    assert take(worker, ahead=15_000, grants=used) == []
    assert begins(take(worker, ahead=15_000, downloaded={"a": 1}), server) == [10]


# -- seen and changed from outside -------------------------------------------------------------------


@pytest.fixture
def slots(server: redis.Redis, redis_url: str, join: Join) -> Slots:
    join("first")
    return Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"))


def by_name(slots: Slots, *names: str) -> dict[str, SlotStatus]:
    return {one.slot: one for one in slots.read(names or None)}


def test_how_slots_stand_is_seen_from_outside(join: Join, slots: Slots) -> None:
    own = {"b": SlotLimits(delay=2, jitter=0.5, concurrency=1)}
    worker = join("a", bounds={**DELAY, "named": own})
    push(worker, "a", 3)
    push(worker, "b", 2)
    take(worker)
    found = by_name(slots)
    assert (found["a"].waiting, found["a"].owner, found["a"].why) == (2, "a", "delay")
    assert found["a"].next_in == pytest.approx(10, abs=0.5)
    assert (found["a"].delay, found["a"].jitter, found["a"].concurrency) == (10, 0, 0)
    assert (found["b"].delay, found["b"].jitter, found["b"].concurrency) == (2, 0.5, 1)
    assert (found["b"].active, found["b"].why) == (1, "concurrency")


@pytest.mark.parametrize(
    ("limits", "cause"),
    [(SlotLimits(), "blocked"), (SlotLimits(delay=10), "delay"), (SlotLimits(concurrency=1), "concurrency")],
)
def test_the_status_of_a_slot_has_the_cause_that_an_exchange_has(
    join: Join, slots: Slots, limits: SlotLimits, cause: str
) -> None:
    worker = join("a", bounds={"slots": limits})
    push(worker, "a", 3)
    if cause == "blocked":
        slots.block("a", 60)
    else:
        take(worker)
    reply = worker.say(want=1)
    assert (reply.leases, reply.why, by_name(slots)["a"].why) == ([], cause, cause)


def test_the_status_of_a_slot_shows_only_the_limits_that_were_set(join: Join, slots: Slots) -> None:
    push(join("a"), "a", 1)
    slots.view.server.hdel("s:meta", "slot_default")
    slots.set("a", SlotRule("a", concurrency=2))
    found = by_name(slots, "a")["a"]
    assert (found.delay, found.jitter, found.concurrency, found.is_set) == (None, None, 2, True)


def test_the_status_of_a_slot_is_read_though_its_owner_is_no_text(
    join: Join, slots: Slots, server: redis.Redis
) -> None:
    worker = join("a", bounds=DELAY)
    push(worker, "a", 2)
    take(worker)
    server.hset("s:slots:state:a", "owner", b"\xff")
    assert by_name(slots)["a"].owner == "\ufffd"


def test_a_corrupt_delay_of_a_state_is_written_again(join: Join, server: redis.Redis) -> None:
    worker = join("a", bounds={"slots": SlotLimits(delay=0.001)})
    push(worker, "a", 9)
    take(worker)
    server.hset("s:slots:state:a", "delay", "garbage")
    worker.say(grants={"a": UsedGrants(1, 0)})
    assert server.hget("s:slots:state:a", "delay") == b"1"


def test_a_slot_without_requests_leaves_the_index_of_its_owner(join: Join, server: redis.Redis) -> None:
    worker = join("a", bounds=DELAY)
    push(worker, "a", 1)
    assert len(take(worker)) == 1
    assert server.zcard("s:slots:of:a") == 0


def test_slots_without_room_do_not_keep_an_exchange_from_the_slots_behind_them(
    join: Join, server: redis.Redis
) -> None:
    limits = {"slots": SlotLimits(delay=0.001, concurrency=1)}
    worker, other = join("a", bounds=limits), join("b", bounds=limits)
    names = {one: [f"{one.name}{number}" for number in range(90)] for one in (worker, other)}
    for one, slots in names.items():
        for slot in slots:
            push(one, slot, 2)
    held = {one: take(one, want=90) for one in names}
    assert [len(leases) for leases in held.values()] == [90, 90]
    for number in range(100):
        push(other, f"free{number}", 1)
    # They are due again after the time of a lease; of one of them the download is over.
    due = 1000 * (server_ms(server) - 60_000)
    for number in range(90):
        server.zadd("s:slots:of:a", {names[worker][number]: due + number})
        server.zadd(
            "s:slots", {names[worker][number]: due + 1e6 + number, names[other][number]: due + number}
        )
    assert len(take(worker, want=16, downloaded={held[worker][0].slot: 1})) == 16


def test_the_status_of_slots_is_read_without_a_write(join: Join, slots: Slots, server: redis.Redis) -> None:
    worker = join("a", bounds={"slots": SlotLimits(delay=10, concurrency=1)})
    push(worker, "a", 3)
    take(worker)
    # The server's clock was set back: the next exchange notes that, and not a reader.
    server.hset("s:meta", "clock", server_ms(server) + 10_000)
    before = {key: server.dump(key) for key in server.scan_iter()}
    assert by_name(slots)["a"].why == "concurrency"
    assert {key: server.dump(key) for key in server.scan_iter()} == before
    worker.say(want=1)
    assert float(server.hget("s:meta", "clock_ahead") or 0) > 9_000


def test_a_slot_is_blocked_for_a_time(join: Join, slots: Slots) -> None:
    worker = join("a")
    push(worker, "a", 3)
    push(worker, "b", 1)
    slots.block("a", 60)
    assert [lease.slot for lease in take(worker)] == ["b"]
    assert by_name(slots)["a"].why == "blocked"
    slots.unblock("a")
    assert take(worker)


def test_a_slot_that_is_blocked_for_a_moment_goes_on_by_itself(join: Join, slots: Slots) -> None:
    worker = join("a")
    push(worker, "a", 3)
    slots.block("a", 0.2)
    assert take(worker) == []
    wait_until(lambda: take(worker))


def test_limits_that_were_set_override_the_limits_of_workers_until_a_reset(join: Join, slots: Slots) -> None:
    worker = join("a", bounds={"named": {"a": SlotLimits(delay=0.001)}})
    slots.set("a", SlotRule("a", delay=2.0))
    push(worker, "a", 9)
    assert len(take(worker)) == 1
    assert take(worker) == []
    assert (by_name(slots)["a"].delay, by_name(slots)["a"].is_set) == (2, True)
    slots.reset("a")
    wait_until(lambda: take(worker))
    assert by_name(slots)["a"].delay == 0.001


def test_a_delay_that_is_made_shorter_is_not_waited_for(join: Join, slots: Slots) -> None:
    worker = join("a", bounds={"slots": SlotLimits(delay=1000)})
    push(worker, "a", 9)
    take(worker)
    slots.set("a", SlotRule("a", delay=0.1))
    wait_until(lambda: take(worker))


def test_of_limits_that_were_set_in_part_the_rest_is_that_of_all(join: Join, slots: Slots) -> None:
    worker = join("a", bounds=DELAY)
    slots.set("a", SlotRule("a", concurrency=1))
    push(worker, "a", 9)
    take(worker)
    worker.say(downloaded={"a": 1}, grants={"a": UsedGrants(1, 0)})
    assert take(worker) == []


def test_a_request_that_has_no_turn_moves_the_next_one_on(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 9)
    worker.say(grants={"a": UsedGrants(0, server_ms(server))})
    assert take(worker) == []
    assert by_time(server) == pytest.approx(10_000, abs=500)


def by_time(server: redis.Redis) -> float:
    return float(server.zscore("s:slots", "a")) / 1000 - server_ms(server)


def test_the_reply_has_limits_that_were_set_with_the_turns_of_their_slot(join: Join, slots: Slots) -> None:
    worker = join("a", bounds=DELAY)
    slots.set("a", SlotRule("a", delay=0.5))
    push(worker, "a", 2)
    push(worker, "b", 2)
    reply = worker.say(want=9)
    assert {lease.slot for lease in reply.leases} == {"a", "b"}
    assert reply.limits == {"a": SlotLimits(delay=0.5)}


def test_a_blocked_slot_without_requests_is_seen(join: Join, slots: Slots) -> None:
    slots.block("a", 60)
    assert list(slots.with_state()) == ["a"]
    assert by_name(slots, "a")["a"].blocked_for == pytest.approx(60, abs=1)


def test_a_worker_learns_that_limits_were_changed(join: Join, slots: Slots) -> None:
    worker = join("a")
    push(worker, "a", 3)
    before = worker.say().limits_changed
    slots.block("a", 60)
    assert worker.say().limits_changed != before


def test_a_worker_learns_whether_the_delay_was_set(join: Join, slots: Slots) -> None:
    worker = join("a")
    push(worker, "a", 9)
    slots.set("a", SlotRule("a", concurrency=2))
    assert worker.say(want=1).with_delay == frozenset()
    slots.set("a", SlotRule("a", delay=0.0))
    assert worker.say(want=1).with_delay == {"a"}


def test_a_block_outlives_the_crawl(join: Join, slots: Slots, server: redis.Redis) -> None:
    worker = join("a")
    push(worker, "a", 1)
    slots.block("a", 60)
    server.hdel("s:meta", "limited")  # as the last worker of a crawl does
    assert take(join("b")) == []


def test_to_block_a_slot_does_not_shorten_the_life_of_its_state(
    join: Join, slots: Slots, server: redis.Redis
) -> None:
    worker = join("a", bounds={"slots": SlotLimits(delay=3600)})
    push(worker, "a", 3)
    take(worker)
    slots.block("a", 60)
    slots.unblock("a")
    assert int(server.ttl("s:slots:state:a")) > 3600


def test_a_worker_without_limits_keeps_the_limits_of_the_others(join: Join) -> None:
    polite, other = join("a", bounds=DELAY), join("b")
    push(polite, "a", 3)
    assert len(take(polite)) == 1
    assert take(other) == []


def test_a_turn_that_began_nothing_costs_no_time(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 5)
    take(worker)
    worker.say(grants={"a": UsedGrants(1, server_ms(server))})
    assert begins(take(worker, ahead=15_000), server) == [10]
    worker.say(grants={"a": UsedGrants(1, 0, 1)})
    assert begins(take(worker, ahead=15_000), server) == [10]


# -- a slot stays with its worker --------------------------------------------------------------------


def is_due(server: redis.Redis, since: float = 0) -> float:
    """Have the turn of slot a have come *since* milliseconds ago."""
    due = server_ms(server) - since
    server.hset("s:slots:state:a", "tat", due)
    server.zadd("s:slots", {"a": 1000 * due})
    return due


def test_a_slot_is_left_for_a_moment_to_the_worker_that_had_it(join: Join, server: redis.Redis) -> None:
    one, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(one, "a", 5)
    take(one)
    one.say(grants={"a": UsedGrants(1, server_ms(server))})
    due = is_due(server)
    leases = take(other)
    assert not leases or server_ms(server) > due + LEFT_FOR
    assert server.zscore("s:slots:of:a", "a") == pytest.approx(1000 * due, abs=1000)
    assert server.zscore("s:slots", "a") == pytest.approx(1000 * (due + LEFT_FOR), abs=1000)
    assert len(take(one)) == 1


def test_a_slot_that_its_worker_has_left_alone_is_anothers(join: Join, server: redis.Redis) -> None:
    one, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(one, "a", 5)
    take(one)
    one.say(grants={"a": UsedGrants(1, server_ms(server))})
    is_due(server, since=LEFT_FOR + 50)
    assert len(take(other)) == 1


def test_the_slots_of_a_worker_that_has_left_are_anybodys(join: Join, server: redis.Redis) -> None:
    one, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(one, "a", 5)
    lease = take(one)[0]
    one.say(grants={"a": UsedGrants(1, server_ms(server))}, finished=[lease.name])
    one.frontier.leave(False, True)
    assert not server.exists("s:slots:of:a")
    is_due(server)
    assert len(take(other)) == 1


def test_a_slot_leaves_the_index_of_its_worker_when_its_leases_go_back(
    join: Join, server: redis.Redis
) -> None:
    worker = join("a", bounds=DELAY)
    push(worker, "a", 5)
    take(worker)
    worker.say(grants={"a": UsedGrants(1, server_ms(server))})
    assert server.exists("s:slots:of:a")
    worker.number += 5  # Redis has lost some of its exchanges
    worker.say()
    assert not server.exists("s:slots:of:a")


def test_a_worker_forgets_slots_that_have_no_requests(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=0.01)})
    push(worker, "a", 2)
    wait_until(lambda: take(worker))
    worker.say(grants={"a": UsedGrants(1, server_ms(server))})
    wait_until(lambda: take(worker))
    wait_until(lambda: not take(worker) and not server.exists("s:slots:of:a"))


# -- the server's clock ------------------------------------------------------------------------------


def test_after_the_clock_was_set_back_a_concurrency_is_kept(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"slots": SlotLimits(concurrency=1)})
    push(worker, "a", 3)
    server.hset("s:meta", "clock", server_ms(server) + 3_600_000)
    assert len(take(worker)) == 1
    assert take(worker) == []


def test_a_slot_that_another_worker_has_taken_over_is_in_its_index_only(
    join: Join, server: redis.Redis
) -> None:
    one, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(one, "a", 9)
    take(one)
    one.say(grants={"a": UsedGrants(1, server_ms(server))})
    is_due(server, since=LEFT_FOR + 50)
    assert server.zscore("s:slots:of:a", "a") is not None
    assert len(take(other)) == 1
    assert server.zscore("s:slots:of:a", "a") is None
    assert server.zscore("s:slots:of:b", "a") is not None


def test_a_worker_saturated_with_the_due_slots_gets_the_next_turn_of_another_slot(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 9)
    push(worker, "b", 9)
    assert len(take(worker)) == 2
    worker.say(grants={"a": UsedGrants(1, server_ms(server)), "b": UsedGrants(1, server_ms(server))})
    is_due(server)
    reply = worker.say(want=5, saturated=["a"])
    assert reply.leases == []
    assert reply.next_turn is not None
    assert 8_000 < reply.next_turn - server_ms(server) < 10_000


def test_the_reply_repeats_turns_for_requests_in_memory_though_the_crawl_is_paused(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds=DELAY)
    given = worker.say(asks={"a": 1}).given
    server.hset("s:meta", "state", "paused")
    assert worker.repeat(asks={"a": 1}).given == given != {}


def test_a_longer_delay_of_before_is_not_waited_for(join: Join, server: redis.Redis) -> None:
    before = join("a", bounds={"slots": SlotLimits(delay=86_400)})
    push(before, "a", 9)
    (lease,) = take(before)
    before.say(grants={"a": UsedGrants(1, lease.begin)}, finished=[lease.name])
    before.frontier.leave(False, True)
    worker = join("b", bounds={"slots": SlotLimits(delay=0.05)})
    server.zadd("s:slots", {"a": 0})
    wait_until(lambda: take(worker))


def test_a_report_that_comes_late_does_not_set_back_when_a_slot_was_asked_last(
    join: Join, server: redis.Redis
) -> None:
    one, other = join("a", bounds=DELAY), join("b", bounds=DELAY)
    push(one, "a", 9)
    (lease,) = take(one)
    one.say(grants={"a": UsedGrants(1, lease.begin)})
    other.say(grants={"a": UsedGrants(0, lease.begin - 5_000)})
    assert float(server.hget("s:slots:state:a", "sent")) == pytest.approx(lease.begin, abs=0.01)


def test_the_end_of_a_download_does_not_offer_a_slot_that_is_left_to_its_worker(
    join: Join, server: redis.Redis
) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 9)
    (lease,) = take(worker)
    worker.say(grants={"a": UsedGrants(1, lease.begin)})
    score = server.zscore("s:slots", "a")
    worker.say(downloaded={"a": 1})
    assert server.zscore("s:slots", "a") == score


def test_status_tells_when_the_next_turn_is_though_the_slot_is_left_to_its_worker(
    join: Join, server: redis.Redis, redis_url: str
) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 9)
    (lease,) = take(worker)
    worker.say(grants={"a": UsedGrants(1, lease.begin)}, finished=[lease.name])
    status = read_status(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"))
    assert status.next_turn_in == pytest.approx(10, abs=0.9)


def test_a_shorter_delay_is_kept_from_the_moment_it_is_set(
    join: Join, server: redis.Redis, redis_url: str
) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=600)})
    push(worker, "a", 9)
    (lease,) = take(worker)
    worker.say(grants={"a": UsedGrants(1, lease.begin)})
    Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "s")).set("a", SlotRule("a", delay=20))
    (following,) = take(worker, ahead=AHEAD)[:1]
    assert following.begin - lease.begin >= 20_000


# -- settings whose only limit is a jitter -----------------------------------------------------------

#: The limits by Scrapy's default settings.
DEFAULT = {"slots": SlotLimits(jitter=0.5)}


@pytest.mark.parametrize("bounds", [{}, {"slots": SlotLimits(delay=0.001)}], ids=["none", "delay"])
def test_a_blocked_slot_stays_blocked_for_a_worker_that_missed_the_end_of_the_crawl(
    join: Join, server: redis.Redis, redis_url: str, bounds: dict[str, SlotLimits]
) -> None:
    worker, late = join("a", bounds=bounds), join("late", lease=0.2, bounds=bounds)
    late.say(in_hand=0)
    worker.say(in_hand=0)
    Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "s")).block("x", 3600)
    wait_until(lambda: worker.say(in_hand=0, finishing=True).workers == 1)
    worker.frontier.leave(True, False)
    assert not server.exists("s:meta")
    for _ in range(3):
        late.say(in_hand=0)
    push(late, "x", 2)
    assert take(late) == []


def test_the_downloads_of_a_worker_that_is_late_end_though_the_limits_went_meanwhile(
    join: Join, server: redis.Redis
) -> None:
    two_at_once = {"slots": SlotLimits(concurrency=2)}
    late = join("late", lease=0.2, bounds=two_at_once)
    push(late, "x", 4)
    assert len(take(late)) == 2
    other = join("other", bounds=DEFAULT)
    wait_until(lambda: other.say().returned)
    assert late.say(in_hand=0).membership == 1
    assert b"a:late" not in server.hgetall("s:slots:state:x")


def test_a_slot_sleeps_until_its_turn_after_a_restart_without_the_delay(join: Join) -> None:
    worker = join("before", bounds={"slots": SlotLimits(delay=300)})
    push(worker, "x", 2)
    (lease,) = take(worker)
    worker.say(finished=[lease.name], in_hand=0)
    worker.frontier.leave(False, True)
    reply = join("after", bounds=DEFAULT).say(want=1, in_hand=0)
    assert (reply.leases, reply.why) == ([], "delay")
    assert reply.next_turn is not None
