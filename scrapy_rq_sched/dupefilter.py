"""Duplicates are filtered by a set of fingerprints in Redis that all workers share."""

from __future__ import annotations

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
from .frontier.scripts import filter_step
from .settings import FrontierSettings

logger = logging.getLogger(__name__)


class RFPDupeFilter(BaseDupeFilter):
    """Filters duplicates by the crawler's own request fingerprint, for the whole fleet, exactly.

    With :class:`scrapy_rq_sched.Scheduler` no call of this class reaches Redis: the exchange asks
    and marks in the same step as it queues. With Scrapy's own scheduler :meth:`request_seen` asks
    Redis, and the event loop waits for the answer.

    What waits for Redis raises redis-py's errors, if that does not answer.

    :param server: a redis-py client.
    :param key: the key of the set, with no template in it.
    :param debug: whether to log every duplicate, not only the first (``DUPEFILTER_DEBUG``).
    :param fingerprinter: an object with ``fingerprint(request)``, which returns bytes; by default, Scrapy's
        default one.
    """

    #: The part of the scripts that keeps what was seen in this way: ``lua/filter/<kind>.lua``.
    kind: ClassVar[str] = "exact"
    #: What :meth:`log` logs to; a subclass's ``log`` may use it, as in scrapy-redis.
    logger: ClassVar[logging.Logger] = logger

    def __init__(self, server: Any, key: str, debug: bool = False, fingerprinter: Any = None) -> None:
        self.server = server
        self.key = key
        self.debug = debug
        self.fingerprinter = fingerprinter or RequestFingerprinter()
        #: Whether the first duplicate is still to be logged.
        self.logdupes = True

    @classmethod
    def from_settings(cls, settings: Any) -> Self:
        """Return a filter for standalone use: its key has the time in it, so it is shared by nobody.

        :param settings: Scrapy's.
        :raises SettingError: if redis-py refuses what they say of Redis.
        """
        server = connection.get_client(settings)
        key = keys.STANDALONE_DUPEFILTER % {"timestamp": int(time.time())}
        return cls(server, key, settings.getbool("DUPEFILTER_DEBUG"))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the filter of *crawler*'s spider; every crawler of that spider shares it.

        :raises SettingError: if a setting has a value that it may not have.
        """
        settings = crawler.settings
        read = FrontierSettings.from_settings(settings)
        name = (crawler.spider or crawler.spidercls).name
        server = connection.get_client(settings)
        return cls(
            server,
            connection.expand_key(server, read.dupefilter_key, name, read.job),
            settings.getbool("DUPEFILTER_DEBUG"),
            crawler.request_fingerprinter,
        )

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """Return the filter of *spider*, for a script: the scheduler makes its own."""
        return cls.from_crawler(spider.crawler)

    def request_seen(self, request: Request) -> bool:
        """Mark *request* as seen, and return whether it was before. Waits for Redis."""
        return not self.server.sadd(self.key, self.request_fingerprint(request))

    def request_fingerprint(self, request: Request) -> str:
        """Return the fingerprint of *request*, in hexadecimal."""
        fingerprint: bytes = self.fingerprinter.fingerprint(request)
        return fingerprint.hex()

    def forget(self, request: Request) -> bool:
        """Have *request* count as not seen, and return whether it was. Waits for Redis.

        While a crawl runs its workers may still remember it, until the frontier's epoch changes.
        """
        return bool(self.server.srem(self.key, self.request_fingerprint(request)))

    def clear(self) -> None:
        """Forget all fingerprints. Waits for Redis."""
        self.server.unlink(self.key)

    def close(self, reason: str = "") -> None:
        """Do nothing: what was seen is the fleet's, and stays. :meth:`clear` forgets it.

        :param reason: why the spider closes.
        """

    def log(self, request: Request, spider: Spider) -> None:
        """Log and count that *request* of *spider* was filtered."""
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
    """As :class:`RFPDupeFilter`, in a tenth of the memory, by 62 bits of each fingerprint.

    Of *n* URLs seen, a new one is taken for one of them with a probability of *n* / (2³² · 10⁹): at 10⁹
    URLs, 1 in 4 · 10⁹. An exact filter at the same key is converted, by and by, while the crawl runs.
    ``lua/filter/compact.lua`` says how it is kept.
    """

    kind: ClassVar[str] = "compact"

    @cached_property
    def _step(self) -> Callable[..., int]:
        return filter_step(self.server, self.key, self.kind)

    def request_seen(self, request: Request) -> bool:
        """Mark *request* as seen, and return whether it was before. Waits for Redis."""
        return not self._step("add", self.request_fingerprint(request))

    def forget(self, request: Request) -> bool:
        """Have *request* count as not seen, and return whether it was. Waits for Redis."""
        return bool(self._step("remove", self.request_fingerprint(request)))

    def clear(self) -> None:
        """Forget all fingerprints. Waits for Redis."""
        self._step("clear")
        while self._step("sweep"):
            pass
