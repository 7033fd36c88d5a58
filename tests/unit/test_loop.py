"""When the loop exchanges."""

from __future__ import annotations

import math
import time
from typing import Any
from unittest.mock import Mock

import pytest
from scrapy import Request
from twisted.internet.defer import succeed

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.connection import RedisConnectionError
from scrapy_rq_sched.frontier.client import Left
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.frontier.replies import Lease, Reply
from scrapy_rq_sched.worker.admission import FAR, OF_THE_LAST
from scrapy_rq_sched.worker.loop import ExchangeLoop
from scrapy_rq_sched.worker.schedule import LEAVES, NEW_SLOT, NEWS, PLENTY, POLL_UNKNOWN, ExchangeSchedule
from scrapy_rq_sched.worker.session import Session
from scrapy_rq_sched.worker.slots import Politeness

from .test_worker import URL, a_worker, answer, enqueue, finish

INTERVAL = 0.05


class Waited:
    """An event loop whose time the test tells."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Waited:
    return Waited(monkeypatch)


@pytest.fixture
def worker(clock: Waited) -> Session:
    """A worker with as many requests at hand as it wants, and one more that is done."""
    worker = a_worker(concurrency=4, flush_interval=INTERVAL)
    answer(worker, leases=4)
    finish(worker, 1)
    return worker


@pytest.fixture
def rhythm(worker: Session) -> ExchangeSchedule:
    return ExchangeSchedule(worker)


def an_idle_rhythm(**settings: object) -> ExchangeSchedule:
    return ExchangeSchedule(a_worker(flush_interval=INTERVAL, **settings))


def is_due(rhythm: ExchangeSchedule, reply: Reply | None) -> bool:
    rhythm._session.last_reply = reply
    return rhythm.is_due()


def test_news_is_told_at_once_while_others_may_wait_for_it(rhythm: ExchangeSchedule, clock: Waited) -> None:
    rhythm.exchanged()
    assert is_due(rhythm, None)
    assert is_due(rhythm, Reply(b"1", waiting=8, workers=2))


def test_news_waits_for_more_of_it_while_there_is_more_than_all_want(
    rhythm: ExchangeSchedule, clock: Waited
) -> None:
    plenty = Reply(b"1", waiting=9, workers=2)
    rhythm.exchanged()
    assert not is_due(rhythm, plenty)
    clock.now += (PLENTY - 1) * INTERVAL
    assert not is_due(rhythm, plenty)
    clock.now += 1.01 * INTERVAL
    assert is_due(rhythm, plenty)


def test_no_news_waits_for_as_long_as_a_lease(rhythm: ExchangeSchedule, clock: Waited) -> None:
    rhythm._lease_timeout = 0.3
    rhythm.exchanged()
    clock.now += 0.051
    assert is_due(rhythm, Reply(b"1", waiting=9, workers=2))


def test_a_worker_that_runs_low_does_not_wait(
    rhythm: ExchangeSchedule, worker: Session, clock: Waited
) -> None:
    rhythm.exchanged()
    for _ in range(3):
        worker.state.ready.remove(next(worker.state.ready.heads()))
    assert is_due(rhythm, Reply(b"1", waiting=9, workers=2))


def test_a_release_that_will_be_waited_for_does_not_wait(
    rhythm: ExchangeSchedule, worker: Session, clock: Waited
) -> None:
    rhythm.exchanged()
    finish(worker, 5)
    assert is_due(rhythm, Reply(b"1", waiting=9, workers=2))


def test_a_heartbeat_is_due_though_something_waits_and_nothing_is_needed(clock: Waited) -> None:
    worker = a_worker(concurrency=16, flush_interval=INTERVAL)
    answer(worker, leases=15)
    rhythm = ExchangeSchedule(worker)
    rhythm.exchanged()
    reply = Reply(b"1", waiting=100)
    assert not is_due(rhythm, reply)
    clock.now += 10.1
    assert is_due(rhythm, reply)


@pytest.mark.parametrize(("workers", "interval"), [(2, 0.1), (20, 0.1), (400, 2.0), (100_000, 10.0)])
def test_the_more_workers_idle_the_longer_each_takes_until_it_asks_again(
    clock: Waited, workers: int, interval: float
) -> None:
    rhythm = an_idle_rhythm()
    reply = Reply(b"1", workers=workers, leased=1)
    rhythm.exchanged()
    clock.now += 0.9 * interval
    assert not is_due(rhythm, reply)
    clock.now += 0.2 * interval
    assert is_due(rhythm, reply)


def test_a_worker_that_closes_does_not_wait(rhythm: ExchangeSchedule, clock: Waited) -> None:
    rhythm.exchanged()
    rhythm._session.closing = True
    assert is_due(rhythm, Reply(b"1", waiting=9, workers=2))


# -- while only politeness limits --------------------------------------------------------------------

#: The server's time at the last reply, in milliseconds, if the test begins at 0; and a turn in four seconds.
NOW, TURN = 1_000_000.0, 1_004_000.0


def waits_for_turns(clock: Waited, next_turn: float = TURN, **settings: object) -> ExchangeSchedule:
    """Return the schedule of a worker that was given less than it wanted; the next turn is in 4 s."""
    worker = a_worker(concurrency=8, flush_interval=INTERVAL, **settings)
    reply = Reply(b"1", waiting=9, now=NOW, next_turn=next_turn)
    worker.state.clock.note(clock.now, clock.now, NOW)
    worker.last_reply = reply
    worker.capacity.exchanged(0.001)
    worker.capacity.note_turns(reply, wanted=4)
    schedule = ExchangeSchedule(worker)
    schedule.exchanged(asked=True)
    return schedule


def due_after(schedule: ExchangeSchedule, clock: Waited) -> float:
    """Return after how many seconds the next exchange is due."""
    begun = clock.now
    while not schedule.is_due():
        clock.now += 0.01
    return clock.now - begun


def test_a_worker_that_was_given_nothing_sleeps_until_the_next_turn_is_near(clock: Waited) -> None:
    schedule = waits_for_turns(clock, next_turn=NOW + 1000)
    assert due_after(schedule, clock) == pytest.approx(1.0 - schedule._session.capacity.near, abs=0.02)


def test_a_worker_that_waits_for_a_late_turn_hears_the_orders_in_two_seconds(clock: Waited) -> None:
    assert 1.5 < due_after(waits_for_turns(clock), clock) < 2.0


def test_a_worker_that_was_given_all_that_it_wanted_does_not_wait_for_turns(clock: Waited) -> None:
    capacity = waits_for_turns(clock)._session.capacity
    leases = [Lease(f"1.{number}", "request", 0, b"x") for number in range(4)]
    capacity.note_turns(Reply(b"1", waiting=9, now=NOW, next_turn=TURN, leases=leases), wanted=4)
    assert not capacity.waits_for_turns


def test_a_worker_gets_its_turns_further_ahead_while_it_waits_for_turns(clock: Waited) -> None:
    capacity = waits_for_turns(clock)._session.capacity
    assert capacity.ahead == pytest.approx(capacity.near + FAR)
    capacity.waits_for_turns = False
    assert capacity.ahead == capacity.near


#: Seconds that count as much of the last seconds, and as little.
MUCH, LITTLE = 1.2, 0.6


def hold_up(schedule: ExchangeSchedule, clock: Waited, seconds: float, workers: int = 2) -> None:
    """Have a callback of a fleet's worker block the event loop for so many *seconds*."""
    capacity = schedule._session.capacity
    capacity.note_turns(Reply(b"1", waiting=9, workers=workers, now=NOW, next_turn=TURN), wanted=4)
    capacity.tick(downloading=1)
    clock.now += INTERVAL + seconds
    capacity.tick(downloading=1)


