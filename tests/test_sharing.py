"""Spiders of each kind on real HTML: each worker has its part, and they find what Scrapy alone finds."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .crawl import Fleet, wait_until
from .site import Site, served
from .topologies import Topology

WORKERS = 3
#: Seconds until an answer: long enough for three workers to be less busy than the site is slow.
LATENCY = 0.1
#: Each spider, and the one by which Scrapy alone crawls the same.
SPIDERS = {
    "follow": "follow",
    "rules": "rules",
    "map": "map",
    "feed": "feed",
    "redisfollow": "follow",
    "redisrules": "rules",
}
#: Scrapy as it comes.
IN_MEMORY = {
    "ADDONS": "{}",
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
}


@dataclass(frozen=True, repr=False)
class Crawl:
    """What a crawl has on record."""

    #: How often each page was parsed, and how often each path was asked for.
    parsed: Counter[str]
    asked: Counter[str]
    items: Counter[str]
    #: Pages that each worker has parsed.
    shares: list[int]
    reasons: list[str]
    unserializable: float


def crawl(
    folder: Path, topology: Topology, site: Site, spider: str, workers: int, **settings: object
) -> Crawl:
    """Crawl *site* with so many workers, all of which are there before it answers the first request."""
    folder.mkdir()
    site.reset()
    fleet = Fleet(folder, topology.url)
    environment = {"SITE_URL": site.url, "REAL_DOWNLOADS": "1"}
    options = {
        "SPIDER_MODULES": "crawls.real_site",
        "CONCURRENT_REQUESTS": 4,
        "MAX_IDLE_TIME_BEFORE_CLOSE": 2,
    }
    try:
        fleet.start(spider, workers, environment=environment, **{**options, **settings})
        wait_until(lambda: len(fleet.events("opened")) == workers, message="not every worker opened")
        if spider.startswith("redis"):
            topology.client().lpush(f"{spider}:start_urls", f"{site.url}/index.html")
        wait_until(lambda: site.asked, message="no page was asked for")
        site.gate.set()
        fleet.wait()
    finally:
        fleet.stop()
    return Crawl(
        fleet.urls("parsed"),
        site.asked,
        fleet.urls("item"),
        [len(fleet.events("parsed", worker)) for worker in range(workers)],
        fleet.reasons(),
        fleet.stat("scheduler/unserializable"),
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("pages")
    subprocess.run(
        [sys.executable, "-m", "tests.library_pages", folder], cwd=Path(__file__).parent.parent, check=True
    )
    with served(folder, LATENCY) as made:
        assert len(made.paths) > 100
        yield made


@pytest.fixture(scope="module")
def alone(site: Site, topology: Topology, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    """What Scrapy finds with its own scheduler."""
    folder = tmp_path_factory.mktemp("alone")
    return {
        spider: crawl(folder / spider, topology, site, spider, 1, CONCURRENT_REQUESTS=32, **IN_MEMORY)
        for spider in sorted(set(SPIDERS.values()))
    }


@pytest.fixture(scope="module", params=SPIDERS)
def shared(
    request: pytest.FixtureRequest, site: Site, topology: Topology, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Crawl]:
    """A kind of spider, and what three workers of it find."""
    topology.client().flushall()
    return request.param, crawl(
        tmp_path_factory.mktemp("shared") / "crawl", topology, site, request.param, WORKERS
    )


def test_the_fleet_finds_the_pages_and_items_that_scrapy_alone_finds(
    shared: tuple[str, Crawl], alone: dict[str, Crawl], site: Site
) -> None:
    spider, found = shared
    assert len(found.parsed) == len(site.paths)
    assert set(found.asked) == set(alone[SPIDERS[spider]].asked)
    assert set(found.parsed) == set(alone[SPIDERS[spider]].parsed)
    assert found.items.keys() == alone[SPIDERS[spider]].items.keys()
    assert found.reasons == ["finished"] * WORKERS


def test_every_page_is_parsed_once(shared: tuple[str, Crawl]) -> None:
    _, found = shared
    assert {url: count for url, count in found.parsed.items() if count > 1} == {}
    assert {path: count for path, count in found.asked.items() if count > 1} == {}


def test_each_worker_has_at_least_half_of_its_fair_share(shared: tuple[str, Crawl]) -> None:
    _, found = shared
    assert min(found.shares) >= sum(found.shares) / WORKERS / 2, found.shares


def test_nothing_is_kept_from_redis(shared: tuple[str, Crawl]) -> None:
    _, found = shared
    assert found.unserializable == 0
