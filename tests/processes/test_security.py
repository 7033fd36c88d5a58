"""What somebody who writes to Redis can do, and what not; and that no password is shown.

``docs/security.md`` says it in words. What each check refuses is tested where it is made (requests,
seeds, serializers, connection); here hostile entries meet a real worker whose spider is full of traps.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import os
import pickle
import re
import shlex
import socket
import ssl
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from scrapy_rq_sched import PriorityQueue, connection
from scrapy_rq_sched.codec.request import request_from_dict
from scrapy_rq_sched.codec.seeds import requests_of_seed
from scrapy_rq_sched.embedded import PrivateRedis, free_port
from scrapy_rq_sched.errors import (
    FrontierError,
    PayloadError,
    SeedError,
    UnknownCallbackError,
    UnknownClassError,
)
from scrapy_rq_sched.frontier import health
from scrapy_rq_sched.serializers import DeflatedJSONSerializer

from ..project.crawls import lazy, target
from ..project.crawls.graph import page_url
from ..project.crawls.settings import HANDLER
from ..support.crawl import Fleet, wait_until
from ..support.topologies import with_login

pytestmark = pytest.mark.single("its users, and what it answers")

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
SECRET = "s3cret-w0rd"
URL = page_url(1)
GOOD = [page_url(1_000_000 + number) for number in range(20)]


# -- hostile entries ---------------------------------------------------------------------------------
# "crawls" stands for the package of the test project, which has another name in this process.

CLASSES: dict[str, Any] = {
    "a function": "os.system",
    "a class that is no request": "subprocess.Popen",
    "a builtin function": "builtins.eval",
    "a builtin class": "builtins.dict",
    "a function of the spider's module": "crawls.target.function",
    "a class of the spider's module": "crawls.target.NotARequest",
    "the spider": "crawls.target.TargetSpider",
    "what a module would make when asked": "crawls.lazy.Late",
    "a request class of a module not imported": "crawls.unimported.UnimportedRequest",
    "a module": "crawls.lazy",
    "a module not imported": "crawls.unimported",
    "a static method of a request class": "crawls.target.OwnRequest.make",
    "a request class within another": "crawls.target.OwnRequest.Nested",
    "a class method of a request class": "scrapy.http.request.Request.from_curl",
    "the builtins of a module": "crawls.target.__builtins__",
    "the class of a module": "os.__class__",
    "all modules": "sys.modules",
    "another notation": "os:system",
    "a command": "__import__('os').system('id')",
    "no name": "crawls.target.",
    "no module": ".OwnRequest",
    "nothing": "",
    "a number": 5,
    "null": None,
    "a list": ["crawls.target.OwnRequest"],
    "bytes": {"$bytes": "Y3Jhd2xzLnRhcmdldC5Pd25SZXF1ZXN0"},
}

CALLBACKS: dict[str, Any] = {
    "the constructor": "__init__",
    "a hook that only this spider has": "__enter__",
    "the class": "__class__",
    "pickling": "__reduce__",
    "a hook of classes": "__init_subclass__",
    "an inner method of Spider": "_parse",
    "another": "_set_crawler",
    "a static method of Spider": "close",
    "a class method of Spider": "from_crawler",
    "another class method of Spider": "update_settings",
    "the settings": "settings",
    "the crawler": "crawler",
    "a property of Spider": "logger",
    "a property": "trap",
    "a class attribute": "name",
    "an inner class": "Inner",
    "a static method": "static",
    "a class method": "of_class",
    "a function as static method": "function_as_method",
    "a builtin function as attribute": "shell",
    "a function as attribute": "run",
    "a function of the module as attribute": "of_module",
    "a method of another object": "bound",
    "what __getattr__ would make": "late",
    "a method of the crawler": "crawler.stop",
    "an attribute of a method": "parse.__func__",
    "a function of a module": "os.system",
    "a global function": "function",
    "a method with spaces": " parse",
    "nothing": "",
    "a number": 5,
    "a list": ["parse"],
    "an object": {"name": "parse"},
    "bytes": {"$bytes": "cGFyc2U="},
}


class Bomb:
    """Its pickle makes a folder when it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def pickles(folder: Path) -> dict[str, bytes]:
    """Return pickles each of which makes *folder* when it is read."""
    bomb = Bomb(folder)
    whole: dict[str, Any] = {f"protocol {number}": pickle.dumps(bomb, number) for number in range(6)}
    return {**whole, "a request with it": pickle.dumps({"url": URL, "meta": {"a": bomb}})}


NOT_REQUESTS: dict[str, bytes] = {
    "more values than a request may have": b'{"url": "http://graph.test/1", "meta": {"a": ['
    + b"[]," * 250_000
    + b"0]}}",
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"http://graph.test/1"',
    "a number": b"5",
    "not a number": b"NaN",
    "not text": b"\xff\xfe",
    "half of an object": b'{"url": "http://graph.test/1"',
    "an endless list": b"[" * 100_000,
    "an endless object": b'{"url": "http://graph.test/1", "meta": ' + b'{"a":' * 100_000,
    "a number that takes long to read": b'{"url": "http://graph.test/1", "priority": ' + b"9" * 5000 + b"}",
    "bytes that are none": b'{"url": "http://graph.test/1", "body": {"$bytes": "!"}}',
    "bytes that are a number": b'{"url": "http://graph.test/1", "body": {"$bytes": 5}}',
    "a url in bytes": b'{"url": {"$bytes": "aHR0cDovL2dyYXBoLnRlc3QvMQ=="}}',
    "a field of no request": b'{"url": "http://graph.test/1", "__class__": "os.system"}',
    "a class named twice": b'{"url": "http://graph.test/1", "_class": "scrapy.http.request.Request", '
    b'"_class": "crawls.target.NotARequest"}',
}

