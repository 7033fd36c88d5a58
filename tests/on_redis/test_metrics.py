"""Metrics of frontiers in Redis: their slots, their statistics, hostile names, and Redis away."""

from __future__ import annotations

import ast
import inspect
import socket
import struct
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched import connection
from scrapy_rq_sched.errors import InspectionError
from scrapy_rq_sched.frontier.exchange_times import Histogram
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.inspect import View, find_frontiers, largest_slots, read_status
from scrapy_rq_sched.inspect.slots import Slots
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.metrics import exposition
from scrapy_rq_sched.metrics import server as exporter_server
from scrapy_rq_sched.metrics.catalogue import METRICS, STATES, Metric
from scrapy_rq_sched.metrics.exposition import _families, as_openmetrics
from scrapy_rq_sched.metrics.samples import MOST_COUNTS
from scrapy_rq_sched.metrics.snapshots import MOST_STATS, Snapshots

from ..support import pools
from ..support.client import Client, calls_of
from ..support.crawl import wait_until
from ..support.metric_names import SAMPLES
from ..support.metric_values import Values, of_spider, read
from ..support.proxy import Proxy

pytestmark = pytest.mark.single("the workers here have the keys of a single server")

Exporter = Callable[..., Snapshots]


@pytest.fixture
def said() -> list[str]:
    """What was said of Redis."""
    return []


@pytest.fixture
def exporter(redis_url: str, said: list[str]) -> Exporter:
    def make(url: str = redis_url, find: Any = None, **settings: Any) -> Snapshots:
        all_settings = Settings({"REDIS_URL": url, **settings})
        find = find or (lambda: list(find_frontiers(all_settings)))
        return Snapshots(find, connection.get_client(all_settings), said.append)

    return make


def metrics(snapshots: Snapshots) -> Values:
    return read(as_openmetrics(snapshots.take()))


def worker(server: redis.Redis, spider: str = "s", name: str = "w") -> Client:
    return Client(server, name, "priority", 30, 5, keys=Keys(spider)).open()


def in_slots(client: Client, counts: dict[str, int]) -> None:
    pushes = [
        Push("force", "", 0, f"{slot} {number}".encode(), slot)
        for slot, count in counts.items()
        for number in range(count)
    ]
    for first in range(0, len(pushes), 500):
        client.say(pushes=pushes[first : first + 500])


# -- slots -----------------------------------------------------------------------------------------


def test_of_a_thousand_slots_the_fifty_largest_have_a_label_and_the_others_have_one(
    server: redis.Redis, exporter: Exporter
) -> None:
    counts = {f"host{number}.example.com": 1 + number // 100 for number in range(950)}
    counts |= {f"large{number}.example.com": 20 + number for number in range(50)}
    in_slots(worker(server), counts)
    values = metrics(exporter())
    waiting = of_spider(values, "frontier_slot_waiting", "s")
    assert len(waiting) == 51
    others = waiting.pop("other")
    assert waiting == {name: count for name, count in counts.items() if name.startswith("large")}
    assert others + sum(waiting.values()) == sum(counts.values())
    assert of_spider(values, "frontier_requests", "s")["waiting"] == sum(counts.values())
    assert of_spider(values, "frontier_slots", "s") == {"": 1000}


def test_slots_with_as_many_requests_keep_their_labels(server: redis.Redis, exporter: Exporter) -> None:
    client, snapshots = worker(server), exporter()
    in_slots(client, {f"a{number}": 3 for number in range(60)})
    before = set(of_spider(metrics(snapshots), "frontier_slot_waiting", "s"))
    in_slots(client, {f"z{number}": 3 for number in range(60)})
    assert set(of_spider(metrics(snapshots), "frontier_slot_waiting", "s")) == before


def test_of_more_slots_than_a_look_asks_for_the_largest_are_found_after_some_looks(
    server: redis.Redis, exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(largest_slots, "A_LOOK", 100)
    monkeypatch.setattr(largest_slots, "A_STEP", 50)
    counts = {f"host{number}": 1 for number in range(1000)} | {f"large{number}": 5 for number in range(50)}
    in_slots(worker(server), counts)
    snapshots = exporter()
    for _ in range(25):
        before = calls_of(server, "zcard")
        waiting = of_spider(metrics(snapshots), "frontier_slot_waiting", "s")
        assert calls_of(server, "zcard") - before < 500
        assert sum(waiting.values()) == sum(counts.values())
    assert {name for name in waiting if name != "other"} == {f"large{number}" for number in range(50)}
    whole = read(as_openmetrics(exporter().take(all_slots=True)))
    assert of_spider(whole, "frontier_slot_waiting", "s") == waiting | {"other": 1000}


def test_a_blocked_slot_says_for_how_long_and_of_the_others_the_longest(
    server: redis.Redis, exporter: Exporter, redis_url: str
) -> None:
    client = worker(server)
    in_slots(client, {f"large{number}": 2 for number in range(50)} | {"small": 1, "smaller": 1})
    slots, snapshots = Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "s")), exporter()
    slots.block("large7", 600)
    slots.block("small", 300)
    slots.block("smaller", 60)
    blocked = of_spider(metrics(snapshots), "frontier_slot_blocked_seconds", "s")
    assert {name: value for name, value in blocked.items() if value} == {
        "large7": pytest.approx(600, abs=5),
        "other": pytest.approx(300, abs=5),
    }
    slots.unblock("large7")
    slots.unblock("small")
    slots.unblock("smaller")
    assert not any(of_spider(metrics(snapshots), "frontier_slot_blocked_seconds", "s").values())


