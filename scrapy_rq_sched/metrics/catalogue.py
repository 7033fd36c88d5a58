"""Every metric: its name, type, labels and help text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: The values of :attr:`~scrapy_rq_sched.inspect.Status.state`.
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
    """A metric of Prometheus.

    :param name: the name in queries; a counter's includes ``_total``.
    :param kind: the type.
    :param labels: the names of the labels.
    :param help: the help text, one sentence.
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
    "Requests by state: waiting, leased (held by a worker; includes seeds), delayed (put back for another "
    "worker), following (waiting for a group), failed (in the failed list), seeds (not yet read by a "
    "worker).",
    "state",
)
SEEN = _of_spider("seen", "Fingerprints in the dupefilter.")
PAGES = _of_spider("pages_total", "Pages finished in this crawl. A new crawl starts at 0.", kind="counter")
ITEMS = _of_spider(
    "items_total", "Items of the pages of this crawl. A new crawl starts at 0.", kind="counter"
)
ERRORS = _of_spider(
    "errors_total",
    "Errors that the workers have logged in this crawl. A new crawl starts at 0.",
    kind="counter",
)
RESPONSES = _of_spider(
    "responses_total",
    "Responses of this crawl by HTTP status, without those of robots.txt. A new crawl starts at 0.",
    "status",
    kind="counter",
)
COUNTS = _of_spider(
    "counts_total",
    "Sums of Scrapy's statistics of all workers in this crawl, such as requests, bytes, retries, exceptions "
    "and duplicates. A new crawl starts at 0.",
    "name",
    kind="counter",
)
POOL_ITEMS = _of_spider(
    "pool_items",
    "Items of each pool by state: free, in_use, rests, waits (for the end of its delay), retired.",
    "pool",
    "state",
)
FAILED = _of_spider(
    "failed_total",
    "Requests and seeds set aside so far, even if retried or removed since, by reason without details.",
    "reason",
    kind="counter",
)
FINISHED = _of_spider(
    "finished_timestamp_seconds",
    "Time at which the last crawl finished, in seconds since 1970; 0 if not known.",
)
EXCHANGE_SECONDS = _of_spider(
    "exchange_seconds",
    "Duration of the exchanges between workers and Redis.",
    kind="histogram",
)
WORKERS = _of_spider(
    "workers",
    "Workers by state: alive, dead (no heartbeat within FRONTIER_LEASE_TIMEOUT), and in_line (waiting for a "
    "place, because of FRONTIER_MAX_WORKERS).",
    "state",
)
WORKERS_WANTED = _of_spider("workers_wanted", "Number of workers that the crawl could use now.")
STATE = _of_spider("state", "1 for the current state of the crawl, 0 for all others.", "state")
LIMIT = _of_spider(
    "limit", "1 for the current limit on the crawl's speed, 0 for the others; none: no known limit.", "limit"
)
SLOTS = _of_spider("slots", "Slots with waiting requests.")
SLOT_WAITING = _of_spider(
    "slot_waiting",
    "Waiting requests of each of the 50 largest slots, and of all other slots together (other).",
    "slot",
)
SLOT_BLOCKED = _of_spider(
    "slot_blocked_seconds",
    "Seconds until the block of the slot ends, 0 without a block; for other slots, the longest.",
    "slot",
)
WORKER_PAGES = _of_spider(
    "worker_pages_total",
    "Pages finished by the worker. Removed when the worker leaves.",
    "worker",
    kind="counter",
)
STATS = Metric(
    "scrapy_stats",
    "gauge",
    ("spider", "name"),
    "Numeric statistics of the fleet from RedisStatsCollector, by their name in Scrapy.",
)
MEMORY = Metric(
    "scrapy_frontier_redis_memory_bytes", "gauge", ("redis",), "Memory used by Redis (used_memory)."
)
MAX_MEMORY = Metric(
    "scrapy_frontier_redis_max_memory_bytes",
    "gauge",
    ("redis",),
    "Memory limit of Redis (maxmemory). Missing if there is no limit.",
)
UP = Metric(
    "scrapy_frontier_up",
    "gauge",
    ("redis",),
    "1 if Redis answered, 0 if not; then the metrics of its spiders are missing.",
)
SNAPSHOT_SECONDS = Metric(
    "scrapy_frontier_snapshot_seconds", "gauge", (), "Seconds that it took to read these metrics from Redis."
)

#: All metrics, in the order of the output.
METRICS: tuple[Metric, ...] = (
    UP,
    SNAPSHOT_SECONDS,
    MEMORY,
    MAX_MEMORY,
    STATE,
    REQUESTS,
    SEEN,
    PAGES,
    ITEMS,
    ERRORS,
    RESPONSES,
    COUNTS,
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
    POOL_ITEMS,
    STATS,
)
