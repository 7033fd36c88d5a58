"""What a batch is made of when something in it cannot be sent: the trial of requests and items."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from scrapy_rq_sched.frontier.messages import Batch, Finished, ItemGroup, Push
from scrapy_rq_sched.frontier.replies import Lease, Reply
from scrapy_rq_sched.worker import items
from scrapy_rq_sched.worker.attempt import Attempt
from scrapy_rq_sched.worker.session import Session

from .test_worker import URL, a_worker, take

LARGE = b'"large"'


@pytest.fixture
def worker() -> Session:
    return a_worker(items="list")


def begin(worker: Session, name: str) -> Request:
    request = Request(URL)
    worker.state.begin(request, Lease(name, "request", 0, b"x"))
    return request


def scrape(worker: Session, request: Request, *found: Any) -> None:
    for item in found:
        worker.state.items.scraped(item, Response(URL, request=request))


def push(worker: Session, payload: bytes) -> None:
    worker.state.enqueue(Push("force", "", 0, payload), Request(URL))


def is_large(batch: Batch) -> bool:
    """Return whether the batch has anything that this server does not take."""
    rows: Iterable[bytes] = [push.payload for push in batch.pushes]
    return any(
        LARGE in row for row in [*rows, *(item for group in batch.item_groups for item in group.items)]
    )


class Server:
    """A server that takes a batch, unless it has something large."""

    def __init__(
        self,
        worker: Session,
        is_away: Callable[[int], bool] = lambda attempt: False,
        is_full: bool = False,
    ) -> None:
        self._worker = worker
        self._attempt = Attempt()
        self._is_away = is_away
        self._is_full = is_full
        self._attempts = 0
        self.released: list[str] = []
        self.failed: list[str] = []
        self.items: list[bytes] = []
        self.pushes: list[bytes] = []

    def run(self, most: int = 60) -> None:
        """Exchange until the worker is quiet."""
        for _ in range(most):
            if self._worker.state.is_quiet:
                return
            self.exchange()
        raise AssertionError(f"the worker is not quiet after {most} exchanges")

    def exchange(self) -> None:
        batch = self._worker.batch()
        self._attempt.begin(batch)
        for _ in range(20):
            sent = self._attempt.sent
            self._attempts += 1
            if not (is_large(sent) or self._is_away(self._attempts)):
                break
            self._attempt.failed(ConnectionError("closed"), at_once=False)
        stored = len(sent.pushes) if sent.exceed or not self._is_full else 0
        self._take(sent, stored)
        full = "bound" if self._is_full and sent.pushes and not stored else ""
        raw = Reply("1", stored=stored, full=full, items=1 if sent.item_groups else None)
        reply = self._attempt.reply_of(raw)
        take(self._worker, reply)
        self._worker.withdraw(*self._attempt.over(reply), self._attempt.error)

    def _take(self, sent: Batch, stored: int) -> None:
        self.released += [row.lease for row in sent.finished if row.after <= stored]
        self.failed += [row.lease for row in sent.failed]
        self.items += [item for group in sent.item_groups for item in group.items]
        self.pushes += [push.payload for push in sent.pushes[:stored]]


def test_items_that_cannot_be_sent_are_found_and_only_their_page_is_set_aside(worker: Session) -> None:
    requests = [begin(worker, f"1.{number}") for number in range(4)]
    for number, request in enumerate(requests):
        scrape(worker, request, "large" if number == 2 else number)
    worker.state.finish_requests(requests)
    server = Server(worker)
    server.run()
    assert sorted(server.released) == ["1.0", "1.1", "1.3"]
    assert server.failed == ["1.2"]
    assert sorted(server.items) == [b"0", b"1", b"3"]
    assert worker.state.items.size == 0


def test_a_request_that_cannot_be_sent_is_kept_from_redis_though_its_page_has_items(worker: Session) -> None:
    page = begin(worker, "1.1")
    scrape(worker, page, 1)
    push(worker, LARGE)
    worker.state.finish_requests([page])
    server = Server(worker)
    server.run()
    assert (server.released, server.failed, server.items) == (["1.1"], [], [b"1"])
    assert server.pushes == [b""]  # only its fingerprint


def test_items_that_cannot_be_sent_do_not_keep_their_page_s_requests_from_redis(worker: Session) -> None:
    page = begin(worker, "1.1")
    scrape(worker, page, "large")
    push(worker, b"child")
    worker.state.finish_requests([page])
    server = Server(worker)
    server.run()
    assert (server.released, server.failed, server.pushes) == ([], ["1.1"], [b"child"])


def test_a_bad_request_and_bad_items_among_good_ones_are_both_found(worker: Session) -> None:
    pages = [begin(worker, f"1.{number}") for number in range(20)]
    for number, page in enumerate(pages):
        scrape(worker, page, "large" if number == 7 else number)
        push(worker, LARGE if number == 13 else b"child")
    worker.state.finish_requests(pages)
    server = Server(worker)
    server.run(200)
    assert server.failed == ["1.7"]
    assert len(server.released) == 19
    assert server.pushes.count(b"child") == 19


def crawl_on(worker: Session, server: Server, exchanges: int, *children: bytes) -> None:
    """Exchange, with a new page each time, which has an item and leads to requests."""
    for number in range(exchanges):
        page = begin(worker, f"2.{number}")
        scrape(worker, page, f"of page {number}")
        for child in children:
            push(worker, child)
        worker.state.finish_requests([page])
        server.exchange()


def test_a_bad_request_is_found_while_pages_with_items_keep_coming(worker: Session) -> None:
    for _ in range(8):
        push(worker, b"child")
    push(worker, LARGE)
    server = Server(worker)
    crawl_on(worker, server, 40)
    assert server.pushes.count(b"child") == 8
    assert b"" in server.pushes
    assert len(server.items) > 20
    server.run()
    assert server.failed == []


def test_bad_items_are_found_while_pages_with_requests_keep_coming(worker: Session) -> None:
    page = begin(worker, "1.1")
    scrape(worker, page, "large")
    worker.state.finish_requests([page])
    server = Server(worker)
    crawl_on(worker, server, 40, b"child")
    assert server.failed == ["1.1"]
    assert len(server.released) > 20
    server.run()
    assert b"" not in server.pushes


def test_a_large_part_of_a_page_that_is_finished_meanwhile_sets_the_page_aside(
    worker: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "PART_ITEMS", 1)
    page = begin(worker, "1.1")
    scrape(worker, page, 1, "large", 2)
    worker.state.finish_requests([page])
    server = Server(worker)
    server.run()
    assert (server.released, server.failed) == ([], ["1.1"])
    assert worker.state.items.size == 0


def test_items_without_a_lease_that_cannot_be_sent_are_lost_with_a_line(
    worker: Session, caplog: pytest.LogCaptureFixture
) -> None:
    worker.state.items.scraped("large", None)
    worker.state.items.scraped("small", None)
    server = Server(worker)
    server.run()
    assert server.items == [b'"small"']
    assert "7 bytes of 1 item cannot be sent to Redis, and are lost: closed" in caplog.text
    assert worker.state.items.size == 0


def test_a_worker_continues_though_the_queue_is_full_and_one_request_cannot_be_sent() -> None:
    worker = a_worker(items="list", outbox_size=100, max_waiting=10)
    page = begin(worker, "1.1")
    scrape(worker, page, 1)
    for number in range(150):
        push(worker, LARGE if number == 40 else b"child")
    worker.state.finish_requests([page])
    server = Server(worker, is_full=True)
    with pytest.raises(AssertionError, match="not quiet"):
        server.run()  # at last, the outbox is not full any more, and it waits for room
    assert server.pushes.count(b"child") > 40
    assert b"" in server.pushes


def test_outages_alone_set_no_page_aside(worker: Session) -> None:
    page = begin(worker, "1.1")
    scrape(worker, page, 1)
    worker.state.finish_requests([page])
    # Four times, the batch and its part fail, and then the part succeeds.
    server = Server(worker, is_away=lambda attempt: attempt <= 16 and attempt % 4 != 0)
    server.run()
    assert (server.released, server.failed) == (["1.1"], [])


def test_a_batch_without_its_data_finishes_no_page_with_items_and_counts_its_lease(worker: Session) -> None:
    with_items, without = begin(worker, "1.1"), begin(worker, "1.2")
    scrape(worker, with_items, 1)
    worker.state.finish_requests([with_items, without])
    batch = worker.batch()
    part = batch.of_first(0)
    assert [finished.lease for finished in part.finished] == ["1.2"]
    assert part.in_hand == batch.in_hand + 1


def test_items_are_not_sent_again_if_only_the_reply_to_them_was_lost() -> None:
    groups = [ItemGroup((b"1",), mark="item:1"), ItemGroup((b"2",), "1.1")]
    attempt = Attempt()
    attempt.begin(Batch(2, finished=[Finished("1.2")], item_groups=groups))
    for _ in range(2):
        attempt.failed(ConnectionError(), at_once=False)
    reply = Reply("1")
    assert attempt.reply_of(replace(reply, items=2)).items_sent
    assert not attempt.reply_of(reply).items_sent
