"""``FRONTIER_SLOTS_KEY``: several spiders of one Redis keep the limits of their slots together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.frontier.messages import Push, UsedGrants
from scrapy_rq_sched.frontier.replies import Lease, Reply
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.slots import Slots
from scrapy_rq_sched.keys import Keys

from ..support.client import Client, Eager, calls_of
from ..support.crawl import wait_until
from .test_limits import server_ms

pytestmark = pytest.mark.single("keys of several spiders are on several slots")

DELAY = SlotLimits(delay=60.0)


@pytest.fixture
def spider(server: redis.Redis) -> Callable[..., Client]:
    """Return what makes a worker of a spider, by the spider's name."""

    def make(name: str, limits: SlotLimits, requests: int = 3) -> Client:
        keys = Keys(name, hash_tag=needs_hash_tag(server), slots_template="polite")
        worker = Client(server, f"w-{name}", "priority", 30, 5, keys=keys, slots=limits).open()
        worker.say(pushes=[Push("force", "", 0, b"%d" % number, "a") for number in range(requests)])
        return worker

    return make


def test_two_spiders_keep_one_delay(spider: Callable[..., Client], server: redis.Redis) -> None:
    one, other = spider("one", DELAY), spider("other", DELAY)
    assert len(one.take(9)) == 1
    assert other.take(9) == []
    assert server.exists("polite:a")
    assert not server.exists("one:slots:state:a", "other:slots:state:a")


def test_no_worker_takes_the_turns_of_another_spiders_worker(
    spider: Callable[..., Client], server: redis.Redis
) -> None:
    brief = SlotLimits(delay=0.001)
    one, other = spider("one", brief), spider("other", brief)
    assert len(one.take(1)) == 1
    assert other.take(9) == []
    one.say(grants={"a": UsedGrants(1, float(server.hget("polite:a", "tat") or 0))})
    wait_until(lambda: other.take(1))


@pytest.mark.parametrize("limits", [SlotLimits(delay=0.05), SlotLimits(concurrency=1)])
def test_no_spider_keeps_a_slot_to_itself(spider: Callable[..., Client], limits: SlotLimits) -> None:
    both = [Eager(spider(name, limits, requests=2000)) for name in ("one", "other")]

    def go_on() -> bool:
        for each in both:
            each.take()
        return all(each.count > 2 for each in both)

    wait_until(go_on)


def test_spiders_with_frontiers_of_other_clocks_have_one_time(
    spider: Callable[..., Client], server: redis.Redis
) -> None:
    limits = SlotLimits(delay=0.05)
    one, other = spider("one", limits), spider("other", limits)
    server.hset("one:meta", "clock", (server.time()[0] + 3600) * 1000)  # somebody has set it back
    wait_until(lambda: one.take(1))
    one.say(grants={"a": UsedGrants(1, 0)})
    wait_until(lambda: other.take(1))


def test_two_spiders_keep_one_concurrency(spider: Callable[..., Client]) -> None:
    two = SlotLimits(concurrency=2)
    one, other = spider("one", two), spider("other", two)
    assert len(one.take(1)) == 1
    assert len(other.take(9)) == 1
    one.say(downloaded={"a": 1})
    assert len(other.take(9)) == 1


def has_long_to_wait(reply: Reply) -> bool:
    assert reply.next_turn is not None
    assert reply.now is not None
    return reply.next_turn - reply.now > 10_000


def wake(server: redis.Redis, spider: str) -> None:
    """Let the slot of a spider be due now, as if its time had come."""
    server.zadd(f"{spider}:slots", {"a": 1})


def test_the_downloads_of_a_dead_worker_of_another_spider_do_not_count(
    spider: Callable[..., Client], server: redis.Redis
) -> None:
    one, other = (spider(name, SlotLimits(concurrency=1)) for name in ("one", "other"))
    assert len(one.take(1)) == 1
    assert other.take(9) == []
    server.zadd("polite:~workers", {"w-one": server.time()[0] * 1000 - 1000})  # its deadline has passed
    wake(server, "other")
    assert len(other.take(9)) == 1