#: What is odd, and a request all the same.
ODD_BUT_GOOD: dict[str, bytes] = {
    "a nonce that is an object": b'{"url": "http://graph.test/900", "_nonce": {"a": []}}',
    "not a number in meta": b'{"url": "http://graph.test/901", "meta": {"a": NaN, "b": -Infinity}}',
    "a key twice": b'{"url": "http://graph.test/1", "url": "http://graph.test/902"}',
    "a class named twice": b'{"url": "http://graph.test/903", "_class": "os.system", '
    b'"_class": "scrapy.http.request.Request"}',
    "a high priority": b'{"url": "http://graph.test/904", "priority": ' + b"9" * 4000 + b"}",
    "a deep meta": b'{"url": "http://graph.test/905", "meta": ' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}",
    "null callbacks": b'{"url": "http://graph.test/906", "callback": null, "errback": null}',
    "a request class of the spider's module": b'{"url": "http://graph.test/907", '
    b'"_class": "crawls.target.OwnRequest"}',
}


@pytest.fixture
def sprung(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The traps that were sprung in this process."""
    traps: list[str] = []
    for module in (target, lazy):
        monkeypatch.setattr(module, "record", lambda kind, what: traps.append(f"{kind} {what}"))
    return traps


def here(value: Any) -> Any:
    """Return *value* with the name that the test project has in this process."""
    package = target.__name__.rpartition(".")[0]
    return re.sub(r"^crawls\b", package, value) if isinstance(value, str) else value


def ways(payload: dict[str, Any]) -> Iterator[Callable[[], Any]]:
    """Yield each way by which *payload* can become a request."""
    spider = target.TargetSpider()
    yield lambda: request_from_dict(payload, spider)
    for serializer, dumps in (("json", lambda obj: json.dumps(obj).encode()), ("msgpack", msgpack.packb)):
        queue = PriorityQueue(None, spider, "requests", serializer)
        yield lambda queue=queue, dumps=dumps: queue.decode_request(dumps(payload))
    yield lambda: list(requests_of_seed(json.dumps(payload).encode(), spider, "utf-8"))


@pytest.mark.parametrize("path", CLASSES.values(), ids=CLASSES)
def test_nothing_but_an_imported_request_class_is_made(path: Any, sprung: list[str]) -> None:
    for way in ways({"url": URL, "_class": here(path)}):
        with pytest.raises((PayloadError, SeedError, UnknownClassError), match="_class"):
            way()
    assert sprung == []
    assert here("crawls.unimported") not in sys.modules


@pytest.mark.parametrize("field", ["callback", "errback"])
@pytest.mark.parametrize("name", CALLBACKS.values(), ids=CALLBACKS)
def test_nothing_but_a_method_of_the_spider_is_a_callback(name: Any, field: str, sprung: list[str]) -> None:
    for way in ways({"url": URL, field: name}):
        with pytest.raises((UnknownCallbackError, SeedError), match=f"callback|{field}"):
            way()
    assert sprung == []


@pytest.mark.parametrize("field", ["callback", "errback"])
def test_a_cached_property_is_not_read(field: str, sprung: list[str]) -> None:
    for way in ways({"url": URL, field: "connection"}):
        with pytest.raises((UnknownCallbackError, SeedError)):
            way()
    assert sprung == []


@pytest.mark.parametrize("serializer", ["json", "json+deflate", "msgpack"])
def test_a_pickle_is_not_read(tmp_path: Path, serializer: str) -> None:
    spider, folder = target.TargetSpider(), tmp_path / "made"
    queue = PriorityQueue(None, spider, "requests", serializer)
    for data in pickles(folder).values():
        with pytest.raises(PayloadError):
            queue.decode_request(data)
        with pytest.raises(SeedError):
            list(requests_of_seed(data, spider, "utf-8"))
    assert not folder.exists()


MSGPACK: dict[str, bytes] = {
    "an extension type": msgpack.packb(msgpack.ExtType(5, b"crawls.target.function")),
    "a time": msgpack.packb(datetime.datetime.now(datetime.timezone.utc), datetime=True),
    "a url of an extension type": msgpack.packb({"url": msgpack.ExtType(5, URL.encode())}),
    "a class of an extension type": msgpack.packb({"url": URL, "_class": msgpack.ExtType(5, b"os.system")}),
    "an endless list": b"\x91" * 100_000,
    "a list that says it is long": b"\xdd\xff\xff\xff\xff",
    "a text that says it is long": b"\xdb\xff\xff\xff\xff",
    "a list as a key": b"\x81\x91\x01\x01",
    "two objects": msgpack.packb({"url": URL}) * 2,
}


@pytest.mark.parametrize("data", MSGPACK.values(), ids=MSGPACK)
def test_hostile_messagepack_is_refused(data: bytes, sprung: list[str]) -> None:
    queue = PriorityQueue(None, target.TargetSpider(), "requests", "msgpack")
    with pytest.raises(PayloadError):
        queue.decode_request(data)
    assert sprung == []


@pytest.mark.parametrize("data", NOT_REQUESTS.values(), ids=NOT_REQUESTS)
def test_hostile_json_is_refused(data: bytes) -> None:
    queue = PriorityQueue(None, target.TargetSpider(), "requests")
    with pytest.raises((PayloadError, UnknownClassError)):
        queue.decode_request(data)
    with pytest.raises(SeedError):
        list(requests_of_seed(data, target.TargetSpider(), "utf-8"))


# -- a real worker -----------------------------------------------------------------------------------


def start(fleet: Fleet, spider: str = "target", count: int = 1, **settings: object) -> None:
    """Start workers of a spider full of traps."""
    fleet.start(spider, count, **{"SPIDER_MODULES": "crawls.target", "LOG_LEVEL": "DEBUG", **settings})


def crawl(fleet: Fleet, spider: str = "target", **settings: object) -> None:
    """Run one worker of it to the end."""
    start(fleet, spider, **settings)
    fleet.wait(timeout=30)
    assert fleet.reasons() == ["finished"], fleet.log()


def queue_up(
    server: redis.Redis, *entries: bytes, good: Callable[[dict[str, Any]], bytes] | None = None
) -> None:
    """Put *entries* into the queue, good ones before and after them."""
    dumps = good or (lambda entry: json.dumps(entry).encode())
    wrap = [dumps({"url": url}) for url in GOOD]
    everything = [*wrap[:10], *entries, *wrap[10:]]
    server.zadd("target:requests", {entry: place for place, entry in enumerate(everything)})


def failed(server: redis.Redis, spider: str = "target") -> list[dict[str, Any]]:
    """Return what was set aside."""
    return [json.loads(entry) for entry in server.lrange(f"{spider}:failed", 0, -1)]


def set_aside_bytes(entry: dict[str, Any]) -> bytes:
    return bytes.fromhex(entry["data_hex"]) if "data_hex" in entry else entry["data"].encode()


def sprung_in(fleet: Fleet) -> list[str]:
    """Return the traps that were sprung in workers."""
    return [event.what for event in fleet.events("sprung")]


def lines(fleet: Fleet, text: str, worker: int = 0) -> list[str]:
    return [line for line in fleet.log(worker).splitlines() if text in line]


def test_hostile_entries_of_the_queue_are_set_aside_and_the_rest_is_crawled(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    folder = tmp_path / "made"
    refused = [json.dumps({"url": URL, "callback": name}).encode() for name in CALLBACKS.values()]
    refused += [json.dumps({"url": URL, "errback": name}).encode() for name in CALLBACKS.values()]
    bad = [json.dumps({"url": URL, "_class": path}).encode() for path in CLASSES.values()]
    bad += [*NOT_REQUESTS.values(), *pickles(folder).values()]
    queue_up(server, *refused, *bad, *ODD_BUT_GOOD.values())
    crawl(fleet)
    assert sprung_in(fleet) == []
    assert not folder.exists()
    odd = [page_url(number) for number in range(900, 908)]
    assert fleet.urls("parsed") == dict.fromkeys([*GOOD, *odd], 1)
    assert sorted(map(set_aside_bytes, failed(server))) == sorted({*refused, *bad})
    assert all(entry["reason"] for entry in failed(server))
    # One line each: what cannot be read is an error, what a newer worker may know is a warning.
    errors = len(lines(fleet, "ERROR: An entry of target:requests cannot be read, and is moved to the "))
    warnings = len(lines(fleet, "WARNING: This worker leaves a request to another worker: "))
    assert errors + warnings == len(bad) + len(CALLBACKS)
    assert "Traceback" not in fleet.log()
    assert fleet.stat("frontier/failed") == len(refused) + len(bad)


def deflated(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15, zdict=DeflatedJSONSerializer.DICTIONARY)
    return deflate.compress(data) + deflate.flush()


@pytest.mark.parametrize("serializer", ["json+deflate", "msgpack"])
def test_a_small_entry_that_would_fill_the_memory_is_set_aside_and_the_rest_is_crawled(
    fleet: Fleet, server: redis.Redis, serializer: str
) -> None:
    begin = b'{"url": "http://graph.test/1", "meta": {"a": ['
    bombs = {
        "json+deflate": [
            deflated(begin + b"[]," * 14_000_000 + b"0]}}"),  # 42 kB: 1.1 GB in memory
            deflated(begin + b"[]," * 300_000 + b"0]}}"),
        ],
        "msgpack": [b"\x81\xa1a\xdd" + (4_000_000).to_bytes(4, "big") + b"\x80" * 4_000_000],
    }
    dumps = {"msgpack": msgpack.packb, "json+deflate": lambda entry: deflated(json.dumps(entry).encode())}
    queue_up(server, *bombs[serializer], good=dumps[serializer])
    crawl(fleet, SCHEDULER_SERIALIZER=serializer)
    assert fleet.urls("parsed") == dict.fromkeys(GOOD, 1)
    assert sorted(map(set_aside_bytes, failed(server))) == sorted(bombs[serializer])
    reasons = " ".join(entry["reason"] for entry in failed(server))
    assert "it has more than 250,000 values" in reasons
    assert ("at most 4194304 bytes" in reasons) == (serializer == "json+deflate")


def test_hostile_seeds_are_set_aside_and_the_rest_is_crawled(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    folder = tmp_path / "made"
    bad = [
        json.dumps({"url": URL, field: name}).encode()
        for name in CALLBACKS.values()
        for field in ("callback", "errback")
    ]
    bad += [json.dumps({"url": URL, "_class": path}).encode() for path in CLASSES.values()]
    bad += [*NOT_REQUESTS.values(), *pickles(folder).values()]
    seeds = [url.encode() for url in GOOD]
    server.rpush("target:start_urls", *seeds[:10], *bad, *seeds[10:])
    crawl(fleet)
    assert sprung_in(fleet) == []
    assert not folder.exists()
    assert fleet.urls("parsed") == dict.fromkeys(GOOD, 1)
    assert sorted(map(set_aside_bytes, failed(server))) == sorted(bad)
    # A callback that a newer worker may know is a warning: one for a name, as callback and as errback.
    warnings = len(lines(fleet, "WARNING: This worker leaves a seed to another worker: "))
    assert len(lines(fleet, "ERROR: Seed ")) + 2 * warnings == len(bad)
    assert "Traceback" not in fleet.log()


def test_line_breaks_in_redis_write_no_line_of_the_log(fleet: Fleet, server: redis.Redis) -> None:
    forged = "x\n2030-01-01 00:00:00 [scrapy] CRITICAL: forged"
    payloads = [
        {"url": URL, "encoding": forged},
        {"url": forged, "meta": {"verbatim_url": True}},
        {"url": URL, "callback": forged},
        {"url": URL, "_class": forged},
        {"url": URL, forged: 1},
    ]
    encoded = [json.dumps(payload).encode() for payload in payloads]
    queue_up(server, *encoded)
    server.rpush("target:start_urls", *encoded)
    crawl(fleet)
    assert "forged" in fleet.log()
    assert not [line for line in fleet.log().split("\n") if line.startswith("2030")]
    assert all("\n" not in entry["reason"] for entry in failed(server))


def test_the_name_of_a_dead_worker_does_not_steer_a_terminal(fleet: Fleet, server: redis.Redis) -> None:
    evil = "gone\x1b]0;pwned\x07\x9b2J"
    server.zadd("target:workers", {evil: 1})
    server.hset(f"target:leases:{evil}", "1.1", b'request 0 0@1 {"url": "http://graph.test/1"}')
    queue_up(server)
    # The server may be so young that no worker counts as dead before its own lease is over.
    crawl(fleet, FRONTIER_LEASE_TIMEOUT=1)
    (line,) = lines(fleet, "Workers that died: ")
    assert r"Workers that died: gone\x1b]0;pwned\x07\x9b2J. 1 of their requests" in line
    assert "\x1b" not in fleet.log()


def test_hostile_entries_of_a_queue_in_messagepack_are_set_aside(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    folder = tmp_path / "made"
    bad = [*MSGPACK.values(), *pickles(folder).values(), b'{"url": "http://graph.test/1"}']
    bad += [msgpack.packb({"url": URL, "_class": path}) for path in CLASSES.values()]
    queue_up(server, *bad, good=msgpack.packb)
    crawl(fleet, SCHEDULER_SERIALIZER="msgpack")
    assert sprung_in(fleet) == []
    assert not folder.exists()
    assert fleet.urls("parsed") == dict.fromkeys(GOOD, 1)
    assert sorted(map(set_aside_bytes, failed(server))) == sorted(bad)


def test_an_entry_with_a_callback_that_no_worker_takes_does_not_go_round_for_ever(
    fleet: Fleet, server: redis.Redis
) -> None:
    queue_up(server, *(json.dumps({"url": URL, "callback": name}).encode() for name in CALLBACKS.values()))
    start(fleet, count=2)
    fleet.wait()
    assert fleet.reasons() == ["finished", "finished"]
    assert sprung_in(fleet) == []
    assert fleet.urls("parsed") == dict.fromkeys(GOOD, 1)
    assert {entry["reason"].rpartition(";")[2] for entry in failed(server)} == {
        " no other worker alive has it"
    }
    assert len(failed(server)) == len(CALLBACKS)


def test_a_worker_does_not_read_a_cached_property(fleet: Fleet, server: redis.Redis) -> None:
    queue_up(server, json.dumps({"url": URL, "callback": "connection"}).encode())
    crawl(fleet)
    assert sprung_in(fleet) == []


def test_with_the_pickle_serializer_the_same_pickles_do_run(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    # So that nobody takes the tests above for tests of pickles that do nothing.
    folder = tmp_path / "made"
    queue_up(server, *pickles(folder).values(), good=pickle.dumps)
    crawl(fleet, SCHEDULER_SERIALIZER="pickle")
    assert folder.is_dir()
    assert any("pickle.find_class" in trap for trap in sprung_in(fleet))


def test_redis_does_not_say_which_serializer_a_worker_uses(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    folder = tmp_path / "made"
    server.hset("target:meta", "SCHEDULER_SERIALIZER", "pickle")
    queue_up(server, *pickles(folder).values())
    start(fleet)
    fleet.wait()
    assert fleet.reasons() == ["frontier_error"]
    server.delete("target:meta")
    start(fleet, SCHEDULER_IDLE_BEFORE_CLOSE=2)
    wait_until(lambda: len(fleet.events("parsed")) == len(GOOD))
    server.hset("target:meta", "SCHEDULER_SERIALIZER", "pickle")
    server.zadd("target:requests", {data + b".": 0 for data in pickles(folder).values()})
    fleet.wait()
    assert fleet.reasons() == ["frontier_error", "finished"]
    assert not folder.exists()
    assert len(failed(server)) == 2 * len(pickles(folder))


META: dict[str, Any] = {
    "download_slot": [],
    "download_timeout": "x",
    "download_latency": "x",
    "download_maxsize": "x",
    "cookiejar": [],
    "dont_merge_cookies": 5,
    "proxy": 5,
    "handle_httpstatus_list": 5,
    "handle_httpstatus_all": "x",
    "retry_times": "x",
    "max_retry_times": [],
    "redirect_times": "x",
    "redirect_urls": 5,
    "redirect_ttl": "x",
    "depth": "x",
    "rule": "x",
    "referrer_policy": 5,
    "http_user": 5,
    "is_start_request": "x",
    "cached_response": "x",
    "bindaddress": "x",
    "allow_offsite": "x",
    "dont_obey_robotstxt": "x",
}
ODD_FIELDS: dict[str, Any] = {
    "cookies that are numbers": {"cookies": [5]},
    "cookies that are objects": {"cookies": {"a": {"b": 1}}},
    "flags that are objects": {"flags": [{}]},
    "arguments that are there already": {"cb_kwargs": {"response": 1, "self": 2}},
    "arguments that are not taken": {"cb_kwargs": {"a b": 1}},
    "a header with a line break": {"headers": {"A\r\nB": "c\r\nd: e"}},
    "a callback that takes no response": {"callback": "start"},
    "a callback that logs": {"callback": "log"},
    "an errback that takes no failure": {"errback": "start", "meta": {"proxy": 5}},
    "a url that is none": {"url": "http://[::1", "meta": {"verbatim_url": True}},
    "a scheme that is none": {"url": "gopher://graph.test/1"},
    "a data url that is none": {"url": "data:"},
}


def test_a_request_that_scrapy_chokes_on_does_not_stop_the_crawl(fleet: Fleet, server: redis.Redis) -> None:
    odd = [{"meta": {key: value}} for key, value in META.items()]
    odd += [{"meta": {key: {"nested": [value]}}} for key, value in META.items()]
    odd += ODD_FIELDS.values()
    queue_up(server, *(json.dumps({"url": page_url(n), **o}).encode() for n, o in enumerate(odd)))
    crawl(fleet)
    assert sprung_in(fleet) == []
    assert {url: fleet.urls("parsed")[url] for url in GOOD} == dict.fromkeys(GOOD, 1)


def test_a_seed_with_an_invalid_url_does_not_stop_the_crawl(fleet: Fleet, server: redis.Redis) -> None:
    bad = json.dumps({"url": "http://[::1", "meta": {"verbatim_url": True}})
    server.rpush("target:start_urls", bad, *GOOD)
    start(fleet)
    fleet.wait(timeout=10)
    assert fleet.urls("parsed") == dict.fromkeys(GOOD, 1)
    assert len(failed(server)) == 1


def test_a_retry_of_a_priority_at_the_limit_of_digits_does_not_stop_the_crawl(
    fleet: Fleet, server: redis.Redis
) -> None:
    # The retry's priority is one lower, and that is a digit more.
    entry = b'{"url": "http://graph.test/retry", "priority": -' + b"9" * 4300 + b"}"
    queue_up(server, entry)
    middlewares = json.dumps({"crawls.spiders.FailTwice": 960})
    start(fleet, DOWNLOADER_MIDDLEWARES=middlewares, CONCURRENT_REQUESTS=1)
    fleet.wait(timeout=10)
    assert set(GOOD) <= set(fleet.urls("parsed"))


# -- what an entry can do ----------------------------------------------------------------------------

#: The settings that the page says to set.
ONLY_WEB = {
    "data": None,
    "file": None,
    "ftp": None,
    "s3": None,
    "https": None,
    "http": f"crawls.graph.{HANDLER}",
}


def test_a_seed_can_have_a_worker_read_a_file_unless_that_is_switched_off(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    (tmp_path / "private.txt").write_text("private")
    seeds = [(tmp_path / "private.txt").as_uri(), "data:text/plain,mine"]
    server.rpush("target:start_urls", *seeds)
    crawl(fleet)
    assert set(fleet.urls("parsed")) == set(seeds)
    server.rpush("target:start_urls", *seeds, *GOOD)
    start(fleet, DOWNLOAD_HANDLERS=json.dumps(ONLY_WEB))
    fleet.wait()
    assert set(fleet.urls("parsed", 1)) == set(GOOD)
    assert len(lines(fleet, "Unsupported URL scheme", 1)) >= len(seeds)


def test_a_seed_can_leave_the_allowed_domains(fleet: Fleet, server: redis.Redis) -> None:
    server.rpush("home:start_urls", GOOD[0])
    server.rpush("home:start_urls", json.dumps({"url": GOOD[1], "dont_filter": False}))
    allowed = {"url": GOOD[2], "dont_filter": False, "meta": {"allow_offsite": True}}
    server.rpush("home:start_urls", json.dumps(allowed))
    crawl(fleet, "home")
    assert set(fleet.urls("parsed")) == {GOOD[0], GOOD[2]}


def test_a_seed_can_call_every_method_of_the_spiders_own_with_any_arguments(
    fleet: Fleet, server: redis.Redis
) -> None:
    server.rpush(
        "target:start_urls",
        json.dumps({"url": GOOD[0], "callback": "parse_item", "cb_kwargs": {"a": 1}}),
        json.dumps({"url": GOOD[1], "callback": "_of_the_users"}),
    )
    crawl(fleet)
    assert [event.what for event in fleet.events("item")] == [f"{GOOD[0]} ['a']"]
    assert [event.what for event in fleet.events("private")] == [GOOD[1]]


@contextmanager
def ftp_server(content: bytes) -> Iterator[str]:
    """Serve *content* as every file of an FTP server, of which it is the least; yield the URL."""

    def serve(control: socket.socket, data: socket.socket) -> None:
        with control, control.makefile("rb") as commands:
            control.sendall(b"220 \r\n")
            for line in commands:
                command = line.split()[0].upper()
                if command == b"PASV":
                    high, low = divmod(data.getsockname()[1], 256)
                    control.sendall(b"227 (127,0,0,1,%d,%d)\r\n" % (high, low))
                elif command == b"RETR":
                    control.sendall(b"150 \r\n")
                    with data.accept()[0] as connection:
                        connection.sendall(content)
                    control.sendall(b"226 \r\n")
                else:
                    control.sendall(b"%d \r\n" % {b"USER": 331, b"PASS": 230}.get(command, 200))

    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_server(("127.0.0.1", 0)) as data:

        def accept() -> None:
            try:
                while True:
                    threading.Thread(target=serve, args=(listening.accept()[0], data), daemon=True).start()
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield f"ftp://127.0.0.1:{listening.getsockname()[1]}/file"
        listening.shutdown(socket.SHUT_RDWR)


def write_over(path: Path, url: str) -> bytes:
    """Return an entry that has Scrapy's FTP handler write to *path* what is at *url*."""
    meta = {"ftp_local_filename": str(path).encode(), "ftp_user": "a", "ftp_password": "b"}
    return PriorityQueue(None, target.TargetSpider(), "requests").serializer.dumps({"url": url, "meta": meta})


WITH_FTP = json.dumps({"http": "crawls.graph.GraphHandler", "https": None, "s3": None})


def test_an_entry_cannot_have_a_worker_write_a_file(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    with ftp_server(b"import os") as url:
        queue_up(server, write_over(tmp_path / "spider.py", url))
        crawl(fleet, DOWNLOAD_HANDLERS=WITH_FTP)
    assert not (tmp_path / "spider.py").exists()


def test_a_seed_cannot_have_a_worker_write_a_file(fleet: Fleet, server: redis.Redis, tmp_path: Path) -> None:
    # Scrapy wants the name in bytes, which a seed does not have.
    path = str(tmp_path / "spider.py")
    login = {"ftp_user": "a", "ftp_password": "b"}
    with ftp_server(b"import os") as url:
        for name in (path, {"$bytes": base64.b64encode(path.encode()).decode()}):
            seed = {"url": url, "meta": {"ftp_local_filename": name, **login}}
            server.rpush("target:start_urls", json.dumps(seed))
        server.rpush("target:start_urls", json.dumps({"url": url, "meta": login}))
        crawl(fleet, DOWNLOAD_HANDLERS=WITH_FTP)
        assert fleet.urls("parsed") == {url: 1}
    assert not (tmp_path / "spider.py").exists()


@pytest.mark.parametrize("path", ["crawls.unimported.UnimportedRequest", "crawls.target.function"])
def test_a_spider_that_hands_on_its_meta_imports_and_calls_no_object_named_in_it(
    fleet: Fleet, server: redis.Redis, path: str
) -> None:
    server.rpush("copy:start_urls", json.dumps({"url": page_url(0), "meta": {"referrer_policy": path}}))
    crawl(fleet, "copy")
    assert sprung_in(fleet) == []


def test_with_the_settings_of_the_page_no_entry_runs_code_by_way_of_scrapy(
    fleet: Fleet, server: redis.Redis, tmp_path: Path
) -> None:
    paths = ("crawls.unimported.UnimportedRequest", "crawls.target.function")
    with ftp_server(b"import os") as url:
        server.zadd("copy:requests", {write_over(tmp_path / "spider.py", url): 0})
        for number, path in enumerate(paths):
            seed = {"url": f"{page_url(number)}/0", "meta": {"referrer_policy": path}}
            server.rpush("copy:start_urls", json.dumps(seed))
        crawl(fleet, "copy", DOWNLOAD_HANDLERS=json.dumps(ONLY_WEB), REFERER_ENABLED=False)
    assert sprung_in(fleet) == []
    assert not (tmp_path / "spider.py").exists()
    assert len(failed(server, "copy")) == 3


def test_the_tested_settings_are_the_documented_ones() -> None:
    text = PAGE.read_text()
    assert 'DOWNLOAD_HANDLERS = {"data": None, "file": None, "ftp": None, "s3": None}' in text
    assert "\nREFERER_ENABLED = False\n" in text


# -- users with few rights ---------------------------------------------------------------------------


def acl_rule(user: str) -> list[str]:
    """Return the rule of *user* that the page gives, with its backslashes at the ends of lines undone."""
    text = PAGE.read_text().replace("\\\n", " ")
    (rule,) = re.findall(rf"^ +redis-cli acl setuser ({user} .*)$", text, re.MULTILINE)
    return [word.replace("<password>", SECRET).replace("myspider", "target") for word in shlex.split(rule)]


@pytest.fixture
def as_user(server: redis.Redis, redis_url: str) -> Iterator[Callable[[str], str]]:
    """Make a user with the rights that the page gives, and return the URL by which to be that user."""
    made: list[str] = []

    def make(user: str) -> str:
        server.execute_command("ACL", "SETUSER", *acl_rule(user))
        made.append(user)
        return with_login(redis_url, user, SECRET)

    yield make
    for user in made:
        server.execute_command("ACL", "DELUSER", user)


@pytest.mark.parametrize(
    ("queue", "seeds", "dupefilter"),
    [
        ("PriorityQueue", "list", "RFPDupeFilter"),
        ("FifoQueue", "set", "RFPDupeFilter"),
        ("LifoQueue", "zset", "CompactDupeFilter"),
    ],
)
def test_the_rights_of_the_page_suffice_for_a_worker(
    fleet: Fleet, server: redis.Redis, as_user: Callable[[str], str], queue: str, seeds: str, dupefilter: str
) -> None:
    settings = {
        "REDIS_URL": as_user("worker"),
        "SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.{queue}",
        "DUPEFILTER_CLASS": f"scrapy_rq_sched.{dupefilter}",
        "FRONTIER_LEASE_TIMEOUT": 1,
        "GRAPH_LATENCY": 0.1,
    }
    bad = [json.dumps({"url": URL, "callback": "no_such"}), "not a URL"]
    for seed in [*GOOD, *bad]:
        if seeds == "zset":
            server.zadd("target:start_urls", {seed: 0})
        else:
            getattr(server, "rpush" if seeds == "list" else "sadd")("target:start_urls", seed)
    start(fleet, **settings)
    wait_until(lambda: fleet.events("downloaded"))
    fleet.kill(0)
    # While the dead one counts as alive this waits for it in <spider>:delayed.
    refused = json.dumps({"url": URL, "callback": "no_such"})
    if queue == "PriorityQueue":
        server.zadd("target:requests", {refused: 0})
    else:
        server.lpush("target:requests", refused)
    start(fleet, **settings)
    fleet.wait()
    start(fleet, **settings, SCHEDULER_FLUSH_ON_START=True)
    fleet.wait()
    assert fleet.reasons() == ["finished", "finished"]
    assert set(fleet.urls("parsed")) == set(GOOD)
    assert len(failed(server)) == 3
    for worker in range(3):
        assert "NOPERM" not in fleet.log(worker)
        assert "refuses this user" not in fleet.log(worker)


def test_the_rights_of_the_page_suffice_for_items_and_statistics(
    fleet: Fleet, server: redis.Redis, redis_url: str
) -> None:
    (more,) = re.findall(r"with `RedisStatsCollector`,\s+`([^`]*)`", PAGE.read_text())
    rule = [word.replace("~target:", "~starts:") for word in acl_rule("worker")]
    server.execute_command("ACL", "SETUSER", *rule, *more.split())
    try:
        fleet.start(
            "starts",
            REDIS_URL=with_login(redis_url, "worker", SECRET),
            ITEM_PIPELINES=json.dumps({"scrapy_rq_sched.pipelines.RedisPipeline": 300}),
            STATS_CLASS="scrapy_rq_sched.stats.RedisStatsCollector",
        )
        fleet.wait()
    finally:
        server.execute_command("ACL", "DELUSER", "worker")
    assert server.llen("starts:items") == 40
    assert server.hget("starts:stats", "item_scraped_count") == b"40"
    assert "refuses this user" not in fleet.log()


@pytest.mark.parametrize(
    "command",
    [
        "get other:meta",
        "lpush other:start_urls a",
        "flushall",
        "keys *",
        "config set dir /tmp",
        "acl list",
        "save",
        "shutdown",
        "select 1",
        "module list",
        "monitor",
        "migrate 127.0.0.1 1 target:meta 0 1",
        "replicaof 127.0.0.1 1",
    ],
)
def test_a_worker_has_no_rights_beyond_its_keys(as_user: Callable[[str], str], command: str) -> None:
    client = redis.Redis.from_url(as_user("worker"))
    words = command.split()
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*words)
    client.close()


def test_a_redis_user_for_seeds_can_neither_read_nor_push_requests(
    fleet: Fleet, server: redis.Redis, as_user: Callable[[str], str]
) -> None:
    client = redis.Redis.from_url(as_user("seeder"))
    client.rpush("target:start_urls", *GOOD)
    for command in ("lrange target:start_urls 0 -1", "lpop target:start_urls", "rpush target:failed a"):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command.split())
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.zadd("target:requests", {"a": 0})
    client.close()
    crawl(fleet)
    assert set(fleet.urls("parsed")) == set(GOOD)


