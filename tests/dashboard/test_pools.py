"""The pools on the page: their items, changes of them, and nothing that is secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.keys import Keys

from ..support import pools
from ..support.client import Client
from ..support.pools import PAGE, PASSWORD, SECRET
from .asgi import ask, do
from .conftest import Make

pytestmark = pytest.mark.single("the workers here have the keys of a single server")

API = "/api/v1"


@pytest.fixture
def worker(server: redis.Redis, redis_url: str) -> Client:
    worker = pools.start(server)
    pools.fill(worker, View.from_settings(Settings({"REDIS_URL": redis_url}), "pooled"))
    return worker


@pytest.fixture
def page(make: Make, worker: Client) -> Any:
    return make(actions=True)


def items(page: Any) -> dict[str, Any]:
    return {item["name"]: item for item in ask(page, f"{API}/pools?spider=pooled").json()["items"]}


def test_the_items_have_their_states_and_workers(page: Any) -> None:
    found = items(page)
    assert len(found) == 9
    assert (found["alice"]["state"], found["alice"]["workers"]) == ("in use", ["w-1"])
    assert (found["carol"]["state"], found["carol"]["retired"]) == ("retired", "it is locked")


def test_a_spider_without_pools_has_no_items(server: redis.Redis, make: Make) -> None:
    pools.start(server, "plain", pools=())
    answer = ask(make(), f"{API}/pools?spider=plain").json()
    assert (answer["items"], answer["has_more"]) == ([], False)
    assert ask(make(), f"{API}/status?spider=plain").json()["frontier"]["status"]["pools"] == []


def test_items_are_changed(page: Any, server: redis.Redis) -> None:
    answer = do(page, "pools/add", spider="pooled", pool="accounts", items=["carol"])
    assert (answer.status, items(page)["carol"]["state"]) == (200, "free")
    do(page, "pools/rest", spider="pooled", pool="accounts", item="dave", seconds=60, reason="captcha")
    assert (items(page)["dave"]["state"], items(page)["dave"]["why"]) == ("rests", "captcha")
    do(page, "pools/retire", spider="pooled", pool="accounts", item="dave")
    assert items(page)["dave"]["state"] == "retired"
    do(page, "pools/remove", spider="pooled", pool="accounts", items=["dave"])
    assert "dave" not in items(page)


def test_no_answer_of_the_page_has_a_secret(page: Any, server: redis.Redis) -> None:
    whole = json.dumps({"user": "gina", "password": PASSWORD})
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("add", {"pool": "accounts", "items": [whole]}),
        ("add", {"pool": "keys", "items": [f"{SECRET}-another"]}),
        ("add", {"pool": "accounts", "items": [f'{{"password": {PASSWORD}']}),
        ("add", {"pool": "accounts", "items": [f"{PASSWORD}\ud800"]}),
        ("add", {"pool": "accounts", "items": PASSWORD}),
        ("rest", {"pool": "accounts", "item": PASSWORD, "seconds": 5}),
        ("retire", {"pool": "proxies", "item": f"http://u:{PASSWORD}@p1.example:3128"}),
        ("remove", {"pool": "keys", "items": [f"{SECRET}-another"]}),
        ("remove", {"pool": "accounts", "items": [PASSWORD]}),
    ]
    answers = [
        do(page, f"pools/{name}", spider="pooled", dry_run=is_dry, **body)
        for name, body in bodies
        for is_dry in (True, False)
    ]
    assert {answer.status for answer in answers} == {200, 400}
    texts = [answer.body.decode() for answer in answers]
    lists = ("about", "status", "workers", "slots", "pools", "peek", "failed/counts", "failed", "events")
    for path in (*lists, "audit"):
        found = ask(page, f"{API}/{path}?spider=pooled")
        assert found.status == 200
        texts.append(found.body.decode())
    more = (*(f"{API}/explain?spider=pooled&url={PAGE}/{number}" for number in (1, 2)), "/metrics")
    texts += [ask(page, path).body.decode() for path in more]
    assert any("'gina'" in text for text in texts)
    assert not [text for text in texts if SECRET in text]
    noted = str(server.lrange(Keys("pooled").audit, 0, -1))
    assert ("gina" in noted, SECRET in noted) == (True, False)
