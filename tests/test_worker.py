"""The local side: what is said in which batch, and how much is begun."""

from __future__ import annotations

from scrapy import Request

from scrapy_rq_sched.frontier import Finished, Lease, Push, Reply
from scrapy_rq_sched.outbox import BATCH_PUSHES
from scrapy_rq_sched.settings import FrontierSettings
from scrapy_rq_sched.worker import Worker

URL = "http://example.com/"


def a_worker(**settings: object) -> Worker:
    return Worker(FrontierSettings(**settings))  # type: ignore[arg-type]


def enqueue(worker: Worker, count: int, payload: bytes = b"x") -> None:
    for _ in range(count):
        worker.enqueue(Push("force", "", 0, payload), Request(URL))


def hold(worker: Worker, count: int) -> None:
    for number in range(count):
        worker.hold(Request(URL), Lease(f"1.{number}", "request", 0, b"x"))


def answer(worker: Worker, leases: int = 0, latency: float = 0.001, stored: int = BATCH_PUSHES) -> None:
    names = [Lease(f"2.{number}", "request", 0, b"x") for number in range(leases)]
    reply = Reply(b"1", stored=stored, leases=names)
    worker.settle(reply, latency)
    worker.ready.extend(names)


def test_a_lease_is_released_with_the_last_of_its_children_not_before() -> None:
    worker = a_worker()
    hold(worker, 1)
    enqueue(worker, BATCH_PUSHES + 1)
    worker.finish_all_but(())
    assert worker.batch(0, False).finished == []
    answer(worker)
    assert worker.batch(0, False).finished == [Finished("1.0", 1)]


def test_a_lease_is_released_though_the_outbox_is_never_empty() -> None:
    worker = a_worker()
    hold(worker, 1)
    worker.finish_all_but(())
    enqueue(worker, 3 * BATCH_PUSHES)
    assert worker.batch(0, False).finished == [Finished("1.0", 0)]


def test_a_worker_with_more_to_push_than_a_batch_holds_is_busy() -> None:
    worker = a_worker()
    enqueue(worker, BATCH_PUSHES + 1)
    assert worker.batch(0, False).busy
    answer(worker)
    assert not worker.batch(0, False).busy


def test_a_worker_that_is_about_to_have_a_request_in_memory_is_busy() -> None:
    worker = a_worker()
    enqueue(worker, 1, payload=b"")
    assert worker.batch(0, False).busy


def test_what_is_begun_and_not_released_is_bounded_by_the_concurrent_requests() -> None:
    worker = a_worker(concurrency=4)
    hold(worker, 4)
    answer(worker, leases=4)
    assert not worker.may_begin
    worker.finish_all_but(())
    assert not worker.may_begin
    worker.batch(0, False)
    assert not worker.may_begin
    answer(worker)
    assert worker.may_begin


def test_a_release_is_not_waited_for_where_redis_is_far() -> None:
    worker = a_worker(concurrency=4)
    answer(worker, latency=0.02)
    hold(worker, 4)
    worker.finish_all_but(())
    assert worker.may_begin


def test_a_release_is_not_waited_for_while_redis_is_away() -> None:
    worker = a_worker(concurrency=4)
    answer(worker)
    hold(worker, 4)
    worker.finish_all_but(())
    worker.cut_off = True
    assert worker.may_begin


def test_the_outbox_has_a_bound_beyond_which_nothing_is_begun() -> None:
    worker = a_worker(outbox_size=10)
    enqueue(worker, 10)
    assert worker.is_full
    assert worker.batch(16, False).want == 16
    answer(worker)
    enqueue(worker, 5000)
    assert worker.batch(16, False).want == 0


def test_a_reason_that_cannot_be_sent_is_made_one_that_can() -> None:
    worker = a_worker()
    worker.fail(Lease("1.1", "list", 0, b"x"), "half a character: \ud800")
    ((_, _, reason, _),) = worker.batch(0, False).failed
    assert reason == "half a character: \\ud800"


def test_what_is_forgotten_with_the_memory_is_said() -> None:
    worker = a_worker()
    worker.enqueue(Push("filter", "fp", 0, b""), Request(URL))
    worker.batch(0, False)
    reply = Reply(b"1", stored=1)
    worker.memory.extend(worker.settle(reply, 0.001).kept)
    assert worker.forget_memory() == 1
    assert worker.batch(0, False).forgotten == [("filter", "fp")]
