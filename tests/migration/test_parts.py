"""The parts that a project on scrapy-redis uses or overrides, one by one."""

from __future__ import annotations

import importlib
import inspect
import json
import pickle
from typing import Any

import pytest
import redis
import scrapy_redis.defaults
import scrapy_redis.picklecompat
import scrapy_redis.queue
import scrapy_redis.utils
from scrapy import Request, Spider, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.request import request_from_dict
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import RedisSpider, RFPDupeFilter, defaults, picklecompat, queue, utils
from scrapy_rq_sched.assembly.dupefilter import load_dupefilter
from scrapy_rq_sched.assembly.queue import is_custom
from scrapy_rq_sched.errors import UnserializableRequestError
from scrapy_rq_sched.settings import FrontierSettings
from scrapy_rq_sched.spiders import RedisMixin

MODULES = ("connection", "defaults", "dupefilter", "picklecompat", "pipelines", "queue", "scheduler")
MODULES = (*MODULES, "spiders", "stats", "utils")
#: What is missing on purpose; docs/migrating.md says why.
NOT_HERE = {
    "scheduler.Scheduler": {"flush", "from_settings"},
    "spiders": {"scrapy_version"},
    "spiders.RedisMixin": {"start_requests"},
    "stats": {"SCHEDULER_PERSIST", "STATS_KEY"},
}


class PagesSpider(Spider):
    name = "pages"

    def parse_page(self, response: Any) -> None:
        pass


# -- names -------------------------------------------------------------------------------------------


def own_names(thing: Any, module: str) -> set[str]:
    """Return the public names of a module, or of a class, that are not imported from elsewhere."""
    found = vars(thing).items()
    return {
        name
        for name, value in found
        if not name.startswith("__") and getattr(value, "__module__", module) in (module, None)
        if not inspect.ismodule(value) and name not in ("logger", "_abc_impl")
    }


@pytest.mark.parametrize("name", MODULES)
def test_each_module_has_the_names_that_it_has_in_scrapy_redis(name: str) -> None:
    theirs, ours = (importlib.import_module(f"{package}.{name}") for package in ("scrapy_redis", OURS))
    missing = {each for each in own_names(theirs, theirs.__name__) if not hasattr(ours, each)}
    assert missing == NOT_HERE.get(name, set())


OURS = "scrapy_rq_sched"
CLASSES = [
    *(f"queue.{name}" for name in ("Base", "FifoQueue", "LifoQueue", "PriorityQueue")),
    *(f"spiders.{name}" for name in ("RedisMixin", "RedisSpider", "RedisCrawlSpider")),
    *("dupefilter.RFPDupeFilter", "pipelines.RedisPipeline", "stats.RedisStatsCollector"),
    "scheduler.Scheduler",
]


@pytest.mark.parametrize("path", CLASSES)
def test_each_class_has_the_names_that_it_has_in_scrapy_redis(path: str) -> None:
    module, name = path.split(".")
    theirs, ours = (
        getattr(importlib.import_module(f"{package}.{module}"), name) for package in ("scrapy_redis", OURS)
    )
    missing = {each for each in own_names(theirs, theirs.__module__) if not hasattr(ours, each)}
    assert missing == NOT_HERE.get(path, set())


@pytest.mark.parametrize(
    "path", ["pipelines.RedisPipeline", "stats.RedisStatsCollector", "queue.FifoQueue", "queue.PriorityQueue"]
)
def test_each_method_takes_the_arguments_that_it_takes_in_scrapy_redis(path: str) -> None:
    module, name = path.split(".")
    theirs, ours = (
        getattr(importlib.import_module(f"{package}.{module}"), name) for package in ("scrapy_redis", OURS)
    )
    for method in {*own_names(theirs, theirs.__module__), "__init__"}:
        if not callable(getattr(theirs, method)):
            continue
        expected = list(inspect.signature(getattr(theirs, method)).parameters)
        assert list(inspect.signature(getattr(ours, method)).parameters)[: len(expected)] == expected, method


def test_every_default_is_the_one_that_is_used() -> None:
    used = FrontierSettings()
    assert used.queue_key == defaults.SCHEDULER_QUEUE_KEY == scrapy_redis.defaults.SCHEDULER_QUEUE_KEY
    assert used.dupefilter_key == scrapy_redis.defaults.SCHEDULER_DUPEFILTER_KEY
    assert used.items_key == defaults.PIPELINE_KEY == scrapy_redis.defaults.PIPELINE_KEY
    assert used.stats_key == defaults.STATS_KEY == scrapy_redis.defaults.STATS_KEY
    assert used.start_urls_keys[0] == defaults.START_URLS_KEY == scrapy_redis.defaults.START_URLS_KEY


