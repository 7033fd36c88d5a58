"""``scrapy frontier`` on a terminal, and with nobody at the frontier."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from ..project.crawls.graph import page_url
from ..support.crawl import PROJECT, Fleet, run_python, wait_until
from .test_frontier_command import frontier

pytestmark = pytest.mark.single("what is typed and printed; what is behind it is tested on every server")


def test_control_characters_of_a_request_do_not_steer_the_terminal(
    server: redis.Redis, redis_url: str
) -> None:
    server.rpush("graph:start_urls", b"x")
    server.hset("graph:meta", mapping={"format": "3", "epoch": "1", "requests_key": "graph:requests"})
    server.zadd("graph:requests", {b'{"url":"http://a/\x1b[2Jb"}': 0})
    assert "\x1b" not in frontier(redis_url, "peek", "graph", "-s", "SCHEDULER_SERIALIZER=json")


def test_an_empty_queue_is_said_to_be_empty(server: redis.Redis, redis_url: str) -> None:
    server.hset("graph:meta", mapping={"format": "4", "epoch": "1", "requests_key": "graph:requests"})
    server.rpush("graph:start_urls", b"http://a/")
    said = frontier(redis_url, "peek", "graph").splitlines()
    assert said == ["No request of spider graph waits", "1 seed is read first"]


def test_line_breaks_in_redis_print_no_line_of_their_own(server: redis.Redis, redis_url: str) -> None:
    forged = "x\n9      999  GET  http://forged/"
    about = json.dumps({"host": forged, "version": forged})
    server.hset("graph:meta", mapping={"format": "4", "epoch": "1", "requests_key": "graph:requests"})
    server.zadd("graph:workers", {"w": 1, forged: 2})
    server.hset("graph:worker:w", "about", about)
    entry = json.dumps({"url": f"http://a/{forged}", "method": forged})
    server.zadd("graph:requests", {entry: 0})
    server.hset(f"graph:leases:{forged}", "1.1", f"request 0 0@1 {entry}")
    failed = {"id": forged, "kind": forged, "reason": forged, "time": 1, "worker": forged, "score": forged}
    server.rpush("graph:failed", json.dumps({**failed, "data": entry, "history": "", "deaths": 0}))
    for arguments in (
        ["peek", "graph"],
        ["leases", "graph"],
        ["workers", "graph"],
        ["failed", "graph"],
        ["failed", "graph", "--id", forged],
        ["explain", "graph", f"http://a/{forged}"],
        ["peek", "graph", "-s", f"SCHEDULER_QUEUE_CLASS={forged}"],
    ):
        done = run_python("-m", "scrapy", "frontier", *arguments, redis_url=redis_url)
        said = (done.stdout + done.stderr).splitlines()
        assert [line for line in said if "forged" in line], arguments
        assert not [line for line in said if line.startswith("9  ")], arguments


def test_an_unread_pickle_is_shown_without_its_content(server: redis.Redis, redis_url: str) -> None:
    data = pickle.dumps({"url": "http://a/b", "method": "POST", "callback": "parse_item"}, protocol=4)
    server.zadd("graph:requests", {data: -3})
    _, row = frontier(redis_url, "peek", "graph").splitlines()
    assert " ".join(row.split()) == (
        f"1 3 - - a pickle of {len(data)} bytes, which is not read because that may run code. If you trust "
        "it, add -s SCHEDULER_SERIALIZER=pickle"
    )
    (shown,) = map(json.loads, frontier(redis_url, "peek", "graph", "--json").splitlines())
    assert (shown["url"], shown["problem"][:8], shown["data_hex"]) == ("", "a pickle", data.hex())
    assert "request" not in shown
    _, row = frontier(redis_url, "peek", "graph", "-s", "SCHEDULER_SERIALIZER=pickle").splitlines()
    assert row.split() == ["1", "3", "POST", "parse_item", "http://a/b"]


@pytest.mark.parametrize("has_rich", [True, pytest.param(False, marks=pytest.mark.long)])
def test_nothing_that_is_in_redis_steers_a_real_terminal(
    server: redis.Redis, redis_url: str, has_rich: bool, tmp_path: Path
) -> None:
    evil = "\x1b]0;pwned\x07\x9b2J"
    about = json.dumps({"host": evil, "version": evil})
    server.hset("graph:meta", mapping={"format": evil, "epoch": "1", "requests_key": "graph:requests"})
    server.zadd("graph:workers", {"w": 1})
    server.hset("graph:worker:w", "about", about)
    server.zadd("graph:requests", {json.dumps({"url": f"http://a/{evil}"}, ensure_ascii=False): 0})
    hidden = "" if has_rich else "import sys; sys.modules['rich'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(hidden)
    for arguments in (
        ["status", "graph"],
        ["workers", "graph"],
        ["peek", "graph"],
        ["peek", "graph", "--json"],
    ):
        seen = on_a_terminal(redis_url, *arguments, PYTHONPATH=str(tmp_path))
        assert b"pwned" in seen
        assert b"\x1b]" not in seen
        assert "\x9b".encode() not in seen


def on_a_terminal(redis_url: str, *arguments: str, **environment: str) -> bytes:
    """Return what a terminal is sent."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "frontier", *arguments],
        cwd=PROJECT,
        env={**os.environ, "REDIS_URL": redis_url, "TERM": "xterm", "COLUMNS": "300", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # so Linux says that the other end is closed
        while part := os.read(ours, 65536):
            seen += part
    process.wait(30)
    os.close(ours)
    return seen


def test_nothing_is_removed_if_it_could_not_be_forgotten(server: redis.Redis, redis_url: str) -> None:
    mapping = {"format": "4", "epoch": "1", "REQUEST_FINGERPRINTER_CLASS": "shop.Fingerprinter"}
    server.hset("graph:meta", mapping=mapping)
    server.zadd("graph:requests", {json.dumps({"url": page_url(1)}): 0})
    refusal = frontier(redis_url, "remove", "graph", "*", "--forget", code=1)
    assert "make fingerprints with shop.Fingerprinter" in refusal
    assert server.zcard("graph:requests") == 1


def cleared(redis_url: str, answer: str) -> tuple[int, str]:
    """Type *answer* at a terminal that asks whether to clear the frontier."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "frontier", "clear", "graph"],
        cwd=PROJECT,
        env={**os.environ, "REDIS_URL": redis_url},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    os.close(theirs)
    os.write(ours, answer.encode() + b"\n")
    shown, _ = process.communicate(timeout=30)
    os.close(ours)
    return process.returncode, shown


@pytest.fixture
def left(server: redis.Redis, redis_url: str, fleet: Fleet) -> redis.Redis:
    """A frontier that a crawl has left."""
    fleet.start("graph", GRAPH_PAGES=5000, GRAPH_LATENCY=0.05)
    wait_until(lambda: len(fleet.events("parsed")) > 20)
    frontier(redis_url, "stop", "graph")
    fleet.wait()
    return server


def test_a_frontier_is_cleared_when_that_was_said_and_agreed_to(left: redis.Redis, redis_url: str) -> None:
    assert "there is no terminal to ask on" in frontier(redis_url, "clear", "graph", code=1)
    code, shown = cleared(redis_url, "n")
    assert (code, "Nothing was removed" in shown) == (1, True)
    assert left.exists("graph:slots", "graph:dupefilter") == 2
    code, shown = cleared(redis_url, "y")
    assert code == 0
    assert "waiting" in shown
    # What is left of the workers that have left is gone in a minute.
    assert [key for key in left.scan_iter() if left.ttl(key) < 0] == []
