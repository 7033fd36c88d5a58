"""``FRONTIER_WEBHOOK_URL``: the events of a fleet are sent to a URL, by one worker at a time."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import redis

from ..support.crawl import Fleet, wait_until

pytestmark = pytest.mark.single("names of keys; each kind of server tells events")

SECRET = "whsec_" + base64.b64encode(b"a key of ours").decode()
SLOW: dict[str, Any] = {"GRAPH_PAGES": 400, "GRAPH_LATENCY": 0.1, "CONCURRENT_REQUESTS": 4}


class Receiver:
    """A web server that takes events, or answers with another status."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.refused = 0
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.status == 200:
                    receiver.events.append({**json.loads(body), "body": body})
                    receiver.headers.append(self.headers)
                else:
                    receiver.refused += 1
                self.send_response(receiver.status)
                if receiver.status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=t0p-secret"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def in_redis(server: redis.Redis) -> list[str]:
    return [name.decode() for name, _ in server.xrange("graph:events")]


def test_all_events_of_a_crawl_are_sent_once_and_in_order(
    fleet: Fleet, receiver: Receiver, server: redis.Redis
) -> None:
    fleet.start("graph", 3, GRAPH_PAGES=100, FRONTIER_WEBHOOK_URL=receiver.url)
    fleet.wait()
    assert [event["id"] for event in receiver.events] == in_redis(server)
    assert receiver.types()[:2] == ["crawl_started", "worker_joined"]
    assert "crawl_finished" in receiver.types()
    assert receiver.types().count("worker_left") == 3
    finish = receiver.events[receiver.types().index("crawl_finished")]
    assert (finish["v"], finish["spider"], finish["pages"]) == (1, "graph", 100)
    assert finish["text"] == "the crawl is finished (pages: 100, set aside: 0)"


def test_a_webhook_is_signed_as_standard_webhooks_has_it(fleet: Fleet, receiver: Receiver) -> None:
    fleet.start("graph", GRAPH_PAGES=5, FRONTIER_WEBHOOK_URL=receiver.url, FRONTIER_WEBHOOK_SECRET=SECRET)
    fleet.wait()
    for event, headers in zip(receiver.events, receiver.headers, strict=True):
        signed = b".".join(
            (headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), event["body"])
        )
        digest = hmac.new(b"a key of ours", signed, hashlib.sha256).digest()
        assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
        assert headers["webhook-id"] == f"graph:events/{event['id']}"
    assert receiver.events


@pytest.mark.long
def test_a_receiver_that_was_away_gets_all_of_them(
    fleet: Fleet, receiver: Receiver, server: redis.Redis
) -> None:
    receiver.status = 503
    fleet.start("graph", 2, **SLOW, FRONTIER_WEBHOOK_URL=receiver.url)
    wait_until(lambda: receiver.refused >= 4)
    assert receiver.events == []
    receiver.status = 200
    fleet.wait()
    assert [event["id"] for event in receiver.events] == in_redis(server)
    logs = fleet.log(0) + fleet.log(1)
    assert logs.count("so it is sent again: it answered with status 503") == 1


def sender(fleet: Fleet, server: redis.Redis) -> int:
    """Return which worker sends."""
    name = server.hget("graph:events:webhook", "worker").decode()
    return next(n for n, worker in enumerate(fleet.workers) if str(worker.pid) in name.split("-"))


@pytest.mark.long
def test_another_worker_sends_when_the_one_that_does_is_killed(
    fleet: Fleet, receiver: Receiver, server: redis.Redis
) -> None:
    fleet.start("graph", 2, **SLOW, FRONTIER_WEBHOOK_URL=receiver.url, FRONTIER_LEASE_TIMEOUT=2)
    wait_until(lambda: receiver.types().count("worker_joined") == 2)
    first = sender(fleet, server)
    fleet.kill(first)
    wait_until(lambda: "worker_lost" in receiver.types())
    assert sender(fleet, server) != first
    fleet.wait()
    assert sorted({event["id"] for event in receiver.events}) == sorted(in_redis(server))