def test_a_read_only_user_sees_the_content_of_requests_and_changes_nothing(
    fleet: Fleet, server: redis.Redis, as_user: Callable[[str], str]
) -> None:
    carried = {"headers": {"Authorization": "Bearer token"}, "cookies": {"session": "token"}, "body": "token"}
    server.zadd("target:requests", {json.dumps({"url": GOOD[0], **carried}): 0})
    server.rpush("target:failed", "a")
    client = redis.Redis.from_url(as_user("reader"))
    assert b"Bearer token" in client.zrange("target:requests", 0, -1)[0]
    assert client.lrange("target:failed", 0, -1) == [b"a"]
    for command in ("del target:failed", "rpush target:start_urls a", "zpopmin target:requests", "keys *"):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command.split())
    client.close()


# -- passwords ---------------------------------------------------------------------------------------


def everything_in(server: redis.Redis) -> str:
    """Return all that is in Redis, names and values, as text."""
    read = {
        b"string": server.get,
        b"hash": server.hgetall,
        b"list": lambda key: server.lrange(key, 0, -1),
        b"set": server.smembers,
        b"zset": lambda key: server.zrange(key, 0, -1, withscores=True),
    }
    # A key may be gone by the time that it is read: its type is then "none".
    kinds = [(key, server.type(key)) for key in server.scan_iter()]
    return "\n".join(f"{key!r} {read[kind](key)!r}" for key, kind in kinds if kind in read)


