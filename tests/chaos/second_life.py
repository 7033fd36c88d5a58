"""Fleets whose workers die at the end, hang, are replaced, or are late."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from scrapy import Request
from scrapy.utils.request import fingerprint

from scrapy_rq_sched.events.stream import Stream
from tests.project.crawls.graph import page_url
from tests.project.crawls.second_life import LEAVES
from tests.support.crawl import is_alive

from .arena import PATIENCE, Arena, unreleased
from .deaths import DIED, LOST, MANY
from .machines import copy_project, type_command
from .referee import Outcome
from .registry import scenario

#: How long a worker may take to close depends on it, in seconds. The site without a network ignores it.
SHORT_DEADLINE = {"DOWNLOAD_TIMEOUT": 2}
MODULE = {"SPIDER_MODULES": "crawls.second_life"}
#: Few requests at a time, so that a whole crawl that is repeated is more than the deaths explain.
CONCURRENCY = 2
EXPLAINED = unreleased(CONCURRENCY)
#: Of a line about a worker that hung.
KILLED = "without a heartbeat"
#: Pages of a crawl in `kill-last`.
EACH = 31
#: Seconds within which the processes of two commands have started, also on a slow machine.
STARTS = 100.0


def _leaf(number: int) -> str:
    return page_url(LEAVES + number)


def _opened(arena: Arena, after: int = 0) -> list[int]:
    """Return the processes of the workers that have joined and live, but for the first *after* ones."""
    joined = dict.fromkeys(event.pid for event in arena.fleet.events("opened")[after:])
    return [pid for pid in joined if is_alive(pid)]


def _starts(arena: Arena, spider: str) -> int:
    """Return how many crawls of *spider* the events tell of."""
    told = Stream(f"{spider}:events", spider).all_after(arena.client, "0-0")
    return sum(event.type == "crawl_started" for event in told)


@scenario(
    "kill-last",
    "Two `scrapy frontier crawl` commands with one Redis crawl together. Repeatedly, in the last second of a "
    "crawl, one of the workers is killed, so that its successor is started after the finish. Each crawl "
    f"begins once, and both commands end with 0. A killed worker explains {EXPLAINED} repeats.",
    again=True,
)
def kill_last(arena: Arena) -> Outcome:
    rounds, workers = arena.choose(1, 50), arena.choose(1, 2)
    gate = arena.folder / "gate"
    arena.crawl(
        "ending",
        workers=0,
        pages=rounds * EACH,
        urls=_leaf,
        CONCURRENT_REQUESTS=CONCURRENCY,
        EACH=EACH,
        GATE=gate,
        LAST=1.0,
        **MODULE,
        **MANY,
    )
    projects = [copy_project(arena, name) for name in ("machine-1", "machine-2")]
    kills = 0
    for number in range(rounds):
        begun = time.time()
        kills += _kill_in_last_second(arena, number, workers, projects, gate)
    starts = _starts(arena, "ending")
    assert starts == rounds, f"{rounds} crawls were started {starts} times"
    arena.settings.update(GATE="", LAST=0)
    return Outcome(kills, kills * EXPLAINED, begun=begun)


def _kill_in_last_second(arena: Arena, number: int, workers: int, projects: list[Path], gate: Path) -> bool:
    """Crawl once, and return whether a worker was killed: a slow machine may be too late for that."""
    pages = {_leaf(n) for n in range(number * EACH, (number + 1) * EACH)}
    last = _leaf((number + 1) * EACH - 1)
    opened = len(arena.fleet.events("opened"))
    # One that closes slowly leaves the other's successors time to join.
    pauses = [0, arena.random.choice(arena.choose([0], [0, 3]))]
    arena.random.shuffle(pauses)
    commands = [
        type_command(
            arena,
            project,
            "frontier",
            "crawl",
            "ending",
            "-w",
            str(workers),
            "-a",
            f"part={number}",
            CLOSE_PAUSE=pause,
        )
        for project, pause in zip(projects, pauses, strict=True)
    ]
    arena.wait(lambda: len(_opened(arena, opened)) == 2 * workers, "not every worker opened", STARTS)
    arena.wait(lambda: pages - {last} <= arena.fleet.urls("parsed").keys(), "not all pages but the last")
    Path(f"{gate}{number}").touch()
    arena.wait(lambda: last in arena.fleet.urls("downloaded"), "the last page is not begun")
    busy = [event.pid for event in arena.fleet.events("downloaded") if event.what == last]
    # At first one that has nothing to do: nothing holds up the end then.
    with arena.lasting(arena.random.uniform(0, 0.8)):
        pass
    victims = [pid for pid in _opened(arena, opened) if number % 3 == 2 or pid not in busy]
    if victims:
        os.kill(arena.random.choice(victims), signal.SIGKILL)
    arena.fleet.wait(60, commands)
    codes = [arena.fleet.workers[command].poll() for command in commands]
    assert codes == [0, 0], f"the commands ended with {codes}"
    downloads = arena.fleet.urls("downloaded")
    repeated = sum(downloads[page] - 1 for page in pages & downloads.keys())
    assert repeated <= EXPLAINED, f"crawl {number}: {repeated} of {EACH} downloads are repeated"
    return bool(victims)


@scenario(
    "hang",
    "`scrapy frontier crawl`: the callback of one page never returns, whichever worker calls it; before "
    "that, Redis is away for four leases. No worker is killed while Redis is away. The crawl ends with 0, "
    "and the page is set aside after FRONTIER_MAX_DELIVERIES deaths. Each death, and each of the 2 workers "
    f"when Redis is away, explains {EXPLAINED} repeats.",
    again=True,
)
def hang(arena: Arena) -> Outcome:
    # After fewer deaths a page that was begun beside it may be set aside with it.
    pages, deaths = arena.choose(60, 600), arena.choose(3, 4)
    # Of the last tenth: it is found after the outage, and leads to nothing that no other page leads to.
    hanging = pages * 95 // 100
    arena.crawl(
        "hanging",
        workers=0,
        pages=pages,
        FRONTIER_LEASE_TIMEOUT=arena.choose(1, 3),
        FRONTIER_MAX_DELIVERIES=deaths,
        CONCURRENT_REQUESTS=CONCURRENCY,
        GRAPH_LATENCY=0.05,
        HANG=hanging,
        **MODULE,
    )
    project = copy_project(arena, "project")
    command = type_command(arena, project, "frontier", "crawl", "hanging", "-w", "2")
    arena.reach(0.1)
    arena.proxy.stall()
    with arena.lasting(4 * arena.lease):
        pass
    assert KILLED not in arena.fleet.log(), "a worker was killed while Redis was away"
    arena.proxy.go()
    arena.wait(lambda: arena.fleet.events("hanging"), "the page was not crawled")
    # For each death: the silence, the pause before the restart, which doubles, and the restart.
    patience = deaths * (10 * arena.lease + 5) + 2**deaths + 20
    try:
        arena.wait(lambda: command not in arena.alive(), "the command does not end", patience)
        assert not _opened(arena), "a worker outlives the command"
    finally:
        # One that hangs would never notice that its supervisor is gone.
        for pid in _opened(arena):
            os.kill(pid, signal.SIGKILL)
    failed = [json.loads(entry) for entry in arena.client.lrange("hanging:failed", 0, -1)]
    assert [json.loads(entry["data"])["url"] for entry in failed] == [page_url(hanging)], failed
    hangs = len(arena.fleet.events("hanging"))
    assert arena.fleet.log().count(KILLED) == hangs, "a worker was killed that did not hang"
    arena.settings["HANG"] = 0
    return Outcome(deaths + 1, (deaths + 2) * EXPLAINED, absent={page_url(hanging)})


@scenario(
    "hang-start",
    "`scrapy frontier crawl`: one worker hangs in its constructor and never joins. The others finish the "
    "crawl, and the command ends with 0. Nothing is repeated.",
    again=True,
)
def hang_start(arena: Arena) -> Outcome:
    arena.crawl(
        "hangingstart",
        workers=0,
        pages=arena.choose(60, 600),
        HANG=arena.folder / "hang",
        **MODULE,
        **MANY,
        **SHORT_DEADLINE,
    )
    project = copy_project(arena, "project")
    command = type_command(arena, project, "frontier", "crawl", "hangingstart", "-w", "2")
    arena.wait(lambda: arena.fleet.events("hanging"), "no worker hangs")
    (hanging,) = {event.pid for event in arena.fleet.events("hanging")}
    try:
        arena.wait(lambda: command not in arena.alive(), "the command does not end", PATIENCE)
        assert not is_alive(hanging), "the worker that hangs outlives the command"
    finally:
        if is_alive(hanging):
            os.kill(hanging, signal.SIGKILL)
    return Outcome(1)


@scenario(
    "flush-replaced",
    "`scrapy frontier crawl` with SCHEDULER_FLUSH_ON_START: its only worker is killed, and restarted later "
    "than its lease, and its successors close for their memory and are replaced. The start of the crawl "
    f"flushes an old filter; nothing is flushed later. Each worker that ends explains {EXPLAINED} repeats.",
    again=True,
)
def flush_replaced(arena: Arena) -> Outcome:
    pages, kills = arena.choose(60, 400), arena.choose(1, 3)
    arena.crawl(
        "replaced",
        workers=0,
        pages=pages,
        GRAPH_LATENCY=0.05,
        FRONTIER_LEASE_TIMEOUT=1,
        SCHEDULER_FLUSH_ON_START=True,
        CONCURRENT_REQUESTS=CONCURRENCY,
        REPLACE_AFTER=arena.choose(40, 100),
        **MODULE,
        **MANY,
    )
    old = page_url(pages - 1)
    arena.client.sadd("replaced:dupefilter", fingerprint(Request(old)).hex())
    project = copy_project(arena, "project")
    command = type_command(arena, project, "frontier", "crawl", "replaced", "-w", "1")
    for number in range(kills):
        arena.reach(0.15 + 0.2 * number)
        arena.wait(lambda: _opened(arena), "no worker runs")
        os.kill(_opened(arena)[-1], signal.SIGKILL)
    arena.wait(lambda: command not in arena.alive(), "the command does not end", 100)
    processes = len({event.pid for event in arena.fleet.events("opened")})
    assert processes > kills + 1, "no worker was replaced for its memory"
    starts = _starts(arena, "replaced")
    assert starts == 1, f"the crawl was started {starts} times"
    arena.settings["REPLACE_AFTER"] = 0
    return Outcome(processes - 1, (processes - 1) * EXPLAINED)


@scenario(
    "late-survivor",
    "Every callback of one worker blocks for longer than a lease. The others are killed, and this worker, "
    "alone and always late, takes over their requests within a few callbacks. Each killed worker explains "
    f"{unreleased(1)} repeats.",
    again=True,
)
def late_survivor(arena: Arena) -> Outcome:
    lease, deaths = arena.choose(0.5, 2.0), arena.choose(1, 3)
    arena.crawl(
        "blocking",
        workers=0,
        pages=arena.choose(14, 40),
        urls=_leaf,
        FRONTIER_LEASE_TIMEOUT=lease,
        CONCURRENT_REQUESTS=1,
        **MODULE,
        **MANY,
    )
    # They hold what they are given.
    victims = arena.join(deaths, GRAPH_LATENCY=600)
    arena.all_opened()
    arena.wait(lambda: len(arena.fleet.events("downloaded")) == deaths, "the victims do not begin")
    (survivor,) = arena.join(1, BLOCK=1.5 * lease, GRAPH_LATENCY=0)
    arena.all_opened()
    arena.wait(lambda: len(arena.fleet.events("parsed")) >= 2, "the survivor does not crawl")
    for victim in victims:
        arena.fleet.kill(victim)
    done = len(arena.fleet.events("parsed"))
    arena.wait(
        lambda: DIED in arena.fleet.log(survivor) or survivor not in arena.alive(),
        "the survivor takes over nothing",
    )
    needed = len(arena.fleet.events("parsed")) - done
    assert needed <= MOST_CALLBACKS, f"the survivor took over after {needed} callbacks"
    # As long as there are others, the survivor counts as dead now and then; and so may a victim on a starved
    # machine.
    died = max(deaths, arena.logged(DIED, [survivor])) + arena.logged(LOST, [survivor])
    return Outcome(deaths, died * unreleased(1))


#: Callbacks, each longer than a lease, after which a dead worker's lease must be over.
MOST_CALLBACKS = 5
