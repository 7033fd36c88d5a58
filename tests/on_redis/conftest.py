"""Fixtures of the tests with a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scrapy import Spider
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import Scheduler

from ..support.by_hand import ExampleSpider, Make


@pytest.fixture
def make(redis_url: str) -> Iterator[Make]:
    opened: list[Scheduler] = []

    def scheduler(cls: type[Spider] = ExampleSpider, **settings: Any) -> Scheduler:
        crawler = get_crawler(cls, {"REDIS_URL": redis_url, **settings})
        made = Scheduler.from_crawler(crawler)
        made.open(cls.from_crawler(crawler))
        opened.append(made)
        return made

    yield scheduler
    for made in opened:
        made.server.close()
