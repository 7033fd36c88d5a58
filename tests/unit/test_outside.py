"""Requests that a worker sends without the scheduler: when they wait for a turn, and when they go."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.frontier.messages import Batch
from scrapy_rq_sched.frontier.replies import Reply
from scrapy_rq_sched.worker.clock import ServerClock
from scrapy_rq_sched.worker.outside import MISSED, MOST, OutsideRequests
from scrapy_rq_sched.worker.requests import Entry, Requests
from scrapy_rq_sched.worker.slots import Politeness

FILE, ROBOTS = Request("http://a/file"), Request("http://a/robots.txt")


class Worker:
    """A worker with a clock that stands still."""

    def __init__(self, delay: float = 1.0, jitter: float = 0.0) -> None:
        self.requests, clock = Requests(), ServerClock()
        clock.note(time.monotonic(), time.monotonic(), 1_000_000)
        self.politeness = Politeness(SlotLimits(delay, jitter), fleet=frozenset({"delay"}))
        self.outside = OutsideRequests(self.requests, self.politeness, clock)
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
    assert worker.outside.count == 10
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


def test_files_do_not_wait_when_the_frontier_gives_no_more_turns(worker: Worker) -> None:
    waiting, granted = hold(worker), hold(worker)
    worker.give(1_000_500)
    worker.outside.pass_all()
    assert worker.asked() == {}
    for call in worker.calls:
        call()
    assert (waiting.called, granted.called) == (True, True)
    assert worker.outside.hold(FILE, "a") is None


def miss(worker: Worker, monkeypatch: pytest.MonkeyPatch, late: float) -> None:
    worker.give(1_000_500)
    time_of_call = time.monotonic() + 0.5 + late
    with monkeypatch.context() as patch:
        patch.setattr("time.monotonic", lambda: time_of_call)
        worker.calls.pop()()


def test_a_turn_that_would_be_used_much_too_late_is_asked_for_again(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = hold(worker)
    miss(worker, monkeypatch, late=0.3)
    assert not turn.called
    assert worker.asked() == {"a": 1}


def test_a_request_that_has_missed_several_turns_is_sent_however_late(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = hold(worker)
    for _ in range(MISSED):
        miss(worker, monkeypatch, late=9)
        assert not turn.called
    miss(worker, monkeypatch, late=9)
    assert turn.called


def test_a_slot_without_a_turn_is_asked_again_when_it_may_have_one(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(worker)
    worker.asked()
    worker.outside.applied(Reply("1", ask_outside_at={"a": 1_005_000}))
    assert worker.asked() == {}
    later = time.monotonic() + 6
    monkeypatch.setattr("time.monotonic", lambda: later)
    assert worker.asked() == {"a": 1}


def test_files_that_come_after_an_outage_wait_again(worker: Worker) -> None:
    turn = hold(worker)
    worker.outside.let_go()
    worker.calls.pop()()
    assert turn.called
    assert not hold(worker).called


def test_requests_that_are_denied_end_without_a_turn(worker: Worker) -> None:
    granted, waiting = hold(worker), hold(worker)
    other = worker.outside.hold(Request("http://b/"), "a")
    assert other is not None
    worker.give(1_000_500)
    failures: list[Failure] = []
    for turn in (waiting, granted):
        turn.addErrback(failures.append)
    worker.outside.refuse(lambda url: url == FILE.url, "denied")
    assert [failure.type for failure in failures] == [IgnoreRequest, IgnoreRequest]
    assert worker.calls == []
    assert not other.called
    assert worker.asked() == {"a": 1}


def test_files_of_a_slot_without_a_delay_wait_once_its_site_has_asked_to_wait() -> None:
    worker = Worker(delay=0)
    assert worker.outside.hold(FILE, "a") is None
    worker.politeness.take_reply(Reply("1", recalled=("a",)))
    assert worker.outside.hold(FILE, "a") is not None


def test_files_wait_from_a_bad_answer_until_the_reply() -> None:
    worker = Worker(delay=0)
    worker.outside.is_held = {"a"}.__contains__
    assert worker.outside.hold(FILE, "a") is not None
    assert worker.outside.hold(FILE, "b") is None


def test_files_wait_also_if_the_jitter_makes_a_gap_as_short_as_possible() -> None:
    assert Worker(delay=1, jitter=1).outside.hold(FILE, "a") is not None


def test_files_that_would_wait_for_long_fail_with_the_reason(worker: Worker) -> None:
    turn = hold(worker)
    failures: list[Failure] = []
    turn.addErrback(failures.append)
    worker.outside.applied(Reply("1", refused_outside={"a": "unreachable"}))
    assert str(failures[0].value) == (
        "http://a/file is not sent: its site could not be reached before, and is tried again later"
    )
    later = hold(worker)
    # The frontier is not asked at once again.
    assert (worker.asked(), later.called) == ({}, False)


@pytest.mark.parametrize(("why", "waits"), [("blocked", True), ("unreachable", False)])
def test_a_robots_txt_waits_for_the_end_of_a_block(worker: Worker, why: str, waits: bool) -> None:
    turn = worker.outside.hold(ROBOTS, "a")
    assert turn is not None
    turn.addErrback(lambda failure: None)
    worker.outside.applied(Reply("1", refused_outside={"a": why}))
    assert turn.called != waits


def test_a_robots_txt_does_not_keep_a_worker_from_closing(worker: Worker) -> None:
    turn = worker.outside.hold(ROBOTS, "a")
    assert turn is not None
    turn.addErrback(lambda failure: None)
    worker.outside.is_closing = lambda: True
    worker.outside.applied(Reply("1", refused_outside={"a": "blocked"}))
    assert turn.called


def test_files_ask_again_after_redis_came_back_with_older_data(worker: Worker) -> None:
    turn = hold(worker)
    worker.give(1_000_500)
    worker.outside.rolled_back()
    assert (worker.calls, turn.called) == ([], False)
    assert worker.asked() == {"a": 1}
