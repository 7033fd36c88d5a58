"""Leases that have a time, at a worker: which is begun next, and what is said of their turns."""

from __future__ import annotations

import math
import time
from collections import Counter

import pytest
from scrapy import Request

from scrapy_rq_sched.frontier.messages import Batch, UsedGrants
from scrapy_rq_sched.frontier.replies import Lease
from scrapy_rq_sched.settings import FrontierSettings
from scrapy_rq_sched.worker.clock import ServerClock
from scrapy_rq_sched.worker.grants import SlotGrants
from scrapy_rq_sched.worker.ready import Block, Cause, Ready, Timed
from scrapy_rq_sched.worker.state import State

from ..support.crawl import wait_until


def lease(name: str, slot: str = "", begin: float = 0.0) -> Lease:
    return Lease(name, "request", 0, b"x", slot, begin)


def taken(ready: Ready, now: float = 0.0, **loads: int | None) -> list[str]:
    def judge(head: Timed, now: float) -> int | Block:
        load = loads.get(head.lease.slot, 0)
        if load is None:
            return Block(Cause.SLOT)
        return Block(Cause.TIME, head.at) if head.at > now else load

    ready.judge = judge
    names = []
    while timed := ready.next(now):
        ready.remove(timed)
        names.append(timed.lease.name)
    return names


# -- ready -------------------------------------------------------------------------------------------


def test_leases_that_have_no_time_are_begun_in_the_order_in_which_they_came() -> None:
    ready = Ready()
    ready.extend([lease("1", "a"), lease("2", "b"), lease("3", "a"), lease("4")])
    assert taken(ready) == ["1", "2", "3", "4"]
    assert (len(ready), list(ready)) == (0, [])


def test_a_lease_before_its_time_keeps_no_other_waiting() -> None:
    ready = Ready()
    ready.append(lease("1", "a"), 10.0)
    ready.append(lease("2", "a"), 20.0)
    ready.append(lease("3", "b"))
    assert taken(ready, now=5) == ["3"]
    assert taken(ready, now=10) == ["1"]
    assert [left.name for left in ready] == ["2"]


def test_the_slot_with_the_fewest_downloads_comes_first() -> None:
    ready = Ready()
    ready.extend([lease("1", "a"), lease("2", "b"), lease("3", "c")])
    assert taken(ready, a=5, b=0, c=2) == ["2", "3", "1"]


def test_a_slot_that_should_have_no_more_downloads_is_passed_over() -> None:
    ready = Ready()
    ready.extend([lease("1", "a"), lease("2", "b")])
    assert taken(ready, a=None) == ["2"]
    assert ready.count("a") == 1


# -- the server's time -------------------------------------------------------------------------------


def test_the_servers_time_is_that_of_the_middle_of_an_exchange() -> None:
    clock = ServerClock()
    clock.note(sent=10.0, received=10.2, now=1_000_100)
    assert clock.local(1_000_100) == pytest.approx(10.1)
    assert clock.server(10.1) == pytest.approx(1_000_100)


def test_the_shortest_exchange_of_the_last_minute_tells_the_time() -> None:
    clock = ServerClock()
    clock.note(sent=10.0, received=10.01, now=1_000_000)
    clock.note(
        sent=20.0, received=22.0, now=1_011_500
    )  # slow: the server heard it at its beginning or its end
    assert clock.local(1_000_000) == pytest.approx(10.005)
    clock.note(sent=90.0, received=90.5, now=1_080_000)
    assert clock.local(1_080_000) == pytest.approx(90.25)


def test_a_clock_that_has_jumped_is_believed_at_once() -> None:
    clock = ServerClock()
    clock.note(sent=10.0, received=10.002, now=1_000_000)
    clock.note(sent=11.0, received=11.5, now=1_008_000)
    assert clock.local(1_008_000) == pytest.approx(11.25)


# -- turns -------------------------------------------------------------------------------------------


@pytest.fixture
def grants() -> SlotGrants:
    return SlotGrants(ServerClock())


