"""Where a project on scrapy-redis reaches in: classes and methods of its own, on both packages."""

from __future__ import annotations

import importlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import pytest
import redis
import scrapy_redis.connection
import scrapy_redis.scheduler
import scrapy_redis.spiders
from scrapy import Request, Spider, version_info
from scrapy.dupefilters import BaseDupeFilter
from scrapy.exceptions import DontCloseSpider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

import scrapy_rq_sched.spiders
from scrapy_rq_sched.errors import SettingError

from ..support.crawl import wait_until
from . import site
from .copies import ORIGINAL, OURS, Project, waiting

PAGES = site.CATEGORIES + site.PRODUCTS
IMPORTED = time.time()

# Each test has one expectation for both, but where it says otherwise.


def test_a_queue_with_push_pop_and_len_alone_is_crawled_from(project: Project) -> None:
    log = project.start("sitemap", "-s", "SCHEDULER_QUEUE_CLASS=shop.queues.BareQueue")
    project.wait()
    assert sum(project.items("sitemap:items").values()) == PAGES, log.read_text()
    assert not project.has_raised(log)


def test_a_log_of_duplicates_may_use_the_logger_of_its_class(project: Project) -> None:
    dupefilter = "DUPEFILTER_CLASS=shop.dupefilter.TellingDupeFilter"
    log = project.start("sitemap", "-s", dupefilter, "-s", "CONCURRENT_ITEMS=1")
    project.wait()
    assert sum(project.items("sitemap:items").values()) == PAGES
    assert "Known already: " in log.read_text()
    assert not project.has_raised(log)


@pytest.mark.parametrize("project", [OURS], indirect=True)  # with scrapy-redis the crawl hangs
def test_a_log_of_duplicates_that_raises_is_told_of_once_and_the_crawl_goes_on(project: Project) -> None:
    dupefilter = "DUPEFILTER_CLASS=shop.dupefilter.FaultyDupeFilter"
    log = project.start("sitemap", "-s", dupefilter, "-s", "CONCURRENT_ITEMS=1")
    project.wait()
    assert sum(project.items("sitemap:items").values()) == PAGES
    assert log.read_text().count("FaultyDupeFilter cannot log a duplicate: its log() raised") == 1
    assert log.read_text().count("KeyError: 'no such field'") == 1


def names(project: Project, spider: str) -> set[str]:
    return {json.loads(item)["name"] for item in project.items(f"{spider}:items")}


def is_crawled(project: Project, number: int) -> bool:
    return f"Product {number}" in names(project, "patient")


@pytest.mark.long
def test_a_copied_spider_idle_keeps_the_spider_open_while_seeds_come_and_not_for_ever(
    project: Project,
) -> None:
    longest = 6
    log = project.start("patient", "-a", f"max_idle_time={longest}", "-s", "MAX_IDLE_TIME_BEFORE_CLOSE=1")
    wait_until(lambda: "Spider opened" in log.read_text())
    opened = time.monotonic()
    for number in itertools.cycle(range(site.PRODUCTS)):
        project.run("feed.py", "patient:start_urls", str(number))
        wait_until(partial(is_crawled, project, number), message=log.read_text())
        if time.monotonic() > opened + 1.5 * longest:
            break
    assert project.running[0].poll() is None
    project.wait()
    assert "Spider closed (finished)" in log.read_text()
    assert "Traceback" not in log.read_text().partition("Closing spider")[0]


@pytest.mark.long
def test_a_longest_idle_time_of_0_keeps_a_spider_with_a_copied_spider_idle_open(project: Project) -> None:
    log = project.start("patient", "-s", "MAX_IDLE_TIME_BEFORE_CLOSE=0")
    wait_until(lambda: log.read_text().count(" of 0 s") >= 2, message=log.read_text())
    project.run("feed.py", "patient:start_urls", "7")
    wait_until(lambda: names(project, "patient") == {"Product 7"}, message=log.read_text())


def test_seeds_that_a_copied_next_requests_fetches_are_crawled(project: Project) -> None:
    project.run("feed.py", "twosources:start_urls", "1", "2", "3")
    project.run("feed.py", "twosources:more", *map(str, range(4, 24)))
    log = project.start("twosources", "-a", "redis_batch_size=9", "-a", "max_idle_time=30")
    expected = {f"Product {number}" for number in range(1, 24)}
    wait_until(lambda: names(project, "twosources") == expected, message=log.read_text())
    assert not project.server.exists("twosources:start_urls", "twosources:more")


