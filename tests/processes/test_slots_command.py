"""``scrapy frontier slots``: the slots of a frontier from a terminal."""

from __future__ import annotations

import json
import subprocess

import pytest
import redis

from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.keys import Keys

from ..support.client import Client
from ..support.crawl import run_python

pytestmark = pytest.mark.single("the worker here has the keys of a single server")


def slots(redis_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command for the spider graph."""
    return run_python("-m", "scrapy", "frontier", "slots", "graph", *arguments, redis_url=redis_url)


def said(redis_url: str, *arguments: str) -> str:
    done = slots(redis_url, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def refused(redis_url: str, *arguments: str) -> str:
    done = slots(redis_url, *arguments)
    assert (done.returncode != 0, done.stdout) == (True, "")
    return done.stderr


@pytest.fixture(autouse=True)
def worker(server: redis.Redis) -> Client:
    """A worker whose frontier has a host, and a slot with a space in its name."""
    worker = Client(server, "w", "priority", 30, 5, keys=Keys("graph")).open()
    worker.say(pushes=[Push("force", "", 0, b"x", slot) for slot in ("www.example.com", "my%20slot", "-")])
    return worker


def limits(server: redis.Redis) -> list[bytes]:
    return sorted(server.hkeys("graph:slots:limits"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("www.example.com", b"www.example.com"),
        ("WWW.Example.com", b"www.example.com"),
        ("my slot", b"my%20slot"),
        ("my%20slot", b"my%20slot"),
        ("-", b"-"),
    ],
)
def test_a_slot_is_known_by_each_of_its_names(
    redis_url: str, server: redis.Redis, text: str, name: bytes
) -> None:
    assert "delay=5 for slot" in said(redis_url, "set", text, "delay=5")
    assert limits(server) == [b"set " + name]


def test_a_slot_that_has_no_request_yet_is_set_and_said_to_have_none(
    redis_url: str, server: redis.Redis
) -> None:
    assert "It has 0 waiting requests" in said(redis_url, "block", "Other.example.com", "5m")
    assert server.exists("graph:slots:state:other.example.com")


@pytest.mark.parametrize("text", ["*.example.com", "http://www.example.com/"])
def test_a_pattern_or_a_url_is_no_slot(redis_url: str, server: redis.Redis, text: str) -> None:
    assert "must be a host name" in refused(redis_url, "set", text, "delay=5")
    assert limits(server) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["set", "a", "delay=-1"],
        ["set", "a", "delay=nan"],
        ["set", "a", "delay=1", "delay=9"],
        ["set", "a"],
        ["block", "a", "soon"],
        ["block", "a", "-5m"],
        ["block", "a"],
        ["--top", "-1"],
        ["--top", "0"],
    ],
)
def test_an_invalid_limit_is_refused(redis_url: str, server: redis.Redis, arguments: list[str]) -> None:
    assert "Traceback" not in refused(redis_url, *arguments)
    assert limits(server) == []


def test_slots_of_a_frontier_without_slots_are_not_changed(redis_url: str, server: redis.Redis) -> None:
    assert "FRONTIER_BY_SLOT" in refused(redis_url, "set", "a", "delay=1", "-s", "FRONTIER_BY_SLOT=False")
    assert limits(server) == []


def test_json_has_an_object_a_slot(redis_url: str) -> None:
    said(redis_url, "block", "my slot", "10m")
    by_name = {one["slot"]: one for one in map(json.loads, said(redis_url, "--json").splitlines())}
    assert set(by_name) == {"www.example.com", "my%20slot", "-"}
    assert by_name["my%20slot"]["why"] == "blocked"
