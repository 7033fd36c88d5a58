"""Seeds that anybody may have pushed: each is crawled or set aside, and writes no line of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import strategies as st
from scrapy import Request, Spider
from scrapy.http import TextResponse
from scrapy.logformatter import LogFormatter

from scrapy_rq_sched.codec.request import request_to_dict
from scrapy_rq_sched.codec.seeds import request_from_seed
from scrapy_rq_sched.errors import SeedError, UnknownCodeError, UnserializableRequestError, one_line
from scrapy_rq_sched.serializers import JSONSerializer

from ..project.crawls.graph import page_url
from .hostile import as_json, blobs, mutated, raw, texts
from .oracle import Complaint, crash, one_line_faults
from .requests import requests, urls
from .target import Target
from .workers import SPIDER, crawl

REAL = [
    page_url(1),
    json.dumps({"url": page_url(2), "meta": {"depth": 3}, "priority": 5}),
    json.dumps({"url": page_url(3), "method": "POST", "body": "a=1", "headers": {"Referer": page_url(1)}}),
    json.dumps({"url": page_url(4), "callback": "other", "cb_kwargs": {"page": 4}, "cookies": {"a": "b"}}),
]


class _Spider(Spider):
    name = SPIDER

    def parse(self, response: Any, **kwargs: Any) -> None:
        pass

    other = failed = parse


class Seeds(Target):
    """Texts in the list of seeds."""

    name = "seeds"
    batch = 400

    def cases(self) -> st.SearchStrategy[str]:
        return st.one_of(
            requests().map(as_json),
            requests().map(as_json),
            mutated(REAL),
            urls().map(_without_surrogates),
            texts().map(_without_surrogates),
            blobs(),
        )

    def examine(self, cases: list[str]) -> Iterator[Complaint]:
        seeds = [seed for seed in map(raw, cases) if seed]
        server = self.world.server
        server.flushall()
        for start in range(0, len(seeds), 100):
            server.rpush(f"{SPIDER}:start_urls", *seeds[start : start + 100])
        yield from crawl(self.world, len(seeds))

    def alone(self, case: str) -> Iterator[Complaint]:
        return _in_process(raw(case))

    def simpler(self, case: str) -> Iterable[str]:
        return simpler_json(case)


def _in_process(seed: bytes) -> Iterator[Complaint]:
    """Make a request of *seed* as a worker does, store it, and have Scrapy log it."""
    place = "a seed in this process"
    spider = _Spider()
    try:
        made = request_from_seed(seed, spider)
    except (SeedError, UnknownCodeError) as error:
        yield from one_line_faults(one_line(error), "reason of a seed that is set aside")
        return
    except Exception as error:
        yield crash(error, place)
        return
    try:
        JSONSerializer().dumps(request_to_dict(made, spider))
    except UnserializableRequestError as error:
        yield from one_line_faults(one_line(error), "reason of a request that is crawled from memory")
    except Exception as error:
        yield crash(error, place)
    yield from logged(made, spider)


def logged(request: Request, spider: Spider) -> Iterator[Complaint]:
    """Yield what is wrong with the line that Scrapy logs of each page."""
    said: Any = LogFormatter().crawled(request, TextResponse(request.url), spider)
    line = said["msg"] % said["args"]
    for complaint in one_line_faults(line, "line of a page that is crawled"):
        fields = {
            "method": request.method,
            "url": request.url,
            "Referer": str(request.headers.get("Referer")),
            "flags": str(request.flags),
        }
        odd = [name for name, text in fields.items() if not text.isprintable()] or ["the rest"]
        yield complaint._replace(kind=f"{complaint.kind}: {', '.join(odd)}")


def simpler_json(case: str) -> Iterator[str]:
    """Yield *case*, which may be a JSON object, without a field, and with simpler ones."""
    try:
        fields = json.loads(case)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        yield from (case[: len(case) // 2], case[len(case) // 2 :]) if len(case) > 8 else ()
        return
    for name, value in fields.items():
        rest = {other: one for other, one in fields.items() if other != name}
        if name != "url":
            yield as_json(rest)
        if isinstance(value, dict) and value:
            yield from (
                as_json({**rest, name: {k: v for k, v in value.items() if k != key}}) for key in value
            )
        if isinstance(value, str) and len(value) > 8:
            yield from (as_json({**rest, name: part}) for part in (value[:-4], value[4:]))


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
