"""Which requests a worker counts as pages of their own, and what it does with one above a cap."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

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


def middleware(worker: Session) -> list[Request]:
    """Let no page be with the spider but those in the list that is returned."""
    scraping: list[Request] = []
    engine = Mock(is_scraping=scraping.__contains__, is_start_request=lambda request: False)
    worker._intake._engine = engine
    return scraping


def continues(worker: Session, url: str, dont_filter: bool = False, **meta: Any) -> str:
    worker.send(Request(url, meta=meta, dont_filter=dont_filter))
    return worker.batch().pushes[-1].continues


def test_a_link_is_a_page_of_its_own(worker: Session) -> None:
    assert continues(worker, "http://a.test/2") == ""


def test_a_retry_continues_its_page(worker: Session) -> None:
    assert continues(worker, PAGE, dont_filter=True, retry_times=1) == "page"


def test_the_target_of_a_redirect_continues_its_page(worker: Session) -> None:
    middleware(worker)
    assert continues(worker, "http://a.test/2", redirect_urls=["http://a.test/0", PAGE]) == "page"


def test_the_target_of_a_redirect_to_another_slot_continues_only_the_crawl(worker: Session) -> None:
    middleware(worker)
    assert continues(worker, "http://b.test/1", redirect_urls=[PAGE]) == "crawl"


def test_a_request_that_a_middleware_sends_again_continues_its_page(worker: Session) -> None:
    scraping = middleware(worker)
    assert continues(worker, PAGE, dont_filter=True) == "page"
    scraping.extend(entry.request for entry in worker.state.requests)
    assert continues(worker, PAGE, dont_filter=True) == ""
    assert continues(worker, PAGE, dont_filter=True, retry_times=1) == "page"


def test_a_page_that_was_retried_and_asks_for_itself_again_is_a_page_of_its_own(worker: Session) -> None:
    retried = Request(PAGE, meta={"retry_times": 1}, dont_filter=True)
    worker.state.begin(retried, Lease("1.2", "request", 0, b"", "a.test"), "a.test")
    worker.state.finish_all_but([retried])
    assert continues(worker, PAGE, dont_filter=True, retry_times=1) == ""
    assert continues(worker, PAGE, dont_filter=True, retry_times=2) == "page"


def test_a_form_of_the_same_url_is_a_page_of_its_own(worker: Session) -> None:
    worker.send(Request(PAGE, method="POST", body=b"x", dont_filter=True, meta={"retry_times": 1}))
    assert worker.batch().pushes[-1].continues == ""


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
