"""The latencies that a worker reports for the fleet's AutoThrottle."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Headers
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.engine.answers import Answer
from scrapy_rq_sched.engine.throttle import ThrottleSettings, take_over
from scrapy_rq_sched.frontier.messages import Batch
from scrapy_rq_sched.queue import FifoQueue
from scrapy_rq_sched.settings import FrontierSettings
from scrapy_rq_sched.worker.slots import Politeness, politeness_of
from scrapy_rq_sched.worker.throttle import MOST, Latencies

SET = ThrottleSettings(2.0, 5.0, 0.5, 60.0)


def latencies(rules: tuple[SlotRule, ...] = (), throttle: ThrottleSettings | None = SET) -> Latencies:
    return Latencies(Politeness(SlotLimits(0.5), None, rules, frozenset({"delay"}), throttle))


def test_a_slot_without_a_delay_of_its_own_begins_with_that_of_autothrottle() -> None:
    engine: Any = Mock()
    engine.throttle.return_value = SET
    its = {"own": SlotLimits(1), "other": SlotLimits(0.5)}
    engine.slots.by_settings.return_value = SlotLimits(0.5), its, frozenset({"other"})
    limits = politeness_of(FrontierSettings(), object.__new__(FifoQueue), engine, Mock())
    assert [limits.of(slot).delay for slot in ("own", "other", "any")] == [1, 5, 5]


def heard(part: Latencies, *found: tuple[int, float | None]) -> Batch:
    for status, latency in found:
        part.hear(Answer("a", status, "http://a/", 0.0, False, Headers(), latency))
    batch = Batch(1)
    part.fill(batch)
    return batch


def test_latencies_are_sent_in_milliseconds_and_errors_with_a_minus() -> None:
    batch = heard(latencies(), (200, 0.25), (404, 0.1), (200, None))
    assert batch.latencies == {"a": [250, -100]}
    assert batch.throttle == (2, 500, 60_000)


def test_each_latency_is_sent_once() -> None:
    part = latencies()
    heard(part, (200, 0.25))
    assert heard(part).latencies == {}


def test_only_the_last_latencies_of_a_slot_are_sent() -> None:
    batch = heard(latencies(), *((200, float(number)) for number in range(MOST + 5)))
    assert batch.latencies["a"] == [1000 * number for number in range(5, MOST + 5)]


@pytest.mark.parametrize(
    "part", [latencies((SlotRule("a", delay=1),)), latencies(throttle=None)], ids=["rule", "off"]
)
def test_a_slot_with_a_fixed_delay_reports_no_latencies(part: Latencies) -> None:
    assert heard(part, (200, 0.25)).latencies == {}


def test_a_slot_begins_with_the_delay_of_autothrottle() -> None:
    politeness = Politeness(SlotLimits(0.5), None, (), frozenset({"delay"}), SET)
    assert politeness.of("a").delay == 5


def crawler_with(*extensions: Any) -> Any:
    settings = Settings({"AUTOTHROTTLE_START_DELAY": 3, "AUTOTHROTTLE_TARGET_CONCURRENCY": 2})
    return SimpleNamespace(settings=settings, extensions=SimpleNamespace(middlewares=extensions))


def an_extension(cls: type[AutoThrottle] = AutoThrottle) -> AutoThrottle:
    return cls.__new__(cls)


def test_the_extension_adjusts_no_delay_any_more() -> None:
    extension = an_extension()
    assert take_over(crawler_with(object(), extension), 0.5) == (2, 3, 0.5, 60)
    slot = SimpleNamespace(delay=1.0)
    extension._adjust_delay(slot, 9.0, SimpleNamespace(status=200))  # type: ignore[arg-type]
    assert slot.delay == 1


def test_an_extension_with_a_formula_of_its_own_goes_on() -> None:
    class Own(AutoThrottle):
        def _adjust_delay(self, slot: Any, latency: float, response: Any) -> None: ...

    assert take_over(crawler_with(an_extension(Own)), 0.5) is None
    assert take_over(crawler_with(), 0.5) is None
