"""The doctor's checks of a Redis server."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from .. import connection
from ..frontier.scripts import register, why_no_function
from ..keys import never
from ..servers.releases import FIXES_OF, needed_update
from .finding import NOT_PERMITTED, Finding, if_permitted, ok, problem, warning
from .wording import counted

#: Number of pings that measure the latency; and the median, in seconds, above which it is high.
PINGS, LONG = 10, 0.1
#: Maximum difference between the clocks, in seconds.
CLOCK = 5.0
#: Below these shares of free memory there is a warning, or a problem.
LITTLE, TOO_LITTLE = 0.2, 0.05

_SECTIONS = ("server", "memory", "persistence", "replication", "cluster")
_TOPOLOGIES = {
    "redis": "one server",
    "rediss": "one server, with TLS",
    "unix": "one server, through a Unix socket",
    "embedded": "the private server of this host",
    "redis+sentinel": "the master that Sentinel names",
    "rediss+sentinel": "the master that Sentinel names, with TLS",
    "redis+cluster": "a Redis Cluster",
    "rediss+cluster": "a Redis Cluster, with TLS",
}


def check_connection(client: Any, key: str) -> Finding:
    """Connect to the server that has *key*.

    :raises redis.exceptions.RedisError: if it does not answer.
    """
    started = time.perf_counter()
    connection.server_of(client, key).ping()
    took = 1000 * (time.perf_counter() - started)
    where = connection.address(client)
    return ok(
        "connection", f"{where} ({_TOPOLOGIES[where.partition('://')[0]]}) answers within {took:.1f} ms"
    )


def check_server(client: Any, key: str, wait_replicas: int) -> Iterator[Finding]:
    """Check the server that has *key*.

    :param client: of a single server, or of a Cluster.
    :param wait_replicas: ``FRONTIER_WAIT_REPLICAS``.
    :raises redis.exceptions.RedisError: if it does not answer.
    """
    server, on_cluster = connection.server_of(client, key), connection.needs_hash_tag(client)
    info: dict[str, Any] = {}
    for section in _SECTIONS:
        info |= if_permitted(lambda section=section: server.info(section)) or {}  # type: ignore[misc]
    if "redis_version" in info:
        yield _version(info, is_own=connection.address(client).startswith("embedded://"))
        yield from _replication(info, wait_replicas)
        yield from _cluster(server, info, on_cluster)
        yield _persistence(server, info)
        yield _eviction(info)
        yield _memory(info)
    else:
        yield warning(
            "server",
            "INFO is not permitted: version, replicas, persistence, eviction and memory are not checked",
            "Connect as another user (--redis-url), or allow this user the command: +info",
        )
    yield _latency(server)
    yield _slow_commands(server)
    yield _scripts(client, key)
    yield _functions(client, key)
    yield _seeds(server, never(key))
    yield _clock(server)


def _version(info: dict[str, Any], is_own: bool) -> Finding:
    kind = str(info.get("server_name", "redis")).capitalize()
    version = str(info.get("valkey_version") or info["redis_version"])
    numbers = tuple(int(part) for part in re.findall(r"\d+", str(info["redis_version"]))[:2])
    if numbers < connection.OLDEST_SERVER:
        needed = ".".join(map(str, connection.OLDEST_SERVER))
        return problem("server", f"{kind} {version} is too old: {needed} or newer is needed", "Update it")
    # A private server is a program that was found on this machine.
    program = f" ({info['executable']})" if is_own and info.get("executable") else ""
    text = f"{kind} {version}{program}, up for {timedelta(seconds=int(info.get('uptime_in_seconds', 0)))}"
    newer = needed_update(kind, version)
    if not newer:
        return ok("server", text)
    advice = (
        f"Install {kind} {newer} or newer on this machine: a private server is the newest program on the PATH"
        if is_own
        else f"Update it to {newer} or newer, unless your distribution has added the fixes to its {version}"
    )
    return warning("server", f"{text}; it lacks known security fixes, up to {FIXES_OF}", advice)


def _replication(info: dict[str, Any], wait_replicas: int) -> Iterator[Finding]:
    if info.get("role") in ("slave", "replica"):
        yield problem(
            "replicas",
            f"this is a replica of {info.get('master_host')}:{info.get('master_port')}: it accepts no writes",
            "Set REDIS_URL to the master, or to the Sentinels: redis+sentinel://…",
        )
        return
    replicas = int(info.get("connected_slaves", 0))
    if replicas < wait_replicas:
        yield problem(
            "replicas",
            f"FRONTIER_WAIT_REPLICAS is {wait_replicas}, but the master has {counted(replicas, 'replica')}: "
            "no lease is released, and no crawl finishes",
            f"Add replicas, or set FRONTIER_WAIT_REPLICAS to {replicas}",
        )
    else:
        yield ok("replicas", f"this is a master with {counted(replicas, 'replica')}")


def _cluster(server: Any, info: dict[str, Any], on_cluster: bool) -> Iterator[Finding]:
    if not on_cluster:
        if int(info.get("cluster_enabled", 0)):
            yield problem(
                "cluster",
                "this is a node of a Redis Cluster, but REDIS_URL is that of a single server",
                "Set REDIS_URL to redis+cluster://…",
            )
        return
    state = if_permitted(lambda: server.cluster("INFO"))
    if state is None:
        yield ok("cluster", NOT_PERMITTED)
    elif state.get("cluster_state") == "ok":
        yield ok("cluster", f"healthy, with {state.get('cluster_known_nodes')} nodes")
    else:
        yield problem(
            "cluster",
            f"the state of the Cluster is {state.get('cluster_state')!r}: {state.get('cluster_slots_ok')} of "
            "16384 slots are served",
            "Find the node that is down: redis-cli cluster nodes",
        )


def _persistence(server: Any, info: dict[str, Any]) -> Finding:
    for name, file in (("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "snapshot")):
        if info.get(name, "ok") != "ok":
            return problem(
                "persistence",
                f"the last write of the {file} failed: Redis may refuse all writes until one succeeds",
                "Read the log of Redis: the disk may be full, or the folder not writable",
            )
    if not int(info.get("aof_enabled", 0)):
        return warning(
            "persistence",
            "there is no append-only file: a crash loses all changes since the last snapshot, or all data",
            "redis-cli config set appendonly yes, and appendonly yes in redis.conf",
        )
    config = if_permitted(lambda: server.config_get("appendfsync"))
    synced = config.get("appendfsync", "unknown") if config else NOT_PERMITTED
    if synced == "no":
        return warning(
            "persistence",
            "appendfsync is no: a crash of the host loses the changes that are not on its disk yet",
            "redis-cli config set appendfsync everysec, and the same in redis.conf",
        )
    return ok("persistence", f"there is an append-only file (appendfsync: {synced})")


def _eviction(info: dict[str, Any]) -> Finding:
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy == "noeviction":
        return ok("eviction", "maxmemory-policy is noeviction")
    return problem(
        "eviction",
        f"maxmemory-policy is {policy}: when its memory is full, Redis deletes keys, and the crawl loses "
        "requests",
        "redis-cli config set maxmemory-policy noeviction, and the same in redis.conf",
    )


def memory_left(info: dict[str, Any]) -> tuple[int, int]:
    """Return the number of free bytes and the total; 0 and 0 if Redis does not report them."""
    most = int(info.get("maxmemory") or info.get("total_system_memory") or 0)
    return max(0, most - int(info.get("used_memory", 0))), most


def _memory(info: dict[str, Any]) -> Finding:
    left, most = memory_left(info)
    if not most:
        return ok("memory", "Redis does not report its memory: not checked")
    limit = "of maxmemory" if info.get("maxmemory") else "of the host: maxmemory is not set"
    text = f"{left / most:.0%} of {most / 1e6:,.0f} MB are free ({limit})"
    advice = (
        "Give Redis more memory (maxmemory), limit the queue (FRONTIER_MAX_WAITING), or use CompactDupeFilter"
    )
    if left < TOO_LITTLE * most:
        return problem("memory", text, advice)
    return warning("memory", text, advice) if left < LITTLE * most else ok("memory", text)


def _latency(server: Any) -> Finding:
    taken = []
    for _ in range(PINGS):
        started = time.perf_counter()
        server.ping()
        taken.append(time.perf_counter() - started)
    median = statistics.median(taken)
    text = f"median of {PINGS} pings {1000 * median:.1f} ms, slowest {1000 * max(taken):.1f} ms"
    if median > LONG:
        return warning(
            "latency",
            f"{text}: seeds, and the links of the last pages, are begun that much later",
            "Run Redis closer to the workers. Downloads do not wait while prefetched requests are ready",
        )
    return ok("latency", f"{text}; downloads do not wait for Redis")


def _slow_commands(server: Any) -> Finding:
    count = if_permitted(server.slowlog_len)
    if count is None:
        return ok("slow commands", NOT_PERMITTED)
    return ok("slow commands", f"{count} in Redis's slow log" + (" (redis-cli slowlog get)" if count else ""))


def _scripts(client: Any, key: str) -> Finding:
    allow = "Grant this user the rights that a worker needs: docs/security.md lists them"
    script = register(client, "doctor")
    try:
        script.load(key)
        refused = script([never(key)], [])
        # A worker sends a script whole when Redis does not have it.
        client.eval("return 1", 1, never(key))
    except connection.NoPermissionError as error:
        return problem("scripts", f"this user may not run scripts on the key {key!r}: {error}", allow)
    except connection.ResponseError as error:
        return problem(
            "scripts",
            f"scripts that write do not run: {error}",
            "Correct the cause that Redis names: until then no worker can join",
        )
    if refused:
        names = ", ".join(name.decode() for name in refused)
        return problem("scripts", f"this user may not call all commands of a worker; missing: {names}", allow)
    return ok("scripts", "this user may run scripts, with all commands of a worker")


def _functions(client: Any, key: str) -> Finding:
    reason = why_no_function(client, never(key))
    if reason:
        return ok("functions", f"each exchange of a worker is a script: {reason}")
    return ok("functions", "each exchange of a worker is a function, which costs Redis less than a script")


def _seeds(server: Any, probe: str) -> Finding:
    try:
        server.blmove(probe, probe, 0.01, "LEFT", "LEFT")
    except connection.NoPermissionError:
        return ok("seeds", "BLMOVE is not permitted: workers poll for seeds, once a second")
    except connection.ResponseError as error:
        return ok("seeds", f"Redis refuses BLMOVE at present, so workers poll for seeds: {error}")
    except connection.RedisTimeoutError:
        return ok("seeds", "BLMOVE takes longer than the timeout in REDIS_PARAMS: workers may poll for seeds")
    return ok("seeds", "BLMOVE works: workers begin seeds as soon as they are pushed")


def _clock(server: Any) -> Finding:
    before = time.time()
    server_time = if_permitted(server.time)
    if server_time is None:
        return ok("clock", NOT_PERMITTED)
    apart = server_time[0] + server_time[1] / 1e6 - (before + time.time()) / 2
    text = f"the server's clock is {abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} this machine's"
    if abs(apart) > CLOCK:
        return warning("clock", f"{text}; workers use the server's", "Synchronize both with NTP")
    return ok("clock", text)
