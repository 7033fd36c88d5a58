"""Requests that wait before a crawl begins, put there by the contenders' own code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

import redis
import scrapy
import scrapy_redis.queue
from scrapy import Request

from scrapy_rq_sched import queue
from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.frontier.messages import Batch, Push
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.serializers import serializer_name

from .arena import OURS
from .project.bench.site import page_url

#: Requests that are sent to Redis at a time.
_AT_ONCE = 1000


class Spider(scrapy.Spider):
    """Stands for the spider whose queue it is."""

    def parse(self, response: Any) -> None:
        """Be a callback."""


def fill(
    name: str,
    server: redis.Redis,
    count: int,
    kind: str = "PriorityQueue",
    serializer: str | None = None,
    spider: str = "graph",
    leaves: bool = False,
    first: int = 0,
    dupefilter: str = "exact",
) -> None:
    """Have *count* requests wait, as the contender called *name* stores what a page links to.

    :param kind: the queue's class.
    :param leaves: whether their pages are to have no links.
    :param first: the number of the first page.
    :param dupefilter: what keeps the URLs seen, if it is ours.
    """
    module = queue if name == OURS else scrapy_redis.queue
    waiting = getattr(module, kind)(server, Spider(spider), "%(spider)s:requests", serializer)
    requests = _requests(count, waiting.spider, leaves, first)
    if name == OURS:
        _exchange(waiting, Keys(spider), requests, dupefilter)
    else:
        _push(waiting, requests)


def _requests(count: int, spider: Spider, leaves: bool, first: int) -> Iterator[Request]:
    """Yield requests as a crawl has them: with a callback, a depth and a ``Referer``."""
    for number in range(first, first + count):
        url = page_url(number) + ("?leaf" if leaves else "")
        yield Request(url, spider.parse, meta={"depth": 5}, headers={"Referer": page_url(number // 10)})


def fingerprint(number: int) -> str:
    """Return one like those that Scrapy makes."""
    return hashlib.sha1(b"%d" % number, usedforsecurity=False).hexdigest()


def mark(server: redis.Redis, keys: Keys, dupefilter: str, count: int) -> None:
    """Mark URLs as a worker does, for requests that it keeps in its own memory: nothing else is stored."""
    frontier = Frontier(server, keys, "marker", "priority", dupefilter=dupefilter)
    frontier.open({})
    for number, first in enumerate(range(0, count, _AT_ONCE), 1):
        fingerprints = map(fingerprint, range(first, min(first + _AT_ONCE, count)))
        frontier.exchange(Batch(number, pushes=[Push("filter", each, 0, b"") for each in fingerprints]))
    frontier.leave(finished=False, persist=True)


def _exchange(waiting: queue.Base, keys: Keys, requests: Iterator[Request], dupefilter: str) -> None:
    frontier = Frontier(waiting.server, keys, "filler", waiting.discipline, dupefilter=dupefilter)
    cls = type(waiting)
    made_with = {
        "SCHEDULER_QUEUE_CLASS": f"{cls.__module__}.{cls.__qualname__}",
        "SCHEDULER_SERIALIZER": serializer_name(waiting.serializer),
    }
    frontier.open(made_with)
    number = 0
    while some := list(islice(requests, _AT_ONCE)):
        number += 1
        pushes = [Push("force", "", request.priority, waiting.encode_request(request)) for request in some]
        frontier.exchange(Batch(number, pushes=pushes))
    frontier.leave(finished=False, persist=True)


def _push(waiting: Any, requests: Iterator[Request]) -> None:
    server = waiting.server
    with server.pipeline(transaction=False) as waiting.server:
        while some := list(islice(requests, _AT_ONCE)):
            for request in some:
                waiting.push(request)
            waiting.server.execute()
    waiting.server = server
