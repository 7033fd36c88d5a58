"""Items of real workers: each once, whatever dies."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
import redis

from ..project.crawls.graph import page_url
from ..project.crawls.itemized import NAMES, SITE
from ..support.crawl import Fleet, wait_until

LEASE = {"FRONTIER_LEASE_TIMEOUT": 2}
ITEMIZED = {"SPIDER_MODULES": "crawls.itemized", **LEASE}


def key_of(server: redis.Redis, spider: str) -> str:
    return f"{{{spider}}}:items" if server.exists(f"{{{spider}}}:items") else f"{spider}:items"


def listed(server: redis.Redis, spider: str) -> list[dict[str, str]]:
    return [json.loads(item) for item in server.lrange(key_of(server, spider), 0, -1)]


def streamed(server: redis.Redis, spider: str) -> list[dict[str, str]]:
    entries = server.xrange(key_of(server, spider))
    return [{name.decode(): value.decode() for name, value in fields.items()} for _, fields in entries]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("list", marks=pytest.mark.long), "stream"])
def test_each_item_is_stored_once_though_workers_are_killed(
    fleet: Fleet, server: redis.Redis, kind: str
) -> None:
    pages = 400
    settings = {"GRAPH_PAGES": pages, "GRAPH_LATENCY": 0.05, "FRONTIER_ITEMS": kind, **LEASE}
    fleet.start("pages", 3, **settings)
    for number in range(4):
        seen = len(fleet.urls("downloaded"))
        wait_until(lambda seen=seen: len(fleet.urls("downloaded")) > seen + 50)
        fleet.kill(number)
        fleet.start("pages", **settings)
    fleet.wait(workers=[4, 5, 6])
    found = listed(server, "pages") if kind == "list" else streamed(server, "pages")
    urls = Counter(item["url"] for item in found)
    assert urls == Counter({page_url(number): 1 for number in range(pages)})
    assert sum(fleet.urls("downloaded").values()) > pages  # some pages were crawled twice


def test_items_from_everywhere_are_stored_once_by_a_fleet(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("itemized", 2, FRONTIER_ITEMS="list", LARGE=1_000_000, **ITEMIZED)
    fleet.wait()
    names = Counter(item["name"] for item in listed(server, "itemized"))
    assert names == Counter(NAMES)
    assert set(fleet.reasons()) == {"finished"}


def test_items_of_a_page_stay_together_and_in_order(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("itemized", 2, FRONTIER_ITEMS="stream", **ITEMIZED)
    fleet.wait()
    entries = streamed(server, "itemized")
    many = [place for place, entry in enumerate(entries) if entry["url"] == f"{SITE}/many"]
    assert many == list(range(many[0], many[-1] + 1))
    numbers = [int(json.loads(entries[place]["item"])["name"].split()[1]) for place in many]
    assert numbers == sorted(numbers)
    assert len({entry["id"] for entry in entries}) == len(entries) == len(NAMES)


def test_items_of_a_spider_with_rules_are_stored_once(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("rules", 2, FRONTIER_ITEMS="list", **ITEMIZED)
    fleet.wait()
    names = Counter(item["name"] for item in listed(server, "rules"))
    assert names == Counter(f"{SITE}/{number}" for number in range(1, 60))


def test_the_pipeline_leaves_its_items_to_the_scheduler(fleet: Fleet, server: redis.Redis) -> None:
    pipelines = json.dumps({"scrapy_rq_sched.pipelines.RedisPipeline": 300})
    fleet.start("pages", 2, GRAPH_PAGES=50, FRONTIER_ITEMS="list", ITEM_PIPELINES=pipelines)
    fleet.wait()
    assert Counter(item["url"] for item in listed(server, "pages")) == Counter(map(page_url, range(50)))
    assert fleet.stat("items/stored") == 50


def test_a_second_crawl_stores_its_items_again_with_other_identities(
    fleet: Fleet, server: redis.Redis
) -> None:
    for _ in range(2):
        fleet.start("itemized", FRONTIER_ITEMS="stream", **ITEMIZED)
        fleet.wait()
    entries = streamed(server, "itemized")
    names = Counter(json.loads(entry["item"])["name"] for entry in entries)
    assert names == Counter([*NAMES, *NAMES])
    assert len({entry["id"] for entry in entries}) == len(entries)


@pytest.mark.single("a Cluster's key has braces")
def test_a_worker_that_finds_another_type_at_the_items_key_does_not_start(
    fleet: Fleet, server: redis.Redis
) -> None:
    server.rpush("pages:items", "an item of yesterday")
    fleet.start("pages", FRONTIER_ITEMS="stream", GRAPH_PAGES=5)
    fleet.wait()
    assert "'pages:items' in Redis is a list, but FRONTIER_ITEMS = 'stream'" in fleet.log()
    assert not fleet.urls("downloaded")


@pytest.mark.long
def test_a_worker_that_is_stopped_while_items_have_no_room_ends(fleet: Fleet, server: redis.Redis) -> None:
    pipelines = json.dumps({"crawls.spiders.Heavy": 1})
    settings = {"FRONTIER_ITEMS": "list", "ITEM_PIPELINES": pipelines, "GRAPH_PAGES": 200, **LEASE}
    fleet.start("pages", FRONTIER_MAX_ITEMS=1, ITEM_BYTES=2_000_000, **settings)
    wait_until(lambda: "FRONTIER_MAX_ITEMS (1)" in fleet.log() and len(fleet.events("parsed")) > 17)
    fleet.kill(0, signal.SIGTERM)
    fleet.wait(30)
    assert "bytes of items not stored" in fleet.log()
    # The next worker crawls these pages.
    fleet.start("pages", **settings)
    fleet.wait()
    assert Counter(item["url"] for item in listed(server, "pages")) == Counter(map(page_url, range(200)))


def test_items_of_begun_pages_survive_the_loss_of_the_frontier(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("pages", GRAPH_PAGES=300, GRAPH_LATENCY=0.2, FRONTIER_ITEMS="list", **LEASE)
    wait_until(lambda: len(fleet.urls("downloaded")) > 40)
    before = {item["url"] for item in listed(server, "pages")}
    server.flushall()
    fleet.wait()
    found = {item["url"] for item in listed(server, "pages")}
    assert found | before >= set(fleet.urls("parsed"))


def found_in(folder: Path) -> Counter[str]:
    """Return how often the files of all workers have each item; every line is whole."""
    files = folder.glob("items-*.jsonl")
    return Counter(json.loads(line)["url"] for file in files for line in file.read_text().splitlines())


def test_no_item_of_a_killed_worker_is_missing_in_its_own_file(fleet: Fleet, tmp_path: Path) -> None:
    output = ("-o", str(tmp_path / "items-%(worker)s.jsonl"))
    settings = {"GRAPH_PAGES": 300, "GRAPH_LATENCY": 0.05, **LEASE}
    fleet.start("pages", 2, *output, **settings)
    wait_until(lambda: len(fleet.events("parsed")) > 60)
    fleet.kill(0)
    fleet.wait(workers=[1])
    assert set(found_in(tmp_path)) == set(map(page_url, range(300)))


def test_a_worker_closes_and_keeps_its_page_if_an_item_cannot_be_written(
    fleet: Fleet, tmp_path: Path
) -> None:
    output = ("-o", str(tmp_path / "items-%(worker)s.jsonl"))
    settings = {"GRAPH_PAGES": 60, "GRAPH_LATENCY": 0.02, **LEASE}
    fleet.start("pages", 1, *output, ITEM_PIPELINES='{"crawls.spiders.SmallDisk": 1}', **settings)
    fleet.wait()
    assert fleet.reasons() == ["items_not_written"]
    assert fleet.workers[0].poll() == 1
    assert "This worker closes: an item cannot be written to" in fleet.log()
    assert 0 < len(found_in(tmp_path)) < 60
    fleet.start("pages", 1, *output, **settings)
    fleet.wait()
    assert set(found_in(tmp_path)) == set(map(page_url, range(60)))
