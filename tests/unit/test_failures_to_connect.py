"""Which failures of a download tell that a site cannot be reached, in all versions of Scrapy."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from scrapy import Request, exceptions
from twisted.internet import defer, error
from twisted.web.client import ResponseNeverReceived

from scrapy_rq_sched.engine.answers import Answers, Failure

#: Scrapy has its own exceptions since 2.15.
OF_SCRAPY = {
    name: getattr(exceptions, name)
    for name in (
        *("CannotResolveHostError", "DownloadConnectionRefusedError"),
        *("DownloadTimeoutError", "DownloadFailedError"),
    )
    if hasattr(exceptions, name)
}


#: When the downloader was given the request.
SENT = 123.0


@pytest.fixture
def heard() -> list[Failure]:
    return []


@pytest.fixture
def answers(heard: list[Failure]) -> Answers:
    return Answers(MagicMock(), lambda request: SENT, Mock(), heard.append)


def fail(answers: Answers, exception: Exception, **meta: Any) -> None:
    request = Request("http://a.test/1", meta={"download_slot": "a.test", **meta})
    assert answers._failed(request, exception, spider=None) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("exception", "is_of_site"),
    [
        (error.ConnectionRefusedError(), True),
        (error.TCPTimedOutError(), True),
        (error.DNSLookupError(), True),
        (error.TimeoutError("Getting it took longer than 180 s"), False),
        (defer.TimeoutError(), False),
        (ResponseNeverReceived([]), False),
        *((OF_SCRAPY[name]("why"), "Resolve" in name or "Refused" in name) for name in OF_SCRAPY),
    ],
)
def test_a_slow_page_is_told_from_a_site_without_a_connection(
    answers: Answers, heard: list[Failure], exception: Exception, is_of_site: bool
) -> None:
    fail(answers, exception)
    (failure,) = heard
    assert (failure.slot, failure.url, failure.is_of_site) == ("a.test", "http://a.test/1", is_of_site)
    assert failure.sent == SENT
    assert type(exception).__name__ in failure.reason


@pytest.mark.parametrize(
    ("exception", "meta"),
    [
        (ValueError("in a middleware"), {}),
        (exceptions.IgnoreRequest(), {}),
        (error.ConnectionRefusedError(), {"proxy": "http://proxy.test"}),
        (error.ConnectionRefusedError(), {"download_slot": None}),
    ],
)
def test_other_failures_do_not_concern_the_site(
    answers: Answers, heard: list[Failure], exception: Exception, meta: dict[str, Any]
) -> None:
    fail(answers, exception, **meta)
    assert heard == []


def test_the_reason_is_one_short_line(answers: Answers, heard: list[Failure]) -> None:
    fail(answers, error.ConnectError(string="a\nb" * 200))
    assert "\n" not in heard[0].reason
    assert len(heard[0].reason) <= 120
