"""Spiders that stay open for more seeds. Any other spider takes seeds as well, and closes when done."""

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
from .codec.seeds import request_from_seed
from .engine.bridge import end_crawl, find_scheduler
from .engine.components import load_keys
from .errors import FrontierError, SettingError
from .scheduler import Scheduler
from .settings import FrontierSettings

logger = logging.getLogger(__name__)

#: By these a spider of scrapy-redis may read seeds in a way of its own. Nothing of ours calls them.
_NOT_CALLED = ("fetch_data", "pop_list_queue", "pop_priority_queue")
#: Only by these, when they are the user's own, can they be called.
_CALLERS = ("next_requests", "schedule_next_requests", "spider_idle")


class RedisMixin:
    """Keeps a spider open when the frontier is empty, until ``MAX_IDLE_TIME_BEFORE_CLOSE``.

    :cvar redis_key: the seeds' key, or several; by default that of ``REDIS_START_URLS_KEY``.
    :cvar redis_encoding: of the seeds; by default ``REDIS_ENCODING``.
    :cvar max_idle_time: seconds; by default ``MAX_IDLE_TIME_BEFORE_CLOSE``; 0 is for ever.
    :cvar redis_batch_size: seeds that an exchange takes; by default ``REDIS_START_URLS_BATCH_SIZE``. Where
        the spider has none, it is set to ``CONCURRENT_REQUESTS``, as in scrapy-redis, for a
        :meth:`next_requests` that asks :meth:`fetch_data` for so many.
    """

    redis_key: str | list[str] | None = None
    redis_encoding: str | None = None
    max_idle_time: float | None = None
    redis_batch_size: int | None = None
    #: A client for the spider's own commands, as in scrapy-redis. The event loop waits for each.
    server: Any = None
    #: The ``redis_batch_size`` that the spider did not choose: the scheduler has its own.
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
        """Have the spider stay open, and fill in what its attributes leave to the settings.

        :param crawler: by default the spider's.
        :raises ValueError: if there is none.
        """
        crawler = crawler or getattr(self, "crawler", None)
        if crawler is None:
            raise ValueError(
                "setup_redis() must be called with a crawler, because this spider does not have one yet"
            )
        with suppress(FrontierError):  # what is wrong with a setting or a key, the scheduler says
            settings = FrontierSettings.from_settings(crawler.settings)
            self._form_data = settings.seed_form_data
            self._fill_in_numbers(settings)
            if self.server is None:
                self.server = connection.get_redis_from_settings(crawler.settings)
            name: str = self.name  # type: ignore[attr-defined]
            expanded = load_keys(settings, self.server, name, self.redis_key).start_urls
            if "%" not in "".join(expanded):  # else it would not be taken for a template
                self.redis_key = expanded if len(expanded) > 1 else expanded[0]
        self.redis_encoding = self.redis_encoding or crawler.settings.get("REDIS_ENCODING") or "utf-8"
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self.spider_idle, signals.spider_idle)

    def _fill_in_numbers(self, settings: FrontierSettings) -> None:
        # With `-a` they are text. What is no number stays as it is, and is refused when the crawl starts.
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
        """Check what the spider depends on, once add-ons have had their say on the settings.

        :raises SettingError: if the scheduler is not ours, so that no seed would ever be read, or if
            the longest idle time is not a number.
        """
        path = self.settings["SCHEDULER"]  # type: ignore[attr-defined]
        # Not issubclass(): Scrapy's metaclass says yes to anything with the right method names.
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
        """Return the request that a seed asks for. Override it for seeds of another form.

        Whatever it raises sets the seed aside, with the error. It may return several requests, or None for a
        seed of which nothing is wanted.

        :param data: the seed as it is in Redis.
        """
        encoding = self.redis_encoding or "utf-8"
        return request_from_seed(data, self, encoding, self._form_data)  # type: ignore[arg-type]

    def next_requests(self) -> Iterable[Request]:
        """Return requests from elsewhere, when the fleet is idle: none, unless a subclass has some.

        Seeds do not come this way. They are leased by the scheduler, before the spider is idle. One that was
        written for scrapy-redis may call :meth:`fetch_data`, and gets the seeds that came a moment ago.
        """
        return ()

    def fetch_data(self, redis_key: str | list[str], batch_size: int) -> list[Any]:
        """Take up to *batch_size* seeds out of Redis, for a :meth:`next_requests` that does so by itself.

        They are not leased: they are lost if the worker is killed before their requests are stored. The event
        loop waits for Redis.

        :param redis_key: the key of a list, a set or a sorted set, or several.
        :param batch_size: how many to take; at least one is asked for.
        :raises scrapy.exceptions.DontCloseSpider: if Redis does not answer, so that a spider that asks when
            it is idle stays open.
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
        """Take up to *batch_size* seeds from the head of a list. The event loop waits for Redis.

        :param redis_key: the key of the list.
        :param batch_size: how many to take.
        """
        return self.server.lpop(redis_key, batch_size) or []

    def pop_priority_queue(self, redis_key: str, batch_size: int) -> list[Any]:
        """Take up to *batch_size* seeds from a sorted set, the highest scores first.

        The event loop waits for Redis.

        :param redis_key: the key of the sorted set.
        :param batch_size: how many to take.
        """
        return [seed for seed, _ in self.server.zpopmax(redis_key, batch_size)]

    def count_size(self, redis_key: str | list[str]) -> int:
        """Return how many seeds are in Redis and not yet taken. The event loop waits for Redis.

        :param redis_key: the key of a list, a set or a sorted set, or several.
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
        # Unreachable is not empty: an error of Redis, as any other, would have Scrapy close an idle spider.
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
        """Since when the whole fleet has been idle, in seconds since 1970; now, if it is not idle.

        If it was set to a later time, it is that.
        """
        crawler = getattr(self, "crawler", None)
        idle = getattr(crawler and find_scheduler(crawler), "idle_seconds", 0.0)
        return max(self._idle_since, int(time.time() - idle))

    @spider_idle_start_time.setter
    def spider_idle_start_time(self, value: int) -> None:
        self._idle_since = value

    def schedule_next_requests(self) -> None:
        """Give Scrapy what :meth:`next_requests` returns."""
        with self._stays_open():
            for request in self.next_requests():
                self.crawler.engine.crawl(request)  # type: ignore[attr-defined]

    def spider_idle(self) -> None:
        """Keep the spider open, unless the whole fleet has been idle for too long."""
        self.schedule_next_requests()
        longest = self._longest_idle()
        scheduler = find_scheduler(self.crawler)  # type: ignore[attr-defined]
        if getattr(scheduler, "is_aside", False):  # with another scheduler the spider is being refused
            return  # `scrapy fetch` and the like are over when they have what they were told to fetch
        if not longest or scheduler is None or scheduler.idle_seconds < longest:
            raise DontCloseSpider


def _each(redis_key: str | list[str]) -> list[str]:
    return [redis_key] if isinstance(redis_key, str) else redis_key


class RedisSpider(RedisMixin, Spider):
    """A spider that is fed with seeds and stays open for more."""


class RedisCrawlSpider(RedisMixin, CrawlSpider):
    """A ``CrawlSpider`` that is fed with seeds and stays open for more."""
