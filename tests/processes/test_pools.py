"""Pools: an account or a proxy has one user at a time in the whole fleet, whatever becomes of its users."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
import redis

from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.frontier.scripts import register
from scrapy_rq_sched.keys import Keys

from ..support.crawl import Fleet, wait_until
from ..support.forward_proxies import ForwardProxies, forward_proxies
from ..support.members import accounts, members_site

#: Seconds from an answer to the next request of its account; the site's clock may differ a little.
DELAY, ROUNDING = 0.1, 0.01
ACCOUNTS = 3
MODULE = {"SPIDER_MODULES": "crawls.members", "FRONTIER_LEASE_TIMEOUT": 1, "DOWNLOAD_HANDLERS": "{}"}


@contextmanager
def members(fleet: Fleet, pages: int, **settings: Any) -> Iterator[tuple[Callable[[int], None], set[str]]]:
    """Serve a site for members; give what starts workers, and the addresses of its pages."""
    with members_site(fleet.record, DELAY - ROUNDING, pages) as url:

        def start(workers: int) -> None:
            pool = {"items": accounts(ACCOUNTS), "delay": DELAY}
            pool["for"] = "worker" if settings.get("FOR_LIFE") else "request"
            pools = {"FRONTIER_POOLS": json.dumps({"accounts": pool})}
            environment = {"SITE_URL": url, "REAL_DOWNLOADS": "1"}
            fleet.start("members", workers, environment=environment, **MODULE, **pools, **settings)

        yield start, {f"{url}/p/{number}" for number in range(pages)}


def uses(fleet: Fleet) -> list[tuple[float, str, int]]:
    """Return when each account was used, and by the worker with which process."""
    found = []
    for event in fleet.events("used"):
        account, pid, _ = event.what.split()
        found.append((event.time, account, int(pid)))
    return found


def each_is_used(fleet: Fleet, times: int) -> bool:
    counts = Counter(account for _, account, _ in uses(fleet))
    return len(counts) == ACCOUNTS and min(counts.values()) >= times


def check_the_site(fleet: Fleet, pages: set[str]) -> None:
    """Check that all pages were crawled, and that the site had nothing to complain of."""
    assert pages <= fleet.urls("parsed").keys()
    assert fleet.events("refused") == fleet.events("double") == []
    assert Counter(event.what for event in fleet.events("login")) == Counter(
        account["name"] for account in accounts(ACCOUNTS)
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"FRONTIER_BY_SLOT": False},
        {"FRONTIER_ORDER": "priority"},
        {"SCHEDULER_QUEUE_CLASS": "scrapy_rq_sched.LifoQueue", "SCHEDULER_SERIALIZER": "pickle"},
        {"FRONTIER_FLEET_LIMITS": "delay,concurrency", "CONCURRENT_REQUESTS_PER_DOMAIN": 2},
    ],
    ids=["no slots", "by priority", "lifo and pickle", "concurrency"],
)
def test_each_page_is_crawled_once_with_an_account(fleet: Fleet, settings: dict[str, Any]) -> None:
    with members(fleet, pages=20, **settings) as (start, pages):
        start(2)
        fleet.wait(timeout=40)
        check_the_site(fleet, pages)
        assert max(fleet.urls("downloaded").values()) == 1
        assert fleet.reasons() == ["finished"] * 2


def test_an_account_has_one_user_at_a_time_and_moves_with_its_cookies(
    fleet: Fleet, server: redis.Redis
) -> None:
    with members(fleet, pages=60) as (start, pages):
        start(3)
        # After its second page, each account has logged in, and Redis has its cookies.
        wait_until(lambda: each_is_used(fleet, 4) and len({pid for _, _, pid in uses(fleet)}) == 3)
        fleet.kill(0, signal.SIGKILL)
        fleet.wait(timeout=40)
        check_the_site(fleet, pages)
        downloads = fleet.urls("downloaded")
        # The killed worker had one request for each account, at most.
        assert sum(downloads[page] - 1 for page in pages) <= ACCOUNTS
        assert fleet.reasons() == ["finished"] * 2
        assert not server.exists("members:pools:uses")


def test_a_worker_waits_for_an_account_until_the_lease_of_another_is_over(
    fleet: Fleet, server: redis.Redis
) -> None:
    with members(fleet, pages=90, FOR_LIFE=True) as (start, pages):
        start(4)
        waits = "No item of pool 'accounts' is free for this worker"
        wait_until(lambda: each_is_used(fleet, 4) and any(waits in fleet.log(number) for number in range(4)))
        (waiting,) = (number for number in range(4) if waits in fleet.log(number))
        owners = {pid: account for _, account, pid in uses(fleet)}
        assert len(owners) == 3
        assert fleet.workers[waiting].pid not in owners
        victim = next(number for number in range(4) if number != waiting)
        pid = fleet.workers[victim].pid
        fleet.kill(victim, signal.SIGKILL)
        fleet.workers[victim].wait()
        workers = server.zrange("members:workers", 0, -1, withscores=True)
        (over,) = (score / 1000 for name, score in workers if f"-{pid}-" in name.decode())
        fleet.wait(timeout=40)
        check_the_site(fleet, pages)
        later = [at for at, account, by in uses(fleet) if account == owners[pid] and by != pid]
        assert min(later) >= over
        assert f"This worker has item '{owners[pid]}' of pool 'accounts'" in fleet.log(waiting)
        assert fleet.reasons() == ["finished"] * 3


def crawl_by_proxies(fleet: Fleet, proxies: ForwardProxies, pages: int, **pool: Any) -> None:
    pools = {"proxies": {"items": proxies.urls, "kind": "proxy", **pool}}
    fleet.start(
        "proxied",
        2,
        environment={"REAL_DOWNLOADS": "1"},
        PAGES=pages,
        FRONTIER_POOLS=json.dumps(pools),
        **MODULE,
    )


def crawled(pages: int) -> Counter[str]:
    """Return how often each of so many pages must be crawled: once."""
    return Counter(f"http://pages.test/{number}" for number in range(pages))


def test_a_proxy_that_is_refused_rests_and_is_retired(fleet: Fleet) -> None:
    pages, rest, bad = 40, 0.5, 3
    with forward_proxies(3) as proxies:
        proxies.status[0] = 403
        # The other proxies stand still, so that there are requests for this one.
        for gate in proxies.gates[1:]:
            gate.clear()
        crawl_by_proxies(fleet, proxies, pages, rest={403: rest}, retire_after=bad)
        wait_until(lambda: len(proxies.asked[0]) == bad)
        for gate in proxies.gates[1:]:
            gate.set()
        fleet.wait(timeout=40)
        assert fleet.urls("parsed") == crawled(pages)
        times = [at for at, _ in proxies.asked[0]]
        assert len(times) == bad
        assert min(after - before for before, after in pairwise(times)) >= rest
        assert max(proxies.most.values()) == 1
        retired = f"Item '{proxies.names[0]}' of pool 'proxies' is retired: {bad} bad answers in a row"
        assert sum(retired in fleet.log(number) for number in range(2)) == 1


@pytest.mark.parametrize("deed", [("remove",), ("retire", "broken"), ("rest", 100_000, "slow")])
def test_a_proxy_is_not_given_again_after_an_operator_takes_it_away(
    fleet: Fleet, server: redis.Redis, deed: tuple[Any, ...]
) -> None:
    pages = 20
    keys = Keys("proxied", hash_tag=needs_hash_tag(server)).all()
    with forward_proxies(3) as proxies:
        proxies.gates[0].clear()
        crawl_by_proxies(fleet, proxies, pages)
        wait_until(lambda: proxies.asked[0])
        command, *more = deed
        named = [1, proxies.names[0]] if command == "remove" else [proxies.names[0]]
        is_done = register(server, "pools")(keys=keys, args=[command, "proxies", *named, *more])
        assert is_done == 1
        proxies.gates[0].set()
        fleet.wait(timeout=40)
        assert fleet.urls("parsed") == crawled(pages)
        assert len(proxies.asked[0]) == 1
        assert not server.exists("proxied:pools:uses")
