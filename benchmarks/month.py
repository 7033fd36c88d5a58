"""The memory of Redis over a month of a spider that never ends, on a clock that runs faster.

A worker crawls a new set of hosts each day; a pattern gives every host a delay. At the end of each day,
when the last states of slots have expired, the keys and the bytes in Redis are counted. The last day
must need no more than the first. The server's clock is libfaketime's (Debian's package ``faketime``):
expiry, leases and delays all follow it.

Run ``python -m benchmarks.month [HOSTS [DAYS]]``. By default it is a million hosts in 30 days, which
takes half an hour.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import redis

from scrapy_rq_sched.codec.slot_limits import SlotLimits, SlotPolicy
from scrapy_rq_sched.embedded import PrivateRedis
from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.frontier.fleet_config import FleetConfig
from scrapy_rq_sched.frontier.messages import Batch, Finished, Push, UsedGrants
from scrapy_rq_sched.keys import Keys

HOSTS, DAYS, DAY = 1_000_000, 30, 86_400
#: How many times faster the server's clock runs.
SPEED = 5000
#: Where Debian installs the library.
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
#: Requests in one exchange, and for each host.
BATCH, PAGES = 50, 2
#: Seconds, by the server's clock, after which no state of a slot is left.
EXPIRED = 3600
#: How much more the last day may need than the first.
GROWTH = 1.02


class Worker:
    """Crawls hosts that have a delay, as fast as it is given their requests."""

    def __init__(self, server: redis.Redis) -> None:
        self._frontier = Frontier(
            server, Keys("month"), "worker", "priority", FleetConfig(lease_timeout=30 * DAY)
        )
        delay = SlotLimits(delay=1.0, jitter=0.5)
        self._frontier.limit_slots(SlotPolicy(patterns=(("*.example.com", delay),)))
        self._frontier.open({})
        self._number = 0
        self._held: list[Finished] = []
        self._used: dict[str, UsedGrants] = {}

    def crawl(self, first: int, count: int) -> None:
        """Crawl two pages of each of *count* hosts."""
        for start in range(first, first + count, BATCH):
            hosts = range(start, min(start + BATCH, first + count))
            self._exchange(
                [
                    Push("force", "", 0, b"%d/%d" % (n, page), f"host{n}.example.com")
                    for n in hosts
                    for page in range(PAGES)
                ]
            )
        while self._exchange([], want=BATCH) or self._held:
            pass

    def _exchange(self, pushes: list[Push], want: int = 0) -> int:
        self._number += 1
        batch = Batch(
            self._number, in_hand=1, want=want, pushes=pushes, finished=self._held, grants=self._used
        )
        reply = self._frontier.exchange(batch)
        self._held = [Finished(lease.name) for lease in reply.leases]
        self._used = {lease.slot: UsedGrants(1, lease.begin) for lease in reply.leases}
        return reply.waiting


def footprint(server: redis.Redis) -> tuple[int, int]:
    """Return how many keys and bytes the frontier has, when what has expired is gone."""
    deadline = server.time()[0] + EXPIRED
    while server.time()[0] < deadline or _expiring(server):
        time.sleep(0.05)
    return sum(1 for _ in server.scan_iter(count=1000)), _bytes(server)


def _expiring(server: redis.Redis) -> int:
    return sum(1 for _ in server.scan_iter("month:slots:state:*", count=1000))


def _bytes(server: redis.Redis) -> int:
    return sum(int(server.memory_usage(key, samples=0) or 0) for key in server.scan_iter(count=1000))


def main(hosts: int = HOSTS, days: int = DAYS) -> int:
    """Crawl, print a line a day, and return 0 if the frontier has not grown."""
    if not FAKETIME.exists():
        print(f"{FAKETIME} is missing: install the package faketime")
        return 1
    os.environ.update(LD_PRELOAD=str(FAKETIME), FAKETIME=f"+0 x{SPEED}")
    with tempfile.TemporaryDirectory() as folder, PrivateRedis(folder, ["--save", ""]) as private:
        del os.environ["LD_PRELOAD"]
        server = redis.Redis.from_url(private.url)
        worker, found = Worker(server), []
        for day in range(days):
            until = server.time()[0] + DAY
            worker.crawl(day * hosts // days, hosts // days)
            found.append(footprint(server))
            keys, size = found[-1]
            print(
                f"day {day + 1:2}: {(day + 1) * hosts // days:,} hosts, {keys} keys, {size:,} bytes",
                flush=True,
            )
            while server.time()[0] < until:
                time.sleep(0.05)
    grown = max(last / first for first, last in zip(found[0], found[-1], strict=True))
    print(f"last day / first day: {grown:.3f} (at most {GROWTH})")
    return 0 if grown <= GROWTH else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
