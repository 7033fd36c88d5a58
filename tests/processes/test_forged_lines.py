"""The log of a worker that crawls hostile requests has no forged line and no raw control character."""

from __future__ import annotations

import json
import re

import pytest
import redis

from ..project.crawls.graph import page_url
from ..support.crawl import Fleet
from ..unit.test_log_safety import HOSTILE, URL

pytestmark = pytest.mark.single("its log")

GOOD = [page_url(1_000_000 + number) for number in range(5)]
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: Each line of a log begins with a time, apart from the lists that Scrapy logs at the start and at the end.
FORGED = re.compile(r"^2026-01-01|^fake|^X-Evil|ERROR: forged$", re.MULTILINE)


@pytest.mark.parametrize("kind", ["seeds", "entries"])
def test_hostile_requests_forge_no_line_and_are_all_accounted_for(
    fleet: Fleet, server: redis.Redis, kind: str
) -> None:
    hostile = [json.dumps({"url": URL, **fields}).encode() for fields in HOSTILE.values()]
    good = [json.dumps({"url": url}).encode() for url in GOOD]
    if kind == "seeds":
        server.rpush("graph:start_urls", *good, *hostile)
    else:
        server.zadd("graph:requests", {entry: n for n, entry in enumerate([*good, *hostile])})
    fleet.start("graph", LOG_LEVEL="DEBUG", COOKIES_DEBUG="True", GRAPH_PAGES=0)
    fleet.wait(timeout=60)
    log = (fleet.folder / "worker-0.log").read_bytes().decode()
    assert fleet.reasons() == ["finished"], log
    assert not CONTROL.search(log)
    assert not FORGED.search(log)
    failed = [json.loads(entry) for entry in server.lrange("graph:failed", 0, -1)]
    assert sorted(entry["data"].encode() for entry in failed) == sorted(hostile)
    assert all(entry["reason"].isprintable() for entry in failed)
    assert set(GOOD) <= set(fleet.urls("downloaded"))
