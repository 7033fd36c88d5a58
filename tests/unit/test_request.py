"""Requests on the wire: what stands for one, what comes back, and what is refused."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy.http import Headers, JsonRequest, XmlRpcRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.spiders import CrawlSpider
from scrapy.utils.request import request_from_dict as scrapys_request_from_dict

from scrapy_rq_sched.codec.request import NONCE, find_callback, request_from_dict, request_to_dict
from scrapy_rq_sched.errors import (
    PayloadError,
    UnknownCallbackError,
    UnknownClassError,
    UnserializableRequestError,
)

URL = "http://example.com/"


#: What a value of a subclass of these, and equal to it, may come back as.
BASE_TYPES = {str, int, float, bytes, list, dict}


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, and every value within them of the same type, or its base type."""
    if type(one) is not type(other) and (
        type(one) is bool or type(other) not in BASE_TYPES & {*type(one).__mro__}
    ):
        return False
    if isinstance(one, dict):
        return same([*dict.items(one)], [*dict.items(other)])
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (set, frozenset)):
        return Counter(map(_typed, one)) == Counter(map(_typed, other))
    if isinstance(one, float):
        return float.__repr__(one) == repr(other)  # nan is nan, and 0.0 is not -0.0
    return bool(one == other)


def _typed(value: Any) -> tuple[type, str]:
    return type(value), repr(value)


def assert_same_request(one: Request, other: Request) -> None:
    """Fail unless *other* is *one*, in every attribute."""
    assert type(other) is type(one)
    for field in one.attributes:
        before, after = getattr(one, field), getattr(other, field)
        assert same(before, after), f"{field} was {before!r} and is {after!r}"


def unnamed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate, without functools.wraps."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return wrapper