def given_as(way: str, port: int, password: str = SECRET) -> dict[str, object]:
    """Return settings that give *password* in one of the ways in which it can be given."""
    address = f"127.0.0.1:{port}"
    return {
        "url": {"REDIS_URL": f"redis://:{password}@{address}/0"},
        "url with a user": {"REDIS_URL": f"redis://default:{password}@{address}/0"},
        "query": {"REDIS_URL": f"redis://{address}/0?password={password}"},
        "params": {
            "REDIS_URL": f"redis://{address}/0",
            "REDIS_PARAMS": json.dumps({"password": password}),
        },
        "params and host": {
            "REDIS_URL": "",
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": port,
            "REDIS_PARAMS": json.dumps({"username": "default", "password": password}),
        },
    }[way]


WAYS = pytest.mark.parametrize("way", ["url", "url with a user", "query", "params", "params and host"])


@WAYS
def test_a_crawl_shows_its_password_nowhere(fleet: Fleet, tmp_path: Path, way: str) -> None:
    with PrivateRedis(tmp_path, port=0, password=SECRET) as private:
        server = redis.Redis(port=private.port, password=SECRET)
        server.rpush("target:start_urls", *GOOD, "not a URL")
        server.zadd("target:requests", {"not a request": 0})
        start(fleet, **given_as(way, private.port), GRAPH_LATENCY=0.3, CONCURRENT_REQUESTS=4)
        wait_until(lambda: fleet.events("downloaded"))
        during = everything_in(server)
        fleet.wait()
        after = everything_in(server)
        server.close()
    assert fleet.reasons() == ["finished"]
    assert b"target:worker:" in during.encode()
    assert "not a request" in after
    # Scrapy says at the start which of its settings are not at their defaults: these are not its own.
    assert "Overridden settings" in fleet.log()
    assert "joined the frontier of spider 'target' at redis://" in fleet.log()
    for text in (fleet.log(), during, after, fleet.record.read_text()):
        assert SECRET not in text


