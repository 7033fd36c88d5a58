"""The last finished crawl, of which only the events are left."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.commands.status_text import status_text
from scrapy_rq_sched.inspect import Status, View, read_status
from scrapy_rq_sched.inspect.history import STEP, with_last_crawl

from ..support.client import Join

NOW = 1_800_000_000.0


@pytest.fixture
def view(redis_url: str) -> View:
    return View.from_settings(Settings({"REDIS_URL": redis_url}), "s")


def status(view: View) -> Status:
    return with_last_crawl(view, read_status(view))


def tell(server: redis.Redis, kind: str, **details: Any) -> None:
    server.xadd(
        "s:events", {"event": json.dumps({"v": 1, "type": kind, "time": NOW, "spider": "s", **details})}
    )


def finish(server: redis.Redis) -> None:
    tell(server, "crawl_finished", pages=480, seconds=120.5, failed=2)


def test_a_crawl_without_keys_is_known_to_be_finished(server: redis.Redis, view: View) -> None:
    assert (status(view).state, status(view).last_crawl) == ("new", None)
    finish(server)
    tell(server, "worker_left", worker="a")
    found = status(view)
    last = found.last_crawl
    assert last is not None
    assert (found.state, last.ended, last.seconds, last.pages, last.failed) == (
        "finished",
        NOW,
        120.5,
        480,
        2,
    )


def test_the_end_is_found_behind_the_events_of_a_large_fleet(server: redis.Redis, view: View) -> None:
    finish(server)
    for number in range(2 * STEP + 1):
        tell(server, "worker_left", worker=f"w{number}")
    assert status(view).state == "finished"


@pytest.mark.parametrize("kind", ["crawl_started", "crawl_going_on"])
def test_the_end_of_the_crawl_before_is_not_that_of_this_one(
    server: redis.Redis, view: View, kind: str
) -> None:
    finish(server)
    tell(server, kind)
    assert (status(view).state, status(view).last_crawl) == ("new", None)


def test_seeds_of_the_next_crawl_make_it_a_new_one(server: redis.Redis, view: View) -> None:
    finish(server)
    server.rpush("s:start_urls", "http://a.test/")
    found = status(view)
    assert (found.state, found.seeds) == ("new", 1)
    assert found.last_crawl is not None
    assert _last(found) == ("last crawl", "480 pages in 2 min")


def _last(found: Status) -> tuple[str, str]:
    (fields, *_) = status_text(found)
    name, text = fields.pairs[-1]  # type: ignore[union-attr]
    return name, text.partition(": ")[2]


def test_a_crawl_under_way_asks_for_no_events(server: redis.Redis, redis_url: str, join: Join) -> None:
    join("a").push("one")
    finish(server)
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), "s")
    assert (status(view).state, status(view).last_crawl) == ("crawling", None)


def test_a_key_of_another_type_is_no_error(server: redis.Redis, view: View) -> None:
    server.set("s:events", "mine")
    assert status(view).last_crawl is None


def test_details_of_another_version_count_as_nothing(server: redis.Redis, view: View) -> None:
    tell(server, "crawl_finished", pages="many", seconds=-1)
    last = status(view).last_crawl
    assert last is not None
    assert (last.ended, last.seconds, last.pages, last.failed) == (NOW, 0.0, 0, 0)


def test_a_crawl_that_is_finished_and_paused_is_shown_as_paused(
    server: redis.Redis, redis_url: str, join: Join
) -> None:
    join("a")
    server.hset("s:meta", "state", "paused")
    server.set("s:finished", 1)
    server.zrem("s:workers", "a")
    found = status(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"))
    assert found.state == "paused"
