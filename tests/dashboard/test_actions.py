"""What the dashboard does to a frontier, on a real Redis; and that it is noted who did it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import redis

from scrapy_rq_sched.dashboard.actions import ACTIONS, Action
from scrapy_rq_sched.frontier.replies import Order
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.audit import MOST, Audit
from scrapy_rq_sched.keys.table import KEYS

from ..support.client import Client
from .asgi import do
from .conftest import Make
from .filled import REASONS, add_pool, failed_entry, worker_name

pytestmark = pytest.mark.single("the workers here have the keys of a single server")

PAGE = "https://www.books.example/page"


def done(app: Any, action: str, **body: Any) -> Any:
    answer = do(app, action, spider="shop", **body)
    assert answer.status == 200, answer.body
    return answer.json()


def refused(app: Any, action: str, **body: Any) -> str:
    answer = do(app, action, **{"spider": "shop", **body})
    assert answer.status == 400, answer.body
    return answer.error


def noted(view: View) -> list[dict[str, Any]]:
    return Audit(view).latest()


# -- each does what it says ------------------------------------------------------------------------------


def test_workers_are_told_to_pause_to_drain_to_go_on_and_to_stop(app: Any, shop: list[Client]) -> None:
    for action, told in {
        "pause": Order.PAUSE,
        "drain": Order.DRAIN,
        "resume": Order.CRAWL,
        "stop": Order.STOP,
    }.items():
        answer = done(app, action)
        assert answer["count"] == 3
        assert "3 workers" in answer["said"]
        assert shop[0].say().order == told


def test_one_worker_is_stopped(app: Any, shop: list[Client]) -> None:
    answer = done(app, "workers/stop", worker=shop[1].name)
    assert (answer["count"], f"Worker {shop[1].name} of spider shop will close" in answer["said"]) == (
        1,
        True,
    )
    assert [one.say().order for one in shop[:3]] == [Order.CRAWL, Order.STOP, Order.CRAWL]


def test_seeds_are_pushed_in_their_order(app: Any, server: redis.Redis) -> None:
    server.delete("shop:start_urls")
    seeds = [f"{PAGE}/1", json.dumps({"url": f"{PAGE}/2", "priority": 3})]
    answer = done(app, "seed", seeds=seeds, priority=9)
    assert (answer["count"], "3 workers will read them" in answer["said"]) == (2, True)
    pushed = [json.loads(seed) for seed in server.lrange("shop:start_urls", 0, -1)]
    assert [(seed["url"], seed["priority"]) for seed in pushed] == [(f"{PAGE}/1", 9), (f"{PAGE}/2", 3)]


def test_where_one_seed_is_bad_none_is_pushed(app: Any, server: redis.Redis) -> None:
    before = server.llen("shop:start_urls")
    said = refused(app, "seed", seeds=[f"{PAGE}/1", "no url", '{"url": 7}'])
    assert "2 seeds of 3 are invalid." in said
    assert "seed 2: " in said
    assert (server.llen("shop:start_urls"), server.exists("shop:seeding")) == (before, 0)


def test_urls_are_forgotten_and_crawled_again(app: Any, server: redis.Redis) -> None:
    before = server.scard("shop:dupefilter")
    answer = done(app, "forget", urls=[f"{PAGE}/300", "https://never.example/"])
    assert (answer["count"], server.scard("shop:dupefilter")) == (1, before - 1)
    seeds = server.llen("shop:start_urls")
    done(app, "forget", urls=[f"{PAGE}/301"], crawl=True)
    (seed,) = server.lrange("shop:start_urls", seeds, -1)
    assert json.loads(seed) == {"url": f"{PAGE}/301", "dont_filter": False}


def test_failed_requests_are_put_back(app: Any, server: redis.Redis, shop: list[Client]) -> None:
    waiting = shop[0].say().waiting
    assert done(app, "failed/requeue", reason=REASONS[2])["count"] == 3
    assert (server.llen("shop:failed"), shop[0].say().waiting) == (14, waiting + 3)
    assert done(app, "failed/requeue", id="w1-17")["count"] == 1
    assert server.llen("shop:failed") == 13


def test_entries_of_an_error_and_a_url_are_put_back(app: Any, server: redis.Redis) -> None:
    body = {"error": "callback raised TypeError", "url": "*/book/1*"}
    would, answer = (done(app, "failed/requeue", dry_run=dry, **body) for dry in (True, False))
    assert would["count"] == answer["count"] == 17 - server.llen("shop:failed") > 1
    assert done(app, "failed/forget", error="callback raised TypeError")["count"] == 7 - answer["count"]


def test_a_reason_is_all_of_it(app: Any, server: redis.Redis) -> None:
    for number, reason in enumerate(("", "down", "download failed"), 90):
        server.rpush("shop:failed", failed_entry(number, reason, f"{PAGE}/{number}"))
    for reason in ("", "down"):
        for dry in (True, False):
            assert done(app, "failed/forget", reason=reason, dry_run=dry)["count"] == 1
    assert server.llen("shop:failed") == 18


def test_a_url_that_is_given_twice_counts_once(app: Any) -> None:
    for dry in (True, False):
        assert done(app, "forget", urls=[f"{PAGE}/1", f"{PAGE}/1#twice"], dry_run=dry)["count"] == 1


def test_failed_requests_are_forgotten(app: Any, server: redis.Redis, shop: list[Client]) -> None:
    waiting = shop[0].say().waiting
    assert done(app, "failed/forget", reason=REASONS[1])["count"] == 7
    assert (server.llen("shop:failed"), shop[0].say().waiting) == (10, waiting)
    assert done(app, "failed/forget")["count"] == 10
    assert not server.exists("shop:failed")


def test_a_slot_is_blocked_and_free_again(app: Any, server: redis.Redis) -> None:
    answer = done(app, "slots/block", slot="www.books.example", seconds=60)
    assert (answer["count"], "418 waiting requests" in answer["said"]) == (418, True)
    assert float(server.hget("shop:slots:state:www.books.example", "blocked") or 0) > 0
    done(app, "slots/unblock", slot="www.books.example")
    assert float(server.hget("shop:slots:state:www.books.example", "blocked") or 0) == 0


def test_limits_of_a_slot_are_set_and_reset(app: Any, server: redis.Redis) -> None:
    done(app, "slots/set", slot="images.example.org", delay=3, concurrency=2)
    assert server.hget("shop:slots:limits", "set images.example.org") == b"3000.0 - 2"
    done(app, "slots/reset", slot="images.example.org")
    assert not server.hexists("shop:slots:limits", "set images.example.org")


# -- before it is done -----------------------------------------------------------------------------------

BODIES: dict[str, dict[str, Any]] = {
    "pause": {},
    "drain": {},
    "resume": {},
    "stop": {},
    "workers/stop": {"worker": worker_name("shop", 2)},
    "seed": {"seeds": [f"{PAGE}/1", f"{PAGE}/2"]},
    "forget": {"urls": [f"{PAGE}/300", f"{PAGE}/301", "https://never.example/"]},
    "failed/requeue": {"reason": REASONS[0]},
    "failed/forget": {"reason": REASONS[1]},
    "deny": {"url": "api.books.example"},
    "allow": {"url": "denied.example"},
    "slots/block": {"slot": "api.books.example", "seconds": 60},
    "slots/unblock": {"slot": "slow.example.net"},
    "slots/set": {"slot": "api.books.example", "delay": 7},
    "slots/reset": {"slot": "api.books.example"},
    "pools/add": {"pool": "accounts", "items": ["carol"]},
    "pools/remove": {"pool": "accounts", "items": ["alice", "bob"]},
    "pools/rest": {"pool": "accounts", "item": "alice", "seconds": 60},
    "pools/retire": {"pool": "accounts", "item": "bob", "reason": "it is locked"},
}


def contents(server: redis.Redis) -> dict[bytes, Any]:
    """Return all that is in Redis; a dump would also have the order of a set, which means nothing."""
    read = {
        b"string": server.get,
        b"stream": server.xrange,
        b"hash": server.hgetall,
        b"list": lambda key: server.lrange(key, 0, -1),
        b"set": server.smembers,
        b"zset": lambda key: server.zrange(key, 0, -1, withscores=True),
    }
    return {key: read[server.type(key)](key) for key in server.scan_iter()}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_dry_run_says_how_many_it_would_touch_and_changes_nothing(
    app: Any, server: redis.Redis, action: str
) -> None:
    server.hset("shop:meta:denied", "denied.example", 0)
    add_pool(server)
    before = contents(server)
    would = done(app, action, dry_run=True, **BODIES[action])
    assert contents(server) == before
    answer = done(app, action, **BODIES[action])
    assert would["count"] == answer["count"] > 0
    assert (would["dry_run"], answer["dry_run"]) == (True, False)
    assert contents(server) != before


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "body", "said"),
    [
        ("pause", {"spider": "nobody"}, "no frontier 'nobody'"),
        ("pause", {"spider": ""}, "spider is missing"),
        ("pause", {"spider": ["shop"]}, "spider must be a string"),
        ("workers/stop", {"worker": worker_name("shop", 4)}, "No worker of spider 'shop' that is alive"),
        ("workers/stop", {}, "worker is missing"),
        ("pause", {"force": True}, "Unknown fields: force"),
        ("pools/add", {"pool": "nobody", "items": ["x"]}, "has no pool of this name"),
        ("pools/add", {"pool": "accounts"}, "items must be a list of one or more strings"),
        ("pools/rest", {"pool": "accounts", "item": "x"}, "seconds is missing"),
        ("pools/rest", {"pool": "accounts", "seconds": 5}, "item must be a list of one or more strings"),
        ("pools/retire", {"item": "x"}, "pool is missing"),
        ("pause", {"dry_run": "no"}, "dry_run must be true or false"),
        ("seed", {}, "seeds must be a list of one or more strings"),
        ("seed", {"seeds": []}, "seeds must be a list of one or more strings"),
        ("seed", {"seeds": [1]}, "seeds must be a list of one or more strings"),
        ("seed", {"seeds": ["http://a.example/"] * 1001}, "it must have at most 1,000"),
        ("seed", {"seeds": ["http://a.example/"], "priority": "high"}, "priority must be a number"),
        ("seed", {"seeds": ["http://a.example/"], "priority": True}, "priority must be a number"),
        ("seed", {"seeds": ["http://a.example/"], "priority": 10**400}, "priority must be a number"),
        ("seed", {"seeds": ["http://a.example/"], "priority": math.nan}, "priority must be a number"),
        ("pause", {"spider": "\ud800"}, "spider must be valid Unicode"),
        ("forget", {"urls": ["http://a.example/\udfff"]}, "urls must be valid Unicode"),
        ("forget", {"urls": ["{"]}, "is neither a valid URL nor a JSON object"),
        ("slots/block", {"slot": "a.example"}, "seconds is missing"),
        ("slots/block", {"slot": "a.example", "seconds": -1}, "seconds must be a number from 1 to"),
        ("slots/block", {"slot": "a.example", "seconds": 1e9}, "seconds must be a number from 1 to"),
        ("slots/block", {"slot": "a.example", "seconds": math.inf}, "seconds must be a number from 1 to"),
        ("slots/block", {"slot": "*", "seconds": 9}, "The name of a slot must be"),
        ("slots/block", {"seconds": 9}, "slot is missing"),
        ("slots/set", {"slot": "a.example"}, "No limit is given"),
        ("slots/set", {"slot": "a.example", "delay": -1}, "delay must be a number"),
        ("slots/set", {"slot": "a.example", "jitter": 10**400}, "jitter must be a number from 0 to 1"),
        ("slots/set", {"slot": "a.example", "rate": "often"}, "rate must be a number of requests per second"),
        ("slots/set", {"slot": "a.example", "concurrency": 1.5}, "concurrency must be an integer ≥ 0"),
    ],
)
def test_an_impossible_action_is_refused_in_a_sentence(
    app: Any, server: redis.Redis, action: str, body: dict[str, Any], said: str
) -> None:
    before = {key: value for key, value in contents(server).items() if not key.endswith(b":audit")}
    assert said in refused(app, action, **body)
    after = {key: value for key, value in contents(server).items() if not key.endswith(b":audit")}
    assert after == before


@pytest.mark.parametrize("is_finished", [True, False], ids=["finished", "unknown"])
@pytest.mark.parametrize("action", ACTIONS)
def test_without_a_frontier_a_dry_run_refuses_like_its_action(
    make: Make, server: redis.Redis, shop: list[Client], action: str, is_finished: bool
) -> None:
    app = make(actions=True, spider="shop")
    kept = (b"shop:failed", b"shop:dupefilter") if is_finished else ()
    server.delete(*(key for key in server.scan_iter() if key not in kept))
    would, answer = (do(app, action, spider="shop", dry_run=dry, **BODIES[action]) for dry in (True, False))
    assert (would.status, would.json().get("error")) == (answer.status, answer.json().get("error"))
    assert (answer.status == 200) == (action in ("seed", "failed/requeue", "failed/forget", "deny"))


def test_a_slot_cannot_be_changed_where_there_are_none(make: Make, shop: list[Client]) -> None:
    app = make({"FRONTIER_BY_SLOT": False}, actions=True)
    assert "FRONTIER_BY_SLOT is False" in refused(app, "slots/block", slot="a.example", seconds=5)


# -- who did what ----------------------------------------------------------------------------------------


def test_the_audit_list_notes_the_user_the_action_and_the_time(
    app: Any, view: View, server: redis.Redis
) -> None:
    done(app, "failed/forget", reason=REASONS[2])
    refused(app, "slots/block", slot="*", seconds=9)
    done(app, "stop", dry_run=True)
    last, first = noted(view)
    assert (first["who"], first["action"], first["arguments"]) == (
        "192.0.2.7",
        "failed/forget",
        {"reason": REASONS[2]},
    )
    assert first["result"].startswith("3 entries of the failed list were removed for good")
    assert abs(first["time"] - server.time()[0]) < 5
    assert last["result"].startswith("refused: ")
    assert last["arguments"] == {"slot": "*", "seconds": 9}


def test_the_latest_are_kept_and_long_arguments_cut(view: View, server: redis.Redis) -> None:
    audit = Audit(view)
    for number in range(MOST + 20):
        audit.note("ann", "seed", {"seeds": ["x" * 50] * number}, "y" * 3000)
    assert server.llen(view.keys.audit) == MOST
    latest = audit.latest()
    assert len(latest) == MOST
    assert max(len(json.dumps(entry)) for entry in latest) < 3000


def test_foreign_entries_of_the_audit_list_are_ignored(app: Any, view: View, server: redis.Redis) -> None:
    server.lpush(view.keys.audit, b"\xff", "[]", "[" * 100_000, "{}")
    done(app, "pause")
    assert [entry["action"] for entry in noted(view)] == ["pause"]


def test_an_action_that_could_not_be_noted_has_a_warning(app: Any, server: redis.Redis) -> None:
    server.set("shop:audit", "no list")
    answer = done(app, "pause")
    assert "could not be noted in the audit list" in answer["warning"]
    assert server.hget("shop:meta", "state") == b"paused"


def test_the_audit_list_outlives_the_crawl(
    app: Any, view: View, server: redis.Redis, shop: list[Client]
) -> None:
    (key,) = [key for key in KEYS if key.name == "audit"]
    assert key.lasting
    assert key.of(view.keys) == view.keys.audit == "shop:audit"
    done(app, "pause")
    assert server.ttl("shop:audit") == -1


def test_a_user_with_a_name_is_noted_by_name(make: Make, view: View) -> None:
    app = make({"FRONTIER_DASHBOARD_PASSWORD": "x"}, actions=True, authenticate=lambda connection: "ann")
    done(app, "resume")
    assert noted(view)[0]["who"] == "ann from 192.0.2.7"


def test_an_action_that_redis_breaks_off_is_no_success(
    make: Make, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise redis.exceptions.ConnectionError("gone")

    monkeypatch.setitem(ACTIONS, "pause", Action(fail))
    answer = do(make(actions=True), "pause", spider="shop")
    assert (answer.status, "cannot be reached" in answer.error) == (503, True)
    # Some of it may be done: that it was tried is noted if Redis is there again.
    assert [(one["action"], "partly done" in one["result"]) for one in noted(view)] == [("pause", True)]
