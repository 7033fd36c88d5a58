"""The JSON API, on a real Redis: the commands' names, numbers that are right, lists that have an end."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
import redis

from scrapy_rq_sched.dashboard import lists
from scrapy_rq_sched.dashboard.cached import PATIENCE, Cached
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.inspect import Control, View, largest_slots

from ..support.client import Client
from ..support.crawl import run_python, wait_until
from ..support.pages import DOCS
from ..support.topologies import with_login
from .asgi import TOKEN, ask
from .conftest import Make
from .filled import BOOKS, REASONS, failed_entry, fill, fingerprint, push, worker

pytestmark = pytest.mark.single("the workers here have the keys of a single server")

API = "/api/v1"
LISTS = ("workers", "slots", "pools", "failed", "failed/counts", "peek", "history", "events", "audit")


def get(app: Any, path: str, spider: str = "shop") -> Any:
    joined = "&" if "?" in path else "?"
    answer = ask(app, f"{API}/{path}{joined}spider={quote(spider, safe='')}")
    assert answer.status == 200, answer.body
    return answer.json()


def printed(redis_url: str, *arguments: str) -> list[Any]:
    """Return what a command prints with --json."""
    done = run_python("-m", "scrapy", "frontier", *arguments, "--json", redis_url=redis_url)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


# -- the same as the commands ----------------------------------------------------------------------------

#: What changes from a second to the next, where nothing happens.
MOVING = (
    "now",
    "next_turn_in",
    "peak",
    "per_second",
    "per_hour",
    "growth",
    "seconds_left",
    "seconds_left_at_least",
)


def still(status: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if name not in MOVING}


def by_name(workers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(workers, key=lambda one: str(one["name"]))


def test_the_status_equals_the_output_of_the_command(app: Any, redis_url: str) -> None:
    shown = get(app, "status")["frontier"]
    (said,) = printed(redis_url, "status", "shop")
    assert list(shown["status"]) == list(said)
    workers = shown["status"].pop("workers"), said.pop("workers")
    assert by_name(workers[0]) == by_name(workers[1])
    assert still(shown["status"]) == still(said)
    assert shown["alive"] == sum(worker["alive"] for worker in workers[1]) == 3
    assert shown["status"]["waiting"] == 1322


def test_workers_slots_and_requests_equal_the_output_of_the_commands(app: Any, redis_url: str) -> None:
    assert by_name(get(app, "workers")["workers"]) == by_name(printed(redis_url, "workers", "shop"))
    said = {one["slot"]: one for one in printed(redis_url, "slots", "shop")}
    for shown in get(app, "slots")["slots"]:
        assert list(shown) == list(said[shown["slot"]])
        assert (shown["waiting"], shown["why"]) == (
            said[shown["slot"]]["waiting"],
            said[shown["slot"]]["why"],
        )
    assert get(app, "peek")["requests"] == printed(redis_url, "peek", "shop")
    assert get(app, "failed")["failed"][::-1] == printed(redis_url, "failed", "shop")
    counts = [{k: one[k] for k in ("error", "count")} for one in get(app, "failed/counts")["counts"]]
    # The command counts by kind as well; the page acts on the entries of an error, whatever their kind.
    said_counts = printed(redis_url, "failed", "shop", "--counts")
    assert counts == [{k: one[k] for k in ("error", "count")} for one in said_counts]


def test_a_worker_equals_the_output_of_the_commands(app: Any, shop: list[Client], redis_url: str) -> None:
    name = shop[0].name
    shown = get(app, f"worker?worker={name}")
    assert shown["worker"] in printed(redis_url, "workers", "shop")
    said = printed(redis_url, "leases", "shop", "--worker", name)
    assert sorted(map(repr, shown["held"])) == sorted(map(repr, said))
    assert len(shown["held"]) == shown["worker"]["in_hand"] > 0
    assert shown["has_more"] is False
    assert shown["log"]["lines"] == []
    answer = ask(app, f"{API}/worker?spider=shop&worker=nobody")
    assert (answer.status, "no such worker" in answer.error) == (404, True)


def test_events_equal_the_output_of_the_command(app: Any, view: View, redis_url: str) -> None:
    Control(view).pause()
    shown = get(app, "events")["events"]
    alarming = [one.pop("alarming") for one in shown]
    assert shown == printed(redis_url, "events", "shop", "--since", "1h")
    assert shown[-1]["type"] == "paused"
    assert {one["type"] for one, alarm in zip(shown, alarming, strict=True) if alarm} <= {"worker_lost"}
    assert get(app, f"events?since={shown[-1]['id']}")["events"] == []
    assert get(app, f"events?since={shown[-3]['id']}")["events"][0]["id"] == shown[-2]["id"]
    time.sleep(1.1)
    Control(view).resume()
    (latest,) = get(app, f"events?since={shown[-1]['id']}")["events"]
    assert latest["type"] == "resumed"


def test_equal_events_are_folded_if_the_page_wishes(app: Any, server: redis.Redis) -> None:
    def fail(number: int) -> None:
        event = {"time": time.time(), "type": "request_set_aside", "kind": "request", "reason": "KeyError: 7"}
        server.xadd("shop:events", {"event": json.dumps({**event, "url": f"http://a.example/{number}"})})

    for number in range(300):
        fail(number)
    folds = get(app, "events?folded=1")["events"]
    assert [one["type"] for one in folds].count("worker_joined") == 4
    assert (folds[-1]["count"], folds[-1]["url"]) == (300, "http://a.example/299")
    assert get(app, f"events?folded=1&since={folds[-1]['id']}")["events"] == []
    fail(300)
    time.sleep(1.1)
    (grown,) = get(app, f"events?folded=1&since={folds[-1]['id']}")["events"]
    assert (grown["count"], grown["first"], grown["since"]) == (301, folds[-1]["first"], folds[-1]["since"])
    assert get(app, "events?folded=1&since=nonsense")["events"][-1] == grown


def test_a_url_is_explained_as_the_command_does(app: Any, redis_url: str) -> None:
    url = "https://www.books.example/page/200"
    shown = get(app, f"explain?url={quote(url, safe='')}")
    verdict = shown.pop("verdict")
    (said,) = printed(redis_url, "explain", "shop", url)
    assert shown == said
    assert shown["waiting"][0]["slot"] == "www.books.example"
    assert "It will be crawled when its turn comes" in verdict[0]


def test_all_frontiers_are_listed_with_the_same_numbers(
    app: Any, server: redis.Redis, redis_url: str
) -> None:
    fill(server, redis_url, "news")
    shown = ask(app, f"{API}/status").json()
    said = {status["spider"]: status for status in printed(redis_url, "status")}
    assert [one["name"] for one in shown["frontiers"]] == sorted(said) == ["news", "shop"]
    for one in shown["frontiers"]:
        status = one["status"]
        status.pop("history")
        assert still(status) == {name: said[one["name"]][name] for name in still(status)}


# -- which frontiers -------------------------------------------------------------------------------------

HOSTILE = ['<img src=x onerror="alert(1)">', "a/../b?c#d&e=f", "sch\u00f6n \u202e %s %2f", "'\"`${7*7}"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_frontier_may_be_called_anything(make: Make, server: redis.Redis, name: str) -> None:
    push(worker(server, name), {"a.example": 3})
    app = make()
    (shown,) = ask(app, f"{API}/status").json()["frontiers"]
    assert (shown["name"], shown["status"]["waiting"]) == (name, 3)
    assert get(app, "status", name)["frontier"]["status"]["spider"] == name


def test_an_answer_says_that_it_is_no_page(make: Make, server: redis.Redis) -> None:
    push(worker(server, HOSTILE[0]), {"a.example": 1})
    answer = ask(make(), f"{API}/status")
    assert answer.headers["content-type"] == "application/json"


def test_a_frontier_that_is_not_there_is_not_found(make: Make, server: redis.Redis) -> None:
    app = make()
    for path in ("status", "workers", "slots", "pools", "peek", "failed", "failed/counts", "events", "audit"):
        answer = ask(app, f"{API}/{path}?spider=nobody")
        assert (answer.status, "no frontier 'nobody'" in answer.error) == (404, True), path
    assert ask(app, f"{API}/slots").status == 400


def test_only_one_spider_is_shown_if_that_is_wanted(
    make: Make, server: redis.Redis, redis_url: str, shop: list[Client]
) -> None:
    fill(server, redis_url, "news")
    app = make(spider="news")
    assert [one["name"] for one in ask(app, f"{API}/status").json()["frontiers"]] == ["news"]
    assert ask(app, f"{API}/status?spider=shop").status == 404


def test_several_frontiers_of_one_spider_have_names_of_their_own(make: Make, server: redis.Redis) -> None:
    from scrapy_rq_sched.keys import Keys

    for number, template in enumerate(("%(spider)s:requests", "two:%(spider)s:requests")):
        keys = Keys("shop", template)
        client = Client(server, f"w{number}", "priority", 30, 5, keys=keys).open()
        push(client, {f"{number}.example": number + 1})
    app = make()
    shown = {one["name"]: one["status"]["waiting"] for one in ask(app, f"{API}/status").json()["frontiers"]}
    assert shown == {"shop": 1, "two:shop:requests": 2}
    for one in (app, make()):
        assert get(one, "status", "two:shop:requests")["frontier"]["status"]["waiting"] == 2


def test_a_made_up_spider_name_is_not_searched_for_each_time(make: Make, server: redis.Redis) -> None:
    app = make()
    server.config_resetstat()
    for number in range(20):
        assert ask(app, f"{API}/status?spider=nobody-{number}").status == 404
    assert server.info("commandstats")["cmdstat_scan"]["calls"] == 1


# -- lists have an end -----------------------------------------------------------------------------------


def test_workers_are_shown_a_page_at_a_time(make: Make, server: redis.Redis) -> None:
    for number in range(130):
        worker(server, "shop", number)
    app = make()
    first, second = get(app, "workers?limit=100"), get(app, "workers?limit=100&offset=100")
    assert [first["total"], len(first["workers"]), len(second["workers"])] == [130, 100, 30]
    assert len({one["name"] for one in first["workers"] + second["workers"]}) == 130
    shown = get(app, "status")["frontier"]
    assert [shown["alive"], shown["workers"], len(shown["status"]["workers"])] == [130, 130, 100]


@pytest.mark.parametrize("query", ["limit=201", "limit=-1", "limit=x", "offset=-1", "limit=1e3", "limit=٣"])
def test_a_page_that_is_none_is_refused(app: Any, query: str) -> None:
    answer = ask(app, f"{API}/workers?spider=shop&{quote(query, safe='=')}")
    assert (answer.status, "must be a whole number" in answer.error) == (400, True)


def test_all_slots_are_looked_at_a_step_at_a_time(
    make: Make, server: redis.Redis, monkeypatch: pytest.MonkeyPatch, view: View
) -> None:
    monkeypatch.setattr(largest_slots, "A_LOOK", 10)
    monkeypatch.setattr(largest_slots, "A_STEP", 10)
    client = worker(server, "wide")
    push(client, {f"h{n}.example": 1 + n % 7 for n in range(300)} | {"big.example": 40})
    wide = View.from_settings(view.scrapy_settings, "wide")
    found = lists.SlotsFound()
    before, steps = 0, 0
    while (seen := found.read(wide))["looked_at"] < seen["total"]:
        assert 0 < seen["looked_at"] - before < 60
        assert len(seen["slots"]) <= 2 * largest_slots.MOST
        before, steps = seen["looked_at"], steps + 1
    assert steps > 5
    assert (seen["total"], seen["slots"][0]["slot"]) == (301, "big.example")
    assert [one["waiting"] for one in seen["slots"][1:40]] == [7] * 39


def test_blocked_slots_come_first(app: Any) -> None:
    first, second, *_ = get(app, "slots")["slots"]
    assert (first["slot"], first["why"]) == ("slow.example.net", "blocked")
    assert 1100 < first["blocked_for"] <= 1200
    assert second["slot"] == "www.books.example"


def test_of_a_long_failed_list_the_latest_are_grouped(
    make: Make, server: redis.Redis, monkeypatch: pytest.MonkeyPatch, shop: list[Client]
) -> None:
    monkeypatch.setattr(lists, "MOST_FAILED", 100)
    for number in range(250):
        server.rpush(
            "shop:failed", failed_entry(number + 100, "bad" if number % 2 else "worse", f"{BOOKS}/x{number}")
        )
    app = make()
    counts = get(app, "failed/counts")
    assert [counts["total"], counts["looked_at"]] == [267, 100]
    assert {one["error"]: one["count"] for one in counts["counts"]} == {"bad": 50, "worse": 50}
    page = get(app, "failed?reason=bad&limit=20&offset=40")
    assert [page["total"], len(page["failed"])] == [50, 10]
    assert {one["reason"] for one in page["failed"]} == {"bad"}


def test_an_entry_has_its_traceback(app: Any) -> None:
    (error,) = [one["error"] for one in get(app, "failed/counts")["counts"] if "TypeError" in one["error"]]
    assert error == "callback raised TypeError"
    (entry, *_) = get(app, f"failed?error={quote(error)}")["failed"]
    assert entry["reason"] == REASONS[0]
    assert "prices.py" in entry["traceback"]
    (same,) = get(app, f"failed?id={entry['id']}")["failed"]
    assert same == entry


def test_failed_entries_are_grouped_by_error_with_their_hosts_and_found_by_url(
    make: Make, server: redis.Redis
) -> None:
    worker(server, "shop")
    for number in range(40):
        host = f"host-{number % 25}.example"
        reason = f"its download failed: DNSLookupError: no results for hostname lookup: {host}"
        server.rpush("shop:failed", failed_entry(number, reason, f"http://{host}/page/{number}"))
    app = make()
    (group,) = get(app, "failed/counts")["counts"]
    assert (group["error"], group["count"]) == ("its download failed: DNSLookupError", 40)
    assert (len(group["hosts"]), group["more_hosts"], group["hosts"][0]["count"]) == (20, 5, 2)
    error = quote(group["error"])
    of_host = get(app, f"failed?error={error}&host=host-3.example")
    assert {one["url"] for one in of_host["failed"]} == {
        "http://host-3.example/page/3",
        "http://host-3.example/page/28",
    }
    assert get(app, f"failed?url={quote('*/page/1*')}")["total"] == 11
    assert [one["count"] for one in get(app, f"failed/counts?url={quote('*/page/1*')}")["counts"]] == [11]
    assert get(app, "failed/counts?url=nothing")["counts"] == []
    answer = ask(app, f"{API}/failed?spider=shop&url=" + "x" * 30_000)
    assert (answer.status, "at most" in answer.error) == (400, True)


def test_a_failed_list_that_changes_is_read_anew(app: Any, server: redis.Redis) -> None:
    assert get(app, "failed/counts")["total"] == 17
    server.rpush("shop:failed", failed_entry(99, "new", f"{BOOKS}/new"))
    wait_until(lambda: get(app, "failed/counts")["total"] == 18, 10)


def test_no_body_and_no_url_is_too_long(app: Any) -> None:
    answer = ask(app, f"{API}/explain?spider=shop&url=" + "x" * 30_000)
    assert (answer.status, "at most" in answer.error) == (400, True)
    headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    assert ask(app, f"{API}/seed", "POST", headers, b"x" * 1_000_001).status == 413


def test_no_request_is_too_deep_to_be_shown(make: Make, server: redis.Redis) -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    data = json.dumps({"url": f"{BOOKS}/deep", "meta": {"deep": deep}}).encode()
    worker(server, "deep").say(pushes=[Push("filter", fingerprint(f"{BOOKS}/deep"), 0, data, "a.example")])
    (one,) = get(make(), "peek", "deep")["requests"]
    assert (one["url"], "…" in str(one["request"])) == (f"{BOOKS}/deep", True)
    assert get(make(), f"explain?url={quote(one['url'])}", "deep")["waiting"]


def test_events_that_are_none_hide_no_frontier(app: Any, server: redis.Redis) -> None:
    server.delete("shop:events")
    server.set("shop:events", b"\xff")
    assert get(app, "status")["frontier"]["status"]["spider"] == "shop"
    assert get(app, "events")["events"] == []


def test_no_events_are_none(app: Any) -> None:
    assert get(app, "events")["events"]
    assert [len(get(app, f"events?limit={limit}")["events"]) for limit in (0, 1)] == [0, 1]


def test_a_name_is_said_as_a_shell_takes_it(make: Make, server: redis.Redis) -> None:
    name = "a; touch /b $(c)"
    push(worker(server, name), {"a.example": 1})
    (line,) = get(make(), "explain?url=https://nowhere.example/", name)["verdict"]
    assert line.endswith(f"scrapy frontier seed {shlex.quote(name)} https://nowhere.example/")


def test_the_command_for_the_order_by_priority_is_as_a_shell_takes_it(
    make: Make, server: redis.Redis
) -> None:
    push(worker(server, "my shop"), {f"{number}.example": 1 for number in range(lists.MOST_TURNS + 1)})
    problem = get(make({"FRONTIER_ORDER": "priority"}), "peek", "my shop")["problem"]
    assert problem.endswith("For the order by priority: scrapy frontier peek 'my shop'")


def test_a_reply_from_before_a_change_is_asked_for_again() -> None:
    asked, may_end = [], threading.Event()

    def make_one() -> int:
        asked.append(1)
        may_end.wait(10)
        return len(asked)

    async def look() -> int | None:
        cached = Cached(make_one, 60, executor, str)
        before = asyncio.create_task(cached.get())
        await asyncio.sleep(0.1)
        cached.forget()
        may_end.set()
        await before
        await cached.get()
        return (await cached.get()).value

    with ThreadPoolExecutor(1) as executor:
        assert asyncio.run(look()) == 2


# -- what it costs ---------------------------------------------------------------------------------------


def commands(server: redis.Redis) -> int:
    stats = server.info("commandstats")
    return sum(
        one["calls"]
        for name, one in stats.items()
        if name not in ("cmdstat_info", "cmdstat_config|resetstat")
    )


def test_however_many_ask_redis_is_asked_once_a_second(app: Any, server: redis.Redis) -> None:
    get(app, "status")
    once = commands(server)
    get(app, "status")
    time.sleep(1.2)
    get(app, "status")
    a_picture = commands(server) - once
    assert a_picture < 200
    begun, before, asked = time.monotonic(), commands(server), 0
    while time.monotonic() < begun + 3:
        get(app, "status")
        asked += 1
    assert asked > 50
    assert commands(server) - before <= 4 * a_picture


def test_without_viewers_the_dashboard_asks_redis_nothing(app: Any, server: redis.Redis) -> None:
    for path in ("status", "slots", "failed/counts", "peek", "history", "audit"):
        get(app, path)
    before = commands(server)
    time.sleep(2.5)
    assert commands(server) == before


def test_no_page_scans_the_waiting_requests(app: Any, server: redis.Redis) -> None:
    server.config_resetstat()
    for path in ("status", *LISTS):
        get(app, path)
    stats = server.info("commandstats")
    assert "cmdstat_keys" not in stats
    assert "cmdstat_scan" not in stats
    # For the names of slots: for the list of slots, and for the time left.
    assert stats["cmdstat_zscan"]["calls"] <= 2


def test_a_read_only_user_may_look_at_every_page(
    make: Make, server: redis.Redis, redis_url: str, shop: list[Client]
) -> None:
    page = (DOCS / "security.md").read_text()
    (command,) = re.findall(r"redis-cli acl setuser looker on .+\\\n.+\\\n.+", page)
    (more,) = re.findall(r"for the \[dashboard\]\(dashboard.md\) `([^`]+)`", page)
    rights = [*re.findall(r"[+][a-z|]+", command), *more.split()]
    server.execute_command("ACL", "SETUSER", "looker", "on", ">word", "~shop:*", *rights)
    try:
        app = make({"REDIS_URL": with_login(redis_url, "looker", "word")})
        assert [one["name"] for one in ask(app, f"{API}/status").json()["frontiers"]] == ["shop"]
        for path in ("status", *LISTS):
            assert get(app, path)["redis"] == "", path
        get(app, f"explain?url={quote(BOOKS, safe='')}")
    finally:
        server.execute_command("ACL", "DELUSER", "looker")


# -- Redis is away ---------------------------------------------------------------------------------------


def test_when_redis_is_away_the_last_picture_is_shown_and_it_is_said(make: Make, tmp_path: Any) -> None:
    from scrapy_rq_sched.embedded import PrivateRedis

    with PrivateRedis(tmp_path) as own:
        client = redis.Redis.from_url(own.url)
        fill(client, own.url)
        app = make({"REDIS_URL": own.url}, actions=True)
        before = get(app, "status")
        assert before["redis"] == ""
        url = own.url
    time.sleep(1.1)
    away = get(app, "status")
    assert away["frontier"] == before["frontier"]
    assert away["taken"] == before["taken"]
    assert f"Redis at {url}" in away["redis"]
    assert "cannot be reached" in away["redis"]
    headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    answer = ask(app, f"{API}/pause", "POST", headers, {"spider": "shop"})
    assert (answer.status, "cannot be reached" in answer.error) == (503, True)


def test_when_redis_hangs_the_last_picture_is_shown_and_it_is_said(app: Any, server: redis.Redis) -> None:
    before = get(app, "status")
    time.sleep(1.1)
    server.execute_command("CLIENT", "PAUSE", 3500)
    begun = time.monotonic()
    away = get(app, "status")
    assert time.monotonic() - begun < PATIENCE + 1
    assert (away["frontier"], "has not answered" in away["redis"]) == (before["frontier"], True)
    wait_until(lambda: not get(app, "status")["redis"], 15)


def test_the_password_of_redis_is_not_shown(make: Make) -> None:
    answer = ask(make({"REDIS_URL": "redis://:secret-word@127.0.0.1:1"}), f"{API}/status?spider=s")
    assert b"secret-word" not in answer.body
    assert "***" in answer.json()["redis"]


# -- the stream ------------------------------------------------------------------------------------------


def streamed(app: Any, spider: str, seconds: float) -> list[Any]:
    """Return the pictures that a stream brings in so many seconds."""
    parts: list[bytes] = []

    async def follow() -> None:
        scope = {
            "type": "http",
            "method": "GET",
            "path": f"{API}/stream",
            "query_string": f"spider={spider}".encode(),
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1:8000"), (b"authorization", f"Bearer {TOKEN}".encode())],
            "client": ("127.0.0.1", 1),
        }

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(seconds)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            parts.append(message.get("body", b""))

        await app(scope, receive, send)

    asyncio.run(follow())
    lines = b"".join(parts).decode().split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


def test_a_stream_brings_each_picture_as_it_is_there(app: Any, view: View, shop: list[Client]) -> None:
    pictures = streamed(app, "shop", 3.5)
    assert 2 <= len(pictures) <= 5
    times = [picture["taken"] for picture in pictures]
    assert all(0.9 < later - sooner < 3 for sooner, later in pairwise(times))
    Control(view).pause()

    def states() -> list[str]:
        return [picture["frontier"]["status"]["state"] for picture in streamed(app, "shop", 0.5)]

    # A picture may be a second old, and a busy machine draws it later.
    wait_until(lambda: states() == ["paused"], timeout=10)


def test_the_head_of_a_stream_has_an_end(app: Any) -> None:
    answer = ask(app, f"{API}/stream", "HEAD")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


def test_a_stream_of_a_frontier_that_is_not_there_says_so(app: Any) -> None:
    (picture,) = streamed(app, "nobody", 1.5)
    assert (picture["frontier"], "no frontier 'nobody'" in picture["redis"]) == (None, True)
