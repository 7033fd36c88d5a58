"""An item pipeline that appends items to a list in Redis, for another program to process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.utils.defer import maybe_deferred_to_future
from typing_extensions import Self

from . import connection, keys
from .codec.items import default_serialize, item_bytes
from .collect.item_store import ItemStore
from .engine.bridge import end_crawl, find_scheduler, is_closing, run_in_thread
from .errors import FrontierError, UnserializableItemError
from .runtime import identity
from .settings import FrontierSettings

logger = logging.getLogger(__name__)


class RedisPipeline:
    """Appends each item, serialized, to a list in Redis: ``RPUSH`` from a thread, with many items at a time.

    With ``FRONTIER_ITEMS``, :class:`scrapy_rq_sched.Scheduler` stores the items itself, each once: then this
    pipeline only passes them on, unless a subclass stores them in its own way.

    An item counts as processed when Redis has stored it. So :class:`scrapy_rq_sched.Scheduler` releases its
    page only after that; and while Redis does not answer, the number of waiting items is limited to the
    number that Scrapy processes at a time.

    The thread also calls :meth:`item_key` and the serializer.

    :param server: a redis-py client.
    :param key: the template of the list's key, with ``%(spider)s`` for the spider's name.
    :param serialize_func: a function that returns an item as text or bytes; by default as JSON.
    """

    #: Seconds to try to reach Redis when the spider closes.
    patience = FrontierSettings.lease_timeout
    _job = ""
    crawler: Crawler | None = None
    _store: ItemStore | None = None
    _refusal: FrontierError | None = None

    def __init__(
        self, server: Any, key: str = keys.ITEMS, serialize_func: Callable[[Any], Any] = default_serialize
    ) -> None:
        self.server = server
        self.key = key
        self.serialize = serialize_func

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Set the attribute ``crawler`` of pipelines that a subclass's own ``from_crawler`` makes."""
        super().__init_subclass__(**arguments)
        own = cls.__dict__.get("from_crawler")
        if isinstance(own, classmethod):
            make = own.__func__

            def from_crawler(cls: Any, crawler: Crawler, *arguments: Any, **options: Any) -> Any:
                pipeline = make(cls, crawler, *arguments, **options)
                pipeline.crawler = crawler
                return pipeline

            cls.from_crawler = classmethod(from_crawler)  # type: ignore[assignment]

    @classmethod
    def from_settings(cls, settings: Any) -> Self:
        """Return a pipeline made from ``REDIS_ITEMS_KEY`` and ``REDIS_ITEMS_SERIALIZER``.

        :raises SettingError: if a setting has a value that is not valid.
        """
        checked = FrontierSettings.from_settings(settings)
        # ItemStore repeats a batch after an outage. A user's own _process_item does not, so redis-py does.
        retry = {} if cls._waits() else {"retry": connection.no_retry()}
        arguments: dict[str, Any] = {"server": connection.get_client(settings, **retry)}
        if settings.get("REDIS_ITEMS_KEY"):
            arguments["key"] = checked.items_key
        if checked.items_serializer is not None:
            arguments["serialize_func"] = checked.items_serializer
        pipeline = cls(**arguments)
        pipeline.patience = checked.lease_timeout
        pipeline._job = checked.job
        return pipeline

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the pipeline of *crawler*.

        :raises SettingError: as :meth:`from_settings`; but a crawl is ended with one line in the log.
        """
        try:
            pipeline = cls.from_settings(crawler.settings)
        except FrontierError as error:
            if not crawler.crawling:
                raise
            pipeline = cls.__new__(cls)
            pipeline._refusal = error
            _refuse(crawler, error)
        pipeline.crawler = crawler
        return pipeline

    async def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        """Store *item*, and return it when Redis has stored it.

        :raises UnserializableItemError: if the item cannot be serialized. Other items are not affected.
        :raises ItemNotStoredError: if Redis did not answer while the spider was closing.
        """
        if self._refusal is not None:
            raise self._refusal
        spider = spider or self._spider()
        if self._leaves_items_to_scheduler():
            return item
        if self._waits():
            return await run_in_thread(self._process_item, item, spider)
        if self._store is None:
            self._store = self._make_store(spider)
        await maybe_deferred_to_future(self._store.append(partial(self._entry, item, spider)))
        return item

    async def close_spider(self, spider: Spider | None = None) -> None:
        """Wait until all items were stored, or were given up."""
        if self._store is not None:
            await maybe_deferred_to_future(self._store.close())

    def item_key(self, item: Any, spider: Spider) -> str:
        """Return the key of the list for *item*. Override it to use several lists."""
        return self._expanded(spider)

    def _expanded(self, spider: Spider) -> str:
        return connection.expand_key(self.server, self.key, spider.name, self._job)

    def _process_item(self, item: Any, spider: Spider) -> Any:
        """Store *item*, wait for Redis, and return the item.

        A subclass may override this method, as in scrapy-redis. A thread then calls it for each item.
        """
        self.server.rpush(*self._entry(item, spider))
        return item

    def _leaves_items_to_scheduler(self) -> bool:
        """Return whether the scheduler stores each item in this list with the release of its page."""
        cls = type(self)
        is_plain = cls.item_key is RedisPipeline.item_key and not self._waits()
        return is_plain and self.crawler is not None and stores_items(self.crawler)

    @classmethod
    def _waits(cls) -> bool:
        return cls._process_item is not RedisPipeline._process_item

    def _entry(self, item: Any, spider: Spider) -> tuple[bytes, bytes]:
        encode = self.server.get_encoder().encode
        key: bytes = encode(self.item_key(item, spider))
        try:
            return key, item_bytes(item, self.serialize, encode)
        except UnserializableItemError as error:
            raise UnserializableItemError(
                f"An item of spider {spider.name!r} cannot be stored: {error}"
            ) from error.__cause__

    def _spider(self) -> Spider:
        if self.crawler is None or self.crawler.spider is None:
            raise TypeError(
                "process_item() must be called with a spider, because this pipeline was not made by "
                "from_crawler()"
            )
        return self.crawler.spider

    def _make_store(self, spider: Spider) -> ItemStore:
        crawler = self.crawler or spider.crawler
        return ItemStore(
            self.server,
            keys.last_batch(self._expanded(spider), identity.worker_name()),
            is_closing=lambda: is_closing(crawler),
            given_up=lambda: _give_pages_back(crawler),
            patience=self.patience,
            count=lambda name, by: crawler.stats.inc_value(name, by),
        )


def stores_items(crawler: Crawler) -> bool:
    """Return whether the scheduler stores items with the release of their page (``FRONTIER_ITEMS``)."""
    settings = getattr(find_scheduler(crawler), "settings", None)
    return bool(getattr(settings, "items", ""))


def _give_pages_back(crawler: Crawler) -> None:
    scheduler = find_scheduler(crawler)
    if hasattr(scheduler, "give_back_begun"):  # this package's scheduler, or a subclass
        scheduler.give_back_begun()


def _refuse(crawler: Crawler, error: FrontierError) -> None:
    def opened() -> None:
        if getattr(find_scheduler(crawler), "refused", False):
            return  # this package's scheduler has logged the same error
        logger.error("The crawl cannot start: %s", error)
        end_crawl(crawler, "frontier_error")

    # Not weak: the signal has the only reference to the function.
    crawler.signals.connect(opened, signals.spider_opened, weak=False)
