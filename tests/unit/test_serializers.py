"""Serializers give back what they were given, or refuse it."""

from __future__ import annotations

import json
import marshal
import os
import pickle
import re
import sys
import threading
import time
import zlib
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import msgpack
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lxml.html import fromstring
from scrapy import FormRequest, Request
from scrapy.http import JsonRequest, XmlRpcRequest

from scrapy_rq_sched.codec.request import request_from_dict, request_to_dict
from scrapy_rq_sched.errors import PayloadError, SettingError, UnserializableRequestError
from scrapy_rq_sched.serializers import (
    DeflatedJSONSerializer,
    JSONSerializer,
    MsgpackSerializer,
    PickleSerializer,
    load_serializer,
    serializer_name,
)
from scrapy_rq_sched.serializers.faithful import dump, load

from .test_request import (
    REQUESTS,
    SUBCLASS_REQUESTS,
    URL,
    PagesSpider,
    TaggedRequest,
    assert_same_request,
    same,
)

OURS = {
    "json": JSONSerializer,
    "json+deflate": DeflatedJSONSerializer,
    "msgpack": MsgpackSerializer,
    "pickle": PickleSerializer,
}
#: Of the dictionary by which deflated entries are read: with another one, none that waits can be.
DICTIONARY_CHECKSUM = 2620944701
SPIDER = PagesSpider()
Point = namedtuple("Point", "x y")


@pytest.fixture(params=OURS)
def serializer(request: pytest.FixtureRequest) -> Any:
    """Each of ours."""
    return load_serializer(request.param)


def store(serializer: Any, request: Request) -> bytes:
    return dump(serializer, request_to_dict(request, SPIDER))


def fetch(serializer: Any, entry: bytes) -> Request:
    return request_from_dict(load(serializer, entry), SPIDER)


# -- any request -------------------------------------------------------------------------------------

ENCODINGS = ["utf-8", "latin-1", "ascii", "cp1251", "shift_jis", "gb18030", "utf-8-sig", "utf-7", "utf-16"]
ALL_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)  # lone surrogates as well
TOKENS = st.text("abcdefXYZ-019", min_size=1, max_size=8)

PLAIN_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
PLAIN = st.recursive(
    PLAIN_SCALARS | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)

ODD_SCALARS = (
    st.integers()
    | st.integers(2**63, 2**70)
    | st.sampled_from([10**400, -(2**64), 2**64, Point(1, 2), Decimal("1.0"), 1j, Ellipsis, int])
    | st.floats()
    | ALL_TEXT
    | st.binary(max_size=8)
    | st.builds(bytearray, st.binary(max_size=8))
    | st.datetimes(timezones=st.none() | st.just(timezone.utc))
    | st.dates()
    | st.builds(timedelta, st.integers(-5, 5))
    | st.frozensets(st.integers() | st.text(max_size=3), max_size=3)
    | st.sets(st.integers() | st.text(max_size=3), max_size=3)
)
ODD_KEYS = (
    ALL_TEXT
    | st.just("$bytes")
    | st.integers()
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False)
    | st.binary(max_size=5)
    | st.dates()
    | st.tuples(st.integers(), ALL_TEXT)
)
ODD = st.recursive(
    PLAIN_SCALARS | ODD_SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(ODD_KEYS, inner, max_size=3)
        | st.builds(OrderedDict, st.dictionaries(TOKENS, inner, max_size=2))
    ),
    max_leaves=8,
)