def reported(grants: SlotGrants) -> dict[str, UsedGrants]:
    batch = Batch(1)
    grants.fill(batch)
    return batch.grants


def test_a_turn_is_used_when_its_request_is_sent_and_not_before(grants: SlotGrants) -> None:
    grants.begun("a", 5.0, 5.0)
    assert not grants.has_news
    grants.sending("a", 5.5, used=True)
    assert reported(grants) == {"a": UsedGrants(1, 5500, left=0)}
    assert not grants.has_news


def test_the_report_of_a_turn_that_goes_back_has_no_time(grants: SlotGrants) -> None:
    grants.returned(lease("1", "a", 5000))
    assert reported(grants) == {"a": UsedGrants(1, 0, 1, left=0)}


def test_a_lease_without_a_time_has_no_turn_to_give_back(grants: SlotGrants) -> None:
    grants.returned(lease("2", "a"))
    assert not grants.has_news


def test_a_turn_is_not_used_while_its_request_waits_in_the_downloader(grants: SlotGrants) -> None:
    soon = time.monotonic() + 0.05
    grants.begun("a", 5.0, 5.0)
    grants.sending("a", soon, used=True)
    assert reported(grants) == {}
    wait_until(lambda: grants.has_news)
    assert reported(grants) == {"a": UsedGrants(1, round(1000 * soon, 3), left=0)}


def test_a_turn_after_one_that_was_late_is_not_closer_to_it_than_they_were_to_be(grants: SlotGrants) -> None:
    grants.begun("a", 10.0, 13.0)
    assert grants.earliest("a", 20.0) == pytest.approx(13 + 0.99 * 10)
    assert grants.earliest("b", 20.0) == 20


def test_a_turn_that_was_late_is_made_up_for(grants: SlotGrants) -> None:
    grants.begun("a", 10.0, 13.0)
    # The frontier knew of it: it has moved the next turn on.
    assert grants.earliest("a", 14.0, gap=1.0) == 14
    assert grants.earliest("a", 11.0, gap=1.0) == pytest.approx(13 + 0.99)


def test_turns_that_are_apart_by_less_than_the_gap_stay_so_far_apart(grants: SlotGrants) -> None:
    grants.begun("a", 10.0, 13.0)
    assert grants.earliest("a", 10.5, gap=1.0) == pytest.approx(13 + 0.99 * 0.5)


def test_the_gap_counts_from_when_a_request_was_sent(grants: SlotGrants) -> None:
    grants.begun("a", 10.0, 10.0)
    grants.sending("a", 14.0, used=True)
    assert grants.earliest("a", 20.0) == pytest.approx(14 + 0.99 * 10)


def test_a_request_that_has_no_turn_counts_for_its_slot(grants: SlotGrants) -> None:
    grants.sending("a", 7.0, used=False)
    assert reported(grants) == {"a": UsedGrants(0, 7000, left=0)}


def test_the_gap_is_kept_however_many_reports_come_in_between(grants: SlotGrants) -> None:
    grants.begun("a", 10.0, 13.0)
    grants.sending("a", 13.0, used=True)
    for _ in range(3):
        reported(grants)
    assert grants.earliest("a", 20.0) == pytest.approx(13 + 0.99 * 10)


def test_where_gaps_may_be_nothing_a_late_turn_delays_none(grants: SlotGrants) -> None:
    grants.begun("a", 10.0, 13.0)
    assert grants.earliest("a", 11.0, gap=0.0) == 13


def test_the_gap_counts_from_the_time_until_which_a_request_was_sent(grants: SlotGrants) -> None:
    grants.begun("a", 10.0, 10.0)
    grants.sending("a", 10.1, used=True, is_certain=False)
    grants.sent("a", 10.1, 10.4)
    assert grants.earliest("a", 20.0) == pytest.approx(10.4 + 0.99 * 10)
    assert reported(grants) == {"a": UsedGrants(1, 10_400, left=0)}


