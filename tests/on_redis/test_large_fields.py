"""Keys that another program has filled: the status reads their beginnings, and says so."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.inspect import Status, View, read_status
from scrapy_rq_sched.inspect.frontier_checks import check_frontier
from scrapy_rq_sched.inspect.read_status import MOST_WORKERS

from ..support.client import Join

pytestmark = pytest.mark.single("names of keys")

MB = 1_000_000
FUTURE = 2e12


def status(url: str) -> Status:
    return read_status(View.from_settings(Settings({"REDIS_URL": url}), "s"))


def peak(call: Callable[[], object]) -> int:
    """Return how many bytes *call* has taken at a time."""
    call()
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("place", ["meta", "failed:reasons", "meta:times", "worker:a", "converting"])
def test_a_field_of_many_megabytes_takes_little_memory(
    join: Join, server: redis.Redis, redis_url: str, place: str
) -> None:
    join("a")
    name = {"worker:a": "about", "converting": "from"}.get(place, "junk")
    server.hset(f"s:{place}", name, "x" * 20 * MB)
    assert peak(lambda: status(redis_url)) < 5 * MB


@pytest.mark.parametrize("place", ["workers", "places", "places:line", "slots"])
def test_a_member_of_many_megabytes_takes_little_memory(
    join: Join, server: redis.Redis, redis_url: str, place: str
) -> None:
    join("a")
    server.zadd(f"s:{place}", {"x" * 20 * MB: FUTURE})
    assert peak(lambda: status(redis_url)) < 5 * MB


@pytest.mark.parametrize("place", ["workers", "places", "places:line"])
def test_many_planted_workers_take_little_memory(
    join: Join, server: redis.Redis, redis_url: str, place: str
) -> None:
    join("a")
    server.zadd(f"s:{place}", {f"planted-{n}": FUTURE for n in range(20_000)})
    assert peak(lambda: status(redis_url)) < 5 * MB


def test_a_finish_of_many_megabytes_takes_little_memory(
    join: Join, server: redis.Redis, redis_url: str
) -> None:
    join("a")
    server.set("s:finished", "1" * 20 * MB)
    assert peak(lambda: status(redis_url)) < 5 * MB


def test_hundreds_of_workers_are_all_counted(join: Join, server: redis.Redis, redis_url: str) -> None:
    join("a")
    for number in range(600):
        server.hset(f"s:worker:w{number}", mapping={"about": f'{{"host": "h{number}"}}', "pages": number})
    server.zadd("s:workers", {f"w{number}": FUTURE for number in range(600)})
    found = status(redis_url)
    assert (found.alive, found.cut) == (601, "")
    assert {worker.host for worker in found.workers} > {f"h{number}" for number in range(600)}
    assert sum(worker.pages for worker in found.workers) == sum(range(600))


@pytest.mark.parametrize("place", ["workers", "places:line"])
def test_a_key_that_was_read_in_part_is_named(
    join: Join, server: redis.Redis, redis_url: str, place: str
) -> None:
    join("a")
    server.zadd(f"s:{place}", {f"planted-{n}": FUTURE for n in range(MOST_WORKERS + 5)})
    found = status(redis_url)
    assert found.cut == f"s:{place} (more or longer entries than workers write)"


def test_a_long_field_of_meta_is_named_and_the_others_are_read(
    join: Join, server: redis.Redis, redis_url: str
) -> None:
    join("a").push("one")
    server.hset("s:meta", "junk", "x" * 2 * MB)
    found = status(redis_url)
    assert found.made_with["format"]
    assert found.cut.startswith("s:meta (more or longer entries")


def test_the_status_is_read_though_redis_was_started_again(
    join: Join, server: redis.Redis, redis_url: str
) -> None:
    join("a")
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), "s")
    server.script_flush()
    assert read_status(view).alive == 1


def test_the_doctor_names_a_key_that_is_read_in_part(join: Join, server: redis.Redis, redis_url: str) -> None:
    join("a")
    server.hset("s:meta", "junk", "x" * 2 * MB)
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), "s")
    assert any("read only in part: s:meta (" in one.text for one in check_frontier(view))