@st.composite
def requests(
    draw: st.DrawFn,
    values: Any,
    keys: Any,
    texts: Any,
    numbers: Any,
    names: Any,
    header_bytes: Any,
    encodings: list[str],
) -> Request:
    """Any request that Scrapy lets a spider make."""
    header_values = st.text("abc é", max_size=5) | header_bytes
    cookies = st.dictionaries(texts, texts | st.integers(0, 9), max_size=2)
    callbacks = st.sampled_from([None, SPIDER.parse, SPIDER.parse_item, SPIDER._parse_private])
    fields: dict[str, Any] = {
        "url": URL + draw(st.text(max_size=5)) + draw(st.sampled_from(["", "?"])) + draw(TOKENS),
        "callback": draw(callbacks),
        "errback": draw(st.sampled_from([None, SPIDER.failed])),
        "method": draw(st.sampled_from(["GET", "POST", "head", "PATCH"])),
        "headers": draw(
            st.dictionaries(names, header_values | st.lists(header_values, max_size=2), max_size=2)
        ),
        "body": draw(st.binary(max_size=20) | st.text(max_size=10)),
        "cookies": draw(
            cookies | st.lists(st.fixed_dictionaries({"name": texts, "value": texts}), max_size=2)
        ),
        "meta": draw(st.dictionaries(keys, values, max_size=3)),
        "cb_kwargs": draw(st.dictionaries(keys, values, max_size=2)),
        "flags": draw(st.lists(texts, max_size=2)),
        "priority": draw(numbers),
        "dont_filter": draw(st.booleans()),
        "encoding": draw(st.sampled_from(encodings)),
    }
    try:
        return Request(**fields)
    except UnicodeError:  # Scrapy itself cannot write that text in that encoding
        assume(False)
        raise


# Control characters in cookies and headers are refused, because they would forge lines of the log.
PLAIN_TEXT = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=5)
PLAIN_BYTES = st.lists(st.sampled_from([*range(0x20, 0x7F), *range(0x80, 0x100)]), max_size=5).map(bytes)
PLAIN_REQUESTS = requests(
    PLAIN,
    PLAIN_TEXT,
    PLAIN_TEXT,
    st.integers(-(2**20), 2**20),
    TOKENS,
    PLAIN_BYTES,
    ["utf-8", "latin-1", "cp1251"],
)
ODD_REQUESTS = requests(
    ODD,
    ODD_KEYS,
    ALL_TEXT,
    st.integers() | st.just(10**400),
    TOKENS | st.text("é ü-k", min_size=1, max_size=4) | st.binary(min_size=1, max_size=4),
    st.binary(max_size=5),
    ENCODINGS,
)


@st.composite
def subclass_requests(draw: st.DrawFn) -> Request:
    """Any request of a class that does more to its fields than Request does."""
    cls = draw(st.sampled_from([JsonRequest, FormRequest, XmlRpcRequest, TaggedRequest]))
    fields: dict[str, Any] = {}
    if cls is JsonRequest:
        fields["dumps_kwargs"] = draw(
            st.dictionaries(st.sampled_from(["sort_keys", "indent"]), st.none() | ODD)
        )
        if draw(st.booleans()):
            fields |= {"body": b"", "data": draw(PLAIN), "dumps_kwargs": {"default": str}}
    elif cls is FormRequest and draw(st.booleans()):
        fields |= {"body": b"", "formdata": draw(st.dictionaries(TOKENS, PLAIN_TEXT | st.lists(PLAIN_TEXT)))}
    elif cls is TaggedRequest:
        fields["tags"] = draw(st.lists(ODD, max_size=2))
    try:
        return draw(PLAIN_REQUESTS | ODD_REQUESTS).replace(cls=cls, **fields)
    except (UnicodeError, TypeError, ValueError):  # the class itself takes no such field
        assume(False)
        raise


@pytest.mark.parametrize("name", OURS)
@settings(deadline=None)
@given(request=PLAIN_REQUESTS)
def test_a_request_of_plain_values_comes_back_equal(name: str, request: Request) -> None:
    serializer = load_serializer(name)
    assert_same_request(request, fetch(serializer, store(serializer, request)))


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
@settings(deadline=None, max_examples=300)
@given(request=ODD_REQUESTS | subclass_requests())
def test_any_request_comes_back_equal_or_is_refused(name: str, request: Request) -> None:
    serializer = load_serializer(name)
    try:
        entry = store(serializer, request)
    except UnserializableRequestError:
        return
    assert_same_request(request, fetch(serializer, entry))


@pytest.mark.parametrize(
    "request_",
    [*REQUESTS.values(), *SUBCLASS_REQUESTS.values()],
    ids=[*REQUESTS, *SUBCLASS_REQUESTS],
)
def test_requests_of_every_kind_come_back_equal_or_are_refused(serializer: Any, request_: Request) -> None:
    try:
        entry = store(serializer, request_)
    except UnserializableRequestError:
        return
    assert_same_request(request_, fetch(serializer, entry))


