"""Scrapy's own scheduler in memory, for requests outside the crawl: of a shell, or of a command."""

from __future__ import annotations

from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import load_object


def make_scheduler(crawler: Crawler, filters: bool) -> Scheduler:
    """Return a scheduler that is not shared, and ends with *crawler*.

    :param filters: whether duplicates are dropped.
    """
    settings = crawler.settings
    # from_crawler() would use the dupefilter of the settings, which the fleet shares.
    return Scheduler(
        RFPDupeFilter(fingerprinter=crawler.request_fingerprinter) if filters else BaseDupeFilter(),
        mqclass=load_object(settings["SCHEDULER_MEMORY_QUEUE"]),
        pqclass=load_object(settings["SCHEDULER_PRIORITY_QUEUE"]),
        stats=crawler.stats,
        crawler=crawler,
    )
