"""A scheduler that is driven by hand, and its spider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scrapy import Spider

from scrapy_rq_sched import Scheduler

URL = "http://example.com/"
Make = Callable[..., Scheduler]


class ExampleSpider(Spider):
    name = "example"

    def parse(self, response: Any) -> None: ...

    def other(self, response: Any) -> None: ...


def urls(scheduler: Scheduler) -> list[str]:
    taken = []
    while (request := scheduler.next_request()) is not None:
        taken.append(request.url)
    return taken
