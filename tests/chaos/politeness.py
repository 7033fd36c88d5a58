"""Fleets that have promised a delay: what each host was asked, and when, whatever befalls them."""

from __future__ import annotations

import signal
import time
from dataclasses import replace

from tests.project.crawls.graph import RETRY_AFTER
from tests.project.crawls.hosts import host_url

from .arena import UNRELEASED, Arena
from .deaths import MANY
from .referee import POLITE, Outcome
from .registry import scenario
from .server import LAG, fail_over

#: Hosts, and seconds between two requests to one of them.
HOSTS, DELAY = 6, 0.6
#: Where the limit is a concurrency: hosts, and downloads at a time from each.
MANY_HOSTS, AT_A_TIME = 40, 2


def _crawl(arena: Arena, workers: int, spider: str = "hosts", **settings: object) -> None:
    arena.crawl(
        spider,
        workers=workers,
        pages=arena.choose(90, 1200),
        urls=lambda number: host_url(number, HOSTS),
        SPIDER_MODULES="crawls.hosts",
        HOSTS=HOSTS,
        GRAPH_LATENCY=0.05,
        DOWNLOAD_DELAY=DELAY,
        RANDOMIZE_DOWNLOAD_DELAY=False,
        **MANY,
        **settings,
    )


def _rate(arena: Arena) -> float:
    # The short form is played on machines that may be held up for as long as it takes.
    return arena.choose(0.0, 0.95)


def _repeats(arena: Arena, faults: int) -> int:
    # What a worker has begun and not released is what its hosts gave it within a lease.
    return faults * HOSTS * (2 + int(arena.lease / arena.delay))


@scenario("polite-fleet", f"Eight workers crawl hosts with a delay of {DELAY:g} s. No request comes sooner.")
def polite_fleet(arena: Arena) -> Outcome:
    # Nobody is to count as dead, however slow the machine is.
    _crawl(arena, workers=8, FRONTIER_LEASE_TIMEOUT=30)
    return Outcome(1, rate=_rate(arena))


@scenario("polite-join", "Workers join one after the other, one each second.")
def polite_join(arena: Arena) -> Outcome:
    _crawl(arena, workers=1)
    joined = 0
    for _ in arena.moments(0.7, 1.0, 1.0):
        if joined < 7:
            arena.join()
            joined += 1
    return Outcome(joined, rate=_rate(arena))


@scenario("polite-slow", "Every callback takes longer than the delay of its host.")
def polite_slow(arena: Arena) -> Outcome:
    # Nobody is to count as dead: several callbacks in a row take longer than a short lease.
    _crawl(arena, workers=4, spider="slowhosts", FRONTIER_LEASE_TIMEOUT=30)
    # Its processes are held up all the time, and have to keep the delay nevertheless.
    return Outcome(1, excuses=False)


@scenario("polite-stall", "Callbacks hold up each worker now and then. What follows a late request waits.")
def polite_stall(arena: Arena) -> Outcome:
    _crawl(arena, workers=2, spider="stallinghosts", FRONTIER_LEASE_TIMEOUT=30)
    return Outcome(1, excuses=False)


@scenario("polite-redirect", "Each page is found by a redirect from another host. No request comes sooner.")
def polite_redirect(arena: Arena) -> Outcome:
    # Nobody is to count as dead, however slow the machine is.
    _crawl(arena, workers=4, spider="movedhosts", FRONTIER_LEASE_TIMEOUT=30)
    return Outcome(1)


@scenario("polite-kill", "Workers are killed at random moments, each after its successor was started.")
def polite_kill(arena: Arena) -> Outcome:
    _crawl(arena, workers=4)
    kills, wanted = 0, arena.choose(3, 30)
    for _ in arena.moments(0.8, 0.2, 1.0):
        if len(arena.busy()) > 1 and arena.may_join() and kills < wanted:
            arena.join()
            arena.fleet.kill(arena.random.choice(arena.busy()))
            kills += 1
    return Outcome(kills, _repeats(arena, kills))


@scenario(
    "kill-broad",
    f"Workers that together keep a concurrency of {AT_A_TIME}, on {MANY_HOSTS} hosts, are killed at random "
    f"moments. No slot keeps a download of a dead worker. Each explains {UNRELEASED} repeats.",
    again=True,
)
def kill_broad(arena: Arena) -> Outcome:
    arena.crawl(
        "hosts",
        workers=3,
        pages=arena.choose(500, 20_000),
        urls=lambda number: host_url(number, MANY_HOSTS),
        SPIDER_MODULES="crawls.hosts",
        HOSTS=MANY_HOSTS,
        GRAPH_LATENCY=0.1,
        FRONTIER_FLEET_LIMITS="delay,concurrency",
        CONCURRENT_REQUESTS_PER_DOMAIN=AT_A_TIME,
        **MANY,
    )
    kills, wanted = 0, arena.choose(4, 100)
    for _ in arena.moments(0.9, 0.05, 0.5):
        if len(arena.busy()) > 1 and arena.may_join() and kills < wanted:
            arena.join()
            arena.fleet.kill(arena.random.choice(arena.busy()))
            kills += 1
    arena.settle()
    left = {key: arena.client.hgetall(key) for key in arena.client.scan_iter("hosts:slots:state:*")}
    assert all(arena.client.ttl(key) > 0 for key in left)
    active = {key: fields for key, fields in left.items() if any(name.startswith(b"a:") for name in fields)}
    assert not active, active
    return Outcome(kills, kills * UNRELEASED)