# -- what a spider has --------------------------------------------------------------------------------


@pytest.fixture(params=[scrapy_redis.spiders, scrapy_rq_sched.spiders], ids=[ORIGINAL, OURS])
def make_spider(request: pytest.FixtureRequest, redis_url: str) -> Callable[..., Any]:
    """Return what makes a spider of either package, with these settings and arguments."""
    base: Any = request.param.RedisSpider

    class Fed(base):  # type: ignore[misc]
        name = "fed"

    def make(settings: dict[str, Any] | None = None, **arguments: Any) -> Any:
        return Fed.from_crawler(get_crawler(Fed, {"REDIS_URL": redis_url, **(settings or {})}), **arguments)

    return make


def test_a_spider_has_the_numbers_of_the_settings(make_spider: Callable[..., Any]) -> None:
    spider = make_spider()
    assert (spider.redis_batch_size, spider.max_idle_time) == (16, 0)
    spider = make_spider({"CONCURRENT_REQUESTS": 7, "MAX_IDLE_TIME_BEFORE_CLOSE": "20"})
    assert (spider.redis_batch_size, spider.max_idle_time) == (7, 20)


def test_numbers_from_the_command_line_are_numbers(make_spider: Callable[..., Any]) -> None:
    spider = make_spider(redis_batch_size="12", max_idle_time="60")
    assert (spider.redis_batch_size, spider.max_idle_time) == (12, 60)
    assert (type(spider.redis_batch_size), type(spider.max_idle_time)) == (int, int)


def test_a_new_spider_has_not_been_idle_for_long(make_spider: Callable[..., Any]) -> None:
    spider = make_spider()
    # scrapy-redis counts from when its module was imported, which was about when this one was.
    assert IMPORTED - 600 < spider.spider_idle_start_time <= time.time()
    spider.spider_idle_start_time = later = int(time.time()) + 5
    assert spider.spider_idle_start_time == later


def fill(server: redis.Redis, kind: str) -> dict[str, Any]:
    """Put five seeds where a spider finds them; return the settings that scrapy-redis needs for it."""
    seeds = [b"a", b"b", b"c", b"d", b"e"]
    if kind == "list":
        server.rpush("fed:start_urls", *seeds)
        return {}
    if kind == "set":
        server.sadd("fed:start_urls", *seeds)
        return {"REDIS_START_URLS_AS_SET": True}
    server.zadd("fed:start_urls", {seed: score for score, seed in enumerate(seeds)})
    return {"REDIS_START_URLS_AS_ZSET": True}


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_seeds_are_fetched_in_batches_and_counted(
    make_spider: Callable[..., Any], server: redis.Redis, kind: str
) -> None:
    spider = make_spider(fill(server, kind))
    assert spider.count_size(spider.redis_key) == 5
    first = list(spider.fetch_data(spider.redis_key, 2))
    assert kind == "set" or first == {"list": [b"a", b"b"], "zset": [b"e", b"d"]}[kind]
    assert spider.count_size(spider.redis_key) == 3
    rest = list(spider.fetch_data(spider.redis_key, 9))
    assert sorted(first + rest) == [b"a", b"b", b"c", b"d", b"e"]
    assert list(spider.fetch_data(spider.redis_key, 9)) == []
    assert spider.count_size(spider.redis_key) == 0


@pytest.mark.parametrize(("kind", "method"), [("list", "pop_list_queue"), ("zset", "pop_priority_queue")])
def test_a_batch_is_popped_by_the_names_of_scrapy_redis(
    make_spider: Callable[..., Any], server: redis.Redis, kind: str, method: str
) -> None:
    spider = make_spider(fill(server, kind))
    pop = getattr(spider, method)
    ordered = {"list": [b"a", b"b", b"c", b"d", b"e"], "zset": [b"e", b"d", b"c", b"b", b"a"]}[kind]
    assert pop(spider.redis_key, 4) == ordered[:4]
    assert pop(spider.redis_key, 4) == ordered[4:]
    assert pop(spider.redis_key, 4) == []


