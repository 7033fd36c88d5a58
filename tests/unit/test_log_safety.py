"""A request from Redis cannot forge a line of the log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scrapy import Request, Spider

from scrapy_rq_sched.codec.request import request_from_dict, request_to_dict
from scrapy_rq_sched.codec.seeds import request_from_seed, requests_of_seed
from scrapy_rq_sched.errors import PayloadError, SeedError, UnserializableRequestError

URL = "http://graph.test/1"
LINE = "\n2026-01-01 00:00:00 [scrapy] ERROR: forged"
VERBATIM = {"verbatim_url": True}

#: Older Scrapys do not know the key, and escape such a URL.
KNOWS_VERBATIM = Request(f"{URL}\x07", meta=VERBATIM).url == f"{URL}\x07"

_HOSTILE: dict[str, dict[str, Any]] = {
    "a line break in the method": {"method": f"GET{LINE}"},
    "a carriage return in the method": {"method": "GET\rfake"},
    "an escape in the method": {"method": "GET\x1b[2J"},
    "an empty method": {"method": ""},
    "a space in the method": {"method": "GET /"},
    "a letter outside ASCII in the method": {"method": "GÉT"},
    "a bidi mark in the method": {"method": "GET\u202e"},
    "a line break in a verbatim URL": {"url": URL + LINE, "meta": VERBATIM},
    "an escape in a verbatim URL": {"url": f"{URL}\x1b[31m", "meta": VERBATIM},
    "a bell in a verbatim URL": {"url": f"{URL}\x07", "meta": VERBATIM},
    "a C1 control in a verbatim URL": {"url": f"{URL}\x9b31m", "meta": VERBATIM},
    "a next line in a verbatim URL": {"url": f"{URL}\x85", "meta": VERBATIM},
    "a line separator in a verbatim URL": {"url": f"{URL}\u2028", "meta": VERBATIM},
    "a paragraph separator in a verbatim URL": {"url": f"{URL}\u2029", "meta": VERBATIM},
    "a bidi override in a verbatim URL": {"url": f"{URL}\u202egpj.exe", "meta": VERBATIM},
    "a bidi isolate in a verbatim URL": {"url": f"{URL}\u2066", "meta": VERBATIM},
    "a deletion in a verbatim URL": {"url": f"{URL}\x7f", "meta": VERBATIM},
    "half a character in a verbatim URL": {"url": f"{URL}\ud800", "meta": VERBATIM},
    "a bidi override in the host": {"url": "http://graph\u202e.test/1"},
    "a NUL in the host": {"url": "http://graph\x00.test/1"},
    "a C1 control in the host": {"url": "http://graph\x9b.test/1"},
    "a line break in the referer": {"headers": {"Referer": f"http://a/{LINE}"}},
    "an escape in the referer": {"headers": {"referer": "http://a/\x1b]0;title\x07"}},
    "a bidi override in the referer": {"headers": {"Referer": "http://a/\u202e"}},
    "a C1 control in the referer": {"headers": {"Referer": ["http://a/\x9b31m"]}},
    "a referer in an encoding of escapes": {"headers": {"Referer": "日本"}, "encoding": "iso-2022-jp"},
    "an unassigned character in the referer": {"headers": {"Referer": "http://a/\U0006e7e5"}},
    "a list of headers": {"headers": [["Referer", f"http://a/{LINE}"]]},
    "a line break in another header": {"headers": {"X-A": "b\r\nX-Evil: 1"}},
    "a line break in the name of a header": {"headers": {"X-A\nReferer": "b"}},
    "a line break in a proxy": {"meta": {"proxy": f"http://a{LINE}"}},
    "an escape in a download slot": {"meta": {"download_slot": "a\x1b[2J"}},
    "a line break in a cookie": {"cookies": {"a": f"b{LINE}"}},
    "a line break in the name of an argument": {"cb_kwargs": {f"x{LINE}": 1}},
    "an escape in the name of an argument": {"cb_kwargs": {"x\x1b[31m": 1}},
    "a line break in a cookie of a list": {"cookies": [{"name": "a", "value": f"b{LINE}"}]},
}
HOSTILE = {
    name: fields for name, fields in _HOSTILE.items() if KNOWS_VERBATIM or fields.get("meta") != VERBATIM
}

HARMLESS: dict[str, dict[str, Any]] = {
    "letters outside ASCII": {"url": "http://graph.test/café", "meta": VERBATIM},
    "a tab in a header": {"headers": {"X-A": "a\tb"}},
    "bytes in a header": {"headers": [["X-A", "caf\u00e9"]]},
    "another method": {"method": "PROPFIND"},
    "a token": {"method": "M-SEARCH"},
    "a line break that Request takes out": {"url": "http://graph.test/1\n"},
    "a control character that Request escapes": {"url": "http://graph.test/\x1b"},
    "a line break in a body": {"method": "POST", "body": "a\nb"},
    "a line break in a text for the spider": {"meta": {"description": "a\nb"}},
    "a line break in an argument for the callback": {"cb_kwargs": {"text": "a\nb"}},
    "an internationalized host": {"url": "http://bücher.test/1"},
}


class Crawled(Spider):
    name = "crawled"


@pytest.fixture
def spider() -> Spider:
    return Crawled()


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
def test_an_entry_that_would_forge_a_line_is_refused_in_one_short_line(
    spider: Spider, fields: dict[str, Any]
) -> None:
    with pytest.raises(PayloadError) as refusal:
        request_from_dict({"url": URL, **fields}, spider)
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
def test_a_seed_that_would_forge_a_line_is_refused(spider: Spider, fields: dict[str, Any]) -> None:
    with pytest.raises(SeedError):
        request_from_seed(json.dumps({"url": URL, **fields}).encode(), spider)


@pytest.mark.parametrize("fields", HARMLESS.values(), ids=HARMLESS)
def test_an_unusual_request_without_control_characters_is_accepted(
    spider: Spider, fields: dict[str, Any]
) -> None:
    made = request_from_dict({"url": URL, **fields}, spider)
    assert request_from_dict(request_to_dict(made, spider), spider).to_dict() == made.to_dict()


def test_a_refusal_names_the_field_and_shows_a_bounded_value(spider: Spider) -> None:
    with pytest.raises(PayloadError) as refusal:
        request_from_dict({"url": URL, "headers": {"Referer": "\x1b" + 100_000 * "a"}}, spider)
    assert str(refusal.value).startswith("header b'Referer' must not contain control characters: b'\\x1baaaa")
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
def test_a_request_of_the_spider_that_a_worker_would_refuse_is_not_stored(
    spider: Spider, fields: dict[str, Any]
) -> None:
    with pytest.raises(UnserializableRequestError):
        request_to_dict(Request(**{"url": URL, **fields}), spider)


def test_a_request_that_the_spider_makes_from_a_hostile_seed_is_refused() -> None:
    class Own(Spider):
        name = "own"

        def make_request_from_data(self, data: bytes) -> Request:
            return Request(URL, method=json.loads(data)["method"])

    with pytest.raises(SeedError, match="method must be a token"):
        list(requests_of_seed(json.dumps({"method": f"GET{LINE}"}).encode(), Own(), "utf-8"))
