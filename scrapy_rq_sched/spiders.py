"""Spiders that stay open for more seeds. Any other spider takes seeds as well, and closes when done."""

from __future__ import annotations

from typing import Any

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.spiders import CrawlSpider, Spider
from scrapy.utils.misc import load_object
from typing_extensions import Self

from .errors import SettingError
from .identity import Stopwatch
from .scheduler import Scheduler
from .seeds import request_from_seed
from .settings import FrontierSettings


class RedisMixin:
    """Keeps a spider open when the frontier is empty, until ``MAX_IDLE_TIME_BEFORE_CLOSE``.

    :cvar redis_key: the seeds' key; by default that of ``REDIS_START_URLS_KEY``.
    :cvar redis_encoding: of the seeds; by default ``REDIS_ENCODING``.
    :cvar max_idle_time: seconds; by default ``MAX_IDLE_TIME_BEFORE_CLOSE``; 0 is for ever.
    """

    redis_key: str | None = None
    redis_encoding: str | None = None
    max_idle_time: float | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Return the spider for *crawler*."""
        spider: Self = super().from_crawler(crawler, *args, **kwargs)  # type: ignore[misc]
        spider.setup_redis(crawler)
        return spider

    def setup_redis(self, crawler: Crawler) -> None:
        """Have the spider stay open.

        :raises SettingError: if the scheduler is not ours, so that no seed would ever be read.
        """
        path = crawler.settings["SCHEDULER"]
        given = self.max_idle_time
        # Not issubclass(): Scrapy's metaclass says yes to anything with the right method names.
        if Scheduler not in getattr(load_object(path), "__mro__", ()):
            raise SettingError(
                f"SCHEDULER is {path!r}; a RedisSpider needs 'scrapy_rq_sched.Scheduler' to read seeds"
            )
        if self.max_idle_time is not None:
            try:
                self.max_idle_time = float(self.max_idle_time)
                bad = not self.max_idle_time >= 0
            except (TypeError, ValueError):
                bad = True
            if bad:
                raise SettingError(f"max_idle_time is {given!r}; it may be a number of 0 or more")
        self._idle = Stopwatch()
        crawler.signals.connect(self.spider_idle, signals.spider_idle)
        crawler.signals.connect(self._busy, signals.request_reached_downloader)

    def make_request_from_data(self, data: bytes) -> Request:
        """Return the request that a seed asks for. Override it for seeds of another form.

        Whatever it raises sets the seed aside, with the error.

        :param data: the seed as it is in Redis.
        """
        encoding = self.redis_encoding or self.settings.get("REDIS_ENCODING") or "utf-8"  # type: ignore[attr-defined]
        return request_from_seed(data, self, encoding)  # type: ignore[arg-type]

    def spider_idle(self) -> None:
        """Keep the spider open, unless it has been idle for too long."""
        self._idle.set(True)
        longest = self.max_idle_time
        if longest is None:
            longest = FrontierSettings.from_settings(self.settings).max_idle_time  # type: ignore[attr-defined]
        if not longest or self._idle.seconds < longest:
            raise DontCloseSpider

    def _busy(self) -> None:
        self._idle.set(False)


class RedisSpider(RedisMixin, Spider):
    """A spider that is fed with seeds and stays open for more."""


class RedisCrawlSpider(RedisMixin, CrawlSpider):
    """A ``CrawlSpider`` that is fed with seeds and stays open for more."""