def test_a_worker_with_callbacks_that_hold_it_up_leaves_the_next_turns_to_others(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    hold_up(schedule, clock, MUCH)
    batch = schedule._session.batch()
    assert (batch.ahead, batch.is_late) == (0, True)


def test_a_worker_that_is_held_up_for_a_moment_keeps_its_turns(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    hold_up(schedule, clock, LITTLE)
    assert schedule._session.capacity.ahead > FAR


def test_a_worker_that_is_held_up_again_and_again_leaves_the_next_turns_to_others(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    for _ in range(3):
        hold_up(schedule, clock, LITTLE)
    assert schedule._session.capacity.is_held_up


def test_a_worker_that_is_held_up_now_and_then_keeps_its_turns(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    for _ in range(20):
        hold_up(schedule, clock, LITTLE)
        assert not schedule._session.capacity.is_held_up
        keep_up(schedule, clock, OF_THE_LAST)


def keep_up(schedule: ExchangeSchedule, clock: Waited, seconds: float) -> None:
    """Have nothing block the event loop for so many *seconds*."""
    for _ in range(round(seconds / INTERVAL)):
        clock.now += INTERVAL
        schedule._session.capacity.tick(downloading=1)


def test_a_worker_that_is_no_longer_held_up_gets_its_turns_ahead_again(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    hold_up(schedule, clock, MUCH)
    keep_up(schedule, clock, OF_THE_LAST)
    assert schedule._session.capacity.ahead > FAR


def test_a_process_that_was_stopped_for_a_minute_gets_its_turns_ahead_again_soon(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    hold_up(schedule, clock, 60.0)
    keep_up(schedule, clock, 1.5 * OF_THE_LAST)
    assert not schedule._session.capacity.is_held_up


def test_the_only_worker_of_a_fleet_leaves_its_turns_to_no_other(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    hold_up(schedule, clock, MUCH, workers=1)
    assert schedule._session.capacity.ahead > FAR


@pytest.mark.parametrize("settings", [{"order": "priority"}, {"slots_key": "all"}])
def test_a_worker_that_is_held_up_keeps_the_turns_that_have_another_order(
    clock: Waited, settings: dict[str, str]
) -> None:
    schedule = waits_for_turns(clock, **settings)
    hold_up(schedule, clock, MUCH)
    assert not schedule._session.capacity.is_held_up


@pytest.mark.parametrize(("begun", "share"), [(0, 1), (60, 7)])
def test_a_worker_that_is_held_up_asks_for_no_more_than_it_begins_soon(
    clock: Waited, begun: int, share: int
) -> None:
    # All its slots have a turn when it asks, and it would take all of them again and again.
    schedule = waits_for_turns(clock)
    capacity = schedule._session.capacity
    assert capacity.target > share
    for _ in range(begun):
        capacity.begun()
    hold_up(schedule, clock, MUCH)
    assert capacity.target == share
    keep_up(schedule, clock, 2 * OF_THE_LAST)
    assert capacity.target > share


def test_the_report_of_a_turn_waits_only_a_moment_if_its_worker_is_held_up(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    busy_with(schedule)
    grants = schedule._session.state.grants
    grants.needed_at = lambda slot: math.inf
    grants.begun("a.example", clock.now, clock.now)
    grants.sending("a.example", clock.now, used=True)
    assert not grants.has_news
    hold_up(schedule, clock, MUCH)
    assert grants.has_news
    schedule.exchanged()
    assert not schedule.is_due()
    assert due_after(schedule, clock) == pytest.approx(LEAVES, abs=0.02)


def test_a_worker_does_not_wait_for_turns_while_there_are_seeds(clock: Waited) -> None:
    capacity = waits_for_turns(clock)._session.capacity
    capacity.note_turns(Reply(b"1", waiting=9, seeds=1, now=NOW, next_turn=TURN), wanted=4)
    assert not capacity.waits_for_turns


def test_turns_do_not_come_further_ahead_if_the_highest_priority_comes_first(clock: Waited) -> None:
    capacity = waits_for_turns(clock, order="priority")._session.capacity
    assert capacity.ahead == capacity.near


def busy_with(schedule: ExchangeSchedule) -> None:
    """Give the worker a request that it has begun, and one to begin later."""
    state = schedule._session.state
    state.begin(Request(URL), Lease("1.1", "request", 0, b"x"))
    state.ready.append(Lease("1.2", "request", 0, b"x", "b.example", NOW + 2000), time.monotonic() + 2)


def test_a_finished_page_waits_for_a_second_while_the_worker_waits_for_turns(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    busy_with(schedule)
    finish(schedule._session, 1)
    assert due_after(schedule, clock) == pytest.approx(NEWS, abs=0.02)


def test_many_finished_pages_do_not_wait(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    busy_with(schedule)
    finish(schedule._session, 4)
    assert schedule.is_due()


def test_the_last_finished_page_does_not_wait_if_few_requests_wait_in_the_fleet(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    finish(schedule._session, 1)
    assert not schedule.is_due()
    schedule._session.last_reply = Reply(b"1", waiting=1, workers=2, now=NOW, next_turn=TURN)
    assert schedule.is_due()


def test_a_request_of_a_slot_that_the_worker_does_not_know_waits_for_half_a_second(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    busy_with(schedule)
    schedule._session.politeness = Politeness(SlotLimits(delay=4.0), fleet=frozenset({"delay"}))
    schedule._session.state.enqueue(Push("force", "", 0, b"x", "c.example"), Request(URL))
    assert due_after(schedule, clock) == pytest.approx(NEW_SLOT, abs=0.02)


def test_a_request_of_a_new_slot_does_not_wait_if_the_last_new_slot_began_at_once(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    busy_with(schedule)
    schedule._session.politeness = Politeness(SlotLimits(delay=4.0), fleet=frozenset({"delay"}))
    state = schedule._session.state
    state.enqueue(Push("force", "", 0, b"x", "c.example"), Request(URL))
    schedule.sending()
    schedule.exchanged(asked=True, leases=[Lease("2.1", "request", 0, b"x", "c.example")])
    state.enqueue(Push("force", "", 0, b"x", "d.example"), Request(URL))
    assert schedule.is_due()


def test_a_worker_does_not_wait_for_turns_while_a_slot_has_more_than_it_can_begin(clock: Waited) -> None:
    session = waits_for_turns(clock)._session
    session.state.ready.set_saturated(["a.example"])
    session.capacity.note_turns(Reply(b"1", waiting=9, now=NOW, next_turn=TURN), wanted=4)
    assert not session.capacity.waits_for_turns


def test_a_request_does_not_wait_if_the_worker_has_nothing_to_begin(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    enqueue(schedule._session, 1)
    assert schedule.is_due()


def test_a_lease_that_goes_back_does_not_wait(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    busy_with(schedule)
    schedule._session.state.releases.give_back(Lease("1.3", "request", 0, b"x"))
    assert schedule.is_due()


def test_a_worker_that_closes_does_not_wait_for_turns(clock: Waited) -> None:
    schedule = waits_for_turns(clock)
    busy_with(schedule)
    finish(schedule._session, 1)
    schedule._session.closing = True
    assert schedule.is_due()


# -- in all other cases ------------------------------------------------------------------------------


def test_a_worker_without_leases_does_not_ask_for_waiting_requests_at_every_moment(clock: Waited) -> None:
    rhythm = an_idle_rhythm()
    rhythm.exchanged()
    clock.now += INTERVAL
    assert not is_due(rhythm, Reply(b"1", waiting=300))
    clock.now += POLL_UNKNOWN
    assert is_due(rhythm, Reply(b"1", waiting=300))


def test_a_worker_without_leases_does_not_ask_for_due_requests_at_every_moment(clock: Waited) -> None:
    rhythm, reply = an_idle_rhythm(), Reply(b"1", waiting=300, now=5000, next_turn=5000)
    rhythm.exchanged(asked=True)
    clock.now += INTERVAL
    assert not is_due(rhythm, reply)
    rhythm.exchanged(asked=False)
    clock.now += INTERVAL
    assert is_due(rhythm, reply)


def test_an_idle_worker_sleeps_until_the_first_request_that_was_set_back_is_due(clock: Waited) -> None:
    rhythm = an_idle_rhythm()
    rhythm._session.state.clock.note(clock.now, clock.now, 0.0)
    reply = Reply(b"1", leased=0, parked=2, later=2, now=0.0, next_parked=700.0)
    rhythm.exchanged()
    clock.now += 0.69
    assert not is_due(rhythm, reply)
    clock.now += 0.02
    assert is_due(rhythm, reply)


def a_worker_that_waits_for_turns(**delays: float) -> Session:
    """Return a worker with a request that waits for its time; all slots but *delays* have a delay of 9 s."""
    worker = a_worker(concurrency=4, flush_interval=INTERVAL)
    limits = {slot: SlotLimits(delay) for slot, delay in delays.items()}
    worker.politeness = Politeness(SlotLimits(9.0), limits, fleet=frozenset({"delay"}))
    worker.state.ready.append(Lease("1.1", "request", 0, b"x", "polite", 9000.0), time.monotonic() + 9)
    worker.state.clock.note(time.monotonic(), time.monotonic(), 0.0)
    worker.capacity.waits_for_turns = True
    return worker


@pytest.mark.parametrize(("slot", "is_sent"), [("free", True), ("polite2", False)])
def test_a_link_to_a_slot_without_a_delay_does_not_wait_for_the_turns_of_others(
    clock: Waited, slot: str, is_sent: bool
) -> None:
    worker = a_worker_that_waits_for_turns(free=0.0)
    worker.state.enqueue(Push("force", "", 0, b"x", slot), Request("http://example.com/"))
    rhythm = ExchangeSchedule(worker)
    rhythm.exchanged()
    clock.now += 2 * INTERVAL
    assert is_due(rhythm, Reply(b"1", waiting=300, now=0.0, next_turn=9000.0)) is is_sent


def test_nothing_is_wanted_soon_while_there_is_no_room(clock: Waited) -> None:
    rhythm = an_idle_rhythm()
    finish(rhythm._session, 1)
    assert rhythm.is_wanted_soon()
    rhythm._session.state.outbox.blocked = True
    assert not rhythm.is_wanted_soon()


def test_a_crawl_without_start_requests_asks_at_once(clock: Waited) -> None:
    rhythm = an_idle_rhythm()
    rhythm.exchanged()
    assert is_due(rhythm, None)


def answers_of_leaving(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[Any]:
    """Have a worker leave, with these answers of Redis; return what it takes for the result."""
    left: list[Any] = []
    event_loop, worker = Mock(), a_worker()
    frontier: Any = worker.frontier
    frontier.leave.side_effect = answers
    event_loop.call_later.side_effect = lambda delay, call: call()
    loop: Any = ExchangeLoop(worker, event_loop)

    def call(function: Any, done: Any) -> None:
        try:
            result, error = function(), None
        except RedisConnectionError as failure:
            result, error = None, failure
        done(result, error)

    monkeypatch.setattr(loop._thread, "call", call)
    monkeypatch.setattr(loop, "_exchange", lambda: loop._stopping.callback(None))
    monkeypatch.setattr(loop, "stop", lambda: succeed(None))
    loop._stop_by = time.monotonic() + 30
    loop.leave(frontier.leave, lambda result, error: left.append((result, error)))
    assert frontier.leave.call_count == len(answers)
    return left


GONE, AWAITS = Left(False, 0, 0), Left(False, 0, 0, awaits=True)


def test_to_leave_is_tried_again_until_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = RedisConnectionError("reset"), RedisConnectionError("reset")
    assert answers_of_leaving(monkeypatch, *lost, GONE) == [(GONE, None)]


def test_a_worker_stays_until_every_other_is_heard_or_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers_of_leaving(monkeypatch, AWAITS, AWAITS, GONE) == [(GONE, None)]