@pytest.mark.parametrize("value", [b"text", "text", 7])
def test_bytes_become_text_and_the_rest_stays(value: Any) -> None:
    assert utils.bytes_to_str(value) == scrapy_redis.utils.bytes_to_str(value)


@pytest.mark.parametrize("value", ["{}", "[1]", "no", '{"a": 1}'])
def test_is_dict_agrees_with_scrapy_redis(value: str) -> None:
    assert utils.is_dict(value) is scrapy_redis.utils.is_dict(value)


def test_a_dict_of_bytes_becomes_one_of_text() -> None:
    assert utils.convert_bytes_to_str({b"a": b"b", "c": 1}) == {"a": "b", "c": 1}


# -- pickle, and queues ------------------------------------------------------------------------------


def request_of(spider: Spider) -> Request:
    return Request(
        "http://example.com/",
        callback=spider.parse_page,  # type: ignore[attr-defined]
        method="POST",
        body=b"\xff",
        headers={"X": "y"},
        meta={"at": (1, {2})},
        cb_kwargs={"n": 1},
        priority=3,
        dont_filter=True,
        flags=["f"],
    )


@pytest.mark.parametrize("name", ["FifoQueue", "LifoQueue", "PriorityQueue"])
@pytest.mark.parametrize("ours_writes", [True, False], ids=["ours writes", "scrapy-redis writes"])
def test_a_pickled_request_is_read_by_the_other(server: redis.Redis, name: str, ours_writes: bool) -> None:
    spider = PagesSpider()
    ours = getattr(queue, name)(server, spider, "%(spider)s:requests", picklecompat)
    theirs = getattr(scrapy_redis.queue, name)(server, spider, "%(spider)s:requests")
    writer, reader = (ours, theirs) if ours_writes else (theirs, ours)
    request = request_of(spider)
    writer.push(request)
    assert reader.pop().to_dict(spider=spider) == request.to_dict(spider=spider)


def test_a_pickle_is_of_the_newest_protocol() -> None:
    assert picklecompat.dumps([1]) == pickle.dumps([1], protocol=pickle.HIGHEST_PROTOCOL)
    assert scrapy_redis.picklecompat.loads(picklecompat.dumps([1])) == [1]


class OwnFormat(queue.PriorityQueue):
    """Written for scrapy-redis: its own entries, by the names that are there."""

    def _encode_request(self, request: Request) -> Any:
        obj = request.to_dict(spider=self.spider)
        return json.dumps({"u": obj["url"], "p": obj["priority"]})

    def _decode_request(self, encoded_request: bytes) -> Request:
        obj = json.loads(encoded_request)
        return request_from_dict({"url": obj["u"], "priority": obj["p"]}, spider=self.spider)


class Wrapped(queue.PriorityQueue):
    """Written for scrapy-redis: what its base writes, with something around it."""

    def _encode_request(self, request: Request) -> Any:
        return b">" + super()._encode_request(request)

    def _decode_request(self, encoded_request: bytes) -> Request:
        return super()._decode_request(encoded_request[1:])


@pytest.mark.parametrize("cls", [OwnFormat, Wrapped])
def test_a_queue_that_encodes_by_scrapy_redis_names_does_so_in_a_crawl_too(
    server: redis.Redis, cls: Any
) -> None:
    made = cls(server, PagesSpider(), "%(spider)s:requests")
    assert not is_custom(made)  # its entries are leased
    entry = made.encode_request(Request("http://example.com/1", priority=2), unique=True)
    assert entry[:2] in (b'{"', b">{")
    assert made.decode_request(entry).url == "http://example.com/1"
    made.push(Request("http://example.com/2"))
    assert made.pop().url == "http://example.com/2"


def test_equal_requests_stay_two_in_a_queue_that_wraps_its_base(server: redis.Redis) -> None:
    made = Wrapped(server, PagesSpider(), "%(spider)s:requests")
    for _ in range(2):
        made.push(Request("http://example.com/", dont_filter=True))
    assert len(made) == 2


class Raising(queue.FifoQueue):
    def _encode_request(self, request: Request) -> Any:
        raise ZeroDivisionError("no")


def test_an_exception_of_an_encoder_refuses_its_request_only(server: redis.Redis) -> None:
    made = Raising(server, PagesSpider(), "%(spider)s:requests")
    with pytest.raises(UnserializableRequestError, match="_encode_request raised ZeroDivisionError: no"):
        made.encode_request(Request("http://example.com/"))


