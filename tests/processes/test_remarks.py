"""What is said at the start of a crawl of settings that do not do what they seem to: one line for each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy import Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import feeds
from scrapy_rq_sched.engine import remarks
from scrapy_rq_sched.inspect.settings_checks import check_settings

from ..support.crawl import Fleet
from ..support.pages import DOCS, section


def said(**settings: Any) -> list[str]:
    found = Settings(settings)
    return [f"{text}. {advice}" for text, advice in (*remarks.remarks(found), *feeds.remarks(found))]


def warnings_of(fleet: Fleet, worker: int = 0) -> list[str]:
    """Return what a worker has warned of at its start."""
    return re.findall(r"\[scrapy_rq_sched\.engine\.remarks\] WARNING: (.+)", fleet.log(worker))


# -- names of settings -------------------------------------------------------------------------------


def test_the_known_settings_are_the_documented_ones() -> None:
    entries = section(DOCS / "settings.md", "## This package's settings, and those of scrapy-redis")
    assert remarks.known_settings() == set(re.findall(r"^### (.+)$", entries, re.MULTILINE))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("FRONTIER_LEASE_TIMOUT", "FRONTIER_LEASE_TIMEOUT"),
        ("FRONTIER_TIMEOUT", "FRONTIER_JOIN_TIMEOUT"),
        ("FRONTIER_LEASE", "FRONTIER_LEASE_TIMEOUT"),
        ("FRONTIER_PREFETCH_SIZE", "FRONTIER_PREFETCH"),
        ("FRONTEIR_MAX_WAITING", "FRONTIER_MAX_WAITING"),
        ("frontier_prefetch", "FRONTIER_PREFETCH"),
        ("FRONTIER_PERSIST", "SCHEDULER_PERSIST"),
        ("SCHEDULAR_PERSIST", "SCHEDULER_PERSIST"),
        ("SCHEDULER_SERIALISER", "SCHEDULER_SERIALIZER"),
        ("SCHEDULER_PRIORITY_QUEU", "SCHEDULER_PRIORITY_QUEUE"),
        ("REDIS_URI", "REDIS_URL"),
        ("REDIS_PARAM", "REDIS_PARAMS"),
        ("REDIS_START_URL_KEY", "REDIS_START_URLS_KEY"),
        ("MAX_IDLE_TIME", "MAX_IDLE_TIME_BEFORE_CLOSE"),
        ("STAT_KEY", "STATS_KEY"),
    ],
)
def test_a_misspelt_setting_is_told_of_with_the_right_name(typed: str, meant: str) -> None:
    assert said(**{typed: 5}) == [
        f"Unknown setting {typed}: it has no effect. If you mean {meant}, correct the name"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "REDIS_PASSWORD",
        "REDIS_SENTINELS",
        "REDIS_STARTUP_NODES",
        "REDIS_COOKIES_KEY",
        "FRONTIER_",
        "SCHEDULER_DISK_QUEUE",
        "REDIS_START_URLS_AS_SET",
        "REDIS_START_URLS_AS_ZSET",
        "STATS_DUMP",
        "MYPROJECT_KEY",
    ],
)
def test_a_setting_of_others_is_no_misspelt_one(name: str) -> None:
    assert said(**{name: 5}) == []


def test_no_setting_of_the_documentation_is_a_misspelt_one() -> None:
    names = re.findall(r"^### (.+)$", (DOCS / "settings.md").read_text(), re.MULTILINE)
    given = {name: "{}" for line in names for name in line.split(", ") if "*" not in name}
    assert list(remarks.misspelt(Settings(given))) == []


def test_a_misspelt_setting_is_a_warning_each_at_the_start_of_a_crawl(fleet: Fleet) -> None:
    fleet.start("starts", FRONTIER_LEASE_TIMOUT=5, REDIS_URI="redis://localhost")
    fleet.wait()
    assert fleet.reasons() == ["finished"]
    assert warnings_of(fleet) == [
        "Unknown setting FRONTIER_LEASE_TIMOUT: it has no effect. If you mean FRONTIER_LEASE_TIMEOUT, "
        "correct the name",
        "Unknown setting REDIS_URI: it has no effect. If you mean REDIS_URL, correct the name",
    ]


def test_a_crawl_that_cannot_start_warns_of_a_misspelt_setting_before(fleet: Fleet) -> None:
    fleet.start(
        "starts", REDIS_URL="redis://127.0.0.1:1/0", REDIS_URLS="redis://localhost", FRONTIER_JOIN_TIMEOUT=0
    )
    fleet.wait()
    assert fleet.log().index("If you mean REDIS_URL") < fleet.log().index("The crawl cannot start")


def test_the_doctor_warns_of_a_misspelt_setting() -> None:
    found = list(check_settings(Settings({"FRONTIER_LEASE_TIMOUT": 5})))
    (warning,) = [finding for finding in found if finding.level == "warning"]
    assert warning.text == "Unknown setting FRONTIER_LEASE_TIMOUT: it has no effect"
    assert warning.advice == "If you mean FRONTIER_LEASE_TIMEOUT, correct the name"


# -- JOBDIR ------------------------------------------------------------------------------------------


def test_a_jobdir_is_told_not_to_keep_the_crawl(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start("starts", JOBDIR=tmp_path / "job")
    fleet.wait()
    (line,) = warnings_of(fleet)
    assert line.startswith(
        f"JOBDIR is '{tmp_path}/job', but this scheduler stores no requests or fingerprints there. "
        "A stopped crawl resumes from its frontier in Redis. "
    )
    assert "spider.state" in line


# -- feeds -------------------------------------------------------------------------------------------


def test_two_workers_write_their_items_to_a_file_each(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    feed = tmp_path / "items-%(worker)s.json"
    fleet.start("items", 2, "-O", str(feed), GRAPH_PAGES=153, GRAPH_LATENCY=0.05)
    fleet.wait()
    assert fleet.reasons() == ["finished"] * 2
    names = [re.findall(r"Worker (\S+) joined", fleet.log(worker))[0] for worker in (0, 1)]
    files = [tmp_path / f"items-{name}.json" for name in names]
    items = [json.loads(file.read_text()) for file in files]
    assert all(items)
    assert sorted(item["page"] for one in items for item in one) == list(range(153))
    assert warnings_of(fleet, 0) == warnings_of(fleet, 1) == []


def test_a_feed_that_is_the_same_for_all_workers_gets_a_warning_with_the_remedy(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.start("starts", 1, "-o", f"{tmp_path}/items.json")
    fleet.wait()
    assert warnings_of(fleet) == [
        f"Feed '{tmp_path}/items.json': all workers have the same URI. If this is the same place for them, "
        "one worker damages or replaces the items of another. Put %(worker)s into its URI, as in "
        f"'{tmp_path}/items-%(worker)s.json'; or, for one file with each item once, "
        "use scrapy frontier crawl"
    ]


@pytest.mark.parametrize(
    "uri",
    ["items.json", "file:///data/items.csv", "s3://bucket/%(name)s/%(time)s.json", "%(batch_id)d.jsonl"],
)
def test_a_feed_without_a_part_that_differs_is_warned_of(uri: str) -> None:
    (line,) = said(FEEDS={uri: {"format": "json"}})
    assert line.startswith(f"Feed {uri!r}: all workers have the same URI")
    assert "FEED_URI_PARAMS" not in line


@pytest.mark.parametrize("uri", ["items-%(worker)s.json", "%(batch_time)s.json", "%(part)s.json", "stdout:"])
def test_a_feed_with_a_part_that_differs_is_not_warned_of(uri: str) -> None:
    assert said(FEEDS={uri: {"format": "json"}}) == []


def test_several_feeds_are_one_line_that_shows_no_password() -> None:
    (line,) = said(FEEDS={Path("a.json"): {}, "ftp://user:s3cret@host/b.json": None})
    assert line.startswith("Feeds 'a.json', 'ftp://user:***@host/b.json': ")
    assert "s3cret" not in line


def test_a_worker_without_the_addon_has_its_name_in_the_uri_of_a_feed(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    without = {"ADDONS": "{}", "SCHEDULER": "scrapy_rq_sched.Scheduler"}
    fleet.start("starts", 1, "-o", f"{tmp_path}/items-%(worker)s.jsonl", **without)
    fleet.wait()
    (name,) = re.findall(r"Worker (\S+) joined", fleet.log(0))
    assert [path.name for path in tmp_path.glob("items-*")] == [f"items-{name}.jsonl"]
    assert warnings_of(fleet) == []


def test_a_feed_that_the_command_has_dealt_with_is_not_warned_of() -> None:
    dealt_with = {"a.json": "4f1d", "ftp://user:***@host/b.json": ""}
    uris = ("a.json", "ftp://user:s3cret@host/b.json", "c.json")
    (line,) = said(FEEDS={uri: {} for uri in uris}, FRONTIER_JOINED_FEEDS=dealt_with)
    assert line.startswith("Feed 'c.json': ")


class ShardSpider(Spider):
    name = "shard"


def test_another_scheduler_has_one_name_for_all_feeds() -> None:
    spider = ShardSpider.from_crawler(get_crawler(ShardSpider))
    first = feeds.uri_params({}, spider)["worker"]
    assert first == feeds.uri_params({}, spider)["worker"]
    assert first != feeds.uri_params({}, ShardSpider.from_crawler(get_crawler(ShardSpider)))["worker"]


def test_an_attribute_of_the_spider_called_worker_has_precedence() -> None:
    spider = ShardSpider.from_crawler(get_crawler(ShardSpider), worker="7")
    assert feeds.uri_params({"worker": spider.worker}, spider) == {"worker": "7"}
