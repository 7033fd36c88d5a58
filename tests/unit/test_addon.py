"""The add-on, and the spiders that stay open: what both set up before a crawl starts."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from scrapy import Spider, signals
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.spiders import CrawlSpider
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import Addon, RedisCrawlSpider, RedisSpider, Scheduler, spiders
from scrapy_rq_sched.errors import SeedError, SettingError
from scrapy_rq_sched.failures import FailedDownloads

ADDON = {"ADDONS": {"scrapy_rq_sched.Addon": 500}}
OURS = {"SCHEDULER": "scrapy_rq_sched.Scheduler", "DUPEFILTER_CLASS": "scrapy_rq_sched.RFPDupeFilter"}
OTHERS = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
}


class OwnSettingsSpider(Spider):
    name = "own"
    custom_settings = OTHERS


class OwnScheduler(Scheduler):
    pass


# -- the add-on --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OURS)
def test_the_addon_sets_the_scheduler_and_the_dupefilter(name: str) -> None:
    assert get_crawler(settings_dict=ADDON).settings[name] == OURS[name]


@pytest.mark.parametrize("name", OURS)
def test_a_setting_of_the_project_has_precedence_over_the_addon(name: str) -> None:
    settings = get_crawler(settings_dict={**ADDON, name: OTHERS[name]}).settings
    assert {key: settings[key] for key in OURS} == {**OURS, name: OTHERS[name]}


@pytest.mark.parametrize("name", OURS)
def test_a_setting_of_the_spider_has_precedence_over_the_addon(name: str) -> None:
    assert get_crawler(OwnSettingsSpider, ADDON).settings[name] == OTHERS[name]


@pytest.mark.parametrize("name", OURS)
def test_without_the_addon_scrapys_own_stay(name: str) -> None:
    assert get_crawler().settings[name] != OURS[name]


def test_the_addon_sets_nothing_else() -> None:
    with_it, without = (get_crawler(settings_dict=each).settings.copy_to_dict() for each in (ADDON, {}))
    changed = {name for name in with_it if with_it[name] != without.get(name)}
    assert changed == {*OURS, "ADDONS", "DOWNLOADER_MIDDLEWARES"}


def test_the_addons_middleware_is_off_unless_it_is_asked_for() -> None:
    for chosen, expected in (([], False), (["download"], True)):
        crawler = get_crawler(settings_dict={**ADDON, "FRONTIER_SET_ASIDE": chosen})
        middlewares = DownloaderMiddlewareManager.from_crawler(crawler).middlewares
        assert any(isinstance(each, FailedDownloads) for each in middlewares) is expected


def test_a_crawler_with_the_addon_alone_makes_our_scheduler() -> None:
    crawler = get_crawler(settings_dict=ADDON)
    assert type(Scheduler.from_crawler(crawler)) is Scheduler


# -- spiders that stay open --------------------------------------------------------------------------


class Clock:
    """A scheduler whose fleet has been idle for as long as it is told."""

    idle_seconds = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(spiders, "find_scheduler", lambda crawler: clock)
    return clock


class SeededSpider(RedisSpider):
    name = "seeded"

    def parse(self, response: Any) -> None:
        pass


class SeededCrawlSpider(RedisCrawlSpider):
    name = "seeded"


class PatientSpider(SeededSpider):
    max_idle_time = 20.0


each_spider = pytest.mark.parametrize("cls", [SeededSpider, SeededCrawlSpider])


def spider_of(
    cls: type[Any], arguments: dict[str, Any] | None = None, **settings: Any
) -> tuple[Any, Crawler]:
    crawler = get_crawler(cls, {**OURS, **settings})
    return cls.from_crawler(crawler, **arguments or {}), crawler


def idle(crawler: Crawler, spider: Any) -> bool:
    """Announce that *spider* is idle as Scrapy does; return whether it is to stay open."""
    answers = crawler.signals.send_catch_log(signals.spider_idle, spider=spider, dont_log=(DontCloseSpider,))
    failures = [answer.value for _, answer in answers if answer is not None]
    assert all(isinstance(failure, DontCloseSpider) for failure in failures), failures
    return bool(failures)


@each_spider
def test_an_idle_spider_stays_open_for_ever_by_default(cls: type[Any], clock: Clock) -> None:
    spider, crawler = spider_of(cls)
    assert idle(crawler, spider)
    clock.idle_seconds += 1e9
    assert idle(crawler, spider)


IDLE_TIMES = [
    pytest.param(SeededSpider, {}, {"MAX_IDLE_TIME_BEFORE_CLOSE": 20}, id="setting"),
    pytest.param(SeededSpider, {}, {"MAX_IDLE_TIME_BEFORE_CLOSE": "20"}, id="setting as text"),
    pytest.param(SeededCrawlSpider, {}, {"MAX_IDLE_TIME_BEFORE_CLOSE": 20}, id="setting of a crawl spider"),
    pytest.param(PatientSpider, {}, {}, id="attribute"),
    pytest.param(PatientSpider, {}, {"MAX_IDLE_TIME_BEFORE_CLOSE": 5}, id="attribute over setting"),
    pytest.param(SeededSpider, {"max_idle_time": "20"}, {}, id="argument of the command line"),
]


@pytest.mark.parametrize(("cls", "arguments", "settings"), IDLE_TIMES)
def test_an_idle_spider_closes_when_it_has_been_idle_for_too_long(
    cls: type[Any], arguments: dict[str, Any], settings: dict[str, Any], clock: Clock
) -> None:
    spider, crawler = spider_of(cls, arguments, **settings)
    stays = []
    for _ in range(3):
        stays.append(idle(crawler, spider))
        clock.idle_seconds += 10
    assert stays == [True, True, False]


def test_a_spider_stays_open_though_its_methods_have_no_other_reference(clock: Clock) -> None:
    spider, crawler = spider_of(SeededSpider)
    gc.collect()
    assert idle(crawler, spider)


@pytest.mark.parametrize("value", ["long", "-5", -5.0], ids=repr)
def test_a_bad_idle_time_of_a_spider_is_refused_when_it_opens(value: Any) -> None:
    with pytest.raises(SettingError, match=f"max_idle_time must be a number ≥ 0, not {value!r}"):
        spider_of(SeededSpider, {"max_idle_time": value})[0].check_setup()


@each_spider
@pytest.mark.parametrize("scheduler", ["scrapy.core.scheduler.Scheduler", None], ids=["Scrapy's", "none set"])
def test_a_scheduler_that_reads_no_seeds_is_refused_by_name(cls: type[Any], scheduler: str | None) -> None:
    crawler = get_crawler(cls, {"SCHEDULER": scheduler} if scheduler else {})
    with pytest.raises(SettingError, match=r"not 'scrapy\.core\.scheduler\.Scheduler'"):
        cls.from_crawler(crawler).check_setup()


@pytest.mark.parametrize("scheduler", [Scheduler, OwnScheduler, f"{__name__}.OwnScheduler"])
def test_our_scheduler_and_one_derived_from_it_will_do(scheduler: Any) -> None:
    spider, _ = spider_of(SeededSpider, SCHEDULER=scheduler)
    spider.check_setup()


def test_a_crawl_spider_keeps_its_rules_and_callbacks() -> None:
    spider, _ = spider_of(SeededCrawlSpider)
    assert isinstance(spider, CrawlSpider)
    assert spider._rules == []


@each_spider
def test_a_seed_is_made_into_a_request_of_the_spider(cls: type[Any]) -> None:
    spider, _ = spider_of(cls)
    made = spider.make_request_from_data(b'{"url": "http://example.com/", "priority": 3}')
    assert (made.url, made.priority, made.dont_filter) == ("http://example.com/", 3, True)


def test_a_seed_may_name_a_method_of_the_spider() -> None:
    spider, _ = spider_of(SeededSpider)
    made = spider.make_request_from_data(b'{"url": "http://example.com/", "callback": "parse"}')
    assert made.callback == spider.parse


def test_a_bad_seed_is_refused() -> None:
    spider, _ = spider_of(SeededSpider)
    with pytest.raises(SeedError, match="scheme"):
        spider.make_request_from_data(b"not a URL")


class EncodedSpider(SeededSpider):
    redis_encoding = "cp1251"


@pytest.mark.parametrize(
    ("cls", "settings", "encoding"),
    [
        (SeededSpider, {}, "utf-8"),
        (SeededSpider, {"REDIS_ENCODING": "utf-16"}, "utf-16"),
        (EncodedSpider, {"REDIS_ENCODING": "utf-16"}, "cp1251"),
    ],
    ids=["default", "setting", "attribute over setting"],
)
def test_a_seed_is_read_in_the_encoding_of_the_spider_or_the_settings(
    cls: type[Any], settings: dict[str, Any], encoding: str
) -> None:
    spider, _ = spider_of(cls, **settings)
    made = spider.make_request_from_data('{"url": "http://example.com/", "body": "жук"}'.encode(encoding))
    assert made.body.decode() == "жук"


def test_the_add_on_is_logged_by_its_name() -> None:
    assert repr(Addon()) == "scrapy_rq_sched.Addon"
