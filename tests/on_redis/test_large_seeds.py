"""Seeds of more than FRONTIER_MAX_SEED_BYTES: no worker gets them, and their beginning is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from scrapy_rq_sched import FailedRequests
from scrapy_rq_sched.keys import Keys

from ..project.crawls.graph import page_url
from ..support.client import Join, failed, payloads
from ..support.crawl import Fleet, run_python

pytestmark = pytest.mark.single("names of keys")

MIB = 1024 * 1024
BOUNDS = {"max_seed_bytes": 5000}


def add(server: redis.Redis, kind: str, *seeds: bytes) -> None:
    """Add seeds to a key of this type; a sorted set has the first one first."""
    if kind == "list":
        server.rpush("s:start_urls", *seeds)
    elif kind == "set":
        server.sadd("s:start_urls", *seeds)
    else:
        server.zadd("s:start_urls", {seed: -place for place, seed in enumerate(seeds)})


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_a_large_seed_is_set_aside_and_the_others_are_leased(
    join: Join, server: redis.Redis, kind: str
) -> None:
    large = b"http://a.test/" + b"x" * 5000
    add(server, kind, b"http://a.test/1", large, b"http://a.test/2")
    reply = join(bounds=BOUNDS).say(want_seeds=5)
    assert sorted(payloads(reply.leases)) == ["http://a.test/1", "http://a.test/2"]
    (entry,) = failed(server)
    assert (entry["kind"], entry["key_type"], entry["size"]) == ("seed", kind, 5014)
    assert entry["data"] == large[:2000].decode()
    assert entry["reason"] == (
        "the seed has 5014 bytes, but FRONTIER_MAX_SEED_BYTES is 5000: only its beginning is kept"
    )
    assert (reply.set_aside, reply.seeds) == (1, 0)


def test_a_seed_of_the_greatest_size_is_leased(join: Join, server: redis.Redis) -> None:
    server.rpush("s:start_urls", b"x" * 5000)
    (lease,) = join(bounds=BOUNDS).say(want_seeds=5).leases
    assert lease.payload == b"x" * 5000


@pytest.mark.parametrize("letter", ["é", "語", "😀"])
def test_the_beginning_of_a_seed_ends_with_a_whole_character(
    join: Join, server: redis.Redis, letter: str
) -> None:
    server.rpush("s:start_urls", f"x{letter * 5000}")
    join(bounds=BOUNDS).say(want_seeds=1)
    (entry,) = failed(server)
    assert entry["data"] == f"x{letter * ((2000 - 1) // len(letter.encode()))}"


def test_the_beginning_of_a_seed_that_is_not_text_is_kept_in_hexadecimal(
    join: Join, server: redis.Redis
) -> None:
    server.rpush("s:start_urls", b"\xff\x00" * 5000)
    join(bounds=BOUNDS).say(want_seeds=1)
    (entry,) = failed(server)
    assert entry["data_hex"] == "ff00" * 1000


def test_many_large_seeds_are_set_aside_in_several_exchanges_each_under_its_own_id(
    join: Join, server: redis.Redis
) -> None:
    server.rpush("s:start_urls", *(str(n).encode() * 2 * MIB for n in range(25)), b"http://a.test/")
    worker = join()
    leases: list[str] = []
    for _ in range(30):
        leases += payloads(worker.say(want_seeds=100).leases)
        if leases:
            break
    assert leases == ["http://a.test/"]
    entries = failed(server)
    assert len(entries) == len({entry["id"] for entry in entries}) == 25
    assert server.llen("s:start_urls") == 0


def test_a_repeated_exchange_sets_a_large_seed_aside_once(join: Join, server: redis.Redis) -> None:
    server.rpush("s:start_urls", b"x" * 6000)
    worker = join(bounds=BOUNDS)
    worker.say(want_seeds=1)
    worker.repeat(want_seeds=1)
    assert len(failed(server)) == 1


def test_a_seed_with_only_its_beginning_is_not_put_back_but_forgotten(
    join: Join, server: redis.Redis
) -> None:
    server.rpush("s:start_urls", b"x" * 6000)
    join(bounds=BOUNDS).say(want_seeds=1)
    listed = FailedRequests(server, Keys("s"))
    (entry,) = listed
    assert (entry.size, entry.can_go_back) == (6000, False)
    assert listed.requeue() == 0
    assert (server.llen("s:start_urls"), len(listed)) == (0, 1)
    assert listed.forget(id=entry.id) == 1


# -- a crawl, and the command ------------------------------------------------------------------------


def test_a_crawl_goes_on_after_a_large_seed(fleet: Fleet, server: redis.Redis) -> None:
    large = json.dumps({"url": page_url(1), "body": "x" * 5 * MIB})
    server.lpush("graph:start_urls", page_url(10_001), large, page_url(10_002))
    fleet.start("graph", GRAPH_PAGES=1)
    fleet.wait()
    assert fleet.reasons() == ["finished"]
    assert {page_url(10_001), page_url(10_002)} <= set(fleet.urls("parsed"))
    (entry,) = failed(server, "graph")
    assert (entry["size"], entry["data"]) == (len(large), large[:2000])
    assert "Moved to the failed list: 1 request or seed" in fleet.log()


def seed(url: str, *arguments: str, **options: Any) -> tuple[int, str]:
    """Run ``scrapy frontier seed graph``; return its code, and what it has written."""
    done = run_python("-m", "scrapy", "frontier", "seed", "graph", *arguments, redis_url=url, **options)
    return done.returncode, done.stdout + done.stderr


def test_the_command_refuses_a_large_seed(server: redis.Redis, redis_url: str) -> None:
    lines = f"{page_url(1)}\n{page_url(2)}?{'x' * MIB}\n"
    code, text = seed(redis_url, "-", stdin=lines)
    assert code == 1
    assert "it has 1,048,596 bytes; FRONTIER_MAX_SEED_BYTES is 1,048,576" in text
    assert len(text) < 1000
    assert server.llen("graph:start_urls") == 0
    assert seed(redis_url, "-", "-s", "FRONTIER_MAX_SEED_BYTES=2000000", stdin=lines)[0] == 0
    assert server.llen("graph:start_urls") == 2
