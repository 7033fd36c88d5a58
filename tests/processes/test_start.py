"""What keeps a crawl from starting is one clear line, no traceback, and an exit code."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from scrapy_rq_sched.embedded import PrivateRedis

from ..project.crawls.graph import page_url
from ..support.crawl import Fleet, wait_until
from ..support.proxy import Proxy

pytestmark = pytest.mark.single("its address, and what it answers")


def refusal(fleet: Fleet, **settings: object) -> str:
    """Start a worker that is refused at once; return the one line that says why."""
    fleet.start("graph", **{"FRONTIER_JOIN_TIMEOUT": 0, **settings})
    fleet.wait(timeout=20)
    log = fleet.log(len(fleet.workers) - 1)
    assert fleet.workers[-1].returncode == 1, log
    assert "Traceback" not in log
    (line,) = [line for line in log.splitlines() if "] ERROR: " in line]
    assert "The crawl cannot start: " in line
    assert fleet.reasons()[-1] == "frontier_error"
    return line


def test_no_redis(fleet: Fleet) -> None:
    line = refusal(fleet, REDIS_URL="redis://user:secret@127.0.0.1:1/0")
    assert "Redis at redis://user:***@127.0.0.1:1/0 cannot be reached" in line
    assert "secret" not in fleet.log()


def test_wrong_password(fleet: Fleet, tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, port=0) as server:
        line = refusal(fleet, REDIS_URL=f"redis://:wrong@127.0.0.1:{server.port}/0")
    assert "refuses this user" in line
    assert ":wrong@" not in line


def test_no_password_where_one_is_needed(fleet: Fleet, tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, port=0) as server:
        assert "refuses this user" in refusal(fleet, REDIS_URL=f"redis://127.0.0.1:{server.port}/0")


def test_a_key_of_a_wrong_type(fleet: Fleet, server: redis.Redis) -> None:
    server.set("graph:dupefilter", "x")
    assert "Key 'graph:dupefilter' in Redis is a string" in refusal(fleet)


def test_a_frontier_made_with_another_serializer(fleet: Fleet, server: redis.Redis) -> None:
    server.hset("graph:meta", "SCHEDULER_SERIALIZER", "pickle")
    server.sadd("graph:dupefilter", "1")  # an empty frontier could be made anew
    line = refusal(fleet)
    assert "SCHEDULER_SERIALIZER 'pickle'" in line
    assert "'json'" in line


def test_a_bad_setting(fleet: Fleet) -> None:
    assert "FRONTIER_MAX_DELIVERIES must be an integer ≥ 1, not '0'" in refusal(
        fleet, FRONTIER_MAX_DELIVERIES=0
    )


def test_a_bad_url(fleet: Fleet) -> None:
    assert "REDIS_URL 'http://x' is not valid" in refusal(fleet, REDIS_URL="http://x")


def test_a_queue_class_that_is_none(fleet: Fleet) -> None:
    assert "SCHEDULER_QUEUE_CLASS must be " in refusal(fleet, SCHEDULER_QUEUE_CLASS="os.getcwd")


def test_a_redis_that_does_not_answer(fleet: Fleet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        line = refusal(fleet, REDIS_URL=url, REDIS_PARAMS='{"socket_timeout": 0.5}')
    assert "does not answer in time" in line


@pytest.fixture
def old_redis() -> Iterator[str]:
    """Something that says of itself that it is Redis 5."""
    info = b"redis_version:5.0.14\r\n"
    replies = {b"PING": b"+PONG\r\n", b"INFO": b"$%d\r\n%s\r\n" % (len(info), info)}

    def serve(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(4096):
                commands = data.upper().count(b"*")
                reply = next((reply for name, reply in replies.items() if name in data.upper()), b"+OK\r\n")
                connection.sendall(reply if commands == 1 else b"+OK\r\n" * commands)

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"


def test_a_redis_that_is_too_old(fleet: Fleet, old_redis: str) -> None:
    assert "is version 5.0.14, but 6.2 or newer is needed" in refusal(fleet, REDIS_URL=old_redis)


def test_a_redis_that_evicts_keys_is_warned_of(fleet: Fleet, tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, ["--maxmemory-policy", "allkeys-lru"]) as server:
        fleet.start("graph", GRAPH_PAGES=10, REDIS_URL=server.url)
        fleet.wait()
    assert "has maxmemory-policy allkeys-lru" in fleet.log()
    assert fleet.reasons() == ["finished"]


def test_a_redis_spider_without_our_scheduler(fleet: Fleet) -> None:
    fleet.start("seeds", SCHEDULER="scrapy.core.scheduler.Scheduler")
    fleet.wait(timeout=20)
    assert fleet.workers[0].returncode == 1
    assert "SCHEDULER must be 'scrapy_rq_sched.Scheduler', not" in fleet.log()
    assert "Traceback" not in fleet.log()


def test_a_max_idle_time_that_is_no_number(fleet: Fleet) -> None:
    fleet.start("seeds", 1, "-a", "max_idle_time=soon")
    fleet.wait(timeout=20)
    assert fleet.workers[0].returncode == 1
    assert "max_idle_time must be a number ≥ 0, not 'soon'" in fleet.log()


def test_a_port_that_is_no_number(fleet: Fleet) -> None:
    assert "REDIS_PORT" in refusal(fleet, REDIS_URL="", REDIS_PORT="abc")


def test_a_worker_that_is_started_before_redis_joins_when_it_is_there(fleet: Fleet, tmp_path: Path) -> None:
    later = PrivateRedis(tmp_path)
    fleet.start("graph", GRAPH_PAGES=20, REDIS_URL=later.url)
    wait_until(lambda: "This worker cannot join yet" in fleet.log())
    with later:
        fleet.wait()
    assert len(fleet.urls("parsed")) == 20
    assert fleet.reasons() == ["finished"]
    assert fleet.log().count("This worker cannot join yet") == 1


def test_a_worker_gives_up_to_join_after_its_time(fleet: Fleet) -> None:
    line = refusal(fleet, REDIS_URL="redis://127.0.0.1:1/0", FRONTIER_JOIN_TIMEOUT=1)
    assert "cannot be reached" in line
    assert "It keeps trying for 1 s (FRONTIER_JOIN_TIMEOUT)" in fleet.log()


def test_a_wrong_password_is_not_tried_again(fleet: Fleet, tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, port=0) as server:
        refusal(fleet, REDIS_URL=f"redis://:wrong@127.0.0.1:{server.port}/0", FRONTIER_JOIN_TIMEOUT=30)
    assert "cannot join yet" not in fleet.log()


def test_a_join_with_a_lost_reply_is_made_again(fleet: Fleet, private_redis: PrivateRedis) -> None:
    with Proxy(private_redis.url) as proxy:
        proxy.swallow(1)
        fleet.start("graph", GRAPH_PAGES=20, REDIS_URL=proxy.url, REDIS_PARAMS='{"socket_timeout": 1}')
        wait_until(lambda: "This worker cannot join yet" in fleet.log())
        proxy.swallow(0)
        fleet.wait()
    assert fleet.urls("parsed") == dict.fromkeys((page_url(number) for number in range(20)), 1)
    assert fleet.reasons() == ["finished"]


@pytest.mark.long
def test_a_join_that_takes_long_does_not_break_the_crawl(fleet: Fleet, private_redis: PrivateRedis) -> None:
    with Proxy(private_redis.url, milliseconds=1000) as proxy:
        fleet.start("graph", GRAPH_PAGES=1, REDIS_URL=proxy.url)
        wait_until(lambda: "joined the frontier" in fleet.log(), 60)
        proxy.delay(0)
        fleet.wait()
    assert fleet.reasons() == ["finished"]
    assert "Traceback" not in fleet.log()
