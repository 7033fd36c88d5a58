"""``scrapy frontier`` as it is typed, with a crawl under way."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from scrapy_rq_sched import __version__
from scrapy_rq_sched.codec.slot_limits import SlotLimits, SlotPolicy
from scrapy_rq_sched.embedded import PrivateRedis, free_port

from ..project.crawls.graph import page_url
from ..support.crawl import PROJECT, Fleet, run_python, wait_until
from ..support.proxy import Proxy
from ..support.topologies import with_login
from .test_security import SECRET, acl_rule

pytestmark = pytest.mark.single("what is typed and printed; what is behind it is tested on every server")


def frontier(redis_url: str, *arguments: str, code: int = 0, **options: Any) -> str:
    """Return what the command prints; on its standard error, if *code* is not 0."""
    done = run_python("-m", "scrapy", "frontier", *arguments, redis_url=redis_url, **options)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr if code else done.stdout


def as_json(redis_url: str, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in frontier(redis_url, *arguments, "--json").splitlines()]


@pytest.fixture(scope="module")
def crawl(private_redis: PrivateRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two workers at a crawl that takes longer than the tests."""
    with redis.Redis.from_url(private_redis.url) as client:
        client.flushall()
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), private_redis.url)
    fleet.start("graph", 2, GRAPH_PAGES=100_000, GRAPH_LATENCY=0.2, CONCURRENT_REQUESTS=4)
    wait_until(lambda: all(len(fleet.events("parsed", worker)) > 20 for worker in range(2)))
    yield fleet
    fleet.stop()


@pytest.fixture
def url(crawl: Fleet) -> str:
    return crawl.redis_url


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


# -- a crawl under way -----------------------------------------------------------------------------


def test_the_status_of_a_spider_is_shown(url: str) -> None:
    shown = frontier(url, "status", "graph")
    lines = dict(line.split(maxsplit=1) for line in shown.split("\n\n")[0].splitlines() if " " in line)
    assert lines["spider"] == "graph"
    assert lines["state"] == "crawling"
    assert int(lines["waiting"].split()[0].replace(",", "")) > 0
    workers = shown.split("\n\n")[1].splitlines()
    assert workers[0].startswith("WORKER")
    assert len(workers) == 3


def test_the_status_of_all_spiders_is_shown(url: str) -> None:
    (row,) = table(frontier(url, "status"))
    assert row[:2] == ["graph", "crawling"]


def test_the_status_is_there_for_machines(url: str) -> None:
    (status,) = as_json(url, "status", "graph")
    assert (status["spider"], status["state"], status["failed"]) == ("graph", "crawling", 0)
    assert status["pages"] > 0
    assert {worker["version"] for worker in status["workers"]} == {__version__}


def test_the_status_is_shown_without_a_project(url: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "frontier", "status", "graph", "--redis-url", url],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "SCRAPY_SETTINGS_MODULE"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert "state        crawling" in done.stdout


