"""Entries of megabytes in Redis: the page shows their beginnings, and stays small and quick."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from scrapy_rq_sched import FailedRequests
from scrapy_rq_sched.frontier.messages import Failed
from scrapy_rq_sched.keys import Keys

from ..support.client import Client
from ..support.crawl import run_python
from .asgi import ask, do
from .conftest import Make
from .filled import failed_entry
from .test_command import Served

pytestmark = pytest.mark.single("the workers here have the keys of a single server")

MB = 1_000_000
LONG = "x" * 2 * MB
#: The maximum of an answer, in bytes.
LARGEST = 1_100_000
PATHS = ("status", "workers", "slots", "pools", "failed/counts", "failed", "peek", "events", "audit")
URL = "http://a.test/long"


def fill(server: redis.Redis, count: int = 12, long: str = LONG) -> Client:
    """Make a frontier with long entries in each of its lists; return its worker."""
    keys = Keys("shop")
    worker = Client(server, "w", "priority", 30, 5, keys=keys).open()
    worker.push("a")
    for number in range(count):
        request = json.dumps({"url": f"{URL}/{number}", "meta": {"x": long}}, separators=(",", ":"))
        server.zadd(keys.requests, {request: number})
        server.rpush(keys.start_urls[0], request)
        server.rpush(keys.failed, failed_entry(number, f"bad {number}", f"{URL}/{number}", history=long))
        server.lpush(keys.audit, json.dumps({"action": "pause", "who": long}))
        server.xadd(keys.events, {"event": json.dumps({"type": "paused", "time": 1, "text": long})})
        server.hset(keys.leases("w"), f"1.{number}", f"request 0 0@1 {request}")
        server.zadd(keys.slots, {f"{number}{long}": number})
    # As the scripts write them, with the data at the end.
    server.rpush(keys.start_urls[0], *(f"no url {long}" for _ in range(count)))
    return worker


@pytest.fixture
def served(tmp_path: Path, server: redis.Redis, redis_url: str) -> Iterator[Served]:
    """A dashboard in a process of its own, of a frontier with long entries."""
    fill(server)
    one = Served(tmp_path / "log", redis_url)
    yield one
    one.process.kill()
    one.process.wait()


def test_an_answer_has_a_greatest_size(served: Served) -> None:
    sizes = {}
    for path in (*(f"{path}?spider=shop&limit=200" for path in PATHS), f"explain?spider=shop&url={URL}/1"):
        status, body = served.get(f"api/v1/{path}")
        assert status == 200, (path, body)
        sizes[path] = len(body)
    assert {path: size for path, size in sizes.items() if size > LARGEST} == {}


@pytest.fixture
def app(make: Make, server: redis.Redis) -> Any:
    fill(server, 3)
    return make(actions=True)


def get(app: Any, path: str) -> Any:
    answer = ask(app, f"/api/v1/{path}")
    assert answer.status == 200, answer.body
    return answer.json()


def test_a_long_failed_entry_is_shown_with_its_size(app: Any) -> None:
    found = get(app, "failed?spider=shop")
    (latest, *_) = found["failed"]
    assert (latest["id"], latest["reason"], latest["url"]) == ("w1-2", "bad 2", f"{URL}/2")
    assert latest["entry_size"] > 2 * MB
    assert len(latest["history"]) == 4000
    assert [one["error"] for one in get(app, "failed/counts?spider=shop")["counts"]] != []


def test_a_long_request_is_shown_with_its_url_and_its_size(app: Any) -> None:
    requests = get(app, "peek?spider=shop")["requests"]
    long = [one for one in requests if "size" in one]
    assert [one["url"] for one in long] == [f"{URL}/{number}" for number in range(3)]
    assert all(one["size"] > 2 * MB for one in long)
    assert long[0]["problem"].endswith("of which only the beginning was read")


def test_a_long_request_is_found_by_its_url(app: Any) -> None:
    found = get(app, f"explain?spider=shop&url={URL}/1")
    for place in ("waiting", "leased", "seeds"):
        (entry,) = found[place]
        assert (entry["url"], entry["size"] > 2 * MB) == (f"{URL}/1", True), place


def test_a_long_entry_of_the_audit_list_is_shown_with_its_size(app: Any) -> None:
    (entry, *_) = get(app, "audit?spider=shop")["audit"]
    assert (entry["action"], entry["arguments"]) == ("unknown", {})
    assert entry["result"].startswith("an entry of 2,000,")


def test_a_long_event_is_shown_with_its_beginning(app: Any) -> None:
    event = get(app, "events?spider=shop")["events"][-1]
    assert event["type"] == "unknown"


def test_an_answer_with_too_many_bytes_says_that_there_is_more(make: Make, server: redis.Redis) -> None:
    Client(server, "w", "priority", 30, 5, keys=Keys("shop")).open()
    for number in range(200):
        server.rpush("shop:failed", failed_entry(number, "bad", URL, traceback="t" * 15_000))
    app = make()
    found = get(app, "failed?spider=shop&limit=200")
    assert found["more"] is True
    assert 50 < len(found["failed"]) < 70
    offset = len(found["failed"])
    following = get(app, f"failed?spider=shop&limit=200&offset={offset}")["failed"]
    assert following[0]["id"] == f"w1-{199 - offset}"
    assert "more" not in get(app, "failed?spider=shop&limit=10")


@pytest.mark.parametrize("action", ["requeue", "forget"])
def test_a_failed_entry_that_is_shown_in_part_is_put_back_or_removed_as_a_whole(
    make: Make, server: redis.Redis, action: str
) -> None:
    worker = Client(server, "w", "priority", 30, 5, keys=Keys("shop")).open()
    request = json.dumps({"url": URL, "meta": {"x": 9 * LONG}}, separators=(",", ":"), ensure_ascii=False)
    for payload in ("small", request, "last"):
        server.zadd("shop:requests", {payload: 0})
        (lease,) = worker.take(1)
        worker.say(failed=[Failed(lease.name, 0, f"bad {payload[:9]}", "Traceback …")])
    app = make(actions=True)
    (shown,) = (one for one in get(app, "failed?spider=shop")["failed"] if "entry_size" in one)
    assert (shown["url"], shown["traceback"]) == (URL, "Traceback …")
    assert request.startswith(shown["data"])
    answer = do(app, f"failed/{action}", spider="shop", id=shown["id"])
    assert answer.json()["count"] == 1, answer.body
    assert server.llen("shop:failed") == 2
    assert server.zrange("shop:requests", 0, -1) == ([request.encode()] if action == "requeue" else [])
    assert sum(path["count"] for path in get(app, "failed/counts?spider=shop")["counts"]) == 2


def test_binary_data_of_a_failed_entry_is_shown_in_part(make: Make, server: redis.Redis) -> None:
    worker = Client(server, "w", "priority", 30, 5, keys=Keys("shop")).open()
    server.zadd("shop:requests", {b"\xff\x00" * MB: 0})
    (lease,) = worker.take(1)
    worker.say(failed=[Failed(lease.name, 0, "bad")])
    (shown,) = get(make(), "failed?spider=shop")["failed"]
    assert shown["data_hex"].startswith("ff00ff00")
    assert len(shown["data_hex"]) < 20_000


def test_a_failed_list_of_long_entries_is_read_completely(server: redis.Redis) -> None:
    entries = [failed_entry(number, "bad", URL, traceback=LONG * (1 + number % 6)) for number in range(14)]
    server.rpush("s:failed", *entries)
    assert [one.entry.decode() for one in FailedRequests(server, Keys("s"))] == entries


@pytest.mark.parametrize("command", ["failed", "peek", "leases"])
def test_a_command_lists_long_entries_in_short(server: redis.Redis, redis_url: str, command: str) -> None:
    fill(server, 3)
    done = run_python("-m", "scrapy", "frontier", command, "shop", redis_url=redis_url)
    assert done.returncode == 0, done.stderr
    assert f"{URL}/2" in done.stdout
    assert len(done.stdout) < 20_000
    whole = run_python("-m", "scrapy", "frontier", command, "shop", "--json", redis_url=redis_url)
    assert sum(LONG in line for line in whole.stdout.splitlines()) == 3


def test_a_history_that_another_program_has_filled_is_read_in_part(
    make: Make, server: redis.Redis, shop: list[Client]
) -> None:
    server.rpush("shop:pages", *[f"{1_700_000_000 + n} 5 5" for n in range(50_000)])
    answer = ask(make(), "/api/v1/status?spider=shop")
    assert len(answer.body) < 100_000
