"""``scrapy frontier crawl`` starts its workers again and again, and it is one crawl all the time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.events import read_events

from ..project.crawls.graph import page_url
from ..support.crawl import Fleet, is_alive, wait_until
from ..support.terminal import Terminal, ended

pytestmark = pytest.mark.single("a fleet on one machine; its Redis does not matter")


@pytest.fixture
def terminal(tmp_path: Path, redis_url: str) -> Iterator[Terminal]:
    made = Terminal(tmp_path, redis_url)
    yield made
    made.stop()


def chain(pages: int, *settings: str, **arguments: object) -> list[str]:
    """Return the arguments for a crawl of so many pages, with a short lease."""
    own = [text for name, value in arguments.items() for text in ("-a", f"{name}={value}")]
    every = (f"GRAPH_PAGES={pages}", "FRONTIER_LEASE_TIMEOUT=0.5", *settings)
    return ["chain", *own, *(text for setting in every for text in ("-s", setting))]


def all_of(pages: int) -> set[str]:
    return {page_url(number) for number in range(pages)}


def started(terminal: Terminal) -> int:
    """Return how many crawls have been started."""
    view = View.from_settings(Settings({"REDIS_URL": terminal.redis_url}), "chain")
    return [event.type for event in read_events(view)].count("crawl_started")


def processes(terminal: Terminal) -> int:
    return len(terminal.events("opened"))


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def no_lease_holds(redis_url: str, spider: str) -> bool:
    """Return whether the leases of all workers of *spider* have expired."""
    with redis.Redis.from_url(redis_url) as server:
        seconds, microseconds = server.time()
        return not server.zcount(f"{spider}:workers", seconds * 1000 + microseconds // 1000, "+inf")


# -- a crawl that is finished ---------------------------------------------------------------------------


@pytest.mark.long
def test_a_worker_that_is_killed_just_before_the_end_does_not_crawl_everything_again(
    terminal: Terminal,
) -> None:
    process = terminal.start(*chain(31, last=1, linger=5), "-w", "2", "-o", "items.jsonl")
    wait_until(lambda: any(url == page_url(30) for _, url in terminal.events("downloaded")))
    wait_until(lambda: processes(terminal) == 2)
    (busy,) = {pid for pid, url in terminal.events("downloaded") if url == page_url(30)}
    (idle,) = terminal.workers() - {busy}
    os.kill(idle, signal.SIGKILL)
    code, said = ended(process)
    assert code == 0, said
    assert terminal.found() == dict.fromkeys(all_of(31), 1)
    assert processes(terminal) == 3
    assert started(terminal) == 1


@pytest.mark.long
def test_a_second_machine_does_not_crawl_everything_again_when_its_worker_restarts_after_the_finish(
    terminal: Terminal,
) -> None:
    command = chain(100, "GRAPH_LATENCY=0.1")
    other, first = (
        terminal.start(*command, "-w", "1", "-o", name) for name in ("other.jsonl", "items.jsonl")
    )
    wait_until(lambda: len(terminal.workers()) == 2)
    other.send_signal(signal.SIGSTOP)
    for pid in terminal.workers():
        if parent_of(pid) == other.pid:
            os.kill(pid, signal.SIGKILL)
    assert ended(first)[0] == 0
    pages = len(terminal.events("parsed"))
    other.send_signal(signal.SIGCONT)
    code, said = ended(other)
    assert code == 0, said
    assert processes(terminal) == 3
    assert len(terminal.events("parsed")) == pages
    assert started(terminal) == 1


# -- SCHEDULER_FLUSH_ON_START ---------------------------------------------------------------------------

FLUSH = "SCHEDULER_FLUSH_ON_START=1"


def test_a_replaced_worker_does_not_clear_the_crawl(terminal: Terminal) -> None:
    # Its lease has expired when it is restarted.
    code, said = terminal.run(*chain(14, FLUSH, kill_after=6), "-w", "1", "-o", "items.jsonl")
    assert code == 0, said
    assert set(terminal.found()) == all_of(14)
    # If a worker was so quick that Redis does not know of all its pages, a third one is killed.
    assert processes(terminal) >= 3
    assert started(terminal) == 1


def test_a_second_run_of_the_command_clears_the_crawl_that_was_interrupted(terminal: Terminal) -> None:
    process = terminal.start(*chain(1000, FLUSH, "GRAPH_LATENCY=0.05"), "-w", "2")
    wait_until(lambda: len(terminal.events("parsed")) > 10)
    process.send_signal(signal.SIGINT)
    assert ended(process, 30)[0] == 130
    before = len(terminal.events("parsed"))
    code, said = terminal.run(*chain(5, FLUSH), "-w", "2", "-o", "items.jsonl")
    assert code == 0, said
    assert terminal.found() == dict.fromkeys(all_of(5), 1)
    assert len(terminal.events("parsed")) == before + 5


def test_a_worker_without_a_supervisor_does_not_clear_the_crawl_of_a_killed_one(
    fleet: Fleet, redis_url: str
) -> None:
    settings = {"FRONTIER_LEASE_TIMEOUT": 0.5, "SCHEDULER_FLUSH_ON_START": 1, "GRAPH_PAGES": 12}
    for number in range(3):  # as systemd restarts it
        fleet.start("chain", 1, "-a", "kill_after=6", **settings)
        fleet.wait(workers=[number])
        # A worker that is started before this one's lease has expired counts it as running.
        wait_until(lambda: no_lease_holds(redis_url, "chain"))
    assert fleet.reasons() == ["finished"]
    assert set(fleet.urls("parsed")) == all_of(12)
    assert "SCHEDULER_FLUSH_ON_START: the frontier of spider 'chain' was not cleared" in fleet.log(1)
    assert "To clear it, stop all workers, and run: scrapy frontier clear chain" in fleet.log(1)


# -- FRONTIER_MAX_WORKERS -------------------------------------------------------------------------------

ONE = "FRONTIER_MAX_WORKERS=1"
EXIT = "FRONTIER_MAX_WORKERS_POLICY=exit"
#: No test waits for its end.
LONG = "FRONTIER_LEASE_TIMEOUT=30"


@pytest.mark.long
@pytest.mark.parametrize("policy", ["exit", "wait"])
def test_a_killed_worker_s_replacement_has_its_place_at_once(terminal: Terminal, policy: str) -> None:
    settings = (ONE, f"FRONTIER_MAX_WORKERS_POLICY={policy}", LONG)
    process = terminal.start(*chain(1000, *settings, "GRAPH_LATENCY=0.05"), "-w", "1", "-o", "items.jsonl")
    wait_until(lambda: len(terminal.events("parsed")) > 5)
    (killed,) = terminal.workers()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: processes(terminal) == 2, timeout=15)
    process.send_signal(signal.SIGINT)
    assert ended(process, 30)[0] == 130


@pytest.mark.long
def test_one_kill_with_the_policy_exit_does_not_end_the_crawl(terminal: Terminal) -> None:
    # The place of the killed worker is still taken when its replacement comes.
    settings = (ONE, EXIT, "FRONTIER_LEASE_TIMEOUT=5")
    code, said = terminal.run(*chain(14, *settings, kill_after=10), "-w", "1", "-o", "items.jsonl")
    assert code == 0, said
    assert set(terminal.found()) == all_of(14)


@pytest.mark.long
def test_a_restart_without_a_place_is_a_death_that_is_tried_again(
    terminal: Terminal, server: redis.Redis
) -> None:
    command = chain(1000, ONE, EXIT, "GRAPH_LATENCY=0.05")
    process = terminal.start(*command, "-w", "1")
    wait_until(lambda: len(terminal.events("parsed")) > 5)
    (killed,) = terminal.workers()
    process.send_signal(signal.SIGSTOP)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: not is_alive(killed))
    server.delete("chain:places")
    server.zadd("chain:places", {"another": 2**52})
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: [reason for _, reason in terminal.events("closed")] == ["max_workers"] * 2)
    server.delete("chain:places")
    before = len(terminal.events("parsed"))
    wait_until(lambda: len(terminal.events("parsed")) > before)
    process.send_signal(signal.SIGINT)
    code, said = ended(process, 30)
    assert code == 130, said
    assert said.count("has died (another worker has taken its place: FRONTIER_MAX_WORKERS)") == 2


@pytest.mark.long
def test_a_crawl_that_ends_without_a_place_for_its_worker_has_not_succeeded(
    terminal: Terminal, server: redis.Redis
) -> None:
    process = terminal.start(*chain(1000, ONE, EXIT, LONG, "GRAPH_LATENCY=0.05"), "-w", "2")
    wait_until(lambda: [reason for _, reason in terminal.events("closed")] == ["max_workers"])
    process.send_signal(signal.SIGINT)
    assert ended(process, 30)[0] == 130


@pytest.mark.long
def test_a_command_with_workers_that_are_not_needed_has_not_failed(
    terminal: Terminal, server: redis.Redis
) -> None:
    server.zadd("chain:places", {"another": 2**52})
    assert terminal.run(*chain(5, ONE, EXIT), "-w", "2")[0] == 0


# -- FRONTIER_CLOSE_… -----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_replaced_worker_does_not_begin_the_limits_of_its_fleet_anew(terminal: Terminal) -> None:
    settings = ("FRONTIER_CLOSE_PAGECOUNT=12", "CONCURRENT_REQUESTS=1", "GRAPH_LATENCY=0.1")
    code, said = terminal.run(*chain(31, *settings, kill_after=8), "-w", "1", "-o", "items.jsonl")
    assert code == 0, said
    assert "has ended (closespider_pagecount)" in said
    # What the killed worker had not reported does not count.
    assert 12 <= len(terminal.events("parsed")) <= 15
    again = terminal.run(*chain(31, *settings), "-w", "1", "-o", "items.jsonl")
    assert "has ended (closespider_pagecount)" in again[1]
    assert 24 <= len(terminal.events("parsed")) <= 30
