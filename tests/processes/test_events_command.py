"""``scrapy frontier events``, and who follows events: through what becomes of connections."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.events.follower import Follower
from scrapy_rq_sched.events.stream import Stream
from scrapy_rq_sched.inspect import Event, follow_events

from ..support.crawl import PROJECT, Fleet, run_python, wait_until
from ..support.proxy import Proxy

pytestmark = pytest.mark.single("how events are read; each kind of server tells them")


def tell(server: redis.Redis, type_: str, spider: str = "graph", **details: Any) -> str:
    """Put an event into the stream, as the scripts do; return its id."""
    seconds, microseconds = server.time()
    event = {"v": 1, "type": type_, "time": seconds + microseconds / 1e6, "spider": spider, **details}
    return server.xadd(f"{spider}:events", {"event": json.dumps(event)}).decode()


def events(redis_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "scrapy", "frontier", "events", *arguments, redis_url=redis_url)


def said(redis_url: str, *arguments: str) -> list[str]:
    done = events(redis_url, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_crawl_can_be_read_when_it_is_over(fleet: Fleet, redis_url: str) -> None:
    fleet.start("graph", GRAPH_PAGES=20)
    fleet.wait()
    lines = said(redis_url, "graph")
    assert [line.split()[2] for line in lines] == [
        "crawl_started",
        "worker_joined",
        "worker_left",
        "crawl_finished",
    ]
    assert lines[3].endswith("the crawl is finished (pages: 20, set aside: 0)")


def test_events_of_a_type_and_since_an_event_are_chosen(server: redis.Redis, redis_url: str) -> None:
    first = tell(server, "paused")
    for kind in ("resumed", "paused", "stopped"):
        tell(server, kind)
    chosen = said(redis_url, "graph", "--since", first, "--type", "paused", "--type", "stopped", "--json")
    assert [json.loads(line)["type"] for line in chosen] == ["paused", "stopped"]


def test_events_of_a_period_are_chosen(server: redis.Redis, redis_url: str) -> None:
    server.xadd("graph:events", {"event": "{}"}, id="1600000000000-0")
    tell(server, "paused")
    assert len(said(redis_url, "graph", "--since", "1h")) == 1
    assert len(said(redis_url, "graph")) == 2
    done = events(redis_url, "graph", "--since", "yesterday")
    assert done.returncode == 2
    assert "must be a period such as 10m, or the id of an event, not 'yesterday'" in done.stderr


def test_events_of_several_spiders_are_told_apart_and_in_order(server: redis.Redis, redis_url: str) -> None:
    tell(server, "paused")
    tell(server, "stopped", spider="seeds")
    tell(server, "resumed")
    assert [line.split(maxsplit=3)[3] for line in said(redis_url)] == [
        "graph: an operator paused the crawl",
        "seeds: an operator stopped the fleet",
        "graph: an operator resumed the crawl",
    ]


def test_equal_events_are_one_line_for_a_person_and_all_of_them_for_a_program(
    server: redis.Redis, redis_url: str
) -> None:
    for number in range(7):
        reason = f"its download failed: status 503 after {number} s"
        tell(server, "request_set_aside", kind="request", reason=reason, url=f"http://a.example/{number}")
    tell(server, "paused")
    failed, paused = said(redis_url, "graph")
    assert failed.split(maxsplit=3)[3] == (
        "request http://a.example/6 is set aside: its download failed: status 503 after 6 s, and 6 others "
        "with the same error"
    )
    assert "paused" in paused
    assert len(said(redis_url, "graph", "--json")) == 8


def test_control_characters_of_an_event_steer_no_terminal(server: redis.Redis, redis_url: str) -> None:
    tell(server, "request_set_aside", kind="request", reason="\x1b[31m\nred")
    (line,) = said(redis_url, "graph")
    assert "\x1b" not in line


def test_a_command_is_given_each_event(server: redis.Redis, redis_url: str, tmp_path: Path) -> None:
    for kind in ("paused", "resumed"):
        tell(server, kind)
    script = tmp_path / "script.py"
    script.write_text(f"import sys; open({str(tmp_path / 'got')!r}, 'a').write(sys.stdin.read() + '\\n')")
    said(redis_url, "graph", "--exec", f"{sys.executable} {script}")
    got = [json.loads(line) for line in (tmp_path / "got").read_text().splitlines()]
    assert [event["type"] for event in got] == ["paused", "resumed"]


def test_a_command_that_fails_is_said_and_the_others_go_on(server: redis.Redis, redis_url: str) -> None:
    for kind in ("paused", "resumed"):
        tell(server, kind)
    done = events(
        redis_url, "graph", "--exec", "false", "--exec", "/no/such/command", "--exec", "", "--exec", "cat"
    )
    assert done.returncode == 1
    assert done.stderr.count("'false', for event") == 2
    assert done.stderr.count("failed with exit code 1") == 2
    assert done.stderr.count("cannot be run") == 4
    assert done.stdout.count('"type": "paused"') == done.stdout.count('"type": "resumed"') == 1


@pytest.fixture
def follower(redis_url: str) -> Iterator[subprocess.Popen[str]]:
    """Return a command that follows the events of the spider graph."""
    command = [sys.executable, "-m", "scrapy", "frontier", "events", "graph", "--follow", "--json"]
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env={**os.environ, "REDIS_URL": redis_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def test_new_events_are_shown_until_ctrl_c(server: redis.Redis, follower: subprocess.Popen[str]) -> None:
    assert follower.stdout is not None
    tell(server, "paused")
    assert json.loads(follower.stdout.readline())["type"] == "paused"
    tell(server, "resumed")
    assert json.loads(follower.stdout.readline())["type"] == "resumed"
    follower.send_signal(signal.SIGINT)
    _, errors = follower.communicate(timeout=20)
    assert (follower.returncode, errors) == (130, "scrapy frontier: interrupted\n")


# -- what becomes of a connection ------------------------------------------------------------------------


class Following:
    """A program that follows events, in a thread."""

    def __init__(self, url: str) -> None:
        self.events: list[Event] = []
        self.lines: list[str] = []
        settings = Settings({"REDIS_URL": url})
        self._follower = follow_events(settings, "graph", said=self.lines.append)
        self._is_over = False
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        for event in self._follower:
            self.events.append(event)
            if self._is_over:
                return

    def end(self) -> None:
        """End with the next event."""
        self._is_over = True

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def ids(self) -> list[str]:
        return [event.id for event in self.events]


@pytest.fixture
def following(server: redis.Redis, redis_url: str) -> Iterator[tuple[Following, Proxy]]:
    """Return who follows through a proxy, when the first event has come."""
    with Proxy(redis_url) as proxy:
        following = Following(proxy.url)

        def has_begun() -> bool:
            tell(server, "resumed")
            time.sleep(0.3)
            return bool(following.events)

        wait_until(has_begun)
        yield following, proxy
        # A thread that goes on would fail in a later test, which replaces functions that it uses.
        proxy.go()
        following.end()
        tell(server, "resumed")
        wait_until(lambda: following.has_ended, timeout=10)


@pytest.mark.parametrize("fault", ["cut", "stall", "refuse"])
def test_a_follower_goes_on_within_five_seconds_and_misses_no_event(
    server: redis.Redis, following: tuple[Following, Proxy], fault: str
) -> None:
    follower, proxy = following
    told = list(follower.ids())
    faults: dict[str, Callable[[], object]] = {"cut": proxy.cut, "stall": proxy.stall, "refuse": proxy.refuse}
    faults[fault]()
    if fault == "refuse":
        proxy.cut()
    told += [tell(server, "paused") for _ in range(50)]
    if fault != "cut":
        wait_until(lambda: follower.lines, timeout=10)
        told += [tell(server, "resumed") for _ in range(50)]
        proxy.go()
    back = time.monotonic()
    wait_until(lambda: len(follower.events) >= len(told), timeout=10)
    assert time.monotonic() - back < 5
    told += [tell(server, "stopped")]
    wait_until(lambda: len(follower.events) >= len(told), timeout=10)
    assert follower.ids() == told
    assert len(follower.lines) in (0, 2)


def test_events_of_a_clock_that_is_behind_are_not_missed_after_an_outage(
    server: redis.Redis, following: tuple[Following, Proxy]
) -> None:
    follower, proxy = following
    proxy.refuse()
    proxy.cut()
    wait_until(lambda: follower.lines)
    # What a master that was promoted has: the latest events are gone, and its clock is five seconds behind.
    known = server.xrange("graph:events")
    (seconds, _) = server.time()
    server.delete("graph:events")
    for name, fields in known[:-1]:
        if int(name.partition(b"-")[0]) < 1000 * (seconds - 5):
            server.xadd("graph:events", fields, id=name)
    behind = server.xadd("graph:events", {"event": "{}"}, id=f"{1000 * (seconds - 5)}-7").decode()
    proxy.go()
    wait_until(lambda: behind in follower.ids(), timeout=10)
    assert len(follower.ids()) == len(set(follower.ids()))


def test_events_of_two_spiders_come_once_though_redis_was_away(server: redis.Redis, redis_url: str) -> None:
    """The one has been quiet for longer than what is read anew."""
    quiet = server.xadd("quiet:events", {"event": "{}"}, id="1600000000000-0").decode()
    streams = [Stream(f"{name}:events", name) for name in ("quiet", "graph")]
    follower = Follower(Settings({"REDIS_URL": redis_url}), streams, {"quiet:events": "1-0"})
    assert [event.id for event in follower.new()] == [quiet]
    told = tell(server, "paused")
    assert [event.id for event in follower.new()] == [told]
    follower.was_away()
    assert follower.new() == []
    follower.close()


def test_events_come_in_the_order_of_their_stream_after_a_jump_of_the_clock(
    server: redis.Redis, redis_url: str
) -> None:
    follower = Follower(Settings({"REDIS_URL": redis_url}), [Stream("graph:events", "graph")], {})
    follower.new()
    ids = [
        server.xadd("graph:events", {"event": json.dumps({"time": seconds, "type": "paused"})}).decode()
        for seconds in (30, 10, 20)
    ]
    assert [event.id for event in follower.new()] == ids
    follower.close()
