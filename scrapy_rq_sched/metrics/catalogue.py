"""Every metric: its name, its kind, its labels, and what its HELP says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What :attr:`~scrapy_rq_sched.inspect.Status.state` may be.
STATES = (
    "new",
    "crawling",
    "idle",
    "paused",
    "draining",
    "stopping",
    "stopped",
    "finished",
    "converting",
    "importing",
)


@dataclass(frozen=True)
class Metric:
    """A metric, as Prometheus has it.

    :param name: as it is queried, a counter's with its ``_total``.
    :param kind: its type.
    :param labels: their names.
    :param help: one sentence.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    help: str


def _of_spider(
    name: str, help: str, *labels: str, kind: Literal["gauge", "counter", "histogram"] = "gauge"
) -> Metric:
    return Metric(f"scrapy_frontier_{name}", kind, ("spider", *labels), help)


REQUESTS = _of_spider(
    "requests",
    "Requests by state: waiting, leased (in a worker's hands, with its seeds), delayed (set back for another "
    "worker), failed (set aside), and seeds that nobody has taken yet.",
    "state",
)
SEEN = _of_spider("seen", "Fingerprints that the dupefilter has.")
PAGES = _of_spider(
    "pages_total", "Pages that were done in this crawl. It begins at 0 with each crawl.", kind="counter"
)
FAILED = _of_spider(
    "failed_total",
    "Requests and seeds that were ever set aside, by reason without its details.",
    "reason",
    kind="counter",
)
FINISHED = _of_spider(
    "finished_timestamp_seconds",
    "When the last crawl was finished, in seconds since 1970; 0 if it is not known.",
)
EXCHANGE_SECONDS = _of_spider(
    "exchange_seconds",
    "How long the exchanges between workers and Redis took.",
    kind="histogram",
)
WORKERS = _of_spider(
    "workers",
    "Workers by state: alive, dead (not heard of within FRONTIER_LEASE_TIMEOUT), and in_line (waiting for a "
    "place that FRONTIER_MAX_WORKERS allows).",
    "state",
)
WORKERS_WANTED = _of_spider("workers_wanted", "How many workers the crawl could use now.")
STATE = _of_spider("state", "1 for the state that the crawl is in, 0 for the others.", "state")
LIMIT = _of_spider(
    "limit", "1 for what keeps the crawl from going faster now, 0 for the others; none is no limit.", "limit"
)
SLOTS = _of_spider("slots", "Slots that have waiting requests.")
SLOT_WAITING = _of_spider(
    "slot_waiting",
    "Requests that wait in each of the fifty largest slots, and in all others together (other).",
    "slot",
)
SLOT_BLOCKED = _of_spider(
    "slot_blocked_seconds",
    "For how long each of these slots is blocked yet, 0 if it is not; of the others, the longest.",
    "slot",
)
WORKER_PAGES = _of_spider(
    "worker_pages_total",
    "Pages that a worker has done. It goes when the worker does.",
    "worker",
    kind="counter",
)
STATS = Metric(
    "scrapy_stats",
    "gauge",
    ("spider", "name"),
    "Statistics of the fleet, from RedisStatsCollector: those that are numbers, by their name in Scrapy.",
)
MEMORY = Metric(
    "scrapy_frontier_redis_memory_bytes", "gauge", ("redis",), "Memory that Redis uses (used_memory)."
)
MAX_MEMORY = Metric(
    "scrapy_frontier_redis_max_memory_bytes",
    "gauge",
    ("redis",),
    "Memory that Redis may use (maxmemory). It is missing where there is no such limit.",
)
UP = Metric(
    "scrapy_frontier_up",
    "gauge",
    ("redis",),
    "1 if Redis has answered, 0 if not: then what it has is missing.",
)
SNAPSHOT_SECONDS = Metric(
    "scrapy_frontier_snapshot_seconds", "gauge", (), "Seconds that it took to read these metrics from Redis."
)

#: All of them, in the order in which they are written.
METRICS: tuple[Metric, ...] = (
    UP,
    SNAPSHOT_SECONDS,
    MEMORY,
    MAX_MEMORY,
    STATE,
    REQUESTS,
    SEEN,
    PAGES,
    FINISHED,
    FAILED,
    EXCHANGE_SECONDS,
    LIMIT,
    WORKERS,
    WORKERS_WANTED,
    WORKER_PAGES,
    SLOTS,
    SLOT_WAITING,
    SLOT_BLOCKED,
    STATS,
)