@scenario(
    "polite-refused",
    f"Each 40th page is answered with 429 and `Retry-After: {RETRY_AFTER}` at first, and workers are killed "
    "meanwhile. Nobody asks the host before that time. Each refusal explains a repeat.",
)
def polite_refused(arena: Arena) -> Outcome:
    folder = arena.folder / "refusals"
    folder.mkdir()
    _crawl(arena, workers=4, GRAPH_REFUSALS=folder)
    kills, wanted = 0, arena.choose(2, 8)
    for _ in arena.moments(0.8, 0.5, 3.0):
        if kills < wanted and arena.may_join():
            arena.join()
            arena.fleet.kill(arena.random.choice(arena.busy()))
            kills += 1
    arena.settle()
    refused, asked = arena.fleet.events("refused"), arena.fleet.events("downloaded")
    too_soon = [
        f"{later.what} {later.time - one.time:.2f} s after {one.what}"
        for one in refused
        for later in asked
        if later.what.split("/")[2] == one.what.split("/")[2]
        and 0 < later.time - one.time < POLITE * RETRY_AFTER
    ]
    assert refused
    assert not too_soon, too_soon
    return Outcome(kills + len(refused), _repeats(arena, kills) + len(refused))


@scenario("polite-stop", "A worker is stopped for longer than its lease and continued, repeatedly.")
def polite_stop(arena: Arena) -> Outcome:
    _crawl(arena, workers=4)
    stops = arena.choose(2, 8)
    for number in range(stops):
        arena.reach(0.1 + 0.08 * number)
        arena.fleet.kill(number % 4, signal.SIGSTOP)
        try:
            time.sleep(1.5 * arena.lease)
        finally:
            arena.fleet.kill(number % 4, signal.SIGCONT)
    return Outcome(stops, _repeats(arena, stops))


@scenario("polite-outage", "Redis cannot be reached for a while, repeatedly.")
def polite_outage(arena: Arena) -> Outcome:
    _crawl(arena, workers=4)
    outages = arena.choose(2, 4)
    for number in range(outages):
        arena.reach(0.15 + 0.15 * number)
        with arena.lasting(arena.choose(1.5, 30.0)):
            arena.redis.stop()
        arena.redis.start()
    return Outcome(outages, _repeats(arena, outages * 4))


@scenario("polite-failover", f"Redis is killed, and its replica, {LAG:g} s behind, takes its place.")
def polite_failover(arena: Arena) -> Outcome:
    outcome = fail_over(arena, LAG, lambda: _crawl(arena, workers=4))
    return replace(outcome, explained=outcome.explained + _repeats(arena, outcome.faults))


@scenario("polite-clocks", "Workers' clocks are an hour fast and an hour slow.")
def polite_clocks(arena: Arena) -> Outcome:
    _crawl(arena, workers=0)
    for offset in ("3600", "-3600", "7", "0"):
        arena.join(environment={"CLOCK_OFFSET": offset})
    arena.all_opened()
    return Outcome(3, rate=_rate(arena))


@scenario(
    "polite-older",
    "Redis comes back with data that is some seconds old, as after a failover. It knows two workers that "
    "have been killed since, and not the two in their place.",
)
def polite_older(arena: Arena) -> Outcome:
    _crawl(arena, workers=4)
    arena.reach(0.2)
    dumps = {key: arena.client.dump(key) for key in arena.client.scan_iter()}
    latest = dict.fromkeys(event.pid for event in reversed(arena.fleet.events("downloaded")))
    for pid in list(latest)[:2]:
        arena.fleet.kill(next(n for n, worker in enumerate(arena.fleet.workers) if worker.pid == pid))
    arena.reach(0.4)
    # They ask for turns at once.
    arena.join(2)
    arena.all_opened()
    with arena.client.pipeline(transaction=True) as pipe:
        pipe.flushall()
        for key, value in dumps.items():
            if value is not None:
                pipe.restore(key, 0, value)
        pipe.execute()
    return Outcome(3, explained=90 + arena.choose(0, 1200) + _repeats(arena, 2))
