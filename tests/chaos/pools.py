"""Pools: an account of a site has one user at a time, whatever happens to the workers that use it."""

from __future__ import annotations

import json
import re
from collections import Counter

from tests.support.members import accounts, members_site

from .arena import Arena
from .counting_site import REAL_DOWNLOADS
from .deaths import MANY
from .referee import Outcome
from .registry import scenario

ACCOUNTS = 5
#: Seconds from an answer to the next request of its account, and by how much the site's clock may differ.
DELAY, ROUNDING = 0.2, 0.01
#: How many leases a worker has ready for an account of its own with this delay.
READY = 12


def _crawl(arena: Arena, pages: int, workers: int, is_for_life: bool = False) -> None:
    """Start the crawl of a site that refuses an account's request if it comes too soon."""
    url = arena.enter(members_site(arena.fleet.record, DELAY - ROUNDING, pages))
    user = "worker" if is_for_life else "request"
    pool = {"items": accounts(ACCOUNTS), "delay": DELAY, "for": user}
    arena.environment = {"SITE_URL": url, "REAL_DOWNLOADS": "1"}
    arena.crawl(
        "members",
        workers=workers,
        pages=pages,
        urls=lambda number: f"{url}/p/{number}",
        SPIDER_MODULES="crawls.members",
        FRONTIER_POOLS=json.dumps({"accounts": pool}),
        FOR_LIFE=is_for_life,
        **REAL_DOWNLOADS,
        **MANY,
    )


def _check(arena: Arena, kills: int) -> None:
    """Check that the site had nothing to complain of, and that Redis has counted each use of an account."""
    for complaint in ("refused", "double"):
        found = [event.what for event in arena.fleet.events(complaint)]
        assert not found, f"{len(found)} requests were {complaint}: {found[:3]}"
    logins = Counter(event.what for event in arena.fleet.events("login"))
    assert logins.total() <= ACCOUNTS + kills, f"{kills} kills, and these logins: {logins}"
    uses = arena.client.zrange("members:pools:uses", 0, -1)
    assert not uses, f"accounts are in use after the crawl: {uses[:3]}"


@scenario(
    "pools-kill",
    "A site allows each account one request at a time and a gap between two, and wants a login. Workers are "
    "killed at random moments, each after its successor was started. No request is refused, no account is "
    "used twice at once, and an account logs in again only if a kill explains it. Each explains a repeat for "
    "each account.",
)
def pools_kill(arena: Arena) -> Outcome:
    _crawl(arena, arena.choose(150, 1500), workers=3)
    # All accounts have logged in then: a kill can lose more than one login before.
    arena.reach(0.1)
    kills = arena.kill_some(arena.choose(4, 20), 0.9, *arena.choose((0.05, 0.5), (1.0, 5.0)))
    arena.settle()
    _check(arena, kills)
    keys = arena.client.scan_iter("members:pools:item:*")
    used = sum(int(arena.client.hget(key, "used") or 0) for key in keys)
    downloads = len(arena.fleet.events("downloaded"))
    assert used >= downloads, f"accounts were given {used} times, for {downloads} pages"
    return Outcome(kills, kills * ACCOUNTS)


@scenario(
    "pools-life",
    f"Each worker has one of {ACCOUNTS} accounts for its life, and one worker more waits. Workers with an "
    "account are killed at random moments, each after its successor was started. Its account goes to another "
    "worker when the lease of the killed one is over, and never before. Each explains "
    f"{READY} repeats.",
)
def pools_life(arena: Arena) -> Outcome:
    _crawl(arena, arena.choose(200, 1500), ACCOUNTS + 1, is_for_life=True)
    arena.reach(0.1)
    kills: list[tuple[str, int, float]] = []
    for _ in arena.moments(0.8, *arena.choose((0.2, 1.0), (1.0, 5.0))):
        owners = {number: account for number, account in _owners(arena).items() if number in arena.busy()}
        if len(kills) < arena.choose(3, 20) and len(owners) > 1 and arena.may_join():
            arena.join()
            victim = arena.random.choice(sorted(owners))
            arena.fleet.kill(victim)
            arena.fleet.workers[victim].wait()
            kills.append((owners[victim], arena.fleet.workers[victim].pid, _deadline(arena, victim)))
    arena.settle()
    _check(arena, len(kills))
    uses = [(event.time, *event.what.split()[:2]) for event in arena.fleet.events("used")]
    for account, pid, deadline in kills:
        last = max((time for time, its, by in uses if (its, by) == (account, str(pid))), default=0.0)
        later = [time for time, its, by in uses if its == account and by != str(pid) and time > last]
        early = deadline - min(later, default=deadline)
        assert early <= 0, f"{account} was used {early:.3f} s before the lease of worker {pid} was over"
    return Outcome(len(kills), len(kills) * READY)


def _owners(arena: Arena) -> dict[int, str]:
    """Return the accounts that workers have for their life, by the number of the worker."""
    numbers = {worker.pid: number for number, worker in enumerate(arena.fleet.workers)}
    found = {}
    for use in arena.client.zrange("members:pools:uses", 0, -1):
        _, account, user = use.decode().split(" ")
        found[numbers[_pid(user)]] = account
    return found


def _deadline(arena: Arena, victim: int) -> float:
    """Return when the lease of a worker is over, in seconds since 1970."""
    workers = arena.client.zrange("members:workers", 0, -1, withscores=True)
    deadlines = {_pid(name.decode()): score / 1000 for name, score in workers}
    return deadlines[arena.fleet.workers[victim].pid]


def _pid(worker: str) -> int:
    match = re.search(r"-(\d+)-\w+/?$", worker)
    assert match, worker
    return int(match[1])
