"""A Redis that is full, that is replaced by its replica, and that has a bound."""

from __future__ import annotations

import time
from collections.abc import Callable

from scrapy import Request
from scrapy.utils.request import fingerprint

from scrapy_rq_sched.embedded import PrivateRedis
from tests.support.proxy import Proxy

from .arena import Arena
from .referee import Outcome
from .registry import scenario

#: Seconds that a replica is behind.
LAG = 0.3
FULL, ROOM = "is out of memory", "has room again"


@scenario(
    "redis-full",
    "Redis runs out of memory (maxmemory, noeviction), and has room again later. Nothing is repeated.",
)
def redis_full(arena: Arena) -> Outcome:
    workers = arena.choose(2, 4)
    # Pages that lead to nothing go on: there have to be enough of them, and slow ones.
    pages, latency = arena.choose((600, 0.04), (12_000, 0.3))
    settings = {"GRAPH_LATENCY": latency, **arena.without_deaths}
    arena.crawl("graph", "-a", "unfiltered=1", workers=workers, pages=pages, **settings)
    episodes = arena.choose(1, 3)
    for number in range(episodes):
        arena.reach(0.1 + 0.2 * number)
        # Well below what it has, so that no release makes room by itself.
        arena.client.config_set("maxmemory", arena.client.info("memory")["used_memory"] // 2)
        with arena.lasting(arena.choose(1.0, 10.0)):
            arena.wait(_said(arena, FULL, number + 1), "not all workers say that it is full")
        arena.client.config_set("maxmemory", 0)
        if number + 1 < episodes:  # after the last one the crawl may be over sooner than that is said
            arena.wait(_said(arena, ROOM, number + 1), "not all workers say that it has room")
    arena.settle()
    assert _times(arena, FULL) == [episodes] * workers, f"said so {_times(arena, FULL)} times"
    return Outcome(episodes)


def _times(arena: Arena, text: str) -> list[int]:
    return [arena.logged(text, [number]) for number in range(len(arena.fleet.workers))]


def _said(arena: Arena, text: str, times: int) -> Callable[[], bool]:
    return lambda: min(_times(arena, text)) >= times


def _replica_of(arena: Arena, port: int) -> PrivateRedis:
    # Without a disk in between, and at once: the scenario has to wait for it.
    at_once = ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]
    replica = arena.another_redis("--replicaof", "127.0.0.1", str(port), *at_once)
    client = arena.client_of(replica)
    arena.wait(
        lambda: client.info("replication").get("master_link_status") == "up", "the replica has no master"
    )
    return replica


class Standby:
    """A replica that lags *lag* seconds behind Redis, and takes its place when that is killed."""

    def __init__(self, arena: Arena, lag: float = LAG) -> None:
        arena.client.config_set("repl-diskless-sync", "yes")
        arena.client.config_set("repl-diskless-sync-delay", 0)
        self._arena = arena
        self._lag = lag
        self.master = arena.redis
        self._replicate()

    def _replicate(self) -> None:
        link: Proxy = self._arena.another_proxy(self.master, 0)
        self._replica = _replica_of(self._arena, link.port)
        # To the replica and back.
        link.delay(2000 * self._lag)

    def fail_over(self) -> float:
        """Kill Redis, and have the replica take its place; return when it was killed."""
        assert self.master.process is not None
        self.master.process.kill()
        killed = time.time()
        self.master.stop()
        self._arena.client_of(self._replica).replicaof("NO", "ONE")
        self.master = self._replica
        self._arena.proxy.target(self.master.url)
        self._replicate()
        return killed


def fail_over(arena: Arena, lag: float, crawl: Callable[[], None]) -> Outcome:
    """Replace Redis by a replica that lags *lag* seconds behind it, in the crawl that *crawl* starts."""
    standby = Standby(arena, lag)
    crawl()
    failovers = arena.choose(1, 3)
    killed = []
    for number in range(failovers):
        arena.reach(0.25 + 0.2 * number)
        killed.append(standby.fail_over())
    arena.settle()
    return Outcome(failovers, crawled_again(arena, lag, killed))


def crawled_again(arena: Arena, lag: float, killed: list[float]) -> int:
    """Return how many pages may be crawled again because Redis was *killed* at these moments.

    They are what the replica had not heard of its release by then, to and fro and with a wait for a second
    attempt; and what was begun before the worker heard of it, after a few attempts.
    """
    return begun_within(arena, [(moment - 4 * lag - 1, moment + 1.5) for moment in killed])


