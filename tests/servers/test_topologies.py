"""Crawls on the servers that users have: by socket, by TLS, by Sentinel, on a Cluster, with a private one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from scrapy_rq_sched import connection
from scrapy_rq_sched.frontier.scripts import filter_step
from scrapy_rq_sched.keys import Keys

from ..processes.test_crawl import pages
from ..processes.test_security import PAGE as SECURITY_PAGE
from ..processes.test_security import SECRET, acl_rule
from ..support.client import Client
from ..support.crawl import Fleet, run_python, wait_until
from ..support.metric_values import of_spider, read
from ..support.topologies import TOPOLOGIES, Cluster, Replaceable, Topology, with_login


@pytest.fixture(params=[name for name in TOPOLOGIES if name != "single"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Topology]:
    with TOPOLOGIES[request.param](tmp_path) as topology:
        yield topology


@pytest.fixture
def workers(servers: Topology, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, servers.url)
    yield fleet
    fleet.stop()


def test_two_workers_crawl_every_page_once_and_take_seeds(workers: Fleet, servers: Topology) -> None:
    workers.start("graph", 2, GRAPH_PAGES=300, GRAPH_LATENCY=0.01, SCHEDULER_PERSIST=True)
    client = servers.client()
    client.lpush("graph:start_urls", "http://graph.test/seed")
    workers.wait()
    assert workers.urls("downloaded") == dict.fromkeys({*pages(300), "http://graph.test/seed"}, 1)
    assert workers.reasons() == ["finished", "finished"]
    assert client.scard("graph:dupefilter") == 300
    client.close()


def test_a_crawl_has_metrics(workers: Fleet, servers: Topology) -> None:
    workers.start("graph", GRAPH_PAGES=100_000, GRAPH_LATENCY=0.1)
    wait_until(lambda: len(workers.events("parsed")) > 20)
    for spiders in ((), ("graph",)):
        done = run_python("-m", "scrapy", "frontier", "metrics", *spiders, redis_url=servers.url)
        assert (done.returncode, done.stderr) == (0, "")
        values = read(done.stdout)
        assert of_spider(values, "frontier_pages_total", "graph")[""] > 0
        assert of_spider(values, "frontier_slot_waiting", "graph")["graph.test"] > 0
        assert list(values["scrapy_frontier_up"].values()) == [1.0]
        assert len(values["scrapy_frontier_redis_memory_bytes"]) == 1


@pytest.mark.parametrize(
    "servers", [pytest.param("sentinel", marks=pytest.mark.long), "cluster"], indirect=True
)
def test_a_failover_in_mid_crawl_loses_nothing(workers: Fleet, servers: Replaceable) -> None:
    workers.start("graph", 2, GRAPH_PAGES=800, GRAPH_LATENCY=0.1, FRONTIER_LEASE_TIMEOUT=5)
    wait_until(lambda: len(workers.events("parsed")) > 300)
    servers.fail_over("graph:requests")
    workers.wait(90)
    assert set(workers.urls("parsed")) == pages(800)
    assert workers.reasons() == ["finished", "finished"]
    assert "this worker continues" in workers.log() or "answers again" in workers.log()


@pytest.mark.parametrize("servers", ["sentinel", "cluster"], indirect=True)
def test_a_user_with_few_rights_can_crawl(tmp_path: Path, servers: Replaceable) -> None:
    on_cluster = isinstance(servers, Cluster)
    (more,) = re.findall(r"workers also need `([^`]*)`", SECURITY_PAGE.read_text())
    user, *rule = (word.replace("~target:", "~graph:") for word in acl_rule("worker"))
    if on_cluster:
        rule = [*(word.replace("~graph:", "~{graph}:") for word in rule), *more.split()]
    for server in servers.servers.values():
        with redis.Redis.from_url(server.url) as client:
            client.execute_command("ACL", "SETUSER", user, *rule)
    fleet = Fleet(tmp_path, with_login(servers.url, user, SECRET))
    try:
        fleet.start("graph", 2, GRAPH_PAGES=200, GRAPH_LATENCY=0.01)
        fleet.wait()
    finally:
        fleet.stop()
    assert fleet.urls("parsed") == dict.fromkeys(pages(200), 1)
    assert "WARNING" not in fleet.log()


@pytest.mark.parametrize("servers", ["cluster"], indirect=True)
def test_no_exchange_is_made_where_only_some_of_the_keys_are(servers: Cluster) -> None:
    client = servers.client()
    worker = Client(client, "a", "fifo", 30.0, 5, keys=Keys("s", hash_tag=True)).open()
    worker.push("x", "y")
    worker.take(1)
    for key in ("delayed", "workers"):
        client.zadd(f"s:{key}", {"other": 1e15})
    client.set("s:requests:count", 1)
    client.set("s:finished", 1)
    client.sadd("s:started", "x")
    client.hset("s:history", "x", "")
    client.rpush("s:failed", "{}")
    client.rpush("s:start_urls", "x")
    # All that a script names is there; the leases, which it finds by the worker's name, are not.
    with servers.moving_slot("s:requests", only="s:leases:a"), pytest.raises(redis.RedisError) as refusal:
        worker.say(want=1)
    assert "a slot is moving" in connection.describe_error(client, refusal.value)
    assert worker.repeat(want=1).leases
    client.close()


@pytest.mark.parametrize("servers", ["cluster"], indirect=True)
def test_a_filter_by_itself_is_not_asked_where_only_some_of_its_keys_are(servers: Cluster) -> None:
    client = servers.client()
    step = filter_step(client, "{s}:dupefilter", "compact")
    assert step("add", "x") == 1
    with servers.moving_slot("s:requests", only="s:dupefilter:buckets"), pytest.raises(redis.RedisError):
        step("add", "x")
    assert step("add", "x") == 0
    client.close()


@pytest.mark.parametrize("servers", ["cluster"], indirect=True)
@pytest.mark.long
def test_a_worker_that_waits_for_replicas_finds_the_new_master(servers: Cluster) -> None:
    client = servers.client()
    worker = Client(client, "a", "priority", 30.0, 5, wait_replicas=1, keys=Keys("s", hash_tag=True)).open()
    worker.push("x")
    servers.fail_over("s:requests")
    worker.number += 1

    def goes_on() -> bool:
        try:
            return worker.repeat(want=1).waiting >= 0
        except redis.RedisError:
            return False

    wait_until(goes_on, message="the worker goes on")
    client.close()


@pytest.mark.parametrize("servers", ["cluster"], indirect=True)
def test_scripts_that_were_lost_with_all_nodes_are_loaded_again(servers: Cluster) -> None:
    client = servers.client()
    worker = Client(client, "a", "priority", 30.0, 5, keys=Keys("s", hash_tag=True)).open()
    for server in servers.servers.values():
        with redis.Redis.from_url(server.url) as node:
            node.script_flush()
    assert worker.push("x").waiting == 1
    client.close()


@pytest.mark.parametrize("servers", ["cluster"], indirect=True)
def test_a_client_that_threads_begin_to_use_at_once_serves_them_all(servers: Cluster) -> None:
    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            client = connection.get_redis(url=servers.url)
            counted = list(threads.map(lambda _, client=client: client.incr("count"), range(8)))
            client.close()
    assert sorted(counted) == list(range(153, 161))


@pytest.mark.parametrize("servers", ["cluster"], indirect=True)
def test_a_slot_that_is_moved_in_mid_crawl_loses_nothing(workers: Fleet, servers: Cluster) -> None:
    workers.start("graph", 2, GRAPH_PAGES=800, GRAPH_LATENCY=0.1)
    wait_until(lambda: len(workers.events("parsed")) > 300)
    servers.move_slot("graph:requests")
    workers.wait(90)
    assert workers.urls("downloaded") == dict.fromkeys(pages(800), 1)
    assert workers.reasons() == ["finished", "finished"]
