"""What networks and servers do to connections: nothing of it may lose or repeat a page."""

from __future__ import annotations

import time

from .arena import LONG_LEASE, UNRELEASED, Arena, OverdueError
from .deaths import MANY
from .referee import Outcome
from .registry import scenario


def _connections(name: str, about: str, fault: str, probability: float) -> None:
    @scenario(name, f"{about} No link is filtered as a duplicate. Nothing is repeated.")
    def connections(arena: Arena) -> Outcome:
        pages = arena.choose(600, 10_000)
        arena.crawl("graph", "-a", "unfiltered=1", workers=arena.choose(2, 4), pages=pages, **LONG_LEASE)
        if fault == "cut":
            for _ in arena.moments(1.0, 0.05, 0.3):
                arena.proxy.cut()
        else:
            getattr(arena.proxy, fault)(probability)
            # To the last: also when it leaves a worker may not be heard.
            arena.settle()
        return Outcome(arena.proxy.faults)


_connections("cut", "All connections are cut at random moments.", "cut", 0)
_connections("swallow", "Every tenth reply of Redis is lost.", "swallow", 0.1)
_connections("break", "Every tenth request is lost, or breaks off in the middle.", "break_before", 0.1)


def _outages(arena: Arena, lengths: list[float], crash: bool, **settings: object) -> Outcome:
    workers, pages = arena.choose((2, 500), (4, 6000))
    arena.crawl("graph", "-a", "unfiltered=1", workers=workers, pages=pages, **settings)
    for number, seconds in enumerate(lengths):
        arena.reach(0.1 + 0.7 * number / len(lengths))
        with arena.lasting(seconds):
            if crash:
                assert arena.redis.process is not None
                arena.redis.process.kill()
            arena.redis.stop()
        arena.redis.start()
    return Outcome(len(lengths))


@scenario(
    "redis-restart",
    "Redis is restarted with its data, and is away for less than a lease. Nothing is repeated.",
)
def redis_restart(arena: Arena) -> Outcome:
    return _outages(arena, arena.choose([0.5], [1, 1, 3]), crash=False, **arena.without_deaths)


@scenario("redis-crash", "Redis is killed, and is away for longer than a lease. Nothing is repeated.")
def redis_crash(arena: Arena) -> Outcome:
    return _outages(arena, arena.choose([2.5], [10, 15]), crash=True)


@scenario(
    "redis-stall",
    "Redis accepts commands but does not answer for longer than a lease. The event loops keep running, and "
    "workers download the requests that they hold. Nothing is repeated.",
)
def redis_stall(arena: Arena) -> Outcome:
    # Exchanges are rare and pages slow, so that there is something at hand at any moment.
    rare = {"FRONTIER_FLUSH_INTERVAL": 1, "GRAPH_LATENCY": 0.2}
    timeouts = arena.choose({"REDIS_PARAMS": f'{{"socket_timeout": {arena.pace}.0}}'}, {})
    arena.crawl(pages=arena.choose(500, 6000), **rare, **timeouts)
    arena.reach(0.3)
    arena.proxy.stall()
    begun = time.time()
    with arena.lasting(arena.choose(3.0, 30.0)):
        arena.wait_for_log("does not answer in time")
    end = time.time()
    arena.proxy.go()
    downloads = [event for event in arena.fleet.events("downloaded") if begun < event.time < end]
    lags = [float(event.what) for event in arena.fleet.events("lag") if begun < event.time < end]
    if len(downloads) <= 20:
        raise OverdueError(f"only {len(downloads)} downloads were begun while Redis did not answer")
    # A single attempt takes a second or more before it is given up.
    if max(lags, default=0.0) > 0.9 * arena.pace:
        raise OverdueError(f"an event loop stood still for {max(lags)} s")
    return Outcome(1)


@scenario("script-flush", "SCRIPT FLUSH, repeatedly: Redis forgets the scripts. Nothing is repeated.")
def script_flush(arena: Arena) -> Outcome:
    arena.crawl("graph", "-a", "unfiltered=1", **LONG_LEASE)
    flushes = sum(arena.client.script_flush() for _ in arena.moments(1.0, 0.01, 0.1))
    return Outcome(int(flushes))


@scenario("client-kill", "CLIENT KILL TYPE normal, repeatedly. Nothing is repeated.")
def client_kill(arena: Arena) -> Outcome:
    arena.crawl("graph", "-a", "unfiltered=1", **LONG_LEASE)
    killed = 0
    for _ in arena.moments(1.0, 0.02, 0.1):
        killed += int(arena.client.client_kill_filter(_type="normal", skipme=True))
    return Outcome(killed)


@scenario(
    "clocks",
    "One worker's clock is an hour fast, another's an hour slow. A third worker is killed, which explains "
    f"{UNRELEASED} repeats.",
)
def clocks(arena: Arena) -> Outcome:
    arena.crawl(workers=0, **MANY)
    for offset in ("3600", "-3600"):
        arena.join(environment={"CLOCK_OFFSET": offset})
    (victim,) = arena.join()
    arena.all_opened()
    arena.reach(0.3)
    arena.fleet.kill(victim)
    return Outcome(3, UNRELEASED)
