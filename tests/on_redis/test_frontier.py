"""The scripts, on a real Redis: what one exchange does to the keys, and what a repeat of it does not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from scrapy_rq_sched.errors import FrontierMismatchError, RedisUnsuitableError
from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.frontier.messages import Batch, Failed, Finished, Push
from scrapy_rq_sched.frontier.replies import Membership
from scrapy_rq_sched.keys import Keys

from ..support.client import MADE_WITH, Join, failed, payloads
from ..support.crawl import wait_until

# -- pushes and duplicates ---------------------------------------------------------------------------


def test_a_seen_fingerprint_is_reported_as_a_duplicate_and_not_queued(join: Join, discipline: str) -> None:
    worker = join()
    worker.push("one", "two")
    reply = worker.push("three", "one")
    assert reply.duplicates == (1,)
    assert reply.waiting == 3


def test_a_forced_push_is_queued_however_often(join: Join, discipline: str) -> None:
    worker = join()
    pushes = [Push("force", "", 0, f"x{n}".encode()) for n in range(3)]
    assert worker.say(pushes=pushes).waiting == 3


def test_a_start_request_is_queued_once_a_crawl_and_not_marked_as_seen(
    join: Join, server: redis.Redis
) -> None:
    assert join("a").push("one", mode="start").duplicates == ()
    assert join("b").push("one", mode="start").duplicates == (0,)
    assert join("c").push("one", mode="filter").duplicates == ()


def test_an_empty_request_is_marked_as_seen_and_not_queued(join: Join) -> None:
    worker = join()
    assert worker.say(pushes=[Push("filter", "fp", 0, b"")]).waiting == 0
    assert worker.say(pushes=[Push("filter", "fp", 0, b"")]).duplicates == (0,)


def test_two_pushes_of_one_fingerprint_in_one_exchange_are_one(join: Join, discipline: str) -> None:
    reply = join().push("one", "one")
    assert (reply.waiting, reply.duplicates) == (1, (1,))


# -- order ---------------------------------------------------------------------------------------------


def test_requests_are_leased_in_the_order_of_the_discipline(join: Join, discipline: str) -> None:
    worker = join()
    worker.push("one", "two")
    worker.push("three", priority=1)
    order = {
        "priority": ["three", "one", "two"],
        "fifo": ["one", "two", "three"],
        "lifo": ["three", "two", "one"],
    }
    assert payloads(worker.take(3)) == order[discipline]


def test_equal_priorities_keep_the_order_of_arrival_over_many_exchanges(join: Join) -> None:
    worker = join()
    names = [f"{n * 7919 % 1000:03}" for n in range(300)]
    for start in range(0, 300, 50):
        worker.push(*names[start : start + 50])
    assert payloads(worker.take(300)) == names


def test_a_request_given_back_keeps_its_place_in_the_queue(join: Join, discipline: str) -> None:
    worker = join()
    worker.push(*"abcdef")
    leases = worker.take(4)
    worker.say(given_back=[lease.name for lease in leases])
    before = payloads(leases)
    assert payloads(worker.take(6))[:4] == before


def test_a_worker_gets_its_share_and_no_more(join: Join) -> None:
    first = join("a")
    join("b")
    first.push(*"abcdefgh")
    assert len(first.take(100)) == 4


# -- leases --------------------------------------------------------------------------------------------


def test_a_lease_stays_in_redis_until_it_is_finished(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.push("one")
    (lease,) = worker.take(1)
    assert server.hlen("s:leases:a") == 1
    worker.say(finished=[lease.name])
    assert server.hlen("s:leases:a") == 0


def test_the_leases_of_a_dead_worker_go_back_in_order(join: Join, discipline: str) -> None:
    dead, alive = join("dead", lease=0.1), join("alive")
    alive.push(*"abcdefgh")
    taken = payloads(dead.take(4))
    wait_until(lambda: (reply := alive.say()).returned and reply.dead == ("dead",))
    assert payloads(alive.take(100))[:4] == taken


def test_a_worker_given_up_for_dead_is_told_so_and_frees_nothing_of_anothers(
    join: Join, server: redis.Redis
) -> None:
    slow, alive = join("slow", lease=0.1), join("alive")
    slow.push("one")
    (lease,) = slow.take(1)
    wait_until(lambda: alive.say().returned)
    assert payloads(alive.take(1)) == ["one"]
    reply = slow.say(finished=[lease.name])
    assert reply.membership == Membership.EXPIRED
    assert server.hlen("s:leases:alive") == 1
    assert slow.say().membership == Membership.CURRENT


def test_no_worker_counts_as_dead_because_redis_was_away(join: Join) -> None:
    first, second = join("a", lease=0.2), join("b", lease=0.2)
    first.push("one")
    first.take(1)
    deadline = time.monotonic() + 0.3
    wait_until(lambda: time.monotonic() > deadline)  # neither gets through
    assert second.say().returned == 0
    assert first.say().membership == Membership.CURRENT


def test_leases_that_a_worker_does_not_know_of_go_back(join: Join, server: redis.Redis) -> None:
    worker, other = join("a"), join("b")
    worker.push("one")
    (lease,) = worker.take(1)
    before = server.hgetall("s:leases:a")
    worker.say(finished=[lease.name])
    server.hset("s:leases:a", mapping=before)  # Redis came back with older data
    assert not other.say().finished
    assert worker.say(in_hand=0).waiting == 1


def test_a_worker_that_is_always_late_does_not_keep_the_dead_alive(join: Join) -> None:
    dead, late, steady = join("dead", lease=0.1), join("late", lease=0.1), join("steady")
    steady.push("one")
    dead.take(1)
    deadline = time.monotonic() + 0.2
    wait_until(lambda: time.monotonic() > deadline)
    assert late.say().dead == ("dead",)


def test_a_survivor_that_is_always_late_takes_over_the_requests_of_the_dead(join: Join) -> None:
    dead, survivor = join("dead", lease=0.1), join("survivor", lease=0.1)
    survivor.push("one")
    dead.take(1)
    returned = []
    for _ in range(3):
        deadline = time.monotonic() + 0.15
        wait_until(lambda by=deadline: time.monotonic() > by)
        returned.append(survivor.say().returned)
    # The first time, Redis may have been away. The second time, only the dead worker was silent.
    assert returned == [0, 1, 0]


def test_a_worker_that_was_heard_since_an_outage_is_excused_in_the_next_one(join: Join) -> None:
    first, second = join("a", lease=0.2), join("b", lease=0.2)
    first.push("one")
    first.take(1)
    for _ in range(3):
        deadline = time.monotonic() + 0.3
        wait_until(lambda by=deadline: time.monotonic() > by)  # neither gets through
        assert second.say().returned == 0
        assert first.say().membership == Membership.CURRENT


def test_a_request_with_too_many_dead_workers_is_set_aside_with_its_history(
    join: Join, server: redis.Redis
) -> None:
    alive = join("alive", deaths=2)
    alive.push("poison")
    for number in range(2):
        dying = join(f"dying{number}", lease=0.1)
        (lease,) = dying.take(1)
        dying.say(begun=lease.name)
        wait_until(lambda: alive.say().dead)
    assert alive.say().waiting == 0
    (entry,) = failed(server)
    assert (entry["data"], entry["deaths"]) == ("poison", 2)
    assert "died:dying0@" in entry["history"]
    assert "died:dying1@" in entry["history"]


def test_suspect_requests_are_leased_one_at_a_time_and_hold_up_no_other(
    join: Join, server: redis.Redis
) -> None:
    alive = join("alive", deaths=4)
    alive.push(*"abcd")
    for number in range(2):
        dying = join(f"dying{number}", deaths=4)
        for _ in range(4):  # it gets no more than its share
            dying.say(want=100)
        server.zadd("s:workers", {f"dying{number}": 1})
        alive.say()
    alive.push("innocent", "another")
    leases = alive.say(want=3).leases
    assert [lease.payload for lease in leases] == [b"a", b"innocent", b"another"]
    assert leases[0].deaths == 2
    assert alive.say(want=100, suspects=1).leases == []


def test_a_finished_request_leaves_no_history(join: Join, server: redis.Redis) -> None:
    alive = join("alive")
    alive.push("one")
    join("dying", lease=0.1).take(1)
    wait_until(lambda: alive.say().returned)
    (lease,) = alive.take(1)
    assert server.exists("s:history")
    alive.say(finished=[lease.name])
    assert not server.exists("s:history")


# -- applied twice is applied once -----------------------------------------------------------------


def test_a_repeated_exchange_changes_nothing_and_answers_the_same(join: Join, discipline: str) -> None:
    worker = join()
    worker.push("one", "two", "three")
    said = {
        "pushes": [Push("force", "", 0, b"forced"), Push("filter", "fp-one", 0, b"one")],
        "want": 2,
    }
    first = worker.say(**said)
    again = worker.repeat(**said)
    assert again.duplicates == first.duplicates == (1,)
    assert sorted(payloads(again.leases)) == sorted(payloads(first.leases))
    assert sorted(lease.name for lease in again.leases) == sorted(lease.name for lease in first.leases)
    assert again.waiting == first.waiting


def test_a_repeated_release_does_not_release_a_later_lease(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.push("one", "two")
    (lease,) = worker.take(1)
    worker.say(finished=[lease.name], want=1)
    worker.repeat(finished=[lease.name], want=1)
    assert server.hlen("s:leases:a") == 1


# -- seeds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_seeds_are_leased_and_go_back_to_their_key_when_the_worker_dies(
    join: Join, server: redis.Redis, kind: str
) -> None:
    add: dict[str, Callable[[], Any]] = {
        "list": lambda: server.rpush("s:start_urls", "x", "y", "z"),
        "set": lambda: server.sadd("s:start_urls", "x", "y", "z"),
        "zset": lambda: server.zadd("s:start_urls", {"x": 3, "y": 2, "z": 1}),
    }
    add[kind]()
    before = server.dump("s:start_urls") if kind == "list" else None
    dying, alive = join("dying", lease=0.1), join("alive")
    leases = dying.say(want=1, want_seeds=2).leases
    assert [lease.kind for lease in leases] == [kind, kind]
    wait_until(lambda: alive.say().returned)
    assert server.type("s:start_urls").decode() == kind
    if kind == "list":
        assert server.dump("s:start_urls") == before
    assert {"list": server.llen, "set": server.scard, "zset": server.zcard}[kind]("s:start_urls") == 3


@pytest.mark.single("the name of the key in what is said")
def test_a_seeds_key_of_a_wrong_type_is_reported_and_the_exchange_goes_on(
    join: Join, server: redis.Redis
) -> None:
    worker = join()
    server.set("s:start_urls", "http://example.com")
    reply = worker.push("one")
    assert reply.seeds_problem == ("string", "s:start_urls")
    assert reply.waiting == 1


def test_waiting_for_a_seed_takes_none(join: Join, server: redis.Redis) -> None:
    worker = join()
    assert not worker.frontier.wait_for_seed(0.05)
    server.lpush("s:start_urls", "x", "y")
    before = server.lrange("s:start_urls", 0, -1)
    assert worker.frontier.wait_for_seed(0.05)
    assert server.lrange("s:start_urls", 0, -1) == before


# -- set aside, refused ------------------------------------------------------------------------------


def test_a_failed_request_is_kept_with_its_reason_to_the_byte(join: Join, server: redis.Redis) -> None:
    payload = bytes(range(256))
    worker = join()
    worker.say(pushes=[Push("force", "", 0, payload)])
    (lease,) = worker.take(1)
    assert lease.payload == payload
    assert worker.say(failed=[Failed(lease.name, 0, "not JSON: \xe9")]).set_aside == 1
    entry = json.loads(server.lindex("s:failed", 0))
    assert entry["reason"] == "not JSON: \xe9"
    assert entry["kind"] == "request"
    assert entry["worker"] == "a"
    assert bytes.fromhex(entry["data_hex"]) == payload


def test_a_refused_request_is_set_back_for_a_worker_that_has_not_refused_it(
    join: Join, server: redis.Redis
) -> None:
    old, new = join("old"), join("new")
    old.push("one")
    (lease,) = old.take(1)
    reply = old.say(refused=[(lease.name, "no callback 'x'")])
    assert (reply.parked, reply.finished) == (1, False)
    taken: list[str] = []
    wait_until(lambda: taken.extend(payloads(new.take(1))) or taken)
    assert taken == ["one"]


def test_a_request_that_everybody_alive_refuses_is_set_aside(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.push("one")
    (lease,) = worker.take(1)
    assert worker.say(refused=[(lease.name, "no callback 'x'")]).set_aside == 1
    assert "no callback 'x'" in failed(server)[0]["reason"]


# -- finished ------------------------------------------------------------------------------------------


def test_the_fleet_is_finished_when_nothing_is_left_anywhere(join: Join) -> None:
    assert join().say().finished


def test_it_is_not_finished_while_another_holds_a_lease(join: Join) -> None:
    holder, other = join("holder"), join("other")
    holder.push("one")
    (lease,) = holder.take(1)
    assert not other.say().finished
    holder.say(finished=[lease.name])
    assert other.say().finished


def test_it_is_not_finished_while_another_reads_its_start_requests(join: Join) -> None:
    starting, other = join("starting", busy=True), join("other")
    assert not other.say().finished
    starting.say(busy=True)
    assert not other.say().finished
    starting.say(busy=False)
    assert other.say().finished


def test_it_is_not_finished_while_there_is_a_seed(join: Join, server: redis.Redis) -> None:
    worker = join()
    server.lpush("s:start_urls", "x")
    assert not worker.say().finished


def test_a_worker_that_dies_while_it_reads_its_start_requests_holds_up_no_other(join: Join) -> None:
    join("starting", lease=0.1, busy=True)
    other = join("other")
    wait_until(lambda: other.say().finished)


def test_only_the_last_worker_of_a_finished_fleet_clears_the_frontier(
    join: Join, server: redis.Redis
) -> None:
    first, last = join("a"), join("b")
    first.push("one", mode="start")
    (lease,) = first.take(1)
    first.say(finished=[lease.name])
    assert first.frontier.leave(finished=True, persist=False)[:2] == (False, 0)
    assert server.exists("s:meta")
    assert last.frontier.leave(finished=True, persist=False).cleared
    assert {key for key in server.scan_iter() if server.ttl(key) == -1} == set()


def test_a_worker_that_leaves_for_another_reason_clears_nothing(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.push("one")
    assert worker.frontier.leave(finished=False, persist=False)[:2] == (False, 0)
    assert server.zcard("s:requests") == 1
    assert server.scard("s:dupefilter") == 1


def test_a_persistent_frontier_keeps_its_fingerprints(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.push("one")
    (lease,) = worker.take(1)
    worker.say(finished=[lease.name])
    assert worker.frontier.leave(finished=True, persist=True)[:2] == (False, 0)
    assert server.scard("s:dupefilter") == 1


def test_leases_that_a_leaving_worker_forgot_go_back_at_once(join: Join) -> None:
    leaving, other = join("leaving"), join("other")
    leaving.push("one")
    leaving.take(1)
    assert leaving.frontier.leave(finished=False, persist=False)[:2] == (False, 1)
    assert other.say().returned == 1


# -- joining -------------------------------------------------------------------------------------------


def test_a_worker_started_before_the_finish_does_not_begin_the_crawl_anew(join: Join) -> None:
    first = join("first")
    first.push("one", mode="start")
    (lease,) = first.take(1)
    first.say(finished=[lease.name])
    first.frontier.leave(finished=True, persist=False)
    late = join("late", age=60.0)
    assert late.push("one", mode="start").duplicates == (0,)
    assert late.say().finished


def test_a_worker_started_after_the_finish_begins_a_new_crawl(join: Join) -> None:
    first = join("first")
    first.push("one", mode="start")
    (lease,) = first.take(1)
    first.say(finished=[lease.name])
    first.frontier.leave(finished=True, persist=True)
    assert join("next", age=0.0).push("one", mode="start").duplicates == ()


def test_a_worker_set_up_differently_is_refused_with_both_values(join: Join, server: redis.Redis) -> None:
    join()
    other = Frontier(server, Keys("s"), "b", "priority")
    with pytest.raises(FrontierMismatchError, match=r"SCHEDULER_SERIALIZER 'json'.*'pickle'"):
        other.open({"SCHEDULER_SERIALIZER": "pickle"})
    assert server.zscore("s:workers", "b") is None


@pytest.mark.single("the name of the key in what is said")
@pytest.mark.parametrize("name", ["requests", "dupefilter", "workers", "failed", "meta", "start_urls"])
def test_a_key_of_a_wrong_type_is_refused_by_name(server: redis.Redis, name: str) -> None:
    server.set(f"s:{name}", "something else")
    with pytest.raises(RedisUnsuitableError, match=f"'s:{name}' in Redis is a string"):
        Frontier(server, Keys("s"), "a", "priority").open(MADE_WITH)


def test_a_flush_clears_a_frontier_without_workers(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.push("one")
    worker.frontier.leave(finished=False, persist=False)
    assert Frontier(server, Keys("s"), "b", "fifo").open({}, flush=True).flushed
    assert not server.exists("s:requests", "s:dupefilter")


def test_a_flush_clears_nothing_while_another_worker_is_at_it(join: Join, server: redis.Redis) -> None:
    join().push("one")
    opened = Frontier(server, Keys("s"), "b", "priority").open(MADE_WITH, flush=True)
    assert not opened.flushed
    assert opened.waiting == 1


def test_the_epoch_changes_when_the_frontier_is_made_anew(join: Join, server: redis.Redis) -> None:
    epoch = join().say().epoch
    server.flushall()
    assert join().say().epoch != epoch


def test_scripts_that_redis_has_forgotten_are_loaded_again(join: Join, server: redis.Redis) -> None:
    worker = join()
    server.script_flush()
    assert worker.push("one").waiting == 1


def test_a_batch_of_some_thousands_goes_through(join: Join, discipline: str) -> None:
    worker = join()
    reply = worker.push(*(f"{n}" for n in range(5000)))
    assert reply.waiting == 5000
    leases = worker.take(5000)
    assert len(leases) == 5000
    assert worker.say(finished=[lease.name for lease in leases]).finished


def test_forgotten_fingerprints_are_new_again_and_every_cache_is_told(join: Join) -> None:
    worker, other = join("a"), join("b")
    worker.push("one")
    worker.push("two", mode="start")
    epoch = other.say().epoch
    worker.say(forgotten=[("filter", "fp-one"), ("start", "fp-two")])
    assert other.say().epoch != epoch
    assert other.push("one").duplicates == ()
    assert other.push("two", mode="start").duplicates == ()


def test_a_worker_adds_nothing_to_a_crawl_that_was_finished_without_it(
    join: Join, server: redis.Redis
) -> None:
    asleep, last = join("asleep", lease=0.1), join("last")
    last.push("one", mode="start+filter")
    (lease,) = asleep.take(1)
    wait_until(lambda: last.say().returned)
    (lease,) = last.take(1)
    last.say(finished=[lease.name], in_hand=0)
    assert last.frontier.leave(finished=True, persist=False).cleared
    reply = asleep.push("child")
    assert reply.membership == Membership.EXPIRED
    assert reply.duplicates == (0,)
    server.rpush("s:start_urls", "seed")
    again = asleep.say(pushes=[Push("filter", "fp-x", 0, b"x")], want=5, want_seeds=5)
    assert again.duplicates == (0,)
    assert again.leases == []
    asleep.say(in_hand=0)
    (seed,) = asleep.say(want=5, want_seeds=5, in_hand=0).leases
    assert seed.payload == b"seed"
    assert asleep.say(pushes=[Push("filter", "fp-x", 0, b"x")], finished=[seed.name]).waiting == 1


def test_that_a_worker_was_given_up_is_said_again_in_a_repeat(join: Join) -> None:
    slow, alive = join("slow", lease=0.1), join("alive")
    slow.push("one")
    slow.take(1)
    wait_until(lambda: alive.say().dead)
    assert slow.say().membership == Membership.EXPIRED
    assert slow.repeat().membership == Membership.EXPIRED
    assert slow.say().membership == Membership.CURRENT


def test_an_overwritten_counter_loses_no_push(join: Join, server: redis.Redis) -> None:
    worker = join()
    server.set("s:requests:count", "not a number")
    assert worker.push("one", "two").waiting == 2


def test_a_crawl_that_goes_on_after_a_finish_keeps_its_start_requests(
    join: Join, server: redis.Redis
) -> None:
    first, other = join("first"), join("other")
    first.push("one", mode="start")
    (lease,) = first.take(1)
    first.say(finished=[lease.name], in_hand=0)
    first.frontier.leave(finished=True, persist=False)
    assert server.ttl("s:started") > 0
    other.push("two")
    assert server.ttl("s:started") == -1
    assert not server.exists("s:finished")


@pytest.mark.parametrize("kind", ["request", "seed"])
def test_a_refused_request_is_kept_as_long_as_another_worker_is_alive(
    join: Join, server: redis.Redis, kind: str
) -> None:
    old = join("old")
    if kind == "request":
        old.push("one")
    else:
        server.rpush("s:start_urls", "one")
    (lease,) = old.say(want=1, want_seeds=1).leases
    new = join("new")
    old.say(refused=[(lease.name, "no callback")])
    (entry,) = server.zrange("s:delayed", 0, 0)
    server.zadd("s:delayed", {entry: 1})
    for _ in range(5):
        assert old.say(want=1, want_seeds=1).leases == []
    # It is still there for whoever has not refused it; when that one is gone, it is set aside.
    new.frontier.leave(finished=False, persist=False)
    (lease,) = old.say(want=1, want_seeds=1).leases
    assert old.say(refused=[(lease.name, "no callback")]).set_aside == 1
    (failure,) = failed(server)
    assert failure["history"].count("refused:") == 1


def test_a_parent_stays_leased_while_its_children_are_left_out_of_the_exchange(join: Join) -> None:
    # After two failures a batch goes without its pushes: they may be what cannot be sent.
    worker, other = join("a"), join("b")
    worker.push("parent")
    (lease,) = worker.take(1)
    worker.number += 1
    children = [Push("filter", f"child-{n}", 0, b"child %d" % n) for n in range(2)]
    batch = Batch(worker.number, in_hand=1, pushes=children, finished=[Finished(lease.name, 2)])
    reply = worker.frontier.exchange(batch.of_first(0))
    assert (reply.stored, reply.finished) == (0, False)
    assert other.say().leased == 1
    worker.number += 1
    rest = Batch(worker.number, pushes=children, finished=[Finished(lease.name, 2)])
    assert worker.frontier.exchange(rest).waiting == 2
    assert payloads([*other.take(2), *other.take(2)]) == ["child 0", "child 1"]
    assert other.say().leased == 2


def test_a_worker_sees_whether_another_one_has_taken_the_seed(join: Join, server: redis.Redis) -> None:
    worker = join()
    server.lpush("s:start_urls", "x")
    assert worker.frontier.has_seed()
    server.lpop("s:start_urls")
    assert not worker.frontier.has_seed()
