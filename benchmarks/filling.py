"""Requests that wait before a crawl begins, put there by the contenders' own queues."""

from __future__ import annotations

from typing import Any

import redis
import scrapy
import scrapy_redis.queue
from scrapy import Request

from scrapy_rq_sched import queue

from .arena import OURS
from .project.bench.site import page_url

#: Requests that are sent to Redis at a time.
_AT_ONCE = 1000


class Spider(scrapy.Spider):
    """Stands for the spider whose queue it is."""

    def parse(self, response: Any) -> None:
        """Be a callback."""


def queue_of(
    name: str, server: Any, kind: str = "PriorityQueue", serializer: Any = None, spider: str = "graph"
) -> Any:
    """Return the queue of *kind* as the contender called *name* has it, for *spider*."""
    module = queue if name == OURS else scrapy_redis.queue
    return getattr(module, kind)(server, Spider(spider), "%(spider)s:requests", serializer)


def fill(waiting: Any, count: int, kind: str = "", first: int = 0) -> None:
    """Push requests to *waiting* as a crawl has them: with a callback, a depth and a ``Referer``.

    :param kind: ``leaf`` for pages without links.
    :param first: the number of the first page.
    """
    server = waiting.server
    with server.pipeline(transaction=False) as pipe:
        waiting.server = _Pushing(pipe)
        for number in range(first, first + count):
            url = page_url(number) + (f"?{kind}" if kind else "")
            headers = {"Referer": page_url(number // 10)}
            waiting.push(Request(url, waiting.spider.parse, meta={"depth": 5}, headers=headers))
            if number % _AT_ONCE == 0:
                pipe.execute()
        pipe.execute()
    waiting.server = server


class _Pushing:
    """Takes a queue's commands and sends them later; what it counts by is counted here."""

    def __init__(self, pipe: redis.client.Pipeline) -> None:
        self._pipe = pipe
        self._counted = 0

    def incr(self, key: str) -> int:
        self._counted += 1
        self._pipe.incr(key)
        return self._counted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipe, name)