@pytest.mark.long
def test_the_last_worker_sends_the_events_that_a_killed_one_had_not_sent(
    fleet: Fleet, receiver: Receiver, server: redis.Redis
) -> None:
    fleet.start("graph", 2, **SLOW, FRONTIER_WEBHOOK_URL=receiver.url)
    wait_until(lambda: receiver.types().count("worker_joined") == 2)
    first = sender(fleet, server)
    fleet.kill(first)
    fleet.kill(1 - first, signal.SIGINT)
    fleet.wait()
    assert receiver.types()[-1] == "worker_left"
    assert sorted({event["id"] for event in receiver.events}) == sorted(in_redis(server))


@pytest.mark.long
def test_the_next_crawl_sends_the_events_that_could_not_be_sent(
    fleet: Fleet, receiver: Receiver, server: redis.Redis
) -> None:
    receiver.status = 503
    fleet.start("graph", GRAPH_PAGES=5, FRONTIER_WEBHOOK_URL=receiver.url)
    fleet.wait()
    assert "This worker closes before all events were sent to the webhook" in fleet.log()
    receiver.status = 200
    fleet.start("graph", GRAPH_PAGES=5, FRONTIER_WEBHOOK_URL=receiver.url)
    fleet.wait()
    assert [event["id"] for event in receiver.events] == in_redis(server)
    assert receiver.types().count("crawl_finished") == 2


def test_events_that_redis_has_removed_before_they_were_sent_are_counted_in_the_log(
    fleet: Fleet, receiver: Receiver, server: redis.Redis
) -> None:
    crawl: dict[str, Any] = {"GRAPH_PAGES": 5, "FRONTIER_WEBHOOK_URL": receiver.url}
    fleet.start("graph", **crawl)
    fleet.wait()
    sent = len(receiver.events)
    for _ in range(2):
        fleet.start("graph", GRAPH_PAGES=5)  # without a webhook
        fleet.wait()
    server.xtrim("graph:events", maxlen=1, approximate=False)
    removed = server.xrevrange("graph:events")[0][1][b"event"]
    lost = json.loads(removed)["number"] - sent - 1
    assert lost > 1
    fleet.start("graph", **crawl)
    fleet.wait()
    assert [line for line in fleet.log(3).splitlines() if f"has missed {lost} events: Redis keeps" in line]
    numbers = [event["number"] for event in receiver.events]
    assert numbers == [*range(1, sent + 1), *range(sent + lost + 1, numbers[-1] + 1)]


def test_a_receiver_that_has_missed_nothing_is_in_no_error(fleet: Fleet, receiver: Receiver) -> None:
    for _ in range(2):
        fleet.start("graph", GRAPH_PAGES=5, FRONTIER_WEBHOOK_URL=receiver.url)
        fleet.wait()
    assert "has missed" not in fleet.log(0) + fleet.log(1)


@pytest.mark.parametrize("status", [pytest.param(404, marks=pytest.mark.long), 302])
def test_an_event_that_the_receiver_does_not_want_does_not_hold_up_the_others(
    fleet: Fleet, receiver: Receiver, status: int
) -> None:
    receiver.status = status
    fleet.start("graph", 1, **SLOW, FRONTIER_WEBHOOK_URL=receiver.url)
    wait_until(lambda: "so it is dropped" in fleet.log())
    receiver.status = 200
    fleet.wait()
    assert "crawl_finished" in receiver.types()
    assert f"it answered with status {status}" in fleet.log()


def test_the_end_is_sent_once_and_after_the_last_page_of_handlers_of_spider_idle(
    fleet: Fleet, receiver: Receiver
) -> None:
    ends = {"FRONTIER_WEBHOOK_URL": receiver.url, "FRONTIER_WEBHOOK_TYPES": "crawl_finished,worker_left"}
    settings = {"GRAPH_PAGES": 20, "GRAPH_LATENCY": 0.5, "SPIDER_MODULES": "crawls.unusual", **ends}
    for rounds in (0, 2, 4):
        fleet.start("latecoming", 1, "-a", f"rounds={rounds}", **settings)
    fleet.wait()
    assert fleet.reasons() == ["finished"] * 3
    assert len(fleet.urls("parsed")) == 20 + 2 + 4
    assert receiver.types() == ["worker_left"] * 3 + ["crawl_finished"]
    assert receiver.events[-1]["pages"] == 20 + 2 + 4


