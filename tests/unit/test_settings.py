"""Settings: defaults, values as they come from the command line, and what is refused."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields
from typing import Any

import fakeredis
import pytest
from scrapy import Request
from scrapy.dupefilters import BaseDupeFilter
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import FifoQueue, LifoQueue, PriorityQueue, RFPDupeFilter
from scrapy_rq_sched.assembly.dupefilter import load_dupefilter
from scrapy_rq_sched.assembly.queue import load_queue
from scrapy_rq_sched.codec.pools import Pool, entries
from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.errors import SettingError
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.queue import Base
from scrapy_rq_sched.settings import OVERLOADED, FrontierSettings

from .test_request import PagesSpider

#: Setting, field, default, what may be given on the command line, what that means.
SETTINGS: list[tuple[str, str, Any, str, Any]] = [
    ("SCHEDULER_QUEUE_CLASS", "queue_class", "scrapy_rq_sched.queue.PriorityQueue", "a.B", "a.B"),
    ("SCHEDULER_QUEUE_KEY", "queue_key", "%(spider)s:requests", "q:%(spider)s", "q:%(spider)s"),
    ("SCHEDULER_DUPEFILTER_KEY", "dupefilter_key", "%(spider)s:dupefilter", "seen", "seen"),
    ("SCHEDULER_SERIALIZER", "serializer", "json", "msgpack", "msgpack"),
    ("SCHEDULER_PERSIST", "persist", False, "True", True),
    ("SCHEDULER_FLUSH_ON_START", "flush_on_start", False, "1", True),
    ("SCHEDULER_IDLE_BEFORE_CLOSE", "idle_before_close", 0.0, "10", 10.0),
    ("MAX_IDLE_TIME_BEFORE_CLOSE", "max_idle_time", 0.0, "7.5", 7.5),
    ("REDIS_ITEMS_KEY", "items_key", "%(spider)s:items", "i:%(spider)s", "i:%(spider)s"),
    ("REDIS_ITEMS_SERIALIZER", "items_serializer", None, "json.dumps", json.dumps),
    ("FRONTIER_ITEMS", "items", "", "stream", "stream"),
    ("FRONTIER_FEED", "feed", "", "4f1d,09a2", "4f1d,09a2"),
    ("FRONTIER_JOINED_FEEDS", "joined_feeds", (), '{"a.csv": "4f1d"}', (("a.csv", "4f1d"),)),
    ("FRONTIER_MAX_ITEMS", "max_items", 0, "1000", 1000),
    ("STATS_KEY", "stats_key", "%(spider)s:stats", "s:%(spider)s", "s:%(spider)s"),
    (
        "REDIS_START_URLS_KEY",
        "start_urls_keys",
        ("%(name)s:start_urls",),
        "%(name)s:s,t",
        ("%(name)s:s", "t"),
    ),
    ("FRONTIER_JOB", "job", "", "7", "7"),
    ("REDIS_START_URLS_BATCH_SIZE", "seed_batch", 100, "16", 16),
    ("FRONTIER_MAX_SEED_BYTES", "max_seed_bytes", 1024 * 1024, "5000", 5000),
    ("FRONTIER_SEED_FORM_DATA", "seed_form_data", False, "True", True),
    ("REDIS_ENCODING", "encoding", "utf-8", "cp1251", "cp1251"),
    ("FRONTIER_LEASE_TIMEOUT", "lease_timeout", 30.0, "0.5", 0.5),
    ("FRONTIER_JOIN_TIMEOUT", "join_timeout", 30.0, "0", 0.0),
    ("FRONTIER_PROJECT", "project", "", "shop", "shop"),
    ("FRONTIER_MAX_DELIVERIES", "max_deliveries", 5, "1", 1),
    ("FRONTIER_MAX_FAILED", "max_failed", 10_000, "5", 5),
    ("FRONTIER_MAX_WAITING", "max_waiting", 0, "1000", 1000),
    ("FRONTIER_MAX_WAITING_POLICY", "max_waiting_policy", "slow", "drop-lowest", "drop-lowest"),
    ("FRONTIER_MAX_WORKERS", "max_workers", 0, "4", 4),
    ("FRONTIER_MAX_WORKERS_POLICY", "max_workers_policy", "wait", "exit", "exit"),
    ("FRONTIER_MAX_WORKERS_KEY", "places_key", "", "crawlers", "crawlers"),
    ("FRONTIER_CLOSE_PAGECOUNT", "close_pagecount", 0, "1000", 1000),
    ("FRONTIER_CLOSE_ITEMCOUNT", "close_itemcount", 0, "1000", 1000),
    ("FRONTIER_CLOSE_ERRORCOUNT", "close_errorcount", 0, "10", 10),
    ("FRONTIER_CLOSE_TIMEOUT", "close_timeout", 0.0, "0.5", 0.5),
    ("FRONTIER_STALL_TIMEOUT", "stall_timeout", 600.0, "0.5", 0.5),
    ("FRONTIER_MAX_EVENTS", "max_events", 10_000, "0", 0),
    ("FRONTIER_HISTORY", "history", 100, "0", 0),
    ("FRONTIER_HISTORY_AGE", "history_age", 90 * 86400.0, "60", 60.0),
    ("FRONTIER_HISTORY_ALERT", "history_alert", 0.3, "0", 0.0),
    ("FRONTIER_OUTCOMES", "outcomes", 50_000, "0", 0),
    ("FRONTIER_WEBHOOK_URL", "webhook_url", "", "https://h.test:81/x?y", "https://h.test:81/x?y"),
    ("FRONTIER_WEBHOOK_SECRET", "webhook_secret", "", "whsec_aGVs", "whsec_aGVs"),
    (
        "FRONTIER_WEBHOOK_TYPES",
        "webhook_types",
        frozenset(),
        "paused,resumed",
        frozenset({"paused", "resumed"}),
    ),
    ("FRONTIER_BY_SLOT", "by_slot", True, "False", False),
    ("FRONTIER_ORDER", "order", "slots", "priority", "priority"),
    (
        "FRONTIER_FLEET_LIMITS",
        "fleet_limits",
        frozenset({"delay", "backoff", "autothrottle", "robots"}),
        "concurrency",
        frozenset({"concurrency"}),
    ),
    ("BACKOFF_HTTP_CODES", "backoff_http_codes", OVERLOADED, "429,503", frozenset({429, 503})),
    ("BACKOFF_MIN_DELAY", "backoff_min_delay", 1.0, "0.5", 0.5),
    ("BACKOFF_MAX_DELAY", "backoff_max_delay", 300.0, "60", 60.0),
    ("FRONTIER_CRAWL_DELAY_MAX", "crawl_delay_max", 60.0, "5", 5.0),
    ("FRONTIER_MAX_PAGES", "max_pages", 0, "1000", 1000),
    ("FRONTIER_OFFERS", "offers", frozenset(), "browser, gpu", frozenset({"browser", "gpu"})),
    ("FRONTIER_GROUP_FAILED", "group_failed", "run", "drop", "drop"),
    (
        "FRONTIER_POOLS",
        "pools",
        (),
        '{"accounts": {"items": ["alice"], "delay": 1, "rest": {"403": 60}}}',
        (Pool("accounts", delay=1.0, rest={403: 60}, items=("alice",)),),
    ),
    ("FRONTIER_SLOT_GIVE_UP", "slot_give_up", 0.0, "3600", 3600.0),
    (
        "FRONTIER_SLOTS",
        "slots",
        (),
        '{"*.com": {"rate": "30/m"}}',
        (SlotRule("*.com", delay=2.0),),
    ),
    ("FRONTIER_SLOTS_KEY", "slots_key", "", "polite", "polite"),
    (
        "FRONTIER_SET_ASIDE",
        "set_aside",
        frozenset(),
        "callback,download",
        frozenset({"callback", "download"}),
    ),
    ("FRONTIER_WAIT_REPLICAS", "wait_replicas", 0, "2", 2),
    ("FRONTIER_PREFETCH", "prefetch", 256, "32", 32),
    ("FRONTIER_FLUSH_INTERVAL", "flush_interval", 0.05, "0.2", 0.2),
    ("FRONTIER_OUTBOX_SIZE", "outbox_size", 10_000, "500", 500),
    ("FRONTIER_SEEN_CACHE", "seen_cache", 100_000, "0", 0),
    ("CONCURRENT_REQUESTS", "concurrency", 16, "8", 8),
]

KEYS = Keys("pages")

each_setting = pytest.mark.parametrize(
    ("name", "field", "default", "text", "value"), SETTINGS, ids=[row[0] for row in SETTINGS]
)


def read(**values: Any) -> FrontierSettings:
    return FrontierSettings.from_settings(Settings(values))


def test_every_setting_is_in_the_table() -> None:
    assert [field.name for field in fields(FrontierSettings)] == [row[1] for row in SETTINGS]


@each_setting
def test_a_setting_that_is_not_set_has_its_default(
    name: str, field: str, default: Any, text: str, value: Any
) -> None:
    got = getattr(read(), field)
    assert (got, type(got)) == (default, type(default))


@each_setting
def test_a_setting_may_be_given_as_text_as_on_the_command_line(
    name: str, field: str, default: Any, text: str, value: Any
) -> None:
    got = getattr(read(**{name: text}), field)
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("FRONTIER_FLEET_LIMITS", "fleet_limits", ["delay", "concurrency"]),
        ("FRONTIER_SET_ASIDE", "set_aside", ["callback", "download"]),
        ("FRONTIER_WEBHOOK_TYPES", "webhook_types", ["paused", "resumed"]),
        ("REDIS_START_URLS_KEY", "start_urls_keys", ["%(name)s:now", "%(name)s:later"]),
    ],
)
def test_a_list_is_read_from_json_and_from_text_with_commas(name: str, field: str, values: list[str]) -> None:
    as_list = getattr(read(**{name: values}), field)
    assert set(as_list) == set(values)
    for text in (json.dumps(values), f" {json.dumps(values)} ", ",".join(values), ", ".join(values)):
        assert getattr(read(**{name: text}), field) == as_list


@pytest.mark.parametrize("text", ["", " ", "[]"])
def test_an_empty_list_is_read_from_text(text: str) -> None:
    assert read(FRONTIER_FLEET_LIMITS=text).fleet_limits == frozenset()


def test_a_key_in_brackets_is_one_key() -> None:
    assert read(REDIS_START_URLS_KEY="[shop]:seeds").start_urls_keys == ("[shop]:seeds",)


@each_setting
def test_a_setting_changes_no_other(name: str, field: str, default: Any, text: str, value: Any) -> None:
    assert read(**{name: text}) == FrontierSettings(**{field: value})


@pytest.mark.parametrize("name", [row[0] for row in SETTINGS if row[0] != "CONCURRENT_REQUESTS"])
def test_a_setting_that_is_none_has_its_default(name: str) -> None:
    assert read(**{name: None}) == FrontierSettings()


@pytest.mark.parametrize(
    ("text", "value"),
    [("True", True), ("true", True), ("1", True), ("False", False), ("false", False), ("0", False)],
)
@pytest.mark.parametrize("name", ["SCHEDULER_PERSIST", "SCHEDULER_FLUSH_ON_START"])
def test_a_switch_may_be_spelled_as_scrapys_are(name: str, text: str, value: bool) -> None:
    field = "persist" if name == "SCHEDULER_PERSIST" else "flush_on_start"
    assert getattr(read(**{name: text}), field) is value


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("SCHEDULER_IDLE_BEFORE_CLOSE", "idle_before_close", 0),
        ("MAX_IDLE_TIME_BEFORE_CLOSE", "max_idle_time", 0),
        ("REDIS_START_URLS_BATCH_SIZE", "seed_batch", 1),
        ("FRONTIER_LEASE_TIMEOUT", "lease_timeout", 0.1),
        ("FRONTIER_MAX_DELIVERIES", "max_deliveries", 1),
        ("FRONTIER_PREFETCH", "prefetch", 1),
        ("FRONTIER_PREFETCH", "prefetch", 1000),
        ("FRONTIER_FLUSH_INTERVAL", "flush_interval", 0.001),
        ("FRONTIER_FLUSH_INTERVAL", "flush_interval", 5),
        ("FRONTIER_OUTBOX_SIZE", "outbox_size", 1),
        ("FRONTIER_SEEN_CACHE", "seen_cache", 0),
    ],
)
def test_the_least_and_the_most_are_allowed(name: str, field: str, value: float) -> None:
    assert getattr(read(**{name: value}), field) == value


@pytest.mark.parametrize("unlimited", [0, "0", -1])
def test_no_limit_of_concurrent_requests_is_as_many_as_may_be_at_hand(unlimited: Any) -> None:
    assert read(CONCURRENT_REQUESTS=unlimited) == FrontierSettings(concurrency=256)
    assert read(CONCURRENT_REQUESTS=unlimited, FRONTIER_PREFETCH=1000).concurrency == 1000


def test_the_settings_do_not_change_once_read() -> None:
    with pytest.raises(FrozenInstanceError):
        read().prefetch = 1  # type: ignore[misc]


NOT_NUMBERS: list[Any] = ["", "many", "5s", "nan", "inf", "-inf", float("nan"), True, False, [5], b"\xff", {}]
BAD_SWITCHES: list[Any] = ["yes", "on", "", "perhaps", [1], {}, object]
BAD_TEMPLATES: list[Any] = ["  ", "%(worker)s", "%s:%s", "100%", "%d", 5, ["a"], b"requests"]
BAD_SEEDS_KEYS: list[Any] = [
    *(bad for bad in BAD_TEMPLATES if bad != ["a"]),
    "a,,b",
    ["a", 5],
    {"a": 1},
    {"a"},
]
BAD_ENCODINGS: list[Any] = ["utf-9", "hex", "rot13", "undefined", "a\0b", 8, b"utf-8"]
BAD_VALUES: dict[str, list[Any]] = {
    "FRONTIER_MAX_WAITING_POLICY": ["fast", 5, ["slow"], b"slow"],
    "FRONTIER_ITEMS": ["once", True, ["list"]],
    "FRONTIER_FEED": ["../x", "a b", "a,,b", True],
    "FRONTIER_JOINED_FEEDS": ["a.csv", 5, ["a.csv"], {"a.csv": 1}, {1: "4f1d"}, "[1]"],
    "FRONTIER_MAX_ITEMS": [-1, 1.5, "many", True],
    "FRONTIER_SET_ASIDE": [
        "errback",
        "callback;download",
        ["callback", "x"],
        5,
        [["callback"]],
        '["x"]',
        '[["callback"]]',
    ],
    "BACKOFF_HTTP_CODES": ["many", "429;503", 5, ["x"], [[429]], [99], [600], {}],
    "BACKOFF_MIN_DELAY": [*NOT_NUMBERS, 0, -1, 90_000],
    "BACKOFF_MAX_DELAY": [*NOT_NUMBERS, 0, -1, 90_000],
    "FRONTIER_CRAWL_DELAY_MAX": [*NOT_NUMBERS, -1, 90_000],
    "FRONTIER_MAX_PAGES": [*NOT_NUMBERS, -1, 1.5],
    "FRONTIER_OFFERS": [5, ["browser", ""], [["browser"]], {"browser": 1}],
    "FRONTIER_SLOT_GIVE_UP": [*NOT_NUMBERS, -1],
    "FRONTIER_MAX_SEED_BYTES": [*NOT_NUMBERS, 0, -1, 1.5, 1e300],
    "FRONTIER_MAX_FAILED": [*NOT_NUMBERS, 0, -1, 1.5],
    "FRONTIER_MAX_WAITING": [*NOT_NUMBERS, -1, 1.5],
    "FRONTIER_CLOSE_PAGECOUNT": [*NOT_NUMBERS, -1, 1.5],
    "FRONTIER_CLOSE_ITEMCOUNT": [*NOT_NUMBERS, -1, 1.5],
    "FRONTIER_CLOSE_ERRORCOUNT": [*NOT_NUMBERS, -1, 1.5],
    "FRONTIER_CLOSE_TIMEOUT": [*NOT_NUMBERS, -1],
    "FRONTIER_MAX_WORKERS": [*NOT_NUMBERS, -1, 1.5],
    "FRONTIER_MAX_WORKERS_POLICY": ["queue", 5, ["wait"], b"wait"],
    "FRONTIER_MAX_WORKERS_KEY": BAD_TEMPLATES,
    "FRONTIER_STALL_TIMEOUT": [*NOT_NUMBERS, -1],
    "FRONTIER_MAX_EVENTS": [*NOT_NUMBERS, -1, 1.5],
    "FRONTIER_HISTORY": [*NOT_NUMBERS, -1, 1.5, 10_001],
    "FRONTIER_HISTORY_AGE": [*NOT_NUMBERS, 0, 1e17],
    "FRONTIER_HISTORY_ALERT": [*NOT_NUMBERS, -1],
    "FRONTIER_OUTCOMES": [*NOT_NUMBERS, -1, 1.5, 1_000_001],
    "FRONTIER_WEBHOOK_TYPES": ["worker_joins", 5, [["paused"]]],
    "FRONTIER_WAIT_REPLICAS": [*NOT_NUMBERS, -1, 1.5],
    "SCHEDULER_QUEUE_KEY": BAD_TEMPLATES,
    "SCHEDULER_DUPEFILTER_KEY": BAD_TEMPLATES,
    "REDIS_START_URLS_KEY": BAD_SEEDS_KEYS,
    "FRONTIER_JOB": ["a b", "{a}", "100%", " "],
    "SCHEDULER_PERSIST": BAD_SWITCHES,
    "SCHEDULER_FLUSH_ON_START": BAD_SWITCHES,
    "FRONTIER_SEED_FORM_DATA": BAD_SWITCHES,
    "REDIS_ENCODING": BAD_ENCODINGS,
    "SCHEDULER_IDLE_BEFORE_CLOSE": [-1, "-0.5", *NOT_NUMBERS],
    "MAX_IDLE_TIME_BEFORE_CLOSE": [-1, "-0.5", *NOT_NUMBERS],
    "REDIS_START_URLS_BATCH_SIZE": [0, -1, "1.5", *NOT_NUMBERS],
    "FRONTIER_LEASE_TIMEOUT": [0, -1, "0.05", *NOT_NUMBERS],
    "FRONTIER_MAX_DELIVERIES": [0, -1, 2.5, "2.5", *NOT_NUMBERS],
    "FRONTIER_PREFETCH": [0, -1, 1001, "1.5", *NOT_NUMBERS],
    "FRONTIER_FLUSH_INTERVAL": [0, -1, 5.1, "0.0001", *NOT_NUMBERS],
    "FRONTIER_OUTBOX_SIZE": [0, -1, 1.5, *NOT_NUMBERS],
    "FRONTIER_SEEN_CACHE": [-1, 1.5, *NOT_NUMBERS],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_VALUES.items() for value in values], ids=repr
)
def test_a_bad_value_is_refused_with_the_setting_and_the_value(name: str, value: Any) -> None:
    with pytest.raises(SettingError) as refusal:
        read(**{name: value})
    message = str(refusal.value)
    assert message.startswith(f"{name} must be ")
    assert message.endswith(f", not {value!r}")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("FRONTIER_MAX_DELIVERIES", "0", "an integer ≥ 1"),
        ("FRONTIER_MAX_DELIVERIES", "1.5", "an integer ≥ 1"),
        ("FRONTIER_LEASE_TIMEOUT", "0", "a number ≥ 0.1"),
        ("FRONTIER_PREFETCH", "many", "an integer from 1 to 1000"),
        ("FRONTIER_SLOTS_KEY", "%(worker)s", "'politeness'"),
        ("SCHEDULER_PERSIST", "yes", "True or False"),
        ("SCHEDULER_QUEUE_KEY", "%(worker)s", r"%\(spider\)s"),
        ("REDIS_ENCODING", "utf-9", "'utf-8'"),
    ],
)
def test_a_refusal_describes_a_valid_value(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(SettingError, match=f"{name} must be .*{allowed}"):
        read(**{name: value})


# -- pools, whose items are secret ------------------------------------------------------------------

SECRET = "hunter2"
ALICE = {"name": "alice", "password": SECRET}
BAD_POOLS: list[Any] = [
    f'{{"accounts": {{"items": ["{SECRET}"]',
    [ALICE],
    SECRET,
    {"accounts": [ALICE]},
    {"accounts": SECRET},
    {"": {"items": [SECRET]}},
    {5: {"items": [SECRET]}},
    {"accounts": {"items": SECRET}},
    {"accounts": {"items": ALICE}},
    {"accounts": {"items": 5}},
    {"accounts": {"items": [ALICE], "itmes": SECRET}},
    {"accounts": {"items": [ALICE], "for": "spider"}},
    {"accounts": {"items": [ALICE], "kind": "account"}},
    {"accounts": {"items": [ALICE], "delay": -1}},
    {"accounts": {"items": [ALICE], "rate": "often"}},
    {"accounts": {"items": [ALICE], "concurrency": -1}},
    {"accounts": {"items": [ALICE], "rest": 403}},
    {"accounts": {"items": [ALICE], "rest": {"forbidden": 60}}},
    {"accounts": {"items": [ALICE], "rest": {403: "an hour"}}},
    {"accounts": {"items": [ALICE], "rest": {403: -1}}},
    {"accounts": {"items": [ALICE], "rest": {403: True}}},
    {"accounts": {"items": [ALICE], "retire_after": -1}},
    {"accounts": {"items": [ALICE], "retire_after": 1.5}},
    {"accounts": {"items": [ALICE], "headers": {"Authorization": 5}}},
    {"accounts": {"items": [ALICE], "headers": f"Bearer {SECRET}"}},
    {"accounts": {"items": [ALICE], "meta": [SECRET]}},
    {"a" * 201: {"items": [ALICE]}},
]
BAD_ITEMS: list[Any] = [
    5,
    "  ",
    [SECRET],
    {"password": SECRET},
    {"name": 5, "password": SECRET},
    {**ALICE, "delay": -1},
    {**ALICE, "rate": "often"},
    {**ALICE, "token": {SECRET}},
    {**ALICE, "token": float("nan")},
    {"name": "a" * 201, "password": SECRET},
]


@pytest.mark.parametrize("value", BAD_POOLS, ids=range(len(BAD_POOLS)))
def test_a_bad_pool_is_refused_with_a_message_that_shows_no_item(value: Any) -> None:
    with pytest.raises(SettingError, match=r"^FRONTIER_POOLS.* (must|has unknown fields)") as refusal:
        read(FRONTIER_POOLS=value)
    assert SECRET not in str(refusal.value)
    assert SECRET not in repr(refusal.value.__cause__)


@pytest.mark.parametrize("item", BAD_ITEMS, ids=range(len(BAD_ITEMS)))
def test_a_bad_item_is_refused_with_a_message_that_does_not_show_it(item: Any) -> None:
    (pool,) = read(FRONTIER_POOLS={"accounts": {"items": [item]}}).pools
    with pytest.raises(SettingError, match=r"^FRONTIER_POOLS\['accounts'\]: items: ") as refusal:
        list(entries(pool, []))
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    "proxy",
    [f"http://[bob:{SECRET}", {"name": "p", "url": 5, "password": SECRET}, f"10.0.0.1:8080:bob:{SECRET}"],
    ids=["no host", "no URL", "host, port, user and password"],
)
def test_a_bad_proxy_is_refused_with_a_message_that_does_not_show_it(proxy: Any) -> None:
    (pool,) = read(FRONTIER_POOLS={"proxies": {"kind": "proxy", "items": [proxy]}}).pools
    with pytest.raises(SettingError, match="a proxy must be a URL") as refusal:
        list(entries(pool, []))
    assert SECRET not in str(refusal.value)


def test_the_settings_as_text_show_no_item() -> None:
    settings = read(FRONTIER_POOLS={"accounts": {"items": [ALICE]}})
    assert SECRET not in repr(settings)
    assert SECRET not in repr(settings.pools)


# -- classes that settings name ----------------------------------------------------------------------


class OwnQueue(LifoQueue):
    pass


class OwnFilter(RFPDupeFilter):
    pass


@pytest.mark.parametrize(
    ("value", "cls"),
    [
        ("scrapy_rq_sched.PriorityQueue", PriorityQueue),
        ("scrapy_rq_sched.FifoQueue", FifoQueue),
        ("scrapy_rq_sched.queue.SpiderStack", LifoQueue),
        (f"{__name__}.OwnQueue", OwnQueue),
        (OwnQueue, OwnQueue),
    ],
)
def test_a_queue_class_is_named_by_its_path_or_given_itself(value: Any, cls: type) -> None:
    settings = read(SCHEDULER_QUEUE_CLASS=value, SCHEDULER_QUEUE_KEY="q:%(spider)s")
    queue = load_queue(settings, fakeredis.FakeRedis(), PagesSpider(), Keys("pages", settings.queue_key))
    assert (type(queue), queue.key) == (cls, "q:pages")


def test_a_queue_gets_the_serializer_of_the_settings() -> None:
    queue = load_queue(read(SCHEDULER_SERIALIZER="marshal"), fakeredis.FakeRedis(), PagesSpider(), KEYS)
    assert queue.serializer.__name__ == "marshal"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "value",
    ["nothing", "no.such.Queue", "scrapy_rq_sched.NoQueue", "os.getcwd", "builtins.dict", 5, dict],
    ids=repr,
)
def test_a_bad_queue_class_is_refused_with_its_value(value: Any) -> None:
    with pytest.raises(SettingError) as refusal:
        load_queue(read(SCHEDULER_QUEUE_CLASS=value), fakeredis.FakeRedis(), PagesSpider(), KEYS)
    assert str(refusal.value).startswith("SCHEDULER_QUEUE_CLASS ")
    assert repr(value) in str(refusal.value)


class NoPop(Base):
    def push(self, request: Request) -> None: ...

    def __len__(self) -> int:
        return 0


class OtherConstructor(LifoQueue):
    def __init__(self, server: Any) -> None: ...


@pytest.mark.parametrize("cls", [NoPop, OtherConstructor])
def test_a_queue_class_that_cannot_be_instantiated_is_refused_with_the_needed_signature(cls: Any) -> None:
    needed = r"which cannot be instantiated: .* must accept server, spider, key and ser"
    with pytest.raises(SettingError, match=needed):
        load_queue(read(SCHEDULER_QUEUE_CLASS=cls), fakeredis.FakeRedis(), PagesSpider(), KEYS)


class OtherOrder(LifoQueue):
    def __init__(self, key: str, spider: Any, server: Any, serializer: Any) -> None:
        super().__init__(server, spider, key, serializer)


def test_a_queue_gets_its_arguments_by_name() -> None:
    queue = load_queue(read(SCHEDULER_QUEUE_CLASS=OtherOrder), fakeredis.FakeRedis(), PagesSpider(), KEYS)
    assert queue.key == "pages:requests"


@pytest.mark.parametrize(
    ("settings", "cls"),
    [
        ({}, RFPDupeFilter),
        ({"DUPEFILTER_CLASS": "scrapy_rq_sched.RFPDupeFilter"}, RFPDupeFilter),
        ({"DUPEFILTER_CLASS": OwnFilter}, OwnFilter),
        ({"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}, BaseDupeFilter),
    ],
    ids=["none", "ours", "derived", "another"],
)
def test_the_shared_filter_is_used_unless_the_project_names_another(
    settings: dict[str, Any], cls: type
) -> None:
    crawler = get_crawler(PagesSpider, settings)
    assert type(load_dupefilter(crawler, PagesSpider(), fakeredis.FakeRedis(), "seen")) is cls


@pytest.mark.parametrize("value", ["no.such.Filter", "scrapy_rq_sched.NoFilter", "nothing", 5], ids=repr)
def test_a_bad_dupefilter_is_refused_with_its_value(value: Any) -> None:
    crawler = get_crawler(PagesSpider, {"DUPEFILTER_CLASS": value})
    with pytest.raises(SettingError) as refusal:
        load_dupefilter(crawler, PagesSpider(), fakeredis.FakeRedis(), "seen")
    assert str(refusal.value).startswith(f"DUPEFILTER_CLASS is {value!r}")


@pytest.mark.parametrize(
    "value",
    [
        "hooks.test/t0p-secret",
        "https://u:t0p-secret@h/x",
        "https://h/t0p secret",
        "https://h/t0p\x7f",
        "https://h/é-secret",
        "ftp://h/x",
        "https://",
        "http://h:x/",
        5,
        "http://[::1",
    ],
)
def test_a_bad_url_of_a_webhook_is_refused_and_not_shown(value: Any) -> None:
    with pytest.raises(SettingError, match="FRONTIER_WEBHOOK_URL must be a URL") as refused:
        read(FRONTIER_WEBHOOK_URL=value)
    assert len(str(value)) < 9 or str(value) not in str(refused.value)


@pytest.mark.parametrize("value", ["whsec_t0p!", "whsec_"])
def test_a_secret_that_is_not_base64_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(SettingError, match="FRONTIER_WEBHOOK_SECRET must be valid base64") as refused:
        read(FRONTIER_WEBHOOK_SECRET=value)
    assert "t0p!" not in str(refused.value)


def test_secrets_are_not_in_the_repr_of_the_settings() -> None:
    settings = read(FRONTIER_WEBHOOK_URL="https://h.test/t0p", FRONTIER_WEBHOOK_SECRET="t0p")
    assert "t0p" not in repr(settings)
