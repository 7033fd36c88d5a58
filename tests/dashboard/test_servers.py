"""The dashboard on whatever servers there are: one, with Sentinels, or a Cluster."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.keys import Keys

from ..support.client import Client
from .asgi import ask, do
from .conftest import Make
from .filled import failed_entry, push


@pytest.fixture
def app(make: Make, server: redis.Redis) -> Any:
    keys = Keys("shop", hash_tag=needs_hash_tag(server))
    worker = Client(server, "w", "priority", 30, 5, keys=keys).open()
    push(worker, {f"h{n}.example": n + 1 for n in range(9)})
    worker.take(2)
    server.rpush(keys.failed, failed_entry(1, "bad", "https://h1.example/x"))
    return make(actions=True)


def get(app: Any, path: str) -> Any:
    answer = ask(app, f"/api/v1/{path}")
    assert answer.status == 200, answer.body
    return answer.json()


def test_everything_is_shown(app: Any) -> None:
    (one,) = get(app, "status")["frontiers"]
    assert (one["name"], one["status"]["waiting"], one["alive"]) == ("shop", 43, 1)
    assert [slot["slot"] for slot in get(app, "slots?spider=shop")["slots"]][:2] == [
        "h8.example",
        "h7.example",
    ]
    assert get(app, "failed/counts?spider=shop")["counts"][0]["error"] == "bad"
    assert len(get(app, "failed?spider=shop")["failed"]) == 1
    assert len(get(app, "peek?spider=shop")["requests"]) == 20
    assert len(get(app, "workers?spider=shop")["workers"]) == 1
    assert get(app, "events?spider=shop")["events"]
    assert get(app, "explain?spider=shop&url=https://h8.example/page/8")["waiting"]


def test_everything_can_be_done(app: Any) -> None:
    url = "https://h8.example/page/8"
    bodies: dict[str, dict[str, Any]] = {
        "pause": {},
        "resume": {},
        "seed": {"seeds": [url]},
        "forget": {"urls": [url]},
        "slots/block": {"slot": "h8.example", "seconds": 9},
        "slots/unblock": {"slot": "h8.example"},
        "slots/set": {"slot": "h8.example", "delay": 2},
        "slots/reset": {"slot": "h8.example"},
        "failed/requeue": {"reason": "bad"},
        "stop": {},
    }
    for action, body in bodies.items():
        answer = do(app, action, spider="shop", **body)
        assert (answer.status, answer.json()["warning"]) == (200, ""), (action, answer.body)
        assert answer.json()["count"] > 0, action
    done = [entry["action"] for entry in get(app, "audit?spider=shop")["audit"]]
    assert done == list(bodies)[::-1]
