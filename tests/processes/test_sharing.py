"""Spiders of each kind on real HTML: each worker has its part, and they find what Scrapy alone finds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..support.site import Site, served
from ..support.topologies import Topology
from ..tools.real_crawl import IN_MEMORY, SPIDERS, Crawl, crawl

WORKERS = 3
#: Seconds until an answer: long enough for three workers to be less busy than the site is slow.
LATENCY = 0.1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("pages")
    subprocess.run(
        [sys.executable, "-m", "tests.support.library_pages", folder],
        cwd=Path(__file__).parents[2],
        check=True,
    )
    with served(folder, LATENCY) as made:
        assert len(made.paths) > 100
        yield made


@pytest.fixture(scope="module")
def alone(site: Site, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crawl]:
    """What each finds with Scrapy's own scheduler."""
    folder = tmp_path_factory.mktemp("alone")
    spiders = sorted(set(SPIDERS.values()))
    return {spider: crawl(folder / spider, site, spider, 1, **IN_MEMORY) for spider in spiders}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.long) if name.endswith("follow") else name for name in SPIDERS
    ],
)
def shared(
    request: pytest.FixtureRequest, site: Site, topology: Topology, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Crawl]:
    """A kind of spider, and what three workers of it find."""
    folder = tmp_path_factory.mktemp("shared") / "crawl"
    with topology.client() as client:
        client.flushall()
        return request.param, crawl(folder, site, request.param, WORKERS, topology.url, client)


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


def test_each_worker_has_a_good_part_of_its_fair_share(shared: tuple[str, Crawl]) -> None:
    # Alone on a machine each has more than half. Beside other programs, one may be slower than the others.
    _, found = shared
    assert min(found.shares) >= sum(found.shares) / WORKERS / 3, found.shares


def test_nothing_is_kept_from_redis(shared: tuple[str, Crawl]) -> None:
    _, found = shared
    assert found.unserializable == 0
