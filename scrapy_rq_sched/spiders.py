"""Spiders that stay open for more seeds. Any other spider takes seeds too, but closes when it has none."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.spiders import CrawlSpider, Spider
from scrapy.utils.misc import load_object
from typing_extensions import Self

from . import connection
from .assembly.keys import load_keys
from .codec.seeds import request_from_seed
from .engine.bridge import end_crawl, find_scheduler
from .errors import FrontierError, SettingError
from .scheduler import Scheduler
from .settings import FrontierSettings

logger = logging.getLogger(__name__)

#: Methods that a spider for scrapy-redis may override to read seeds. This package does not call them.
_NOT_CALLED = ("fetch_data", "pop_list_queue", "pop_priority_queue")
#: Methods that may call these, if the user overrides them.
_CALLERS = ("next_requests", "schedule_next_requests", "spider_idle")


class RedisMixin:
    """Keeps a spider open when the frontier is empty, until ``MAX_IDLE_TIME_BEFORE_CLOSE``.

    :cvar redis_key: the key of the seeds, or a list of keys; by default ``REDIS_START_URLS_KEY``.
    :cvar redis_encoding: the encoding of the seeds; by default ``REDIS_ENCODING``.
    :cvar max_idle_time: the longest idle time of the fleet, in seconds; 0 for no limit. The default is
        ``MAX_IDLE_TIME_BEFORE_CLOSE``.
    :cvar redis_batch_size: the maximum number of seeds in an exchange; by default
        ``REDIS_START_URLS_BATCH_SIZE``. If the spider does not set it, its value is ``CONCURRENT_REQUESTS``,
        as in scrapy-redis: an own :meth:`next_requests` can pass it to :meth:`fetch_data`.
    """

    redis_key: str | list[str] | None = None
    redis_encoding: str | None = None
    max_idle_time: float | None = None
    redis_batch_size: int | None = None
    #: A client for the spider's own commands, as in scrapy-redis. The event loop waits for each command.
    server: Any = None
    #: The value of ``redis_batch_size`` if the spider did not set it; the scheduler then uses its setting.
    default_batch_size: int | None = None
    _form_data = False
    _idle_since = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Return the spider for *crawler*."""
        spider: Self = super().from_crawler(crawler, *args, **kwargs)  # type: ignore[misc]
        spider.setup_redis(crawler)
        return spider

    def setup_redis(self, crawler: Crawler | None = None) -> None:
        """Keep the spider open, and set its attributes from the settings if the spider does not set them.

        :param crawler: by default, the spider's crawler.
        :raises ValueError: if the spider has no crawler.
        """
        crawler = crawler or getattr(self, "crawler", None)
        if crawler is None:
            raise ValueError(
                "setup_redis() must be called with a crawler, because this spider does not have one yet"
            )
        with suppress(FrontierError):  # the scheduler reports a setting or a key that is wrong
            settings = FrontierSettings.from_settings(crawler.settings)
            self._form_data = settings.seed_form_data
            self._fill_in_numbers(settings)
            if self.server is None:
                self.server = connection.get_redis_from_settings(crawler.settings)
            name: str = self.name  # type: ignore[attr-defined]
            expanded = load_keys(settings, self.server, name, self.redis_key).start_urls
            if "%" not in "".join(expanded):  # with a %, the key would be read as a template again
                self.redis_key = expanded if len(expanded) > 1 else expanded[0]
        self.redis_encoding = self.redis_encoding or crawler.settings.get("REDIS_ENCODING") or "utf-8"
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self.spider_idle, signals.spider_idle)

    def _fill_in_numbers(self, settings: FrontierSettings) -> None:
        # With `-a` the values are text. A text that is not a number is refused when the crawl starts.
        if self.redis_batch_size is None:
            self.redis_batch_size = self.default_batch_size = settings.concurrency
        with suppress(TypeError, ValueError):
            self.redis_batch_size = int(self.redis_batch_size)
        if self.max_idle_time is None:
            self.max_idle_time = settings.max_idle_time
        with suppress(SettingError):
            longest = self._longest_idle()
            self.max_idle_time = int(longest) if longest.is_integer() else longest

    def check_setup(self) -> None:
        """Check the settings that the spider depends on. Call it when add-ons have changed the settings.

        :raises SettingError: if the scheduler is not of this package, so that no seed would be read, or if
            the longest idle time is not a number.
        """
        path = self.settings["SCHEDULER"]  # type: ignore[attr-defined]
        # Not issubclass(): Scrapy's metaclass accepts any class that has methods with the right names.
        if Scheduler not in getattr(load_object(path), "__mro__", ()):
            raise SettingError(
                f"SCHEDULER must be 'scrapy_rq_sched.Scheduler', not {path!r}: a RedisSpider needs it to "
                "read seeds"
            )
        self._longest_idle()

    def _longest_idle(self) -> float:
        if self.max_idle_time is None:
            return FrontierSettings.from_settings(self.settings).max_idle_time  # type: ignore[attr-defined]
        try:
            longest = float(self.max_idle_time)
        except (TypeError, ValueError):
            longest = math.nan
        if not longest >= 0:
            raise SettingError(f"max_idle_time must be a number ≥ 0, not {self.max_idle_time!r}")
        return longest

    def _opened(self) -> None:
        for name in _NOT_CALLED:
            if self._overrides(name) and not any(map(self._overrides, _CALLERS)):
                logger.warning(
                    "Spider %r defines its own %s, which is not called: the scheduler takes the seeds. "
                    "Override make_request_from_data for these, or next_requests for other requests",
                    *(self.name, name),  # type: ignore[attr-defined]
                )
        try:
            self.check_setup()
        except SettingError as error:
            logger.error("The crawl cannot start: %s", error)
            end_crawl(self.crawler, "frontier_error")  # type: ignore[attr-defined]

    def _overrides(self, name: str) -> bool:
        return name in vars(self) or getattr(type(self), name) is not getattr(RedisMixin, name)

    def make_request_from_data(self, data: bytes) -> Request:
        """Return the request for a seed. Override it for seeds of another form.

        It may return several requests, or None to ignore the seed. If it raises an exception, the seed is set
        aside with this error.

        :param data: the seed, as it is in Redis.
        """
        encoding = self.redis_encoding or "utf-8"
        return request_from_seed(data, self, encoding, self._form_data)  # type: ignore[arg-type]

    def next_requests(self) -> Iterable[Request]:
        """Return requests from another source when the fleet is idle. By default there are none.

        This method does not get the seeds: the scheduler leases them before the spider is idle. A method
        that was written for scrapy-redis may call :meth:`fetch_data`, which returns only the latest seeds.
        """
        return ()

    def fetch_data(self, redis_key: str | list[str], batch_size: int) -> list[Any]:
        """Remove up to *batch_size* seeds from Redis and return them, for an own :meth:`next_requests`.

        These seeds are not leased: they are lost if the worker is killed before their requests are stored.
        The event loop waits for Redis.

        :param redis_key: the key of a list, a set or a sorted set; or a list of keys.
        :param batch_size: the maximum number of seeds, at least 1.
        :raises scrapy.exceptions.DontCloseSpider: if Redis does not answer, so that an idle spider stays
            open.
        """
        seeds: list[Any] = []
        most = max(1, batch_size)
        for key in _each(redis_key):
            kind = self._type_of(key)
            with self._stays_open():
                if kind == "set":
                    seeds += self.server.spop(key, most - len(seeds))
                elif kind == "zset":
                    seeds += self.pop_priority_queue(key, most - len(seeds))
                elif kind == "list":
                    seeds += self.pop_list_queue(key, most - len(seeds))
            if len(seeds) >= most:
                break
        return seeds

    def pop_list_queue(self, redis_key: str, batch_size: int) -> list[Any]:
        """Remove and return up to *batch_size* seeds from the head of a list. The event loop waits for Redis.

        :param redis_key: the key of the list.
        :param batch_size: the maximum number of seeds.
        """
        return self.server.lpop(redis_key, batch_size) or []

    def pop_priority_queue(self, redis_key: str, batch_size: int) -> list[Any]:
        """Remove and return up to *batch_size* seeds from a sorted set, the highest scores first.

        The event loop waits for Redis.

        :param redis_key: the key of the sorted set.
        :param batch_size: the maximum number of seeds.
        """
        return [seed for seed, _ in self.server.zpopmax(redis_key, batch_size)]

    def count_size(self, redis_key: str | list[str]) -> int:
        """Return the number of seeds that wait in Redis. The event loop waits for Redis.

        :param redis_key: the key of a list, a set or a sorted set; or a list of keys.
        :raises scrapy.exceptions.DontCloseSpider: as :meth:`fetch_data`.
        """
        count = 0
        for key in _each(redis_key):
            size = {"list": "llen", "set": "scard", "zset": "zcard"}.get(self._type_of(key))
            with self._stays_open():
                count += getattr(self.server, size)(key) if size else 0
        return count

    def _type_of(self, key: str) -> str:
        with self._stays_open():
            kind: str | bytes = self.server.type(key)
            return kind.decode() if isinstance(kind, bytes) else kind

    @contextmanager
    def _stays_open(self) -> Iterator[None]:
        # Otherwise an error of Redis would make Scrapy close the idle spider, though seeds may be waiting.
        try:
            yield
        except connection.RedisError as error:
            logger.warning(
                "Spider %r could not ask for more requests. It stays open, and asks again: %s",
                self.name,  # type: ignore[attr-defined]
                connection.describe_error(self.server, error),
            )
            raise DontCloseSpider from error

    @property
    def spider_idle_start_time(self) -> int:
        """The time since which the whole fleet has been idle, in seconds since 1970; now, if it is not idle.

        If it was set to a later time, this later time is returned.
        """
        crawler = getattr(self, "crawler", None)
        idle = getattr(crawler and find_scheduler(crawler), "idle_seconds", 0.0)
        return max(self._idle_since, int(time.time() - idle))

    @spider_idle_start_time.setter
    def spider_idle_start_time(self, value: int) -> None:
        self._idle_since = value

    def schedule_next_requests(self) -> None:
        """Give the requests of :meth:`next_requests` to Scrapy."""
        with self._stays_open():
            for request in self.next_requests():
                self.crawler.engine.crawl(request)  # type: ignore[attr-defined]

    def spider_idle(self) -> None:
        """Keep the spider open, unless the whole fleet has been idle for too long."""
        self.schedule_next_requests()
        longest = self._longest_idle()
        scheduler = find_scheduler(self.crawler)  # type: ignore[attr-defined]
        if getattr(scheduler, "is_aside", False):  # another scheduler lacks the attribute, and is refused
            return  # commands such as `scrapy fetch` end when they have fetched their page
        if not longest or scheduler is None or scheduler.idle_seconds < longest:
            raise DontCloseSpider


def _each(redis_key: str | list[str]) -> list[str]:
    return [redis_key] if isinstance(redis_key, str) else redis_key


class RedisSpider(RedisMixin, Spider):
    """A spider that takes seeds, and stays open for more."""


class RedisCrawlSpider(RedisMixin, CrawlSpider):
    """A ``CrawlSpider`` that takes seeds, and stays open for more."""
