"""Dupefilters: the fingerprints of all requests seen are in Redis, and all workers share them."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter
from scrapy.utils.request import RequestFingerprinter, referer_str
from typing_extensions import Self

from . import connection, keys
from .connection import get_redis_from_settings as get_redis_from_settings  # scrapy-redis has it here, too
from .frontier.scripts import filter_step
from .settings import FrontierSettings

logger = logging.getLogger(__name__)


class RFPDupeFilter(BaseDupeFilter):
    """Filters duplicate requests of the whole fleet exactly, by a Redis set of their fingerprints.

    With :class:`scrapy_rq_sched.Scheduler`, no method of this class sends a command to Redis: the exchange
    checks and records the fingerprint in the same step in which it queues the request. With Scrapy's own
    scheduler, :meth:`request_seen` sends a command to Redis, and the event loop waits for the answer.

    Methods that wait for Redis raise redis-py's errors if Redis does not answer.

    :param server: a redis-py client.
    :param key: the key of the set; not a template.
    :param debug: whether to log every duplicate, not only the first one (``DUPEFILTER_DEBUG``).
    :param fingerprinter: an object with ``fingerprint(request)``, which returns bytes; by default, Scrapy's
        ``RequestFingerprinter``.
    """

    #: The part of the scripts that stores fingerprints for this class: ``lua/store/filter/<kind>.lua``.
    kind: ClassVar[str] = "exact"
    #: The logger of :meth:`log`. As in scrapy-redis, a subclass's ``log`` may use it.
    logger: ClassVar[logging.Logger] = logger
    #: The object that makes the fingerprints. In a crawl, the crawler's, unless the constructor sets another.
    fingerprinter: Any = RequestFingerprinter()

    def __init__(self, server: Any, key: str, debug: bool = False, fingerprinter: Any = None) -> None:
        self.server = server
        self.key = key
        self.debug = debug
        if fingerprinter is not None:
            self.fingerprinter = fingerprinter
        #: Whether to log the next duplicate: True until the first one was logged.
        self.logdupes = True

    @classmethod
    def from_settings(cls, settings: Any) -> Self:
        """Return a filter for standalone use. Its key contains the time, so that no other filter shares it.

        :param settings: Scrapy's settings.
        :raises SettingError: if redis-py refuses the settings for Redis.
        """
        server = connection.get_client(settings)
        key = keys.STANDALONE_DUPEFILTER % {"timestamp": int(time.time())}
        return cls(server, key, settings.getbool("DUPEFILTER_DEBUG"))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the filter of *crawler*'s spider. All crawlers of this spider share it.

        :raises SettingError: if a setting has a value that is not valid.
        """
        settings = crawler.settings
        read = FrontierSettings.from_settings(settings)
        name = getattr(crawler.spider or crawler.spidercls, "name", None)
        if not name:
            # Scrapy makes the filter before the spider, whose name may be an argument.
            return cls.from_settings(settings)
        server = connection.get_client(settings)
        key = connection.expand_key(server, read.dupefilter_key, name, read.job)
        return cls.with_key(server, key, crawler)

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """Return the filter of *spider*.

        The scheduler calls this method only if a subclass overrides it; otherwise, it uses :meth:`with_key`.
        """
        return cls.from_crawler(spider.crawler)

    @classmethod
    def with_key(cls, server: Any, key: str, crawler: Crawler) -> Self:
        """Return a filter that keeps its fingerprints at *key*, with the settings of *crawler*.

        A subclass may have the constructor of scrapy-redis, which accepts no fingerprinter.
        """
        arguments = (server, key, crawler.settings.getbool("DUPEFILTER_DEBUG"))
        fingerprinter = crawler.request_fingerprinter
        try:
            inspect.signature(cls).bind(*arguments, fingerprinter=fingerprinter)
        except TypeError:
            made = cls(*arguments)
            made.fingerprinter = fingerprinter
            return made
        return cls(*arguments, fingerprinter=fingerprinter)

    def request_seen(self, request: Request) -> bool:
        """Mark *request* as seen, and return whether it was before. Waits for Redis."""
        return not self.server.sadd(self.key, self.request_fingerprint(request))

    def request_fingerprint(self, request: Request) -> str:
        """Return the fingerprint of *request*, in hexadecimal."""
        fingerprint: bytes = self.fingerprinter.fingerprint(request)
        return fingerprint.hex()

    def forget(self, request: Request) -> bool:
        """Mark *request* as not seen, and return whether it was seen before. Waits for Redis.

        Workers of a running crawl may still remember the request as seen, until the frontier's epoch changes.
        """
        return bool(self.server.srem(self.key, self.request_fingerprint(request)))

    def clear(self) -> None:
        """Forget all fingerprints. Waits for Redis."""
        self.server.unlink(self.key)

    def close(self, reason: str = "") -> None:
        """Do nothing: the fingerprints belong to the fleet, and stay. To delete them, call :meth:`clear`.

        :param reason: why the spider closes.
        """

    def log(self, request: Request, spider: Spider) -> None:
        """Log and count *request* as a duplicate that was filtered."""
        spider.crawler.stats.inc_value("dupefilter/filtered")
        if self.debug:
            self.logger.debug(
                "Filtered duplicate request: %(request)s (referer: %(referer)s)",
                {"request": request, "referer": referer_str(request)},
                extra={"spider": spider},
            )
        elif self.logdupes:
            self.logdupes = False
            self.logger.debug(
                "Filtered duplicate request: %(request)s - no more duplicates will be shown (see "
                "DUPEFILTER_DEBUG to show all duplicates)",
                {"request": request},
                extra={"spider": spider},
            )


class CompactDupeFilter(RFPDupeFilter):
    """Filters duplicates as :class:`RFPDupeFilter` does, in a tenth of the memory.

    It stores 62 bits of each fingerprint. When *n* URLs were seen, it mistakes a new URL for a duplicate with
    a probability of *n* / (2³² · 10⁹): at 10⁹ URLs, 1 in 4 · 10⁹. An exact filter at the same key is
    converted step by step while the crawl runs. For the format, see ``lua/store/filter/compact.lua``.
    """

    kind: ClassVar[str] = "compact"

    @cached_property
    def _step(self) -> Callable[..., int]:
        return filter_step(self.server, self.key, self.kind)

    def request_seen(self, request: Request) -> bool:
        """Mark *request* as seen, and return whether it was before. Waits for Redis."""
        return not self._step("add", self.request_fingerprint(request))

    def forget(self, request: Request) -> bool:
        """Mark *request* as not seen, and return whether it was seen before. Waits for Redis."""
        return bool(self._step("remove", self.request_fingerprint(request)))

    def clear(self) -> None:
        """Forget all fingerprints. Waits for Redis."""
        self._step("clear")
        while self._step("sweep"):
            pass