def test_only_events_of_the_wanted_types_are_sent(fleet: Fleet, receiver: Receiver) -> None:
    wanted = {"FRONTIER_WEBHOOK_URL": receiver.url, "FRONTIER_WEBHOOK_TYPES": "crawl_finished"}
    fleet.start("graph", 2, GRAPH_PAGES=20, **wanted)
    fleet.wait()
    assert receiver.types() == ["crawl_finished"]


def test_nothing_that_is_secret_is_in_a_log(fleet: Fleet, receiver: Receiver) -> None:
    receiver.status = 404
    secrets = {"FRONTIER_WEBHOOK_URL": receiver.url, "FRONTIER_WEBHOOK_SECRET": SECRET}
    fleet.start("graph", GRAPH_PAGES=5, **secrets)
    fleet.wait()
    assert "The receiver at http://127.0.0.1:" in fleet.log()
    assert "t0p-secret" not in fleet.log()
    assert SECRET not in fleet.log()


def test_a_url_that_is_none_ends_the_crawl_with_one_line(fleet: Fleet) -> None:
    fleet.start("graph", FRONTIER_WEBHOOK_URL="hooks.example.com/t0p-secret")
    fleet.wait()
    assert fleet.workers[0].returncode == 1
    assert "FRONTIER_WEBHOOK_URL must be a URL such as 'https://example.com/hook'" in fleet.log()
    assert "t0p-secret" not in fleet.log()


@pytest.fixture
def dripping() -> Iterator[Dripping]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Dripping(listening)
        # A blocked accept() ends only at a shutdown.
        listening.shutdown(socket.SHUT_RDWR)


class Dripping:
    """A receiver that answers each connection byte by byte, without an end."""

    def __init__(self, listening: socket.socket) -> None:
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        self.connections = 0
        self._listening = listening
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._drip, args=[connection], daemon=True).start()

    def _drip(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while True:
                connection.sendall(b"H")
                time.sleep(1)


@pytest.mark.long
def test_a_receiver_that_answers_byte_by_byte_keeps_no_worker_from_its_end(
    fleet: Fleet, dripping: Dripping
) -> None:
    fleet.start("graph", GRAPH_PAGES=5, FRONTIER_WEBHOOK_URL=dripping.url)
    wait_until(lambda: fleet.reasons() == ["finished"])
    fleet.wait(30)
    assert "it is sent again: TimeoutError: the exchange was not complete within 5 s" in fleet.log()
    assert "This worker closes before all events were sent to the webhook" in fleet.log()
    assert "does not end in time" not in fleet.log()


@pytest.mark.long
def test_a_sender_remains_the_sender_while_its_receiver_answers_byte_by_byte(
    fleet: Fleet, dripping: Dripping, server: redis.Redis
) -> None:
    fleet.start("graph", 2, **{**SLOW, "GRAPH_PAGES": 4000}, FRONTIER_WEBHOOK_URL=dripping.url)
    wait_until(lambda: dripping.connections)
    first = sender(fleet, server)
    wait_until(lambda: dripping.connections > 1)
    assert sender(fleet, server) == first


def test_a_fleet_that_tells_nothing_cannot_have_a_webhook(fleet: Fleet, receiver: Receiver) -> None:
    fleet.start("graph", FRONTIER_WEBHOOK_URL=receiver.url, FRONTIER_MAX_EVENTS=0)
    fleet.wait()
    assert fleet.workers[0].returncode == 1
    assert "FRONTIER_MAX_EVENTS is 0, so that there would be no events to send" in fleet.log()
