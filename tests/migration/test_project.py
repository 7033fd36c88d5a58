"""A project on scrapy-redis, and the same with one name replaced by the other: both find the same."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from ..support.crawl import wait_until
from . import site
from .copies import Project, waiting


def text(item: dict[str, Any]) -> str:
    return json.dumps(item, sort_keys=True)


def product(shop: str, number: int) -> str:
    return text({"name": f"Product {number}", "price": number + 0.5, "url": f"{shop}/product/{number}"})


# Each test has one expectation for both: so what the one finds, the other finds.


def test_a_redis_spider_with_seeds_of_its_own_form(project: Project, shop: str) -> None:
    orders = [
        {"product": 3, "campaign": "spring"},
        {"products": [7, 10], "campaign": None},
        {"products": []},
    ]
    assert project.run("feed.py", "offers:todo", *map(json.dumps, orders)) == "3\n"
    project.start("offers")
    project.wait()
    assert project.items("offers:prices") == {product(shop, number): 1 for number in (3, 7, 10)}
    assert project.items("offers:items") == {
        text(
            {"name": f" Product {n} ".strip(), "review": f"review {r} of {n}", "number": r, "campaign": c}
        ): 1
        for n, c in ((3, "spring"), (7, None), (10, None))
        for r in range(n % 4)
    }
    assert not project.server.exists("offers:todo")


def test_a_redis_crawl_spider_follows_its_rules(project: Project, shop: str) -> None:
    project.run("feed.py", "catalogue:start_urls", json.dumps({"url": f"{shop}/"}))
    log = project.start("catalogue")
    project.wait()
    assert project.items("catalogue:prices") == {product(shop, n): 1 for n in range(site.PRODUCTS)}
    assert len(project.items("catalogue:items")) == site.CATEGORIES
    assert not project.has_raised(log)


def test_a_plain_spider_crawls_each_page_once_though_its_links_differ(project: Project, shop: str) -> None:
    log = project.start("sitemap")
    project.wait()
    names = Counter(json.loads(item)["name"] for item in project.items("sitemap:items").elements())
    expected = [f"Category {n}" for n in range(site.CATEGORIES)]
    expected += [f"Product {n}" for n in range(site.PRODUCTS)]
    assert names == dict.fromkeys(expected, 1)
    assert not project.has_raised(log)


def test_an_idle_redis_spider_takes_seeds_that_come_later(project: Project, shop: str) -> None:
    log = project.start("offers", "-a", "max_idle_time=0")
    wait_until(lambda: "Spider opened" in log.read_text())
    project.run("feed.py", "offers:todo", json.dumps({"product": 5}))
    wait_until(lambda: project.items("offers:prices") == {product(shop, 5): 1}, message=log.read_text())
    assert project.running[0].poll() is None


def test_a_project_that_names_no_serializer_needs_none(project: Project) -> None:
    settings = project.folder / "shop" / "settings.py"
    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text("".join(line for line in lines if "SERIALIZER" not in line))
    project.start("sitemap")
    project.wait()
    assert sum(project.items("sitemap:items").values()) == site.CATEGORIES + site.PRODUCTS


def test_the_statistics_are_in_the_hash(project: Project, shop: str) -> None:
    project.run("feed.py", "offers:todo", *(json.dumps({"product": n}) for n in range(3)))
    project.start("offers", "-s", "SCHEDULER_PERSIST=True")
    project.wait()
    found = project.server.hgetall("offers:stats")
    assert found[b"offers/ordered"] == b"3"
    assert found[b"downloader/request_count"] == b"6"
    assert found[b"finish_reason"] == b"finished"


@pytest.mark.parametrize(
    "spider", ["offers", *(pytest.param(name, marks=pytest.mark.long) for name in ("catalogue", "sitemap"))]
)
def test_requests_queued_by_a_stopped_worker_are_crawled_by_the_next(
    project: Project, shop: str, spider: str
) -> None:
    if spider != "sitemap":
        seeds = {"offers": ("offers:todo", {"products": list(range(25))})}
        key, seed = seeds.get(spider, ("catalogue:start_urls", {"url": f"{shop}/"}))
        project.run("feed.py", key, json.dumps(seed))
    project.start(spider, "-s", "CLOSESPIDER_PAGECOUNT=5", "-s", "CONCURRENT_REQUESTS=2")
    project.wait()
    key = f"{spider}:requests"
    assert waiting(project.server, key)
    project.start(spider)
    project.wait()
    assert not waiting(project.server, key)
    reached = {"offers": 25, "catalogue": site.PRODUCTS, "sitemap": 0}[spider]
    assert len(project.items(f"{spider}:prices")) == reached
