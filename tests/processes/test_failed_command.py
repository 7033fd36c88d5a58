"""``scrapy frontier failed``: the failed list from a terminal."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
from typing import Any

import pytest
import redis

from ..support.crawl import Fleet, run_python, wait_until

TRACEBACK = "Traceback (most recent call last):\n  …\nKeyError: 'price'"


def failed(redis_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command for the spider graph."""
    return run_python("-m", "scrapy", "frontier", "failed", "graph", *arguments, redis_url=redis_url)


def said(redis_url: str, *arguments: str) -> str:
    done = failed(redis_url, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def set_aside(server: redis.Redis, number: int, **fields: Any) -> None:
    entry = {
        "id": f"host-1-abc/{number}.1",
        "kind": "request",
        "reason": "its callback raised KeyError: 'price'",
        "time": 1_700_000_000 + number,
        "worker": "host-1-abc",
        "deaths": 1,
        "deliveries": 2,
        "history": "died:host-9@1 refused:host-8@2",
        "score": "-5",
        "data": json.dumps({"url": f"http://graph.test/{number}"}),
    }
    server.rpush("graph:failed", json.dumps({**entry, **fields}))


@pytest.fixture
def several(server: redis.Redis) -> redis.Redis:
    set_aside(server, 1, traceback=TRACEBACK)
    set_aside(server, 2, reason="its download failed: status 503")
    set_aside(
        server, 3, kind="seed", key_type="list", data="http://other.test/seed", reason="not json: \x1b[31m"
    )
    server.rpush("graph:failed", b"not of ours")
    set_aside(server, 5)
    return server


def test_they_are_listed_the_latest_last(several: redis.Redis, redis_url: str) -> None:
    heading, *lines = said(redis_url).splitlines()
    assert heading.split() == ["TIME", "KIND", "DEATHS", "ID", "REASON", "URL"]
    assert [line.split()[-1] for line in lines] == [
        "http://graph.test/1",
        "http://graph.test/2",
        "http://other.test/seed",
        "ours",
        "http://graph.test/5",
    ]
    assert "its download failed: status 503" in lines[1]
    assert lines[2].split()[2] == "seed"
    assert "\x1b" not in lines[2]
    assert "unknown" in lines[3]


def test_only_the_latest_are_listed(several: redis.Redis, redis_url: str) -> None:
    lines = said(redis_url, "-n", "2").splitlines()
    assert [line.split()[-1] for line in lines[1:3]] == ["ours", "http://graph.test/5"]
    assert "-n" in lines[-1]
    assert said(redis_url, "-n", "1", "--reason", "its callback").splitlines()[1].split()[-1].endswith("/5")


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_number_that_is_none_is_refused(server: redis.Redis, redis_url: str, number: str) -> None:
    done = failed(redis_url, "-n", number)
    assert done.returncode == 2
    assert "must be an integer ≥ 1, not" in done.stderr


def test_a_machine_gets_whole_entries(several: redis.Redis, redis_url: str) -> None:
    first, *_, unknown, last = map(json.loads, said(redis_url, "--json").splitlines())
    assert first["traceback"] == TRACEBACK
    assert (first["url"], first["deaths"], first["deliveries"]) == ("http://graph.test/1", 1, 2)
    assert first["history"] == "died:host-9@1 refused:host-8@2"
    assert (unknown["kind"], unknown["data"]) == ("unknown", "not of ours")
    assert last["id"] == "host-1-abc/5.1"


def test_they_are_counted_by_kind_of_error_with_their_hosts(several: redis.Redis, redis_url: str) -> None:
    lines = said(redis_url, "--counts").splitlines()
    assert re.split(r"  +", lines[1].strip()) == [
        "2",
        "request",
        "its callback raised KeyError",
        "graph.test (2)",
    ]
    assert len(lines) == 5
    counted = json.loads(said(redis_url, "--counts", "--json", "--url", "*/2"))
    error = "its download failed: status 503"
    assert counted == {"kind": "request", "error": error, "count": 1, "hosts": {"graph.test": 1}}
    assert said(redis_url, "--error", error) == said(redis_url, "--reason", error)


def test_all_of_one_is_shown(several: redis.Redis, redis_url: str) -> None:
    shown = said(redis_url, "--id", "host-1-abc/1.1")
    for text in (
        "http://graph.test/1",
        "KeyError: 'price'",
        "died:host-9@1",
        "refused:host-8@2",
        "host-1-abc",
    ):
        assert text in shown
    assert len([line for line in shown.splitlines() if "Traceback" in line]) == 1


def test_an_id_that_is_not_there_is_said_in_one_line(several: redis.Redis, redis_url: str) -> None:
    done = failed(redis_url, "--id", "host-1-abc/7.1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "scrapy frontier: The failed list of spider 'graph' has no such entry with the id"
    )
    assert len(done.stderr.splitlines()) == 1


def test_nothing_to_list_is_said(server: redis.Redis, redis_url: str) -> None:
    assert said(redis_url) == "The failed list of spider graph is empty\n"
    assert (
        said(redis_url, "--counts", "--reason", "x") == "The failed list of spider graph has no such entry\n"
    )
    assert said(redis_url, "--json") == ""


def test_the_chosen_entries_are_put_back_or_forgotten_and_counted(
    several: redis.Redis, redis_url: str
) -> None:
    assert said(redis_url, "--requeue", "--reason", "its callback", "--url", "*/1").startswith(
        "1 entry of the failed list"
    )
    assert several.zscore("graph:requests", json.dumps({"url": "http://graph.test/1"})) == -5
    assert said(redis_url, "--forget", "--id", "host-1-abc/2.1").startswith("1 entry of the failed list")
    assert said(redis_url, "--requeue").startswith("2 entries of the failed list")
    assert several.lrange("graph:start_urls", 0, -1) == [b"http://other.test/seed"]
    assert several.zcard("graph:requests") == 2
    assert said(redis_url, "--forget").startswith("1 entry of the failed list")
    assert not several.exists("graph:failed")


def test_two_actions_at_once_are_refused(several: redis.Redis, redis_url: str) -> None:
    assert failed(redis_url, "--requeue", "--forget").returncode == 2
    assert several.llen("graph:failed") == 5


def test_a_pickle_is_not_read_unless_the_settings_say_so(server: redis.Redis, redis_url: str) -> None:
    server.hset("graph:meta", mapping={"epoch": 1, "SCHEDULER_SERIALIZER": "pickle"})
    data = pickle.dumps({"url": "http://graph.test/1"})
    set_aside(server, 1, data_hex=data.hex(), data=None)
    server.ltrim("graph:failed", 1, -1)
    entry = {
        "id": "a/1",
        "kind": "request",
        "reason": "r",
        "time": 1,
        "worker": "a",
        "deaths": 0,
        "history": "",
    }
    server.rpush("graph:failed", json.dumps({**entry, "data_hex": data.hex()}))
    done = failed(redis_url, "--url", "*")
    assert done.stdout == "The failed list of spider graph has no such entry\n"
    assert "written by 'pickle'" in done.stderr
    assert "--url does not match them" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "\\x80" in failed(redis_url).stdout
    trusted = said(redis_url, "--url", "*/1", "-s", "SCHEDULER_SERIALIZER=pickle")
    assert "http://graph.test/1" in trusted


def test_a_queue_of_the_users_own_can_be_looked_at_and_not_put_back(
    several: redis.Redis, redis_url: str
) -> None:
    own = ("-s", "SCHEDULER_QUEUE_CLASS=crawls.spiders.OwnQueue")
    done = failed(redis_url, "--requeue", *own)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is a OwnQueue, which stores requests in its own form" in done.stderr
    assert "http://graph.test/5" in said(redis_url, *own)
    assert said(redis_url, "--forget", *own).startswith("5 entries of the failed list")


@pytest.mark.long
def test_a_running_crawl_goes_on_with_entries_that_are_put_back(
    fleet: Fleet, server: redis.Redis, redis_url: str
) -> None:
    fleet.start("graph", 2, GRAPH_PAGES=300, GRAPH_LATENCY=0.5, FRONTIER_MAX_FAILED=200)
    wait_until(lambda: len(fleet.events("parsed")) > 1)
    urls = [f"http://graph.test/again?{number}" for number in range(150)]
    for number, url in enumerate(urls):
        set_aside(server, number, kind="seed", key_type="list", data=url)
    # Meanwhile some fail, and the oldest would be dropped.
    for _ in range(5):
        server.rpush("graph:start_urls", "not a URL")
    assert "http://graph.test/again?149" in said(redis_url, "--reason", "its callback")
    assert said(redis_url, "--requeue", "--url", "*again?*").startswith("150 entries of the failed list")
    fleet.wait()
    crawled = fleet.urls("downloaded")
    assert {url: crawled[url] for url in urls} == dict.fromkeys(urls, 1)
    assert len(crawled) == 450
    assert server.llen("graph:failed") == 5
    assert fleet.reasons() == ["finished", "finished"]
