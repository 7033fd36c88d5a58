"""A page changes no key of another frontier that a neighbour has named in the meta of its own."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from scrapy_rq_sched.dashboard.actions import ACTIONS
from scrapy_rq_sched.keys import Keys

from ..support.client import Client
from .asgi import ask, do
from .conftest import Make
from .filled import add_pool

pytestmark = pytest.mark.single("the workers here have the keys of a single server")

SEED = "https://example.com/"
#: The actions that use no key that meta names.
CONTROL: dict[str, dict[str, Any]] = {
    **{order: {} for order in ("pause", "drain", "resume", "stop")},
    "workers/stop": {"worker": "a"},
    "deny": {"url": "example.com"},
    "allow": {"url": "denied.example"},
    "pools/add": {"pool": "accounts", "items": ["carol"]},
    "pools/remove": {"pool": "accounts", "items": ["alice"]},
    "pools/rest": {"pool": "accounts", "item": "alice", "seconds": 60},
    "pools/retire": {"pool": "accounts", "item": "bob"},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "seed": {"seeds": [SEED]},
    "forget": {"urls": [SEED]},
    "failed/requeue": {},
    "failed/forget": {},
    "slots/block": {"slot": "example.com", "seconds": 60},
    "slots/unblock": {"slot": "example.com"},
    "slots/set": {"slot": "example.com", "delay": 2},
    "slots/reset": {"slot": "example.com"},
}


@pytest.fixture
def evil(server: redis.Redis) -> dict[bytes, bytes]:
    """Have a frontier evil whose meta names keys of prod; return all that prod's keys hold."""
    for spider in ("prod", "evil"):
        worker = Client(server, "a", "priority", 30.0, 5, keys=Keys(spider)).open()
        worker.push("one")
        server.rpush(f"{spider}:start_urls", SEED)
    foreign = {
        "dupefilter_key": "prod:dupefilter",
        "start_urls_keys": "prod:start_urls",
        "slot_states": "prod:slots:state",
        "places_key": "prod:places",
    }
    server.hset("evil:meta", mapping=foreign)
    return held(server)


def held(server: redis.Redis) -> dict[bytes, bytes]:
    return {key: server.dump(key) for key in server.scan_iter("prod:*")}


def names(app: Any) -> list[str]:
    return [frontier["name"] for frontier in ask(app, "/api/v1/status").json()["frontiers"]]


def test_every_action_is_in_this_test() -> None:
    assert set(CONTROL) | set(ARGUMENTS) == set(ACTIONS)


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("action", ARGUMENTS)
def test_an_action_refuses_keys_of_another_frontier_that_meta_names(
    make: Make, server: redis.Redis, evil: dict[bytes, bytes], action: str, dry_run: bool
) -> None:
    answer = do(make(actions=True), action, spider="evil", dry_run=dry_run, **ARGUMENTS[action])
    assert answer.status == 400
    assert "'evil:meta' in Redis names 'prod:dupefilter'" in answer.error
    assert "-s SCHEDULER_DUPEFILTER_KEY=prod:dupefilter" in answer.error
    assert held(server) == evil


@pytest.mark.parametrize("action", sorted(CONTROL))
def test_an_order_to_the_workers_changes_no_key_of_another_frontier(
    make: Make, server: redis.Redis, evil: dict[bytes, bytes], action: str
) -> None:
    server.hset("evil:meta:denied", "denied.example", 0)
    add_pool(server, "evil")
    assert do(make(actions=True), action, spider="evil", **CONTROL[action]).status == 200
    assert held(server) == evil


def test_a_page_with_settings_that_name_the_keys_pushes_seeds_to_them(
    make: Make, server: redis.Redis, evil: dict[bytes, bytes]
) -> None:
    settings = {
        "SCHEDULER_DUPEFILTER_KEY": "prod:dupefilter",
        "REDIS_START_URLS_KEY": "prod:start_urls",
        "FRONTIER_SLOTS_KEY": "prod:slots:state",
        "FRONTIER_MAX_WORKERS_KEY": "prod:places",
    }
    assert do(make(settings, actions=True), "seed", spider="evil", seeds=[SEED]).status == 200
    assert server.llen("prod:start_urls") == 2


def test_a_frontier_that_claims_another_spiders_name_is_named_by_its_queue(
    make: Make, server: redis.Redis, evil: dict[bytes, bytes]
) -> None:
    server.hset("evil:meta", "spider", "prod")
    assert names(make()) == ["evil:requests", "prod"]
    server.delete(*server.keys("prod:*"))
    app = make(actions=True)
    assert names(app) == ["evil:requests"]
    assert "There is no frontier 'prod'" in do(app, "pause", spider="prod").error


def test_the_keys_of_the_settings_are_not_for_a_frontier_that_only_claims_the_spider(
    make: Make, server: redis.Redis, evil: dict[bytes, bytes]
) -> None:
    server.hset("evil:meta", "spider", "prod")
    app = make(actions=True)
    names(app)
    answer = do(app, "seed", spider="evil:requests", seeds=[SEED])
    assert answer.status == 400
    assert "-s SCHEDULER_QUEUE_KEY=evil:requests -s SCHEDULER_DUPEFILTER_KEY=prod:dupefilter" in answer.error
    assert held(server) == evil
