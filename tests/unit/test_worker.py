"""The local side: what is said in which batch, and how much is begun."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import PriorityQueue, RFPDupeFilter
from scrapy_rq_sched.frontier.messages import Batch, Failed, Finished, Push, rank
from scrapy_rq_sched.frontier.replies import Lease, Membership, Reply
from scrapy_rq_sched.settings import FrontierSettings
from scrapy_rq_sched.worker import outbox, start_counts
from scrapy_rq_sched.worker.attempt import Attempt
from scrapy_rq_sched.worker.outbox import BATCH_PUSHES, BatchOutcome
from scrapy_rq_sched.worker.session import Session

URL = "http://example.com/"


def a_worker(**settings: object) -> Session:
    """Return a session of no frontier, with all that is its own."""
    read = FrontierSettings(**settings)  # type: ignore[arg-type]
    queue = PriorityQueue(Mock(), Spider("s"), "s:requests")
    dupefilter = RFPDupeFilter(Mock(), "s:dupefilter")
    return Session(get_crawler(), Spider("s"), Mock(worker="w"), queue, dupefilter, read, None)


def enqueue(worker: Session, count: int, payload: bytes = b"x") -> None:
    for _ in range(count):
        worker.state.enqueue(Push("force", "", 0, payload), Request(URL))


def hold(worker: Session, count: int) -> None:
    for number in range(count):
        worker.state.begin(Request(URL), Lease(f"1.{number}", "request", 0, b"x"))


def begun_by(worker: Session) -> list[Request]:
    return [entry.request for entry in worker.state.requests]


def answer(worker: Session, leases: int = 0, latency: float = 0.001, stored: int = BATCH_PUSHES) -> None:
    names = [Lease(f"2.{number}", "request", 0, b"x") for number in range(leases)]
    reply = Reply(b"1", stored=stored, leases=names)
    take(worker, reply, latency)
    worker.state.ready.extend(names)


def take(worker: Session, reply: Reply, latency: float = 0.001) -> BatchOutcome:
    worker.capacity.exchanged(latency)
    return worker.apply(reply)


def test_a_lease_is_released_with_the_last_of_its_children_not_before() -> None:
    worker = a_worker()
    hold(worker, 1)
    enqueue(worker, BATCH_PUSHES + 1)
    worker.state.finish_all_but(())
    assert worker.batch().finished == []
    answer(worker)
    assert worker.batch().finished == [Finished("1.0", 1)]


def test_a_lease_is_released_though_the_outbox_is_never_empty() -> None:
    worker = a_worker()
    hold(worker, 1)
    worker.state.finish_all_but(())
    enqueue(worker, 3 * BATCH_PUSHES)
    assert worker.batch().finished == [Finished("1.0", 0)]


def test_a_worker_with_more_to_push_than_a_batch_holds_is_busy() -> None:
    worker = a_worker()
    enqueue(worker, BATCH_PUSHES + 1)
    assert worker.batch().busy
    answer(worker)
    assert not worker.batch().busy


def test_a_worker_that_is_about_to_have_a_request_in_memory_is_busy() -> None:
    worker = a_worker()
    enqueue(worker, 1, payload=b"")
    assert worker.batch().busy


@pytest.mark.parametrize(("concurrency", "at_work"), [(1, 2), (4, 5), (16, 20)])
def test_a_quarter_more_are_at_work_than_the_concurrent_requests(concurrency: int, at_work: int) -> None:
    worker = a_worker(concurrency=concurrency)
    answer(worker, leases=4)
    hold(worker, at_work - 1)
    assert worker.capacity.load_block() is None
    hold(worker, 1)
    assert worker.capacity.load_block() is not None


def finish(worker: Session, count: int) -> None:
    hold(worker, count)
    worker.state.finish_all_but(())


def test_no_more_are_finished_and_not_released_than_twice_the_concurrent_requests() -> None:
    worker = a_worker(concurrency=4)
    answer(worker, leases=4)
    finish(worker, 7)
    assert worker.capacity.load_block() is None
    finish(worker, 1)
    assert worker.capacity.load_block() is not None
    worker.batch()
    assert worker.capacity.load_block() is not None
    answer(worker)
    assert worker.capacity.load_block() is None


def test_the_next_release_is_sent_before_it_is_waited_for() -> None:
    worker = a_worker(concurrency=4)
    finish(worker, 5)
    assert not worker.capacity.awaits_release
    finish(worker, 1)
    assert worker.capacity.awaits_release
    assert worker.capacity.load_block() is None


@pytest.mark.parametrize("unreleased", [0, 8])
def test_callbacks_that_wait_raise_the_limit_with_and_without_unreleased_leases(
    monkeypatch: pytest.MonkeyPatch, unreleased: int
) -> None:
    monkeypatch.setattr(time, "process_time", lambda: 0.0)  # this process had time
    worker = a_worker(concurrency=4)
    finish(worker, unreleased)
    answer(worker, leases=4)
    finish(worker, unreleased)
    hold(worker, 5)
    assert [worker.capacity.tick(downloading=1) for _ in range(10)] == [False] * 9 + [True]
    worker.state.releases.rolled_back()
    assert worker.capacity.load_block() is None


def test_a_release_is_not_waited_for_where_redis_is_far() -> None:
    worker = a_worker(concurrency=4)
    answer(worker, latency=0.02)
    finish(worker, 8)
    assert worker.capacity.load_block() is None


def test_a_release_is_not_waited_for_while_redis_is_away() -> None:
    worker = a_worker(concurrency=4)
    answer(worker)
    finish(worker, 8)
    worker.capacity.cut_off = True
    assert worker.capacity.load_block() is None


def test_the_outbox_has_a_bound_beyond_which_nothing_is_begun() -> None:
    worker = a_worker(outbox_size=10)
    enqueue(worker, 10)
    assert worker.capacity.is_full
    assert worker.batch().want == 16
    answer(worker)
    enqueue(worker, 5000)
    assert worker.batch().want == 0


def test_a_reason_that_cannot_be_sent_is_made_one_that_can() -> None:
    worker = a_worker()
    worker.state.fail(Lease("1.1", "list", 0, b"x"), "half a character: \ud800")
    ((_, _, reason, _),) = worker.batch().failed
    assert reason == "half a character: \\ud800"


def test_a_batch_names_the_fingerprints_forgotten_with_the_memory() -> None:
    worker = a_worker()
    worker.state.enqueue(Push("filter", "fp", 0, b""), Request(URL))
    worker.batch()
    reply = Reply(b"1", stored=1)
    for outgoing in take(worker, reply, 0.001).kept:
        worker.state.memory.append(outgoing)
    assert worker.state.forget_memory() == 1
    assert worker.batch().forgotten == [("filter", "fp")]


# -- no room, replicas, older data -----------------------------------------------------------------------


def settle(worker: Session, **said: Any) -> None:
    take(worker, Reply(b"1", **said))


def test_pushes_that_found_no_room_are_sent_again_in_their_order_and_fewer_at_a_time() -> None:
    worker = a_worker()
    for number in range(100):
        worker.state.enqueue(Push("force", "", 0, str(number).encode()), Request(URL))
    assert len(worker.batch().pushes) == 100
    settle(worker, stored=3, full="memory")
    assert worker.state.outbox.blocked
    again = worker.batch().pushes
    assert [push.payload for push in again] == [str(number).encode() for number in range(3, 19)]
    settle(worker, stored=16)
    assert worker.batch().pushes[0].payload == b"19"


def test_a_page_with_children_that_found_no_room_is_not_released_before_they_do() -> None:
    worker = a_worker()
    hold(worker, 1)
    enqueue(worker, 2)
    worker.state.finish_all_but(())
    assert worker.batch().finished == [Finished("1.0", 2)]
    settle(worker, stored=1, full="bound")
    assert worker.batch().finished == [Finished("1.0", 1)]
    settle(worker, stored=1)
    assert worker.state.is_quiet


def test_a_page_that_led_to_nothing_is_released_though_there_is_no_room() -> None:
    worker = a_worker()
    enqueue(worker, 50)
    worker.batch()
    settle(worker, stored=0, full="memory")
    hold(worker, 1)
    worker.state.finish_all_but(())
    assert worker.batch().finished == [Finished("1.0", 0)]


def test_a_page_that_found_a_request_still_in_the_outbox_waits_for_it() -> None:
    worker = a_worker()
    enqueue(worker, 50)
    worker.batch()
    settle(worker, stored=0, full="memory")
    hold(worker, 1)
    worker.state.note_known()
    worker.state.finish_all_but(())
    assert worker.batch().finished == []


def test_a_worker_with_only_pages_that_wait_for_room_stands_still() -> None:
    worker = a_worker(outbox_size=10)
    hold(worker, 4)
    enqueue(worker, 10)
    worker.state.finish_all_but(())
    worker.batch()
    settle(worker, stored=0, full="bound")
    assert worker.admission.stands_still
    batch = worker.batch()
    assert batch.exceed
    settle(worker, stored=10, full="exceeded")
    assert not worker.admission.stands_still


def test_a_worker_that_can_begin_more_does_not_exceed_the_bound() -> None:
    worker = a_worker()
    hold(worker, 1)
    enqueue(worker, 10)
    worker.state.finish_all_but(())
    worker.batch()
    settle(worker, stored=0, full="bound")
    assert worker.capacity.load_block() is None
    assert not worker.batch().exceed


def test_a_worker_that_closes_leaves_nothing_behind_for_want_of_room() -> None:
    worker = a_worker()
    enqueue(worker, 10)
    worker.close(finished=False)
    assert worker.batch().exceed


def test_a_page_is_released_only_when_replicas_have_its_children() -> None:
    worker = a_worker(wait_replicas=1)
    hold(worker, 1)
    enqueue(worker, 1)
    worker.state.finish_all_but(())
    assert worker.batch().finished == []
    settle(worker, stored=1, replicated=False)
    assert worker.batch().finished == []
    settle(worker, replicated=True)
    assert worker.batch().finished == [Finished("1.0", 0)]


def test_a_worker_does_not_go_on_for_ever_while_replicas_lack_its_pushes() -> None:
    worker = a_worker(wait_replicas=1, prefetch=4, concurrency=4)
    answer(worker, latency=0.02)
    for number in range(4):
        worker.state.begin(Request(URL), Lease(f"1.{number}", "request", 0, b"x"))
        enqueue(worker, 1)
    worker.state.finish_all_but(())
    worker.batch()
    take(worker, Reply(b"1", stored=4, replicated=False), 0.02)
    assert worker.capacity.load_block() is not None


def test_older_data_in_redis_frees_a_worker_of_all_its_leases() -> None:
    worker = a_worker()
    answer(worker, leases=2)
    hold(worker, 2)
    requests = begun_by(worker)
    enqueue(worker, 1)
    worker.state.finish_all_but(requests[:1])
    worker.batch()
    settle(worker, stored=1, membership=Membership.ROLLED_BACK)
    assert len(worker.state.ready) + worker.state.requests.leased == 0
    worker.state.finish_all_but(())
    assert worker.batch().finished == []


def test_a_request_under_way_at_a_rollback_keeps_the_fleet_from_its_end() -> None:
    worker = a_worker()
    hold(worker, 1)
    requests = begun_by(worker)
    worker.batch()
    settle(worker, membership=Membership.ROLLED_BACK)
    worker.state.finish_all_but(requests)
    assert worker.batch().busy
    settle(worker)
    worker.state.finish_all_but(())
    assert not worker.batch().busy


def test_start_requests_that_older_data_may_lack_are_sent_again() -> None:
    worker = a_worker()
    worker.state.enqueue(Push("start", "fp", 0, b"start"), Request(URL))
    worker.state.enqueue(Push("filter", "fp-2", 0, b"link"), Request(URL))
    worker.batch()
    settle(worker, stored=2)
    enqueue(worker, 1, payload=b"new")
    worker.batch()
    settle(worker, stored=1, membership=Membership.ROLLED_BACK)
    assert [push.payload for push in worker.batch().pushes] == [b"start"]


def test_start_requests_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(outbox.time, "monotonic", lambda: now[0])
    box = outbox.Outbox()
    for number in range(3):
        box.append(outbox.Outgoing(Push("start", str(number), 0, b"x"), Request(URL)))
        box.fill(Batch(number))
        box.applied(Reply(b"1", stored=1))
        now[0] += outbox.KEEP_STARTS - 1
    box.rolled_back()
    box.fill(batch := Batch(9))
    assert [push.fingerprint for push in batch.pushes] == ["1", "2"]


def test_a_failed_request_is_set_aside_when_its_children_are_stored() -> None:
    worker = a_worker()
    hold(worker, 1)
    (request,) = begun_by(worker)
    assert worker.state.mark_failed(request, "its callback raised", "Traceback …")
    enqueue(worker, 1)
    worker.state.finish_all_but(())
    batch = worker.batch()
    assert (batch.finished, batch.failed) == ([], [Failed("1.0", 1, "its callback raised", "Traceback …")])


def test_a_request_that_is_not_leased_cannot_be_set_aside() -> None:
    worker = a_worker()
    request = Request(URL)
    worker.state.begin(request, None)
    assert not worker.state.mark_failed(request, "its callback raised")


def test_a_dropped_lease_is_released_with_its_fingerprint_in_one_batch() -> None:
    worker = a_worker()
    enqueue(worker, 5000)
    worker.state.releases.drop(Lease("1.1", "drop", 0, b"x"), "filter", "fp")
    batch = worker.batch()
    assert (batch.finished, batch.forgotten) == ([Finished("1.1", 0)], [("filter", "fp")])


# -- what was begun, and what cannot be sent ---------------------------------------------------------------


def leases(count: int, deaths: int = 0) -> list[Lease]:
    return [Lease(f"3.{number}", "request", deaths, b"x") for number in range(count)]


def test_a_batch_names_the_lease_begun_last() -> None:
    worker = a_worker()
    first, second, _ = leases(3)
    worker.state.begin(Request(URL), first)
    worker.state.begin(Request(URL), second)
    assert worker.batch().begun == "3.1"


def test_a_suspect_is_begun_only_when_redis_knows_of_it() -> None:
    worker = a_worker()
    (suspect,) = leases(1, deaths=3)
    assert not worker.state.start_reports.is_known(suspect)
    worker.state.start_reports.announce(suspect)
    assert worker.state.has_news
    assert worker.batch().begun == suspect.name
    assert not worker.state.start_reports.is_known(suspect)
    answer(worker)
    assert worker.state.start_reports.is_known(suspect)
    assert not worker.state.has_news


def test_the_end_of_a_request_from_memory_is_news() -> None:
    worker = a_worker()
    request = Request(URL)
    worker.state.begin(request, None)
    worker.state.finish_all_but([request])
    assert not worker.state.has_news
    worker.state.finish_all_but(())
    assert worker.state.has_news
    assert not worker.batch().busy
    answer(worker)
    assert not worker.state.has_news


def test_ready_leases_are_orphans_after_a_loss_of_the_frontier_and_not_after_a_rollback() -> None:
    for lost, orphans in ((("frontier",), 2), ((), 0)):
        worker = a_worker()
        worker.state.ready.extend(leases(2))
        worker.batch()
        reply = Reply(b"1", membership=Membership.ROLLED_BACK, lost=lost)
        assert len(take(worker, reply, 0.001).orphans) == orphans
        assert not worker.state.ready


def sent(worker: Session, attempt: Attempt) -> list[bytes]:
    batch = worker.batch()
    attempt.begin(batch)
    return [push.payload for push in batch.pushes]


def fail_until_nothing_is_pushed(attempt: Attempt) -> None:
    attempt.failed(ConnectionError("cut"), at_once=False)
    assert attempt.is_whole  # an outage: the same again
    attempt.failed(ConnectionError("cut"), at_once=False)
    assert not attempt.is_whole


def test_after_an_outage_the_same_batch_is_answered_whole() -> None:
    worker, attempt = a_worker(), Attempt()
    enqueue(worker, 10)
    sent(worker, attempt)
    fail_until_nothing_is_pushed(attempt)
    # The frontier has had it: the reply was lost.
    outcome = take(worker, attempt.reply_of(Reply(b"1", stored=10)))
    assert len(outcome.stored) == 10
    assert attempt.over(Reply(b"1", stored=10)) == (None, None)


def test_a_batch_that_cannot_be_sent_is_halved_until_the_culprit_is_alone_and_the_rest_goes_through() -> None:
    worker, attempt = a_worker(), Attempt()
    for number in range(64):
        worker.state.enqueue(
            Push("force", "", 0, b"culprit" if number == 37 else b"x"), Request(f"{URL}{number}")
        )
    stored, withdrawn = 0, 0
    for _ in range(100):
        payloads = sent(worker, attempt)
        if b"culprit" in payloads:
            fail_until_nothing_is_pushed(attempt)
            reply = attempt.reply_of(Reply(b"1"))
        else:
            reply = Reply(b"1", stored=len(payloads))
        stored += sum(1 for _ in take(worker, reply).stored)
        if attempt.over(reply)[0]:
            withdrawn += 1
            assert worker.state.outbox.withdraw_first().request.url == f"{URL}37"
        if not len(worker.state.outbox):
            break
    assert (stored, withdrawn) == (63, 1)


def test_a_batch_that_cannot_be_sent_even_once_is_not_sent_again_unchanged() -> None:
    attempt = Attempt()
    attempt.begin(Batch(1, pushes=[Push("force", "", 0, b"x")]))
    attempt.failed(ValueError("not an argument"), at_once=True)
    assert not attempt.is_whole


def test_one_outage_after_the_other_withdraws_nothing() -> None:
    worker, attempt = a_worker(), Attempt()
    for _ in range(5):
        enqueue(worker, 1)
        sent(worker, attempt)
        fail_until_nothing_is_pushed(attempt)
        take(worker, attempt.reply_of(Reply(b"1")))
        assert attempt.over(Reply(b"1")) == (None, None)
        sent(worker, attempt)
        take(worker, attempt.reply_of(Reply(b"1", stored=1)))
        assert attempt.over(Reply(b"1", stored=1)) == (None, None)


def test_a_mark_that_cannot_be_sent_either_is_left_out() -> None:
    worker = a_worker()
    worker.state.enqueue(Push("filter", "fp", 5, b"x"), Request(URL))
    worker.state.outbox.withdraw_first()
    assert worker.batch().pushes == [Push("filter", "fp", 0, b"")]
    take(worker, Reply(b"1", pushes_sent=0))
    worker.state.outbox.withdraw_first()
    assert worker.batch().pushes == [Push("force", "", 0, b"")]


def test_equal_start_requests_are_numbered_and_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start_counts, "MOST", 2)
    counts = start_counts.StartCounts()
    numbers = [(fingerprint, counts.number_of(fingerprint)) for fingerprint in "aabcaabc"]
    assert len(set(numbers)) == len(numbers)
    assert numbers[:2] == [("a", "1"), ("a", "2")]


@pytest.mark.parametrize(
    ("priority", "number"),
    [
        (5, 5),
        (-(2**20), -(2**20)),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        ("ten", 0),
        (None, 0),
        (math.nan, 0),
        (Decimal("1.5"), 1.5),
    ],
)
def test_any_priority_is_a_number_that_redis_takes(priority: Any, number: float) -> None:
    assert rank(priority) == number


def test_several_suspect_seeds_are_sown_when_redis_knows_of_the_last() -> None:
    worker = a_worker()
    first, second = Lease("3.1", "list", 3, b"x"), Lease("3.2", "list", 3, b"x")
    worker.state.expand(first)
    worker.state.expand(second)
    assert not worker.state.start_reports.may_expand(first)
    assert worker.batch().expanded == second.name
    answer(worker)
    assert worker.state.start_reports.may_expand(first)
    assert worker.state.start_reports.may_expand(second)


def test_a_worker_that_closes_has_its_waiting_reports_of_turns_as_news() -> None:
    worker = a_worker()
    worker.state.grants.needed_at = lambda slot: math.inf
    worker.state.grants.sending("a", time.monotonic(), used=True)
    worker.prepare()
    assert not worker.state.has_news
    worker.close(finished=False)
    worker.prepare()
    assert worker.state.has_news