def test_seeds_of_several_keys_are_fetched_in_their_order(server: redis.Redis, redis_url: str) -> None:
    spider = FedByTwo.from_crawler(get_crawler(FedByTwo, {"REDIS_URL": redis_url}))
    server.rpush("fed:urgent", b"1", b"2")
    server.sadd("fed:start_urls", b"3")
    assert spider.count_size(spider.redis_key) == 3
    assert spider.fetch_data(spider.redis_key, 1) == [b"1"]
    assert spider.fetch_data(spider.redis_key, 5) == [b"2", b"3"]


class FedByTwo(scrapy_rq_sched.RedisSpider):
    name = "fed"
    redis_key: ClassVar[Any] = ["%(name)s:urgent", "%(name)s:start_urls"]


def test_a_spider_that_cannot_ask_redis_stays_open_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    spider = FedByTwo.from_crawler(get_crawler(FedByTwo, {"REDIS_URL": "redis://127.0.0.1:1/0"}))
    for ask in (spider.count_size, lambda key: spider.fetch_data(key, 1)):
        with pytest.raises(DontCloseSpider):
            ask(spider.redis_key)
    assert (
        caplog.text.count("Spider 'fed' could not ask for more requests. It stays open, and asks again: ")
        == 2
    )


@pytest.mark.parametrize("key", ["", "  "])
def test_an_empty_key_of_seeds_is_refused(project: Project, key: str) -> None:
    log = project.start("offers", "-a", f"redis_key={key}")
    project.wait()
    assert project.running[0].returncode == 1
    # What a spider raises as it is made, Scrapy 2.13 logs when it is collected: never in a forked process.
    if project.is_ours or version_info >= (2, 14):
        assert (
            "redis_key must be a key" if project.is_ours else "redis_key must not be empty"
        ) in log.read_text()
    assert not project.has_raised(log)


# -- what a scheduler has, and what the modules have ---------------------------------------------------


class AnySpider(Spider):
    name = "any"


@pytest.fixture(params=[scrapy_redis, scrapy_rq_sched], ids=[ORIGINAL, OURS])
def make_scheduler(request: pytest.FixtureRequest, redis_url: str) -> Iterator[Callable[..., Any]]:
    """Return what makes a scheduler of either package, which is not open; close its client in the end."""
    package = request.param.__name__
    made: list[Any] = []

    def make(**settings: Any) -> Any:
        named = {name: str(value).replace(ORIGINAL, package) for name, value in settings.items()}
        named["DUPEFILTER_CLASS"] = f"{package}.dupefilter.RFPDupeFilter"
        crawler = get_crawler(AnySpider, {"REDIS_URL": redis_url, **named})
        scheduler = request.param.scheduler.Scheduler.from_crawler(crawler)
        made.append(scheduler)
        return scheduler

    yield make
    for scheduler in made:
        scheduler.server.close()


def test_a_scheduler_tells_its_settings_by_the_names_of_scrapy_redis(
    make_scheduler: Callable[..., Any],
) -> None:
    scheduler = make_scheduler(
        SCHEDULER_PERSIST="1",
        SCHEDULER_FLUSH_ON_START="1",
        SCHEDULER_IDLE_BEFORE_CLOSE=9,
        SCHEDULER_QUEUE_CLASS="scrapy_redis.queue.FifoQueue",
        SCHEDULER_QUEUE_KEY="%(spider)s:waiting",
        SCHEDULER_DUPEFILTER_KEY="%(spider)s:seen",
        SCHEDULER_SERIALIZER="scrapy_redis.picklecompat",
    )
    assert (scheduler.persist, scheduler.flush_on_start, scheduler.idle_before_close) == (True, True, 9)
    assert (scheduler.queue_key, scheduler.dupefilter_key) == ("%(spider)s:waiting", "%(spider)s:seen")
    assert scheduler.queue_cls.endswith(".queue.FifoQueue")
    assert scheduler.dupefilter_cls.endswith(".dupefilter.RFPDupeFilter")
    assert scheduler.serializer.loads(scheduler.serializer.dumps({"a": (1,)})) == {"a": (1,)}


class OwnFilter(BaseDupeFilter):
    @classmethod
    def from_spider(cls, spider: Spider) -> OwnFilter:
        return cls()

    @classmethod
    def from_crawler(cls, crawler: Any) -> OwnFilter:
        return cls()

    def clear(self) -> None: ...


