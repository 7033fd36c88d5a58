"""``scrapy frontier metrics`` as it is typed: real crawls, files, HTTP, and what is refused."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.embedded import PrivateRedis, free_port
from scrapy_rq_sched.inspect import Control, Status, View, read_status
from scrapy_rq_sched.keys import Keys

from ..support.client import Client, calls_of
from ..support.crawl import PROJECT, Fleet, run_python, wait_until
from ..support.metric_values import Values, of_spider, read
from ..support.topologies import with_login
from .test_security import SECRET, acl_rule

pytestmark = pytest.mark.single("what is typed and printed, with the keys of a single server")

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def run(redis_url: str, *arguments: str, code: int = 0, **options: Any) -> str:
    """Return what the command prints; on its standard error, if *code* is not 0."""
    done = run_python("-m", "scrapy", "frontier", "metrics", *arguments, redis_url=redis_url, **options)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr if code else done.stdout


def status_of(redis_url: str, spider: str) -> Status:
    return read_status(View.from_settings(Settings({"REDIS_URL": redis_url}), spider))


class Listener:
    """``scrapy frontier metrics --listen`` on a free port."""

    def __init__(self, redis_url: str, folder: Path, *arguments: str) -> None:
        self.errors = folder / "exporter-errors"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "scrapy", "frontier", "metrics", *arguments, "--listen", "0"],
                cwd=PROJECT,
                env={**os.environ, "REDIS_URL": redis_url},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
        assert found, line + self.errors.read_text()
        self.url = found[0]

    def get(self, accept: str = OPENMETRICS) -> str:
        request = urllib.request.Request(self.url, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=10) as response:
            return str(response.read().decode())

    def values(self) -> Values:
        return read(self.get())


@pytest.fixture
def listen(redis_url: str, server: redis.Redis, tmp_path: Path) -> Iterator[Callable[..., Listener]]:
    """Starts a listener."""
    started: list[Listener] = []

    def start(*arguments: str, url: str = redis_url) -> Listener:
        started.append(Listener(url, tmp_path, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


Listen = Callable[..., Listener]


def compare(values: Values, status: Status) -> None:
    """Check that *values* are those of *status*."""
    spider = status.spider
    for name in ("seen", "slots", "workers_wanted"):
        assert of_spider(values, f"frontier_{name}", spider) == {"": getattr(status, name)}
    assert of_spider(values, "frontier_pages_total", spider) == {"": status.pages}
    assert of_spider(values, "frontier_requests", spider) == {
        name: getattr(status, name)
        for name in ("waiting", "leased", "delayed", "following", "failed", "seeds")
    }
    assert of_spider(values, "frontier_items_total", spider) == {"": status.items}
    assert of_spider(values, "frontier_errors_total", spider) == {"": status.errors}
    assert of_spider(values, "frontier_responses_total", spider) == status.statuses
    assert of_spider(values, "frontier_counts_total", spider) == status.counts
    dead = len(status.workers) - status.alive
    assert of_spider(values, "frontier_workers", spider) == {
        "alive": status.alive,
        "dead": dead,
        "in_line": len(status.in_line),
    }
    for name in ("state", "limit"):
        states = of_spider(values, f"frontier_{name}", spider)
        assert [state for state, value in states.items() if value] == [getattr(status, name)]
    assert of_spider(values, "frontier_worker_pages_total", spider) == {
        worker.name: worker.pages for worker in status.workers
    }
    assert sum(of_spider(values, "frontier_slot_waiting", spider).values()) == status.waiting


@pytest.mark.long
def test_the_metrics_of_two_crawls_equal_their_status(
    fleet: Fleet, server: redis.Redis, redis_url: str, listen: Listen
) -> None:
    slow = {"GRAPH_PAGES": 100_000, "GRAPH_LATENCY": 0.05, "CONCURRENT_REQUESTS": 4}
    stats = {"STATS_CLASS": "scrapy_rq_sched.stats.RedisStatsCollector"}
    fleet.start("graph", 2, **slow, **stats)
    fleet.start("pages", 1, **slow)
    wait_until(lambda: all(len(fleet.events("parsed", worker)) > 20 for worker in range(3)))

    wait_until(lambda: int(server.hget("graph:stats", "scheduler/dequeued") or 0) > 40)

    # While they crawl, the values are between those of before and after.
    before = status_of(redis_url, "graph")
    values = read(run(redis_url))
    after = status_of(redis_url, "graph")
    assert before.pages <= of_spider(values, "frontier_pages_total", "graph")[""] <= after.pages
    assert before.seen <= of_spider(values, "frontier_seen", "graph")[""] <= after.seen
    assert of_spider(values, "stats", "graph")["scheduler/dequeued"] > 40
    assert of_spider(values, "stats", "pages") == {}

    # While they are paused, nothing moves.
    for spider in ("graph", "pages"):
        Control(View.from_settings(Settings({"REDIS_URL": redis_url}), spider)).pause()

    def picture() -> list[tuple[int, int, int]]:
        return [
            (status.pages, status.waiting, status.leased)
            for status in (status_of(redis_url, spider) for spider in ("graph", "pages"))
        ]

    def is_still() -> bool:
        was = picture()
        time.sleep(1.0)
        return was == picture()

    wait_until(is_still)
    listener = listen()
    for values in (read(run(redis_url)), read(run(redis_url, "graph", "pages")), listener.values()):
        compare(values, status_of(redis_url, "graph"))
        compare(values, status_of(redis_url, "pages"))
    assert "scrapy_frontier_slots" in run(redis_url, "graph")
    assert "pages" not in {labels[0] for labels in read(run(redis_url, "graph"))["scrapy_frontier_slots"]}


@pytest.mark.long
def test_the_label_of_a_worker_that_was_killed_goes(
    fleet: Fleet, server: redis.Redis, redis_url: str, listen: Listen
) -> None:
    fleet.start("graph", 2, GRAPH_PAGES=100_000, GRAPH_LATENCY=0.1, FRONTIER_LEASE_TIMEOUT=2)
    wait_until(lambda: all(fleet.events("parsed", worker) for worker in range(2)))
    listener = listen()

    def workers() -> set[str]:
        return set(of_spider(listener.values(), "frontier_worker_pages_total", "graph"))

    wait_until(lambda: len(workers()) == 2)
    fleet.kill(0)
    wait_until(lambda: len(workers()) == 1, timeout=20)
    assert of_spider(listener.values(), "frontier_workers", "graph")["alive"] == 1


def test_many_scrapers_get_one_snapshot_a_second(server: redis.Redis, listen: Listen) -> None:
    listener = listen()
    begun, before = time.monotonic(), calls_of(server, "ping")
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: listener.get(), range(100)))
    assert calls_of(server, "ping") - before <= time.monotonic() - begun + 2


def test_prometheus_gets_either_format(server: redis.Redis, listen: Listen) -> None:
    listener = listen()
    assert listener.get().endswith("# EOF\n")
    plain = listener.get("text/plain")
    assert "# EOF" not in plain
    assert "scrapy_frontier_up" in read(plain, is_openmetrics=False)


def test_a_scrape_while_redis_is_away_says_so_and_one_after_that_goes_on(
    tmp_path: Path, listen: Listen
) -> None:
    folder = tmp_path / "redis"
    folder.mkdir()
    later = PrivateRedis(folder)
    url = later.url
    listener = listen(url=url)
    assert listener.values()["scrapy_frontier_up"] == {(url,): 0.0}
    time.sleep(1.1)
    begun = time.monotonic()
    assert listener.values()["scrapy_frontier_up"] == {(url,): 0.0}
    assert time.monotonic() - begun < 2
    (line,) = listener.errors.read_text().splitlines()
    assert f"Redis at {url} cannot be reached" in line
    with later:
        wait_until(lambda: listener.values()["scrapy_frontier_up"] == {(url,): 1.0}, timeout=20)
    assert listener.errors.read_text().splitlines()[1].endswith("answers again")


def test_ctrl_c_ends_the_listener_without_a_word(listen: Listen) -> None:
    listener = listen()
    listener.get()
    listener.process.send_signal(2)
    assert listener.process.wait(10) == 0
    assert listener.errors.read_text() == ""


def test_a_read_only_user_gets_all_metrics(server: redis.Redis, redis_url: str) -> None:
    Client(server, "w", "priority", 30, 5, keys=Keys("graph")).open().push("a", slot="a.example")
    _, *rule = (word.replace("~target:", "~graph:") for word in acl_rule("looker"))
    as_looker = with_login(redis_url, "looker", SECRET)
    try:
        server.execute_command("ACL", "SETUSER", "looker", *rule)
        few = read(run(as_looker, "graph"))
        server.execute_command("ACL", "SETUSER", "looker", "+zmscore", "+info")
        text = run(as_looker, "graph")
    finally:
        server.execute_command("ACL", "DELUSER", "looker")
    assert set(read(text)) - set(few) == {"scrapy_frontier_redis_memory_bytes"}
    assert of_spider(read(text), "frontier_slot_waiting", "graph") == {"a.example": 1, "other": 0}
    assert SECRET not in text


# -- files -----------------------------------------------------------------------------------------


def test_a_textfile_is_replaced_in_one_step(server: redis.Redis, redis_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "textfiles"
    folder.mkdir()
    file = folder / "frontier.prom"
    file.write_text("what was there before\n")
    with file.open() as reader:  # a node exporter that has just opened it
        run(redis_url, "graph", "--out", str(file))
        assert reader.read() == "what was there before\n"
    values = read(file.read_text(), is_openmetrics=False)
    assert of_spider(values, "frontier_seen", "graph") == {"": 0}
    assert [path.name for path in folder.iterdir()] == ["frontier.prom"]
    # The node exporter is another user.
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_textfile_says_that_redis_is_away(tmp_path: Path) -> None:
    url, file = f"redis://127.0.0.1:{free_port()}/0", tmp_path / "frontier.prom"
    refusal = run(url, "--out", str(file), code=1)
    assert "cannot be reached" in refusal
    assert refusal.count("\n") == 1
    assert read(file.read_text(), is_openmetrics=False)["scrapy_frontier_up"] == {(url,): 0.0}


# -- what is refused -------------------------------------------------------------------------------


def test_a_port_in_use_is_one_line(server: redis.Redis, redis_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refusal = run(redis_url, "--listen", str(port), code=1)
    assert refusal == (
        f"scrapy frontier: The exporter cannot listen on 127.0.0.1:{port}: Address already in use. "
        "Give --listen another address or port\n"
    )


def test_a_host_that_is_none_is_one_line(server: redis.Redis, redis_url: str) -> None:
    refusal = run(redis_url, "--listen", "no-such-host.invalid:9410", code=1)
    assert refusal.count("\n") == 1
    assert "no-such-host.invalid:9410" in refusal


@pytest.mark.parametrize("address", ["x", "1.2.3.4:", "127.0.0.1:70000", "-1", ""])
def test_an_address_that_is_none_is_refused(redis_url: str, address: str) -> None:
    assert "--listen" in run(redis_url, f"--listen={address}", code=2)


def test_an_unknown_spider_is_one_line(server: redis.Redis, redis_url: str) -> None:
    refusal = run(redis_url, "nobody", code=1)
    assert "Neither this project nor Redis has a spider 'nobody'" in refusal
    assert refusal.count("\n") == 1


def test_a_file_that_cannot_be_written_is_one_line(server: redis.Redis, redis_url: str) -> None:
    refusal = run(redis_url, "--out", "/nowhere/frontier.prom", code=1)
    assert "'/nowhere/frontier.prom'" in refusal
    assert refusal.count("\n") == 1


def test_without_the_extra_one_line_names_the_package_to_install(redis_url: str, tmp_path: Path) -> None:
    # An interpreter that does not find the library, as where it is not installed.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'prometheus_client':\n"
        "            raise ModuleNotFoundError('No module named ' + name)\n"
        "sys.meta_path.insert(0, Missing)\n"
    )
    refusal = run(redis_url, code=1, PYTHONPATH=str(tmp_path))
    assert "pip install 'scrapy-rq-sched[metrics]'" in refusal
    assert refusal.count("\n") == 1
