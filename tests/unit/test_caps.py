"""Which requests a worker counts as pages of their own, and what it does with one above a cap."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request

from scrapy_rq_sched.frontier.replies import Lease, Reply
from scrapy_rq_sched.worker.session import Session

from .test_worker import a_worker

PAGE = "http://a.test/1"


@pytest.fixture
def worker() -> Session:
    """Return a worker that is at work on a page."""
    worker = a_worker()
    worker.state.begin(Request(PAGE), Lease("1.1", "request", 0, b"", "a.test"), "a.test")
    return worker


def continues(worker: Session, url: str, dont_filter: bool = False, **meta: Any) -> str:
    worker.send(Request(url, meta=meta, dont_filter=dont_filter))
    return worker.batch().pushes[-1].continues


def test_a_link_is_a_page_of_its_own(worker: Session) -> None:
    assert continues(worker, "http://a.test/2") == ""


def test_a_retry_continues_its_page(worker: Session) -> None:
    assert continues(worker, PAGE, dont_filter=True, retry_times=1) == "page"


def test_the_target_of_a_redirect_continues_its_page(worker: Session) -> None:
    assert continues(worker, "http://a.test/2", redirect_urls=["http://a.test/0", PAGE]) == "page"


def test_the_target_of_a_redirect_to_another_slot_continues_only_the_crawl(worker: Session) -> None:
    assert continues(worker, "http://b.test/1", redirect_urls=[PAGE]) == "crawl"


@pytest.mark.parametrize(
    "meta", [{"retry_times": 1}, {"redirect_urls": ["http://a.test/0"], "redirect_times": 1}]
)
def test_a_link_with_a_copy_of_the_meta_of_its_page_is_a_page_of_its_own(
    worker: Session, meta: dict[str, Any]
) -> None:
    assert continues(worker, "http://a.test/2", **meta) == ""


def test_a_request_above_a_cap_is_dropped_and_may_be_found_again(worker: Session) -> None:
    request = Request("http://a.test/2")
    assert worker.send(request)
    assert not worker.send(request)
    worker.batch()
    worker.take_reply(Reply("1", stored=1, duplicates=(0,), capped=frozenset({0})), 0.001)
    assert worker.dropped == [request]
    assert worker.send(request)


def test_a_request_that_is_queued_again_is_no_further_page() -> None:
    worker = a_worker()
    payload = worker.queue.encode_request(Request(PAGE), unique=False)
    worker._intake.adopt(Lease("1.1", "request", 0, payload, "a.test"))
    worker._intake.adopt(Lease("1.2", "request", 0, b"rubbish", "a.test"))
    worker._intake.return_to_queue(Request(PAGE))
    assert [push.continues for push in worker.batch().pushes] == ["page"] * 3
