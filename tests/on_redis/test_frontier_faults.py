"""The scripts when something is wrong with Redis: no memory, no room, older data, garbage."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from scrapy_rq_sched.connection import ResponseError
from scrapy_rq_sched.embedded import PrivateRedis
from scrapy_rq_sched.errors import FrontierMismatchError
from scrapy_rq_sched.frontier.messages import FORMAT, Batch, Failed, Finished, Push
from scrapy_rq_sched.frontier.replies import Membership
from scrapy_rq_sched.frontier.scripts import Script, register

from ..support.client import Client, Join, failed, payloads
from ..support.crawl import wait_until
from ..support.proxy import Proxy


def push(name: str, mode: str = "filter", priority: int = 0) -> Push:
    return Push(mode, f"fp-{name}", priority, name.encode())  # type: ignore[arg-type]


@pytest.fixture
def full(server: redis.Redis) -> Iterator[None]:
    """Make Redis full for as long as the test says."""
    yield
    server.config_set("maxmemory", 0)


# -- no memory -----------------------------------------------------------------------------------------


def test_a_full_redis_takes_no_push_and_marks_nothing(
    join: Join, server: redis.Redis, full: None, discipline: str
) -> None:
    worker = join()
    pushes = [push("one"), push("two", "start"), Push("force", "", 0, b"three")]
    server.config_set("maxmemory", 1)
    reply = worker.say(pushes=pushes)
    assert (reply.stored, reply.full, reply.finished) == (0, "memory", False)
    assert not server.exists("s:requests", "s:dupefilter", "s:started")
    server.config_set("maxmemory", 0)
    assert worker.say(pushes=pushes).waiting == 3


def test_a_full_redis_takes_releases(join: Join, server: redis.Redis, full: None) -> None:
    worker = join()
    worker.push("one", "two")
    first, second = worker.take(2)
    server.config_set("maxmemory", 1)
    reply = worker.say(finished=[first.name], pushes=[push("two"), push("three")])
    assert server.hkeys("s:leases:a") == [second.name.encode()]
    # The first is known; the second has to wait.
    assert (reply.stored, reply.duplicates) == (1, (0,))


def test_the_parent_of_a_push_that_found_no_room_is_not_released(
    join: Join, server: redis.Redis, full: None
) -> None:
    worker = join()
    worker.push("one", "two", "three")
    leases = worker.take(3)
    server.config_set("maxmemory", 1)
    batch = Batch(3, pushes=[push("child")])
    batch.finished = [Finished(leases[0].name, 1), Finished(leases[1].name, 0)]
    batch.failed = [Failed(leases[2].name, 1, "its callback raised")]
    worker.frontier.exchange(batch)
    worker.number = 3
    assert sorted(server.hkeys("s:leases:a")) == [leases[0].name.encode(), leases[2].name.encode()]
    assert failed(server) == []


def test_a_worker_stays_alive_while_redis_is_full(join: Join, server: redis.Redis, full: None) -> None:
    worker = join()
    server.config_set("maxmemory", 1)
    before = server.zscore("s:workers", "a")
    wait_until(lambda: worker.say() and server.zscore("s:workers", "a") > before)


def test_workers_join_and_leave_a_full_redis(join: Join, server: redis.Redis, full: None) -> None:
    join("a").push("one")
    server.config_set("maxmemory", 1)
    joined = join("b")
    (lease,) = joined.take(1)
    assert joined.say(given_back=[lease.name], in_hand=0).waiting == 1
    joined.frontier.leave(finished=False, persist=False)
    assert server.zrange("s:workers", 0, -1) == [b"a"]


def test_a_full_redis_gives_no_seeds(join: Join, server: redis.Redis, full: None) -> None:
    worker = join()
    server.rpush("s:start_urls", "seed")
    server.config_set("maxmemory", 1)
    assert worker.say(want_seeds=5).leases == []
    server.config_set("maxmemory", 0)
    assert payloads(worker.say(want_seeds=5).leases) == ["seed"]


def test_a_repeat_of_an_exchange_that_found_no_room_says_the_same(
    join: Join, server: redis.Redis, full: None
) -> None:
    worker = join()
    worker.push("one")
    server.config_set("maxmemory", 1)
    said = {"pushes": [push("one"), push("two")]}
    first = worker.say(**said)
    server.config_set("maxmemory", 0)
    again = worker.repeat(**said)
    assert (again.stored, again.duplicates) == (first.stored, first.duplicates) == (1, (0,))


# -- no room -------------------------------------------------------------------------------------------

SLOW = {"max_waiting": 3}
DROP = {"max_waiting": 3, "policy": "drop-lowest"}


def test_no_more_wait_than_may(join: Join, server: redis.Redis, discipline: str) -> None:
    worker = join(bounds=SLOW)
    reply = worker.say(pushes=[push(str(n)) for n in range(5)])
    assert (reply.stored, reply.full, reply.waiting) == (3, "bound", 3)
    assert server.scard("s:dupefilter") == 3


def test_known_urls_need_no_room(join: Join) -> None:
    worker = join(bounds=SLOW)
    worker.push("1", "2", "3")
    reply = worker.say(pushes=[push("2"), push("1"), push("4"), push("3")])
    assert (reply.stored, reply.duplicates) == (2, (0, 1))


def test_a_worker_that_would_stand_still_may_exceed_the_bound(join: Join) -> None:
    worker = join(bounds=SLOW)
    reply = worker.say(pushes=[push(str(n)) for n in range(5)], exceed=True)
    assert (reply.stored, reply.full, reply.waiting) == (5, "exceeded", 5)


def test_no_seeds_are_taken_where_no_more_may_wait(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=SLOW)
    server.rpush("s:start_urls", "seed")
    worker.push("1", "2", "3")
    assert worker.say(want_seeds=5).leases == []


def test_the_lowest_priority_is_handed_out_to_be_dropped(join: Join) -> None:
    worker = join(bounds=DROP)
    worker.say(pushes=[push("low", priority=-1), push("high", priority=1)])
    reply = worker.say(pushes=[push("a"), push("b")])
    assert [(lease.kind, lease.payload) for lease in reply.leases] == [("drop", b"low")]
    assert reply.waiting == 3


@pytest.mark.parametrize(("discipline", "dropped"), [("fifo", "5"), ("lifo", "1"), ("priority", "5")])
def test_the_last_request_of_a_full_queue_is_dropped(join: Join, discipline: str, dropped: str) -> None:
    worker = join(bounds={"max_waiting": 4, "policy": "drop-lowest"})
    assert payloads(worker.push("1", "2", "3", "4", "5").leases) == [dropped]


def test_a_dropped_request_can_be_found_again(join: Join, server: redis.Redis) -> None:
    worker = join(bounds=DROP)
    (lease,) = worker.push("1", "2", "3", "4").leases
    worker.say(finished=[lease.name], forgotten=[("start+filter", "fp-4")], want=1)
    reply = worker.push("4")
    assert (reply.duplicates, reply.waiting) == ((), 3)


def test_a_request_to_drop_is_not_lost_when_its_worker_dies_before_it_does(
    join: Join, server: redis.Redis
) -> None:
    worker, other = join("a", bounds=DROP), join("b")
    worker.push("1", "2", "3", "4")
    server.zadd("s:workers", {"a": 1})
    assert other.say().waiting == 4


def test_a_repeated_batch_gets_the_same_requests_to_drop(join: Join) -> None:
    worker = join(bounds=DROP)
    said = {"pushes": [push(str(n)) for n in range(4)]}
    first = worker.say(**said).leases
    assert worker.repeat(**said).leases == first
    assert [lease.kind for lease in first] == ["drop"]


# -- older data ----------------------------------------------------------------------------------------


def rewind(server: redis.Redis, dump: dict[bytes, bytes]) -> None:
    """Put Redis back to what it was."""
    server.flushall()
    for key, value in dump.items():
        server.restore(key, 0, value)


def dumped(server: redis.Redis) -> dict[bytes, bytes]:
    return {key: server.dump(key) for key in server.scan_iter()}


def test_a_redis_with_older_data_releases_no_parent_of_unknown_children(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    worker = join()
    worker.push("parent")
    (parent,) = worker.take(1)
    older = dumped(server)
    worker.push("child")
    worker.say()
    rewind(server, older)
    # The worker does not know: all that it has said was answered.
    reply = worker.say(finished=[parent.name])
    assert reply.membership == Membership.ROLLED_BACK
    assert reply.waiting == 1
    assert payloads(worker.take(1)) == ["parent"]


def test_a_redis_with_older_data_empties_every_cache(join: Join, server: redis.Redis) -> None:
    worker, other = join("a"), join("b")
    worker.push("one")
    older = dumped(server)
    epoch = worker.say(forgotten=[("filter", "fp-one")]).epoch
    worker.say()
    rewind(server, older)
    renewed = worker.say().epoch
    # Not one that there was before, which a cache may still be of.
    assert renewed != epoch
    assert other.say().epoch == renewed


def test_that_redis_has_older_data_is_said_again_in_a_repeat(join: Join, server: redis.Redis) -> None:
    worker = join()
    older = dumped(server)
    worker.push("one")
    worker.push("two")
    rewind(server, older)
    assert worker.say().membership == Membership.ROLLED_BACK
    assert worker.repeat().membership == Membership.ROLLED_BACK
    assert worker.say().membership == Membership.CURRENT


def test_a_worker_that_redis_with_older_data_never_knew_releases_nothing(
    join: Join, server: redis.Redis
) -> None:
    other = join("b")
    other.push("one")
    older = dumped(server)
    worker = join("a")
    (lease,) = worker.take(1)
    rewind(server, older)
    assert worker.say(finished=[lease.name]).membership == Membership.ROLLED_BACK
    assert payloads(other.take(1)) == ["one"]


def test_a_worker_that_joins_a_server_that_was_away_takes_no_other_for_dead(
    join: Join, server: redis.Redis
) -> None:
    old = join("old")
    old.push("one")
    old.take(1)
    server.zadd("s:workers", {"old": 1})
    new = join("new", server_age=1.0)
    assert new.say().returned == 0
    assert old.say().membership == Membership.CURRENT


def test_a_flush_right_after_redis_was_away_clears_no_crawl(join: Join, server: redis.Redis) -> None:
    join("old").push("one")
    server.zadd("s:workers", {"old": 1})
    new = Client(server, "new", "priority", 30, 5)
    assert not new.frontier.open({}, flush=True, server_age=1.0).flushed
    assert new.say().waiting == 1


# -- another version of this package --------------------------------------------------------------------


def test_a_worker_that_comes_back_to_data_of_a_newer_format_changes_nothing(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    worker = join()
    worker.push("one", "two")
    (lease,) = worker.take(1)
    server.hset("s:meta", "format", "7")  # a worker of a newer version has joined meanwhile
    before = dumped(server)
    with pytest.raises(FrontierMismatchError, match=f"has the format 7, and this version uses {FORMAT}"):
        worker.say(finished=[lease.name], pushes=[push("three")], want=1)
    assert dumped(server) == before


def test_a_newer_format_is_noticed_before_its_types(join: Join, server: redis.Redis) -> None:
    worker = join()
    server.hset("s:meta", "format", "7")
    server.set("s:slots", "something else")
    with pytest.raises(FrontierMismatchError):
        worker.say()


def test_a_frontier_with_deleted_keys_refuses_no_worker(join: Join, server: redis.Redis) -> None:
    worker = join()
    server.delete("s:meta")
    assert worker.push("one").waiting == 1
    assert worker.push("two").waiting == 2


def test_a_worker_of_another_format_does_not_join(join: Join, server: redis.Redis) -> None:
    join("old")
    server.hset("s:meta", "format", "7")
    with pytest.raises(FrontierMismatchError, match="scrapy frontier stop s"):
        join("new")


# -- replicas ------------------------------------------------------------------------------------------


@pytest.mark.single("a replica of it")
def test_an_exchange_says_whether_replicas_have_it(
    private_redis: PrivateRedis, server: redis.Redis, tmp_path_factory: pytest.TempPathFactory
) -> None:
    worker = Client(server, "a", "priority", 0.6, 5, wait_replicas=1).open()
    assert not worker.push("one").replicated
    options = ["--replicaof", "127.0.0.1", str(private_redis.port)]
    folder, password = tmp_path_factory.mktemp("replica"), private_redis.password
    with PrivateRedis(folder, options, password=password) as replica:
        copy = redis.Redis.from_url(replica.url)
        while not worker.say().replicated:
            pass
        worker.push("two")
        assert copy.zcard("s:requests") == 2
        copy.close()


def test_scripts_that_redis_has_forgotten_are_loaded_again_where_replicas_are_waited_for(
    server: redis.Redis,
) -> None:
    worker = Client(server, "a", "priority", 0.6, 5, wait_replicas=1).open()
    server.script_flush()
    assert worker.push("one").waiting == 1


# -- equal requests ---------------------------------------------------------------------------------------


def test_one_death_is_one_death_of_each_of_equal_requests(server: redis.Redis) -> None:
    dying = Client(server, "dying", "fifo", 0.3, 3).open()
    dying.say(pushes=[Push("force", "", 0, b"poll") for _ in range(8)])
    assert len(dying.take(8)) == 8
    other = Client(server, "other", "fifo", 30, 3).open()
    wait_until(lambda: other.say(in_hand=0).returned)
    assert (server.llen("s:requests"), failed(server)) == (8, [])
    assert [lease.deaths for lease in other.take(8)] == [1] * 8


# -- garbage -------------------------------------------------------------------------------------------


PHASES = "lease_others.seeds, lease_others.share, lease_others.parked, serve_slots.take, lease_others.drop"


@pytest.mark.parametrize("step", PHASES.split(", "))
def test_a_step_that_fails_after_requests_were_handed_out_loses_none_of_them(
    join: Join, server: redis.Redis, discipline: str, step: str
) -> None:
    worker = join()
    worker.say(pushes=[push("one"), Push("filter", "fp-two", 0, b"two", "slot")])
    server.rpush("s:start_urls", "seed")
    right = worker.frontier._exchange
    # The step does its work, and then fails.
    steps = f"local phases = {{{PHASES}}}".encode()
    fails = f"function(turn) {step}(turn) error('injected') end".encode()
    wrong = right.text.replace(steps, steps.replace(step.encode(), fails))
    assert wrong != right.text
    worker.frontier._exchange = Script(server, wrong)
    said = {"pushes": [push("three")], "want": 5, "want_seeds": 1}
    with pytest.raises(ResponseError, match="injected"):
        worker.say(**said)
    worker.frontier._exchange = right
    reply = worker.repeat(**said)
    assert reply.duplicates == ()
    leases = [*reply.leases, *worker.say(want=5, want_seeds=1).leases]
    assert sorted(payloads(leases)) == ["one", "seed", "three", "two"]


FIXED = ["requests", "requests:count", "dupefilter", "started", "delayed", "workers", "history"]
OWN = ["failed", "meta", "finished", "leases:a", "worker:a"]


@pytest.mark.single("the name of the key in what is said")
@pytest.mark.parametrize("name", [*FIXED, *OWN])
def test_a_key_of_a_wrong_type_is_named_and_nothing_is_done(
    join: Join, server: redis.Redis, name: str
) -> None:
    worker = join()
    worker.push("one")
    said = {"pushes": [push("x", "start+filter"), Push("force", "", 0, b"y")], "want": 1}
    right = server.dump(f"s:{name}")
    server.delete(f"s:{name}")
    is_text = name in ("requests:count", "finished")
    server.rpush(f"s:{name}", "x") if is_text else server.set(f"s:{name}", "something else")
    with pytest.raises(redis.exceptions.ResponseError, match=f"WRONGTYPE Key 's:{name}' is a"):
        worker.say(**said)
    server.delete(f"s:{name}")
    if right is not None:
        server.restore(f"s:{name}", 0, right)
    reply = worker.repeat(**said)
    assert (reply.waiting, len(reply.leases), reply.duplicates) == (2, 1, ())


@pytest.mark.parametrize("name", ["leases:other", "worker:other"])
@pytest.mark.parametrize("deadline", [1, 9e15])
def test_a_key_of_a_wrong_type_in_another_workers_place_stops_no_worker(
    join: Join, server: redis.Redis, name: str, deadline: float
) -> None:
    worker = join()
    server.set(f"s:{name}", "something else")
    server.zadd("s:workers", {"other": deadline})
    assert worker.push("one").waiting == 1
    assert payloads(worker.take(1)) == ["one"]


GARBAGE = [
    b"",
    b"garbage",
    b"request",
    b"request nan 0 x",
    b"request abc 0 x",
    b"\x80\x04\x95",
    b"zset x y z",
]


@pytest.mark.parametrize("value", GARBAGE)
def test_garbage_among_a_dead_workers_leases_becomes_a_request_that_is_then_set_aside(
    join: Join, server: redis.Redis, discipline: str, value: bytes
) -> None:
    server.hset("s:leases:dead", mapping={"no lease": value, "1.1": b"request 0 0 good"})
    server.zadd("s:workers", {"dead": 1})
    worker = join()
    worker.say()
    taken = worker.take(2)
    assert b"good" in [lease.payload for lease in taken]
    (bad,) = [lease for lease in taken if lease.payload != b"good"]
    assert worker.say(failed=[Failed(bad.name, 0, "not json")]).set_aside == 1


@pytest.mark.parametrize("entry", GARBAGE)
def test_garbage_among_the_delayed_becomes_a_request(
    join: Join, server: redis.Redis, discipline: str, entry: bytes
) -> None:
    server.zadd("s:delayed", {entry: 1})
    worker = join()
    worker.say()
    (lease,) = worker.take(5)
    assert lease.kind == "request"


@pytest.mark.parametrize("value", ["garbage", "-5", "nan", "inf", "1e300", "9007199254740993"])
def test_a_counter_with_garbage_keeps_no_worker_from_pushing(
    join: Join, server: redis.Redis, value: str
) -> None:
    server.set("s:requests:count", value)
    assert payloads((join().push("one", "two"), join("b").take(2))[1]) == ["one"]


def test_garbage_in_a_workers_own_hash_is_survived(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.push("one")
    server.hset("s:worker:a", mapping={"duplicates": "x y", "stored": "z", "standing": "q", "busy": "maybe"})
    worker.repeat(pushes=[push("one")])
    server.hset("s:worker:a", "exchange", "garbage")
    worker.say()
    assert worker.push("two").waiting == 2


def test_garbage_in_the_epoch_is_replaced_when_it_changes(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.push("one")
    server.hset("s:meta", "epoch", "garbage")
    assert worker.say(forgotten=[("filter", "fp-one")]).epoch.isdigit()


def test_a_seed_goes_back_to_its_key_though_that_has_become_another_type(
    join: Join, server: redis.Redis
) -> None:
    worker = join()
    server.rpush("s:start_urls", "one")
    (seed,) = worker.say(want_seeds=1).leases
    server.sadd("s:start_urls", "two")
    worker.say(given_back=[seed.name])
    assert server.smembers("s:start_urls") == {b"one", b"two"}


def test_a_seed_is_set_aside_when_its_key_can_take_no_seeds_any_more(join: Join, server: redis.Redis) -> None:
    worker = join()
    server.rpush("s:start_urls", "one")
    (seed,) = worker.say(want_seeds=1).leases
    server.set("s:start_urls", "something else")
    assert worker.say(given_back=[seed.name]).set_aside == 1
    (entry,) = failed(server)
    assert (entry["kind"], entry["data"]) == ("seed", "one")


# -- the failed list -----------------------------------------------------------------------------------


def test_an_entry_of_the_failed_list_has_all_that_is_known(join: Join, server: redis.Redis) -> None:
    worker = join()
    worker.push("one", priority=3)
    (lease,) = worker.take(1)
    worker.say(failed=[Failed(lease.name, 0, "its callback raised", "Traceback …")])
    (entry,) = failed(server)
    assert entry["id"] == f"a/{lease.name}"
    assert float(entry["score"]) == pytest.approx(-3, abs=0.01)
    assert entry["deliveries"] == 1
    assert entry["traceback"] == "Traceback …"
    assert abs(entry["time"] - time.time()) < 60


def test_the_failed_list_keeps_the_latest_and_says_how_many_are_gone(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_failed": 2})
    worker.push("1", "2", "3", "4")
    leases = worker.take(4)
    reply = worker.say(failed=[Failed(lease.name, 0, "bad") for lease in leases])
    assert (reply.set_aside, reply.forgotten) == (4, 2)
    assert [entry["data"] for entry in failed(server)] == ["3", "4"]


def test_a_refused_seed_is_left_to_a_worker_that_has_not_refused_it(join: Join, server: redis.Redis) -> None:
    old, new = join("old"), join("new")
    server.rpush("s:start_urls", "one")
    (seed,) = old.say(want_seeds=1).leases
    assert old.say(refused=[(seed.name, "no callback")]).parked == 1
    assert payloads(new.say(want_seeds=1).leases) == ["one"]


def test_the_seed_that_a_dead_worker_held_keeps_the_fleet_from_its_end(
    join: Join, server: redis.Redis
) -> None:
    dead, worker = join("dead"), join("worker")
    server.rpush("s:start_urls", "the only one")
    dead.say(want_seeds=1)
    server.zadd("s:workers", {"dead": 1})
    reply = worker.say(in_hand=0)
    assert (reply.seeds, reply.finished) == (1, False)


def test_a_worker_that_repeats_itself_after_it_was_given_up_is_as_busy_as_before(join: Join) -> None:
    busy, other = join("busy"), join("other")
    busy.say(busy=True)
    other.frontier.server.zadd("s:workers", {"busy": 1})
    assert other.say(in_hand=0).finished
    busy.repeat(busy=True)
    assert not other.say(in_hand=0).finished


# -- what is late, or leaves -----------------------------------------------------------------------------


def test_an_exchange_that_comes_after_the_next_one_says_nothing_of_now(join: Join) -> None:
    worker, other = join("a"), join("b")
    worker.say(busy=False)
    worker.say(busy=True, in_hand=0)
    assert not other.say(in_hand=0).finished
    worker.frontier.exchange(Batch(1, busy=False))
    assert not other.say(in_hand=0).finished


def test_to_leave_with_leases_is_not_to_die_of_them(join: Join) -> None:
    steady = join("steady")
    steady.push("one")
    for number in range(6):
        leaving = join(f"leaving{number}")
        assert payloads(leaving.take(1)) == ["one"]
        assert leaving.frontier.leave(finished=False, persist=True)[:2] == (False, 1)
        wait_until(lambda: steady.say().returned)
    assert steady.say().set_aside == 0
    assert [lease.deaths for lease in steady.take(1)] == [0]


@pytest.mark.parametrize("place", ["delayed", "leases:dead"])
def test_a_score_that_lua_reads_and_redis_does_not_costs_nothing(
    join: Join, server: redis.Redis, place: str
) -> None:
    worker = join()
    good = [f"request 0 0 {name}" for name in "abc"]
    if place == "delayed":
        entries = [f"request 0 x/1.{n} {name}" for n, name in enumerate("abc")]
        server.zadd("s:delayed", {**dict.fromkeys(entries, 1), "request 5\0x x/1.9 bad": 1})
    else:
        server.hset("s:leases:dead", mapping={f"1.{n}": value for n, value in enumerate(good)})
        server.hset("s:leases:dead", "1.9", "request 5\0x 0 bad")
        server.zadd("s:workers", {"dead": 1})
    reply = worker.say()
    assert reply.waiting + reply.parked == 4
    assert sorted(payloads(worker.take(10))) == ["a", "b", "bad", "c"]


@pytest.mark.slow
def test_a_dead_worker_with_very_many_leases_is_reclaimed_wholly(join: Join, server: redis.Redis) -> None:
    worker = join()
    for first in range(0, 20_000, 1000):
        leases = {f"1.{n}": f"request 0 0 {n}" for n in range(first, first + 1000)}
        server.hset("s:leases:dead", mapping=leases)
    server.zadd("s:workers", {"dead": 1})
    wait_until(lambda: worker.say().waiting == 20_000)
    assert not server.exists("s:leases:dead")


# -- what is large, and what stands in the way -------------------------------------------------------------

MEGABYTE = 1024 * 1024


def large(number: int, size: int) -> Push:
    return Push("force", "", 0, (f"{number} " + "x" * size).encode())


def test_no_more_is_handed_out_than_fits_into_an_exchange(join: Join, discipline: str) -> None:
    worker = join()
    for number in range(20):
        worker.say(pushes=[large(number, MEGABYTE)])
    leases = worker.take(20)
    assert 4 <= len(leases) <= 8
    assert worker.say().waiting == 20 - len(leases)


def test_a_request_larger_than_an_exchange_is_leased_alone(join: Join, discipline: str) -> None:
    worker = join()
    for number in range(3):
        worker.say(pushes=[large(number, 6 * MEGABYTE)])
    assert [len(worker.take(3)) for _ in range(3)] == [1, 1, 1]


def test_large_leases_of_a_dead_worker_go_back_a_few_at_a_time(join: Join, server: redis.Redis) -> None:
    dead, alive = join("dead"), join("alive")
    for number in range(12):
        dead.say(pushes=[large(number, MEGABYTE)])
        dead.say(want=1)
    server.zadd("s:workers", {"dead": 1})
    first = alive.say().returned
    assert 1 <= first <= 5
    for _ in range(12):
        alive.say()
    assert alive.say().waiting == 12


def test_very_many_requests_for_others_do_not_keep_a_worker_from_the_rest(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    old, new = join("old"), join("new")
    names = [str(number) for number in range(300)]
    old.push(*names)
    leases = new.take(300) + old.take(300)
    held = [lease.name for lease in leases if lease.name.startswith(f"{old.number}.")]
    old.say(refused=[(name, "no callback") for name in held])
    server.zadd("s:workers", {"new": 1})
    old.say()
    new = join("newer")
    while leases := old.take(300):
        old.say(refused=[(lease.name, "no callback") for lease in leases])
    old.push(*(f"more {number}" for number in range(20)))
    assert len(old.take(10)) == 10
    assert new.take(10)


def test_very_many_suspects_do_not_keep_a_worker_from_the_rest(join: Join, server: redis.Redis) -> None:
    alive = join("alive", deaths=3)
    alive.push(*(str(number) for number in range(300)))
    for number in range(2):
        dying = join(f"dying{number}", deaths=3)
        while dying.say(want=1000).leases:
            pass
        server.zadd("s:workers", {f"dying{number}": 1})
        while alive.say().returned:
            pass
    alive.push(*(f"innocent {number}" for number in range(20)))
    leases = [lease for _ in range(3) for lease in alive.say(want=20, suspects=1).leases]
    assert sorted(payloads(leases)) == sorted(f"innocent {number}" for number in range(20))


def test_a_seed_that_was_set_back_is_a_suspect_like_a_request(join: Join, server: redis.Redis) -> None:
    worker = join()
    server.zadd("s:delayed", {b"list 0 x/1.1 seed": 0})
    deaths = " ".join(f"died:w{n}@1.000" for n in range(3))
    server.hset("s:history", hashlib.sha1(b"seed").hexdigest(), deaths)
    assert worker.say(want=5, want_seeds=5, suspects=1).leases == []
    assert payloads(worker.say(want=5, want_seeds=5).leases) == ["seed"]


def test_a_suspect_that_is_passed_over_is_given_to_a_worker_that_has_none(
    join: Join, server: redis.Redis
) -> None:
    alive, other = join("alive", deaths=3), join("other", deaths=3)
    alive.push("suspect")
    for number in range(2):
        dying = join(f"dying{number}", deaths=3)
        dying.take(1)
        server.zadd("s:workers", {f"dying{number}": 1})
        alive.say()
    assert alive.say(want=5, suspects=1).leases == []
    assert payloads(other.take(5)) == ["suspect"]


def test_a_clock_that_is_set_back_does_not_keep_the_dead_alive(join: Join, server: redis.Redis) -> None:
    dead, alive = join("dead", lease=0.2), join("alive")
    alive.push("one")
    dead.take(1)
    seconds, _ = server.time()
    server.zadd("s:workers", {"dead": (seconds + 3600) * 1000})  # what it said before the clock was set back
    wait_until(lambda: alive.say().returned, 5)


def test_a_batch_of_items_that_comes_after_the_next_one_is_not_taken_again(server: redis.Redis) -> None:
    append = register(server, "items")
    for number, item in ((1, "one"), (2, "two"), (1, "one")):
        append(["s:items:batch:a", "s:items"], [number, 60, 1, item])
    assert server.lrange("s:items", 0, -1) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("data", "is_text"),
    [
        ("漢字 жук é 😀".encode(), True),
        ("\ud7ff\ue000\U0010ffff".encode(), True),
        (b"\xed\xa0\x80", False),  # half of a pair
        (b"\xf4\x90\x80\x80", False),  # beyond the last character
        (b"\xc0\xaf", False),  # longer than needed
        (b"\xe0\x80\xaf", False),
        (b"\xe6\xe6\xbc\xa2\xbc\xa2", False),  # would be one where another has been taken out
        (b"\x80", False),
        (b"a\xe6", False),
    ],
)
def test_a_failed_request_is_stored_as_text_if_it_is_valid_utf_8(
    join: Join, server: redis.Redis, data: bytes, is_text: bool
) -> None:
    worker = join()
    worker.say(pushes=[Push("force", "", 0, data)])
    (lease,) = worker.take(1)
    worker.say(failed=[Failed(lease.name, 0, "bad")])
    (entry,) = failed(server)
    assert ("data" in entry) == is_text
    assert (entry["data"].encode() if is_text else bytes.fromhex(entry["data_hex"])) == data


def test_a_server_that_forgets_scripts_as_soon_as_it_has_them_is_sent_their_text(
    join: Join, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = join()
    load = server.script_load

    def load_and_forget(text: bytes) -> None:
        load(text)
        server.script_flush()

    monkeypatch.setattr(server, "script_load", load_and_forget)
    server.script_flush()
    assert worker.push("one").waiting == 1


@pytest.mark.single("one server that becomes another's replica")
def test_an_old_master_that_has_become_a_replica_is_left_for_the_new_one(
    private_redis: PrivateRedis, tmp_path: Path
) -> None:
    with PrivateRedis(tmp_path, port=0, password=private_redis.password) as old, Proxy(old.url) as proxy:
        client, behind = redis.Redis.from_url(proxy.url, retry=None), redis.Redis.from_url(old.url)
        worker = Client(client, "a", "priority", 30.0, 5).open()
        worker.say()
        proxy.target(private_redis.url)
        behind.replicaof("127.0.0.1", private_redis.port)
        proxy.target(old.url)
        with pytest.raises(ResponseError):
            worker.say()
        connections = client.connection_pool._available_connections
        assert all(connection._sock is None for connection in connections)
        client.close()
        behind.close()
