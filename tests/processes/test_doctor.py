"""``scrapy frontier doctor``: each finding where it belongs, and none where all is well."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched import connection
from scrapy_rq_sched.embedded import PrivateRedis, free_port, server_executable
from scrapy_rq_sched.frontier.messages import FORMAT
from scrapy_rq_sched.frontier.scripts import part
from scrapy_rq_sched.inspect import Finding, View, examine, find_frontiers
from scrapy_rq_sched.inspect import server_checks as checks
from scrapy_rq_sched.inspect.settings_checks import check_settings, with_addon
from scrapy_rq_sched.keys import Keys

from ..support.client import Client
from ..support.crawl import Fleet, run_python, wait_until
from ..support.topologies import Cluster, Embedded, Topology, with_login
from .test_security import SECRET, acl_rule

ADDON = {"ADDONS": {"scrapy_rq_sched.Addon": 500}, "SPIDER_MODULES": ["crawls.spiders"]}


def doctor(redis_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "scrapy", "frontier", "doctor", *arguments, redis_url=redis_url)


def findings(redis_url: str, spider: str = "s", **settings: Any) -> list[Finding]:
    """Return what is found at the frontier of *spider*, outside of a project."""
    read = Settings({"REDIS_URL": redis_url, **settings})
    return list(examine(read, lambda: [View.from_settings(read, spider)], spider))


def of(level: str, found: list[Finding]) -> list[str]:
    return [f"{finding.what}: {finding.text}" for finding in found if finding.level == level]


def only(level: str, found: list[Finding]) -> str:
    expected = ("persistence: there is no append", "server: ")
    (text,) = [text for text in of(level, found) if not text.startswith(expected)]
    return text


@contextmanager
def configured(server: redis.Redis, name: str, value: object) -> Iterator[None]:
    before = server.config_get(name)
    server.config_set(name, value)
    try:
        yield
    finally:
        server.config_set(name, next(iter(before.values())))


# -- where all is well ---------------------------------------------------------------------------------


def test_a_healthy_frontier_has_no_problem(fleet: Fleet, server: redis.Redis, redis_url: str) -> None:
    fleet.start("graph", 1, GRAPH_PAGES=500, GRAPH_LATENCY=0.5, CONCURRENT_REQUESTS=4)
    wait_until(lambda: len(fleet.events("parsed")) > 2)
    for arguments in (["graph"], []):
        done = doctor(redis_url, "--json", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        found = [Finding(**json.loads(line)) for line in done.stdout.splitlines()]
        assert of("problem", found) == []
        # The server of the wheel is an old one.
        expected = ("persistence", "server")
        assert [text for text in of("warning", found) if not text.startswith(expected)] == []
        assert all(finding.advice for finding in found if finding.level != "ok")
        whats = [finding.what for finding in found]
        assert whats[:4] == ["connection", "server", "replicas", whats[3]]
        for what in ("eviction", "memory", "latency", "scripts", "clock", "settings", "spider graph"):
            assert what in whats
    assert "crawling" in found[-1].text


def test_nothing_of_it_stays_in_redis(server: redis.Redis, redis_url: str) -> None:
    findings(redis_url)
    assert list(server.scan_iter("*")) == []


def test_people_get_lines(topology: Topology, server: redis.Redis, redis_url: str) -> None:
    done = doctor(redis_url)
    assert done.returncode == 0
    assert re.search("^ok +eviction: maxmemory-policy is noeviction$", done.stdout, re.MULTILINE)
    # The private server of a host's workers has an append-only file.
    if not isinstance(topology, Embedded):
        assert "→ redis-cli config set appendonly yes" in done.stdout
    assert "frontiers: this Redis has no frontier" in done.stdout


# -- the connection ------------------------------------------------------------------------------------


def test_a_server_that_is_away_is_the_only_finding() -> None:
    (finding,) = findings(f"redis://somebody:{SECRET}@127.0.0.1:{free_port()}/0")
    assert (finding.level, finding.what) == ("problem", "connection")
    assert "cannot be reached" in finding.text
    assert SECRET not in str(finding)


def test_the_exit_code_says_that_there_is_a_problem() -> None:
    done = doctor(f"redis://somebody:{SECRET}@127.0.0.1:{free_port()}/0")
    assert done.returncode == 1
    assert done.stdout.startswith("problem  connection: ")
    assert SECRET not in done.stdout + done.stderr


@pytest.fixture
def address(topology: Topology, redis_url: str) -> Callable[[str], str]:
    """Return the function that makes the URL by which to be a user."""
    if isinstance(topology, Embedded):
        pytest.skip("not on embedded: its URL has no user")
    return lambda user: with_login(redis_url, user, SECRET)


def test_a_wrong_password_is_said_and_not_shown(address: Callable[[str], str]) -> None:
    (finding,) = findings(address("somebody"))
    # Of a Cluster no node lets it in.
    assert re.search("refuses this user|invalid username-password", finding.text)
    assert SECRET not in str(finding)


def test_a_url_that_is_none_is_a_problem() -> None:
    (finding,) = findings(f"redis://:{SECRET}@host:port/0")
    assert (finding.level, finding.what) == ("problem", "connection")
    assert SECRET not in str(finding)


# -- the server ----------------------------------------------------------------------------------------


@pytest.mark.single("the configuration of one server")
@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_deletes_keys_is_a_problem(server: redis.Redis, redis_url: str, policy: str) -> None:
    with configured(server, "maxmemory-policy", policy):
        assert f"eviction: maxmemory-policy is {policy}" in only("problem", findings(redis_url))


@pytest.mark.single("the configuration of one server")
@pytest.mark.parametrize(("share", "level"), [(1.15, "warning"), (1.02, "problem"), (0.9, "problem")])
def test_little_memory_is_told_of(server: redis.Redis, redis_url: str, share: float, level: str) -> None:
    used = server.info("memory")["used_memory"]
    with configured(server, "maxmemory", int(used * share) + 0):
        text = only(level, findings(redis_url))
    assert text.startswith("memory: ")
    assert "maxmemory" in text


@pytest.mark.single("the configuration of one server")
def test_an_append_only_file_is_as_it_should_be(server: redis.Redis, redis_url: str) -> None:
    with configured(server, "appendonly", "yes"):
        wait_until(lambda: not server.info("persistence")["aof_rewrite_in_progress"])
        assert "persistence" not in "\n".join(of("warning", findings(redis_url)))
        with configured(server, "appendfsync", "no"):
            assert "appendfsync is no" in "\n".join(of("warning", findings(redis_url)))
    assert "no append-only file" in "\n".join(of("warning", findings(redis_url)))


def test_a_replica_is_a_problem(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path) as replica, redis.Redis.from_url(replica.url) as client:
        client.replicaof("127.0.0.1", free_port())
        text = "\n".join(of("problem", findings(replica.url)))
    assert "replicas: this is a replica of 127.0.0.1:" in text


@pytest.mark.single("a server without replicas")
def test_replicas_that_are_waited_for_and_not_there_are_a_problem(
    server: redis.Redis, redis_url: str
) -> None:
    assert "but the master has 0 replicas" in only("problem", findings(redis_url, FRONTIER_WAIT_REPLICAS=1))


INFO: dict[str, Any] = {"redis_version": "7.2.4", "role": "master"}


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"redis_version": "6.0.16"}, "Redis 6.0.16 is too old: 6.2 or newer is needed"),
        ({"rdb_last_bgsave_status": "err"}, "the last write of the snapshot failed"),
        (
            {"aof_enabled": 1, "aof_last_write_status": "err"},
            "the last write of the append-only file failed",
        ),
        ({"cluster_enabled": 1}, "a node of a Redis Cluster"),
    ],
)
@pytest.mark.single("what one server says")
def test_the_info_of_a_server_may_be_a_problem(
    server: redis.Redis, monkeypatch: pytest.MonkeyPatch, info: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(server, "info", lambda section: {**INFO, **info})
    assert said in "\n".join(of("problem", list(checks.check_server(server, "s:requests", 0))))


@pytest.mark.single("what one server says")
def test_a_valkey_is_called_so(server: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {**INFO, "server_name": "valkey", "valkey_version": "8.0.10"}
    monkeypatch.setattr(server, "info", lambda section: said)
    assert "server: Valkey 8.0.10" in "\n".join(of("ok", list(checks.check_server(server, "s:requests", 0))))


@pytest.mark.parametrize(
    ("version", "level", "said"),
    [
        ("6.2.14", "warning", "Redis 6.2.14, up for 0:00:00; it lacks known security fixes, up to "),
        ("6.2.23", "ok", "Redis 6.2.23, up for 0:00:00"),
        ("7.0.15", "warning", "Redis 7.0.15, up for 0:00:00; it lacks known security fixes, up to "),
        ("8.10.0", "ok", "Redis 8.10.0, up for 0:00:00"),
    ],
)
@pytest.mark.single("what one server says")
def test_a_server_without_known_security_fixes_gets_a_warning(
    server: redis.Redis, monkeypatch: pytest.MonkeyPatch, version: str, level: str, said: str
) -> None:
    monkeypatch.setattr(server, "info", lambda section: {**INFO, "redis_version": version})
    (finding,) = [found for found in checks.check_server(server, "s:requests", 0) if found.what == "server"]
    assert (finding.level, finding.text.startswith(said)) == (level, True)
    assert ("Update it to " in finding.advice) == (level == "warning")


def test_the_program_of_a_private_server_is_named(tmp_path: Path) -> None:
    (finding,) = [found for found in findings(f"embedded://{tmp_path}/redis") if found.what == "server"]
    assert f"({server_executable()})" in finding.text
    if "Redis 6.2.14" in finding.text:
        assert finding.level == "warning"
        assert re.match(r"Install Redis 6.2.23 or newer on this machine: ", finding.advice)


def test_a_redis_that_is_far_away_and_goes_by_another_clock_is_told_of(
    server: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "LONG", 0.0)
    monkeypatch.setattr(checks, "CLOCK", -1.0)
    warned = "\n".join(of("warning", findings(redis_url)))
    assert "latency: " in warned
    assert "clock: " in warned


# -- users with few rights -----------------------------------------------------------------------------


@pytest.fixture
def as_user(
    topology: Topology, server: redis.Redis, address: Callable[[str], str]
) -> Iterator[Callable[..., str]]:
    """Make a user with these rights on every server, and return the URL by which to be that user."""
    nodes = topology.servers.values() if isinstance(topology, Cluster) else ()
    clients = [redis.Redis.from_url(node.url) for node in nodes] or [server]

    def make(*rule: str) -> str:
        more = ["+cluster|slots", "+command", "~{s}:*"] if nodes else []
        for client in clients:
            client.execute_command("ACL", "SETUSER", "few", "reset", "on", f">{SECRET}", *rule, *more)
        return address("few")

    yield make
    for client in clients:
        client.execute_command("ACL", "DELUSER", "few")


def rights() -> list[str]:
    """Return the rights of a worker that the page on security gives."""
    return [word.replace("target:", "s:") for word in acl_rule("worker")[3:]]


def test_a_worker_with_the_rights_of_the_page_has_no_problem(as_user: Callable[..., str]) -> None:
    found = findings(as_user(*rights()))
    assert of("problem", found) == []
    assert "ok" in [finding.level for finding in found if finding.what == "scripts"]
    assert [finding.text for finding in found if finding.what == "slow commands"] == [
        "not permitted: not checked"
    ]


@pytest.mark.single("functions are not used on a Cluster")
def test_the_doctor_says_whether_the_exchange_is_a_function(
    server: redis.Redis, redis_url: str, as_user: Callable[..., str]
) -> None:
    def functions(url: str) -> str:
        return next(finding.text for finding in findings(url) if finding.what == "functions")

    if int(server.info("server")["redis_version"].split(".")[0]) < 7:
        assert "is a script: this server has no functions" in functions(redis_url)
        return
    assert "is a function" in functions(redis_url)
    assert "is a script: this user lacks a right" in functions(as_user(*rights()))
    more = ("+fcall", "+function|load", "+function|list", "+function|delete")
    assert "is a function" in functions(as_user(*rights(), *more))


def test_the_commands_of_the_scripts_are_the_ones_that_the_page_allows(server: redis.Redis) -> None:
    text = part("scripts/doctor").decode()
    tried = {name.lower() for name in re.findall(r"[{(]'([A-Z]+)'", text)}
    tried |= {"ping", "info", "eval", "evalsha", "script|load", "blmove"}
    assert tried == {word.removeprefix("+") for word in rights() if word.startswith("+")}


@pytest.mark.parametrize("missing", ["zadd", "hset", "spop", "set", "del", "time"])
def test_a_right_that_is_missing_is_named(as_user: Callable[..., str], missing: str) -> None:
    found = findings(as_user(*rights(), f"-{missing}"))
    text = "\n".join(of("problem", found))
    assert re.search(rf"scripts: this user may not call all commands of a worker; .*\b{missing}\b", text)


def test_a_redis_user_without_the_right_to_run_scripts_at_the_keys_is_a_problem(
    as_user: Callable[..., str],
) -> None:
    for rule in ([*rights(), "-evalsha"], [*rights(), "resetkeys", "~other:*"]):
        if "resetkeys" in rule and connection.needs_hash_tag(connection.get_redis(url=as_user(*rule))):
            continue
        text = "\n".join(of("problem", findings(as_user(*rule))))
        assert "scripts: this user may not run scripts on the key" in text


def test_a_check_that_is_not_permitted_is_left_out(as_user: Callable[..., str]) -> None:
    found = findings(as_user(*rights(), "-info", "-blmove"))
    assert of("problem", found) == []
    assert any("INFO is not permitted" in text for text in of("warning", found))
    assert any("BLMOVE is not permitted" in text for text in of("ok", found))


def test_all_frontiers_are_not_looked_for_without_the_right(as_user: Callable[..., str]) -> None:
    settings = Settings({"REDIS_URL": as_user(*rights())})
    found = list(examine(settings, lambda: find_frontiers(settings)))
    assert any("frontiers: not permitted: some or all" in text for text in of("warning", found))


# -- the settings --------------------------------------------------------------------------------------


def said_of(**settings: Any) -> list[Finding]:
    return list(check_settings(with_addon(Settings({**ADDON, **settings}))))


PROJECT = {"SPIDER_MODULES": ["crawls"]}
PIPELINE = {"scrapy_rq_sched.pipelines.RedisPipeline": 300}


@pytest.mark.parametrize(
    ("settings", "text", "advice"),
    [
        ({"FRONTIER_ITEMS": "stream"}, "each is stored once, whatever dies", ""),
        ({"ITEM_PIPELINES": PIPELINE}, "RedisPipeline loses none, but", "set FRONTIER_ITEMS = 'list'"),
        (
            {"FEEDS": {"i-%(worker)s.jl": {}}},
            "'i-%(worker)s.jl': it loses none",
            "scrapy frontier crawl SPIDER;",
        ),
        (
            {"FEEDS": {"s3://b/i-%(worker)s.jl": {}}},
            "loses those that are not stored",
            "FRONTIER_ITEMS = 'stream'",
        ),
    ],
)
def test_the_doctor_names_the_way_that_stores_each_item_once(
    settings: dict[str, Any], text: str, advice: str
) -> None:
    (found,) = [finding for finding in said_of(**PROJECT, **settings) if finding.what == "items"]
    assert text in found.text
    assert advice in found.advice
    assert found.level == "ok"


def test_settings_as_they_should_be_are_ok() -> None:
    assert [finding.level for finding in said_of()] == ["ok"]
    assert [finding.level for finding in said_of(ADDONS={}, SCHEDULER="scrapy_rq_sched.Scheduler")] == ["ok"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"SCHEDULER_FLUSH_ON_START": True, "SCHEDULER_PERSIST": True}, "SCHEDULER_FLUSH_ON_START clears"),
        ({"FRONTIER_PREFETCH": 8}, "FRONTIER_PREFETCH (8) is less than CONCURRENT_REQUESTS (16)"),
        ({"FRONTIER_MAX_WAITING": 100}, "FRONTIER_MAX_WAITING (100) is less than"),
        ({"FRONTIER_MAX_WAITING_POLICY": "drop-lowest"}, "so the queue has no limit"),
        ({"FRONTIER_SLOTS": {"a": {"delay": 1}}, "FRONTIER_BY_SLOT": False}, "FRONTIER_SLOTS has no effect"),
        (
            {"AUTOTHROTTLE_ENABLED": True, "FRONTIER_FLEET_LIMITS": ["delay"]},
            "each worker keeps its own delays",
        ),
        ({"CONCURRENT_REQUESTS_PER_IP": 4}, "Scrapy's slots are IP addresses"),
        ({"FRONTIER_LEASE_TIMEOUT": 2}, "FRONTIER_LEASE_TIMEOUT is 2 s"),
        ({"FRONTIER_LEASE_TIMEOUT": 5}, "is not longer than the socket_timeout"),
        ({"REDIS_PARAMS": {"socket_timeout": None}}, "has the socket_timeout None"),
        ({"REDIS_PARAMS": {"decode_responses": True}}, "decode_responses"),
        ({"REDIS_URL": "redis://a", "REDIS_HOST": "b"}, "so REDIS_HOST has no effect"),
        ({"SCHEDULER_SERIALIZER": "pickle"}, "can run code in the workers"),
        ({"SCHEDULER_SERIALIZER": "scrapy_rq_sched.picklecompat"}, "can run code in the workers"),
        ({"JOBDIR": "/tmp/x"}, "JOBDIR is '/tmp/x', but this scheduler stores no requests"),
        ({"FRONTIER_JOB": "x"}, "no key template contains %(job)s"),
        ({"SCHEDULER_QUEUE_KEY": "requests"}, "all spiders would share one queue"),
        ({"DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter"}, "which workers do not share"),
        ({"SCHEDULER_QUEUE_CLASS": "tests.project.crawls.spiders.OwnQueue"}, "pushes and pops by itself"),
    ],
)
def test_settings_that_contradict_each_other_are_a_warning(settings: dict[str, Any], said: str) -> None:
    (finding,) = said_of(**settings)
    assert (finding.level, finding.what) == ("warning", "settings")
    assert said in finding.text
    assert finding.advice


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ADDONS": {}}, "crawls do not use the frontier"),
        ({"ADDONS": {}, "SCHEDULER": "no.such.Class"}, "crawls do not use the frontier"),
        ({"FRONTIER_PREFETCH": "many"}, "FRONTIER_PREFETCH must be an integer from 1 to 1000, not 'many'"),
        (
            {"FRONTIER_ORDER": "priority", "SCHEDULER_QUEUE_CLASS": "scrapy_rq_sched.FifoQueue"},
            "FRONTIER_ORDER is 'priority', but FifoQueue has no priorities",
        ),
        (
            {"SCHEDULER_SERIALIZER": "no.such"},
            "or the import path of a module or object with dumps and loads, not 'no.such'",
        ),
        (
            {"ADDONS": {}, "SCHEDULER": "scrapy_rq_sched.Scheduler", "FRONTIER_SET_ASIDE": ["download"]},
            "Use the add-on",
        ),
    ],
)
def test_settings_with_which_no_crawl_starts_are_a_problem(settings: dict[str, Any], said: str) -> None:
    (finding,) = said_of(**settings)
    assert (finding.level, finding.what) == ("problem", "settings")
    assert said in finding.text


def test_a_setting_that_is_refused_does_not_keep_from_looking_at_the_server(
    server: redis.Redis, redis_url: str
) -> None:
    found = findings(redis_url, FRONTIER_PREFETCH="many")
    assert "FRONTIER_PREFETCH must be an integer from 1 to 1000, not 'many'" in only("problem", found)
    assert "eviction" in [finding.what for finding in found]


def test_settings_of_the_spider_count(server: redis.Redis, redis_url: str) -> None:
    done = doctor(redis_url, "graph", "-s", "FRONTIER_PREFETCH=many")
    assert done.returncode == 1
    assert "problem  settings: FRONTIER_PREFETCH must be an integer from 1 to 1000, not 'many'" in done.stdout


# -- the frontier --------------------------------------------------------------------------------------

WRONG = {
    "requests": "zset",
    "requests:count": "string",
    "converting": "hash",
    "dupefilter": "set",
    "dupefilter:buckets": "hash",
    "dupefilter:cleared": "list",
    "dupefilter:frontiers": "set",
    "started": "set",
    "delayed": "zset",
    "workers": "zset",
    "history": "hash",
    "failed": "list",
    "finished": "string",
    "pages": "list",
    "exported": "list",
    "start_urls": "list or a set or a zset",
    "worker:a": "hash",
    "leases:a": "hash",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_key_of_a_wrong_type_is_named_with_the_right_one(
    server: redis.Redis, redis_url: str, name: str
) -> None:
    worker = Client(server, "a", "priority", 30.0, 5, keys=_keys(server)).open()
    worker.push("x")
    prefix = worker.frontier.keys.prefix
    server.delete(f"{prefix}:{name}")
    if WRONG[name] == "string":
        server.hset(f"{prefix}:{name}", "x", "y")
    else:
        server.set(f"{prefix}:{name}", "x")
    kind = "hash" if WRONG[name] == "string" else "string"
    text = "\n".join(of("problem", findings(redis_url)))
    assert f"the key '{prefix}:{name}' is a {kind}, where the frontier needs a {WRONG[name]}" in text


def _keys(server: redis.Redis) -> Keys:
    return Keys("s", hash_tag=connection.needs_hash_tag(server))


@pytest.fixture
def worker(server: redis.Redis) -> Client:
    return Client(server, "a", "priority", 30.0, 5, keys=_keys(server)).open()


def test_a_meta_of_a_wrong_type_is_named(server: redis.Redis, redis_url: str) -> None:
    server.set("graph:meta", "x")
    done = doctor(redis_url, "graph", "--json")
    assert done.returncode == 1
    assert ":meta' is a string, where the frontier needs a hash" in done.stdout


def test_a_frontier_that_is_paused_is_told_of(server: redis.Redis, redis_url: str, worker: Client) -> None:
    worker.push("x")
    since = int(server.time()[0] * 1000) - 600_000
    server.hset(worker.frontier.keys.meta, mapping={"state": "paused", "state_since": since})
    assert only("warning", findings(redis_url)) == "spider s: the crawl has been paused for 10 minutes"


def test_workers_that_are_told_to_stop_are_told_of(
    server: redis.Redis, redis_url: str, worker: Client
) -> None:
    server.hset(worker.frontier.keys.meta, "stop", (int(server.time()[0]) + 5) * 1_000_000)
    assert "1 of 1 live workers was told to stop" in only("warning", findings(redis_url))


def test_waiting_requests_without_a_worker_are_a_warning(
    server: redis.Redis, redis_url: str, worker: Client
) -> None:
    worker.push("x", "y")
    server.zadd(worker.frontier.keys.workers, {"a": 1})
    assert "no worker is alive, and waiting requests and seeds: 2" in only("warning", findings(redis_url))
    worker.frontier.leave(False, False)
    assert "waiting requests and seeds: 2" in only("warning", findings(redis_url))


def test_dead_workers_that_hold_requests_are_told_of(
    server: redis.Redis, redis_url: str, worker: Client
) -> None:
    worker.push("x", "y")
    worker.take(2)
    server.zadd(worker.frontier.keys.workers, {"a": 1})
    said = "1 dead worker holds 2 requests, and no worker is alive"
    assert said in only("warning", findings(redis_url))


def test_workers_of_different_versions_are_told_of(
    server: redis.Redis, redis_url: str, worker: Client
) -> None:
    Client(server, "b", "priority", 30.0, 5, keys=_keys(server)).open(about=json.dumps({"version": "0.2"}))
    server.hset(worker.frontier.keys.worker("a"), "about", json.dumps({"version": "0.1"}))
    assert "different versions of scrapy-rq-sched: 0.1, 0.2" in only("warning", findings(redis_url))


def test_the_name_of_a_spider_is_quoted_in_each_advice(server: redis.Redis, redis_url: str) -> None:
    keys = Keys("my shop", hash_tag=connection.needs_hash_tag(server))
    worker = Client(server, "a", "priority", 30.0, 5, keys=keys)
    worker.open()
    worker.push("x")
    server.hset(keys.meta, "state", "paused")
    server.rpush(keys.failed, "x")
    advice = "\n".join(finding.advice for finding in findings(redis_url, "my shop"))
    server.hset(keys.converting, mapping={"from": "import", "id": "x"})
    advice += "\n".join(finding.advice for finding in findings(redis_url, "my shop"))
    server.hset(keys.converting, mapping={"from": "pickle", "to": "json"})
    server.zadd(keys.workers, {"a": 1})
    server.zadd(keys.requests, {b"\x80\x04cos\nsystem\n.": -9})
    advice += "\n".join(finding.advice for finding in findings(redis_url, "my shop"))
    for command in ("clear 'my shop' --force", "convert 'my shop'", "resume 'my shop'", "failed 'my shop'"):
        assert f"scrapy frontier {command}" in advice
    assert "scrapy crawl 'my shop'" in advice
    assert advice.count("my shop") == advice.count("'my shop'")


def test_a_failed_list_is_told_of(server: redis.Redis, redis_url: str) -> None:
    server.rpush(_keys(server).failed, "x", "y")
    assert only("warning", findings(redis_url)) == "spider s: the failed list has 2 entries"
    assert "the oldest are dropped" in only("warning", findings(redis_url, FRONTIER_MAX_FAILED=2))


def test_a_conversion_that_broke_off_is_a_problem(server: redis.Redis, redis_url: str) -> None:
    server.hset(_keys(server).converting, mapping={"from": "pickle", "to": "json"})
    assert "are being converted (pickle to json), or a conver" in only("problem", findings(redis_url))


def test_pickles_of_scrapy_redis_are_a_problem_and_are_not_read(server: redis.Redis, redis_url: str) -> None:
    server.zadd(_keys(server).requests, {b"\x80\x04cos\nsystem\n.": 0})
    found = findings(redis_url)
    assert "has pickled requests, as scrapy-redis writes them" in only("problem", found)


def test_another_format_is_a_problem(server: redis.Redis, redis_url: str, worker: Client) -> None:
    server.hset(worker.frontier.keys.meta, "format", "1")
    assert f"it has the format 1, but this version of scrapy-rq-sched uses {FORMAT}" in only(
        "problem", findings(redis_url)
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCHEDULER_QUEUE_CLASS", "scrapy_rq_sched.queue.FifoQueue"),
        ("SCHEDULER_SERIALIZER", "msgpack"),
        ("dupefilter", "compact"),
        ("REQUEST_FINGERPRINTER_CLASS", "other.Fingerprinter"),
        ("FRONTIER_PROJECT", "another/spiders.Graph"),
    ],
)
def test_a_frontier_made_with_other_settings_is_a_problem(
    server: redis.Redis, redis_url: str, name: str, value: str
) -> None:
    Client(server, "a", "priority", 30.0, 5, keys=_keys_of_graph(server)).open()
    server.hset(_keys_of_graph(server).meta, name, value)
    for arguments in (["graph"], []):
        done = doctor(redis_url, *arguments)
        assert done.returncode == 1
        assert f"it was made with {name} {value!r}, but the settings have" in done.stdout


def _keys_of_graph(server: redis.Redis) -> Keys:
    return Keys("graph", hash_tag=connection.needs_hash_tag(server))


@pytest.mark.single("slots: there are none")
def test_a_redis_that_refuses_to_write_is_a_problem(
    server: redis.Redis, redis_url: str, worker: Client
) -> None:
    with configured(server, "min-replicas-to-write", 3):
        assert "scripts that write do not run" in only("problem", findings(redis_url))


def test_an_import_that_broke_off_is_told_of_as_one(
    server: redis.Redis, redis_url: str, worker: Client
) -> None:
    server.hset(worker.frontier.keys.converting, mapping={"from": "import", "id": "x"})
    found = only("problem", findings(redis_url))
    assert "a frontier is being imported" in found


def test_a_growth_that_fills_the_memory_soon_is_told_of(
    server: redis.Redis, redis_url: str, worker: Client
) -> None:
    worker.push(*map(str, range(1000)))
    now = int(server.time()[0]) // 10 * 10
    server.delete("s:pages")
    server.hset(worker.frontier.keys.worker(worker.name), "joined", 1_000_000)
    server.rpush("s:pages", f"{now} 1 1000", f"{now - 60} 1 10")
    used = server.info("memory")["used_memory"]
    with configured(server, "maxmemory", used * 2):
        assert "Redis will be full in" in only("warning", findings(redis_url))


def test_an_unknown_spider_is_a_problem(server: redis.Redis, redis_url: str) -> None:
    done = doctor(redis_url, "nobody")
    assert done.returncode == 1
    assert "problem  frontiers: Neither this project nor Redis has a spider 'nobody'" in done.stdout


def test_keys_on_several_slots_are_a_problem(server: redis.Redis, redis_url: str) -> None:
    if not connection.needs_hash_tag(server):
        pytest.skip("not on single: there are no slots")
    found = findings(redis_url, SCHEDULER_QUEUE_KEY="{a}:requests", SCHEDULER_DUPEFILTER_KEY="{b}:seen")
    assert "are on different slots of the Redis Cluster" in only("problem", found)
