"""What slots cost Redis: its time a page and its memory, by how many slots wait.

The exchanges are a worker's: each stores ten requests of slots that are chosen by chance, and leases and
releases ten. Slots cannot cost more: in a crawl most links lead to the host that they come from.
"""

from __future__ import annotations

import random
from pathlib import Path

import redis

from scrapy_rq_sched.codec.slot_limits import SlotLimits, SlotPolicy
from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.frontier.messages import Batch, Finished, Push
from scrapy_rq_sched.keys import Keys

from .arena import Arena
from .figures import Figures, Options

#: How many slots have waiting requests; 0: they wait without slots.
SLOTS = (0, 1, 10, 100, 10_000, 1_000_000)
#: Exchanges that are measured together, and requests that each of them stores and takes.
EXCHANGES, REQUESTS = 60, 10
#: What a usual request takes in Redis.
_PAYLOAD = (
    b'{"url":"http://example.com/%d","callback":"parse","headers":{"Referer":["http://example.com/%d"]}}'
)
#: Requests that are stored at a time before it is measured.
_AT_ONCE = 1000


class Worker:
    """Exchanges as a worker of a crawl of so many *slots* does."""

    def __init__(self, server: redis.Redis, slots: int, limits: SlotLimits | None = None) -> None:
        self._frontier = Frontier(server, Keys(f"slots{slots}"), "worker", "priority")
        if limits is not None:
            self._frontier.limit_slots(SlotPolicy(limits))
        self._frontier.open({})
        self._slots = slots
        self._random = random.Random(slots)
        self._number = self._made = 0
        self._held: list[Finished] = []

    def fill(self, count: int, filtered: bool = True) -> None:
        """Have *count* requests wait, of one slot after the other."""
        for first in range(0, count, _AT_ONCE):
            places = range(first, min(first + _AT_ONCE, count))
            self._exchange([self._push(place, filtered) for place in places])

    def step(self) -> None:
        """Store some, take as many, and release what was taken before."""
        places = [self._random.randrange(self._slots or 1) for _ in range(REQUESTS)]
        self._exchange([self._push(place) for place in places], REQUESTS)

    def take(self, count: int) -> None:
        """Take *count* requests."""
        self._exchange([], count)

    def _push(self, place: int, filtered: bool = True) -> Push:
        self._made += 1
        slot = f"www.host{place % self._slots}.example.com" if self._slots else ""
        payload = _PAYLOAD % (self._made, self._made // 10)
        if not filtered:
            return Push("force", "", 0, payload, slot)
        return Push("filter", f"{self._made:040x}", 0, payload, slot)

    def _exchange(self, pushes: list[Push], want: int = 0) -> None:
        self._number += 1
        batch = Batch(self._number, in_hand=1, want=want, pushes=pushes, finished=self._held)
        self._held = [Finished(lease.name) for lease in self._frontier.exchange(batch).leases]


def run(arena: Arena, options: Options) -> Figures:
    """Measure Redis's time with each number of slots in turn, and then the memory of one slot."""
    figures = Figures()
    arena.redis.flushall()
    levels = [level for level in SLOTS if level <= options.size(100, max(SLOTS))]
    workers = {level: Worker(arena.redis, level) for level in levels}
    for level in options.each(levels, "slots, filling"):
        workers[level].fill(max(2000, level))
    process = int(arena.redis.info("server")["process_id"])
    for _ in options.turns("slots", options.size(2, 5 * options.rounds)):
        for level, worker in workers.items():
            before = redis_time(process)
            for _ in range(EXCHANGES):
                worker.step()
            figures.add(_name(level), redis_us=(redis_time(process) - before) / 1000 / EXCHANGES / REQUESTS)
    _memory(arena, options.size(500, 20_000), figures)
    arena.redis.flushall()
    return figures


def _name(level: int) -> str:
    return f"{level:,} slot{'' if level == 1 else 's'}" if level else "without slots"


def redis_time(process: int) -> int:
    """Return the nanoseconds that *process* has run; Linux says so."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0])


def _memory(arena: Arena, slots: int, figures: Figures) -> None:
    """Measure what a slot takes with ten requests, and what of that these take."""
    for level in (slots, 0):
        arena.redis.flushall()
        worker = Worker(arena.redis, level)
        before = _used(arena)
        worker.fill(10 * slots, filtered=False)
        name = "a slot, ten requests" if level else "ten requests without a slot"
        figures.add(name, bytes_a_slot=(_used(arena) - before) / slots)
    arena.redis.flushall()
    worker = Worker(arena.redis, 100, SlotLimits(delay=3600.0))
    worker.fill(1000)
    worker.take(100)
    states = list(arena.redis.scan_iter(f"{Keys('slots100').slot('')}*"))
    taken = sum(int(arena.redis.memory_usage(key) or 0) for key in states)
    figures.add("the state of a slot with a delay", bytes_a_slot=taken / len(states))


def _used(arena: Arena) -> int:
    return int(arena.redis.info("memory")["used_memory"])
