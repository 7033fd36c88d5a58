"""What keeps a crawl from going faster, as ``status`` says it of real workers."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_rq_sched.inspect import View, read_status

from ..support.crawl import Fleet, wait_until

ENDLESS = {"GRAPH_PAGES": 10**6}


@pytest.mark.parametrize(
    ("limit", "spider", "settings"),
    [
        # The callbacks wait, and one response fills the scraper. A worker that computes without a pause is
        # busy only if other processes leave it a processor: tests/unit/test_bottleneck.py has that case.
        ("callbacks", "linger", {**ENDLESS, "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1}),
        ("concurrency", "graph", {**ENDLESS, "GRAPH_LATENCY": 0.2, "CONCURRENT_REQUESTS": 2}),
        (
            "politeness",
            "hosts",
            {**ENDLESS, "SPIDER_MODULES": "crawls.hosts", "HOSTS": 4, "DOWNLOAD_DELAY": 0.4},
        ),
    ],
)
def test_the_status_names_the_bottleneck_of_a_crawl(
    fleet: Fleet, redis_url: str, limit: str, spider: str, settings: dict[str, Any]
) -> None:
    fleet.start(spider, 2, **settings)
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), spider)
    wait_until(lambda: read_status(view).limit == limit, message=f"{limit} is not said")
    assert {worker.limit for worker in read_status(view).workers} <= {limit, "none"}
