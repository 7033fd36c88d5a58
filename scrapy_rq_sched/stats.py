"""A stats collector that adds up the statistics of a whole fleet in Redis."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from scrapy import Spider, version_info
from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector
from typing_extensions import Self

from . import connection, keys
from .collect.item_store import REPEATED_WITHIN
from .collect.pending_stats import Tally
from .collect.stat_values import decode, encode, is_number
from .engine.bridge import find_engine, find_scheduler, is_shell
from .errors import FrontierError
from .frontier.close_limits import FINISHED_BY
from .frontier.scripts import register
from .runtime import identity
from .runtime.outage import Outage
from .settings import FrontierSettings

logger = logging.getLogger(__name__)

#: Seconds between two updates.
INTERVAL = 1.0
#: Seconds to try to reach Redis at the end of a crawl.
PATIENCE = 5.0
#: Seconds to keep the statistics of a finished crawl, unless ``SCHEDULER_PERSIST`` is true.
KEPT = 86_400


class RedisStatsCollector(StatsCollector):
    """Adds up the statistics of all workers of a spider in a Redis hash. To use it, set ``STATS_CLASS``.

    Once a second, a thread sends this worker's changes to Redis, and reads the values of the fleet. No method
    waits for Redis.

    - Sums, maxima and minima (``inc_value``, ``max_value``, ``min_value``) have the value of the whole fleet,
      at most about a second old, together with this worker's later changes.
    - A value that this worker has set (``set_value``) is read as this worker set it. Redis has the value that
      any worker set last.
    - The dump at the end of the log shows only this worker's statistics.

    :param crawler: the crawler that provides the settings.
    """

    server: Any = None

    def __init__(self, crawler: Crawler, spider: Spider | None = None) -> None:
        super().__init__(crawler)
        self._crawler = crawler  # not kept by Scrapy 2.13
        self.spider = spider
        self.spider_name = spider.name if spider else crawler.spidercls.name
        self._refusal: FrontierError | None = None
        try:
            settings = FrontierSettings.from_settings(crawler.settings)
            self.server = connection.get_client(crawler.settings, retry=connection.no_retry())
        except FrontierError as error:
            settings, self._refusal = FrontierSettings(), error
        self.stats_key = settings.stats_key
        self._job = settings.job
        self.persist = settings.persist
        self._tally = Tally(self._begin)
        # For the methods that are called most: looking up an attribute of a collector is slow.
        self._change = self._tally.change
        self._teller: _Teller | None = None
        self._is_open = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return a collector for *crawler*."""
        return cls(crawler)

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """Return a collector for *spider*."""
        return cls(spider.crawler, spider)

    def _get_key(self, spider: Spider | None = None) -> str:
        """Return the key of the hash. A subclass may override this method."""
        spider = spider or self.spider
        name = spider.name if spider else self.spider_name or "scrapy"
        return connection.expand_key(self.server, self.stats_key, name, self._job)

    # -- reading -----------------------------------------------------------------------------------

    def get_value(self, key: str, default: Any = None, spider: Spider | None = None) -> Any:
        """Return the value of *key*, or *default*."""
        self._tally.begin()
        if key in self._tally.own:
            return self._stats.get(key, default)
        return self._tally.get(key, default)

    def get_stats(self, spider: Spider | None = None) -> dict[str, Any]:
        """Return all values."""
        return {key: self.get_value(key) for key in {*self._tally.keys(), *self._tally.own}}

    # -- changing ----------------------------------------------------------------------------------

    @property
    def own_stats(self) -> dict[str, Any]:
        """This worker's statistics, without those of other workers."""
        return dict(self._stats)

    def set_value(self, key: str, value: Any, spider: Spider | None = None) -> None:
        """Set *key* to *value*, of any type."""
        super().set_value(key, value)
        self._change(key, "set", value)

    def set_stats(self, stats: dict[str, Any], spider: Spider | None = None) -> None:
        """Set all values in *stats*. Other values in Redis stay."""
        super().set_stats(dict(stats))
        for key, value in stats.items():
            self.set_value(key, value)

    def inc_value(self, key: str, count: int = 1, start: int = 0, spider: Spider | None = None) -> None:
        """Add *count* to *key*, a sum of the whole fleet that begins at *start*."""
        super().inc_value(key, count, start)
        if is_number(count) and is_number(start):
            self._change(key, "add", count, start)
        else:
            self._change(key, "set", self._stats[key])

    def max_value(self, key: str, value: Any, spider: Spider | None = None) -> None:
        """Set *key* to *value* if *value* is higher than the highest value of any worker."""
        super().max_value(key, value)
        if is_number(value):
            self._change(key, "max", value)
        else:  # such as a date: Redis cannot compare it
            self._change(key, "set", self._stats[key])

    def min_value(self, key: str, value: Any, spider: Spider | None = None) -> None:
        """Set *key* to *value* if *value* is lower than the lowest value of any worker."""
        super().min_value(key, value)
        if is_number(value):
            self._change(key, "min", value)
        else:
            self._change(key, "set", self._stats[key])

    def clear_stats(self, spider: Spider | None = None) -> None:
        """Delete all values, including those of the fleet."""
        super().clear_stats()
        self._tally.clear()

    # -- the crawl ---------------------------------------------------------------------------------

    def open_spider(self, spider: Spider | None = None) -> None:
        """Begin to send changes to Redis."""
        self.spider = spider or self._crawler.spider
        engine = find_engine(self._crawler)
        refused = getattr(find_scheduler(self._crawler), "refused", False)
        if self._refusal is not None and not refused:
            logger.error("The statistics of this worker are not added to those in Redis: %s", self._refusal)
        # A shell does not add to the statistics of the fleet.
        self._is_open = not (refused or is_shell(engine))
        self._tally.begin()

    def close_spider(self, spider: Spider | None = None, reason: str | None = None) -> None:
        """Send the last changes. The process waits for this, but only a few seconds if Redis does not answer.

        If the crawl is finished, and ``SCHEDULER_PERSIST`` is false, the statistics get a time to live.

        :param reason: why the spider closes.
        """
        if version_info >= (2, 14):
            super().close_spider(reason=reason)
        else:
            super().close_spider(spider, reason)
        if self._teller is not None and self._is_open:
            self._teller.close(expire=reason in FINISHED_BY and not self.persist)
        self._is_open = False

    def _begin(self) -> None:
        if self.server is not None:
            self._teller = _Teller(self.server, self._tally, self._get_key, lambda: self._is_open)


