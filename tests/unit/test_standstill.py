"""What is said when nothing is being issued, and when there is no room."""

from __future__ import annotations

import logging
from typing import Any
from unittest.mock import Mock

import pytest
from scrapy import Request

from scrapy_rq_sched import connection
from scrapy_rq_sched.frontier.client import Frontier, Opened
from scrapy_rq_sched.frontier.fleet_config import FleetConfig
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.frontier.replies import Lease, Order, Reply
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.settings import FrontierSettings
from scrapy_rq_sched.worker.admission import Admission, Capacity
from scrapy_rq_sched.worker.log import fullness, notices, standstill
from scrapy_rq_sched.worker.log.fullness import Fullness
from scrapy_rq_sched.worker.log.standstill import Standstill
from scrapy_rq_sched.worker.slots import Politeness
from scrapy_rq_sched.worker.state import State

URL = "http://example.com/"


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


class Engine:
    """An engine that downloads nothing and asks for more."""

    def downloading(self) -> int:
        return 0

    def backs_out(self) -> str:
        return ""


def a_standstill(spider: str = "s", **settings: Any) -> tuple[Standstill, State]:
    read = FrontierSettings(**settings)
    state = State(read)
    limits = Capacity(state, read)
    admission = Admission(state, limits, Politeness(), read, None)
    return Standstill(state, limits, admission, read, spider, [f"{spider}:start_urls"]), state


def reason(worker_has: str = "", reply: Reply | None = None, backs_out: str = "", **settings: Any) -> str:
    still, worker = a_standstill(**settings)
    if worker_has == "outbox":
        worker.enqueue(Push("force", "", 0, b"x"), Request(URL))
    elif worker_has == "held":
        worker.begin(Request(URL), Lease("1.1", "request", 0, b"x"))
    return still.reason(reply, 3, backs_out)[1]


@pytest.mark.parametrize(
    ("expected", "situation"),
    [
        ("Redis has not answered yet", {"reply": None}),
        (
            "the queue is empty; 12 requests are leased to 4 workers",
            {"reply": Reply(b"1", leased=12, workers=4)},
        ),
        ("1 request is leased to 1 worker", {"reply": Reply(b"1", leased=1, workers=1)}),
        ("go back to the queue 30 s after its last exchange", {"reply": Reply(b"1", leased=1)}),
        ("2 workers still read start(), or have", {"reply": Reply(b"1", leased=0, busy=2)}),
        ("1 worker still reads start(), or has", {"reply": Reply(b"1", leased=0, busy=1)}),
        ("5 requests are left for another worker", {"reply": Reply(b"1", leased=0, parked=5)}),
        (
            "5 requests wait for their time; the first may begin in less than a second",
            {"reply": Reply(b"1", leased=0, parked=5, later=5, next_parked=1.0)},
        ),
        ("waits for seeds in s:start_urls", {"reply": Reply(b"1", leased=0, busy=0)}),
        (
            "7 requests are in the queue of one slot, and worker b begins them",
            {"reply": Reply(b"1", waiting=7, slots=1, owner="b")},
        ),
        (
            "7 requests are in the queue, and all items of their pools are in use, rest or are retired",
            {"reply": Reply(b"1", waiting=7, why="pool")},
        ),
        ("the downloader is full, with 3 downloads", {"reply": Reply(b"1"), "backs_out": "downloader"}),
        ("the scraper is full", {"reply": Reply(b"1"), "backs_out": "scraper"}),
        ("the engine is still opening the spider", {"reply": Reply(b"1"), "backs_out": "engine"}),
        ("has begun 1 request, 3 of them", {"reply": Reply(b"1"), "worker_has": "held"}),
        ("7 requests are in the queue, but this worker was given none", {"reply": Reply(b"1", waiting=7)}),
        (
            "because Redis is out of memory",
            {"reply": Reply(b"1", full="memory"), "worker_has": "outbox", "outbox_size": 1},
        ),
        (
            "the queue has reached FRONTIER_MAX_WAITING",
            {"reply": Reply(b"1", full="bound"), "worker_has": "outbox", "outbox_size": 1},
        ),
        ("on 2 replicas", {"reply": Reply(b"1", replicated=False), "wait_replicas": 2}),
    ],
)
def test_the_reason_is_named(expected: str, situation: dict[str, Any]) -> None:
    assert expected in reason(**situation)


def test_a_command_that_is_suggested_quotes_the_name_of_the_spider(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    still, worker = a_standstill(spider="my shop")
    worker.order = Order.PAUSE
    _, text = still.reason(Reply(b"1", waiting=2), 0, "")
    assert text.endswith("2 requests are in the queue. To resume, run: scrapy frontier resume 'my shop'")
    server = connection.get_redis(host="localhost")
    frontier = Frontier(server, Keys("my shop"), "a", "priority", FleetConfig())
    found = {"waiting": 0, "seen": 5, "seeds": 0, "leased": 0, "workers": 1, "failed": 2, "unshared": 0}
    notices.from_before(frontier, Opened(flushed=False, kept_for="", **found))
    notices.Notices(Mock(), "my shop").order_changed(Reply(b"1", order=Order.DRAIN), Order.CRAWL)
    commands = [message.partition(" run: ")[2] for message in caplog.messages]
    worker.order = Order.ITEM
    _, text = still.reason(Reply(b"1", waiting=2, lacks_item="accounts"), 0, "")
    assert "it needs an item of pool 'accounts' for its life" in text
    assert text.endswith("To see them, run: scrapy frontier pool 'my shop'")
    assert commands == [f"scrapy frontier {action} 'my shop'" for action in ("clear", "failed", "resume")]


def test_it_is_said_after_a_while_and_not_again_for_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock(monkeypatch, standstill)
    still, _ = a_standstill()
    engine: Any = Engine()
    said = []
    for _ in range(129):
        clock.now += 1
        still.look(Reply(b"1", leased=3), engine)
        said.append(len(caplog.records))
    assert said.index(1) == 9
    assert said.index(2) == 69
    assert said[-1] == 2


def test_a_request_that_is_begun_ends_the_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock(monkeypatch, standstill)
    still, _ = a_standstill()
    engine: Any = Engine()
    for _ in range(100):
        clock.now += 1
        still.begun()
        still.look(Reply(b"1", leased=3), engine)
    assert caplog.records == []


def test_an_idle_spider_says_once_that_it_waits_for_seeds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock(monkeypatch, standstill)
    still, _ = a_standstill()
    engine: Any = Engine()
    for _ in range(1000):
        clock.now += 1
        still.look(Reply(b"1", leased=0, busy=0), engine)
    assert len(caplog.records) == 1


def a_fullness(**bounds: Any) -> Fullness:
    server = connection.get_redis(host="localhost", password="secret")
    frontier = Frontier(server, Keys("s"), "a", "priority", FleetConfig(**bounds))
    return Fullness(frontier, State(FrontierSettings()), 10_000)


def test_a_full_redis_is_told_of_once_and_so_is_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(monkeypatch, fullness)
    full = a_fullness()
    for reply in (*("memory", "", "memory") * 5, "", "", "", "", ""):
        full.note(Reply(b"1", full=reply))
        clock.now += 1
    first, last = caplog.messages
    assert "is out of memory" in first
    assert "secret" not in first
    assert "Redis has room again" in last


def test_too_many_waiting_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    full = a_fullness(max_waiting=50)
    for reply in ("bound", "bound", "exceeded", "exceeded"):
        full.note(Reply(b"1", full=reply, stored=1))
    assert ["FRONTIER_MAX_WAITING (50)" in message for message in caplog.messages] == [True, True]