def refusal(fleet: Fleet, **settings: object) -> str:
    """Start a worker that is refused; return its log."""
    start(fleet, **{"FRONTIER_JOIN_TIMEOUT": 0, **settings})
    fleet.wait(timeout=20)
    assert fleet.reasons() == ["frontier_error"], fleet.log()
    assert "The crawl cannot start: " in fleet.log()
    return fleet.log()


@WAYS
def test_a_password_that_is_refused_is_not_shown(fleet: Fleet, tmp_path: Path, way: str) -> None:
    with PrivateRedis(tmp_path, port=0, password="another") as private:
        log = refusal(fleet, **given_as(way, private.port))
    assert "refuses this user" in log
    assert SECRET not in log


@WAYS
def test_the_password_for_a_redis_that_is_not_there_is_not_shown(fleet: Fleet, way: str) -> None:
    log = refusal(fleet, **given_as(way, free_port()))
    assert "cannot be reached" in log
    assert SECRET not in log


@WAYS
def test_a_password_beside_a_setting_that_is_wrong_is_not_shown(fleet: Fleet, way: str) -> None:
    settings = given_as(way, 6379)
    params = {**json.loads(str(settings.get("REDIS_PARAMS", "{}"))), "no_such_option": 1}
    log = refusal(fleet, **{**settings, "REDIS_PARAMS": json.dumps(params)})
    assert "no_such_option" in log
    assert SECRET not in log


