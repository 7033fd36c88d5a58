"""How many requests of a slot the downloader has, as the worker counts them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from scrapy import Request
from scrapy.core.downloader import Slot

from scrapy_rq_sched.engine.downloader_slots import LOCAL_PART, DownloaderSlots

#: A slot of this concurrency may have one more, that waits.
CONCURRENCY, MOST = 4, 5


def a_slot() -> Slot:
    return Slot(CONCURRENCY, 0.0, randomize_delay=False)


@pytest.fixture
def downloader() -> Any:
    downloader = SimpleNamespace(slots={})

    def get_slot(request: Request) -> tuple[str, Slot]:
        key = request.meta["download_slot"]
        return key, downloader.slots.setdefault(key, a_slot())

    downloader._get_slot = get_slot
    return downloader


@pytest.fixture
def slots(downloader: Any) -> DownloaderSlots:
    return DownloaderSlots(SimpleNamespace(downloader=downloader, signals=Mock()))


def begin(slots: DownloaderSlots, count: int) -> list[Request]:
    requests = [
        Request(f"http://a.test/{number}", meta={"download_slot": "a.test"}) for number in range(count)
    ]
    for request in requests:
        slots.begun(request, "a.test")
    return requests


def test_requests_that_have_not_reached_the_downloader_count(slots: DownloaderSlots) -> None:
    begin(slots, MOST - 1)
    assert slots.load("a.test") == MOST - 1
    begin(slots, 1)
    assert slots.load("a.test") is None
    assert slots.load("b.test") == 0


def test_a_request_that_has_reached_the_downloader_counts_once(
    slots: DownloaderSlots, downloader: Any
) -> None:
    requests = begin(slots, 2)
    downloader.slots["a.test"] = a_slot()
    downloader.slots["a.test"].active.add(requests[0])
    slots._on_reached(requests[0])
    assert slots.load("a.test") == 2


def test_a_request_that_never_reaches_the_downloader_counts_until_it_is_finished(
    slots: DownloaderSlots,
) -> None:
    requests = begin(slots, MOST)
    slots.finish_all_but(requests[:2])
    assert slots.load("a.test") == 2


def test_to_count_makes_no_slot_in_the_downloader(slots: DownloaderSlots, downloader: Any) -> None:
    begin(slots, 1)
    slots.load("a.test")
    assert not downloader.slots


def test_a_slot_has_its_own_delay_again_when_the_fleet_keeps_none(
    slots: DownloaderSlots, downloader: Any
) -> None:
    gaps: dict[str, float] = {"a.test": 5.0}
    slots.follow(gaps.get, Mock(), Mock())
    its = downloader.slots["a.test"] = a_slot()
    its.delay = 2.0
    (request,) = begin(slots, 1)
    slots._on_reached(request)
    assert its.delay == LOCAL_PART * 5
    gaps.clear()
    slots._on_reached(request)
    assert its.delay == 2


def test_no_request_waits_in_the_downloader_where_the_fleet_keeps_the_delay(slots: DownloaderSlots) -> None:
    slots.follow(lambda slot: 1.0, lambda request, slot, at: None, lambda request: None)
    begin(slots, CONCURRENCY - 1)
    assert slots.load("a.test") == CONCURRENCY - 1
    begin(slots, 1)
    assert slots.load("a.test") is None


def test_a_request_is_sent_when_the_downloader_s_own_clock_says_so(
    slots: DownloaderSlots, downloader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_rq_sched.engine.downloader_slots._clock", lambda: 1.7e9)
    sent: list[float] = []
    slots.follow(lambda slot: 2.0, lambda request, slot, at: sent.append(at), lambda request: None)
    (request,) = begin(slots, 1)
    downloader.slots["a.test"] = its = a_slot()
    its.lastseen = 1.7e9 - 1
    slots._on_reached(request)
    assert sent[0] - time.monotonic() == pytest.approx(2.0 * LOCAL_PART - 1, abs=0.2)


@pytest.mark.parametrize("has_to_be", [True, False])
def test_a_downloader_is_told_the_spider_only_if_it_has_to_be(has_to_be: bool) -> None:
    told: list[Any] = []

    def needs_spider(request: Request, spider: Any) -> tuple[str, Slot]:
        told.append(spider)
        return "", downloader.slots.setdefault(request.meta["download_slot"], a_slot())

    def takes_spider(request: Request, spider: Any = None) -> tuple[str, Slot]:
        return needs_spider(request, spider)

    downloader = SimpleNamespace(slots={}, per_slot_settings={})
    downloader._get_slot = needs_spider if has_to_be else takes_spider
    DownloaderSlots(SimpleNamespace(downloader=downloader, signals=Mock(), spider="it")).by_settings()
    assert told == ["it" if has_to_be else None]
