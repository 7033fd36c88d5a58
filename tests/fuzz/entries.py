"""Entries that another program has put into the queue, in each serializer."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import msgpack
from hypothesis import strategies as st
from scrapy import Request, Spider

from scrapy_rq_sched.codec.request import request_from_dict
from scrapy_rq_sched.errors import PayloadError, UnknownCodeError, one_line
from scrapy_rq_sched.serializers import faithful, load_serializer

from ..project.crawls.graph import page_url
from .hostile import as_json, blobs, kept, mutated, raw
from .oracle import Complaint, crash, one_line_faults
from .requests import OF_SEEDS, requests
from .seeds import _Spider, logged, simpler_json
from .target import Target
from .workers import SPIDER, crawl

#: Serializers, each with what it makes of the fields of a request. Pickle runs what it reads: it is no entry.
SERIALIZERS = ("json", "json+deflate", "msgpack")
REAL = [
    {"url": page_url(1)},
    {"url": page_url(2), "method": "POST", "body": b"\x00\x01\xff", "meta": {"depth": 2}, "priority": -3},
    {"url": page_url(3), "callback": "other", "errback": "failed", "cb_kwargs": {"a": [1, {"b": None}]}},
    {"url": page_url(4), "headers": {"Referer": page_url(1)}, "cookies": {"a": "b"}, "_nonce": "1-2"},
    {"url": page_url(5), "_class": "scrapy.http.request.form.FormRequest", "dont_filter": True},
]


class Entries(Target):
    """Members of the queue's key. A case is the name of a serializer, and an entry.

    A worker reads one serializer, so that a batch has a worker for each.
    """

    name = "queue"
    batch = 400

    def cases(self) -> st.SearchStrategy[list[str]]:
        return st.one_of(*map(_of, SERIALIZERS))

    def examine(self, cases: list[list[str]]) -> Iterator[Complaint]:
        for name in SERIALIZERS:
            entries = {raw(entry) for serializer, entry in cases if serializer == name}
            if entries:
                # A queue that begins with a pickle is scrapy-redis's, which a worker refuses as a whole.
                yield from self._examine(name, sorted(entries | {_first(name)}, key=_is_pickle))

    def _examine(self, name: str, entries: list[bytes]) -> Iterator[Complaint]:
        server: Any = self.world.server
        server.flushall()
        for start in range(0, len(entries), 100):
            some = entries[start : start + 100]
            server.zadd(f"{SPIDER}:requests", {entry: start + n for n, entry in enumerate(some)})
        yield from crawl(self.world, len(entries), SCHEDULER_SERIALIZER=name)

    def alone(self, case: list[str]) -> Iterator[Complaint]:
        return _in_process(case[0], raw(case[1]))

    def simpler(self, case: list[str]) -> Iterable[list[str]]:
        name, entry = case
        if name == "json":
            yield from ([name, simpler] for simpler in simpler_json(entry))


def _first(name: str) -> bytes:
    """Return an entry that a worker can read."""
    return load_serializer(name).dumps(REAL[0])


def _is_pickle(entry: bytes) -> bool:
    return entry.startswith(pickle.PROTO)


def _of(name: str) -> st.SearchStrategy[list[str]]:
    """Return the entries of a serializer: hostile requests, real ones that are broken, and any bytes."""
    dumps = load_serializer(name).dumps
    real = [kept(dumps(fields)) for fields in REAL] + [kept(pickle.dumps({"url": page_url(1)}))]

    def written(fields: dict[str, Any]) -> str:
        try:
            return kept(msgpack.packb(fields) if name == "msgpack" else dumps(fields))
        except Exception:  # no program of ours writes it: another may
            return as_json(fields)

    hostile = requests((*OF_SEEDS, "_class")).map(written)
    return st.one_of(hostile, hostile, mutated(real), blobs()).map(lambda entry: [name, entry])


def _in_process(name: str, entry: bytes) -> Iterator[Complaint]:
    """Make a request of *entry* as a worker does, and have Scrapy log it."""
    spider: Spider = _Spider()
    try:
        made: Request = request_from_dict(faithful.load(load_serializer(name), entry), spider)
    except (PayloadError, UnknownCodeError) as error:
        yield from one_line_faults(one_line(error), "reason of an entry that is set aside")
    except Exception as error:
        yield crash(error, "an entry in this process")
    else:
        yield from logged(made, spider)
