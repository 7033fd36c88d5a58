"""Whether a request may begin, why not, and from when: one answer, and the ready leases agree with it."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request

from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.frontier.replies import Lease, Order, Reply
from scrapy_rq_sched.worker.outbox import Outgoing
from scrapy_rq_sched.worker.ready import Block, Cause, Ready, Timed
from scrapy_rq_sched.worker.session import Session

from .test_worker import a_worker, answer, enqueue, finish, hold

SLOTS = ("a", "b", "c")


def lease(number: int, slot: str = "", begin: float = 0.0, deaths: int = 0) -> Lease:
    return Lease(f"1.{number}", "request", deaths, b'{"url":"http://a.test/"}', slot, begin)


@pytest.fixture
def worker() -> Session:
    worker = a_worker(concurrency=4)
    give_engine(worker)
    answer(worker)
    return worker


def give_engine(worker: Session, load: Any = lambda slot: 0) -> None:
    """Let the worker's load be bounded, as in a crawl."""
    admission = worker.admission
    admission._engine = Mock()
    admission._engine.slots.load = load
    admission._of_load = (admission._load,)


def block_of(worker: Session) -> Block | None:
    return worker.admission.block(time.monotonic())


def cause_of(worker: Session) -> Cause | None:
    block = block_of(worker)
    return None if block is None else block.cause


def test_a_ready_lease_may_begin(worker: Session) -> None:
    worker.state.ready.append(lease(1))
    assert block_of(worker) is None


def test_a_request_in_memory_with_a_time_begins_when_its_time_has_come(worker: Session) -> None:
    now = time.monotonic()
    worker.state.clock.note(now, now, 1_000_000.0)
    push = Push("filter", "1", 0, b"", not_before=1_000_000.0 + 5_000)
    worker.admission.to_memory([Outgoing(push, Request("http://a.test/"))])
    block = worker.admission.block(now)
    assert block is not None
    assert (block.cause, block.until) == (Cause.TIME, pytest.approx(now + 5, abs=0.01))
    assert worker.admission.block(now + 4.9) is not None
    assert worker.admission.block(now + 5.1) is None


def test_a_worker_without_requests_is_empty(worker: Session) -> None:
    assert cause_of(worker) is Cause.EMPTY


def test_an_order_comes_before_the_ready_leases(worker: Session) -> None:
    worker.state.ready.append(lease(1))
    worker.state.order = Order.PAUSE
    assert cause_of(worker) is Cause.ORDER


def test_a_full_outbox_comes_first() -> None:
    worker = a_worker(outbox_size=10)
    enqueue(worker, 10)
    worker.state.order = Order.PAUSE
    assert cause_of(worker) is Cause.ROOM


def test_begun_requests_use_up_the_capacity(worker: Session) -> None:
    worker.state.ready.append(lease(1))
    hold(worker, 5)
    assert cause_of(worker) is Cause.CAPACITY


def test_the_next_release_comes_before_more_requests(worker: Session) -> None:
    worker.state.ready.append(lease(1))
    finish(worker, 8)
    assert cause_of(worker) is Cause.RELEASE


