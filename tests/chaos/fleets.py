"""Fleets that change while they crawl."""

from __future__ import annotations

import signal
import time

from tests.project.crawls.graph import page_url

from .arena import UNRELEASED, Arena, unreleased
from .deaths import MANY
from .referee import Outcome
from .registry import scenario


@scenario(
    "deploy",
    "Workers with new code join workers with old code, which lack the new callbacks and are then stopped "
    "(SIGINT). The failed list stays empty. Nothing is repeated.",
)
def deploy(arena: Arena) -> Outcome:
    old, new = {"SPIDER_MODULES": "crawls.deploy_old"}, {"SPIDER_MODULES": "crawls.deploy_new"}
    count = arena.choose(2, 3)
    # The new code's spider is another class, which is meant to share the frontier.
    arena.crawl(
        "deploy",
        workers=0,
        pages=arena.choose(500, 3000),
        GRAPH_LATENCY=0.2,
        FRONTIER_PROJECT="deploy",
        **arena.without_deaths,
    )
    # Slowly: only the first tenth of the pages has links, and the new code has to meet some of them.
    outgoing = arena.join(count, CONCURRENT_REQUESTS=1, GRAPH_LATENCY=0.5, **old)
    arena.all_opened()
    arena.reach(2 / len(arena.pages))
    # Not so fast that they are through before an old one was given a request that it cannot crawl.
    arena.join(count, GRAPH_LATENCY=0.6, **new)
    arena.all_opened()
    arena.wait_for_log("This worker leaves a request to another worker", outgoing[:1])
    for worker in outgoing:
        arena.fleet.kill(worker, signal.SIGINT)
    arena.settle()
    assert not arena.client.llen("deploy:failed"), arena.client.lrange("deploy:failed", 0, 2)
    return Outcome(count)


@scenario(
    "churn",
    "Workers with a slow start() join, are stopped (SIGINT) and are killed at random moments. Each killed "
    f"worker explains {UNRELEASED} repeats.",
)
def churn(arena: Arena) -> Outcome:
    pages = arena.choose(600, 10_000)
    slow = {"START_PAUSE": arena.choose(0.5, 3), "GRAPH_LATENCY": 0.15}
    arena.crawl("churn", workers=3, pages=pages, **slow, **MANY)
    arena.pages.add(page_url(900_001))
    most, changes, kills = arena.choose(5, 60), 0, 0
    stopping: set[int] = set()
    for _ in arena.moments(0.9, 0.1, 0.6):
        staying = sorted(set(arena.busy()) - stopping)
        # Two go on whatever happens: who is started after the finish begins a new crawl.
        if len(staying) > 2 and arena.may_join():
            arena.join()
            victim, sent = arena.random.choice(staying), arena.random.choice([signal.SIGKILL, signal.SIGINT])
            arena.fleet.kill(victim, sent)
            stopping.add(victim)
            kills += sent == signal.SIGKILL
            changes += 1
        if changes == most:
            break
    return Outcome(changes, kills * UNRELEASED)


#: How many workers may be at it in `max-workers`, how many are there, and of how many requests at a time.
PLACES, STARTED, AT_A_TIME = 2, 5, 4
#: How many workers are alive, in one moment of the server's clock.
ALIVE = """
    local time = redis.call('TIME')
    return redis.call('ZCOUNT', KEYS[1], '(' .. time[1] * 1000 + math.floor(time[2] / 1000), '+inf')
"""


@scenario(
    "max-workers",
    f"{STARTED} workers are started at once with FRONTIER_MAX_WORKERS = {PLACES}. Repeatedly a worker, "
    "crawling or in line, is killed or stopped (SIGINT), and another one is started. By the server's clock "
    "there are never too many, and the line moves. Each worker killed while crawling explains "
    f"{unreleased(AT_A_TIME)} repeats.",
)
def max_workers(arena: Arena) -> Outcome:
    arena.crawl(
        workers=0,
        pages=arena.choose(300, 6000),
        GRAPH_LATENCY=0.3,
        CONCURRENT_REQUESTS=AT_A_TIME,
        FRONTIER_MAX_WORKERS=PLACES,
        FRONTIER_LEASE_TIMEOUT=2,
        **MANY,
    )
    arena.join(STARTED)
    count = arena.client.register_script(ALIVE)
    most = kills = rounds = 0

    def alive() -> int:
        nonlocal most
        now = int(count(keys=["graph:workers"]))
        most = max(most, now)
        return now

    while rounds < arena.choose(5, 100) and arena.share < 0.9:
        rounds += 1
        arena.wait(lambda: alive() == PLACES and len(arena.busy()) == PLACES, "the line does not move")
        at_work, opened = arena.busy(), len(arena.opened())
        in_line = sorted(set(arena.alive()) - set(arena.opened()))
        arena.join()
        victim = arena.random.choice(at_work if rounds % 2 else in_line or at_work)
        sent = arena.random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT])
        arena.fleet.kill(victim, sent)
        if rounds % 2:
            kills += sent == signal.SIGKILL
            arena.wait(lambda: alive() and len(arena.opened()) > opened, "nobody has taken the place")  # noqa: B023
    while arena.share < 1 and alive() and arena.alive():
        time.sleep(0.01)
    arena.settle()
    assert most == PLACES, f"{most} workers at a time"
    return Outcome(rounds, kills * unreleased(AT_A_TIME))


@scenario(
    "slow-start",
    "One worker reads its start() slowly, while the others have finished everything else. No worker closes "
    "before the last start request is crawled. Nothing is repeated.",
)
def slow_start(arena: Arena) -> Outcome:
    arena.crawl("churn", workers=0, pages=20, GRAPH_LATENCY=0.02, **arena.without_deaths)
    arena.pages.add(page_url(900_001))
    arena.join(1, START_PAUSE=arena.choose(4, 30))
    # One that is not there yet when the others finish is late, and nobody waits for it.
    arena.wait(arena.opened, "the slow one did not open")
    arena.join(arena.choose(2, 6))
    arena.all_opened()
    arena.wait(lambda: arena.share >= 20 / 21, "not all but one of the pages")
    if arena.long:
        # The one that is slow dies with it unsaid, and another has to say it.
        arena.fleet.kill(0)
        arena.join(1, START_PAUSE=5)
        arena.all_opened()
    return Outcome(1)


@scenario(
    "all-at-once",
    "Many workers are started at the same moment, and one of them finishes the crawl before the others are "
    "ready. Nothing is repeated.",
)
def all_at_once(arena: Arena) -> Outcome:
    count = arena.choose(5, 16)
    arena.crawl(workers=0, pages=20, GRAPH_LATENCY=0, **arena.without_deaths)
    # The first is there at once; the others take as long as on a busy machine, and come when it has left.
    arena.join(1)
    arena.join(count - 1, environment={"START_DELAY": "3"})
    arena.wait(lambda: len(arena.opened()) == count, "not every worker opened", 120)
    return Outcome(count)