def test_attributes_set_before_a_scheduler_opens_hold(
    make_scheduler: Callable[..., Any], server: redis.Redis, redis_url: str
) -> None:
    scheduler = make_scheduler()
    package = type(scheduler).__module__.partition(".")[0]
    scheduler.persist = True
    scheduler.idle_before_close = 0
    scheduler.queue_cls = f"{package}.queue.LifoQueue"
    scheduler.queue_key = "%(spider)s:waiting"
    scheduler.dupefilter_cls = f"{__name__}.OwnFilter"
    scheduler.dupefilter_key = "%(spider)s:seen"
    scheduler.serializer = importlib.import_module(f"{package}.picklecompat")
    scheduler.open(AnySpider.from_crawler(get_crawler(AnySpider, {"REDIS_URL": redis_url})))
    assert type(scheduler.df) is OwnFilter
    for number in range(3):
        scheduler.enqueue_request(Request(f"http://example.com/{number}", meta={"at": (number,)}))
    assert waiting(server, "any:waiting") == 3
    first = scheduler.next_request()
    assert (first.url, first.meta) == ("http://example.com/2", {"at": (2,)})
    scheduler.close("finished")
    assert waiting(server, "any:waiting") == 2


def test_a_scheduler_may_be_told_to_begin_anew(
    make_scheduler: Callable[..., Any], server: redis.Redis, redis_url: str
) -> None:
    for flush, count in ((False, 1), (False, 2), (True, 1)):
        scheduler = make_scheduler()
        scheduler.persist = True
        scheduler.flush_on_start = flush
        scheduler.open(AnySpider.from_crawler(get_crawler(AnySpider, {"REDIS_URL": redis_url})))
        scheduler.enqueue_request(Request("http://example.com/", dont_filter=True, meta={"n": count}))
        assert waiting(server, "any:requests") == count
        scheduler.close("shutdown")


@pytest.mark.parametrize(
    ("name", "value"),
    [("idle_before_close", -1), ("queue_key", "%"), ("persist", "perhaps"), ("serializer", "nothing")],
)
def test_an_attribute_refuses_a_bad_value_of_its_setting(redis_url: str, name: str, value: Any) -> None:
    scheduler = scrapy_rq_sched.Scheduler.from_crawler(get_crawler(AnySpider, {"REDIS_URL": redis_url}))
    with pytest.raises(SettingError, match=f"^SCHEDULER_{name.upper()} .*be .*"):
        setattr(scheduler, name, value)


@pytest.mark.parametrize("package", [scrapy_redis, scrapy_rq_sched], ids=[ORIGINAL, OURS])
def test_the_modules_have_the_names_that_a_project_imports(package: Any, server: redis.Redis) -> None:
    assert package.__version__[0].isdigit()
    defaults = importlib.import_module(f"{package.__name__}.defaults")
    assert defaults.REDIS_CLS is redis.Redis
    dupefilter = importlib.import_module(f"{package.__name__}.dupefilter")
    dupefilter.RFPDupeFilter(server, "seen").close()
    params = importlib.import_module(f"{package.__name__}.connection").SETTINGS_PARAMS_MAP
    assert params["REDIS_URL"] == "url"
    assert params.keys() == scrapy_redis.connection.SETTINGS_PARAMS_MAP.keys()


@pytest.mark.parametrize("package", [ORIGINAL, OURS])
def test_a_setting_that_is_added_to_the_map_is_a_parameter_of_the_client(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = importlib.import_module(f"{package}.connection")
    monkeypatch.setitem(connection.SETTINGS_PARAMS_MAP, "REDIS_PASSWORD", "password")
    client = connection.get_redis_from_settings(Settings({"REDIS_PASSWORD": "secret"}))
    assert client.get_connection_kwargs()["password"] == "secret"


def test_a_worker_that_finds_requests_says_how_many_it_resumes(project: Project) -> None:
    stop = ("-s", "CLOSESPIDER_PAGECOUNT=5", "-s", "CONCURRENT_REQUESTS=2", "-s", "LOG_LEVEL=DEBUG")
    first = project.start("sitemap", *stop)
    project.wait()
    count = waiting(project.server, "sitemap:requests")
    second = project.start("sitemap", "-s", "LOG_LEVEL=DEBUG")
    project.wait()
    assert "Resuming crawl" not in first.read_text()
    assert f"Resuming crawl ({count} requests scheduled)" in second.read_text()