class _Teller:
    """The thread that sends changes to Redis, and reads the fleet's values.

    :param is_open: a function that returns whether to send changes; if not, the thread only reads.
    """

    def __init__(self, server: Any, tally: Tally, key: Any, is_open: Any) -> None:
        self._script = register(server, "stats")
        self._worker = identity.worker_name()
        self._tally = tally
        self._key = key
        self._is_open = is_open
        self._has_joined = False
        # Calculated now: when a scheduler of this process has closed, age() is that of the next crawl.
        self._begun = time.monotonic() - identity.age()
        self._outage = Outage(server)
        self._backoff = connection.backoff(connection.LONGEST_BACKOFF)
        self._closing = threading.Event()
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._run, name="stats", daemon=True).start()

    def close(self, expire: bool) -> None:
        """Send the last changes, in a thread that the process waits for.

        :param expire: whether to give the statistics a time to live.
        """
        self._closing.set()
        threading.Thread(target=self._tell_rest, args=(expire,), name="stats-rest").start()

    def _run(self) -> None:
        pause = 0.0
        while not self._closing.wait(pause):
            with self._one_at_a_time:
                if not self._closing.is_set():
                    self._exchange(look=not self._is_open())
            failures = self._outage.failures
            pause = self._backoff.compute(failures) if failures else INTERVAL

    def _tell_rest(self, expire: bool) -> None:
        stop_by = time.monotonic() + PATIENCE
        with self._one_at_a_time:
            while not self._exchange(expire=expire) or self._tally.has_news:
                if time.monotonic() > stop_by:
                    logger.error(
                        "The last statistics of this worker were not stored, because Redis did not answer "
                        "for %g s. The sums of the fleet do not include them; the dump above does",
                        PATIENCE,
                    )
                    return
                time.sleep(self._backoff.compute(self._outage.failures))

    def _exchange(self, look: bool = False, expire: bool = False) -> bool:
        """Send changes (unless *look*) and read the fleet's values. Return whether Redis answered."""
        changes = None if look else self._tally.take()
        arguments: list[Any] = [int(look), int(not self._has_joined), int(expire), KEPT]
        age = int((time.monotonic() - self._begun) * 1000)
        arguments += [age, changes.number if changes else 0, REPEATED_WITHIN]
        arguments.append(int(changes is not None and changes.clear))
        of = changes.of if changes else {}
        arguments.append(len(of))
        for name, change in of.items():
            field = name.encode("utf-8", "backslashreplace")
            arguments += [change.how, field, encode(change.value), encode(change.start)]
        key = self._key()
        try:
            reply = self._script(keys=[key, keys.last_batch(key, self._worker)], args=arguments)
        except connection.RedisError as error:
            self._outage.failed(error, "the statistics are kept, and sent when Redis answers")
            return False
        self._outage.over()
        known = {reply[n].decode("utf-8", "replace"): decode(reply[n + 1]) for n in range(0, len(reply), 2)}
        if changes is None:
            self._tally.look(known)
        else:
            self._has_joined = True
            self._tally.settle(known)
        return True
