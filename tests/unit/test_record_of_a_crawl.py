"""What a worker tells Redis of its crawl: the sums of Scrapy's statistics."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from scrapy import Request
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.frontier.messages import Batch
from scrapy_rq_sched.worker.record import Record, own_stats, sums_of

TYPES = "downloader/exception_type_count"


def test_the_exceptions_of_downloads_are_counted_by_kind() -> None:
    stats = {
        f"{TYPES}/scrapy.exceptions.CannotResolveHostError": 3,
        f"{TYPES}/twisted.internet.error.DNSLookupError": 1,
        f"{TYPES}/scrapy.exceptions.DownloadConnectionRefusedError": 2,
        f"{TYPES}/twisted.internet.error.TCPTimedOutError": 4,
        f"{TYPES}/twisted.web._newclient.ResponseNeverReceived": 5,
        f"{TYPES}/scrapy.exceptions.IgnoreRequest": 6,
        f"{TYPES}/builtins.ValueError": 7,
    }
    assert sums_of(stats) == {"no_address": 4, "refused": 2, "timeouts": 4, "lost": 5, "ignored": 6}


def test_statistics_of_any_name_and_value_are_no_error() -> None:
    stats: dict[Any, Any] = {404: 1, None: 2, "log_count/ERROR": None, "retry/count": "3 of 4"}
    stats |= {"downloader/response_count": float("nan"), "downloader/response_status_count/200": [1]}
    record = Record(Mock(), 0, False)
    record.stats = Mock(spec=["own_stats"], own_stats=stats)
    batch = Batch(1)
    record.fill(batch)
    assert (batch.errors, batch.counts) == (0, "")


@pytest.mark.parametrize("ends_with", [None, 200])
def test_downloads_of_robots_txt_and_their_retries_do_not_count(ends_with: int | None) -> None:
    requests = Mock()
    requests.find.return_value = None
    record = Record(requests, 0, False)
    # A page, and a robots.txt that is tried three times.
    stats = {
        "downloader/request_count": 4,
        "downloader/response_count": 1 + (ends_with is not None),
        "downloader/response_status_count/200": 1 + (ends_with is not None),
        "downloader/exception_count": 3 - (ends_with is not None),
        f"{TYPES}/twisted.internet.error.TCPTimedOutError": 3 - (ends_with is not None),
        "retry/count": 2,
        "robotstxt/request_count": 1,
    }
    record.stats = Mock(spec=["own_stats"], own_stats=stats)
    for attempt in range(3):
        request = Request("http://a.test/robots.txt", meta={"retry_times": attempt} if attempt else {})
        if attempt == 2 and ends_with is not None:
            record.downloaded(request, ends_with, "a.test", 0.1)
        else:
            record.raised(request, TimeoutError())
    batch = Batch(1)
    record.fill(batch)
    sums = dict(part.split("=") for part in batch.counts.split())
    counts = {name: int(count) for name, count in sums.items() if count != "0"}
    assert counts == {"requests": 1, "responses": 1, "200": 1}


def test_a_collector_that_may_ask_a_server_is_not_asked() -> None:
    class Remote(StatsCollector):
        def get_stats(self, spider: Any = None) -> dict[str, Any]:
            raise AssertionError("this would wait for a server")

    assert own_stats(Remote(get_crawler())) == {}
    local = StatsCollector(get_crawler())
    local.inc_value("retry/count")
    assert own_stats(local) == {"retry/count": 1}
