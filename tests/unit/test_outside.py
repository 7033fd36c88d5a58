"""Requests that a worker sends without the scheduler: when they wait for a turn, and when they go."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from scrapy import Request
from twisted.internet.defer import Deferred

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.frontier.messages import Batch
from scrapy_rq_sched.frontier.replies import Reply
from scrapy_rq_sched.worker.clock import ServerClock
from scrapy_rq_sched.worker.outside import MOST, OutsideRequests
from scrapy_rq_sched.worker.requests import Entry, Requests
from scrapy_rq_sched.worker.slots import Politeness

FILE, ROBOTS = Request("http://a/file"), Request("http://a/robots.txt")


class Worker:
    """A worker with a clock that stands still."""

    def __init__(self, delay: float = 1.0) -> None:
        self.requests, clock = Requests(), ServerClock()
        clock.note(time.monotonic(), time.monotonic(), 1_000_000)
        politeness = Politeness(SlotLimits(delay), fleet=frozenset({"delay"}))
        self.outside = OutsideRequests(self.requests, politeness, clock)
        self.calls: list[Callable[[], None]] = []
        self.outside.call_at = self._call_at

    def _call_at(self, at: float, call: Callable[[], None]) -> Callable[[], None]:
        self.calls.append(call)
        return lambda: self.calls.remove(call)

    def asked(self) -> dict[str, int]:
        batch = Batch(1)
        self.outside.fill(batch)
        return batch.outside

    def give(self, *times: float, recalled: tuple[str, ...] = ()) -> None:
        given = {"a": list(times)} if times else {}
        self.outside.applied(Reply("1", given_outside=given, recalled=recalled))


@pytest.fixture
def worker() -> Worker:
    return Worker()


def hold(worker: Worker) -> Deferred[None]:
    turn = worker.outside.hold(FILE, "a")
    assert turn is not None
    return turn


def test_a_file_waits_for_the_turn_that_it_asks_for(worker: Worker) -> None:
    turn = hold(worker)
    assert worker.asked() == {"a": 1}
    worker.give(1_000_500)
    assert not turn.called
    worker.calls.pop()()
    assert turn.called
    assert worker.asked() == {}


def test_many_files_ask_for_a_few_turns_and_again_when_these_are_used(worker: Worker) -> None:
    turns = [hold(worker) for _ in range(10)]
    assert worker.asked() == {"a": MOST}
    worker.give(1_000_000)
    assert worker.asked() == {}
    worker.calls.pop()()
    assert [turn.called for turn in turns] == [True] + 9 * [False]
    assert worker.asked() == {"a": MOST}


def test_a_slot_without_a_delay_is_not_asked() -> None:
    assert Worker(delay=0).outside.hold(FILE, "a") is None


def test_a_request_of_the_frontier_does_not_wait_again(worker: Worker) -> None:
    worker.requests.begin(Entry(FILE, None, "a"))
    assert worker.outside.hold(FILE, "a") is None


def test_a_robots_txt_uses_the_turn_of_the_page_that_waits_for_it(worker: Worker) -> None:
    assert worker.outside.hold(ROBOTS, "a") is not None
    page = Request("http://a/page")
    worker.requests.begin(Entry(page, None, "a"))
    assert worker.outside.hold(ROBOTS, "a") is None
    worker.requests.reached(page)
    assert worker.outside.hold(ROBOTS, "a") is not None


def test_files_of_a_slot_that_is_recalled_ask_again(worker: Worker) -> None:
    turn = hold(worker)
    worker.give(1_000_500)
    worker.give(recalled=("a",))
    assert (worker.calls, turn.called) == ([], False)
    assert worker.asked() == {"a": 1}


def test_files_do_not_wait_while_the_worker_closes_or_is_paused(worker: Worker) -> None:
    waiting, granted = hold(worker), hold(worker)
    worker.give(1_000_500)
    worker.outside.passes = lambda: True
    assert worker.asked() == {}
    for call in worker.calls:
        call()
    assert (waiting.called, granted.called) == (True, True)
    assert worker.outside.hold(FILE, "a") is None


def test_a_turn_that_would_be_used_much_too_late_is_asked_for_again(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = hold(worker)
    worker.give(1_000_500)
    late = time.monotonic() + 0.5 + 0.5
    monkeypatch.setattr("time.monotonic", lambda: late)
    worker.calls.pop()()
    assert not turn.called
    assert worker.asked() == {"a": 1}