def test_a_download_of_a_live_worker_of_another_spider_counts_however_long_it_takes(
    spider: Callable[..., Client], server: redis.Redis
) -> None:
    one, other = (spider(name, SlotLimits(concurrency=1)) for name in ("one", "other"))
    assert len(one.take(1)) == 1
    server.hset("polite:a", "a:w-one", "1 1000")  # it began long ago
    wake(server, "other")
    assert other.take(9) == []


def test_all_workers_of_all_spiders_have_a_full_lease_after_redis_was_away(
    spider: Callable[..., Client], server: redis.Redis
) -> None:
    one, other = (spider(name, SlotLimits(concurrency=1)) for name in ("one", "other"))
    assert len(one.take(1)) == 1
    an_hour_ago = (server.time()[0] - 3600) * 1000
    server.hset("polite:~clock", "clock", an_hour_ago)
    server.zadd("polite:~workers", {"w-one": an_hour_ago + 1000, "w-other": an_hour_ago + 1000})
    wake(server, "other")
    assert other.take(9) == []


def test_a_worker_that_is_always_late_keeps_no_dead_worker_of_another_spider_alive(
    spider: Callable[..., Client], server: redis.Redis
) -> None:
    one, other = (spider(name, SlotLimits(concurrency=1)) for name in ("one", "other"))
    assert len(one.take(1)) == 1

    def is_late() -> list[Lease]:
        """Let other be later than its lease."""
        now = int(server_ms(server))
        server.hset("polite:~clock", "clock", now - 40_000)
        server.zadd("polite:~workers", {"w-other": now - 10_000})
        (deadline,) = server.zmscore("polite:~workers", ["w-one"])
        server.zadd("polite:~workers", {"w-one": float(deadline or 0) - 40_000})
        wake(server, "other")
        return other.take(9)

    assert is_late() == []
    assert len(is_late()) == 1


@pytest.mark.parametrize("key", ["polite:~workers", "polite:~moved"])
def test_a_value_of_another_type_fails_no_exchange(
    spider: Callable[..., Client], server: redis.Redis, key: str
) -> None:
    one, _ = (spider(name, SlotLimits(concurrency=1)) for name in ("one", "other"))
    assert len(one.take(1)) == 1
    server.set(key, "text")
    assert len(one.say(want=1, downloaded={"a": 1}).leases) == 1
    server.set(key, "text")
    one.frontier.leave(finished=False, persist=False)


def test_an_ended_download_wakes_the_slot_of_another_spider(spider: Callable[..., Client]) -> None:
    one, other = (spider(name, SlotLimits(concurrency=1)) for name in ("one", "other"))
    assert len(one.take(1)) == 1
    assert has_long_to_wait(other.say(want=9))
    one.say(downloaded={"a": 1})
    assert one.take(9) == []  # the turn is left to the spider that has asked
    assert len(other.take(9)) == 1


def test_more_slots_than_are_read_at_a_time_wake_in_another_spider(
    spider: Callable[..., Client], server: redis.Redis
) -> None:
    count = 1500
    names = [f"h{number}" for number in range(count)]
    one, other = (spider(name, SlotLimits(concurrency=1), requests=0) for name in ("one", "other"))
    for worker in (one, other):
        worker.say(pushes=[Push("force", "", 0, name.encode(), name) for name in names])
    while one.take(500):
        pass
    server.zadd("other:slots", dict.fromkeys(names, 1e18))  # asked in vain: they sleep
    one.say(downloaded=dict.fromkeys(names, 1))
    other.say()
    assert server.zcount("other:slots", "-inf", server_ms(server) * 1000) == count


def test_a_slot_that_is_unblocked_wakes_in_all_spiders(spider: Callable[..., Client], redis_url: str) -> None:
    one, other = (spider(name, SlotLimits()) for name in ("one", "other"))
    view = View.from_settings(Settings({"REDIS_URL": redis_url, "FRONTIER_SLOTS_KEY": "polite"}), "one")
    Slots(view).block("a", 600)
    assert one.take(9) == other.take(9) == []
    Slots(view).unblock("a")
    assert one.take(9)
    assert other.take(9)