@pytest.mark.parametrize("port", ["port", "99999999", "6379/0?socket_timeout=long"])
def test_a_password_in_a_url_that_is_wrong_is_not_shown(fleet: Fleet, port: str) -> None:
    assert SECRET not in refusal(fleet, REDIS_URL=f"redis://:{SECRET}@127.0.0.1:{port}")


@pytest.mark.parametrize("way", ["url", "params"])
def test_an_outage_does_not_show_the_password(fleet: Fleet, tmp_path: Path, way: str) -> None:
    private = PrivateRedis(tmp_path, port=0, password=SECRET).start()
    try:
        server = redis.Redis(port=private.port, password=SECRET)
        server.rpush("target:start_urls", *GOOD)
        slow = {"GRAPH_LATENCY": 0.5, "CONCURRENT_REQUESTS": 2, "FRONTIER_LEASE_TIMEOUT": 1}
        start(fleet, **given_as(way, private.port), **slow)
        wait_until(lambda: fleet.events("parsed"))
        # First it no longer takes the password, then it is gone.
        server.config_set("requirepass", "another")
        server.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        wait_until(lambda: "refuses this user" in fleet.log())
        server.close()
    finally:
        private.stop()
    fleet.workers[0].terminate()
    fleet.wait(timeout=20)
    assert "Redis did not answer in time for a clean stop" in fleet.log()
    assert SECRET not in fleet.log()


