"""The last lines of ``scrapy frontier crawl``."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from scrapy_rq_sched.commands.crawl_end import last_words, of_this_machine
from scrapy_rq_sched.commands.crawl_text import crawl_text
from scrapy_rq_sched.commands.output import Fields
from scrapy_rq_sched.commands.status_text import status_text
from scrapy_rq_sched.inspect.crawl import Crawl
from scrapy_rq_sched.inspect.crawls import parse
from scrapy_rq_sched.inspect.status import Status
from scrapy_rq_sched.supervise.supervisor import START_ERROR

BEGAN = 1_800_000_000.0
CRAWL = Crawl(
    run=7,
    spider="my shop",
    state="finished",
    began=BEGAN,
    ended=BEGAN + 20,
    pages=700,
    items=412,
    counts={"responses": 700},
    statuses={"200": 700},
)


def words(
    crawl: Crawl = CRAWL, before: Crawl | None = None, seconds: float = 24.0, **state: Any
) -> list[str]:
    supervisor = SimpleNamespace(
        reasons=["finished"], is_finished=True, has_succeeded=True, requests_to_end=0
    )
    vars(supervisor).update(state)
    return last_words(supervisor, crawl, before, seconds, "logs/7")  # type: ignore[arg-type]


def test_a_crawl_without_errors_has_one_line() -> None:
    assert words() == [
        "The crawl of spider my shop is finished: 700 pages, 412 items in 20 s, 35.0 pages a second"
    ]


@pytest.mark.parametrize(
    ("pages", "items", "done"),
    [
        (686, 662, "700 pages (2 % more than the last time), 412 items (38 % fewer than the last time)"),
        (700, 412, "700 pages, 412 items"),
        (700, 0, "700 pages, 412 items (more than the last time, when there were none)"),
    ],
)
def test_a_finished_crawl_is_compared_with_the_last_one(pages: int, items: int, done: str) -> None:
    (line,) = words(before=replace(CRAWL, run=6, items=items, pages=pages))
    assert line == f"The crawl of spider my shop is finished: {done} in 20 s, 35.0 pages a second"


def test_a_crawl_that_is_not_finished_is_not_compared() -> None:
    (line,) = words(before=replace(CRAWL, items=9000), is_finished=False, requests_to_end=1)
    assert line == (
        "The crawl of spider my shop was interrupted: 700 pages, 412 items in 20 s, 35.0 pages a second. "
        "The same command continues it"
    )


def test_a_crawl_that_an_earlier_command_has_begun_has_no_rate() -> None:
    (line,) = words(replace(CRAWL, began=BEGAN - 86400))
    assert ": 700 pages, 412 items since 20" in line
    assert "second" not in line


def test_errors_requests_set_aside_and_statuses_are_in_a_second_line() -> None:
    crawl = replace(CRAWL, errors=3, set_aside={"its download failed": 2}, statuses={"200": 690, "404": 10})
    assert words(crawl)[1:] == [
        "3 errors (see logs/7); 2 requests or seeds were set aside (scrapy frontier failed 'my shop'); HTTP "
        "statuses 200: 690, 404: 10"
    ]


def test_a_crawl_without_a_response_has_no_page_and_a_cause() -> None:
    counts = {"exceptions": 6, "refused": 6, "retries": 4, "requests": 5}
    times = {"began": 1000 * CRAWL.began, "ended": 1000 * CRAWL.ended}
    entry = {"run": 7, "spider": CRAWL.spider, "pages": 3, "errors": 4, "done": counts, **times}
    crawl = parse(json.dumps(entry).encode(), b'{"points": ["1000 3 0 0 4"]}', "my shop")
    assert crawl is not None
    assert [moment.pages for moment in crawl.history] == [0]
    assert words(crawl) == [
        "The crawl of spider my shop is finished: 0 pages, 0 items in 20 s",
        "No page was crawled: the connection was refused",
        "4 errors (see logs/7)",
    ]


def test_an_exception_of_start_is_the_cause() -> None:
    (line,) = words(replace(CRAWL, items=0), reasons=["finished", START_ERROR])
    assert line.endswith("But start() raised an exception in 1 worker, and ended early there: see the log")


def test_without_a_history_the_numbers_are_of_this_machine_without_robots() -> None:
    stats = {
        "response_received_count": 14,
        "downloader/response_count": 13,
        "downloader/response_status_count/200": 13,
        "robotstxt/response_count": 1,
        "robotstxt/response_status_count/200": 1,
        "item_scraped_count": 11,
        "log_count/ERROR": 2,
    }
    crawl = of_this_machine("shop", stats)
    assert words(crawl) == [
        "The crawl of spider shop is finished: 12 pages, 11 items on this machine, in 24 s",
        "2 errors (see logs/7)",
    ]


def test_the_status_of_a_finished_crawl_and_the_history_have_the_cause() -> None:
    last = replace(CRAWL, pages=1, items=0, counts={"ignored": 1, "exceptions": 1, "robots": 1}, statuses={})
    status = Status("my shop", "k", "finished", BEGAN + 60, last_crawl=last)
    cause = ("cause", "No page was crawled: robots.txt forbids 1 request (ROBOTSTXT_OBEY)")
    for parts in (status_text(status), crawl_text(last, None)):
        assert isinstance(parts[0], Fields)
        assert cause in parts[0].pairs
