"""Fleets that have promised a delay: what each host was asked, and when, whatever befalls them."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace
from itertools import pairwise

from tests.project.crawls.graph import RETRY_AFTER, links_of
from tests.project.crawls.hosts import DeadHostSpider, host_url
from tests.support.crawl import run_python

from .arena import UNRELEASED, Arena
from .deaths import MANY
from .referee import POLITE, Outcome
from .registry import scenario
from .server import LAG, fail_over

#: Hosts, and seconds between two requests to one of them.
HOSTS, DELAY = 6, 0.6
#: Where the limit is a concurrency: hosts, and downloads at a time from each.
MANY_HOSTS, AT_A_TIME = 40, 2
#: A host that refuses connections, and after how many seconds it is given up; and one that is denied.
DEAD, GIVE_UP, DENIED = "dead.test", 6, "host1.test"
#: Until which part of the site workers are killed, and the shortest and the longest time between two kills.
KILLS = 0.8, 0.5, 2.0


def _crawl(arena: Arena, workers: int, spider: str = "hosts", **settings: object) -> None:
    arena.crawl(
        spider,
        workers=workers,
        pages=arena.choose(90, 1200),
        urls=lambda number: host_url(number, HOSTS),
        SPIDER_MODULES="crawls.hosts",
        HOSTS=HOSTS,
        DOWNLOAD_DELAY=DELAY,
        RANDOMIZE_DOWNLOAD_DELAY=False,
        **{"GRAPH_LATENCY": 0.05, **MANY, **settings},
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
    kills = arena.kill_some(arena.choose(3, 30), 0.8, 0.2, 1.0)
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
    kills = arena.kill_some(arena.choose(4, 100), 0.9, 0.05, 0.5)
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
    kills = arena.kill_some(arena.choose(2, 8), *KILLS)
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


@scenario(
    "polite-files",
    "A pipeline downloads files of one host, which workers send without the scheduler, and each host is "
    "asked for its robots.txt. Workers are killed meanwhile. No request comes sooner, whoever sends it.",
)
def polite_files(arena: Arena) -> Outcome:
    pipelines = json.dumps({"scrapy.pipelines.files.FilesPipeline": 1})
    files = {"ITEM_PIPELINES": pipelines, "FILES_STORE": arena.folder / "files", "ROBOTSTXT_OBEY": True}
    # One worker cannot have the pages of all hosts, so that several have files.
    _crawl(arena, workers=4, spider="filehosts", CONCURRENT_REQUESTS=1, GRAPH_LATENCY=0.4, **files)
    kills = arena.kill_some(arena.choose(2, 20), *KILLS)
    arena.settle()
    wanted = {url for url in arena.pages if int(url.rpartition("/")[2]) % 8 == 0}
    downloaded = arena.fleet.urls("downloaded")
    missing = {url for url in wanted if f"http://files.test/file{url.rpartition('/')[2]}" not in downloaded}
    assert not missing, missing
    assert sum(url.endswith("/robots.txt") for url in downloaded) >= HOSTS
    return Outcome(kills, _repeats(arena, kills))


@scenario(
    "polite-dead",
    "One more host refuses connections, and workers are killed meanwhile. It is tried after growing pauses, "
    f"and given up after {GIVE_UP} s; each of its pages is then in the failed list.",
)
def polite_dead(arena: Arena) -> Outcome:
    _crawl(arena, workers=4, spider="deadhost", GRAPH_DEAD=DEAD, FRONTIER_SLOT_GIVE_UP=GIVE_UP)
    kills = arena.kill_some(arena.choose(2, 20), *KILLS)
    arena.settle()
    asked = sorted(event.time for event in arena.fleet.events("downloaded") if f"//{DEAD}/" in event.what)
    # The first three that fail say that it is dead. What was under way then is over soon.
    attempts = [time for time in asked if time > asked[2] + 1]
    least = min((after - before for before, after in pairwise(attempts)), default=1.0)
    assert least > POLITE, f"it was asked again after {least:.2f} s"
    entries = arena.client.lrange("deadhost:failed", 0, -1)
    failed = {json.loads(json.loads(entry)["data"])["url"] for entry in entries}
    gone = {*failed, *arena.fleet.urls("gave up")}
    assert gone == {f"http://{DEAD}/dead{number}" for number in range(DeadHostSpider.DEAD)}, gone
    return Outcome(1 + kills, _repeats(arena, kills))


@scenario(
    "polite-deny",
    "An operator denies a host in the middle of the crawl, and workers are killed after that. From two "
    "seconds later on, no worker asks it.",
)
def polite_deny(arena: Arena) -> Outcome:
    _crawl(arena, workers=4)
    arena.reach(0.3)
    done = run_python(
        *("-m", "scrapy", "frontier", "deny", "hosts", DENIED, "-s", "SPIDER_MODULES=crawls.hosts"),
        redis_url=arena.proxy.url,
    )
    assert done.returncode == 0, done.stderr
    denied = time.time()
    kills = arena.kill_some(arena.choose(1, 10), *KILLS)
    arena.settle()
    asked = [event for event in arena.fleet.events("downloaded") if f"//{DENIED}/" in event.what]
    late = [f"{event.what} after {event.time - denied:.1f} s" for event in asked if event.time > denied + 2]
    assert not late, late
    parsed = set(arena.fleet.urls("parsed"))
    absent = arena.pages - parsed
    # Only denied pages have links to the others of these.
    found = {
        host_url(number, HOSTS)
        for url in parsed
        for number in links_of(int(url.rpartition("/")[2]), len(arena.pages))
    }
    assert {url.split("/")[2] for url in absent & found} == {DENIED}
    return Outcome(1 + kills, _repeats(arena, kills), absent=absent)


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
