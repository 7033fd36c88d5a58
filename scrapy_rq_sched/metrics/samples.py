"""Turn a snapshot into samples: the values of all metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from ..frontier.exchange_times import Histogram
from ..frontier.messages import BOTTLENECKS
from . import catalogue as of
from .catalogue import STATES, Metric
from .labels import OTHER, is_url
from .snapshots import Reading, Snapshot

#: A metric, its labels' values, and its value.
Sample: TypeAlias = tuple[Metric, tuple[str, ...], float | Histogram]

#: Workers with their own label, the oldest first.
MOST_WORKERS = 200
#: Sums and HTTP statuses, and pools, that are exported. Another program may have written more into Redis.
MOST_COUNTS, MOST_POOLS = 50, 50
#: The states of items, as :class:`~scrapy_rq_sched.inspect.status.PoolCounts` names them.
STATES_OF_ITEMS = ("free", "in_use", "rests", "waits", "retired")


def samples(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield the samples of *snapshot*."""
    for address, answered in snapshot.up.items():
        yield of.UP, (address,), float(answered)
    yield of.SNAPSHOT_SECONDS, (), snapshot.seconds
    for address, memory in snapshot.memory.items():
        yield of.MEMORY, (address,), memory.used
        if memory.most:
            yield of.MAX_MEMORY, (address,), memory.most
    for reading in snapshot.readings:
        for metric, labels, value in (*_of_status(reading), *_of_slots(reading)):
            yield metric, (reading.spider, *labels), value
        for name, value in reading.stats.items():
            yield of.STATS, (reading.spider, name), value


def _of_status(reading: Reading) -> Iterator[Sample]:
    status = reading.status
    for state in ("waiting", "leased", "delayed", "following", "failed", "seeds"):
        yield of.REQUESTS, (state,), getattr(status, state)
    yield of.SEEN, (), status.seen
    yield of.PAGES, (), status.pages
    yield of.ITEMS, (), status.items
    yield of.ERRORS, (), status.errors
    for metric, counts in ((of.RESPONSES, status.statuses), (of.COUNTS, status.counts)):
        for name, count in sorted(counts.items())[:MOST_COUNTS]:
            yield metric, (name,), count
    yield of.FINISHED, (), status.finished_at
    yield of.EXCHANGE_SECONDS, (), status.exchange_seconds
    for reason, count in status.failed_by_reason.items():
        if not is_url(reason):
            yield of.FAILED, (reason,), count
    yield of.WORKERS, ("alive",), status.alive
    yield of.WORKERS, ("dead",), len(status.workers) - status.alive
    yield of.WORKERS, ("in_line",), len(status.in_line)
    yield of.WORKERS_WANTED, (), status.workers_wanted
    for state in dict.fromkeys((*STATES, status.state)):
        yield of.STATE, (state,), state == status.state
    for limit in BOTTLENECKS:
        yield of.LIMIT, (limit,), limit == status.limit
    yield of.SLOTS, (), status.slots
    for pool in status.pools[:MOST_POOLS]:
        for state in STATES_OF_ITEMS:
            yield of.POOL_ITEMS, (pool.name, state), getattr(pool, state)
    for worker in sorted(status.workers, key=lambda worker: worker.joined)[:MOST_WORKERS]:
        yield of.WORKER_PAGES, (worker.name,), worker.pages


def _of_slots(reading: Reading) -> Iterator[Sample]:
    if reading.slots is None:
        return
    waiting = reading.slots.waiting
    for slot, count in waiting.items():
        yield of.SLOT_WAITING, (slot,), count
    # Includes requests that wait without a slot.
    yield of.SLOT_WAITING, (OTHER,), max(0, reading.status.waiting - sum(waiting.values()))
    for slot, seconds in reading.slots.blocked.items():
        yield of.SLOT_BLOCKED, (slot,), seconds