def test_a_slot_that_is_empty_loses_its_label(server: redis.Redis, exporter: Exporter) -> None:
    client, snapshots = worker(server), exporter()
    in_slots(client, {"one": 1, "two": 2})
    assert set(of_spider(metrics(snapshots), "frontier_slot_waiting", "s")) == {"one", "two", "other"}
    leases = client.say(want=2).leases
    client.say(finished=[lease.name for lease in leases], in_hand=0)
    assert of_spider(metrics(snapshots), "frontier_slot_waiting", "s") == {"two": 1, "other": 0}


def test_slots_called_other_or_like_a_url_are_among_the_others(
    server: redis.Redis, exporter: Exporter
) -> None:
    names = {"other": 7, "http%3A//a.example/x": 5, "http://b.example/": 3, "a.example": 1}
    in_slots(worker(server), names)
    assert of_spider(metrics(exporter()), "frontier_slot_waiting", "s") == {"a.example": 1, "other": 15}


# -- names from Redis ------------------------------------------------------------------------------

HOSTILE = [
    'quo"te',
    "new\nline",
    "back\\slash",
    'x"} 1\n# EOF\nscrapy_frontier_up 7',
    "ünïcode 😀",
    '{a="b"}',
    "",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_spider_is_a_label_and_no_more(server: redis.Redis, exporter: Exporter, name: str) -> None:
    client = worker(server, name, name='w"\n')
    in_slots(client, {"a": 1})
    values = metrics(exporter())
    assert of_spider(values, "frontier_seen", name) == {"": 0}
    assert set(values["scrapy_frontier_up"].values()) == {1.0}
    assert set(values) <= set(SAMPLES)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\xed\xa0\x80", b'\x00"\n\\', b"x" * 100_000])
def test_bytes_that_are_no_text_are_a_label_of_bounded_length(
    server: redis.Redis, exporter: Exporter, name: bytes
) -> None:
    in_slots(worker(server), {"a": 1})
    server.zadd("s:workers", {name: 4e12})
    server.zadd("s:slots", {name: 1e15})
    server.zadd(b"s:requests:slot:" + name, {b"x": 1, b"y": 2})
    server.hset("s:stats", name, 5)
    values = metrics(exporter())
    # No worker has a name of more than 1,000 bytes.
    assert len(of_spider(values, "frontier_worker_pages_total", "s")) == (2 if len(name) < 1000 else 1)
    assert {"a", "other"} <= set(of_spider(values, "frontier_slot_waiting", "s"))
    assert max(len(label) for by_labels in values.values() for labels in by_labels for label in labels) < 210


def test_two_frontiers_of_one_name_are_told_apart(server: redis.Redis, exporter: Exporter) -> None:
    for requests in ("s:requests", "s:monday:requests"):
        client = Client(server, "w", "priority", 30, 5, keys=Keys("s", requests_template=requests)).open()
        client.push(requests)
    values = metrics(exporter())
    assert of_spider(values, "frontier_seen", "s") == {"": 1} or of_spider(values, "frontier_seen", "s")
    assert {labels[0] for labels in values["scrapy_frontier_slots"]} == {"s", "s:monday"}


def test_two_spiders_have_their_own_values(server: redis.Redis, exporter: Exporter) -> None:
    worker(server, "one").push("a")
    worker(server, "two").push("b", "c")
    values = metrics(exporter())
    assert of_spider(values, "frontier_requests", "one")["waiting"] == 1
    assert of_spider(values, "frontier_requests", "two")["waiting"] == 2


# -- workers ---------------------------------------------------------------------------------------


def test_the_label_of_a_worker_goes_when_it_does(server: redis.Redis, exporter: Exporter) -> None:
    snapshots = exporter()
    first, second = worker(server, name="first"), worker(server, name="second")
    first.push("a", "b")
    second.say(pushes=[])
    values = metrics(snapshots)
    assert set(of_spider(values, "frontier_worker_pages_total", "s")) == {"first", "second"}
    assert of_spider(values, "frontier_workers", "s") == {"alive": 2, "dead": 0, "in_line": 0}
    second.frontier.leave(finished=False, persist=True)
    values = metrics(snapshots)
    assert set(of_spider(values, "frontier_worker_pages_total", "s")) == {"first"}
    assert of_spider(values, "frontier_workers", "s")["alive"] == 1


# -- statistics ------------------------------------------------------------------------------------


def test_only_statistics_that_are_numbers_are_exported(server: redis.Redis, exporter: Exporter) -> None:
    worker(server)
    server.hset(
        "s:stats",
        mapping={
            "item_scraped_count": "7",
            "elapsed": "1.5",
            "finish_reason": "finished",
            "start_time": "2026-01-01T00:00:00+00:00",
            "flag": "true",
            "nothing": "NaN",
            "endless": "Infinity",
            "huge": "9" * 400,
            "longest": "9" * 5000,
            "quoted": '"5"',
            "crawled/http://a.example/": "3",
            "crawled/http%3A%2F%2Fa.example": "3",
            "n" * 300: "1",
        },
    )
    assert of_spider(metrics(exporter()), "stats", "s") == {"item_scraped_count": 7, "elapsed": 1.5}


def test_statistics_are_bounded_in_number(server: redis.Redis, exporter: Exporter) -> None:
    worker(server)
    server.hset("s:stats", mapping={f"name{number:05}": number for number in range(20_000)})
    assert len(of_spider(metrics(exporter()), "stats", "s")) == MOST_STATS


def test_statistics_of_another_type_are_none(server: redis.Redis, exporter: Exporter) -> None:
    worker(server)
    server.set("s:stats", "x")
    values = metrics(exporter())
    assert "scrapy_stats" not in values
    assert of_spider(values, "frontier_slots", "s") == {"": 0}


# -- snapshots -------------------------------------------------------------------------------------


# -- the fleet -------------------------------------------------------------------------------------


def test_the_fleet_has_a_sum_of_items_errors_and_responses(server: redis.Redis, exporter: Exporter) -> None:
    one, other = worker(server), worker(server, name="v")
    run = one.say(counts="retries=1").run
    one.say(scraped=3, errors=1, counts="retries=2 200=4", run=run)
    other.say(scraped=4, errors=0, counts="retries=1 200=1 404=2", run=run)
    values = metrics(exporter())
    assert of_spider(values, "frontier_items_total", "s") == {"": 7}
    assert of_spider(values, "frontier_errors_total", "s") == {"": 1}
    assert of_spider(values, "frontier_responses_total", "s") == {"200": 5, "404": 2}
    assert of_spider(values, "frontier_counts_total", "s") == {"retries": 3}


def test_sums_that_another_program_has_written_are_bounded(server: redis.Redis, exporter: Exporter) -> None:
    client = worker(server)
    run = client.say(counts="retries=1").run
    client.say(counts=" ".join(f"name{n}=1" for n in range(400)), run=run)
    assert len(of_spider(metrics(exporter()), "frontier_counts_total", "s")) == MOST_COUNTS


def test_the_items_of_a_pool_are_counted_by_state(
    server: redis.Redis, exporter: Exporter, redis_url: str
) -> None:
    client = pools.start(server)
    pools.fill(client, View.from_settings(Settings({"REDIS_URL": redis_url}), "pooled"))
    values = metrics(exporter())["scrapy_frontier_pool_items"]
    states = {state: count for (pool, _, state), count in values.items() if pool == "accounts"}
    assert states == {"free": 2, "in_use": 1, "rests": 1, "waits": 1, "retired": 1}


def test_the_memory_is_that_of_the_server(server: redis.Redis, exporter: Exporter) -> None:
    worker(server)
    snapshots = exporter()
    try:
        assert "scrapy_frontier_redis_max_memory_bytes" not in metrics(snapshots)
        server.config_set("maxmemory", 10**9)
        values = metrics(snapshots)
    finally:
        server.config_set("maxmemory", 0)
    (address,) = values["scrapy_frontier_up"]
    assert values["scrapy_frontier_redis_max_memory_bytes"] == {address: 1e9}
    assert 1e6 < values["scrapy_frontier_redis_memory_bytes"][address] < 1e9


def test_scrapes_within_a_second_get_the_same_snapshot(server: redis.Redis, exporter: Exporter) -> None:
    worker(server)
    snapshots, found = exporter(), []
    asking = [threading.Thread(target=lambda: found.append(snapshots.latest())) for _ in range(20)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len({id(snapshot) for snapshot in found}) == 1
    snapshots._fresh_until = 0.0
    assert snapshots.latest() is not found[0]


def test_frontiers_are_searched_now_and_then_and_not_at_each_snapshot(
    server: redis.Redis, exporter: Exporter, redis_url: str
) -> None:
    searches = []

    def find() -> list[View]:
        searches.append(1)
        return list(find_frontiers(Settings({"REDIS_URL": redis_url})))

    worker(server, "one")
    snapshots = exporter(find=find)
    metrics(snapshots)
    worker(server, "two")
    assert {labels[0] for labels in metrics(snapshots)["scrapy_frontier_slots"]} == {"one"}
    assert len(searches) == 1
    snapshots._search_at = 0.0
    assert {labels[0] for labels in metrics(snapshots)["scrapy_frontier_slots"]} == {"one", "two"}


def test_a_frontier_that_was_cleared_has_no_metrics(server: redis.Redis, exporter: Exporter) -> None:
    worker(server)
    snapshots = exporter()
    assert "scrapy_frontier_slots" in metrics(snapshots)
    server.flushall()
    values = metrics(snapshots)
    assert "scrapy_frontier_slots" not in values
    assert set(values["scrapy_frontier_up"].values()) == set(
        metrics(snapshots)["scrapy_frontier_up"].values()
    )
    assert set(values["scrapy_frontier_up"].values()) == {1.0}


def test_redis_away_is_said_once_and_redis_back_as_well(
    server: redis.Redis, exporter: Exporter, private_redis: Any, said: list[str]
) -> None:
    worker(server)
    with Proxy(private_redis.url) as proxy:
        snapshots = exporter(proxy.url, REDIS_PARAMS={"socket_timeout": 0.5, "retry": connection.no_retry()})
        assert "scrapy_frontier_slots" in metrics(snapshots)
        proxy.stall()
        for _ in range(3):
            values = metrics(snapshots)
            assert set(values["scrapy_frontier_up"].values()) == {0.0}
            assert "scrapy_frontier_slots" not in values
        assert len(said) == 1
        assert "does not answer in time" in said[0]
        proxy.go()
        values = metrics(snapshots)
    assert set(values["scrapy_frontier_up"].values()) == {1.0}
    assert "scrapy_frontier_slots" in values
    assert len(said) == 2
    assert said[1].endswith("answers again")


def test_clients_that_send_nothing_or_go_away_hold_no_threads(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exporter_server, "PATIENCE", 0.5)
    port = exposition.serve(exporter().latest, "127.0.0.1", 0)
    before = threading.active_count()
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    for client in clients[:2]:
        client.sendall(b"GET /metrics")
    # So it is reset.
    clients[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    clients[0].close()
    for client in clients[1:]:
        client.settimeout(5)
        assert client.recv(100) == b""
        client.close()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert b"scrapy_frontier_up" in answer.read()
    wait_until(lambda: threading.active_count() <= before, 5)
    assert capfd.readouterr().err == ""


def half(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    client.sendall(b"GET /metrics HTTP/1.1\r\nX-Half: ")
    return client


def test_half_sent_requests_do_not_keep_a_client_from_the_exporter(exporter: Exporter) -> None:
    port = exposition.serve(exporter().latest, "127.0.0.1", 0)
    before = threading.active_count()
    clients = [half(port) for _ in range(320)]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert b"scrapy_frontier_up" in answer.read()
    wait_until(lambda: threading.active_count() - before <= exporter_server.MOST, 10)
    assert clients[0].recv(100) == b""
    for client in clients:
        client.close()


def test_a_client_that_sends_byte_by_byte_is_disconnected_from_the_exporter(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exporter_server, "PATIENCE", 0.5)
    client = half(exposition.serve(exporter().latest, "127.0.0.1", 0))

    def is_disconnected() -> bool:
        time.sleep(0.1)  # a byte now and then
        try:
            client.sendall(b"x")
        except OSError:
            return True
        return False

    wait_until(is_disconnected, 20)
    client.close()
    assert capfd.readouterr().err == ""


def test_a_client_that_does_not_read_is_disconnected_from_the_exporter(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    threads = []

    def large(environ: Any, start_response: Any) -> list[bytes]:
        threads.append(threading.current_thread())
        start_response("200 OK", [])
        return [bytes(50_000_000)]

    monkeypatch.setattr(exporter_server, "PATIENCE", 0.5)
    port = exporter_server.start(large, "127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        wait_until(lambda: threads and not threads[0].is_alive(), 20)
    assert capfd.readouterr().err == ""


def test_a_new_client_of_the_exporter_is_refused_while_all_others_have_sent_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_over, begun = threading.Event(), []

    def slow(environ: Any, start_response: Any) -> list[bytes]:
        begun.append(environ)
        is_over.wait(60)
        start_response("200 OK", [])
        return [b"done"]

    monkeypatch.setattr(exporter_server, "MOST", 2)
    port = exporter_server.start(slow, "127.0.0.1", 0)
    clients = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(2)]
    for client in clients:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    wait_until(lambda: len(begun) == 2, 10)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as refused:
        assert refused.recv(100) == b""
    is_over.set()
    for client in clients:
        assert client.recv(100).startswith(b"HTTP/1.0 200 OK")
        client.close()


def test_connections_that_redis_has_closed_are_no_outage(
    server: redis.Redis, exporter: Exporter, said: list[str]
) -> None:
    worker(server)
    snapshots = exporter(REDIS_PARAMS={"retry": connection.no_retry()})
    metrics(snapshots)
    server.client_kill_filter(_type="normal", skipme=True)
    assert set(metrics(snapshots)["scrapy_frontier_up"].values()) == {1.0}
    assert said == []


def test_an_error_in_the_settings_is_no_outage(exporter: Exporter) -> None:
    def find() -> list[View]:
        raise InspectionError("no such spider")

    with pytest.raises(InspectionError):
        exporter(find=find).take()


def test_an_error_found_later_is_logged_once_and_ends_nothing(
    server: redis.Redis, exporter: Exporter, said: list[str]
) -> None:
    answers: list[Exception] = [connection.RedisConnectionError("away")] * 2

    def find() -> list[View]:
        raise answers.pop() if answers else InspectionError("no such spider")

    snapshots = exporter(find=find)
    assert set(snapshots.latest().up.values()) == {False}
    for _ in range(3):
        snapshots._fresh_until = 0.0
        assert set(snapshots.latest().up.values()) == {True}
    assert said[1:] == ["no such spider", said[2]]
    assert said[2].endswith("answers again")


def test_every_metric_has_a_sentence_for_its_help_and_a_name_by_the_conventions() -> None:
    for metric in METRICS:
        assert metric.help.endswith(".")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.name.startswith("scrapy_")
        assert not {"url", "job", "instance", "le", "quantile"} & set(metric.labels)


def test_the_metric_has_all_states_of_a_status() -> None:
    returned = ast.walk(ast.parse(inspect.getsource(sys.modules[read_status.__module__]._state)))
    names = {
        node.value for node in returned if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(STATES) - {"paused", "draining"} <= names
    assert names - set(STATES) == {"state", "epoch"}


def test_a_histogram_has_the_buckets_that_prometheus_expects() -> None:
    metric = Metric("scrapy_frontier_seconds", "histogram", ("spider",), "Some time.")
    (family,) = _families([(metric, ("s",), Histogram((0.1, 1), (3, 5, 6), 7.5))], (metric,))
    samples = [(sample.name, sample.labels.get("le"), sample.value) for sample in family.samples]
    assert samples == [
        ("scrapy_frontier_seconds_bucket", "0.1", 3),
        ("scrapy_frontier_seconds_bucket", "1.0", 5),
        ("scrapy_frontier_seconds_bucket", "+Inf", 6),
        ("scrapy_frontier_seconds_count", None, 6),
        ("scrapy_frontier_seconds_sum", None, 7.5),
    ]