def test_a_password_in_parameters_that_are_not_json_is_not_shown(fleet: Fleet) -> None:
    # A likely slip: on the command line the quotes have to be JSON's.
    assert SECRET not in refusal(fleet, REDIS_PARAMS=f"{{'password': '{SECRET}'}}")


def test_a_password_that_the_server_repeats_is_not_shown(fleet: Fleet, tmp_path: Path) -> None:
    with PrivateRedis(tmp_path, ["--rename-command", "AUTH", ""], port=0) as private:
        log = refusal(fleet, **given_as("url", private.port))
    assert SECRET not in log


def test_the_secrets_of_a_request_that_cannot_be_read_are_in_the_failed_list_and_not_in_the_log(
    fleet: Fleet, server: redis.Redis
) -> None:
    entry = json.dumps({"url": GOOD[0], "headers": {"Authorization": SECRET}, "no_such_field": 1}).encode()
    queue_up(server, entry)
    crawl(fleet)
    assert [set_aside_bytes(one) for one in failed(server)] == [entry]
    assert "no_such_field" in fleet.log()
    assert SECRET not in fleet.log()


def test_of_a_bad_seed_the_first_200_characters_are_in_the_log(fleet: Fleet, server: redis.Redis) -> None:
    server.rpush("target:start_urls", "x" * 150 + SECRET + "x" * 500 + "the end", *GOOD)
    crawl(fleet, LOG_FORMAT="%(levelname)s %(message)s")
    (line,) = lines(fleet, "ERROR Seed ")
    assert SECRET in line.partition(" is moved to the failed list: ")[0]
    assert "the end" not in line.partition(" is moved to the failed list: ")[0]