@pytest.mark.long
def test_the_status_is_watched_until_ctrl_c(url: str) -> None:
    watched = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "frontier", "status", "graph", "--watch", "0.2"],
        cwd=PROJECT,
        env={**os.environ, "REDIS_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watched.stdout is not None
    lines = iter(watched.stdout.readline, "")
    for _ in range(3):
        line = next(lines, "it has ended")
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d graph crawling: [\d,]+ pages, ", line), line
    watched.send_signal(2)
    _, errors = watched.communicate(timeout=10)
    assert (watched.returncode, errors) == (0, "")


@pytest.mark.long
def test_a_watched_status_goes_on_after_an_outage(url: str) -> None:
    with Proxy(url) as proxy:
        watched = subprocess.Popen(
            [sys.executable, "-m", "scrapy", "frontier", "status", "graph", "--watch", "0.2"],
            cwd=PROJECT,
            env={**os.environ, "REDIS_URL": proxy.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watched.stdout is not None
        lines = iter(watched.stdout.readline, "")
        for begin, expected in (
            (proxy.go, "graph crawling: "),
            (proxy.refuse, "Redis is away for "),
            (proxy.go, "graph crawling: "),
            (proxy.stall, "it has not answered yet"),
            (proxy.go, "graph crawling: "),
        ):
            begin()
            if begin == proxy.refuse:
                proxy.cut()
            assert any(expected in line for line in lines), "it has ended"
        watched.send_signal(2)
        _, errors = watched.communicate(timeout=20)
    assert (watched.returncode, errors) == (0, "")


def test_the_workers_are_shown(url: str, crawl: Fleet) -> None:
    workers = as_json(url, "workers", "graph")
    assert {worker["pid"] for worker in workers} == {worker.pid for worker in crawl.workers}
    assert len(table(frontier(url, "workers", "graph"))) == 2


def test_the_leases_of_the_workers_are_shown(url: str) -> None:
    one, two = (worker["name"] for worker in as_json(url, "workers", "graph"))
    leases = as_json(url, "leases", "graph")
    assert {lease["worker"] for lease in leases} == {one, two}
    assert all(lease["url"].startswith("http://graph.test/") and lease["since"] > 0 for lease in leases)
    assert {row[0] for row in table(frontier(url, "leases", "graph", "--worker", one))} == {one}


def test_the_next_requests_are_shown(url: str) -> None:
    rows = table(frontier(url, "peek", "graph", "-n", "7"))
    assert [row[0] for row in rows] == list("1234567")
    assert all(row[2] == "GET" and row[4].startswith("http://graph.test/") for row in rows)
    assert as_json(url, "peek", "graph")[0]["request"]["meta"]["depth"] > 0


def test_a_url_is_explained(url: str) -> None:
    waits = as_json(url, "peek", "graph", "-n", "900")[-1]["url"]
    assert "waiting      yes, with priority 0, " in frontier(url, "explain", "graph", waits)
    crawled = frontier(url, "explain", "graph", page_url(0))
    assert re.search(r"It was crawled by worker \S+(, whose log on .*)?: HTTP status 200 \(OK\)", crawled)
    assert "scrapy frontier forget graph http://graph.test/0 --crawl" in crawled
    never = frontier(url, "explain", "graph", "http://elsewhere.test/")
    assert "It was never found" in never
    assert as_json(url, "explain", "graph", waits)[0]["waiting"][0]["before"] > 0


def test_waiting_requests_are_removed_by_a_pattern_after_a_dry_run(url: str) -> None:
    victim = as_json(url, "peek", "graph", "-n", "900")[-1]["url"]
    pattern = victim[:-1] + "*"
    dry = frontier(url, "remove", "graph", pattern, "--dry-run")
    assert "would be removed (--dry-run)" in dry
    count = int(dry.split()[0])
    assert count > 0
    assert int(frontier(url, "remove", "graph", pattern).split()[0]) >= 1
    assert "waiting      no" in frontier(url, "explain", "graph", victim)


def test_waiting_requests_are_given_another_priority(url: str, crawl: Fleet) -> None:
    victim = as_json(url, "peek", "graph", "-n", "2000")[-1]["url"]
    assert "1 of" in frontier(url, "reprioritize", "graph", "9", victim)
    wait_until(lambda: crawl.urls("parsed")[victim])


def test_a_forgotten_url_is_crawled_again(url: str, crawl: Fleet) -> None:
    assert crawl.urls("parsed")[page_url(3)] == 1
    again = frontier(url, "forget", "graph", "--crawl", "--priority", "9", page_url(3))
    assert "1 of 1 URL was forgotten" in again
    wait_until(lambda: crawl.urls("parsed")[page_url(3)] == 2)


def test_urls_to_forget_are_read_from_a_file_and_chosen_by_a_pattern(url: str, tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    lines = [page_url(1), json.dumps({"url": page_url(2), "price": 3}), "", "http://other.test/"]
    file.write_text("\n".join(lines) + "\n")
    shown = frontier(url, "forget", "graph", "--file", str(file), "http://graph.test/*")
    assert "2 of 2 URLs were forgotten" in shown


def test_a_pattern_alone_forgets_nothing(url: str) -> None:
    refusal = frontier(url, "forget", "graph", "http://graph.test/*", code=1)
    assert "A pattern alone cannot be used" in refusal


def test_a_frontier_with_workers_is_not_cleared(url: str) -> None:
    refusal = frontier(url, "clear", "graph", "--yes", code=1)
    assert "The crawl of spider 'graph' has 2 workers" in refusal
    assert as_json(url, "status", "graph")[0]["waiting"] > 0


def test_a_read_only_user_can_look_and_change_nothing(url: str) -> None:
    _, *rule = (word.replace("~target:", "~graph:") for word in acl_rule("looker"))
    with redis.Redis.from_url(url) as server:
        server.execute_command("ACL", "SETUSER", "looker", *rule)
        try:
            as_looker = with_login(url, "looker", SECRET)
            for command in ("status", "workers", "leases", "peek", "failed"):
                frontier(as_looker, command, "graph")
            frontier(as_looker, "explain", "graph", page_url(0))
            patterns = SlotPolicy(patterns=(("*", SlotLimits(delay=1)),)).to_wire()["patterns"]
            server.hset("graph:meta", mapping={"slot_patterns": patterns, "limited": "1", "rules": "p1.0.1"})
            frontier(as_looker, "slots", "graph")
            refusal = frontier(as_looker, "pause", "graph", code=1)
            assert "The user executing the script" in refusal
            assert SECRET not in refusal
        finally:
            server.execute_command("ACL", "DELUSER", "looker")


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["status", "nobody"], "has a spider 'nobody'"),
        (["remove", "graph"], "either a PATTERN or --host"),
        (["remove", "graph", "x", "--host", "y"], "either a PATTERN or --host"),
        (["explain", "graph", "nonsense"], "'nonsense' is neither a valid URL"),
        (["forget", "graph"], "give URLs"),
        (["forget", "graph", "--file", "/nowhere"], "cannot be read"),
        (["pause", "seeds"], "no frontier of spider 'seeds'"),
        (["status", "-s", "FRONTIER_PREFETCH=many"], "FRONTIER_PREFETCH must be an integer"),
        (["status", "graph", "-s", "SCHEDULER_QUEUE_KEY=%d"], "SCHEDULER_QUEUE_KEY"),
    ],
)
def test_an_impossible_command_is_one_line(url: str, arguments: list[str], said: str) -> None:
    refusal = frontier(url, *arguments, code=1)
    assert refusal.startswith("scrapy frontier: ")
    assert said in refusal
    assert refusal.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["dance"], ["status", "--dance"], ["peek"], ["peek", "graph", "-n", "0"], ["status", "-a", "x"]],
)
def test_a_mistyped_command_gets_the_usage(url: str, arguments: list[str]) -> None:
    assert "scrapy frontier" in frontier(url, *arguments, code=2)


def test_a_redis_that_is_not_there_is_one_line_without_its_password() -> None:
    url = f"redis://user:secret@127.0.0.1:{free_port()}/0"
    refusal = frontier(url, "status", code=1)
    assert "cannot be reached" in refusal
    assert "secret" not in refusal
    assert refusal.count("\n") == 1


def test_a_reader_that_has_had_enough_is_no_error(url: str) -> None:
    peek = f"{sys.executable} -m scrapy frontier peek graph -n 2000 --json"
    done = subprocess.run(
        ["bash", "-c", f"{peek} | head -n 1"],
        cwd=PROJECT,
        env={**os.environ, "REDIS_URL": url},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["place"] == 1