# -- values ------------------------------------------------------------------------------------------


class Colour(IntEnum):
    RED = 1


class Shape(str, Enum):
    ROUND = "round"


class Unequal(str):
    """Is not what it says."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


class Incomparable(str):
    """Raises when it is compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = str.__hash__


class Whole(int):
    """A number of the user's own."""


class Real(float):
    """Another."""

    __slots__ = ()


class Items(list[Any]):
    """A list of the user's own."""


class Text(str):
    __slots__ = ()


class FailsToPickle:
    def __reduce__(self) -> Any:
        raise RuntimeError("not here")


class UnpicklableError(Exception):
    """As many exceptions do: made of two arguments, pickled with one."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


CHANGED_BY_JSON: dict[str, Any] = {
    "tuple": (1, 2),
    "empty tuple": (),
    "named tuple": Point(1, 2),
    "set": {1},
    "int key": {1: "a"},
    "bytes key": {b"a": 1},
    "bool key": {True: 1},
    "None key": {None: 1},
    "tuple key": {(1, 2): 1},
    "tag of bytes": {"$bytes": "AAAA"},
    "nan": float("nan"),
    "infinity": float("-inf"),
    "datetime": datetime(2025, 1, 1),
    "Decimal": Decimal(1),
    "text that does not equal its text": Unequal("a"),
    "text that cannot be compared": Incomparable("a"),
    "bytearray": bytearray(b"a"),
    "lone surrogate": "\ud800",
    "lone surrogate in a key": {"\ud800": 1},
    "number longer than Python reads": 10**5000,
}

CHANGED_BY_MSGPACK: dict[str, Any] = {
    "tuple": (1, 2),
    "named tuple": Point(1, 2),
    "set": {1},
    "tuple key": {(1, 2): 1},
    "datetime": datetime(2025, 1, 1, tzinfo=timezone.utc),
    "Decimal": Decimal(1),
    "text that does not equal its text": Unequal("a"),
    "text that cannot be compared": Incomparable("a"),
    "bytearray": bytearray(b"a"),
    "memoryview": memoryview(b"a"),
    "lone surrogate": "\ud800",
    "number above 64 bits": 2**64,
    "number below 64 bits": -(2**63) - 1,
}

CHANGED_BY_PICKLE: dict[str, Any] = {
    "function in a function": lambda: None,
    "lock": threading.Lock(),
    "generator": (n for n in [1]),
    # Twisted may have taught pickle to import a module by its name.
    "module": ModuleType("no_such_module"),
    "object that fails to be pickled": FailsToPickle(),
    "object that fails to be unpickled": UnpicklableError("a", "b"),
}

UNFIT = [
    pytest.param(name, value, id=f"{name}-{kind}")
    for name, values in [
        ("json", CHANGED_BY_JSON),
        ("json+deflate", CHANGED_BY_JSON),
        ("msgpack", CHANGED_BY_MSGPACK),
        ("pickle", CHANGED_BY_PICKLE),
    ]
    for kind, value in values.items()
]


EQUAL_TO_BASE_TYPE: list[tuple[Any, Any]] = [
    (OrderedDict(a=1), {"a": 1}),
    (defaultdict(list, a=[Text("b")]), {"a": ["b"]}),
    (Colour.RED, 1),
    (Shape.ROUND, "round"),
    (Text("a"), "a"),
    ({Text("a"): Text("b")}, {"a": "b"}),
    (Whole(5), 5),
    (Real(1.5), 1.5),
    (Real(-0.0), -0.0),
    (Items([True, None, Text("a")]), [True, None, "a"]),
    (fromstring("<a>text</a>").xpath("string()"), "text"),
]


@pytest.mark.parametrize("name", ["json", "json+deflate", "msgpack"])
@pytest.mark.parametrize(("value", "base"), EQUAL_TO_BASE_TYPE, ids=lambda value: type(value).__name__)
def test_a_value_that_equals_its_base_type_comes_back_as_that(name: str, value: Any, base: Any) -> None:
    serializer = load_serializer(name)
    back = load(serializer, dump(serializer, {"meta": {"value": value}}))["meta"]["value"]
    assert repr(back) == repr(base)


def test_pickle_keeps_the_class_of_a_value_that_equals_its_base_type() -> None:
    value = OrderedDict(a=Text("b"))
    back = PickleSerializer().loads(dump(PickleSerializer(), {"value": value}))["value"]
    assert same(back, value)
    assert type(back) is OrderedDict


def test_a_value_of_a_local_class_comes_back_from_pickle_as_its_base_type() -> None:
    class Local(str):
        __slots__ = ()

    back = PickleSerializer().loads(dump(PickleSerializer(), {"value": Local("a")}))["value"]
    assert type(back) is str
    assert back == "a"


def test_a_serializer_of_the_users_own_is_given_base_types_where_it_would_change_a_class() -> None:
    assert dump(json, {"meta": {"text": Text("a")}}) == b'{"meta": {"text": "a"}}'


def test_a_value_of_a_request_that_has_to_be_serialized_is_not_changed_by_it() -> None:
    meta = {"value": OrderedDict(a=Text("b"))}
    dump(load_serializer("json"), {"meta": meta})
    assert type(meta["value"]) is OrderedDict
    assert type(meta["value"]["a"]) is Text


@pytest.mark.parametrize(("name", "value"), UNFIT)
def test_a_value_that_would_not_come_back_is_refused(name: str, value: Any) -> None:
    with pytest.raises(UnserializableRequestError):
        store(load_serializer(name), Request(URL, cb_kwargs={"value": value}))


@pytest.mark.parametrize(("name", "value"), UNFIT)
def test_a_refusal_names_the_field(name: str, value: Any) -> None:
    request = Request(URL, meta={"depth": 1}, cb_kwargs={"value": value}, flags=["a"])
    with pytest.raises(UnserializableRequestError, match="cb_kwargs"):
        store(load_serializer(name), request)


def test_json_says_where_in_the_field_the_value_is() -> None:
    request = Request(URL, meta={"a": [{"b": 1}, {"b": (1, 2)}]})
    with pytest.raises(UnserializableRequestError, match=r"meta\['a'\]\[1\]\['b'\] is a tuple"):
        store(JSONSerializer(), request)


@pytest.mark.parametrize("name", ["json", "json+deflate", "msgpack"])
def test_a_value_that_contains_itself_is_refused(name: str) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UnserializableRequestError, match="meta"):
        store(load_serializer(name), Request(URL, meta={"a": endless}))


def test_a_value_as_deep_as_it_may_be_comes_back_or_is_refused(serializer: Any) -> None:
    deep: Any = []
    for _ in range(800):
        deep = [deep]
    try:
        entry = dump(serializer, {"url": URL, "meta": {"deep": deep}})
    except UnserializableRequestError:
        return
    assert load(serializer, entry)["meta"]["deep"] == deep


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("msgpack", {1: "a", b"b": "c", None: 1.5}),
        ("msgpack", float("inf")),
        ("pickle", {1: (2, {3}), "when": datetime(2025, 1, 1, tzinfo=timezone.utc)}),
        ("pickle", [date(2025, 1, 1), Decimal("1.10"), Colour.RED, Point(1, 2), bytearray(b"a"), "\ud800"]),
        ("pickle", float("nan")),
    ],
)
def test_msgpack_and_pickle_keep_values_that_json_would_change(name: str, value: Any) -> None:
    serializer = load_serializer(name)
    assert same(load(serializer, dump(serializer, {"meta": value})), {"meta": value})


# -- the bytes ---------------------------------------------------------------------------------------


def test_json_is_short_text_that_can_be_read() -> None:
    request = Request(URL, SPIDER.parse, body="жук", meta={"depth": 1})
    expected = '{"url":"http://example.com/","callback":"parse","body":"жук","meta":{"depth":1}}'
    assert store(JSONSerializer(), request).decode() == expected


def test_json_keeps_bytes_as_base64() -> None:
    entry = JSONSerializer().dumps({"body": b"\x00\xff"})
    assert json.loads(entry) == {"body": {"$bytes": "AP8="}}


def test_the_pickles_of_the_serializer_are_read_by_any_pickle() -> None:
    assert pickle.loads(PickleSerializer().dumps({"url": URL, "meta": {1: (2,)}})) == {
        "url": URL,
        "meta": {1: (2,)},
    }


NOT_JSON = [
    b"",
    b"{",
    b"\xff",
    b"nothing",
    b'{"url": "\xff"}',
    b'{"body":{"$bytes":5}}',
    b'{"body":{"$bytes":"\xc3\xa9"}}',
    b'{"body":{"$bytes":"A"}}',
    b'{"body":{"$bytes":"AP8=!"}}',
    b"[" * 100_000,
    b'{"priority":' + b"9" * 5000 + b"}",
]


def deflated(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15, zdict=DeflatedJSONSerializer.DICTIONARY)
    return deflate.compress(data) + deflate.flush()


def test_deflated_json_is_half_of_it_for_a_typical_request() -> None:
    shop = "https://www.example.com/kitchen/toasters"
    request = Request(f"{shop}/classic-2-slice", meta={"depth": 4}, headers={"Referer": f"{shop}?page=3"})
    plain, small = (store(load_serializer(name), request) for name in ("json", "json+deflate"))
    assert len(small) < 0.5 * len(plain)


def test_the_dictionary_of_deflate_is_unchanged() -> None:
    assert zlib.crc32(DeflatedJSONSerializer.DICTIONARY) == DICTIONARY_CHECKSUM


def test_an_entry_that_would_fill_the_memory_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("ALLOWED", "LARGEST"):
        monkeypatch.setattr(DeflatedJSONSerializer, limit, 1000)
    with pytest.raises(PayloadError, match="at most 1000 bytes"):
        load(DeflatedJSONSerializer(), deflated(b'{"url":"' + b"a" * 1000 + b'"}'))
    with pytest.raises(UnserializableRequestError, match="the limit is 1000"):
        store(DeflatedJSONSerializer(), Request(URL, body=b"a" * 1000))


def test_a_text_is_inflated_to_64_times_its_size_at_most() -> None:
    short = deflated(b'{"url":"' + b"a" * (4 * 1024 * 1024) + b'"}')
    assert len(short) < 64 * 1024
    with pytest.raises(PayloadError, match="at most 4194304 bytes"):
        load(DeflatedJSONSerializer(), short)
    with pytest.raises(UnserializableRequestError, match="the limit is 4194304"):
        store(DeflatedJSONSerializer(), Request(URL, body=b"a" * (4 * 1024 * 1024)))
    noise = os.urandom(4 * 1024 * 1024).hex().encode()
    assert load(DeflatedJSONSerializer(), deflated(b'{"url":"' + noise + b'"}')) == {"url": noise.decode()}


#: Entries of more values than a request may have. The last has its values in several lists.
TOO_MANY_VALUES = {
    "json": [
        b'{"url":"http://a.test/","meta":{"a":[' + value * 250_000 + b"0]}}"
        for value in (b"0,", b"[],", b"{},", b'{"":0},', b'"\\\\",')
    ],
    "msgpack": [
        b"\x81\xa1a\xdd" + (250_001).to_bytes(4, "big") + b"\x80" * 250_001,
        b"\x81\xa1a\x92" + 2 * (b"\xdd" + (130_000).to_bytes(4, "big") + b"\xc0" * 130_000),
        b"\xdf" + (130_000).to_bytes(4, "big") + b"".join(msgpack.packb(n) + b"\xc0" for n in range(130_000)),
    ],
}
TOO_MANY_VALUES["json+deflate"] = [deflated(entry) for entry in TOO_MANY_VALUES["json"]]


@pytest.mark.parametrize("name", TOO_MANY_VALUES)
def test_an_entry_of_too_many_values_is_refused(name: str) -> None:
    for entry in TOO_MANY_VALUES[name]:
        with pytest.raises(PayloadError, match="250,000 values"):
            load(load_serializer(name), entry)


@pytest.mark.parametrize("name", TOO_MANY_VALUES)
def test_a_request_of_too_many_values_is_not_stored(name: str) -> None:
    request = Request(URL, meta={"numbers": list(range(250_001))})
    with pytest.raises(UnserializableRequestError, match=r"meta: .*250,000 values"):
        store(load_serializer(name), request)


@pytest.mark.parametrize("name", TOO_MANY_VALUES)
def test_a_text_with_many_commas_and_brackets_is_one_value(name: str) -> None:
    request = Request(URL, body=b'[{"\\": ",",}],' * 40_000 + b"\\" + os.urandom(300_000).hex().encode())
    serializer = load_serializer(name)
    assert_same_request(fetch(serializer, store(serializer, request)), request)


def test_many_values_in_another_encoding_are_counted() -> None:
    text = '{"url":"http://a.test/","meta":{"a":[' + "[]," * 250_000 + '"😀"]}}'
    for encoding in ("utf-8", "utf-16", "utf-32-be"):
        with pytest.raises(PayloadError, match="250,000 values"):
            load(JSONSerializer(), text.encode(encoding))


@pytest.mark.parametrize("text", ['"' + '\\"' * 200_000, '"' * 400_001, '"' + "\\" * 400_001, "\\" * 400_000])
def test_counting_the_values_of_a_broken_text_takes_a_moment(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(PayloadError):
        load(JSONSerializer(), b"[" * 250_001 + text.encode())
    assert time.process_time() - begin < 10  # seconds; in steps of its length squared it would be hours


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        *(("json", entry) for entry in NOT_JSON),
        *(("json+deflate", deflated(entry)) for entry in NOT_JSON),
        *(
            ("json+deflate", entry)
            for entry in [b"", b"{}", b"\xff", deflated(b"{}") + b"x", deflated(b"{}")[:-1]]
        ),
        *(("msgpack", entry) for entry in [b"", b"\xc1", b"\x81\xa1a", b"\x80\x80", b"\x91" * 100_000]),
        *(("pickle", entry) for entry in [b"", b"{}", b"\x80\x04", b"cno_such_module\nx\n."]),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_an_entry_that_cannot_be_read_is_a_payload_error_naming_the_serializer(
    name: str, entry: bytes
) -> None:
    with pytest.raises(PayloadError, match=re.escape(name)):
        load(load_serializer(name), entry)


@pytest.mark.parametrize("name", ["json", "json+deflate", "msgpack"])
@settings(deadline=None)
@given(entry=st.binary(max_size=50) | st.text(max_size=50).map(str.encode))
def test_any_entry_is_read_or_a_payload_error(name: str, entry: bytes) -> None:
    try:
        load(load_serializer(name), entry)
    except PayloadError as error:
        assert name in str(error)  # noqa: PT017 - it need not be raised


class Ran:
    times = 0

    def __reduce__(self) -> Any:
        return (_ran, ())


def _ran() -> None:
    Ran.times += 1


@pytest.mark.parametrize("name", ["json", "json+deflate", "msgpack"])
def test_code_in_redis_is_not_run(name: str) -> None:
    Ran.times = 0
    with pytest.raises(PayloadError):
        load(load_serializer(name), pickle.dumps({"url": Ran()}))
    assert Ran.times == 0


# -- which one ---------------------------------------------------------------------------------------


class Shouting:
    """A user's own: JSON in capitals."""

    @staticmethod
    def dumps(obj: Any) -> str:
        return json.dumps(obj).swapcase()

    @staticmethod
    def loads(data: bytes) -> Any:
        return json.loads(data.decode().swapcase())


