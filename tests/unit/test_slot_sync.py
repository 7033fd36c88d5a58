"""What a worker says of slots: of which it has enough, and for which it needs turns."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import Mock

import pytest
from scrapy import Request

from scrapy_rq_sched.codec.slot_rules import slot_rules
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.frontier.replies import AT_ONCE, Lease, Membership, Order, Reply
from scrapy_rq_sched.worker.intake import StartGate
from scrapy_rq_sched.worker.outbox import Outgoing
from scrapy_rq_sched.worker.ready import LATE
from scrapy_rq_sched.worker.session import Session
from scrapy_rq_sched.worker.slots import Politeness

from .test_worker import a_worker


def lease(number: int, slot: str, begin: float = 0.0) -> Lease:
    return Lease(f"1.{number}", "request", 0, b"x", slot, begin)


def full(worker: Session, *slots: str) -> None:
    """Have the downloader have all that it may have of these slots."""
    engine: Any = Mock()
    engine.slots.load = lambda slot: None if slot in slots else 0
    worker.slot_sync._engine = worker.admission._engine = engine
    for head in worker.state.ready.heads():
        worker.state.ready.look_again(head.lease.slot)


@pytest.fixture
def worker() -> Session:
    return a_worker(concurrency=4, prefetch=20)


def test_leases_of_a_slot_of_which_there_are_enough_are_not_at_hand(worker: Session) -> None:
    worker.state.ready.extend(lease(number, "slow") for number in range(4))
    full(worker, "slow")
    worker.slot_sync.look()
    batch = worker.batch()
    assert (batch.saturated, batch.want) == (["slow"], 4)


def test_leases_of_a_slot_that_the_downloader_can_take_are_at_hand(worker: Session) -> None:
    worker.state.ready.extend(lease(number, "fast") for number in range(4))
    full(worker, "slow")
    worker.slot_sync.look()
    batch = worker.batch()
    assert (batch.saturated, batch.want) == ([], 0)


def test_start_is_read_on_when_all_leases_are_of_sated_slots(worker: Session) -> None:
    engine = Mock(reads_lazily=False, start_items=1000, backs_out=lambda: "")
    gate = StartGate(worker.state, worker.capacity, worker.settings, engine)
    worker.state.ready.extend(lease(number, "slow") for number in range(6))
    assert gate.holds(None)
    full(worker, "slow")
    worker.slot_sync.look()
    assert not gate.holds(None)


def test_no_more_leases_are_held_back_than_may_be_prefetched(worker: Session) -> None:
    worker.state.ready.extend(lease(number, f"slow{number % 3}") for number in range(21))
    full(worker, "slow0", "slow1", "slow2")
    worker.slot_sync.look()
    assert worker.batch().want == 0


def waits_in_memory(worker: Session, count: int) -> None:
    worker.politeness = worker.slot_sync._politeness = worker.admission._politeness = Politeness(
        rules=slot_rules("FRONTIER_SLOTS", {"polite": {"delay": 2}})
    )
    push = Push("force", "", 0, b"", "polite")
    worker.admission.to_memory(Outgoing(push, Request("http://polite/")) for _ in range(count))


def test_requests_in_memory_that_have_no_turn_are_not_at_hand(worker: Session) -> None:
    waits_in_memory(worker, 9)
    batch = worker.batch()
    assert (batch.asks, batch.want) == ({"polite": 4}, 4)


@pytest.mark.parametrize("told", [Order.PAUSE, Order.STOP])
def test_a_worker_that_is_paused_asks_for_no_turns(worker: Session, told: Order) -> None:
    waits_in_memory(worker, 9)
    worker.state.order = told
    assert worker.batch().asks == {}


def test_a_request_in_memory_begins_in_the_turn_that_it_was_given(worker: Session) -> None:
    waits_in_memory(worker, 2)
    now = 1000 * time.time()
    sent = time.monotonic()
    given = {"polite": [now - 1, now + 60_000]}
    worker.slot_sync.applied(Reply("1", now=now, sent=sent, received=sent, given=given))
    assert worker.take() is not None
    assert worker.take() is None


def test_a_worker_counts_the_turns_that_it_was_given(worker: Session) -> None:
    worker.take_reply(Reply("1", leases=[lease(n, "a", begin=5.0) for n in range(3)]), 0.001)
    worker.state.grants.returned(lease(0, "a", begin=5.0))
    assert worker.batch().grants["a"].left == 2


def test_a_turn_that_is_very_late_is_not_used(worker: Session) -> None:
    now, sent = 1000 * time.time(), time.monotonic()
    worker.slot_sync.applied(Reply("1", now=now, sent=sent, received=sent))
    worker.slot_sync.take_lease(lease(1, "a", begin=now - 20_000))  # leases last 30 s
    assert worker.take() is None
    worker.prepare()
    assert worker.batch().given_back == ["1.1"]


def test_a_turn_without_a_time_makes_no_worker_late(worker: Session) -> None:
    worker.slot_sync.take_lease(lease(1, "a", begin=AT_ONCE))
    assert worker.capacity.ahead > 0
    assert worker.state.ready.count("a") == 1


def test_ready_leases_go_back_when_limits_have_changed(worker: Session) -> None:
    worker.slot_sync.applied(Reply("1", limits_changed="1"))
    worker.state.ready.append(lease(1, "a"))
    worker.slot_sync.applied(Reply("1", limits_changed="1"))
    assert len(worker.state.ready) == 1
    worker.slot_sync.applied(Reply("1", limits_changed="2"))
    assert worker.batch().given_back == ["1.1"]


def test_turns_of_a_worker_that_was_given_up_for_dead_are_not_reported(worker: Session) -> None:
    worker.state.grants.returned(lease(1, "a", begin=5.0))
    worker.state.ready.append(lease(2, "b", begin=5.0), at=1.0)
    worker.apply(Reply("1", membership=Membership.EXPIRED))
    assert worker.batch().grants == {}


def test_leases_that_the_downloader_cannot_take_are_not_late(worker: Session) -> None:
    now = time.monotonic()
    worker.state.ready.append(lease(1, "slow", begin=5.0), at=now - 1)
    full(worker)
    worker.slot_sync.look()
    assert worker.state.ready.is_late(now, now)
    full(worker, "slow")
    worker.slot_sync.look()
    assert not worker.state.ready.is_late(now, now)


def test_a_lease_that_waits_for_its_slots_first_answer_is_not_late(worker: Session) -> None:
    """The turn's time has come, but the gap after the last request is not over: this worker keeps up."""
    now = time.monotonic()
    worker.state.grants.begun("a", now - 2, now - 1)
    worker.state.ready.append(lease(1, "a", begin=5.0), at=now - 1)
    assert worker.state.ready.next(now - 0.1) is None
    assert not worker.state.ready.is_late(now - LATE, now)
    assert worker.state.ready.is_late(now, now + LATE)


