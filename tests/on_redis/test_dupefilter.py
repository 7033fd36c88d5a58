"""The dupefilter by itself, and under Scrapy's own scheduler."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from scrapy import Request, Spider
from scrapy.core.scheduler import Scheduler as ScrapysScheduler
from scrapy.crawler import Crawler
from scrapy.utils.request import fingerprint
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import RFPDupeFilter
from scrapy_rq_sched.errors import SettingError

from ..unit.test_request import PagesSpider

URL = "http://example.com/"


class ByHost:
    """A fingerprinter of the project: one page a host."""

    def fingerprint(self, request: Request) -> bytes:
        return request.url.split("/")[2].encode()


def crawler_with(**settings: Any) -> Crawler:
    return get_crawler(PagesSpider, settings)


# -- what is seen ------------------------------------------------------------------------------------


def test_a_request_is_seen_from_the_second_time_on(fake: Any) -> None:
    dupefilter = RFPDupeFilter(fake, "seen")
    assert [dupefilter.request_seen(Request(URL)) for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize(
    ("one", "other", "seen"),
    [
        (Request(f"{URL}?a=1&b=2"), Request(f"{URL}?b=2&a=1"), True),
        (Request(URL), Request(f"{URL}#part"), True),
        (Request(URL), Request(URL, headers={"Accept": "text/html"}), True),
        (Request(URL), Request(f"{URL}2"), False),
        (Request(URL), Request(URL, method="POST"), False),
        (Request(URL, method="POST", body="a"), Request(URL, method="POST", body="b"), False),
    ],
    ids=["order of arguments", "fragment", "headers", "url", "method", "body"],
)
def test_requests_are_duplicates_if_scrapy_says_so(
    fake: Any, one: Request, other: Request, seen: bool
) -> None:
    dupefilter = RFPDupeFilter(fake, "seen")
    dupefilter.request_seen(one)
    assert dupefilter.request_seen(other) is seen


def test_filters_with_the_same_key_share_their_fingerprints(fake: Any) -> None:
    RFPDupeFilter(fake, "seen").request_seen(Request(URL))
    assert RFPDupeFilter(fake, "seen").request_seen(Request(URL)) is True


def test_filters_with_two_keys_have_nothing_in_common(fake: Any) -> None:
    RFPDupeFilter(fake, "seen").request_seen(Request(URL))
    assert RFPDupeFilter(fake, "others").request_seen(Request(URL)) is False


def test_a_fingerprint_is_scrapys_in_hexadecimal(fake: Any) -> None:
    request = Request(URL, method="POST", body=b"\x00")
    assert RFPDupeFilter(fake, "seen").request_fingerprint(request) == fingerprint(request).hex()


def test_fingerprints_are_kept_in_a_set(fake: Any) -> None:
    RFPDupeFilter(fake, "seen").request_seen(Request(URL))
    assert fake.smembers("seen") == {fingerprint(Request(URL)).hex().encode()}


def test_a_fingerprinter_that_is_given_is_used(fake: Any) -> None:
    dupefilter = RFPDupeFilter(fake, "seen", fingerprinter=ByHost())
    dupefilter.request_seen(Request(URL))
    assert dupefilter.request_seen(Request(f"{URL}another/page")) is True


def test_clear_forgets_all_fingerprints_and_leaves_no_key(fake: Any) -> None:
    dupefilter = RFPDupeFilter(fake, "seen")
    dupefilter.request_seen(Request(URL))
    dupefilter.clear()
    assert fake.exists("seen") == 0
    assert dupefilter.request_seen(Request(URL)) is False


def test_of_several_workers_that_ask_at_once_one_is_first(server: redis.Redis) -> None:
    barrier = threading.Barrier(4)

    def ask() -> list[str]:
        dupefilter = RFPDupeFilter(server, "seen")
        barrier.wait(10)
        urls = [f"{URL}{number}" for number in range(100)]
        return [url for url in urls if not dupefilter.request_seen(Request(url))]

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask) for _ in range(4)]
        first = Counter(url for future in asked for url in future.result(timeout=30))
    assert first == Counter(f"{URL}{number}" for number in range(100))


# -- from a crawler's settings -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({}, "pages:dupefilter"),
        ({"SCHEDULER_DUPEFILTER_KEY": "seen:%(spider)s"}, "seen:pages"),
        ({"SCHEDULER_DUPEFILTER_KEY": "seen"}, "seen"),
    ],
)
def test_a_crawlers_filter_has_the_key_of_its_spider(settings: dict[str, Any], key: str) -> None:
    assert RFPDupeFilter.from_crawler(crawler_with(**settings)).key == key


def test_a_crawlers_filter_has_the_name_that_the_spider_was_given() -> None:
    crawler = crawler_with()
    crawler.spider = PagesSpider.from_crawler(crawler, name="renamed")
    assert RFPDupeFilter.from_crawler(crawler).key == "renamed:dupefilter"


def test_a_crawlers_filter_uses_the_fingerprinter_of_the_crawler() -> None:
    crawler = crawler_with(REQUEST_FINGERPRINTER_CLASS=ByHost)
    dupefilter = RFPDupeFilter.from_crawler(crawler)
    assert dupefilter.request_fingerprint(Request(URL)) == b"example.com".hex()


@pytest.mark.parametrize("debug", [True, False])
def test_a_crawlers_filter_is_as_talkative_as_scrapys_setting_says(debug: bool) -> None:
    assert RFPDupeFilter.from_crawler(crawler_with(DUPEFILTER_DEBUG=debug)).debug is debug


def test_a_crawlers_filter_is_on_the_redis_of_the_settings(server: redis.Redis, redis_url: str) -> None:
    RFPDupeFilter.from_crawler(crawler_with(REDIS_URL=redis_url)).request_seen(Request(URL))
    assert server.scard("pages:dupefilter") == 1


def test_a_bad_key_is_refused_with_the_name_of_the_setting() -> None:
    with pytest.raises(SettingError, match=r"SCHEDULER_DUPEFILTER_KEY must be .*, not '%\(worker\)s'"):
        RFPDupeFilter.from_crawler(crawler_with(SCHEDULER_DUPEFILTER_KEY="%(worker)s"))


@pytest.mark.single("all of its keys")
def test_a_filter_from_settings_alone_has_a_key_of_its_own(server: redis.Redis, redis_url: str) -> None:
    dupefilter = RFPDupeFilter.from_settings(crawler_with(REDIS_URL=redis_url).settings)
    dupefilter.request_seen(Request(URL))
    (key,) = server.keys()
    assert key.decode().startswith("dupefilter:")


def test_scrapys_own_scheduler_filters_by_it(server: redis.Redis, redis_url: str) -> None:
    crawler = crawler_with(
        REDIS_URL=redis_url,
        DUPEFILTER_CLASS="scrapy_rq_sched.RFPDupeFilter",
        SCHEDULER_PRIORITY_QUEUE="scrapy.pqueues.ScrapyPriorityQueue",
    )
    crawler.spider = PagesSpider.from_crawler(crawler)
    scheduler = ScrapysScheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    requests = [Request(URL), Request(URL), Request(URL, dont_filter=True), Request(f"{URL}2")]
    assert [scheduler.enqueue_request(request) for request in requests] == [True, False, True, True]
    assert crawler.stats is not None
    assert crawler.stats.get_value("dupefilter/filtered") == 1


# -- what is said ------------------------------------------------------------------------------------


def log_three(debug: bool) -> Crawler:
    crawler = crawler_with()
    dupefilter = RFPDupeFilter(None, "seen", debug)
    spider = PagesSpider.from_crawler(crawler)
    for number in range(3):
        request = Request(f"{URL}{number}", headers={"Referer": "http://example.com/from"})
        dupefilter.log(request, spider)
    return crawler


@pytest.mark.parametrize("debug", [True, False])
def test_every_duplicate_is_counted(debug: bool) -> None:
    stats = log_three(debug).stats
    assert stats is not None
    assert stats.get_value("dupefilter/filtered") == 3


def test_the_first_duplicate_is_logged_with_how_to_see_all(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "scrapy_rq_sched.dupefilter"):
        log_three(debug=False)
    (message,) = caplog.messages
    assert "<GET http://example.com/0>" in message
    assert "DUPEFILTER_DEBUG" in message


def test_every_duplicate_is_logged_with_its_referer_if_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "scrapy_rq_sched.dupefilter"):
        log_three(debug=True)
    assert caplog.messages == [
        f"Filtered duplicate request: <GET {URL}{number}> (referer: http://example.com/from)"
        for number in range(3)
    ]


def test_a_logged_duplicate_names_its_spider(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "scrapy_rq_sched.dupefilter"):
        log_three(debug=False)
    assert [record.__dict__["spider"].name for record in caplog.records] == ["pages"]


def test_a_filter_is_made_for_a_spider_class_without_a_name(redis_url: str) -> None:
    class Nameless(Spider):
        """Its name is an argument."""

    made = RFPDupeFilter.from_crawler(get_crawler(Nameless, {"REDIS_URL": redis_url}))
    assert made.key.startswith("dupefilter:")
