"""What a worker says keeps it from going faster, and what follows for its fleet."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from scrapy import Request
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.frontier.messages import Batch, BottleneckName
from scrapy_rq_sched.frontier.replies import Lease, Order, Reply
from scrapy_rq_sched.inspect.limit import limit_of
from scrapy_rq_sched.inspect.status import Status, Worker
from scrapy_rq_sched.settings import FrontierSettings
from scrapy_rq_sched.worker import reports
from scrapy_rq_sched.worker.admission import Admission, Capacity
from scrapy_rq_sched.worker.reports import Bottleneck
from scrapy_rq_sched.worker.slots import Politeness
from scrapy_rq_sched.worker.state import State

WAITING = Reply(b"1", waiting=100)


class Looks:
    """A worker that is looked at every tenth of a second of a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.cpu = 1000.0
        monkeypatch.setattr(reports.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(reports.time, "process_time", lambda: self.cpu)
        settings = FrontierSettings(concurrency=1)
        self.state = State(settings)
        self.limits = Capacity(self.state, settings)
        self.stats = MemoryStatsCollector(get_crawler())
        self.slots = Mock(load=lambda slot: 0)
        admission = Admission(self.state, self.limits, Politeness(), settings, self)  # type: ignore[arg-type]
        self.bottleneck = Bottleneck(self.state, self.limits, admission, self.stats)
        self.full = ""

    def backs_out(self) -> str:
        return self.full

    def ready(self, at: float = 0.0) -> None:
        self.state.ready.append(Lease("1.1", "request", 0, b"x"), at)

    def hold(self, count: int) -> None:
        for number in range(count):
            self.state.begin(Request(f"http://h/{number}"), Lease(f"1.{number}", "request", 0, b"x"))

    def look(self, seconds: float = 30, reply: Reply = WAITING, busy: float = 0.1) -> BottleneckName | None:
        """Look for so long, with a share of the processor's time, and return what is said then."""
        for _ in range(round(10 * seconds)):
            self.now, self.cpu = self.now + 0.1, self.cpu + 0.1 * busy
            if not self.limits.cut_off:
                self.limits.exchanged(0.01)
            self.bottleneck.look(reply, self)  # type: ignore[arg-type]
        batch = Batch(1)
        self.bottleneck.fill(batch)
        return batch.bottleneck


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def test_a_worker_that_has_something_to_begin_is_limited_by_nothing(looks: Looks) -> None:
    looks.ready()
    assert looks.look() is None


def test_where_nothing_waits_nothing_is_the_limit(looks: Looks) -> None:
    assert looks.look(reply=Reply(b"1")) is None


def test_a_worker_with_requests_that_wait_for_their_time_is_limited_by_politeness(looks: Looks) -> None:
    looks.ready(at=2000.0)
    assert looks.look() == "politeness"
    assert looks.stats.get_value("frontier/blocked_seconds") == pytest.approx(30)


def test_a_process_without_time_is_limited_by_its_callbacks(looks: Looks) -> None:
    looks.ready()
    assert looks.look(busy=0.95) == "callbacks"


def test_a_full_scraper_is_slow_callbacks(looks: Looks) -> None:
    looks.full = "scraper"
    assert looks.look() == "callbacks"


def test_requests_that_are_downloaded_and_not_finished_are_slow_callbacks(looks: Looks) -> None:
    looks.hold(2)
    assert looks.look() == "callbacks"


def test_a_full_downloader_is_the_limit_of_concurrency(looks: Looks) -> None:
    looks.full = "downloader"
    looks.hold(2)
    assert looks.look() == "concurrency"


def test_a_worker_without_anything_at_hand_while_requests_wait_is_limited_by_redis(looks: Looks) -> None:
    assert looks.look() == "redis"


def test_an_outage_is_a_limit_of_redis(looks: Looks) -> None:
    looks.ready()
    looks.limits.cut_off = True
    assert looks.look() == "redis"


def test_a_paused_worker_is_limited_by_nothing(looks: Looks) -> None:
    looks.state.order = Order.PAUSE
    assert looks.look() is None


def test_it_is_said_when_it_changes_and_not_again(looks: Looks) -> None:
    assert looks.look() == "redis"
    assert looks.look() is None
    looks.ready()
    assert looks.look() == "none"


def test_a_moment_is_no_limit(looks: Looks) -> None:
    looks.ready()
    looks.look(30)
    looks.full = "downloader"
    assert looks.look(3) is None


def limit(*said: BottleneckName, state: str = "crawling", **fields: Any) -> BottleneckName:
    workers = [Worker(f"w{number}", True, limit=its) for number, its in enumerate(said)]
    return limit_of(Status("s", "s:requests", state, 0.0, workers=workers, **fields))


def test_the_limit_of_a_fleet_is_that_of_at_least_half_of_its_workers() -> None:
    assert limit("callbacks", "callbacks", "redis") == "callbacks"
    assert limit("callbacks", "none", "redis", "none", "none") == "none"
    assert limit("callbacks", "redis", "politeness") == "none"
    assert limit() == "none"


def test_where_all_that_waits_has_to_wait_politeness_is_the_limit() -> None:
    assert limit("callbacks", next_turn_in=0.5) == "politeness"


@pytest.mark.parametrize("state", ["paused", "draining", "idle", "finished", "stopped"])
def test_a_crawl_that_does_not_go_on_has_no_limit(state: str) -> None:
    assert limit("callbacks", state=state, next_turn_in=0.5) == "none"
