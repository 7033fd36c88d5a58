"""Crawls of a site of real pages by the spiders of ``crawls.real_site``, and what they have on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import redis

from ..support.crawl import Fleet, wait_until
from ..support.site import INDEX, Site

#: Each spider, and the one by which Scrapy alone crawls the same.
SPIDERS = {
    "follow": "follow",
    "rules": "rules",
    "map": "map",
    "feed": "feed",
    "redisfollow": "follow",
    "redisrules": "rules",
}
#: Scrapy as it comes; as much at a time as several workers.
IN_MEMORY = {
    "ADDONS": "{}",
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
    "CONCURRENT_REQUESTS": 16,
}
#: What happens during a crawl: it is given the fleet, and what starts a further worker.
During = Callable[[Fleet, Callable[[], None]], None]


@dataclass(frozen=True, repr=False)
class Crawl:
    """What a crawl has on record.

    :param parsed: how often each page was parsed.
    :param asked: how often each path was asked for.
    :param shares: how many pages each worker has parsed.
    """

    parsed: Counter[str]
    asked: Counter[str]
    items: Counter[str]
    shares: list[int]
    reasons: list[str]
    unserializable: float


def crawl(
    folder: Path,
    site: Site,
    spider: str,
    workers: int,
    url: str = "",
    client: redis.Redis | None = None,
    during: During | None = None,
    timeout: float = 60,
    **settings: object,
) -> Crawl:
    """Crawl *site* with so many workers, all of which are there before it answers the first request.

    :param folder: is made; the logs are there.
    :param url: of the Redis server.
    :param client: of the same, for the seeds of a RedisSpider.
    :param during: is called when the crawl goes on.
    """
    folder.mkdir()
    site.reset()
    fleet = Fleet(folder, url)
    # Not much at a time: there has to be something left for those who are slower to start.
    options = {
        "SPIDER_MODULES": "crawls.real_site",
        "CONCURRENT_REQUESTS": 4,
        "MAX_IDLE_TIME_BEFORE_CLOSE": 2,
        **settings,
    }

    def start(count: int = 1) -> None:
        environment = {"SITE_URL": site.url, "REAL_DOWNLOADS": "1"}
        fleet.start(spider, count, environment=environment, **options)

    try:
        start(workers)
        wait_until(lambda: len(fleet.events("opened")) == workers, message="not every worker opened")
        if client is not None and spider.startswith("redis"):
            client.lpush(f"{spider}:start_urls", f"{site.url}/{INDEX}")
        wait_until(lambda: site.asked, message="no page was asked for")
        site.gate.set()
        if during is not None:
            during(fleet, start)
        fleet.wait(timeout)
    finally:
        fleet.stop()
    return Crawl(
        fleet.urls("parsed"),
        site.asked,
        fleet.urls("item"),
        [len(fleet.events("parsed", worker)) for worker in range(len(fleet.workers))],
        fleet.reasons(),
        fleet.stat("scheduler/unserializable"),
    )