def test_a_process_that_was_stopped_waits_for_a_reply(
    worker: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.state.ready.append(lease(1))
    later = time.monotonic() + worker.settings.lease_timeout + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert cause_of(worker) is Cause.SILENCE


def test_requests_in_memory_without_limits_wait_for_no_capacity(worker: Session) -> None:
    hold(worker, 5)
    worker.state.memory.append(Outgoing(Push("force", "", 0, b""), Request("http://a.test")))
    assert block_of(worker) is None


def test_a_slot_that_was_asked_too_fast_waits_for_the_reply(worker: Session) -> None:
    worker.state.ready.append(lease(1, "a"))
    worker.state.answers.held.add("a")
    worker.state.ready.look_again("a")
    assert cause_of(worker) is Cause.ANSWER
    worker.state.ready.append(lease(2, "b"))
    assert block_of(worker) is None


def test_good_answers_count_as_long_as_the_slot_has_a_learnt_delay(worker: Session) -> None:
    worker.take_reply(Reply("e", learnt=frozenset({"a"})), 0.001)
    assert worker.state.answers.is_learnt("a")
    worker.take_reply(Reply("e", leases=[lease(1, "a")]), 0.001)
    assert not worker.state.answers.is_learnt("a")


def test_all_leases_of_a_recalled_slot_go_back_with_the_leases_of_the_same_reply(worker: Session) -> None:
    worker.state.ready.append(lease(1, "a"))
    worker.state.ready.append(lease(2, "b"))
    worker.take_reply(Reply("e", recalled=("a",), last_recall=1, leases=[lease(3, "a")]), 0.001)
    assert [one.slot for one in worker.state.ready] == ["b"]
    assert worker.batch().given_back == [lease(1).name, lease(3).name]


def test_turns_are_noted_though_a_statistics_collector_raises(
    worker: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker.notices, "throttled", Mock(side_effect=RuntimeError))
    with pytest.raises(RuntimeError):
        worker.take_reply(Reply("e", now=1.0, leases=[lease(1, "a", begin=5.0)]), 0.001)
    worker.state.grants.unused(Counter({"a": 1}))
    assert worker.batch().grants["a"].left == 0
    assert [one.slot for one in worker.state.ready] == ["a"]


def test_a_lease_waits_until_its_time(worker: Session) -> None:
    at = time.monotonic() + 100
    worker.state.ready.append(lease(1, "a", begin=5.0), at)
    assert block_of(worker) == Block(Cause.TIME, at)
    assert worker.admission.next_time(time.monotonic()) == at


def test_a_lease_that_is_very_late_is_left_to_another_worker(worker: Session) -> None:
    worker.state.ready.append(lease(1, "a", begin=5.0), time.monotonic() - worker.settings.lease_timeout)
    assert cause_of(worker) is Cause.LATE


def test_a_slot_that_the_downloader_is_full_of_waits_for_an_event() -> None:
    worker = a_worker()
    give_engine(worker, load=lambda slot: None)
    worker.state.ready.append(lease(1, "a"))
    worker.state.ready.append(lease(2, "b", begin=5.0), time.monotonic() + 100)
    assert cause_of(worker) is Cause.SLOT


def test_a_suspect_waits_until_redis_knows_of_it(worker: Session) -> None:
    worker.state.ready.append(lease(1, deaths=4))
    assert cause_of(worker) is Cause.SUSPECT
    assert worker.take() is None
    worker.batch()
    answer(worker)
    assert block_of(worker) is None


def test_to_ask_for_the_block_reports_no_suspect(worker: Session) -> None:
    worker.state.ready.append(lease(1, deaths=4))
    assert cause_of(worker) is Cause.SUSPECT
    assert not worker.state.has_news
    assert worker.batch().begun == ""


def test_a_slot_that_is_free_a_moment_after_its_download_has_ended_gives_its_lease() -> None:
    loads: dict[str, int | None] = {"a": None}
    worker = a_worker()
    give_engine(worker, load=loads.get)
    worker.state.ready.append(lease(1, "a"))
    worker.state.left_downloader(Request("http://a.test"), "a")
    assert cause_of(worker) is Cause.SLOT
    loads["a"] = 0  # nothing reports that
    assert block_of(worker) is None


def test_a_lease_waits_for_its_time_though_its_slot_is_full() -> None:
    worker = a_worker()
    give_engine(worker, load=lambda slot: None)
    at = time.monotonic() + 100
    worker.state.ready.append(lease(1, "a", begin=5.0), at)
    assert block_of(worker) == Block(Cause.TIME, at)


def test_a_request_is_handed_out_if_and_only_if_there_is_no_block() -> None:
    worker = a_worker(concurrency=2)
    give_engine(worker)
    for number in range(6):
        worker.state.ready.append(lease(number))
    begun = 0
    while block_of(worker) is None:
        assert worker.take() is not None
        begun += 1
    assert worker.take() is None
    assert begun == 3


def test_the_ready_leases_keep_few_void_entries() -> None:
    ready, loads = Ready(), {f"s{number}": 0 for number in range(20)}
    ready.judge = lambda head, now: loads[head.lease.slot]
    for slot in loads:
        ready.append(lease(0, slot))
    for number in range(10_000):
        slot = f"s{number % 20}"
        loads[slot] = 1 + loads[slot] % 3
        ready.look_again(slot)
        assert ready.next(0.0) is not None
    assert len(ready._due) < 200


# -- the ready leases, against a plain list -----------------------------------------------------------------


class Plain:
    """The answers of :class:`Ready`, from a list."""

    def __init__(self) -> None:
        self.leases: list[Timed] = []

    def heads(self) -> list[Timed]:
        firsts: dict[str, Timed] = {}
        for timed in self.leases:
            firsts.setdefault(timed.lease.slot, timed)
        return list(firsts.values())

    def next(self, loads: dict[str, int | None], now: float) -> Timed | None:
        due = [
            (load, head.number, head)
            for head in self.heads()
            if (load := loads[head.lease.slot]) is not None and head.at <= now
        ]
        return min(due)[2] if due else None

    def next_time(self, loads: dict[str, int | None], now: float) -> float | None:
        later = (head.at for head in self.heads() if loads[head.lease.slot] is not None and head.at > now)
        return min(later, default=None)


#: What happens, and to which slot; a time or a load.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "take", "load", "wait"]),
        st.sampled_from(SLOTS),
        st.one_of(st.none(), st.integers(0, 3)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_the_ready_leases_agree_with_a_plain_list(steps: list[tuple[str, str, int | None]]) -> None:
    ready, plain, now = Ready(), Plain(), 0.0
    loads: dict[str, int | None] = dict.fromkeys(SLOTS, 0)

    def judge(head: Timed, now: float) -> int | Block:
        load = loads[head.lease.slot]
        if load is None:
            return Block(Cause.SLOT)
        return load if head.at <= now else Block(Cause.TIME, head.at)

    ready.judge = judge
    for number, (what, slot, value) in enumerate(steps):
        if what == "append":
            at = 0.0 if value is None else now + value
            ready.append(lease(number, slot), at)
            plain.leases.append(Timed(at, len(ready) and ready._came - 1, lease(number, slot)))
        elif what == "load":
            # A load that rises is noticed when it matters; one that falls is reported.
            before, loads[slot] = loads[slot], value
            if before is None or (value is not None and value < before):
                ready.look_again(slot)
        elif what == "wait":
            now += value or 0.5
        elif (timed := plain.next(loads, now)) is not None:
            ready.remove(timed)
            plain.leases.remove(timed)
        assert ready.next(now) == plain.next(loads, now)
        for each in SLOTS:
            ready.look_again(each)
        assert ready.next_time(now) == plain.next_time(loads, now)
        assert list(ready) == [timed.lease for timed in plain.leases]
