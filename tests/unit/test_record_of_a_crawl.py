"""What a worker tells Redis of its crawl: the sums of Scrapy's statistics."""

from __future__ import annotations

from scrapy_rq_sched.worker.record import sums_of

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