class PagesSpider(Spider):
    """The spider whose requests these are, with what a payload might wrongly name."""

    name = "pages"
    attribute = "text"
    Inner = dict

    def parse(self, response: Any) -> None:
        pass

    def parse_item(self, response: Any) -> None:
        pass

    def _parse_private(self, response: Any) -> None:
        pass

    @unnamed
    def parse_decorated(self, response: Any) -> None:
        pass

    def failed(self, failure: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    @staticmethod
    def static(response: Any) -> None:
        pass

    @classmethod
    def of_class(cls, response: Any) -> None:
        pass


class TrappedSpider(PagesSpider):
    """A spider with properties that must not be read on a payload's word."""

    ran: ClassVar[list[str]] = []

    @property
    def effect(self) -> Any:
        self.ran.append("effect")
        return self.parse

    @property
    def broken(self) -> Any:
        self.ran.append("broken")
        raise RuntimeError("read")


class TaggedRequest(Request):
    """A user's own request: one more attribute, and other defaults."""

    attributes = (*Request.attributes, "tags")

    def __init__(self, *args: Any, tags: list[str] | None = None, **kwargs: Any) -> None:
        defaults = {"method": "PUT", "priority": 7, "dont_filter": True, "encoding": "cp1252"}
        super().__init__(*args, **{**defaults, **kwargs})
        self.tags = tags or []


class FussyRequest(Request):
    """A user's own request, which does not take everything."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.priority < 0:
            raise RuntimeError("priority")


@pytest.fixture
def spider() -> PagesSpider:
    return PagesSpider()


@pytest.fixture
def trapped() -> TrappedSpider:
    TrappedSpider.ran.clear()
    return TrappedSpider()


def there_and_back(request: Request, spider: Spider) -> Request:
    return request_from_dict(request_to_dict(request, spider), spider)


# -- what is stored ----------------------------------------------------------------------------------


def test_a_request_with_defaults_is_stored_as_its_url_alone(spider: Spider) -> None:
    assert request_to_dict(Request(URL), spider) == {"url": URL}


FIELDS: list[tuple[str, Any]] = [
    ("method", "POST"),
    ("headers", {"Accept": "text/html"}),
    ("body", "some text"),
    ("cookies", {"session": "1"}),
    ("meta", {"depth": 1}),
    ("cb_kwargs", {"page": 2}),
    ("flags", ["cached"]),
    ("priority", -3),
    ("dont_filter", True),
    ("encoding", "cp1251"),
]


@pytest.mark.parametrize(("field", "value"), FIELDS, ids=[name for name, _ in FIELDS])
def test_a_field_that_is_not_at_its_default_is_stored(spider: Spider, field: str, value: Any) -> None:
    assert request_to_dict(Request(URL, **{field: value}), spider) == {"url": URL, field: value}


def test_callbacks_are_stored_by_name(spider: PagesSpider) -> None:
    request = Request(URL, spider.parse_item, errback=spider.failed)
    stored = request_to_dict(request, spider)
    assert (stored["callback"], stored["errback"]) == ("parse_item", "failed")


def test_a_body_that_is_not_text_is_stored_as_bytes(spider: Spider) -> None:
    assert request_to_dict(Request(URL, body=b"\xff\x00"), spider)["body"] == b"\xff\x00"


def test_a_nonce_tells_equal_requests_apart_in_redis_only(spider: Spider) -> None:
    first, second = (request_to_dict(Request(URL), spider, nonce) for nonce in "ab")
    assert (first[NONCE], second[NONCE]) == ("a", "b")
    assert_same_request(request_from_dict(first, spider), request_from_dict(second, spider))


# -- what comes back ---------------------------------------------------------------------------------

REQUESTS: dict[str, Request] = {
    **{name: Request(URL, **{name: value}) for name, value in FIELDS},
    "escaped url": Request("http://example.com/é ü?q=ж&q=%20#frag"),
    "verbatim url": Request("http://example.com/é ü", meta={"verbatim_url": True}),
    "about url": Request("about:blank"),
    "binary body": Request(URL, body=b"\x00\xff"),
    "body in another encoding": Request(URL, body="жук", encoding="cp1251"),
    "body not in its encoding": Request(URL, body=b"\x98", encoding="cp1251"),
    "body that is only a byte order mark": Request(URL, body=b"\xef\xbb\xbf"),
    "body that its encoding would spell differently": Request("about:blank", body=b"+AGE-", encoding="utf-7"),
    "several values of a header": Request(URL, headers={"Accept": ["a", "b"]}),
    "a header with no value": Request(URL, headers={"Accept": None}),
    "an empty header": Request(URL, headers={"Accept": ""}),
    "binary header": Request(URL, headers={"X-Token": b"\xff\x80"}),
    "header name that is text": Request(URL, headers={"ключ": "1"}),
    "header name that is not text": Request(URL, headers={b"\xffkey": "1"}),
    "cookies as a list": Request(URL, cookies=[{"name": "a", "value": "b", "path": "/"}]),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_a_request_comes_back_equal(spider: Spider, request_: Request) -> None:
    assert_same_request(request_, there_and_back(request_, spider))


SUBCLASS_REQUESTS: dict[str, Request] = {
    "FormRequest by POST": FormRequest(URL, formdata={"a": "1", "b": ["2", "3"]}),
    "FormRequest by GET": FormRequest(URL, method="GET", formdata={"a": "é"}),
    "JsonRequest": JsonRequest(URL, data={"b": 1, "a": [None]}, dumps_kwargs={"sort_keys": False}),
    "JsonRequest by GET": JsonRequest(URL),
    "XmlRpcRequest": XmlRpcRequest(URL, params=(1, "two"), methodname="add"),
    "XmlRpcRequest, filtered": XmlRpcRequest(URL, params=(1,), dont_filter=False),
    "own": TaggedRequest(URL, tags=["a", "b"], meta={"depth": 1}),
    "own, with Request's defaults": TaggedRequest(
        URL, method="GET", priority=0, dont_filter=False, encoding="utf-8"
    ),
}


@pytest.mark.parametrize("request_", SUBCLASS_REQUESTS.values(), ids=SUBCLASS_REQUESTS)
def test_a_request_of_a_subclass_comes_back_equal(spider: Spider, request_: Request) -> None:
    assert_same_request(request_, there_and_back(request_, spider))


def changed(request: Request, **fields: Any) -> Request:
    """Return *request* after a user has set these of its fields, as Scrapy lets them."""
    for name, value in fields.items():
        setattr(request, name, value)
    return request


ODD_REQUESTS: dict[str, Request] = {
    # Empty, if it is read as text.
    "a body that is only a mark": Request("about:blank", body=b"\xff\xfe", encoding="utf-16"),
    # Headers title-cases names, as text or as bytes; the two differ after a letter not in ASCII.
    "a header name of other letters": Request(URL, headers={"ék": "1"}),
    "a header name of other letters in bytes": Request(URL, headers={"ék".encode(): "1"}),
    # Request escapes its URL, again and again, by this encoding.
    "an encoding that does not keep ascii": Request("http://example.com/?q=1", encoding="utf-16"),
    "a header that the class puts back": changed(JsonRequest(URL), headers={"X-Other": "1"}),
    "a method in lower case": changed(Request(URL), method="post"),
    "a priority that is a fraction": changed(Request(URL), priority=1.5),
    "flags that are a tuple": changed(Request(URL), flags=("cached",)),
}


@pytest.mark.parametrize("request_", ODD_REQUESTS.values(), ids=ODD_REQUESTS)
def test_an_odd_request_comes_back_equal_or_is_refused(spider: Spider, request_: Request) -> None:
    try:
        stored = request_to_dict(request_, spider)
    except UnserializableRequestError:
        return
    assert_same_request(request_, request_from_dict(stored, spider))


def test_the_headers_keep_their_encoding(spider: Spider) -> None:
    request = Request(URL, headers={"X-Name": "жук"}, encoding="cp1251")
    headers = there_and_back(request, spider).headers
    assert headers.to_unicode_dict()["X-Name"] == "жук"


@pytest.mark.parametrize("name", ["parse", "parse_item", "_parse_private", "parse_decorated"])
def test_a_method_of_the_spider_comes_back(spider: Spider, name: str) -> None:
    method = getattr(spider, name)
    request = there_and_back(Request(URL, method, errback=method), spider)
    assert (request.callback, request.errback) == (method, method)


def test_the_private_callbacks_of_a_crawl_spider_come_back() -> None:
    spider = CrawlSpider(name="rules")
    request = Request(URL, spider._callback, errback=spider._errback)
    assert_same_request(request, there_and_back(request, spider))


def test_to_find_the_name_of_a_callback_no_property_is_read(trapped: TrappedSpider) -> None:
    request = there_and_back(Request(URL, trapped.parse_decorated), trapped)
    assert request.callback == trapped.parse_decorated
    assert trapped.ran == []


@pytest.mark.parametrize("request_", [REQUESTS["headers"], SUBCLASS_REQUESTS["own"]])
def test_scrapy_itself_understands_a_stored_request(spider: Spider, request_: Request) -> None:
    stored = request_to_dict(request_, spider, "nonce")
    assert_same_request(request_, scrapys_request_from_dict(stored, spider=spider))


def test_a_request_stored_by_scrapy_or_scrapy_redis_is_understood(spider: PagesSpider) -> None:
    request = Request(URL, spider.parse, headers={"Accept": b"\xff"}, body=b"x", meta={"depth": 1})
    assert_same_request(request, request_from_dict(request.to_dict(spider=spider), spider))


# -- what is refused before it is stored -------------------------------------------------------------


def function(response: Any) -> None:
    pass


UNFIT_CALLBACKS: dict[str, Callable[[PagesSpider], Any]] = {
    "a function": lambda spider: function,
    "a lambda": lambda spider: lambda response: None,
    "a partial": lambda spider: partial(spider.parse, page=1),
    "NO_CALLBACK": lambda spider: NO_CALLBACK,
    "a method of another spider": lambda spider: PagesSpider().parse,
    "a static method": lambda spider: spider.static,
    "a class method": lambda spider: spider.of_class,
    "a class": lambda spider: dict,
    "an inner method of Spider": lambda spider: spider._set_crawler,
    "the default callback": lambda spider: spider._parse,
}


@pytest.mark.parametrize("field", ["callback", "errback"])
@pytest.mark.parametrize("made_by", UNFIT_CALLBACKS.values(), ids=UNFIT_CALLBACKS)
def test_a_callback_that_could_not_be_found_again_is_refused(
    spider: PagesSpider, made_by: Callable[[PagesSpider], Any], field: str
) -> None:
    with pytest.raises(UnserializableRequestError, match=field):
        request_to_dict(Request(URL, **{field: made_by(spider)}), spider)


def test_a_class_that_no_worker_could_find_is_refused(spider: Spider) -> None:
    class Local(Request):
        pass

    with pytest.raises(UnserializableRequestError, match="Local"):
        request_to_dict(Local(URL), spider)


# -- hostile payloads --------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [None, "http://example.com/", 5, [], [URL], b"", {}])
def test_a_payload_that_is_not_a_dict_with_a_url_is_refused(spider: Spider, payload: Any) -> None:
    with pytest.raises(PayloadError, match="url"):
        request_from_dict(payload, spider)


@pytest.mark.parametrize("name", ["colour", "_url", "data", "formdata", 5, b"url", ("a", 1)])
def test_an_unknown_field_is_refused(spider: Spider, name: Any) -> None:
    with pytest.raises(PayloadError, match="unknown field"):
        request_from_dict({"url": URL, name: 1}, spider)


WRONG_TYPES: dict[str, list[Any]] = {
    "url": [None, 5, b"http://example.com/", [URL], {"url": URL}, "", "example.com", "http://[::1"],
    "method": [None, 5, b"GET", ["GET"], {}],
    "headers": [5, "Accept", ["Accept"], ["ab"], {"a": 1.5}, {5: "a"}, {"a": {"b": "c"}}, True],
    "body": [5, 0, ["text"], [], {"a": 1}, {}, 1.5, False],
    "cookies": [5, "a=b", b"a=b", True],
    "meta": [5, 0, "ab", ["ab"], [["a", 1]], [], True],
    "cb_kwargs": [5, 0, "ab", ["ab"], [["a", 1]], [], True],
    "flags": [5, 0, "cached", {"cached": 1}, {}, True],
    "priority": [None, "1", 1.5, float("nan"), float("inf"), [], {}],
    "dont_filter": ["no", "", [], {}, 1.5],
    "encoding": [None, 5, b"utf-8", "no-such-encoding", "hex", [], {}],
}


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field in WRONG_TYPES for value in WRONG_TYPES[field]],
    ids=repr,
)
def test_a_field_of_the_wrong_type_is_refused(spider: Spider, field: str, value: Any) -> None:
    with pytest.raises(PayloadError):
        request_from_dict({"url": URL, field: value}, spider)


@pytest.mark.parametrize("value", [5, "text", [["sort_keys", True]]])
def test_a_field_of_a_subclass_of_the_wrong_type_is_refused(spider: Spider, value: Any) -> None:
    payload = {"url": URL, "_class": "scrapy.http.request.json_request.JsonRequest"}
    with pytest.raises(PayloadError):
        request_from_dict({**payload, "dumps_kwargs": value}, spider)


@pytest.mark.parametrize("path", ["no.such.Class", "scrapy.http.NoSuchRequest", "__main__.Later"])
def test_a_class_that_only_another_worker_may_have_is_told_from_one_that_is_none(
    spider: Spider, path: str
) -> None:
    with pytest.raises(UnknownClassError, match="_class"):
        request_from_dict({"url": URL, "_class": path}, spider)


@pytest.mark.parametrize(
    "path",
    [
        "os.system",
        "builtins.dict",
        "builtins.eval",
        "scrapy.Spider",
        "scrapy.http.Response",
        "scrapy.http.Request.replace",
        "scrapy.http.Request.from_curl",
        "Request",
        ".",
        "",
        "sys.modules",
        "__class__",
        "os.__class__",
        None,
        5,
        b"scrapy.http.Request",
        ["scrapy.http.Request"],
    ],
)
def test_a_class_that_is_not_a_request_is_refused(
    spider: Spider, monkeypatch: pytest.MonkeyPatch, path: Any
) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(os, "system", ran.append)
    with pytest.raises((PayloadError, UnknownClassError), match="_class"):
        request_from_dict({"url": URL, "_class": path}, spider)
    assert ran == []


def test_a_class_of_a_module_not_imported_is_refused_and_not_imported(
    spider: Spider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from scrapy import Request\nclass Evil(Request): pass\n"
    (tmp_path / "never_imported.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownClassError, match="imported"):
        request_from_dict({"url": URL, "_class": "never_imported.Evil"}, spider)
    assert "never_imported" not in sys.modules


def test_looking_for_a_class_does_not_run_the_getattr_of_a_module(
    spider: Spider, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That is how modules import others late: concurrent.futures does, for one.
    ran: list[str] = []
    module = ModuleType("lazy_module")
    module.__getattr__ = lambda name: ran.append(name)  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "lazy_module", module)
    with pytest.raises(UnknownClassError, match="_class"):
        request_from_dict({"url": URL, "_class": "lazy_module.Late"}, spider)
    assert ran == []


def test_an_exception_of_the_class_of_a_request_is_a_payload_error(spider: Spider) -> None:
    payload = {"url": URL, "_class": f"{__name__}.FussyRequest", "priority": -1}
    with pytest.raises(PayloadError, match="priority"):
        request_from_dict(payload, spider)


NOT_CALLBACKS: list[Any] = [
    "nothing",
    "",
    " parse",
    "parse.__func__",
    "PagesSpider.parse",
    "os.system",
    "attribute",
    "name",
    "Inner",
    "logger",
    "static",
    "of_class",
    "close",
    "from_crawler",
    "update_settings",
    "handles_request",
    "_set_crawler",
    "_parse",
    "__init__",
    "__class__",
    "__dict__",
    "__enter__",
    "__repr__",
    "__reduce__",
    "__setattr__",
    "__init_subclass__",
    5,
    0,
    False,
    True,
    b"parse",
    ["parse"],
    [],
    {"name": "parse"},
]


@pytest.mark.parametrize("name", NOT_CALLBACKS, ids=repr)
@pytest.mark.parametrize("field", ["callback", "errback"])
def test_a_name_that_is_no_callback_of_the_spider_is_refused(
    spider: PagesSpider, field: str, name: Any
) -> None:
    with pytest.raises(UnknownCallbackError, match="pages"):
        request_from_dict({"url": URL, field: name}, spider)


@pytest.mark.parametrize("name", ["effect", "broken"])
def test_to_find_a_callback_no_property_is_read(trapped: TrappedSpider, name: str) -> None:
    with pytest.raises(UnknownCallbackError):
        find_callback(trapped, name)
    assert trapped.ran == []


def test_a_callback_that_is_null_is_none(spider: Spider) -> None:
    request = request_from_dict({"url": URL, "callback": None, "errback": None}, spider)
    assert (request.callback, request.errback) == (None, None)


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_CLASSES = st.sampled_from([*(f"{c.__module__}.{c.__name__}" for c in (TaggedRequest, JsonRequest))])
_PAYLOADS = st.fixed_dictionaries(
    {"url": st.just(URL) | st.text(st.characters(exclude_categories=())) | _JUNK},
    optional={
        **dict.fromkeys((*Request.attributes[1:], NONCE, "tags", "dumps_kwargs"), _JUNK),
        "_class": _CLASSES | _JUNK,
    },
)


@pytest.mark.slow
@settings(deadline=None)
@given(_PAYLOADS)
def test_any_payload_is_a_request_or_refused(payload: dict[str, Any]) -> None:
    try:
        request = request_from_dict(payload, PagesSpider())
    except (PayloadError, UnknownCallbackError):
        return
    assert isinstance(request, Request)
    assert isinstance(request.headers, Headers)


class WaitingRequest(Request):
    """As scrapy-selenium's: it takes what its attributes do not name."""

    def __init__(
        self, *args: Any, wait_time: int | None = None, script: str | None = None, **kwargs: Any
    ) -> None:
        self.wait_time = wait_time
        self.script = script
        super().__init__(*args, **kwargs)


class SlottedRequest(Request):
    """The same, without a dict of attributes."""

    __slots__ = ("__wait",)

    def __init__(self, *args: Any, wait: int = 0, **kwargs: Any) -> None:
        self.__wait = wait
        super().__init__(*args, **kwargs)


def test_a_request_with_an_unnamed_attribute_is_refused_by_the_name_of_the_attribute() -> None:
    with pytest.raises(UnserializableRequestError, match="attribute 'wait_time' of WaitingRequest would not"):
        request_to_dict(WaitingRequest(URL, wait_time=10), PagesSpider())
    with pytest.raises(UnserializableRequestError, match="__wait' of SlottedRequest would not"):
        request_to_dict(SlottedRequest(URL, wait=5), PagesSpider())


def test_a_request_with_defaults_in_its_unnamed_attributes_is_kept() -> None:
    back = request_from_dict(request_to_dict(WaitingRequest(URL), PagesSpider()), PagesSpider())
    assert type(back) is WaitingRequest
    request_to_dict(SlottedRequest(URL), PagesSpider())


@pytest.mark.parametrize("priority", ["10", None, 1.5, Decimal(1)])
def test_a_priority_that_is_no_int_is_refused(priority: Any) -> None:
    request = Request(URL)
    request.priority = priority
    with pytest.raises(UnserializableRequestError, match=r"priority must be an int, not (?:an? |None)"):
        request_to_dict(request, PagesSpider())