def test_a_spider_that_waits_for_a_long_delay_has_the_next_turn(spider: Callable[..., Client]) -> None:
    long = SlotLimits(delay=2.5)
    one, other = spider("one", long), spider("other", long)
    assert len(one.take(1)) == 1
    one.say(grants={"a": UsedGrants(1, 0)})
    assert other.take(9) == []
    met: list[str] = []

    def have_taken() -> bool:
        for worker in (one, other):
            met.extend(worker.name for _ in worker.say(want=1, ahead=2000).leases)
        return bool(met)

    wait_until(have_taken)
    assert met == ["w-other"]


def test_slots_that_sleep_cost_an_exchange_nothing_and_let_a_new_slot_begin(
    spider: Callable[..., Client], server: redis.Redis
) -> None:
    one, other = spider("one", DELAY), spider("other", DELAY)
    for worker in (one, other):
        worker.say(pushes=[Push("force", "", 0, b"%d" % n, f"host{n}") for n in range(300)] * 2)
    assert len(list(iter(lambda: one.take(100), []))) >= 3
    # Every slot is looked at once.
    wait_until(lambda: other.say(want=100) and not server.zcount("other:slots", 0, 1000 * server_ms(server)))

    before = calls_of(server, "hgetall")
    reply = other.say(want=16)
    assert calls_of(server, "hgetall") == before
    assert has_long_to_wait(reply)
    other.push("first", mode="force", slot="new")
    assert [lease.slot for lease in other.take(16)] == ["new"]


def test_a_block_holds_for_all_of_them(
    spider: Callable[..., Client], server: redis.Redis, redis_url: str
) -> None:
    spider("one", DELAY)
    other = spider("other", SlotLimits())
    view = View.from_settings(Settings({"REDIS_URL": redis_url, "FRONTIER_SLOTS_KEY": "polite"}), "one")
    Slots(view).block("a", 600)
    assert other.take(9) == []


def test_an_operator_sees_the_states_of_shared_slots_without_the_setting(
    spider: Callable[..., Client], redis_url: str
) -> None:
    one = spider("one", DELAY)
    one.take(1)
    (status,) = Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "one")).read()
    assert status.owner == "w-one"
    assert status.next_in > 50


def test_a_spider_without_limits_waits_for_no_other_spider(
    spider: Callable[..., Client], redis_url: str
) -> None:
    one, other = spider("one", SlotLimits(concurrency=1)), spider("other", SlotLimits(concurrency=1))
    free = spider("free", SlotLimits())
    one.take(1)
    other.take(1)
    (status,) = Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "free")).read()
    assert status.why == ""
    assert free.take(1)


def test_the_status_of_a_slot_says_that_its_turn_is_left_to_another_spider(
    spider: Callable[..., Client], redis_url: str
) -> None:
    one, other = spider("one", SlotLimits(concurrency=1)), spider("other", SlotLimits(concurrency=1))
    one.take(1)
    assert other.say(want=1).why == "concurrency"
    one.say(downloaded={"a": 1})
    (status,) = Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "one")).read()
    assert (one.say(want=1).why, status.why) == ("spider", "spider")


def test_the_turn_after_a_file_is_left_to_a_page_of_another_spider(spider: Callable[..., Client]) -> None:
    brief = SlotLimits(delay=0.3)
    one, other = spider("one", brief, requests=0), spider("other", brief)
    (at,) = one.say(outside={"a": 1}).given_outside["a"]
    assert other.take(1) == []
    reply = one.say(outside={"a": 1})
    assert reply.given_outside == {}
    assert reply.ask_outside_at["a"] > at + 300
    wait_until(lambda: other.take(1))


@pytest.fixture(autouse=True)
def _nothing_left(server: redis.Redis) -> Iterator[Any]:
    yield
    assert all(server.ttl(key) > 0 for key in server.scan_iter("polite:*"))
