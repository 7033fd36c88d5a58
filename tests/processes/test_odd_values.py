"""Whatever a request has in a field: the crawl ends, and crawls what it crawls with Scrapy's scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..project.crawls.graph import page_url
from ..project.crawls.odd import CARRIERS, FIELDS, ODD, ORDINARY, VALUES
from ..support.crawl import Fleet
from ..tools.real_crawl import IN_MEMORY

#: Seconds within which a crawl of some 150 pages has to be over.
LIMIT = 60


def named(url: str) -> str:
    """Return *url*, or what is odd about its request."""
    number = int(url.partition("?")[0].rpartition("/")[2])
    if number < ODD:
        return url
    which, after = divmod(number - ODD, 2)
    return f"{[*VALUES][which]}, {'set after' if after else 'at once'}"


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.long
def test_a_crawl_fetches_the_same_pages_as_scrapy_and_ends(field: str, fleet: Fleet, tmp_path: Path) -> None:
    folder = tmp_path / "alone"
    folder.mkdir()
    alone = Fleet(folder, "redis://127.0.0.1:1")
    options = {"SPIDER_MODULES": "crawls.odd", "GRAPH_LATENCY": 0.01, "FRONTIER_LEASE_TIMEOUT": 30}
    try:
        alone.start("odd", 1, "-a", f"field={field}", **options, **IN_MEMORY)
        fleet.start("odd", 2, "-a", f"field={field}", "-a", "workers=2", **options)
        fleet.wait(timeout=LIMIT)
        alone.wait(timeout=LIMIT)
    finally:
        alone.stop()
    expected, found = alone.urls("downloaded"), fleet.urls("downloaded")
    ordinary = [*range(ORDINARY + 1), *range(CARRIERS, CARRIERS + 2 * len(VALUES))]
    assert {page_url(number) for number in ordinary} - expected.keys() == set()
    assert sorted(map(named, expected.keys() - found.keys())) == []
    assert sorted(named(url) for url, count in found.items() if count > 2) == []
    assert fleet.reasons() == ["finished", "finished"]