def test_a_turn_is_not_reported_before_it_is_known_when_its_request_was_sent(grants: SlotGrants) -> None:
    """As if a callback holds up the process after the downloader has the request, and before it is sent."""
    grants.begun("a", 10.0, 10.0)
    grants.sending("a", 10.0, used=True, is_certain=False)
    assert not grants.has_news
    assert reported(grants) == {}
    grants.sent("a", 10.0, 10.6)
    assert reported(grants) == {"a": UsedGrants(1, 10_600, left=0)}


def test_no_turn_of_a_slot_is_used_while_it_is_unknown_when_its_last_request_was_sent(
    grants: SlotGrants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a callback holds up the process, and the engine then asks before the request is sent."""
    grants.begun("a", 10.0, 10.0)
    grants.sending("a", 10.0, used=True, is_certain=False)
    monkeypatch.setattr("time.monotonic", lambda: 10.6)
    assert grants.earliest("a", 10.25, gap=0.25) == pytest.approx(10.6 + 0.99 * 0.25)
    assert grants.earliest("b", 10.25, gap=0.25) == 10.25
    grants.sent("a", 10.0, 10.5)
    assert grants.earliest("a", 10.25, gap=0.25) == pytest.approx(10.5 + 0.99 * 0.25)


def test_the_time_of_sending_is_not_corrected_after_a_later_request(grants: SlotGrants) -> None:
    grants.sending("a", 10.0, used=False, is_certain=False)
    grants.sending("a", 12.0, used=False, is_certain=False)
    grants.sent("a", 10.0, 10.5)
    grants.sent("a", 12.0, 12.0)
    assert grants.earliest("a", 12.5, gap=1.0) == pytest.approx(12 + 0.99)
    assert reported(grants) == {"a": UsedGrants(0, 12_000, left=0)}


def test_the_last_grants_of_many_slots_are_remembered() -> None:
    grants, now = SlotGrants(ServerClock()), time.monotonic()
    grants.begun("first.test", now - 5, now)
    for number in range(20_000):
        grants.begun(f"{number}.test", now, now)
    grants.fill(Batch(1))
    assert grants.earliest("first.test", now - 4, 1.0) >= now + 0.9


# -- reports that wait -------------------------------------------------------------------------------


@pytest.fixture
def patient() -> SlotGrants:
    """Grants whose reports are needed when the next turn of the slot is near: in ten seconds."""
    grants = SlotGrants(ServerClock())
    grants.needed_at = lambda slot: time.monotonic() + 10
    grants.ahead = lambda: 1.0
    grants.sending("a", 7.0, used=True)
    return grants


def test_a_report_waits_until_the_next_turn_is_near(patient: SlotGrants) -> None:
    assert not patient.has_news
    assert reported(patient) == {}


def test_a_turn_that_was_used_too_late_is_reported_at_once(patient: SlotGrants) -> None:
    patient.is_too_late = lambda slot, late: late > 2
    now = time.monotonic()
    patient.begun("a", now - 1, now)
    patient.sending("a", now, used=True)
    assert not patient.has_urgent_news
    patient.begun("b", now - 3, now)
    patient.sending("b", now, used=True)
    assert patient.has_urgent_news


def test_a_report_that_has_waited_is_sent_when_the_next_turn_is_near(patient: SlotGrants) -> None:
    reported(patient)
    patient.sending("a", 9.0, used=True)
    patient.ahead = lambda: 10.5
    assert patient.has_news
    assert reported(patient) == {"a": UsedGrants(2, 9000, left=0)}
    assert not patient.has_news


def test_a_turn_that_was_not_used_is_reported_at_once(patient: SlotGrants) -> None:
    patient.returned(lease("1", "a", 8000))
    assert reported(patient) == {"a": UsedGrants(2, 7000, 1, left=0)}


def test_no_report_waits_while_the_spider_closes(patient: SlotGrants) -> None:
    patient.closing = True
    assert reported(patient) == {"a": UsedGrants(1, 7000, left=0)}


def test_of_forgotten_turns_only_the_time_of_the_last_request_is_reported(patient: SlotGrants) -> None:
    reported(patient)
    patient.forget(Counter())
    patient.closing = True
    assert reported(patient) == {"a": UsedGrants(0, 7000, left=0)}


def test_a_report_tells_how_many_turns_the_worker_still_has(grants: SlotGrants) -> None:
    grants.given(Counter(a=3))
    grants.sending("a", 7.0, used=True)
    assert reported(grants)["a"].left == 2
    grants.returned(lease("2", "a", 8000))
    assert reported(grants)["a"].left == 1


def test_a_worker_has_none_of_the_turns_that_the_frontier_has_forgotten(grants: SlotGrants) -> None:
    grants.given(Counter(a=3, b=3))
    grants.forget(kept=Counter(b=1))
    grants.given(Counter(a=1, b=1))
    grants.unused(Counter(a=1, b=1))
    assert {slot: used.left for slot, used in reported(grants).items()} == {"a": 0, "b": 1}


def test_the_next_leases_of_a_slot_begin_sooner_if_a_turn_was_not_used() -> None:
    ready = Ready()
    ready.append(lease("1", "a"), 20.0)
    ready.append(lease("2", "a"), 30.0)
    ready.bring_forward("a", 10.0)
    assert [taken(ready, now=now) for now in (9, 10, 19, 20)] == [[], ["1"], [], ["2"]]


def unhurried_grants() -> SlotGrants:
    grants = SlotGrants(ServerClock())
    grants.needed_at = lambda slot: time.monotonic() + 60
    return grants


def test_a_report_of_a_turn_waits_until_the_next_turn_is_near() -> None:
    grants = unhurried_grants()
    grants.sending("a", time.monotonic(), used=True)
    assert not grants.has_news


def test_a_report_of_a_request_without_a_turn_does_not_wait() -> None:
    grants = unhurried_grants()
    grants.sending("a", time.monotonic(), used=False)
    assert grants.has_news


def test_the_question_for_news_does_not_look_at_each_of_many_slots_that_wait() -> None:
    # It is asked at each tick, and a broad crawl has thousands of slots.
    grants, now = SlotGrants(ServerClock()), time.monotonic()
    asked: list[str] = []

    def needed_at(slot: str) -> float:
        asked.append(slot)
        return now + 60

    grants.needed_at = needed_at
    for number in range(1000):
        grants.sending(f"{number}.test", now, used=True)
    assert not grants.has_news
    asked.clear()
    assert not any(grants.has_news for _ in range(10))
    grants.ahead = lambda: 61.0
    assert all(grants.has_news for _ in range(10))
    assert len(asked) <= 10


def test_a_report_that_is_needed_later_than_it_seemed_waits_longer() -> None:
    # As when the worker was given the next turn of its slot.
    grants, now = SlotGrants(ServerClock()), time.monotonic()
    needed = {"a": now + 5, "b": now + 20}
    grants.needed_at = lambda slot: needed[slot]
    for slot in needed:
        grants.sending(slot, now, used=True)
    grants.ahead = lambda: 10.0
    assert grants.has_news
    needed["a"] = now + 30
    assert not grants.has_news
    grants.ahead = lambda: 25.0
    assert grants.has_news
    assert reported(grants).keys() == {"b"}


def test_the_end_of_a_download_is_urgent_where_another_request_waits_for_it() -> None:
    grants = unhurried_grants()
    grants.frees = lambda slot: slot == "b"
    grants.downloaded("a")
    assert not grants.has_urgent_news
    grants.downloaded("b")
    assert grants.has_urgent_news
    reported(grants)
    assert not grants.has_urgent_news


def test_a_worker_without_reports_has_no_news_however_far_ahead_it_reports(grants: SlotGrants) -> None:
    grants.ahead = lambda: math.inf
    assert not grants.has_news


@pytest.mark.parametrize("second_is_sent", [False, True])
def test_a_turn_that_was_not_used_is_not_used_after_a_later_one(second_is_sent: bool) -> None:
    """As if robots.txt forbids the first request while the second is on its way, or sent."""
    state, now = State(FrontierSettings()), time.monotonic()
    first, second = Request("http://a/1"), Request("http://a/2")
    for number, request in enumerate((first, second)):
        state.begin(request, lease(f"1.{number}", "a", 1.0), "a", has_grant=True)
        state.grants.begun("a", now + number, now + number)
    state.ready.append(lease("1.3", "a", 1.0), now + 2)
    if second_is_sent:
        state.reached_downloader(second, "a", now + 1, "a")
    state.finish_requests([first])
    assert [head.at for head in state.ready.heads()] == [now + 2]


@pytest.mark.parametrize("begin", [0.0, 5.0])
def test_a_lease_that_comes_after_an_unused_turn_begins_in_it(begin: float) -> None:
    """As if the first response comes from the HTTP cache while the second lease is on its way."""
    state, now = State(FrontierSettings()), time.monotonic()
    state.begin(request := Request("http://a/1"), lease("1.1", "a", 1.0), "a", has_grant=True)
    state.grants.begun("a", begin and now - begin, now)
    state.finish_requests([request])
    for number in (1, 2):
        state.ready.append(lease(f"1.{number + 1}", "a", 1.0), now + number)
    state.use_free_turns()
    now = time.monotonic()
    assert [taken(state.ready, now=now + seconds) for seconds in (0, 0.9, 1)] == [["1.2"], [], ["1.3"]]


def test_a_lease_that_begins_in_a_turn_of_long_ago_is_not_late() -> None:
    """As if a middleware answers the first request after a while, so that its turn is not used."""
    state, now = State(FrontierSettings()), time.monotonic()
    state.begin(request := Request("http://a/1"), lease("1.1", "a", 1.0), "a", has_grant=True)
    state.grants.begun("a", now - 60, now - 60)
    state.ready.append(lease("1.2", "a", 1.0), now + 1)
    state.finish_requests([request])
    state.give_back_late(time.monotonic(), patience=15)
    assert [taken(state.ready, now=time.monotonic())] == [["1.2"]]


def test_a_turn_used_in_a_slot_that_a_middleware_has_changed_is_reported() -> None:
    state, now = State(FrontierSettings()), time.monotonic()
    state.begin(request := Request("http://a/1"), lease("1.1", "a", 1.0), "a", has_grant=True)
    state.grants.begun("a", now, now)
    state.reached_downloader(request, "b", now, "b")
    assert state.grants.has_news


def test_a_request_that_a_middleware_has_moved_counts_for_both_slots() -> None:
    state, now = State(FrontierSettings()), time.monotonic()
    state.begin(request := Request("http://a/1"), lease("1.1", "a", 1.0), "a", has_grant=True)
    state.grants.begun("a", now, now)
    state.reached_downloader(request, "b", now + 60, "b")
    assert [used.used for used in reported(state.grants).values()] == [1]
    assert state.grants.last("b") == now + 60
    state.sent("b", now + 60, now)
    assert reported(state.grants).keys() == {"b"}


def test_the_next_lease_of_a_slot_begins_when_it_is_known_that_the_last_request_was_sent() -> None:
    state, now = State(FrontierSettings()), time.monotonic()

    def judge(head: Timed, now: float) -> int | Block:
        until = state.grants.earliest("a", head.at, gap=1.0)
        return Block(Cause.TIME, until) if until > now else 0

    state.ready.judge = judge
    state.grants.sending("a", now + 60, used=True, is_certain=False)
    state.ready.append(lease("1.2", "a", 1.0), now)
    assert state.ready.next(now) is None
    state.sent("a", now + 60, now - 2)
    assert state.ready.next(now) is not None


def test_an_unused_turn_that_the_frontier_knows_is_not_used() -> None:
    state, now = State(FrontierSettings()), time.monotonic()
    state.begin(request := Request("http://a/1"), lease("1.1", "a", 1.0), "a", has_grant=True)
    state.grants.begun("a", now, now)
    state.finish_requests([request])
    state.grants.fill(Batch(1))
    state.ready.append(lease("1.2", "a", 1.0), now + 1)
    state.use_free_turns()
    assert [head.at for head in state.ready.heads()] == [now + 1]
