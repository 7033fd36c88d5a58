"""Scrapy's own commands, in a project whose settings have our scheduler."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import redis

from scrapy_rq_sched.embedded import PrivateRedis, free_port

from ..project.crawls.graph import links_of, page_url
from ..support.crawl import Fleet, run_python, wait_until

pytestmark = pytest.mark.single("its data, byte for byte")

LINKS_OF_7 = " ".join(map(str, links_of(7, 500)))
FIRST_LINK = page_url(links_of(7, 500)[0])

#: What is typed, and what is to be seen. None is a crawl of the spider: they fetch what they are told.
COMMANDS = {
    "fetch": (["fetch", page_url(7)], LINKS_OF_7),
    "fetch with a spider": (["fetch", "--spider", "graph", page_url(7)], LINKS_OF_7),
    "fetch with a RedisSpider": (["fetch", "--spider", "seeds", page_url(7)], LINKS_OF_7),
    "view": (["view", "--spider", "graph", page_url(7)], "viewed file://"),
    "parse": (["parse", "--spider", "graph", "--nocolour", page_url(7)], f"<GET {FIRST_LINK}>"),
    "shell": (["shell", "--spider", "graph", page_url(7), "-c", "response.text"], LINKS_OF_7),
    "check": (["check", "graph"], "OK"),
    "list": (["list"], "graph"),
}

commands = pytest.mark.parametrize(("arguments", "seen"), COMMANDS.values(), ids=COMMANDS)


def output(*arguments: str, redis_url: str, **environment: str) -> str:
    done = run_python(
        "-m", "scrapy", *arguments, redis_url=redis_url, BROWSER="echo viewed %s", **environment
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def left_by_a_crawl(
    private_redis: PrivateRedis, tmp_path_factory: pytest.TempPathFactory
) -> dict[bytes, bytes]:
    """All that a crawl which was stopped half-way has left in Redis."""
    with redis.Redis.from_url(private_redis.url) as client:
        client.flushall()
        fleet = Fleet(tmp_path_factory.mktemp("fleet"), private_redis.url)
        try:
            fleet.start("graph", GRAPH_PAGES=500, GRAPH_LATENCY=0.05)
            wait_until(lambda: len(fleet.events("parsed")) > 50)
            fleet.kill(0, signal.SIGINT)
            fleet.wait()
        finally:
            fleet.stop()
        left = contents(client)
    assert b"graph:slots" in left
    return left


@pytest.fixture
def frontier(server: redis.Redis, left_by_a_crawl: dict[bytes, bytes]) -> redis.Redis:
    """The server with a crawl's data, and a seed for each spider."""
    for key, value in left_by_a_crawl.items():
        server.restore(key, 0, value)
    for spider in ("graph", "seeds", "default"):
        server.rpush(f"{spider}:start_urls", page_url(99))
    return server


def contents(server: redis.Redis) -> dict[bytes, bytes]:
    return {key: server.dump(key) for key in server.scan_iter()}


@commands
def test_a_command_that_is_no_crawl_leaves_the_frontier_as_it_is(
    frontier: redis.Redis, redis_url: str, arguments: list[str], seen: str
) -> None:
    before = contents(frontier)
    assert seen in output(*arguments, redis_url=redis_url)
    assert contents(frontier) == before


@commands
def test_a_command_that_is_no_crawl_needs_no_redis(arguments: list[str], seen: str) -> None:
    assert seen in output(*arguments, redis_url=f"redis://127.0.0.1:{free_port()}/0")


def test_a_command_that_is_no_crawl_begins_no_crawl(server: redis.Redis, redis_url: str) -> None:
    output("fetch", "--spider", "starts", page_url(7), redis_url=redis_url)
    assert server.keys() == []


def test_bench_crawls_its_own_site_without_redis() -> None:
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    options = ["-s", "CLOSESPIDER_TIMEOUT=0", "-s", "CLOSESPIDER_PAGECOUNT=50"]
    log = output("bench", *options, redis_url=nowhere, REAL_DOWNLOADS="1")
    assert "'finish_reason': 'closespider_pagecount'" in log
    assert "'scheduler/dequeued/memory'" in log


def test_parse_fetches_a_link_once(redis_url: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    arguments = ["parse", "--spider", "graph", "--depth", "2", "--nocolour", page_url(7)]
    output(*arguments, redis_url=redis_url, RECORD=str(record))
    downloaded = [line.split()[3] for line in record.read_text().splitlines() if " downloaded " in line]
    assert sorted(downloaded) == sorted({page_url(7), *map(page_url, links_of(7, 500))})


def test_a_shell_fetches_a_url_again(redis_url: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    code = f"[fetch(scrapy.Request({page_url(7)!r})), fetch(scrapy.Request({page_url(7)!r}))]"
    output("shell", "-c", code, redis_url=redis_url, RECORD=str(record))
    assert record.read_text().count(" downloaded ") == 2


def test_a_command_keeps_out_of_the_frontier_with_a_setting_that_is_wrong(redis_url: str) -> None:
    arguments = ["fetch", "-s", "FRONTIER_PREFETCH=many", page_url(7)]
    assert LINKS_OF_7 in output(*arguments, redis_url=redis_url)


def test_crawl_writes_its_items_to_a_file(server: redis.Redis, redis_url: str, tmp_path: Path) -> None:
    output("crawl", "starts", "-O", str(tmp_path / "items.json"), redis_url=redis_url)
    items = json.loads((tmp_path / "items.json").read_text())
    assert sorted(item["url"] for item in items) == sorted(page_url(1_000_000 + n) for n in range(40))


def test_runspider_crawls_the_frontier_of_the_spiders_name(
    server: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "alone.py").write_text(
        "import scrapy\n"
        "class Alone(scrapy.Spider):\n"
        "    name = 'alone'\n"
        "    def parse(self, response):\n"
        "        yield {'url': response.url}\n"
    )
    server.rpush("alone:start_urls", page_url(3), page_url(4))
    arguments = ["runspider", str(tmp_path / "alone.py"), "-O", str(tmp_path / "items.json")]
    output(*arguments, redis_url=redis_url)
    items = json.loads((tmp_path / "items.json").read_text())
    assert sorted(item["url"] for item in items) == [page_url(3), page_url(4)]
    assert [key for key in server.scan_iter() if server.ttl(key) < 0] == []
    assert server.exists("alone:finished")
