"""The items of a worker's pages: kept with their request, sent with its release."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from unittest.mock import Mock

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from twisted.python.failure import Failure

import scrapy_rq_sched
from scrapy_rq_sched.errors import UnserializableItemError
from scrapy_rq_sched.frontier.messages import ItemGroup
from scrapy_rq_sched.frontier.replies import Lease, Membership, Reply
from scrapy_rq_sched.worker import items, outbox
from scrapy_rq_sched.worker.session import Session

from .test_worker import URL, a_worker, take


@pytest.fixture
def worker() -> Session:
    return a_worker(items="list")


def begin(worker: Session, name: str = "1.1") -> Request:
    request = Request(URL)
    worker.state.begin(request, Lease(name, "request", 0, b"x"))
    return request


def scrape(worker: Session, request: Request, *found: Any) -> Any:
    """Let the page of *request* yield items; return what the last one has to wait for."""
    waits = None
    for item in found:
        waits = worker.state.items.scraped(item, Response(URL, request=request))
    return waits


def finish(worker: Session, *requests: Request) -> None:
    worker.state.finish_requests(requests)


def sent(worker: Session) -> list[ItemGroup]:
    return worker.batch().item_groups


def stored(**more: Any) -> Reply:
    return Reply("1", **{"stored": 1000, **more})


def test_items_leave_with_the_release_of_their_page(worker: Session) -> None:
    request = begin(worker)
    scrape(worker, request, {"n": 1}, {"n": 2})
    assert sent(worker) == []
    take(worker, stored())
    finish(worker, request)
    batch = worker.batch()
    assert batch.item_groups == [ItemGroup((b'{"n": 1}', b'{"n": 2}'), "1.1", URL, is_last=True)]
    assert [finished.lease for finished in batch.finished] == ["1.1"]


def test_an_item_names_the_files_that_it_is_for(worker: Session) -> None:
    worker.state.items.choose = lambda item: "4f1d,09a2" if item["n"] == 1 else ""
    request = begin(worker)
    scrape(worker, request, {"n": 1}, {"n": 2})
    take(worker, stored())
    finish(worker, request)
    (group,) = worker.batch().item_groups
    assert group.items == (b'{"n": 1}\n4f1d,09a2', b'{"n": 2}\n')


def test_a_page_of_which_an_item_filter_raises_an_exception_is_set_aside(
    worker: Session, caplog: pytest.LogCaptureFixture
) -> None:
    def choose(item: Any) -> str:
        raise UnserializableItemError("the item_filter of feed 'a.json' has raised KeyError('n')")

    worker.state.items.choose = choose
    request = begin(worker)
    scrape(worker, request, {"m": 1})
    take(worker, stored())
    finish(worker, request)
    batch = worker.batch()
    assert batch.item_groups == []
    assert [failed.lease for failed in batch.failed] == ["1.1"]
    assert "an item cannot be stored: the item_filter of feed 'a.json'" in batch.failed[0].reason
    assert "The page is moved to the failed list" in caplog.text


def test_an_item_of_an_errback_belongs_to_the_request_that_failed(worker: Session) -> None:
    request = begin(worker)
    failure: Any = Failure(ValueError())
    failure.request = request
    worker.state.items.scraped({"n": 1}, failure)
    finish(worker, request)
    assert [group.lease for group in sent(worker)] == ["1.1"]


def test_the_memory_is_free_again_when_items_are_stored(worker: Session) -> None:
    request = begin(worker)
    scrape(worker, request, "x" * 100)
    finish(worker, request)
    assert worker.state.items.size == 102 + items.COST
    sent(worker)
    take(worker, stored())
    assert worker.state.items.size == 0


@pytest.mark.parametrize("reason", ["memory", "bound"])
def test_items_without_room_are_sent_again_with_their_lease(worker: Session, reason: str) -> None:
    request = begin(worker)
    scrape(worker, request, 1)
    finish(worker, request)
    first = worker.batch()
    take(worker, stored(no_items=reason))
    assert worker.state.items.blocked == reason
    second = worker.batch()
    assert second.item_groups == first.item_groups
    assert second.finished == first.finished


def test_a_page_that_is_set_aside_stores_no_items(worker: Session) -> None:
    request = begin(worker)
    scrape(worker, request, 1)
    worker.state.mark_failed(request, "its callback has raised an exception")
    scrape(worker, request, 2)
    finish(worker, request)
    batch = worker.batch()
    assert batch.item_groups == []
    assert [failed.lease for failed in batch.failed] == ["1.1"]
    assert worker.state.items.size == 0


def test_an_item_that_cannot_be_serialized_fails_its_page_and_nothing_else(
    worker: Session, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = begin(worker, "1.1"), begin(worker, "1.2")
    scrape(worker, bad, {"a": 1}, {"b": object()}, {"c": 3})
    scrape(worker, good, {"a": 1})
    finish(worker, bad, good)
    batch = worker.batch()
    assert [group.lease for group in batch.item_groups] == ["1.2"]
    ((lease, _, reason, _),) = batch.failed
    assert lease == "1.1"
    assert reason.startswith("an item cannot be stored: b: ")
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "REDIS_ITEMS_SERIALIZER" in line


def test_many_items_of_a_page_are_sent_before_its_release(
    worker: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "PART_ITEMS", 2)
    request = begin(worker)
    scrape(worker, request, 1, 2, 3)
    assert sent(worker) == [ItemGroup((b"1", b"2"), "1.1", URL)]
    take(worker, stored())
    finish(worker, request)
    assert sent(worker) == [ItemGroup((b"3",), "1.1", URL, is_last=True, before=2)]


def test_a_page_with_parts_has_a_last_group_even_if_no_item_is_left(
    worker: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "PART_ITEMS", 2)
    request = begin(worker)
    scrape(worker, request, 1, 2)
    finish(worker, request)
    assert [(group.items, group.is_last) for group in sent(worker)] == [((b"1", b"2"), False), ((), True)]


def test_a_page_is_not_released_before_all_its_parts_are_sent(
    worker: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "PART_ITEMS", 2)
    monkeypatch.setattr(items, "BATCH_BYTES", 2)
    request = begin(worker)
    scrape(worker, request, 1, 2, 3, 4, 5)
    finish(worker, request)
    batches = []
    for _ in range(3):
        batches.append(worker.batch())
        take(worker, stored())
    assert [[group.items for group in batch.item_groups] for batch in batches] == [
        [(b"1", b"2")],
        [(b"3", b"4"), (b"5",)],
        [],
    ]
    assert [len(batch.finished) for batch in batches] == [0, 1, 0]


async def is_waiting(waits: asyncio.Future[None]) -> bool:
    """Return whether Scrapy still waits for *waits*."""
    for _ in range(5):  # turns of the event loop, which has nothing else to do
        await asyncio.sleep(0)
    return not waits.done()


def test_a_spider_waits_while_there_are_too_many_items(
    worker: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "MOST_BYTES", 2 * (6 + items.COST))
    request = begin(worker)

    async def crawl() -> None:
        assert scrape(worker, request, "1234") is None
        waits = asyncio.ensure_future(scrape(worker, request, "5678"))
        assert await is_waiting(waits)
        assert worker.capacity.is_full
        # What is there is sent before the release: else it would wait for itself.
        assert [group.items for group in sent(worker)] == [(b'"1234"', b'"5678"')]
        take(worker, stored())
        assert not await is_waiting(waits)
        assert not worker.capacity.is_full

    asyncio.run(crawl())


def test_items_of_start_have_the_same_marks_in_each_worker() -> None:
    marks = []
    for worker in (a_worker(items="list"), a_worker(items="list")):
        for item in ("a", "b", "a"):
            worker.state.items.scraped(item, None)
        marks.append([group.mark for group in sent(worker)])
    assert marks[0] == marks[1]
    assert len(set(marks[0])) == 3


def test_recent_items_of_start_are_sent_again_if_redis_comes_back_with_older_data(worker: Session) -> None:
    worker.state.items.scraped("a", None)
    first = sent(worker)
    take(worker, stored())
    take(worker, stored(membership=Membership.ROLLED_BACK))
    assert sent(worker) == first


def test_after_a_rewind_a_page_stores_nothing(worker: Session) -> None:
    before, later = begin(worker, "1.1"), begin(worker, "1.2")
    scrape(worker, before, 1)
    take(worker, stored(membership=Membership.ROLLED_BACK))
    scrape(worker, before, 2)
    scrape(worker, later, 3)
    finish(worker, before, later)
    assert sent(worker) == []
    assert worker.state.items.size == 0


def test_the_size_after_a_rewind_is_that_of_the_items_that_are_kept(worker: Session) -> None:
    leased, local = begin(worker), Request(URL)
    worker.state.begin(local, None)
    scrape(worker, leased, 1)
    scrape(worker, local, 22)
    take(worker, stored(membership=Membership.ROLLED_BACK))
    assert worker.state.items.size == 2 + items.COST
    finish(worker, local)
    sent(worker)
    take(worker, stored())
    assert worker.state.items.size == 0


LOST = {"membership": Membership.ROLLED_BACK, "lost": ("frontier",)}


def test_after_the_loss_of_the_frontier_the_items_of_all_pages_are_stored_without_a_lease(
    worker: Session,
) -> None:
    begun, ended = begin(worker, "1.1"), begin(worker, "1.2")
    scrape(worker, begun, 1)
    scrape(worker, ended, 2)
    finish(worker, ended)
    take(worker, stored(**LOST))
    scrape(worker, begun, 3)
    finish(worker, begun)
    groups = sent(worker)
    assert sorted(group.items for group in groups) == [(b"1", b"3"), (b"2",)]
    assert {group.lease for group in groups} == {""}
    take(worker, stored())
    assert worker.state.items.size == 0


def test_items_that_are_lost_with_the_frontier_are_counted_in_one_line(
    worker: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(items, "PART_ITEMS", 2)
    request = begin(worker)
    scrape(worker, request, 1, 2)
    sent(worker)
    take(worker, stored())
    scrape(worker, request, 3, 4)
    take(worker, stored(**LOST))
    (line,) = [record.getMessage() for record in caplog.records if record.name == items.__name__]
    assert line.startswith("2 items of pages that are not finished were in Redis")
    assert [group.items for group in sent(worker)] == [(b"3", b"4")]


def test_items_of_a_large_page_in_this_worker_s_memory_do_not_wait_for_its_end(
    worker: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "MOST_BYTES", 2 * (6 + items.COST))
    request = Request(URL)
    worker.state.begin(request, None)

    async def crawl() -> None:
        waits = asyncio.ensure_future(scrape(worker, request, "1234", "5678"))
        assert sent(worker) == [ItemGroup((b'"1234"', b'"5678"'), url=URL)]
        take(worker, stored())
        assert not await is_waiting(waits)

    asyncio.run(crawl())


def test_a_stop_does_not_wait_for_room_for_items_for_longer_than_its_patience(
    worker: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "MOST_BYTES", 2 * (6 + items.COST))
    request = begin(worker)

    async def crawl() -> None:
        waits = asyncio.ensure_future(scrape(worker, request, "1234", "5678"))
        worker.state.items.closing(patience=60)
        assert await is_waiting(waits)
        worker.state.items.closing(patience=0)
        assert not await is_waiting(waits)
        assert scrape(worker, request, "1234") is None

    asyncio.run(crawl())


def test_a_page_is_set_aside_if_its_fingerprint_cannot_be_made(worker: Session) -> None:
    worker.state.items.identify = Mock(side_effect=ValueError("no fingerprint"))
    request = begin(worker)
    scrape(worker, request, 1)
    finish(worker, request)
    batch = worker.batch()
    assert batch.item_groups == []
    assert "no fingerprint" in batch.failed[0].reason
    assert worker.state.items.size == 0


def test_a_middleware_that_changes_a_request_does_not_change_the_identity_of_its_items(
    worker: Session,
) -> None:
    worker.state.items.identify = lambda request, lease: request.url
    request = begin(worker)
    request._set_url("http://example.com/changed")
    scrape(worker, request, 1)
    finish(worker, request)
    assert [group.page for group in sent(worker)] == [URL]


def test_many_small_items_of_start_fill_the_memory(worker: Session) -> None:
    for number in range(100):
        worker.state.items.scraped(number, None)
    assert worker.state.items.size > 100 * items.GROUP_COST


def test_a_limited_number_of_items_of_start_is_kept_after_they_were_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(items, "MOST_STARTS", 3)
    worker = a_worker(items="list")
    for number in range(5):
        worker.state.items.scraped(number, None)
    sent(worker)
    take(worker, stored())
    take(worker, stored(membership=Membership.ROLLED_BACK))
    assert [group.items for group in sent(worker)] == [(b"2",), (b"3",), (b"4",)]


def test_an_item_that_cannot_be_stored_fails_both_pages_of_one_request_object(worker: Session) -> None:
    request = begin(worker, "1.1")
    scrape(worker, request, 1)
    worker.state.begin(request, Lease("1.2", "request", 0, b"y"))
    scrape(worker, request, object())
    finish(worker, request)
    batch = worker.batch()
    assert sorted(failed.lease for failed in batch.failed) == ["1.1", "1.2"]
    assert batch.item_groups == []


def test_an_exchange_carries_a_limited_number_of_items(
    worker: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "BATCH_ITEMS", 3)
    requests = [begin(worker, f"1.{number}") for number in range(3)]
    for request in requests:
        scrape(worker, request, 1, 2)
    finish(worker, *requests)
    assert [len(group.items) for group in sent(worker)] == [2]


def test_a_full_outbox_and_full_items_together_stand_still() -> None:
    worker = a_worker(items="list", outbox_size=1)
    begin(worker)
    worker.state.outbox.blocked = True
    assert not worker.admission.stands_still
    worker.state.items.size = items.MOST_BYTES
    assert worker.admission.stands_still


def test_items_of_a_page_in_this_worker_s_memory_are_stored_when_it_is_finished(worker: Session) -> None:
    request = Request(URL)
    worker.state.begin(request, None)
    scrape(worker, request, 1)
    assert sent(worker) == []
    finish(worker, request)
    assert sent(worker) == [ItemGroup((b"1",), url=URL)]


def test_an_item_of_a_response_that_does_not_come_from_the_frontier_is_stored(worker: Session) -> None:
    worker.state.items.scraped(1, Response(URL))
    assert sent(worker) == [ItemGroup((b"1",), url=URL)]


def test_a_worker_with_unsent_items_is_not_quiet(worker: Session) -> None:
    worker.state.items.scraped(1, None)
    assert not worker.state.is_quiet
    sent(worker)
    assert not worker.state.is_quiet
    take(worker, stored())
    assert worker.state.is_quiet


def test_the_identity_of_a_filtered_request_does_not_depend_on_its_way() -> None:
    identity = items.PageIdentity(lambda request: request.url, filters=True)
    one = identity(Request(URL, meta={"depth": 1}), Lease("1.1", "request", 0, b"x"))
    assert one == identity(Request(URL, meta={"depth": 2}), Lease("2.1", "request", 0, b"y"))
    assert one != identity(Request(f"{URL}2"), Lease("1.1", "request", 0, b"x"))


def test_where_the_frontier_does_not_filter_two_requests_with_one_fingerprint_have_two_identities() -> None:
    identity = items.PageIdentity(lambda request: request.url, filters=False)
    one, other = (identity(Request(URL), Lease("1.1", "request", 0, entry)) for entry in (b"x", b"y"))
    assert one != other


def test_two_unfiltered_requests_with_one_fingerprint_have_two_identities() -> None:
    identity = items.PageIdentity(lambda request: request.url, filters=True)
    request = Request(URL, dont_filter=True)
    one, other = (identity(request, Lease("1.1", "request", 0, entry)) for entry in (b"x", b"y"))
    assert one != other


@pytest.mark.parametrize("queue", ["PriorityQueue", "FifoQueue", "LifoQueue"])
def test_two_equal_unfiltered_requests_have_different_entries_in_every_queue(queue: str) -> None:
    made = getattr(scrapy_rq_sched, queue)(Mock(), Spider("s"), "s:requests")
    request = Request(URL, dont_filter=True)
    assert made.encode_request(request, unique=True) != made.encode_request(request, unique=True)