class NeedsArguments(Shouting):
    def __init__(self, level: int) -> None:
        self.level = level


shouting = Shouting()


@pytest.mark.parametrize(("name", "cls"), OURS.items())
def test_ours_have_short_names(name: str, cls: type) -> None:
    assert type(load_serializer(name)) is cls


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("marshal", marshal),
        (f"{__name__}.shouting", shouting),
        (shouting, shouting),
        (marshal, marshal),
    ],
    ids=["path of a module", "path of an object", "object", "module"],
)
def test_any_module_or_object_with_dumps_and_loads_will_do(value: Any, expected: Any) -> None:
    assert load_serializer(value) is expected


@pytest.mark.parametrize("value", [f"{__name__}.Shouting", Shouting], ids=["path", "class"])
def test_of_a_class_an_instance_is_made(value: Any) -> None:
    assert type(load_serializer(value)) is Shouting


BAD_SERIALIZERS: list[Any] = [
    "nothing",
    "JSON",
    "no.such.module",
    "os",
    "os.path.no_such_name",
    "",
    ".",
    ".json",
    "json.",
    5,
    None,
    object(),
    SimpleNamespace(dumps=json.dumps),
    SimpleNamespace(loads=json.loads),
    dict,
    NeedsArguments,
    f"{__name__}.NeedsArguments",
]


