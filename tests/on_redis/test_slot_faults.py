"""What others have done to the keys of slots, and what Redis has lost of them: the crawl goes on."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.errors import RedisUnsuitableError
from scrapy_rq_sched.frontier.messages import Push, UsedGrants
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.operations.clear import clear
from scrapy_rq_sched.inspect.operations.waiting import Waiting
from scrapy_rq_sched.inspect.slots import Slots

from ..support.client import Client, Join, payloads
from ..support.crawl import wait_until
from .test_limits import DELAY, push, take


def slots_of(redis_url: str) -> Slots:
    return Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"))


# -- keys of other types, and garbage ----------------------------------------------------------------


def test_limits_of_a_wrong_type_are_named_before_anything_is_taken(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={**DELAY, "named": {"a": SlotLimits(delay=1)}})
    push(worker, "a", 3)
    worker.push("flat")
    server.set("s:slots:limits", "x")
    with pytest.raises((redis.ResponseError, RedisUnsuitableError), match="s:slots:limits"):
        take(worker)
    assert (server.zcard("s:requests"), server.zcard("s:requests:slot:a")) == (1, 3)


def test_a_slot_with_a_key_of_a_wrong_type_stops_no_drop(join: Join, server: redis.Redis) -> None:
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


@pytest.mark.parametrize(
    "field", ["in_slots", "clock", "clock_ahead", "rewound", "rules", "slot_default", "slot_patterns"]
)
@pytest.mark.parametrize("value", ["inf", "nan", "-1", "x", ""])
def test_garbage_in_the_fields_of_slots_stops_nothing(
    join: Join, server: redis.Redis, field: str, value: str
) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=0.001), "patterns": {"?": SlotLimits(delay=0.002)}})
    push(worker, "a", 2)
    server.hset("s:meta", field, value)
    met: list[Any] = []
    wait_until(lambda: met.extend(take(worker)) or len(met) == 2)
    assert worker.say(finished=[lease.name for lease in met], in_hand=0).finished


@pytest.mark.parametrize("value", ["", "x", "1", None])
def test_a_damaged_default_of_the_limits_is_renewed_before_a_request_begins(
    join: Join, server: redis.Redis, value: str | None
) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 3)
    if value is None:
        server.hdel("s:meta", "slot_default")
    else:
        server.hset("s:meta", "slot_default", value)
    met: list[Any] = []
    wait_until(lambda: met.extend(take(worker)) or met)
    assert len(met) == 1
    assert take(worker) == []


@pytest.mark.parametrize("value", ["{", "[1]", "7", '"x"', '{"a": "x"}', "null"])
def test_garbage_in_the_grants_of_a_worker_is_given_to_no_worker(
    join: Join, server: redis.Redis, value: str
) -> None:
    worker = join(bounds=DELAY)
    worker.say(asks={"a": 1})
    server.hset("s:worker:a", "given", value)
    assert worker.repeat(asks={"a": 1}).given == {}


def test_a_slot_named_garbage_loses_nothing_to_the_clearing_of_another(
    join: Join, server: redis.Redis
) -> None:
    worker = join()
    for name in ("a:garbage", "a"):
        push(worker, name, 1)
    server.set("s:requests:slot:a", "x")
    assert payloads(take(worker)) == ["a:garbage1"]


# -- requests that somebody has deleted --------------------------------------------------------------


def test_a_deleted_queue_makes_no_more_requests_be_dropped(join: Join, server: redis.Redis) -> None:
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
    worker.say(finished=[lease.name], grants={"a": UsedGrants(1, 0)})
    server.delete("s:requests:slot:a")
    assert worker.say(want=5, in_hand=0).finished


def fill(worker: Client, sizes: dict[str, int], **options: Any) -> None:
    """Push so many requests to each slot."""
    names = [f"{slot}-{n}" for slot, size in sizes.items() for n in range(size)]
    for first in range(0, len(names), 2000):
        some = names[first : first + 2000]
        pushes = [Push("filter", f"fp-{name}", 0, name.encode(), name.partition("-")[0]) for name in some]
        worker.say(pushes=pushes, **options)


def crawl(worker: Client, want: int = 50) -> tuple[int, list[int]]:
    """Crawl until nothing waits; return how many pages there were, and each reported loss."""
    pages, lost, reply = 0, [], worker.say(want=want)
    while True:
        if reply.lost:
            assert reply.lost[0] == "requests"
            lost.append(int(reply.lost[1]))
        pages += len(reply.leases)
        if reply.finished or not (reply.leases or reply.waiting):
            return pages, lost
        reply = worker.say(want=want, finished=[lease.name for lease in reply.leases], in_hand=0)


def delete_queues(server: redis.Redis, pattern: str = "*") -> None:
    for key in server.scan_iter(f"*s*:requests:slot:{pattern}"):
        server.delete(key)


def test_the_loss_of_the_queues_of_all_slots_is_reported_once(
    join: Join, server: redis.Redis, discipline: str
) -> None:
    worker = join()
    fill(worker, {f"s{n}": 100 for n in range(10)})
    (first, *_) = [worker.say(want=418)]
    assert len(first.leases) == 418
    delete_queues(server)
    worker.say(finished=[lease.name for lease in first.leases])
    assert crawl(worker) == (0, [582])


def test_the_loss_of_one_slots_queue_is_reported(join: Join, server: redis.Redis, discipline: str) -> None:
    worker = join()
    fill(worker, {"a": 30, "b": 40, "c": 30})
    delete_queues(server, "b")
    assert crawl(worker) == (60, [40])


@pytest.mark.parametrize("order", ["slots", "priority"])
def test_the_loss_of_queues_is_reported_with_every_order_of_slots(
    join: Join, server: redis.Redis, order: str
) -> None:
    worker = join(bounds={"order": order})
    fill(worker, {"a": 30, "b": 40, "c": 30})
    delete_queues(server, "b")
    assert crawl(worker) == (60, [40])


def test_the_loss_of_a_part_of_a_queue_is_reported_when_its_rest_is_crawled(
    join: Join, server: redis.Redis
) -> None:
    worker = join()
    fill(worker, {"a": 50})
    server.zremrangebyrank(worker.frontier.keys.queue("a"), 0, 29)
    assert crawl(worker) == (20, [30])


def test_the_loss_of_a_few_requests_is_not_reported(join: Join, server: redis.Redis) -> None:
    worker = join()
    fill(worker, {"a": 50, "b": 9})
    delete_queues(server, "b")
    assert crawl(worker) == (50, [])


def test_the_loss_of_the_index_of_slots_is_reported_once(join: Join, server: redis.Redis) -> None:
    worker = join()
    fill(worker, {"a": 30, "b": 40})
    server.delete(worker.frontier.keys.slots)
    assert worker.say(want=5).lost == ("requests", "70")
    fill(worker, {"c": 20})
    assert crawl(worker) == (20, [])


def test_equal_requests_that_replace_each_other_are_no_loss(join: Join) -> None:
    worker = join()
    worker.say(pushes=[Push("force", "", 0, b"same", "a") for _ in range(50)])
    assert crawl(worker) == (1, [])


def test_requests_that_were_removed_on_purpose_are_no_loss(
    join: Join, server: redis.Redis, redis_url: str, discipline: str
) -> None:
    queue = {"priority": "PriorityQueue", "fifo": "FifoQueue", "lifo": "LifoQueue"}[discipline]
    settings = Settings({"REDIS_URL": redis_url, "SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.queue.{queue}"})
    worker = join()
    fill(worker, {"a": 40, "b": 40})
    gone = [b"a-%d" % n for n in range(20)] + [b"b-%d" % n for n in range(40)]
    view = View.from_settings(settings, "s")
    server.hset(view.keys.meta, "state", "paused")
    assert sum(map(len, Waiting(view).remove(lambda entry: entry.data in gone))) == 60
    server.hdel(view.keys.meta, "state")
    assert crawl(worker) == (20, [])


def test_a_clear_and_the_next_crawl_report_no_loss(join: Join, redis_url: str) -> None:
    worker = join()
    fill(worker, {"a": 40, "b": 40})
    clear(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"), force=True)
    assert worker.say(in_hand=0).lost == ()
    next_one = join("next", age=0.0)
    fill(next_one, {"a": 30})
    assert crawl(next_one) == (30, [])


SIZES = {f"n{number}": max(1, 2000 // (number + 1)) for number in range(3000)}


@pytest.mark.slow
def test_the_estimate_of_a_sample_of_many_slots_is_never_taken_for_a_loss(
    join: Join, server: redis.Redis
) -> None:
    worker = join()
    fill(worker, SIZES)
    delete_queues(server, "n2999")  # one request: the count of all others is now an estimate
    pages, lost = crawl(worker, 1000)
    assert (pages, lost) == (sum(SIZES.values()) - 1, [])


@pytest.mark.slow
def test_the_loss_of_very_many_slots_is_reported_with_no_more_than_was_lost(
    join: Join, server: redis.Redis
) -> None:
    worker = join()
    fill(worker, SIZES)
    delete_queues(server)
    pages, lost = crawl(worker)
    assert pages == 0
    assert len(SIZES) - 100 <= sum(lost) <= sum(SIZES.values())


# -- what Redis has lost -----------------------------------------------------------------------------


def test_turns_of_requests_in_memory_do_not_outlive_older_data(join: Join, server: redis.Redis) -> None:
    worker, other = (join(name, bounds={"slots": SlotLimits(concurrency=1)}) for name in "ab")
    assert worker.say(asks={"x": 1}).given
    worker.number += 5  # as if Redis had lost five exchanges
    worker.say(in_hand=0)
    worker.say(in_hand=0, grants={"x": UsedGrants(1, 0)}, downloaded={"x": 1})  # what it had, it does not use
    push(other, "x", 1)
    server.hdel("s:meta", "rewound")
    assert len(take(other)) == 1


def test_after_all_keys_are_deleted_a_slot_with_a_rule_waits_for_its_delay(
    join: Join, server: redis.Redis
) -> None:
    rule = {"named": {"x": SlotLimits(delay=10)}}
    worker, other = join("a", bounds=rule), join("b", bounds=rule)
    push(worker, "x", 3)
    assert len(take(worker)) == 1
    server.flushall()
    push(worker, "x", 3)
    assert take(other) == []


def test_a_block_outlives_the_downloads_in_flight(join: Join, server: redis.Redis, redis_url: str) -> None:
    worker = join(bounds=DELAY)
    push(worker, "a", 3)
    take(worker)
    slots_of(redis_url).block("a", 36_000)
    worker.say(grants={"a": UsedGrants(1, 0)})
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


def test_leases_of_very_many_slots_go_back(join: Join, server: redis.Redis) -> None:
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
