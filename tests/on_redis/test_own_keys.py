"""The keys that a change may touch, on every topology: see tests/processes/test_neighbours.py for attacks."""

from __future__ import annotations

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.errors import InspectionError
from scrapy_rq_sched.inspect import View, own_keys

from ..conftest import Join


@pytest.fixture
def view(redis_url: str, join: Join) -> View:
    join("a")
    return View.from_settings(Settings({"REDIS_URL": redis_url}), "s")


def named(view: View, *keys: str) -> View:
    """Return *view* after a program has named *keys* as those of its seeds."""
    view.server.hset(view.keys.meta, "start_urls_keys", "\n".join(keys))
    return view.as_it_is_now()


def test_the_usual_keys_are_the_frontiers_own(view: View) -> None:
    own_keys.require(view)


def test_a_key_below_the_prefix_is_the_frontiers_own(view: View) -> None:
    own_keys.require(named(view, *view.keys.start_urls, f"{view.keys.prefix}:more:seeds"))


def test_a_key_outside_the_prefix_is_refused_with_the_setting_that_confirms_it(view: View) -> None:
    foreign = f"{view.keys.prefix}hop:seeds"
    with pytest.raises(InspectionError, match=r"-s '?REDIS_START_URLS_KEY="):
        own_keys.require(named(view, *view.keys.start_urls, foreign))


def test_a_key_below_the_prefix_of_another_frontier_is_refused(view: View, server: redis.Redis) -> None:
    server.hset(f"{view.keys.prefix}:eu:meta", "format", "6")
    with pytest.raises(InspectionError, match="another program"):
        own_keys.require(named(view, f"{view.keys.prefix}:eu:start_urls"))


def test_a_key_of_very_many_parts_is_refused_without_a_look_at_each(view: View) -> None:
    with pytest.raises(InspectionError) as refusal:
        own_keys.require(named(view, f"{view.keys.prefix}{':x' * 100_000}"))
    assert len(str(refusal.value)) < 2000


def test_a_key_without_a_name_is_refused(view: View) -> None:
    with pytest.raises(InspectionError, match="names ''"):
        own_keys.require(named(view, ""))
