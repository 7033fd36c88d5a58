"""``scrapy frontier crawl``: all workers of one machine, by one command, whatever befalls them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from scrapy_rq_sched.supervise import supervisor

from ..project.crawls.graph import page_url
from ..support.crawl import is_alive, wait_until
from ..support.proxy import Proxy
from ..support.terminal import Terminal, ended

pytestmark = pytest.mark.single("a fleet on one machine; its Redis does not matter")

#: Long enough to look at it; a page's item is its URL.
SLOW = ("-s", "GRAPH_LATENCY=0.05", "-s", "CONCURRENT_REQUESTS=2", "-s", "FRONTIER_LEASE_TIMEOUT=2")


@pytest.fixture
def terminal(tmp_path: Path, redis_url: str) -> Iterator[Terminal]:
    made = Terminal(tmp_path, redis_url)
    yield made
    made.stop()


PAGES = 200
ALL = {page_url(number) for number in range(PAGES)}
CRAWL = ("pages", "-s", f"GRAPH_PAGES={PAGES}", *SLOW)


def test_several_workers_crawl_until_the_crawl_is_finished(terminal: Terminal) -> None:
    code, said = terminal.run(*CRAWL, "-w", "3", "-O", "items.jsonl", "--stats")
    assert code == 0, said
    assert terminal.found() == dict.fromkeys(ALL, 1)
    assert [reason for _, reason in terminal.events("closed")] == ["finished"] * 3
    assert "3 workers of spider pages. Their logs are in " in said
    assert f"The crawl of spider pages is finished: {PAGES} pages, {PAGES} items in " in said
    assert f"{PAGES} items were written to {terminal.items}" in said
    assert f"'item_scraped_count': {PAGES}" in said
    logs = sorted((terminal.folder / ".scrapy/frontier/pages").glob("*/worker-*.log"))
    assert [log.name for log in logs] == ["worker-1.log", "worker-2.log", "worker-3.log"]
    assert all("Spider closed (finished)" in log.read_text() for log in logs)


def test_a_worker_that_is_killed_is_started_again_and_no_item_is_lost(terminal: Terminal) -> None:
    process = terminal.start(*CRAWL, "-w", "2", "-O", "items.jsonl", "-s", "GRAPH_PAGES=800")
    for parsed in (20, 100, 200):
        wait_until(lambda: len(terminal.events("parsed")) > parsed and len(terminal.workers()) == 2)  # noqa: B023
        killed = terminal.workers().pop()
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not is_alive(killed))  # noqa: B023
    code, said = ended(process)
    assert code == 0, said
    assert terminal.found() == {page_url(number): 1 for number in range(800)}
    assert "all workers have the same URI" not in said
    assert said.count("has died (killed by signal 9 (SIGKILL)). It will be restarted in") == 3
    assert "is finished" in said


@pytest.mark.long
def test_workers_do_not_outlive_their_supervisor_and_the_next_one_has_their_items(terminal: Terminal) -> None:
    process = terminal.start(*CRAWL, "-w", "2", "-o", "items.jsonl")
    wait_until(lambda: len(terminal.events("parsed")) > 50)
    process.kill()
    process.wait()
    wait_until(lambda: not terminal.workers(), timeout=20)
    code, said = terminal.run(*CRAWL, "-w", "2", "-o", "items.jsonl")
    assert code == 0, said
    assert terminal.found() == dict.fromkeys(ALL, 1)
    assert set(Counter(url for _, url in terminal.events("parsed")).values()) == {1}


def test_ctrl_c_has_the_workers_finish_and_the_same_command_goes_on(terminal: Terminal) -> None:
    process = terminal.start(*CRAWL, "-w", "2", "-o", "items.jsonl")
    wait_until(lambda: len(terminal.events("parsed")) > 50)
    process.send_signal(signal.SIGINT)
    code, said = ended(process, 30)
    assert code == 130
    assert "The same command continues it" in said
    assert {reason for _, reason in terminal.events("closed")} == {"shutdown"}
    before = set(terminal.found())
    assert before
    assert before < ALL
    assert terminal.run(*CRAWL, "-w", "2", "-o", "items.jsonl")[0] == 0
    assert terminal.found() == dict.fromkeys(ALL, 1)


@pytest.mark.long
def test_a_crawl_that_goes_on_adds_to_a_file_that_a_new_one_replaces(terminal: Terminal) -> None:
    terminal.items.write_text('{"url": "of yesterday"}\n')
    process = terminal.start(*CRAWL, "-w", "2", "-O", "items.jsonl")
    wait_until(lambda: len(terminal.events("parsed")) > 50)
    process.send_signal(signal.SIGINT)
    assert ended(process, 30)[0] == 130
    assert set(terminal.found()) < ALL
    code, said = terminal.run(*CRAWL, "-w", "2", "-O", "items.jsonl")
    assert code == 0, said
    assert "An earlier run's crawl is continued: its files are appended to, not replaced" in said
    assert terminal.found() == dict.fromkeys(ALL, 1)


@pytest.mark.long
def test_a_file_is_not_replaced_where_nothing_is_crawled(terminal: Terminal) -> None:
    terminal.items.write_text("of yesterday\n")
    assert terminal.run("pages", "--redis-url", "redis://127.0.0.1:1/0", "-O", "items.jsonl")[0] == 1
    assert terminal.run("pages", "-O", "items.jsonl", "-O", "-:json")[0] == 1
    assert terminal.items.read_text() == "of yesterday\n"


@pytest.mark.long
@pytest.mark.parametrize(
    "collector", ["scrapy.statscollectors.DummyStatsCollector", "scrapy_rq_sched.stats.RedisStatsCollector"]
)
def test_a_finished_crawl_is_finished_with_each_statistics_collector(
    terminal: Terminal, collector: str
) -> None:
    code, said = terminal.run(
        *CRAWL, "-w", "2", "-O", "items.jsonl", "--stats", "-s", f"STATS_CLASS={collector}"
    )
    assert code == 0, said
    assert terminal.found() == dict.fromkeys(ALL, 1)
    assert "is finished" in said
    if "Redis" in collector:
        assert f"'item_scraped_count': {PAGES}" in said


@pytest.mark.long
def test_workers_that_are_told_to_stop_are_not_started_again(terminal: Terminal, server: redis.Redis) -> None:
    process = terminal.start(*CRAWL, "-w", "2", "-s", "GRAPH_PAGES=100000")
    wait_until(lambda: len(terminal.events("parsed")) > 20 and len(terminal.workers()) == 2)
    os.kill(terminal.workers().pop(), signal.SIGKILL)
    subprocess.run(
        [sys.executable, "-m", "scrapy", "frontier", "stop", "pages"],
        cwd=terminal.folder,
        env={**os.environ, "REDIS_URL": terminal.redis_url},
        check=True,
        capture_output=True,
    )
    code, said = ended(process, 30)
    assert code == 0
    assert "has ended (s" in said
    assert not terminal.workers()


@pytest.mark.long
def test_a_closed_pipe_has_the_workers_finish_and_their_items_joined(terminal: Terminal) -> None:
    process = terminal.start(*CRAWL, "-w", "2", "-o", "items.jsonl", "-s", "GRAPH_PAGES=100000")
    wait_until(lambda: len(terminal.events("parsed")) > 20)
    assert process.stdout is not None
    process.stdout.close()
    wait_until(lambda: process.poll() is not None, timeout=60)
    assert not terminal.workers()
    assert {reason for _, reason in terminal.events("closed")} == {"shutdown"}
    assert len(terminal.found()) >= 20


@pytest.mark.long
def test_a_signal_that_is_ignored_stays_ignored(terminal: Terminal) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
    try:
        process = terminal.start(*CRAWL, "-w", "1")
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_until(lambda: len(terminal.events("parsed")) > 20)
    process.send_signal(signal.SIGHUP)
    code, said = ended(process)
    assert code == 0, said


@pytest.mark.long
def test_ctrl_c_twice_ends_them_at_once(terminal: Terminal) -> None:
    process = terminal.start("pages", "-w", "2", "-s", "GRAPH_PAGES=100", "-s", "GRAPH_LATENCY=60")
    wait_until(lambda: len(terminal.workers()) == 2)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: (terminal.folder / ".scrapy").exists())
    wait_until(lambda: any("close" in log.read_text() for log in supervisor_logs(terminal)))
    process.send_signal(signal.SIGINT)
    code, said = ended(process, 30)
    assert code == 130, said
    assert not terminal.workers()


def supervisor_logs(terminal: Terminal) -> list[Path]:
    return list((terminal.folder / ".scrapy/frontier").glob("*/*/supervisor.log"))


@pytest.mark.long
def test_a_worker_that_dies_again_and_again_is_set_aside(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervisor, "MOST_DEATHS", 3)
    monkeypatch.chdir(terminal.folder)
    monkeypatch.setenv("REDIS_URL", terminal.redis_url)
    said: list[str] = []
    command = ["crawl", "kill", "-s", "FRONTIER_MAX_DELIVERIES=1000", "-s", "FRONTIER_LEASE_TIMEOUT=0.5"]
    watched = supervisor.Supervisor(1, lambda name: command, tmp_path, said.append)
    begun = time.monotonic()
    while not watched.is_over and time.monotonic() < begun + 60:
        watched.step()
        time.sleep(0.05)
    assert watched.processes == 3
    assert watched.set_aside == 1
    assert not watched.has_succeeded
    assert any("has died 3 times in a row" in line for line in said)


def test_a_bad_setting_is_refused_at_once(terminal: Terminal) -> None:
    code, said = terminal.run("pages", "-w", "2", "-s", "FRONTIER_MAX_DELIVERIES=0")
    assert code == 1
    assert said == "scrapy frontier: FRONTIER_MAX_DELIVERIES must be an integer ≥ 1, not '0'\n"


@pytest.mark.long
def test_workers_that_cannot_start_are_not_started_again(terminal: Terminal, server: redis.Redis) -> None:
    server.set("pages:started", "x")
    code, said = terminal.run("pages", "-w", "2")
    assert code == 1
    assert said.count("cannot start. It will not be restarted") == 2
    assert said.count("The crawl cannot start: Key 'pages:started' in Redis is a string") == 1


@pytest.mark.long
def test_a_worker_that_has_not_joined_does_not_report_its_name(
    terminal: Terminal, server: redis.Redis
) -> None:
    server.set("pages:started", "x")
    terminal.run("pages", "-w", "1")
    (report,) = (terminal.folder / ".scrapy/frontier/pages").glob("*/worker-1.json")
    assert json.loads(report.read_text())["worker"] == ""


@pytest.mark.long
def test_a_worker_that_is_refused_in_mid_crawl_is_restarted(terminal: Terminal, server: redis.Redis) -> None:
    process = terminal.start(*CRAWL, "-w", "1", "-O", "items.jsonl")
    wait_until(lambda: len(terminal.events("parsed")) > 20)
    used = server.hget("pages:meta", "format")
    assert used is not None
    server.hset("pages:meta", "format", "7")  # a worker of a newer version has joined meanwhile
    wait_until(lambda: any("was refused" in log.read_text() for log in supervisor_logs(terminal)))
    server.hset("pages:meta", "format", used)
    code, said = ended(process)
    assert code == 0, said
    assert (
        "Worker 1 was refused by the frontier in mid-crawl, and has closed. It will be restarted in" in said
    )
    assert set(terminal.found()) == ALL


@pytest.mark.long
def test_the_log_of_a_worker_that_cannot_start_is_shown(terminal: Terminal) -> None:
    code, said = terminal.run("pages", "-w", "1", "-s", 'EXTENSIONS={"nowhere.Extension": 1}')
    assert code == 1
    assert "Worker 1 cannot start. It will not be restarted. The end of its log, " in said
    assert "No module named 'nowhere'" in said


def test_a_spider_that_there_is_not(terminal: Terminal) -> None:
    code, said = terminal.run("unheard")
    assert code == 1
    assert "This project has no spider 'unheard'. Its spiders: " in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "name", ["items.json", *(pytest.param(f"items.{end}", marks=pytest.mark.long) for end in ("csv", "xml"))]
)
def test_a_file_of_another_format_has_each_item_once(terminal: Terminal, name: str) -> None:
    code, said = terminal.run(*CRAWL, "-w", "2", "-O", name)
    assert code == 0, said
    text = (terminal.folder / name).read_text()
    assert Counter(re.findall(r"http://graph\.test/\d+", text)) == dict.fromkeys(ALL, 1)


def test_a_file_that_cannot_be_opened_is_refused_before_the_crawl(terminal: Terminal) -> None:
    terminal.items.mkdir()
    code, said = terminal.run(*CRAWL, "-w", "1", "-o", "items.jsonl")
    assert code == 1
    assert "scrapy frontier: " in said
    assert not terminal.events("opened")


@pytest.mark.long
def test_each_item_is_in_the_file_once_though_the_command_and_workers_are_killed(terminal: Terminal) -> None:
    command = (*CRAWL, "-w", "2", "-o", "items.jsonl", "-s", "GRAPH_PAGES=600")
    for parsed in (50, 150, 250):
        process = terminal.start(*command)
        wait_until(lambda: len(terminal.events("parsed")) > parsed)  # noqa: B023
        os.kill(terminal.workers().pop(), signal.SIGKILL)
        process.kill()
        process.wait()
        wait_until(lambda: not terminal.workers(), timeout=20)
    code, said = terminal.run(*command)
    assert code == 0, said
    assert terminal.found() == {page_url(number): 1 for number in range(600)}
    assert [path.name for path in terminal.folder.glob("items*")] == ["items.jsonl"]


@pytest.mark.long
def test_the_items_of_a_stream_are_moved_to_a_file_also_by_a_command_that_is_killed(
    terminal: Terminal, server: redis.Redis
) -> None:
    terminal.run(*CRAWL, "-w", "2", "-s", "FRONTIER_ITEMS=stream")
    assert f"{PAGES}" in terminal.run("pages", command="items")[1]
    for size in (1, 3000):
        process = terminal.start("pages", "-o", "items.jsonl", "--follow", command="items")
        wait_until(lambda: terminal.items.exists() and terminal.items.stat().st_size >= size)  # noqa: B023
        process.kill()
        process.wait()
    code, said = terminal.run("pages", "-o", "items.jsonl", command="items")
    assert code == 0, said
    assert terminal.found() == dict.fromkeys(ALL, 1)
    assert not server.xlen("pages:items")
    assert "No items of spider 'pages' wait in Redis" in terminal.run("pages", command="items")[1]


@pytest.mark.long
def test_items_of_a_run_that_was_not_continued_are_named_with_their_command(
    terminal: Terminal, server: redis.Redis
) -> None:
    process = terminal.start(*CRAWL, "-w", "2", "-o", "lost.jsonl")
    wait_until(lambda: len(terminal.events("parsed")) > 20)
    process.kill()
    process.wait()
    wait_until(lambda: not terminal.workers(), timeout=20)
    token = server.hkeys("pages:feeds")[0].decode()
    server.xadd(f"pages:feed:{token}", {"item": '{"url": "x"}', "id": "1-x-0"})
    code, said = terminal.run(*CRAWL, "-w", "2", "-o", "items.jsonl")
    assert code == 0, said
    (command,) = re.findall(r"To write them: scrapy frontier items (.*)", said)
    assert f"of an earlier run, for {terminal.folder}/lost.jsonl on " in said
    assert terminal.run(*command.split(), command="items")[0] == 0
    found = (terminal.folder / "lost.jsonl").read_text()
    urls = Counter(json.loads(line)["url"] for line in found.splitlines())
    assert urls + terminal.found() == {**dict.fromkeys(ALL, 1), "x": 1}


@pytest.mark.long
def test_without_a_setting_for_redis_the_project_has_one_of_its_own(
    redis_url: str, server: redis.Redis
) -> None:
    # The path of a socket is not to be long.
    with tempfile.TemporaryDirectory() as short:
        terminal = Terminal(Path(short), redis_url)
        try:
            code, said = terminal.run(*CRAWL, "-w", "2", "-s", "REDIS_URL=", "-O", "items.jsonl")
            assert code == 0, said
            assert "No setting names a Redis: this project gets its own, embedded:///" in said
            assert set(terminal.found()) == ALL
            assert server.dbsize() == 0
            # The other commands look there as well, also when nobody is at it.
            code, said = terminal.run("pages", "-s", "REDIS_URL=", command="events")
            assert (code, said.count("worker_joined"), said.count("crawl_finished")) == (0, 2, 1), said
        finally:
            terminal.stop()


@pytest.mark.long
def test_a_project_that_knows_nothing_of_a_fleet_is_crawled_by_one(terminal: Terminal) -> None:
    settings = terminal.folder / "crawls" / "settings.py"
    settings.write_text(settings.read_text().replace('ADDONS = {"scrapy_rq_sched.Addon": 500}\n', ""))
    code, said = terminal.run(*CRAWL, "-w", "2", "-O", "items.jsonl")
    assert code == 0, said
    assert terminal.found() == dict.fromkeys(ALL, 1)
    assert len({pid for pid, _ in terminal.events("parsed")}) == 2


@pytest.mark.long
def test_warnings_of_all_workers_are_said_once(terminal: Terminal) -> None:
    code, said = terminal.run("raising", "-w", "2", "-s", "GRAPH_PAGES=30", "--stats")
    assert code == 0
    assert said.count("Spider error processing") == 1
    assert "'spider_exceptions/KeyError': 30" in said


# -- workers that hang -------------------------------------------------------------------------------

HANGING = ("hanging", "-s", "SPIDER_MODULES=crawls.unusual", "-s", "GRAPH_PAGES=100")


@pytest.mark.long
@pytest.mark.parametrize("waits", ["", "1"], ids=["computing", "waiting"])
def test_a_callback_that_never_returns_is_set_aside_and_the_crawl_ends(
    terminal: Terminal, server: redis.Redis, waits: str
) -> None:
    short = ("-s", "FRONTIER_LEASE_TIMEOUT=2", "-s", "FRONTIER_MAX_DELIVERIES=4")
    code, said = terminal.run(*HANGING, "-w", "2", "-a", f"waits={waits}", *short, "-O", "items.jsonl")
    assert code == 0, said
    assert set(terminal.found()) == {page_url(number) for number in range(100)} - {page_url(50)}
    assert [json.loads(entry)["deaths"] for entry in server.lrange("hanging:failed", 0, -1)] == [4]
    killed = rf"Worker \d has died \(killed after \d+ s without a heartbeat, at {page_url(50)}.*\)\. It will"
    assert re.search(killed, said)
    assert not terminal.workers()


@pytest.mark.long
def test_a_hung_worker_does_not_hold_up_an_interrupted_crawl_for_ever(terminal: Terminal) -> None:
    soon = ("-s", "DOWNLOAD_TIMEOUT=1", "-s", "FRONTIER_LEASE_TIMEOUT=2")
    process = terminal.start(*HANGING, "-w", "1", *soon)
    wait_until(lambda: terminal.events("hangs"))
    process.send_signal(signal.SIGTERM)
    code, said = ended(process)
    assert code == 130, said
    assert re.search(r"Worker 1 was killed because it did not close, and sent no heartbeat for \d+ s", said)
    assert not terminal.workers()


@pytest.mark.long
def test_a_worker_that_hangs_before_it_joins_does_not_hold_up_a_finished_crawl(terminal: Terminal) -> None:
    # The crawl must be finished before: otherwise the worker that hangs is restarted.
    soon = ("-s", "DOWNLOAD_TIMEOUT=15", "-s", "FRONTIER_LEASE_TIMEOUT=1")
    code, said = terminal.run("hanginit", *HANGING[1:], *soon, "-w", "2", "-O", "items.jsonl")
    assert code == 0, said
    assert len(terminal.found()) == 100
    assert re.search(r"Worker \d was killed because it did not close", said)


@pytest.mark.long
def test_a_worker_that_is_slow_to_write_its_last_items_is_left_alone(terminal: Terminal) -> None:
    slow = ("-s", 'ITEM_PIPELINES={"crawls.unusual.SlowLastPipeline": 1}', "-s", "FRONTIER_LEASE_TIMEOUT=0.5")
    code, said = terminal.run("pages", "-s", "GRAPH_PAGES=20", "-w", "1", *slow)
    assert code == 0, said
    assert len(terminal.events("written")) == 1
    assert "was killed" not in said


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("pages", "-w", "1", "-s", 'ITEM_PIPELINES={"crawls.unusual.HangLastPipeline": 1}'),
            "killed because it did not close, and sent no heartbeat",
        ),
        (
            ("hangstart", "-w", "2", "-s", "SPIDER_MODULES=crawls.unusual"),
            "without a heartbeat, although it holds no request",
        ),
    ],
    ids=["close_spider", "start"],
)
def test_workers_that_hang_again_and_again_without_a_request_are_given_up(
    terminal: Terminal, arguments: tuple[str, ...], line: str
) -> None:
    # A worker may stand still for 7.5 s at all: also while it is started, on a slow machine.
    soon = ("-s", "DOWNLOAD_TIMEOUT=6", "-s", "FRONTIER_LEASE_TIMEOUT=0.5")
    few = ("-s", "GRAPH_PAGES=5")
    code = (
        "from scrapy_rq_sched.supervise import supervisor; from scrapy.cmdline import execute; "
        "supervisor.MOST_DEATHS = 2; execute()"
    )
    process = terminal.start_python("-c", code, "frontier", "crawl", *arguments, *soon, *few)
    code_, said = ended(process)
    assert code_ == 1, said
    assert line in said
    assert "has died 2 times in a row" in said
    assert not terminal.workers()


@pytest.mark.long
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_redis_that_does_not_answer_does_not_keep_a_hung_worker_alive(
    terminal: Terminal, redis_url: str, is_interrupted: bool
) -> None:
    soon = ("-s", "DOWNLOAD_TIMEOUT=1", "-s", "FRONTIER_LEASE_TIMEOUT=2")
    with Proxy(redis_url) as proxy:
        process = terminal.start(*HANGING, "-w", "1", *soon, environment={"REDIS_URL": proxy.url})
        wait_until(lambda: terminal.events("hangs"))
        hung = terminal.workers().pop()
        proxy.stall()
        if is_interrupted:
            process.send_signal(signal.SIGINT)
        wait_until(lambda: not is_alive(hung), timeout=30)
        proxy.go()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        _, said = ended(process)
    assert ("it did not close" if is_interrupted else "Redis does not answer which request it holds") in said


# -- start() -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_start_that_raises_in_every_worker_is_a_failure(terminal: Terminal) -> None:
    code, said = terminal.run("brokenstart", "-w", "2")
    assert code == 1, said
    assert "The crawl of spider brokenstart has failed: 1 page, 0 items in " in said
    assert ". start() raised an exception: see the log\n" in said
    assert said.count("ValueError: the list of start requests is broken") <= 1


@pytest.mark.long
def test_a_start_that_raises_in_one_of_the_workers_is_a_warning(terminal: Terminal) -> None:
    code, said = terminal.run("sometimesbroken", "-s", "SPIDER_MODULES=crawls.unusual", "-w", "2")
    assert code == 0, said
    assert "The crawl of spider sometimesbroken is finished: " in said
    assert "But start() raised an exception in 1 worker, and ended early there: see the log" in said
