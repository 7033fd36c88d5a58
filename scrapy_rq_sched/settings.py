"""Every setting with its default and its check. They are read once, when the crawl starts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from . import keys
from .codec.event_types import TEXTS
from .codec.pools import Pool
from .codec.setting_reader import SettingReader as Read
from .codec.slot_rules import LONGEST_DELAY, SlotRule
from .errors import SettingError

logger = logging.getLogger(__name__)

#: Values of ``FRONTIER_SET_ASIDE``: requests that made their callback raise, and requests that could not be
#: downloaded even after Scrapy's retries.
SET_ASIDE = ("callback", "download")

#: Values of ``FRONTIER_FLEET_LIMITS``: limits of a slot that all workers keep together.
FLEET_LIMITS = ("delay", "concurrency", "backoff", "autothrottle", "robots")
DEFAULT_FLEET_LIMITS = frozenset(FLEET_LIMITS) - {"concurrency"}

#: Statuses of an overloaded server, or of a proxy before it.
OVERLOADED = frozenset({429, 502, 503, 504, 520, 521, 522, 523, 524})

#: The longest FRONTIER_HISTORY_AGE, in seconds: a hundred years.
LONGEST_HISTORY = 100 * 365 * 86400

#: The maximum number of seeds in one exchange.
MOST_SEEDS = 1000


def setting(name: str, read: Callable[..., Any], default: Any, *allowed: Any, repr: bool = True) -> Any:
    """Return the field for the setting *name*.

    :param read: the method of :class:`SettingReader` that reads and checks it, and :param allowed: its
        further arguments.
    """
    return field(
        default=default, repr=repr, metadata={"read": lambda reader: read(reader, name, default, *allowed)}
    )


@dataclass(frozen=True)
class FrontierSettings:
    """The settings of one worker. Times are in seconds. ``docs/settings.md`` describes each."""

    #: ``SCHEDULER_QUEUE_CLASS``
    queue_class: str | type = setting(
        "SCHEDULER_QUEUE_CLASS", Read.value, "scrapy_rq_sched.queue.PriorityQueue"
    )
    #: ``SCHEDULER_QUEUE_KEY``
    queue_key: str = setting("SCHEDULER_QUEUE_KEY", Read.template, keys.REQUESTS)
    #: ``SCHEDULER_DUPEFILTER_KEY``
    dupefilter_key: str = setting("SCHEDULER_DUPEFILTER_KEY", Read.template, keys.DUPEFILTER)
    #: ``SCHEDULER_SERIALIZER``
    serializer: Any = setting("SCHEDULER_SERIALIZER", Read.value, "json")
    #: ``SCHEDULER_PERSIST``
    persist: bool = setting("SCHEDULER_PERSIST", Read.boolean, False)
    #: ``SCHEDULER_FLUSH_ON_START``
    flush_on_start: bool = setting("SCHEDULER_FLUSH_ON_START", Read.boolean, False)
    #: ``SCHEDULER_IDLE_BEFORE_CLOSE``, in seconds
    idle_before_close: float = setting("SCHEDULER_IDLE_BEFORE_CLOSE", Read.number, 0.0, 0)
    #: ``MAX_IDLE_TIME_BEFORE_CLOSE``, in seconds; 0: forever
    max_idle_time: float = setting("MAX_IDLE_TIME_BEFORE_CLOSE", Read.number, 0.0, 0)
    #: ``REDIS_ITEMS_KEY``
    items_key: str = setting("REDIS_ITEMS_KEY", Read.template, keys.ITEMS)
    #: ``REDIS_ITEMS_SERIALIZER``; None: Scrapy's JSON
    items_serializer: Callable[[Any], Any] | None = setting("REDIS_ITEMS_SERIALIZER", Read.function, None)
    #: ``FRONTIER_ITEMS``: ``list`` or ``stream``; empty: items are not stored with the release of their page
    items: str = setting("FRONTIER_ITEMS", Read.choice, "", ("", "list", "stream"))
    #: ``FRONTIER_FEED``: tokens of files of ``scrapy frontier crawl``; empty: items go to none
    feed: str = setting("FRONTIER_FEED", Read.tokens, "")
    #: ``FRONTIER_JOINED_FEEDS``: feeds of ``FEEDS``, each with its token in ``FRONTIER_FEED``, or ``""``
    joined_feeds: tuple[tuple[str, str], ...] = setting("FRONTIER_JOINED_FEEDS", Read.feeds, ())
    #: ``FRONTIER_MAX_ITEMS``, in items; 0: no limit
    max_items: int = setting("FRONTIER_MAX_ITEMS", Read.whole, 0, 0)
    #: ``STATS_KEY``
    stats_key: str = setting("STATS_KEY", Read.template, keys.STATS)
    #: ``REDIS_START_URLS_KEY``
    start_urls_keys: tuple[str, ...] = setting("REDIS_START_URLS_KEY", Read.templates, (keys.START_URLS,))
    #: ``FRONTIER_JOB``
    job: str = setting("FRONTIER_JOB", Read.job, "")
    #: ``REDIS_START_URLS_BATCH_SIZE``, in seeds per exchange
    seed_batch: int = setting("REDIS_START_URLS_BATCH_SIZE", Read.whole, 100, 1)
    #: ``FRONTIER_MAX_SEED_BYTES``
    max_seed_bytes: int = setting("FRONTIER_MAX_SEED_BYTES", Read.whole, 1024 * 1024, 1, 2**53)
    #: ``FRONTIER_SEED_FORM_DATA``
    seed_form_data: bool = setting("FRONTIER_SEED_FORM_DATA", Read.boolean, False)
    #: ``REDIS_ENCODING``
    encoding: str = setting("REDIS_ENCODING", Read.encoding, "utf-8")
    #: ``FRONTIER_LEASE_TIMEOUT``, in seconds
    lease_timeout: float = setting("FRONTIER_LEASE_TIMEOUT", Read.number, 30.0, 0.1)
    #: ``FRONTIER_JOIN_TIMEOUT``, in seconds
    join_timeout: float = setting("FRONTIER_JOIN_TIMEOUT", Read.number, 30.0, 0)
    #: ``FRONTIER_PROJECT``; by default the name of the bot and the class of the spider
    project: str = setting("FRONTIER_PROJECT", Read.text, "")
    #: ``FRONTIER_MAX_DELIVERIES``, in deaths of workers
    max_deliveries: int = setting("FRONTIER_MAX_DELIVERIES", Read.whole, 5, 1)
    #: ``FRONTIER_MAX_FAILED``, in entries
    max_failed: int = setting("FRONTIER_MAX_FAILED", Read.whole, 10_000, 1)
    #: ``FRONTIER_MAX_WAITING``, in requests; 0: no limit
    max_waiting: int = setting("FRONTIER_MAX_WAITING", Read.whole, 0, 0)
    #: ``FRONTIER_MAX_WAITING_POLICY``
    max_waiting_policy: str = setting(
        "FRONTIER_MAX_WAITING_POLICY", Read.choice, "slow", ("slow", "drop-lowest")
    )
    #: ``FRONTIER_MAX_WORKERS``, in workers; 0: no limit
    max_workers: int = setting("FRONTIER_MAX_WORKERS", Read.whole, 0, 0)
    #: ``FRONTIER_MAX_WORKERS_POLICY``
    max_workers_policy: str = setting("FRONTIER_MAX_WORKERS_POLICY", Read.choice, "wait", ("wait", "exit"))
    #: ``FRONTIER_MAX_WORKERS_KEY``; empty: a key of the spider's own
    places_key: str = setting("FRONTIER_MAX_WORKERS_KEY", Read.optional_template, "", "crawlers")
    #: ``FRONTIER_CLOSE_PAGECOUNT``, in responses
    close_pagecount: int = setting("FRONTIER_CLOSE_PAGECOUNT", Read.whole, 0, 0)
    #: ``FRONTIER_CLOSE_ITEMCOUNT``, in items
    close_itemcount: int = setting("FRONTIER_CLOSE_ITEMCOUNT", Read.whole, 0, 0)
    #: ``FRONTIER_CLOSE_ERRORCOUNT``, in errors
    close_errorcount: int = setting("FRONTIER_CLOSE_ERRORCOUNT", Read.whole, 0, 0)
    #: ``FRONTIER_CLOSE_TIMEOUT``, in seconds
    close_timeout: float = setting("FRONTIER_CLOSE_TIMEOUT", Read.number, 0.0, 0)
    #: ``FRONTIER_STALL_TIMEOUT``, in seconds; 0: never
    stall_timeout: float = setting("FRONTIER_STALL_TIMEOUT", Read.number, 600.0, 0)
    #: ``FRONTIER_MAX_EVENTS``, in events; 0: no events
    max_events: int = setting("FRONTIER_MAX_EVENTS", Read.whole, 10_000, 0)
    #: ``FRONTIER_HISTORY``, in crawls; 0: no history
    history: int = setting("FRONTIER_HISTORY", Read.whole, 100, 0, 10_000)
    #: ``FRONTIER_HISTORY_AGE``, in seconds
    history_age: float = setting("FRONTIER_HISTORY_AGE", Read.number, 90 * 86400.0, 1, LONGEST_HISTORY)
    #: ``FRONTIER_HISTORY_ALERT``, as a share; 0: no event
    history_alert: float = setting("FRONTIER_HISTORY_ALERT", Read.number, 0.3, 0)
    #: ``FRONTIER_OUTCOMES``, in requests; 0: none
    outcomes: int = setting("FRONTIER_OUTCOMES", Read.whole, 50_000, 0, 1_000_000)
    #: ``FRONTIER_WEBHOOK_URL``; empty: no webhook
    webhook_url: str = setting("FRONTIER_WEBHOOK_URL", Read.url, "", repr=False)
    #: ``FRONTIER_WEBHOOK_SECRET``; empty: events are not signed
    webhook_secret: str = setting("FRONTIER_WEBHOOK_SECRET", Read.secret, "", repr=False)
    #: ``FRONTIER_WEBHOOK_TYPES``; empty: all types
    webhook_types: frozenset[str] = setting("FRONTIER_WEBHOOK_TYPES", Read.choices, frozenset(), tuple(TEXTS))
    #: ``FRONTIER_BY_SLOT``
    by_slot: bool = setting("FRONTIER_BY_SLOT", Read.boolean, True)
    #: ``FRONTIER_ORDER``
    order: str = setting("FRONTIER_ORDER", Read.choice, "slots", ("slots", "priority"))
    #: ``FRONTIER_FLEET_LIMITS``
    fleet_limits: frozenset[str] = setting(
        "FRONTIER_FLEET_LIMITS", Read.choices, DEFAULT_FLEET_LIMITS, FLEET_LIMITS
    )
    #: ``BACKOFF_HTTP_CODES``
    backoff_http_codes: frozenset[int] = setting("BACKOFF_HTTP_CODES", Read.statuses, OVERLOADED)
    #: ``BACKOFF_MIN_DELAY``, in seconds
    backoff_min_delay: float = setting("BACKOFF_MIN_DELAY", Read.number, 1.0, 0.001, LONGEST_DELAY)
    #: ``BACKOFF_MAX_DELAY``, in seconds
    backoff_max_delay: float = setting("BACKOFF_MAX_DELAY", Read.number, 300.0, 0.001, LONGEST_DELAY)
    #: ``FRONTIER_CRAWL_DELAY_MAX``, in seconds
    crawl_delay_max: float = setting("FRONTIER_CRAWL_DELAY_MAX", Read.number, 60.0, 0, LONGEST_DELAY)
    #: ``FRONTIER_MAX_PAGES``, in pages; 0: no limit
    max_pages: int = setting("FRONTIER_MAX_PAGES", Read.whole, 0, 0)
    #: ``FRONTIER_OFFERS``: what requests may need of this worker
    offers: frozenset[str] = setting("FRONTIER_OFFERS", Read.names, frozenset())
    #: ``FRONTIER_GROUP_FAILED``: what becomes of requests that wait for a group with failed requests
    group_failed: str = setting("FRONTIER_GROUP_FAILED", Read.choice, "run", ("run", "drop"))
    #: ``FRONTIER_POOLS``: sets of items that are for one user at a time
    pools: tuple[Pool, ...] = setting("FRONTIER_POOLS", Read.pools, (), repr=False)
    #: ``FRONTIER_SLOT_GIVE_UP``, in seconds; 0: never
    slot_give_up: float = setting("FRONTIER_SLOT_GIVE_UP", Read.number, 0.0, 0)
    #: ``FRONTIER_SLOTS``
    slots: tuple[SlotRule, ...] = setting("FRONTIER_SLOTS", Read.slots, ())
    #: ``FRONTIER_SLOTS_KEY``; empty: keys of the spider's own
    slots_key: str = setting("FRONTIER_SLOTS_KEY", Read.optional_template, "", "politeness")
    #: ``FRONTIER_SET_ASIDE``
    set_aside: frozenset[str] = setting("FRONTIER_SET_ASIDE", Read.choices, frozenset(), SET_ASIDE)
    #: ``FRONTIER_WAIT_REPLICAS``
    wait_replicas: int = setting("FRONTIER_WAIT_REPLICAS", Read.whole, 0, 0)
    #: ``FRONTIER_PREFETCH``, in requests
    prefetch: int = setting("FRONTIER_PREFETCH", Read.whole, 256, 1, 1000)
    #: ``FRONTIER_FLUSH_INTERVAL``, in seconds
    flush_interval: float = setting("FRONTIER_FLUSH_INTERVAL", Read.number, 0.05, 0.001, 5)
    #: ``FRONTIER_OUTBOX_SIZE``, in requests
    outbox_size: int = setting("FRONTIER_OUTBOX_SIZE", Read.whole, 10_000, 1)
    #: ``FRONTIER_SEEN_CACHE``, in fingerprints
    seen_cache: int = setting("FRONTIER_SEEN_CACHE", Read.whole, 100_000, 0)
    #: Scrapy's ``CONCURRENT_REQUESTS``
    concurrency: int = setting("CONCURRENT_REQUESTS", Read.concurrency, 16)

    @classmethod
    def from_settings(cls, settings: Any) -> FrontierSettings:
        """Read and check Scrapy's *settings*.

        :raises SettingError: if a value is not valid. The message names the setting, its value, and the valid
            values.
        """
        reader = Read(settings)
        made = cls(**{row.name: row.metadata["read"](reader) for row in fields(cls)})
        # To Scrapy 0 means no limit. Here there must be one: if a worker is killed, all requests that it had
        # begun are fetched again.
        return made if made.concurrency > 0 else replace(made, concurrency=made.prefetch)

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
