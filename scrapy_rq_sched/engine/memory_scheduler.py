"""Scrapy's own scheduler in memory, for what is fetched aside from the crawl: in a shell, or by a command."""

from __future__ import annotations

from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import load_object


def make_scheduler(crawler: Crawler, filters: bool) -> Scheduler:
    """Return a scheduler that nobody else shares, and that ends with *crawler*.

    :param filters: whether a duplicate is dropped.
    """
    settings = crawler.settings
    # Not from_crawler(): the dupefilter of the settings is the fleet's.
    return Scheduler(
        RFPDupeFilter(fingerprinter=crawler.request_fingerprinter) if filters else BaseDupeFilter(),
        mqclass=load_object(settings["SCHEDULER_MEMORY_QUEUE"]),
        pqclass=load_object(settings["SCHEDULER_PRIORITY_QUEUE"]),
        stats=crawler.stats,
        crawler=crawler,
    )