# -- TLS ---------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody has signed, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "redis")])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    path = tmp_path / "redis.pem"
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, none)
    path.write_bytes(private + signed.public_bytes(pem))
    return path


@contextmanager
def tls(certificate: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Listen with TLS; yield the port, and what was said by those who went on after the certificate."""
    heard: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def accept(listening: socket.socket) -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(plain, server_side=True) as connection:
                    while data := connection.recv(4096):
                        heard.append(data)
                        connection.sendall(b"-ERR no\r\n" * data.count(b"*"))
            except OSError:
                continue

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, args=(listening,), daemon=True).start()
        yield listening.getsockname()[1], heard
        listening.shutdown(socket.SHUT_RDWR)


def check(url: str, **params: object) -> None:
    client = connection.get_redis(url=url, **params)
    try:
        health.check_server(client, "s:requests")
    finally:
        client.close()


def test_with_tls_a_self_signed_certificate_is_refused_and_gets_no_password(certificate: Path) -> None:
    with tls(certificate) as (port, heard):
        with pytest.raises(FrontierError, match="certificate verify failed") as refused:
            check(f"rediss://:{SECRET}@127.0.0.1:{port}/0")
        assert heard == []
        assert SECRET not in str(refused.value)
        with pytest.raises(FrontierError, match="answers with an error"):
            check(f"rediss://:{SECRET}@127.0.0.1:{port}/0", ssl_ca_certs=str(certificate))
        assert SECRET.encode() in heard[0]


def test_with_tls_a_certificate_for_another_host_is_refused(certificate: Path) -> None:
    with tls(certificate) as (port, heard):
        with pytest.raises(FrontierError, match="certificate verify failed"):
            check(f"rediss://:{SECRET}@localhost:{port}/0", ssl_ca_certs=str(certificate))
        assert heard == []
