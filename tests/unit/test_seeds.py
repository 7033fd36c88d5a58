"""Seeds: a bare URL or a JSON object; what is wrong with a bad one is said in a word."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy_redis.spiders import RedisSpider

from scrapy_rq_sched.codec.seeds import FIELDS, request_from_seed, requests_of_seed
from scrapy_rq_sched.errors import SeedError, UnknownCodeError, a_type

from .test_request import PagesSpider, assert_same_request

URL = "http://example.com/"
SPIDER = PagesSpider()


def seed(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


# -- good seeds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        URL,
        f"  {URL}\r\n",
        f"\t{URL}\n\n",
        json.dumps({"url": URL}),
        f'\n {{"url": "{URL}"}} \n',
    ],
)
def test_a_seed_is_a_url_or_a_json_object_with_whitespace_around_it(text: str) -> None:
    assert_same_request(Request(URL, dont_filter=True), request_from_seed(text.encode(), SPIDER))


@pytest.mark.parametrize(
    "url",
    [
        "https://user:pass@example.com:8080/path?q=1#frag",
        "http://[::1]:80/",
        "HTTP://EXAMPLE.COM/",
        "file:///tmp/page.html",
        "data:text/html,hello",
        "ftp://example.com/file",
        "http://xn--9ca.com/",
    ],
)
def test_a_url_of_any_scheme_that_scrapy_takes_is_a_seed(url: str) -> None:
    assert request_from_seed(url.encode(), SPIDER).url == Request(url).url


def test_a_url_with_other_letters_is_escaped_as_scrapy_does() -> None:
    made = request_from_seed("http://example.com/жук?q=é".encode(), SPIDER)
    assert made.url == Request("http://example.com/жук?q=é").url


EVERY_FIELD: dict[str, Any] = {
    "url": URL,
    "method": "POST",
    "headers": {"Accept": "text/html", "X-Many": ["a", "b"]},
    "body": "жук",
    "cookies": {"session": "1"},
    "meta": {"depth": 1, "nested": [{"a": None}]},
    "cb_kwargs": {"page": 2},
    "callback": "parse_item",
    "errback": "failed",
    "priority": -5,
    "dont_filter": False,
    "encoding": "cp1251",
    "flags": ["cached"],
}


def test_a_seed_has_the_fields_of_a_request() -> None:
    assert set(FIELDS) == set(EVERY_FIELD) == set(Request.attributes)


def test_a_seed_may_have_every_field_of_a_request() -> None:
    methods = {"callback": SPIDER.parse_item, "errback": SPIDER.failed}
    made = request_from_seed(seed(**EVERY_FIELD), SPIDER)
    assert_same_request(Request(**{**EVERY_FIELD, **methods}), made)


@pytest.mark.parametrize(
    "field", [name for name in EVERY_FIELD if name not in ("url", "callback", "errback")]
)
def test_a_seed_may_have_each_field_alone(field: str) -> None:
    fields = {"url": URL, field: EVERY_FIELD[field]}
    made = request_from_seed(seed(**fields), SPIDER)
    assert_same_request(Request(**{"dont_filter": True, **fields}), made)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("headers", [["Accept", "a"], ["Accept", "b"]]),
        ("headers", {"X-Number": 5, "X-None": None}),
        ("cookies", [{"name": "a", "value": "b", "domain": "example.com"}]),
    ],
)
def test_headers_and_cookies_may_be_in_each_form_that_scrapy_takes(field: str, value: Any) -> None:
    made = request_from_seed(seed(**{"url": URL, field: value}), SPIDER)
    assert_same_request(Request(URL, dont_filter=True, **{field: value}), made)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (URL.encode(), True),
        (seed(url=URL), True),
        (seed(url=URL, dont_filter=True), True),
        (seed(url=URL, dont_filter=False), False),
    ],
)
def test_a_seed_is_not_filtered_unless_it_says_so(data: bytes, expected: bool) -> None:
    assert request_from_seed(data, SPIDER).dont_filter is expected


@pytest.mark.parametrize("encoding", ["cp1251", "utf-16", "utf-8"])
def test_a_seed_is_read_in_the_encoding_of_the_settings(encoding: str) -> None:
    data = json.dumps({"url": URL, "meta": {"name": "жук"}}, ensure_ascii=False).encode(encoding)
    assert request_from_seed(data, SPIDER, encoding).meta == {"name": "жук"}


# -- bad seeds ---------------------------------------------------------------------------------------

BAD_SEEDS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "scheme"),
    "blank": (b" \n", "scheme"),
    "not a URL": (b"not a URL", "scheme"),
    "a host": (b"example.com", "scheme"),
    "a path": (b"/path/page.html", "scheme"),
    "a URL in a sentence": (b"see http://example.com/ there", "scheme"),
    "a URL in quotes": (b'"http://example.com/"', "scheme"),
    "a URL after a byte order mark": ("\ufeffhttp://example.com/".encode(), "scheme"),
    "a JSON list of URLs": (b'["http://example.com/"]', "scheme"),
    "no scheme before the host": (b"://example.com", "scheme"),
    "no host": (b"http://", "host"),
    "no host before the path": (b"https:///path", "host"),
    "no host before the port": (b"http://:80/", "host"),
    "half an IPv6 address": (b"http://[::1/", "IPv6"),
    "a port that is none": (b"http://example.com:port/", "port"),
    "not text": (b"\xff\xfe\xfd", "utf-8"),
    "half of JSON": (b'{"url": "http://example.com/"', "JSON"),
    "JSON and more": (b'{"url": "http://example.com/"} more', "JSON"),
    "JSON with single quotes": (b"{'url': 'http://example.com/'}", "JSON"),
    "endless JSON": (b'{"url":' * 100_000, "JSON"),
    "a number that Python does not read": (b'{"priority": ' + b"9" * 5000 + b"}", "JSON"),
    "no fields": (b"{}", "no url"),
    "no url": (seed(meta={"depth": 1}), "no url"),
    "URL in capitals": (seed(URL=URL), "no url"),
    "empty url": (seed(url=""), "scheme"),
    "url without a host": (seed(url="http://"), "host"),
    "url in a list": (seed(url=[URL]), "url must be a str, not a list"),
    "unknown field": (seed(url=URL, colour="red"), "'colour'"),
    "class": (seed(url=URL, _class="scrapy.http.JsonRequest"), "'_class'"),
    "nonce": (seed(url=URL, _nonce="a"), "'_nonce'"),
    "unknown callback": (seed(url=URL, callback="no_such"), "'no_such'"),
    "unknown errback": (seed(url=URL, errback="no_such"), "'no_such'"),
    "callback that is no method": (seed(url=URL, callback="name"), "callback 'name'"),
    "callback that is inner": (seed(url=URL, callback="__init__"), "'__init__'"),
    "unknown encoding": (seed(url=URL, encoding="no-such-encoding"), "no-such-encoding"),
    "body not in its encoding": (seed(url=URL, body="жук", encoding="ascii"), "ascii"),
    "lone surrogate in the url": (b'{"url": "http://example.com/\\ud800"}', "surrogate"),
    "header that is an object": (seed(url=URL, headers={"Accept": {"a": 1}}), "header"),
    "header that is a fraction": (seed(url=URL, headers={"Accept": 1.5}), "float"),
    "headers that are names": (seed(url=URL, headers=["ab", "cd"]), "header"),
}


@pytest.mark.parametrize(("data", "reason"), BAD_SEEDS.values(), ids=BAD_SEEDS)
def test_a_bad_seed_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises((SeedError, UnknownCodeError), match=f"(?i){reason}"):
        request_from_seed(data, SPIDER)


WRONG_TYPES = {
    "method": [5, None, ["GET"], True],
    "headers": [5, "Accept: a", None, True],
    "body": [5, {"a": 1}, ["a"], None, True],
    "cookies": [5, "a=b", None, True],
    "meta": [5, "a", [], None, True],
    "cb_kwargs": [5, "a", [], None, True],
    "callback": [5, None, ["parse"], {}, True],
    "errback": [5, None, ["parse"], {}, True],
    "priority": ["5", 5.0, 1.5, None, [], True],
    "dont_filter": ["true", 1, 0, None, []],
    "encoding": [5, None, [], True],
    "flags": [5, "cached", {}, None, True],
}


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field, values in WRONG_TYPES.items() for value in values],
    ids=repr,
)
def test_a_field_of_the_wrong_type_is_refused_with_its_name_and_type(field: str, value: Any) -> None:
    with pytest.raises(SeedError, match=f"^{field} must be an? .*, not {a_type(type(value))}$"):
        request_from_seed(seed(url=URL, **{field: value}), SPIDER)


def test_every_field_but_the_url_has_wrong_types_above() -> None:
    assert {"url", *WRONG_TYPES} == set(FIELDS)


def test_a_seed_in_another_encoding_than_the_settings_is_refused_with_its_name() -> None:
    with pytest.raises(SeedError, match="ascii"):
        request_from_seed("http://example.com/жук".encode(), SPIDER, "ascii")


@settings(deadline=None)
@given(
    st.binary(max_size=40)
    | st.text(max_size=40).map(str.encode)
    | st.builds(
        lambda url, fields: json.dumps({"url": url, **fields}).encode(),
        st.just(URL) | st.text(st.characters(exclude_categories=()), max_size=10),
        st.dictionaries(
            st.sampled_from([*FIELDS]),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=())),
                lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
                max_leaves=4,
            ),
        ),
    )
)
def test_any_data_is_a_request_or_a_bad_seed(data: bytes) -> None:
    try:
        made = request_from_seed(data, SPIDER)
    except (SeedError, UnknownCodeError) as error:
        assert str(error)  # noqa: PT017 - it need not be raised
        return
    assert isinstance(made, Request)


# -- seeds as forms ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"url": URL},
        {"url": URL, "q": "a b", "page": "2"},
        {"url": URL, "method": "post", "headers": "x", "q": ["1", "2"], "meta": {"depth": 3}},
    ],
    ids=["url", "get", "post"],
)
def test_a_seed_with_form_data_gives_the_same_request_as_scrapy_redis(fields: dict[str, Any]) -> None:
    theirs = RedisSpider(name="theirs", redis_encoding="utf-8").make_request_from_data(seed(**fields))
    ours = request_from_seed(seed(**fields), SPIDER, form_data=True)
    assert_same_request(theirs, ours)


@pytest.mark.parametrize("value", [5, None], ids=repr)
def test_form_data_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(SeedError, match=r"must be|to_bytes|str"):
        request_from_seed(seed(url=URL, method="POST", q=value), SPIDER, form_data=True)


# -- seeds of another form ---------------------------------------------------------------------------


class OwnSeedsSpider(PagesSpider):
    """Its seeds are numbers of pages."""

    def make_request_from_data(self, data: bytes) -> Any:
        return [Request(f"{URL}{number}") for number in data.decode().split(",")]


def spider_making(make: Callable[[bytes], Any]) -> PagesSpider:
    spider = PagesSpider()
    spider.make_request_from_data = make  # type: ignore[attr-defined]
    return spider


def generator(data: bytes) -> Iterator[Request]:
    yield Request(URL)
    yield Request(f"{URL}2")


def failing_generator(data: bytes) -> Iterator[Request]:
    yield Request(URL)
    raise LookupError("of its own")


def failing(data: bytes) -> Any:
    raise ZeroDivisionError("of its own")


def refusing(data: bytes) -> Any:
    raise SeedError("this page is closed")


def test_a_spider_without_a_method_of_its_own_takes_urls_and_json() -> None:
    (made,) = requests_of_seed(seed(url=URL, priority=2), SPIDER, "utf-8")
    assert_same_request(Request(URL, priority=2, dont_filter=True), made)


@pytest.mark.parametrize(
    ("spider", "count"),
    [
        (OwnSeedsSpider(), 2),
        (spider_making(generator), 2),
        (spider_making(lambda data: Request(URL)), 1),
        (spider_making(lambda data: (Request(URL),)), 1),
    ],
    ids=["list", "generator", "request", "tuple"],
)
def test_a_spiders_own_method_may_make_one_request_or_several(spider: PagesSpider, count: int) -> None:
    made = list(requests_of_seed(b"1,2", spider, "utf-8"))
    assert [type(request) for request in made] == [Request] * count


def test_a_spiders_own_method_gets_the_seed_as_it_is_in_redis() -> None:
    got: list[bytes] = []
    spider = spider_making(lambda data: got.append(data) or Request(URL))
    list(requests_of_seed(b" \xff ", spider, "utf-8"))
    assert got == [b" \xff "]


@pytest.mark.parametrize("nothing", [None, [], ()], ids=repr)
def test_a_spiders_own_method_may_want_nothing_of_a_seed(nothing: Any) -> None:
    assert list(requests_of_seed(b"1", spider_making(lambda data: nothing), "utf-8")) == []


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (failing, "ZeroDivisionError: of its own"),
        (failing_generator, "LookupError: of its own"),
        (refusing, "^this page is closed$"),
        (lambda data: "http://example.com/", "must return requests, not a str"),
        (lambda data: {"url": URL}, "must return requests, not a str"),
        (lambda data: [Request(URL), {"item": 1}], "must return requests, not a dict"),
    ],
    ids=["raises", "raises late", "refuses", "text", "dict", "request and item"],
)
def test_a_seed_that_the_spiders_own_method_makes_no_request_of_is_refused_with_the_reason(
    make: Callable[[bytes], Any], reason: str
) -> None:
    with pytest.raises(SeedError, match=reason):
        list(requests_of_seed(b"1", spider_making(make), "utf-8"))