# -- dupefilters -------------------------------------------------------------------------------------


class OldConstructor(RFPDupeFilter):
    def __init__(self, server: Any, key: str, debug: bool = False) -> None:
        super().__init__(server, key, debug)
        self.own = True


class NewConstructor(RFPDupeFilter):
    def __init__(self, server: Any, key: str, debug: bool, fingerprinter: Any) -> None:
        super().__init__(server, key, debug, fingerprinter)


@pytest.mark.parametrize("cls", [OldConstructor, NewConstructor])
def test_a_dupefilter_may_have_the_constructor_of_scrapy_redis(server: redis.Redis, cls: Any) -> None:
    crawler = get_crawler(PagesSpider, {"DUPEFILTER_CLASS": cls})
    made = load_dupefilter(crawler, PagesSpider(), server, "seen")
    assert type(made) is cls
    assert made.fingerprinter is crawler.request_fingerprinter


def test_a_script_may_make_the_dupefilter_of_a_spider(server: redis.Redis, redis_url: str) -> None:
    crawler = get_crawler(PagesSpider, {"REDIS_URL": redis_url})
    made = RFPDupeFilter.from_spider(PagesSpider.from_crawler(crawler))
    assert made.request_seen(Request("http://example.com/")) is False
    assert made.request_seen(Request("http://example.com/")) is True
    assert server.scard("pages:dupefilter") == 1


def test_the_first_duplicate_is_logged_and_logdupes_says_so() -> None:
    spider = PagesSpider.from_crawler(get_crawler(PagesSpider))
    made = RFPDupeFilter(None, "seen")
    assert made.logdupes is True
    made.log(Request("http://example.com/"), spider)
    assert made.logdupes is False


# -- spiders -----------------------------------------------------------------------------------------


class FedSpider(RedisSpider):
    name = "fed"


class MixedSpider(RedisMixin, Spider):
    """Written for scrapy-redis: it sets itself up."""

    name = "fed"

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.setup_redis()
        return spider


@pytest.mark.parametrize("cls", [FedSpider, MixedSpider])
def test_a_spider_knows_its_key_its_encoding_and_a_client(
    server: redis.Redis, redis_url: str, cls: Any
) -> None:
    spider = cls.from_crawler(get_crawler(cls, {"REDIS_URL": redis_url, "REDIS_ENCODING": "cp1251"}))
    assert (spider.redis_key, spider.redis_encoding) == ("fed:start_urls", "cp1251")
    spider.server.lpush(spider.redis_key, "seed")
    assert server.llen("fed:start_urls") == 1


def test_a_spider_without_a_crawler_cannot_be_set_up() -> None:
    with pytest.raises(ValueError, match="must be called with a crawler"):
        FedSpider().setup_redis()


class ElsewhereSpider(FedSpider):
    def next_requests(self) -> Any:
        yield Request("http://example.com/")


def test_requests_from_elsewhere_are_taken_when_the_fleet_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    crawler = get_crawler(ElsewhereSpider)
    spider = ElsewhereSpider.from_crawler(crawler)
    crawled: list[Request] = []

    class Engine:
        def crawl(self, request: Request) -> None:
            crawled.append(request)

    crawler.engine = Engine()  # type: ignore[assignment]
    monkeypatch.setattr("scrapy_rq_sched.spiders.find_scheduler", lambda crawler: None)
    crawler.signals.send_catch_log(signals.spider_idle, spider=spider, dont_log=(DontCloseSpider,))
    assert [request.url for request in crawled] == ["http://example.com/"]


class OwnFetchSpider(FedSpider):
    def pop_list_queue(self, redis_key: str, batch_size: int) -> list[bytes]:
        return []


class CopiedSpider(OwnFetchSpider):
    def next_requests(self) -> Any:
        self.fetch_data(self.redis_key or "", 1)
        return ()


@pytest.mark.parametrize(
    ("cls", "warned"), [(OwnFetchSpider, True), (FedSpider, False), (CopiedSpider, False)]
)
def test_a_way_of_reading_seeds_that_is_not_called_is_warned_of(
    caplog: pytest.LogCaptureFixture, cls: Any, warned: bool
) -> None:
    crawler = get_crawler(cls, {"SCHEDULER": "scrapy_rq_sched.Scheduler"})
    spider = cls.from_crawler(crawler)
    crawler.signals.send_catch_log(signals.spider_opened, spider=spider)
    assert ("defines its own pop_list_queue, which is not called" in caplog.text) is warned
