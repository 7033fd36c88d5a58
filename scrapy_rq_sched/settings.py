"""Every setting with its default and its check. They are read once, when the crawl starts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from . import keys
from .codec.setting_reader import SettingReader
from .codec.slot_rules import SlotRule, slot_rules
from .errors import SettingError
from .events.event import TEXTS

logger = logging.getLogger(__name__)

#: Values of ``FRONTIER_SET_ASIDE``: requests that made their callback raise, and requests that could not be
#: downloaded even after Scrapy's retries.
SET_ASIDE = ("callback", "download")

#: Values of ``FRONTIER_FLEET_LIMITS``: limits of a slot that all workers keep together.
FLEET_LIMITS = ("delay", "concurrency")

#: The maximum number of seeds in one exchange.
MOST_SEEDS = 1000


@dataclass(frozen=True)
class FrontierSettings:
    """The settings of one worker. Times are in seconds. ``docs/settings.md`` describes each."""

    #: ``SCHEDULER_QUEUE_CLASS``
    queue_class: str | type = "scrapy_rq_sched.queue.PriorityQueue"
    #: ``SCHEDULER_QUEUE_KEY``
    queue_key: str = keys.REQUESTS
    #: ``SCHEDULER_DUPEFILTER_KEY``
    dupefilter_key: str = keys.DUPEFILTER
    #: ``SCHEDULER_SERIALIZER``
    serializer: Any = "json"
    #: ``SCHEDULER_PERSIST``
    persist: bool = False
    #: ``SCHEDULER_FLUSH_ON_START``
    flush_on_start: bool = False
    #: ``SCHEDULER_IDLE_BEFORE_CLOSE``, in seconds
    idle_before_close: float = 0.0
    #: ``MAX_IDLE_TIME_BEFORE_CLOSE``, in seconds; 0: forever
    max_idle_time: float = 0.0
    #: ``REDIS_ITEMS_KEY``
    items_key: str = keys.ITEMS
    #: ``REDIS_ITEMS_SERIALIZER``; None: Scrapy's JSON
    items_serializer: Callable[[Any], Any] | None = None
    #: ``STATS_KEY``
    stats_key: str = keys.STATS
    #: ``REDIS_START_URLS_KEY``
    start_urls_keys: tuple[str, ...] = (keys.START_URLS,)
    #: ``FRONTIER_JOB``
    job: str = ""
    #: ``REDIS_START_URLS_BATCH_SIZE``, in seeds per exchange
    seed_batch: int = 100
    #: ``FRONTIER_MAX_SEED_BYTES``
    max_seed_bytes: int = 1024 * 1024
    #: ``FRONTIER_SEED_FORM_DATA``
    seed_form_data: bool = False
    #: ``REDIS_ENCODING``
    encoding: str = "utf-8"
    #: ``FRONTIER_LEASE_TIMEOUT``, in seconds
    lease_timeout: float = 30.0
    #: ``FRONTIER_JOIN_TIMEOUT``, in seconds
    join_timeout: float = 30.0
    #: ``FRONTIER_PROJECT``; by default the name of the bot and the class of the spider
    project: str = ""
    #: ``FRONTIER_MAX_DELIVERIES``, in deaths of workers
    max_deliveries: int = 5
    #: ``FRONTIER_MAX_FAILED``, in entries
    max_failed: int = 10_000
    #: ``FRONTIER_MAX_WAITING``, in requests; 0: no limit
    max_waiting: int = 0
    #: ``FRONTIER_MAX_WAITING_POLICY``
    max_waiting_policy: str = "slow"
    #: ``FRONTIER_MAX_WORKERS``, in workers; 0: no limit
    max_workers: int = 0
    #: ``FRONTIER_MAX_WORKERS_POLICY``
    max_workers_policy: str = "wait"
    #: ``FRONTIER_MAX_WORKERS_KEY``; empty: a key of the spider's own
    places_key: str = ""
    #: ``FRONTIER_CLOSE_PAGECOUNT``, in responses
    close_pagecount: int = 0
    #: ``FRONTIER_CLOSE_ITEMCOUNT``, in items
    close_itemcount: int = 0
    #: ``FRONTIER_CLOSE_ERRORCOUNT``, in errors
    close_errorcount: int = 0
    #: ``FRONTIER_CLOSE_TIMEOUT``, in seconds
    close_timeout: float = 0.0
    #: ``FRONTIER_STALL_TIMEOUT``, in seconds; 0: never
    stall_timeout: float = 600.0
    #: ``FRONTIER_MAX_EVENTS``, in events; 0: no events
    max_events: int = 10_000
    #: ``FRONTIER_WEBHOOK_URL``; empty: no webhook
    webhook_url: str = field(default="", repr=False)
    #: ``FRONTIER_WEBHOOK_SECRET``; empty: events are not signed
    webhook_secret: str = field(default="", repr=False)
    #: ``FRONTIER_WEBHOOK_TYPES``; empty: all types
    webhook_types: frozenset[str] = frozenset()
    #: ``FRONTIER_BY_SLOT``
    by_slot: bool = True
    #: ``FRONTIER_ORDER``
    order: str = "slots"
    #: ``FRONTIER_FLEET_LIMITS``
    fleet_limits: frozenset[str] = frozenset({"delay"})
    #: ``FRONTIER_SLOTS``
    slots: tuple[SlotRule, ...] = ()
    #: ``FRONTIER_SLOTS_KEY``; empty: keys of the spider's own
    slots_key: str = ""
    #: ``FRONTIER_SET_ASIDE``
    set_aside: frozenset[str] = frozenset()
    #: ``FRONTIER_WAIT_REPLICAS``
    wait_replicas: int = 0
    #: ``FRONTIER_PREFETCH``, in requests
    prefetch: int = 256
    #: ``FRONTIER_FLUSH_INTERVAL``, in seconds
    flush_interval: float = 0.05
    #: ``FRONTIER_OUTBOX_SIZE``, in requests
    outbox_size: int = 10_000
    #: ``FRONTIER_SEEN_CACHE``, in fingerprints
    seen_cache: int = 100_000
    #: Scrapy's ``CONCURRENT_REQUESTS``
    concurrency: int = 16

    @classmethod
    def from_settings(cls, settings: Any) -> FrontierSettings:
        """Read and check Scrapy's *settings*.

        :raises SettingError: if a value is not valid. The message names the setting, its value, and the valid
            values.
        """
        read = SettingReader(settings)
        return cls(
            queue_class=settings.get("SCHEDULER_QUEUE_CLASS") or cls.queue_class,
            queue_key=read.template("SCHEDULER_QUEUE_KEY", cls.queue_key),
            dupefilter_key=read.template("SCHEDULER_DUPEFILTER_KEY", cls.dupefilter_key),
            serializer=settings.get("SCHEDULER_SERIALIZER") or cls.serializer,
            persist=read.boolean("SCHEDULER_PERSIST"),
            flush_on_start=read.boolean("SCHEDULER_FLUSH_ON_START"),
            idle_before_close=read.number("SCHEDULER_IDLE_BEFORE_CLOSE", cls.idle_before_close, 0),
            max_idle_time=read.number("MAX_IDLE_TIME_BEFORE_CLOSE", cls.max_idle_time, 0),
            items_key=read.template("REDIS_ITEMS_KEY", cls.items_key),
            items_serializer=read.function("REDIS_ITEMS_SERIALIZER"),
            stats_key=read.template("STATS_KEY", cls.stats_key),
            start_urls_keys=read.templates("REDIS_START_URLS_KEY", cls.start_urls_keys),
            job=read.job(),
            seed_batch=read.whole("REDIS_START_URLS_BATCH_SIZE", cls.seed_batch, 1),
            max_seed_bytes=read.whole("FRONTIER_MAX_SEED_BYTES", cls.max_seed_bytes, 1, 2**53),
            seed_form_data=read.boolean("FRONTIER_SEED_FORM_DATA"),
            encoding=read.encoding("REDIS_ENCODING", cls.encoding),
            lease_timeout=read.number("FRONTIER_LEASE_TIMEOUT", cls.lease_timeout, 0.1),
            join_timeout=read.number("FRONTIER_JOIN_TIMEOUT", cls.join_timeout, 0),
            project=str(settings.get("FRONTIER_PROJECT") or ""),
            max_deliveries=read.whole("FRONTIER_MAX_DELIVERIES", cls.max_deliveries, 1),
            max_failed=read.whole("FRONTIER_MAX_FAILED", cls.max_failed, 1),
            max_waiting=read.whole("FRONTIER_MAX_WAITING", cls.max_waiting, 0),
            max_waiting_policy=read.choice(
                "FRONTIER_MAX_WAITING_POLICY", cls.max_waiting_policy, ("slow", "drop-lowest")
            ),
            max_workers=read.whole("FRONTIER_MAX_WORKERS", cls.max_workers, 0),
            max_workers_policy=read.choice(
                "FRONTIER_MAX_WORKERS_POLICY", cls.max_workers_policy, ("wait", "exit")
            ),
            places_key=read.optional_template("FRONTIER_MAX_WORKERS_KEY", "crawlers"),
            close_pagecount=read.whole("FRONTIER_CLOSE_PAGECOUNT", cls.close_pagecount, 0),
            close_itemcount=read.whole("FRONTIER_CLOSE_ITEMCOUNT", cls.close_itemcount, 0),
            close_errorcount=read.whole("FRONTIER_CLOSE_ERRORCOUNT", cls.close_errorcount, 0),
            close_timeout=read.number("FRONTIER_CLOSE_TIMEOUT", cls.close_timeout, 0),
            stall_timeout=read.number("FRONTIER_STALL_TIMEOUT", cls.stall_timeout, 0),
            max_events=read.whole("FRONTIER_MAX_EVENTS", cls.max_events, 0),
            webhook_url=read.url("FRONTIER_WEBHOOK_URL"),
            webhook_secret=read.secret("FRONTIER_WEBHOOK_SECRET"),
            webhook_types=read.choices("FRONTIER_WEBHOOK_TYPES", tuple(TEXTS)),
            by_slot=read.boolean("FRONTIER_BY_SLOT", cls.by_slot),
            order=read.choice("FRONTIER_ORDER", cls.order, ("slots", "priority")),
            fleet_limits=read.choices("FRONTIER_FLEET_LIMITS", FLEET_LIMITS, cls.fleet_limits),
            slots=slot_rules("FRONTIER_SLOTS", settings.get("FRONTIER_SLOTS")),
            slots_key=read.optional_template("FRONTIER_SLOTS_KEY", "politeness"),
            set_aside=read.choices("FRONTIER_SET_ASIDE", SET_ASIDE),
            wait_replicas=read.whole("FRONTIER_WAIT_REPLICAS", cls.wait_replicas, 0),
            prefetch=read.whole("FRONTIER_PREFETCH", cls.prefetch, 1, 1000),
            flush_interval=read.number("FRONTIER_FLUSH_INTERVAL", cls.flush_interval, 0.001, 5),
            outbox_size=read.whole("FRONTIER_OUTBOX_SIZE", cls.outbox_size, 1),
            seen_cache=read.whole("FRONTIER_SEEN_CACHE", cls.seen_cache, 0),
            concurrency=read.concurrency(cls.concurrency, cls.prefetch),
        )

    def of_spider(self, spider: Any) -> FrontierSettings:
        """Return these settings with the attribute ``redis_batch_size`` of *spider*, if it has one.

        A batch size above the maximum is lowered to the maximum, with a warning.

        :raises SettingError: if ``redis_batch_size`` is not valid.
        """
        name, size = "REDIS_START_URLS_BATCH_SIZE", self.seed_batch
        own = getattr(spider, "redis_batch_size", None)
        if own is not None and own != getattr(spider, "default_batch_size", None):
            name = "redis_batch_size"
            try:
                size = int(own)
            except (TypeError, ValueError):
                size = 0
            if size < 1:
                raise SettingError(f"{name} must be an integer ≥ 1, not {own!r}")
        if size > MOST_SEEDS:
            logger.warning("%s is %d: the scheduler takes at most %d seeds at a time", name, size, MOST_SEEDS)
        return replace(self, seed_batch=min(size, MOST_SEEDS))
