"""The likely cause of a crawl without pages, without items, or with nothing new."""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_rq_sched.inspect.cause import cause_of, is_unreachable
from scrapy_rq_sched.inspect.crawl import Crawl

ROBOTS = {"exceptions": 2, "ignored": 2, "robots": 2}
REFUSED = {"requests": 5, "exceptions": 6, "refused": 6, "retries": 4}
OFFSITE = {"requests": 1, "responses": 1, "offsite": 2}


def crawl(pages: int = 1, items: int = 0, **fields: Any) -> Crawl:
    return Crawl(run=1, spider="my shop", state="finished", pages=pages, items=items, **fields)


@pytest.mark.parametrize(
    ("counts", "statuses", "cause"),
    [
        (ROBOTS, {}, "No page was crawled: robots.txt forbids 2 requests (ROBOTSTXT_OBEY)"),
        (REFUSED, {}, "No page was crawled: the connection was refused"),
        ({"exceptions": 1, "no_address": 1}, {}, "No page was crawled: the host name has no address (DNS)"),
        (
            {"exceptions": 1, "timeouts": 1},
            {},
            "No page was crawled: no answer came in time (DOWNLOAD_TIMEOUT)",
        ),
        ({"exceptions": 1}, {}, "No page was crawled: downloads raised exceptions: see the log"),
        (
            {**REFUSED, "exceptions": 7, "ignored": 1, "robots": 1},
            {},
            "No page was crawled: robots.txt forbids 1 request (ROBOTSTXT_OBEY), "
            "and the connection was refused",
        ),
        (
            {"offsite": 3, "exceptions": 3, "ignored": 3},
            {},
            "No page was crawled: 3 requests lead to hosts that are not in allowed_domains",
        ),
        (
            {"exceptions": 3, "ignored": 3},
            {},
            "No page was crawled: a downloader middleware ignored requests (IgnoreRequest)",
        ),
        (
            OFFSITE,
            {"200": 1},
            "No item was scraped: 2 requests lead to hosts that are not in allowed_domains",
        ),
        (
            {"responses": 3, "http_errors": 3},
            {"403": 2, "404": 1},
            "No item was scraped: 3 responses are HTTP errors (403, 404), which callbacks do not see "
            "(HTTPERROR_ALLOWED_CODES)",
        ),
        (
            {"responses": 9, "callback_errors": 9},
            {"200": 9},
            "No item was scraped: callbacks raised 9 exceptions: see the log",
        ),
        (
            {"responses": 9, "dropped_items": 4},
            {"200": 9},
            "No item was scraped: the item pipelines dropped 4 items",
        ),
        (
            {"responses": 500, "offsite": 5000, "http_errors": 2},
            {"200": 498, "404": 2},
            "No item was scraped: the callbacks of 500 pages yielded none",
        ),
    ],
)
def test_a_crawl_without_items_has_a_cause(
    counts: dict[str, int], statuses: dict[str, int], cause: str
) -> None:
    assert cause_of(crawl(counts=counts, statuses=statuses)) == cause


def test_a_crawl_with_items_has_no_cause() -> None:
    assert cause_of(crawl(items=1, counts={**OFFSITE, "duplicates": 9})) == ""


def test_a_crawl_that_only_its_events_tell_of_has_no_cause() -> None:
    assert cause_of(Crawl(run=0, state="finished", pages=480)) == ""


def test_pages_without_statistics_of_the_downloader_have_no_cause() -> None:
    assert cause_of(crawl(pages=480, counts={"duplicates": 3})) == ""


def test_a_crawl_that_sent_nothing_says_so() -> None:
    assert cause_of(crawl(pages=0)) == "No page was crawled: no request was sent"


def test_a_crawl_of_seen_pages_says_so() -> None:
    found = crawl(pages=0, counts={"duplicates": 1})
    assert cause_of(found) == (
        "No page was crawled: 1 request was seen before. To crawl all again, run: "
        "scrapy frontier clear 'my shop'"
    )


@pytest.mark.parametrize("value", [True, "True", "1"])
def test_fingerprints_of_an_earlier_crawl_are_a_cause_also_if_the_start_page_has_an_item(value: Any) -> None:
    found = crawl(items=1, counts={"responses": 1, "duplicates": 20}, settings={"SCHEDULER_PERSIST": value})
    assert cause_of(found) == (
        "Nothing new was found: 20 requests were seen by an earlier crawl, whose fingerprints "
        "SCHEDULER_PERSIST keeps. To crawl all again, run: scrapy frontier clear 'my shop'"
    )


@pytest.mark.parametrize(
    ("counts", "is_dead"),
    [(REFUSED, True), (ROBOTS, False), ({**REFUSED, "responses": 1}, False), ({}, False)],
)
def test_a_crawl_is_unreachable_if_downloads_failed_and_no_response_came(
    counts: dict[str, int], is_dead: bool
) -> None:
    assert is_unreachable(crawl(counts=counts)) == is_dead