def begun_within(arena: Arena, windows: list[tuple[float, float]]) -> int:
    """Return how many downloads began within these times, each from one moment to another."""
    downloads = [event.time for event in arena.fleet.events("downloaded")]
    return sum(any(begin < when < end for begin, end in windows) for when in downloads)


def _failover(arena: Arena, **settings: object) -> Outcome:
    # Leases that outlast the wait for a replica.
    its = {"workers": 2, "pages": arena.choose(400, 4000), "GRAPH_LATENCY": 0.1, "FRONTIER_LEASE_TIMEOUT": 6}
    return fail_over(arena, LAG, lambda: arena.crawl(**its, **settings))  # type: ignore[arg-type]


@scenario(
    "failover-waited",
    "Redis is killed, and its replica, 0.3 s behind, takes its place, with FRONTIER_WAIT_REPLICAS=1. Pages "
    "of the last seconds may be repeated, because their releases had not reached the replica.",
    again=True,
)
def failover_waited(arena: Arena) -> Outcome:
    return _failover(arena, FRONTIER_WAIT_REPLICAS=1)


@scenario(
    "failover-finish",
    "When Redis knows that the crawl is finished, its replica, 0.3 s behind, takes its place. Pages of the "
    "last seconds may be repeated. The history has one entry.",
    again=True,
)
def failover_finish(arena: Arena) -> Outcome:
    standby = Standby(arena)
    # Workers stay for a while after the finish.
    settings = {"SCHEDULER_IDLE_BEFORE_CLOSE": 3, "FRONTIER_LEASE_TIMEOUT": 6, "FRONTIER_WAIT_REPLICAS": 1}
    arena.crawl(pages=arena.choose(200, 1000), GRAPH_LATENCY=0.1, **settings)
    arena.wait(lambda: arena.client.hexists("graph:meta", "finished"), "the crawl is not finished")
    killed = standby.fail_over()
    arena.settle()
    return Outcome(1, crawled_again(arena, LAG, [killed]))


@scenario(
    "failover-not-waited",
    "Like failover-waited, without FRONTIER_WAIT_REPLICAS.",
    again=True,
)
def failover_not_waited(arena: Arena) -> Outcome:
    return _failover(arena)


@scenario(
    "bound-slow",
    "At most FRONTIER_MAX_WAITING requests may wait, and the policy is to slow down. Nothing is repeated.",
)
def bound_slow(arena: Arena) -> Outcome:
    bound = 20
    # So many that without a bound far more would wait than with it.
    pages = arena.choose(800, 3000)
    arena.crawl(
        pages=pages, FRONTIER_MAX_WAITING=bound, FRONTIER_MAX_WAITING_POLICY="slow", **arena.without_deaths
    )
    most = 0
    while arena.share < 1 and arena.busy():
        most = max(most, int(arena.client.hget("graph:meta", "waiting") or 0))
        time.sleep(0.02)
    arena.settle()
    # Pages that are begun may still add their links.
    begun = 2 * 16 * 10
    assert most <= bound + begun, f"{most} requests waited"
    return Outcome(1)


@scenario(
    "bound-drop",
    "At most FRONTIER_MAX_WAITING requests may wait, and the lowest are dropped. Dropped requests are "
    "counted, and not marked as seen. They are missing, and so are the pages that only they lead to.",
    tolerant=True,
)
def bound_drop(arena: Arena) -> Outcome:
    arena.crawl(FRONTIER_MAX_WAITING=20, FRONTIER_MAX_WAITING_POLICY="drop-lowest", SCHEDULER_PERSIST=True)
    arena.settle()
    stats = [event.what.partition("=") for event in arena.fleet.events("stat")]
    dropped = sum(float(value) for name, _, value in stats if "dropped" in name)
    assert dropped, "nothing was dropped, or it was not counted"
    parsed = set(arena.fleet.urls("parsed"))
    missing = arena.pages - parsed
    found = {url for url in missing if _parent(url) in parsed}
    assert len(found) <= dropped, (
        f"{len(found)} pages that were found are missing, {dropped:.0f} were dropped"
    )
    seen = arena.client.smembers("graph:dupefilter")
    marked = [url for url in missing if fingerprint(Request(url)).hex().encode() in seen]
    assert not marked, f"{len(marked)} dropped pages are marked as seen"
    return Outcome(int(dropped))


def _parent(url: str) -> str:
    site, _, number = url.rpartition("/")
    return f"{site}/{(int(number) - 1) // 10}"
