"""Crawls that a script of the user's starts, several in one process."""

from __future__ import annotations

import pytest
from scrapy import crawler

from ..project.crawls.graph import page_url
from ..support.crawl import Fleet, run_python
from .test_reactors import without_reactor

PROCESS = """
from scrapy.crawler import {process}
from scrapy.utils.project import get_project_settings

process = {process}(get_project_settings())
for spider in {spiders}:
    process.crawl(spider)
process.start()
"""

ONE_AFTER_THE_OTHER = """
from scrapy.crawler import CrawlerRunner
from scrapy.utils.project import get_project_settings
from scrapy.utils.reactor import install_reactor
from twisted.internet.defer import inlineCallbacks

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
from twisted.internet import reactor

@inlineCallbacks
def main():
    runner = CrawlerRunner(get_project_settings())
    for spider in {spiders}:
        yield runner.crawl(spider)
    reactor.stop()

reactor.callWhenRunning(main)
reactor.run()
"""

ONE_AFTER_THE_OTHER_WITHOUT_REACTOR = """
import asyncio
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.project import get_project_settings

async def main():
    runner = AsyncCrawlerRunner(get_project_settings())
    for spider in {spiders}:
        await runner.crawl(spider)

asyncio.run(main())
"""

with_async_process = pytest.mark.skipif(
    not hasattr(crawler, "AsyncCrawlerProcess"), reason="this Scrapy has no AsyncCrawlerProcess"
)


def run(fleet: Fleet, script: str, event_loop: str = "asyncio") -> None:
    """Run *script*, with the record of *fleet*."""
    environment = {"RECORD": str(fleet.record), "EVENT_LOOP": event_loop}
    done = run_python("-c", script, redis_url=fleet.redis_url, **environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("process", "event_loop"),
    [
        ("CrawlerProcess", "asyncio"),
        pytest.param("CrawlerProcess", "select", marks=pytest.mark.long),
        pytest.param("AsyncCrawlerProcess", "asyncio", marks=with_async_process),
        pytest.param("AsyncCrawlerProcess", "none", marks=[without_reactor, pytest.mark.long]),
    ],
)
def test_two_spiders_in_one_process_each_crawl_their_own(fleet: Fleet, process: str, event_loop: str) -> None:
    run(fleet, PROCESS.format(process=process, spiders=["graph", "starts"]), event_loop)
    own = {page_url(number): 1 for number in (*range(500), *range(1_000_000, 1_000_040))}
    assert fleet.urls("parsed") == own
    assert fleet.reasons() == ["finished", "finished"]


@pytest.mark.long
def test_two_workers_of_a_spider_in_one_process_share_its_crawl(fleet: Fleet) -> None:
    run(fleet, PROCESS.format(process="CrawlerProcess", spiders=["graph", "graph"]))
    assert fleet.urls("downloaded") == {page_url(number): 1 for number in range(500)}
    assert fleet.reasons() == ["finished", "finished"]


@pytest.mark.parametrize(
    ("script", "event_loop"),
    [
        (ONE_AFTER_THE_OTHER, "asyncio"),
        pytest.param(ONE_AFTER_THE_OTHER_WITHOUT_REACTOR, "none", marks=without_reactor),
    ],
    ids=["asyncio", "none"],
)
@pytest.mark.long
def test_a_spider_that_is_run_again_in_the_same_process_crawls_anew(
    fleet: Fleet, script: str, event_loop: str
) -> None:
    run(fleet, script.format(spiders=["starts", "starts"]), event_loop)
    assert fleet.urls("parsed") == {page_url(1_000_000 + number): 2 for number in range(40)}
    assert fleet.reasons() == ["finished", "finished"]