@pytest.mark.parametrize("value", BAD_SERIALIZERS)
def test_a_bad_serializer_is_refused_with_its_value(value: Any) -> None:
    with pytest.raises(SettingError) as refusal:
        load_serializer(value)
    assert str(refusal.value).startswith("SCHEDULER_SERIALIZER must be 'json', ")
    assert str(refusal.value).endswith(f", not {value!r}")


def test_msgpack_without_its_package_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(SettingError, match=r"pip install 'scrapy-rq-sched\[msgpack\]'"):
        load_serializer("msgpack")


@pytest.mark.parametrize(
    ("serializer", "name"),
    [(load_serializer(name), name) for name in OURS]
    + [(marshal, "marshal"), (shouting, f"{__name__}.Shouting")],
    ids=[*OURS, "module", "object"],
)
def test_a_serializer_has_a_name_that_workers_can_compare(serializer: Any, name: str) -> None:
    assert serializer_name(serializer) == name


# -- another's ---------------------------------------------------------------------------------------


def own(dumps: Callable[[Any], Any] = json.dumps, loads: Callable[[Any], Any] = json.loads) -> Any:
    """Return a module as a user may write it."""
    module = ModuleType("own")
    module.dumps, module.loads = dumps, loads  # type: ignore[attr-defined]
    return module


