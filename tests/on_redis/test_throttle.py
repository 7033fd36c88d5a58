"""AutoThrottle for the fleet: one delay for a slot, by Scrapy's formula, from latencies of all workers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import redis
from scrapy.extensions.throttle import AutoThrottle
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.frontier.messages import SlotAnswers
from scrapy_rq_sched.frontier.replies import Reply
from scrapy_rq_sched.inspect.slots import Slots, SlotStatus

from ..support.client import Client, Join
from ..support.crawl import wait_until
from .test_limits import push, take

START = {"slots": SlotLimits(delay=5)}


def hear(worker: Client, *latencies: float, target: float = 2.0, least: float = 0.0) -> Reply:
    found = {"a": [1000 * latency for latency in latencies]}
    return worker.say(latencies=found, throttle=(target, 1000 * least, 60_000))


def by_scrapy(start: float, latencies: tuple[float, ...], target: float, least: float) -> float:
    """Return the delay that Scrapy's extension finds."""
    settings = Settings({"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_TARGET_CONCURRENCY": target})
    extension = AutoThrottle(SimpleNamespace(settings=settings, signals=Mock()))  # type: ignore[arg-type]
    extension.mindelay, extension.maxdelay = least, 60.0
    slot = SimpleNamespace(delay=start)
    for latency in latencies:
        response = SimpleNamespace(status=200 if latency > 0 else 404)
        extension._adjust_delay(slot, abs(latency), response)  # type: ignore[arg-type]
    return slot.delay


@pytest.mark.parametrize(
    ("latencies", "target", "least"),
    [
        ((0.5,), 2.0, 0.0),
        ((0.5, 0.6, 0.4, 3.0, 0.2), 1.0, 0.0),
        ((0.01,) * 12, 4.0, 0.3),
        ((-0.01, -20.0, 0.1), 1.0, 0.0),
        ((1000.0,), 1.0, 0.0),
    ],
)
def test_the_delay_is_the_one_that_scrapys_formula_finds(
    join: Join, status: Callable[[], SlotStatus], latencies: tuple[float, ...], target: float, least: float
) -> None:
    worker = join(bounds=START)
    push(worker, "a", 1)
    hear(worker, *latencies, target=target, least=least)
    assert status().delay == pytest.approx(by_scrapy(5, latencies, target, least), abs=0.001)


def test_the_latencies_of_all_workers_count(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker, other = join("a", bounds=START), join("b", bounds=START)
    push(worker, "a", 1)
    for latency in (0.5, 0.7, 0.3):
        hear(worker, latency)
        hear(other, latency)
    expected = by_scrapy(5, (0.5, 0.5, 0.7, 0.7, 0.3, 0.3), 2.0, 0.0)
    assert status().delay == pytest.approx(expected, abs=0.001)
    assert status().throttle == status().delay


def test_a_shorter_delay_holds_for_the_next_turn(join: Join) -> None:
    worker = join(bounds=START)
    push(worker, "a", 3)
    (first,) = take(worker, 1)
    hear(worker, *([0.2] * 10))
    (second,) = take(worker, 1, ahead=60_000)
    assert second.begin - first.begin < 200


def test_the_next_turn_comes_no_sooner_than_the_delay_after_it_has_grown_and_fallen(join: Join) -> None:
    worker = join(bounds=START)
    push(worker, "a", 3)
    (first,) = take(worker, 1)
    for latency in (40.0, 1.0, 1.0):
        hear(worker, latency, target=1.0)
    (second,) = take(worker, 1, ahead=60_000)
    delay = by_scrapy(5, (40.0, 1.0, 1.0), 1.0, 0.0)
    assert second.begin - first.begin == pytest.approx(1000 * delay, abs=50)


def test_the_crawl_delay_holds_for_the_next_turn_after_the_delay_has_fallen(join: Join) -> None:
    worker = join(bounds={"slots": SlotLimits(delay=10, jitter=0.5)})
    push(worker, "a", 3)
    worker.say(answers={"a": SlotAnswers(crawl_delay=5000)})
    wait_until(lambda: take(worker, 1, ahead=60_000))
    before = worker.frontier.server.hget(worker.frontier.keys.slot("a"), "tat")
    hear(worker, *([5.5] * 12), target=1.0)
    after = worker.frontier.server.hget(worker.frontier.keys.slot("a"), "tat")
    # The shortest gap was 5 s before, and is 5 s now.
    assert float(after) >= float(before) - 1


def test_the_found_delay_does_not_count_with_other_settings(
    join: Join, status: Callable[[], SlotStatus]
) -> None:
    worker = join("a", bounds=START)
    push(worker, "a", 1)
    hear(worker, *([0.1] * 10))
    assert status().delay < 0.1
    join("b", bounds={"slots": SlotLimits(delay=10)}).say()
    assert (status().delay, status().throttle) == (10, 0)


def test_each_lease_tells_the_delay_of_its_slot(join: Join) -> None:
    worker = join(bounds=START)
    push(worker, "a", 1)
    hear(worker, 8.0)
    reply = worker.say(want=1, ahead=60_000)
    assert reply.limits["a"].delay == pytest.approx(4.5)
    assert (reply.with_delay, reply.learnt) == ({"a"}, set())


def test_a_delay_that_an_operator_has_set_is_not_adjusted(
    join: Join, slots: Callable[[], Slots], status: Callable[[], SlotStatus]
) -> None:
    worker = join(bounds=START)
    push(worker, "a", 1)
    slots().set("a", SlotRule("a", delay=3))
    hear(worker, 0.1)
    assert status().delay == 3


def test_the_crawl_delay_is_the_shortest_delay(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join(bounds=START)
    push(worker, "a", 1)
    worker.say(answers={"a": SlotAnswers(crawl_delay=2000)})
    hear(worker, *([0.1] * 10))
    assert status().delay == 2


def test_a_repeated_exchange_counts_once(join: Join, status: Callable[[], SlotStatus]) -> None:
    worker = join(bounds=START)
    push(worker, "a", 1)
    hear(worker, 1.0)
    before = status().delay
    worker.repeat(latencies={"a": [1000.0]}, throttle=(2.0, 0.0, 60_000.0))
    assert status().delay == before


def test_after_text_in_place_of_the_delay_the_slot_begins_with_that_of_the_settings(
    join: Join, server: redis.Redis, status: Callable[[], SlotStatus]
) -> None:
    worker = join(bounds=START)
    push(worker, "a", 1)
    hear(worker, 1.0)
    server.hset(worker.frontier.keys.slot("a"), "throttle", "fast")
    assert status().delay == 5
    hear(worker, 1.0)
    assert status().delay == pytest.approx(2.75)