def test_slots_that_hold_all_leases_together_are_sated_though_none_holds_many(worker: Session) -> None:
    worker.state.ready.extend(lease(number, f"slow{number % 3}") for number in range(4))
    full(worker, "slow0", "slow1", "slow2")
    worker.slot_sync.look()
    batch = worker.batch()
    assert (batch.saturated, batch.want) == (["slow0", "slow1", "slow2"], 4)


def test_a_turn_that_the_downloader_cannot_take_is_soon_another_workers(worker: Session) -> None:
    now = time.monotonic()
    worker.state.ready.append(lease(1, "slow", begin=5.0), at=now - 0.3)
    worker.state.ready.append(lease(2, "fast", begin=5.0), at=now - 0.3)
    full(worker, "slow")
    worker.state.give_back_late(now, 10.0)
    assert [left.name for left in worker.state.ready] == ["1.2"]
    assert worker.batch().grants["slow"].unused == 1


def test_turns_of_requests_in_memory_are_given_back_by_a_worker_that_was_given_up_for_dead(
    worker: Session,
) -> None:
    worker.state.memory.append(Outgoing(Push("force", "", 0, b"", "a"), Request("http://a.test")), "a")
    worker.state.memory.give({"a": [1.0]})
    worker.apply(Reply("1", membership=Membership.EXPIRED))
    assert worker.batch().grants["a"].unused == 1


def test_start_is_read_though_a_lease_that_is_no_start_request_is_ready(worker: Session) -> None:
    engine = Mock(reads_lazily=False, start_items=0, backs_out=lambda: "")
    gate = StartGate(worker.state, worker.capacity, worker.settings, engine)
    worker.state.ready.extend([lease(1, "fast")])
    assert not gate.holds(None)


def test_start_waits_until_its_first_request_is_begun(worker: Session) -> None:
    engine = Mock(reads_lazily=False, start_items=1, backs_out=lambda: "")
    gate = StartGate(worker.state, worker.capacity, worker.settings, engine)
    worker.state.ready.extend([lease(1, "fast")])
    assert gate.holds(None)
    worker.state.begun = 1
    assert not gate.holds(None)
