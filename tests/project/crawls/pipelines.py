"""Pipelines as users of scrapy-redis write them."""

from __future__ import annotations

from scrapy_rq_sched.pipelines import RedisPipeline

from .record import record


class KeyedPipeline(RedisPipeline):
    """Sorts the items into two lists, and makes itself without its base's ``from_crawler``."""

    @classmethod
    def from_crawler(cls, crawler):
        return cls.from_settings(crawler.settings)

    def item_key(self, item, spider):
        return f"{spider.name}:{'even' if item['page'] % 2 == 0 else 'odd'}"


class BlockingPipeline(RedisPipeline):
    """Does what scrapy-redis calls in a thread, and waits there."""

    def _process_item(self, item, spider):
        item = super()._process_item({**item, "spider": spider.name}, spider)
        record("blocking", str(item["page"]))
        return item


class AfterPipeline:
    """Records an item when the pipelines before it are through with it."""

    def process_item(self, item, spider=None):
        record("after", str(item["page"]))
        return item


def upper_case(item):
    """Serialize in a way of the user's own."""
    return repr(item).upper()
