"""What a worker tells Redis of its crawl: the sums of Scrapy's statistics."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

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


def test_a_collector_that_may_ask_a_server_is_not_asked() -> None:
    class Remote(StatsCollector):
        def get_stats(self, spider: Any = None) -> dict[str, Any]:
            raise AssertionError("this would wait for a server")

    assert own_stats(Remote(get_crawler())) == {}
    local = StatsCollector(get_crawler())
    local.inc_value("retry/count")
    assert own_stats(local) == {"retry/count": 1}
