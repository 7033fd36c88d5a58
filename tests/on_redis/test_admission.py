"""The fleet's answer to "may it begin; and if not, why, and from when?"."""

from __future__ import annotations

import redis

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.frontier.messages import Push, UsedGrants

from ..support.client import Client, Join, payloads


def server_ms(server: redis.Redis) -> int:
    seconds, microseconds = server.time()
    return seconds * 1000 + microseconds // 1000


def park(server: redis.Redis, due: float, name: str, slot: str, payload: str) -> None:
    server.zadd("s:delayed", {f"request 0 b/1.1~refused@{slot} {payload}".encode(): due})


def push_later(worker: Client, not_before: float, *names: str, slot: str = "") -> None:
    pushes = [Push("filter", f"fp-{name}", 0, name.encode(), slot, not_before) for name in names]
    worker.say(pushes=pushes)


def test_a_request_with_a_time_is_leased_when_its_time_has_come_and_not_before(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    worker, now = join("a"), server_ms(server)
    push_later(worker, now + 300, "later")
    worker.push("now")
    reply = worker.say(want=5)
    assert payloads(reply.leases) == ["now"]
    assert (reply.later, reply.next_parked, reply.finished) == (1, now + 300, False)
    while not (leases := worker.take(5)):
        assert server_ms(server) < now + 1300
    assert payloads(leases) == ["later"]
    assert server_ms(server) >= now + 300


def test_a_request_with_a_time_is_a_duplicate_while_it_waits(join: Join, server: redis.Redis) -> None:
    worker = join("a")
    push_later(worker, server_ms(server) + 60_000, "1")
    assert worker.push("1").duplicates == (0,)


def test_a_request_with_a_past_time_waits_in_the_queue(join: Join, server: redis.Redis) -> None:
    worker = join("a")
    push_later(worker, server_ms(server) - 1, "1")
    assert (worker.say().waiting, worker.say().parked) == (1, 0)


def test_a_request_with_a_time_comes_back_from_a_dead_worker(join: Join, server: redis.Redis) -> None:
    dead, other = join("a", lease=0.05), join("b")
    push_later(dead, server_ms(server) + 20, "1", slot="x.test")
    while not dead.take(1):
        pass
    while not (leases := other.take(1)):
        pass
    assert payloads(leases) == ["1"]


def test_a_request_with_a_time_keeps_the_delay_of_its_slot(join: Join, server: redis.Redis) -> None:
    worker, now = join("a", bounds={"slots": SlotLimits(0.4)}), server_ms(server)
    worker.push("first", slot="x.test")
    (first,) = worker.take(1)
    push_later(worker, now + 50, "second", slot="x.test")
    while not (leases := worker.say(want=1, ahead=50).leases):
        assert server_ms(server) < now + 3000
    assert leases[0].begin >= first.begin + 400


def test_a_refused_request_is_kept_with_its_cause_and_is_due_for_another_worker(
    join: Join, server: redis.Redis
) -> None:
    first, other = join("a"), join("b")
    first.push("1")
    (lease,) = first.say(want=1).leases
    refused = first.say(refused=[(lease.name, "no callback")], want=1)
    (entry,) = server.zrange("s:delayed", 0, -1)
    assert b"~refused" in entry
    assert (refused.leases, refused.parked, refused.later, refused.next_parked) == ([], 1, 0, None)
    assert [lease.payload for lease in other.say(want=1).leases] == [b"1"]


def test_a_worker_learns_when_the_first_request_that_was_set_back_is_due(
    join: Join, server: redis.Redis
) -> None:
    worker, now = join("a"), server_ms(server)
    park(server, now + 60_000, "b/1.1", "x.test", "later")
    park(server, now + 30_000, "b/1.2", "x.test", "sooner")
    reply = worker.say(want=2)
    assert (reply.leases, reply.parked, reply.later, reply.finished) == ([], 2, 2, False)
    assert reply.next_parked == now + 30_000
    assert reply.now is not None
    assert now <= reply.now < now + 30_000


def test_a_due_request_of_a_slot_without_a_turn_goes_back_to_the_queue_of_its_slot(
    join: Join, server: redis.Redis
) -> None:
    worker = join("a", bounds={"slots": SlotLimits(60.0)})
    worker.push("1", slot="x.test")
    assert len(worker.say(want=1).leases) == 1
    park(server, server_ms(server) - 1, "b/1.1", "x.test", "2")
    reply = worker.say(want=1)
    assert (reply.leases, reply.parked, reply.waiting) == ([], 0, 1)
    assert server.zrange("s:requests:slot:x.test", 0, -1) == [b"2"]
    assert reply.next_turn is not None
    assert reply.next_turn > server_ms(server) + 30_000


def test_a_worker_that_is_given_nothing_learns_why(join: Join) -> None:
    worker, other = (
        join("a", bounds={"slots": SlotLimits(60.0)}),
        join("b", bounds={"slots": SlotLimits(60.0)}),
    )
    worker.push("1", "2", "3", slot="x.test")
    assert len(worker.say(want=1).leases) == 1
    assert worker.say(want=1).why == "delay"
    assert other.say(want=1).why in ("worker", "delay")


def test_a_time_that_never_comes_fails_no_exchange(join: Join, server: redis.Redis) -> None:
    worker, other = join("a"), join("b")
    server.zadd("s:delayed", {b"request 0 b/1.1 2": float("inf")})
    push_later(worker, float("inf"), "never")
    assert (worker.say().parked, other.say().later) == (2, 1)


def test_a_timed_request_competes_by_its_priority_when_it_is_due(join: Join, server: redis.Redis) -> None:
    worker, now = join("a"), server_ms(server)
    worker.say(pushes=[Push("filter", "fp-low", -10, b"low", "", now + 20)])
    worker.push("high", priority=10)
    while server_ms(server) <= now + 21:
        pass
    assert payloads(worker.take(1)) == ["high"]
    assert payloads(worker.take(1)) == ["low"]


def test_a_worker_learns_the_clock_with_a_request_that_waits_for_its_time(
    join: Join, server: redis.Redis
) -> None:
    reply = join("a").say(pushes=[Push("filter", "f", 0, b"", "", server_ms(server) + 200.0)])
    assert reply.now is not None


def test_a_slot_that_another_worker_takes_leaves_the_index_of_its_last_owner(
    join: Join, server: redis.Redis
) -> None:
    bounds = {"slots": SlotLimits(0.2)}
    owner, other = join("a", bounds=bounds), join("b", bounds=bounds)
    owner.push("1", "2", "3", slot="x.test")
    (lease,) = owner.take(1)
    owner.say(grants={"x.test": UsedGrants(1, lease.begin, 0)}, downloaded={"x.test": 1})
    began = server_ms(server)
    while server_ms(server) < began + 1600:  # until the slot is no longer left to its last owner
        pass
    reply = other.say(grants={"x.test": UsedGrants(0, began + 200, 0)}, asks={"x.test": 1})
    assert reply.given
    assert server.zrange("s:slots:of:a", 0, -1) == []
