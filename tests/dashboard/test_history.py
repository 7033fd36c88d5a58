"""The history of crawls in the API: the figures of the command, in parts, compared with the crawl before."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis

from ..support.client import Client
from .asgi import ask
from .conftest import Make
from .filled import failed_entry, past, push, worker
from .test_api import API, get, printed

pytestmark = pytest.mark.single("the workers here have the keys of a single server")


def figures(crawl: dict[str, Any]) -> dict[str, tuple[int | None, str]]:
    return {one["figure"]: (one["percent"], one["text"]) for one in crawl["differences"]}


def test_the_history_equals_the_output_of_the_command(
    app: Any, server: redis.Redis, redis_url: str, shop: list[Client]
) -> None:
    past(server, "shop", {}, {"state": "stopped", "reason": "stopped by alice", "pages": 7}, {"items": 235})
    shown = get(app, "history")
    said = printed(redis_url, "history", "shop")
    assert (shown["total"], shown["offset"], shown["redis"]) == (4, 0, "")
    assert [one["run"] for one in shown["crawls"]] == [one["run"] for one in said]
    assert [one.pop("compared_with") for one in shown["crawls"]] == [3, 1, 1, 0]
    for one in shown["crawls"]:
        del one["differences"]
    for name in ("ended", "seconds", "per_second"):  # they change while the crawl runs
        assert shown["crawls"][0].pop(name) > 0
    for one, other in zip(shown["crawls"], said, strict=True):
        assert one == {name: other[name] for name in one}
    assert (said[0]["state"], said[2]["reason"]) == ("crawling", "stopped by alice")


def test_a_list_of_crawls_has_no_charts(app: Any, server: redis.Redis) -> None:
    past(server, "shop", {})
    (_, crawl) = get(app, "history")["crawls"]
    assert not {"history", "workers", "largest", "slowest", "settings"} & set(crawl)


def test_a_crawl_equals_the_output_of_the_command_and_has_the_one_before(
    app: Any, server: redis.Redis, redis_url: str
) -> None:
    past(server, "shop", {"items": 664}, {"state": "stopped"}, {"items": 412, "errors": 0})
    shown = get(app, "history?run=3")
    assert [shown["crawl"]] == printed(redis_url, "history", "shop", "3")
    assert sum(moment[1] for moment in shown["crawl"]["history"]) == 372
    assert (shown["compared_with"], shown["before"]["run"], shown["before"]["items"]) == (1, 1, 664)
    assert figures(shown)["items"] == (-38, "38 % fewer than the last time")
    assert figures(shown)["pages"] == (0, "")
    first = get(app, "history?run=1")
    assert (first["before"], first["compared_with"], first["differences"]) == (None, 0, [])
    assert get(app, "history?run=last")["crawl"]["state"] == "crawling"


def test_a_crawl_without_pages_has_its_cause(make: Make, server: redis.Redis) -> None:
    past(server, "shop", {"pages": 0, "items": 0, "done": {"exceptions": 1, "refused": 1}})
    assert "the connection was refused" in get(make(), "history?run=last")["cause"]


def test_a_crawl_is_compared_with_one_on_the_next_page(make: Make, server: redis.Redis) -> None:
    stopped = [{"state": "stopped"}] * 12
    past(server, "shop", {"items": 190}, *stopped, {})
    app = make()
    (latest,) = get(app, "history?limit=1")["crawls"]
    assert (latest["run"], latest["compared_with"], figures(latest)["items"][0]) == (14, 1, 100)
    (second,) = get(app, "history?limit=1&offset=1")["crawls"]
    assert (second["run"], second["compared_with"]) == (13, 1)
    assert get(app, "history?limit=0")["crawls"] == get(app, "history?offset=14")["crawls"] == []


def test_a_history_of_a_thousand_crawls_is_quick(make: Make, server: redis.Redis) -> None:
    past(server, "shop", *({"pages": n} for n in range(1000)))
    app = make()
    get(app, "status")
    begun = time.monotonic()
    shown = get(app, "history?offset=950")
    took = time.monotonic() - begun
    assert [one["run"] for one in shown["crawls"]] == list(range(50, 0, -1))
    assert (shown["total"], "more" in shown) == (1000, False)
    assert took < 1
    server.config_resetstat()
    for _ in range(10):
        get(app, "history?offset=100")
    stats = server.info("commandstats")
    assert stats["cmdstat_hmget"]["calls"] <= 20


def test_a_crawl_under_way_is_listed_once(app: Any, server: redis.Redis, shop: list[Client]) -> None:
    past(server, "shop", {"state": "stopped"})
    server.hset("shop:meta:counts", "run", 1)
    shown = get(app, "history")
    assert [(one["run"], one["state"]) for one in shown["crawls"]] == [(1, "crawling")]
    assert shown["total"] == 1


@pytest.mark.parametrize("run", ["", "x", "-1", "1.5", "99999999999", "%C2%B2"])
def test_a_number_of_a_crawl_that_is_none_is_refused(app: Any, run: str) -> None:
    answer = ask(app, f"{API}/history?spider=shop&run={run}")
    assert (answer.status, answer.error) == (400, "run must be the number of a crawl, or last")


def test_a_crawl_that_is_not_there_is_not_found(make: Make, server: redis.Redis) -> None:
    past(server, "shop", {}, {})
    answer = ask(make(), f"{API}/history?spider=shop&run=7")
    assert (answer.status, "has no crawl 7. It has 1 to 2" in answer.error) == (404, True)


def test_without_a_history_there_is_an_empty_list(make: Make, server: redis.Redis) -> None:
    server.rpush("shop:start_urls", "http://a.example/")
    app = make()
    ask(app, f"{API}/status")
    assert get(app, "history")["crawls"] == []
    answer = ask(app, f"{API}/history?spider=shop&run=last")
    assert (answer.status, "has no crawl yet (see FRONTIER_HISTORY)" in answer.error) == (404, True)


def test_garbage_in_the_history_hides_no_crawl(make: Make, server: redis.Redis) -> None:
    past(server, "shop", {}, {"workers": 5, "done": [], "settings": "x", "largest": [1]}, {})
    server.hset("shop:meta:crawls", mapping={"3": "\xff", "4": "[]", "x": "{}", "2 chart": "7"})
    app = make()
    assert [one["run"] for one in get(app, "history")["crawls"]] == [2, 1]
    assert get(app, "history?run=2")["crawl"]["history"] == []


# -- the crawl as it ended -------------------------------------------------------------------------------


def test_a_finished_spider_has_its_last_crawl_as_the_command_has_it(
    make: Make, server: redis.Redis, redis_url: str
) -> None:
    past(server, "shop", {"pages": 1}, {})
    shown = get(make(), "status")["frontier"]["status"]
    (said,) = printed(redis_url, "status", "shop")
    assert (shown["state"], shown["last_crawl"]["pages"]) == ("finished", 400)
    assert shown["last_crawl"] == said["last_crawl"]
    assert sum(moment[1] for moment in shown["last_crawl"]["history"]) == 372


def test_spiders_without_a_crawl_are_listed_by_their_other_keys(make: Make, server: redis.Redis) -> None:
    past(server, "ended", {})
    server.rpush("with failed:failed", failed_entry(1, "download failed", "http://a.example/"))
    server.rpush("with seeds:start_urls", "http://a.example/")
    push(worker(server, "running"), {"a.example": 3})
    frontiers = {one["name"]: one["status"] for one in ask(make(), f"{API}/status").json()["frontiers"]}
    assert set(frontiers) == {"ended", "with failed", "with seeds", "running"}
    last = frontiers["ended"]["last_crawl"]
    assert (last["run"], last["pages"], "workers" in last, "history" in last) == (1, 400, False, False)
    assert (frontiers["running"]["last_crawl"], frontiers["with failed"]["failed"]) == (None, 1)
