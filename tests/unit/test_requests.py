"""The ledger of a worker: where each request is, and what its end means."""

from __future__ import annotations

import pytest
from scrapy import Request

from scrapy_rq_sched.frontier.messages import Batch
from scrapy_rq_sched.frontier.replies import Lease
from scrapy_rq_sched.settings import FrontierSettings
from scrapy_rq_sched.worker.requests import Entry, Requests
from scrapy_rq_sched.worker.state import State

URL = "http://example.com"


@pytest.fixture
def state() -> State:
    return State(FrontierSettings())


def begin(state: State, has_grant: bool = True) -> Request:
    request = Request(URL)
    state.begin(request, Lease("1.1", "request", 0, b"x", "a"), "a", has_grant)
    return request


def news_of(state: State) -> Batch:
    batch = Batch(1)
    state.grants.fill(batch)
    return batch


def test_a_grant_is_unused_if_its_request_ends_without_reaching_the_downloader(state: State) -> None:
    request = begin(state)
    state.finish_all_but([request])
    assert not state.grants.has_news
    state.finish_all_but([])
    batch = news_of(state)
    assert (batch.grants["a"].used, batch.grants["a"].unused, batch.downloaded) == (1, 1, {"a": 1})


def test_a_download_is_over_once(state: State) -> None:
    request = begin(state)
    state.reached_downloader(request, "", 5.0)
    state.left_downloader(request, "a")
    state.left_downloader(request, "a")
    state.finish_all_but([])
    assert news_of(state).downloaded == {"a": 1}


def test_a_download_is_over_at_the_latest_with_its_request(state: State) -> None:
    request = begin(state)
    state.reached_downloader(request, "", 5.0)
    state.finish_all_but([])
    assert news_of(state).downloaded == {"a": 1}


def test_a_download_that_redis_does_not_count_is_not_reported(state: State) -> None:
    request, other = begin(state), begin(state)
    state.reached_downloader(request, "", 5.0)
    state.requests.uncount(["b"])
    state.requests.uncount(["a"])
    later = begin(state)
    for one in (other, later):
        state.reached_downloader(one, "", 5.0)
    for one in (request, other, later):
        state.left_downloader(one, "a")
    assert news_of(state).downloaded == {"a": 1}


def test_a_request_without_a_grant_has_no_download_to_report(state: State) -> None:
    request = begin(state, has_grant=False)
    state.reached_downloader(request, "", 5.0)
    state.finish_all_but([])
    assert news_of(state).downloaded == {}


def test_the_grants_that_the_frontier_has_forgotten_are_not_reported(state: State) -> None:
    request = begin(state)
    state.give_back(known=False)
    state.reached_downloader(request, "", 5.0)
    state.finish_all_but([])
    assert not state.grants.has_news


def test_a_request_that_its_own_callback_yields_again_keeps_its_lease_until_both_end(state: State) -> None:
    request = begin(state)
    state.reached_downloader(request, "", 5.0)
    state.begin(request, None, "a")
    assert (len(state.requests), state.requests.leased, state.requests.local) == (2, 1, 1)
    assert state.mark_failed(request, "it raised")
    state.finish_all_but([request])
    assert not state.releases.has_news
    state.finish_requests([request])
    assert len(state.requests) == state.requests.leased == state.requests.coming("a") == 0
    batch = Batch(1)
    state.releases.fill(batch)
    assert [failed.lease for failed in batch.failed] == ["1.1"]
    assert news_of(state).downloaded == {"a": 1}


def test_a_slot_has_no_coming_requests_when_they_have_reached_the_downloader_or_are_finished() -> None:
    ledger, requests = Requests(), [Request(URL) for _ in range(3)]
    for request in requests:
        ledger.begin(Entry(request, None, "a"))
    ledger.reached(requests[0])
    ledger.reached(requests[0])
    assert ledger.coming("a") == 2
    ledger.sync(requests[:2])
    assert ledger.coming("a") == 1


def test_requests_without_their_leases_are_local_and_continue() -> None:
    ledger, request = Requests(), Request(URL)
    ledger.begin(Entry(request, Lease("1.1", "request", 0, b"x")))
    assert [lease.name for lease in ledger.let_go()] == ["1.1"]
    assert (len(ledger), ledger.leased, ledger.local) == (1, 0, 1)
    assert not ledger.mark_failed(request, "it raised", "")