def test_anothers_serializer_may_write_text() -> None:
    request = Request(URL, SPIDER.parse, meta={"name": "жук"})
    entry = store(shouting, request)
    assert b'"URL"' in entry
    assert_same_request(request, fetch(shouting, entry))


def shifted(value: Any) -> Any:
    """Return what a careless serializer may give back: equal, and of another type."""
    return {key: float(item) if type(item) is int else item for key, item in value.items()}


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        pytest.param(own(), (1, 2), id="tuple to list"),
        pytest.param(own(), {1: 2}, id="number to text"),
        pytest.param(own(loads=lambda data: {}), "a", id="nothing comes back"),
        pytest.param(
            own(loads=lambda data: {"meta": shifted(json.loads(data)["meta"])}), 1, id="int to float"
        ),
        pytest.param(own(dumps=lambda obj: json.dumps(obj, default=str)), {1}, id="set to text"),
    ],
)
def test_a_request_that_anothers_serializer_changes_is_refused(serializer: Any, value: Any) -> None:
    with pytest.raises(UnserializableRequestError, match="unchanged"):
        dump(serializer, {"meta": {"value": value}})


def fail(value: Any) -> Any:
    raise ZeroDivisionError("of its own")


@pytest.mark.parametrize(
    "serializer",
    [own(dumps=fail), own(loads=fail), own(dumps=lambda obj: None), own(dumps=lambda obj: object())],
    ids=["dumps raises", "loads raises", "dumps returns None", "dumps returns no text"],
)
def test_a_request_that_anothers_serializer_fails_on_is_refused(serializer: Any) -> None:
    with pytest.raises(UnserializableRequestError):
        dump(serializer, {"url": URL})


def test_the_field_that_anothers_serializer_fails_on_is_named() -> None:
    with pytest.raises(UnserializableRequestError, match="cb_kwargs"):
        dump(own(), {"url": URL, "meta": {}, "cb_kwargs": {"lock": threading.Lock()}})


def test_an_entry_that_anothers_serializer_fails_on_is_a_payload_error() -> None:
    with pytest.raises(PayloadError, match="of its own"):
        load(own(loads=fail), b"{}")
