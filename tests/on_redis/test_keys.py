"""Which keys a frontier has: by the spider's name, the job, the templates, and on a Cluster by one slot."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from redis.crc import key_slot
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from scrapy_rq_sched import Scheduler, connection
from scrapy_rq_sched.assembly.keys import load_keys
from scrapy_rq_sched.errors import SettingError
from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.settings import FrontierSettings

from ..processes.test_crawl import pages
from ..support.client import Client, Join
from ..support.crawl import Fleet
from ..unit.test_request import PagesSpider

CLUSTER = "redis+cluster://localhost:7000"
SHARED = "all:seen"


def load(url: str = "redis://localhost", redis_key: Any = None, **settings: Any) -> Keys:
    read = FrontierSettings.from_settings(Settings(settings))
    return load_keys(read, connection.get_redis(url=url), "shop", redis_key)


def test_all_keys_begin_with_the_spiders_name() -> None:
    assert {key.split(":")[0] for key in load().all()} == {"shop"}


@pytest.mark.parametrize(
    ("template", "prefix"),
    [
        ("%(spider)s:requests", "shop"),
        ("prod:%(spider)s:requests", "prod:shop"),
        ("%(spider)s:%(job)s:requests", "shop:7"),
        ("queue-of-%(spider)s", "queue-of-shop:frontier"),
    ],
)
def test_a_queue_key_of_its_own_gives_a_frontier_all_other_keys_of_its_own(
    template: str, prefix: str
) -> None:
    keys = load(SCHEDULER_QUEUE_KEY=template, FRONTIER_JOB="7")
    assert {keys.failed, keys.workers} == {f"{prefix}:failed", f"{prefix}:workers"}
    assert keys.workers in keys.all()


def test_queues_with_one_name_as_the_beginning_of_the_other_share_no_keys() -> None:
    one, other = (
        set(load(SCHEDULER_QUEUE_KEY=key).all()) for key in ("x:%(spider)s:requests", "x:%(spider)s")
    )
    common = {load().dupefilter, *load().start_urls}
    assert one & other == common


def test_the_job_is_taken_from_the_environment_if_no_setting_names_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCRAPY_JOB", "from-scrapyd")
    template = "%(spider)s:%(job)s:requests"
    assert load(SCHEDULER_QUEUE_KEY=template).requests == "shop:from-scrapyd:requests"
    assert load(SCHEDULER_QUEUE_KEY=template, FRONTIER_JOB="7").requests == "shop:7:requests"


@pytest.mark.parametrize("name", ["SCHEDULER_QUEUE_KEY", "SCHEDULER_DUPEFILTER_KEY", "REDIS_START_URLS_KEY"])
def test_a_key_with_a_job_in_a_crawl_that_has_none_is_refused(name: str) -> None:
    with pytest.raises(
        SettingError, match=f"{name} is 'x:%\\(job\\)s', but this crawl has no job. Set FRONTIER_JOB"
    ):
        load(**{name: "x:%(job)s"})


@pytest.mark.parametrize("value", [["%(name)s:now", "%(name)s:later"], "%(name)s:now,%(name)s:later"])
def test_seeds_may_have_several_keys(value: Any) -> None:
    assert load(REDIS_START_URLS_KEY=value).start_urls == ["shop:now", "shop:later"]
    assert load(redis_key=value).start_urls == ["shop:now", "shop:later"]


def test_on_a_cluster_all_keys_are_on_one_slot() -> None:
    keys = load(CLUSTER, REDIS_START_URLS_KEY=["%(name)s:now", "%(name)s:later"])
    assert keys.start_urls == ["{shop}:now", "{shop}:later"]
    assert len({key_slot(key.encode()) for key in keys.all()}) == 1


def test_on_a_cluster_braces_of_the_users_own_are_left_as_they_are() -> None:
    mine = "{all}:%(spider)s:"
    keys = load(
        CLUSTER,
        SCHEDULER_QUEUE_KEY=mine + "requests",
        SCHEDULER_DUPEFILTER_KEY="{all}:seen",
        REDIS_START_URLS_KEY=mine + "start_urls",
    )
    assert {key_slot(key.encode()) for key in keys.all()} == {key_slot(b"all")}


def test_keys_on_different_slots_of_a_cluster_are_refused() -> None:
    with pytest.raises(SettingError, match=r"'\{shop\}:requests' and 'seen' are on different slots"):
        load(CLUSTER, SCHEDULER_DUPEFILTER_KEY="seen")


@pytest.mark.slow
@pytest.mark.parametrize("url", [CLUSTER, "redis+sentinel://localhost:1/name", "embedded:///dev/null/folder"])
def test_to_make_a_frontier_connects_to_nothing(url: str) -> None:
    server = connection.get_client(Settings({"REDIS_URL": url}))
    keys = load_keys(FrontierSettings(), server, "shop")
    frontier = Frontier(server, keys, "a", "priority")
    assert connection.address(frontier.server).startswith(url.partition("//")[0])
    with pytest.raises(connection.RedisError):
        frontier.open({})


# -- several crawls side by side -----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.single("keys with other names")
def test_two_jobs_of_one_spider_crawl_side_by_side(fleet: Fleet, server: redis.Redis) -> None:
    of_a_job = {
        "SCHEDULER_QUEUE_KEY": "%(spider)s:%(job)s:requests",
        "SCHEDULER_DUPEFILTER_KEY": "%(spider)s:%(job)s:dupefilter",
        "REDIS_START_URLS_KEY": "%(name)s:%(job)s:start_urls",
        "GRAPH_PAGES": 200,
    }
    for job in "12":
        fleet.start("graph", 1, FRONTIER_JOB=job, SCHEDULER_PERSIST=True, **of_a_job)
    fleet.wait()
    assert fleet.urls("downloaded") == dict.fromkeys(pages(200), 2)
    assert {server.scard(f"graph:{job}:dupefilter") for job in "12"} == {200}


# -- a filter that several spiders share ---------------------------------------------------------


def sharing(server: redis.Redis, spider: str, dupefilter: str, **options: Any) -> Client:
    keys = Keys(spider, dupefilter_template=SHARED)
    return Client(server, f"{spider}-1", "priority", 30.0, 5, dupefilter, keys).open(**options)


def end(client: Client) -> None:
    leases = client.take(100)
    client.say(finished=[lease.name for lease in leases], in_hand=0)
    assert client.frontier.leave(finished=True, persist=False)[0]


@pytest.mark.single("keys with other names")
@pytest.mark.parametrize("dupefilter", ["exact", "compact"])
def test_a_shared_filter_filters_for_all_and_is_cleared_by_the_last(
    server: redis.Redis, dupefilter: str
) -> None:
    one, other = (sharing(server, spider, dupefilter) for spider in ("a", "b"))
    one.push("x", "y")
    assert other.push("y", "z").duplicates == (0,)
    end(one)
    assert other.push("x").duplicates == (0,)
    end(other)
    assert list(server.scan_iter(f"{SHARED}*")) == []


@pytest.mark.single("keys with other names")
def test_two_jobs_with_one_filter_share_it_though_the_spiders_name_is_in_it(server: redis.Redis) -> None:
    jobs = []
    for job in "12":
        keys = Keys("s", "%(spider)s:%(job)s:requests", job=job)
        jobs.append(Client(server, job, "priority", 30.0, 5, keys=keys).open())
    jobs[0].push("x")
    assert jobs[1].push("x", "y").duplicates == (0,)
    end(jobs[0])
    assert jobs[1].push("x").duplicates == (0,)


@pytest.mark.single("keys with other names")
def test_a_shared_filter_is_cleared_though_a_frontier_with_it_was_deleted(server: redis.Redis) -> None:
    gone, other = (sharing(server, spider, "exact") for spider in ("a", "b"))
    gone.push("x")
    server.delete(*server.keys("a:*"))
    other.push("y")
    end(other)
    assert list(server.scan_iter(f"{SHARED}*")) == []


@pytest.mark.single("keys with other names")
def test_a_flush_that_leaves_a_shared_filter_names_the_other_frontier(
    server: redis.Redis, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    sharing(server, "a", "exact").push("x")
    settings = {"SCHEDULER_DUPEFILTER_KEY": SHARED, "SCHEDULER_FLUSH_ON_START": True, "REDIS_URL": redis_url}
    crawler = get_crawler(PagesSpider, settings)
    scheduler = Scheduler.from_crawler(crawler)
    scheduler.open(PagesSpider.from_crawler(crawler))
    assert "The fingerprints are not cleared: the frontier 'a' uses the same" in caplog.text
    scheduler.close("shutdown")


@pytest.mark.single("keys with other names")
def test_a_shared_filter_outlasts_a_crawl_that_is_to_be_resumed(server: redis.Redis) -> None:
    stopped, other = (sharing(server, spider, "exact") for spider in ("a", "b"))
    stopped.push("x")
    stopped.frontier.leave(finished=False, persist=False)
    other.push("y")
    end(other)
    assert server.scard(SHARED) == 2


@pytest.mark.single("keys with other names")
def test_a_shared_filter_is_not_flushed_while_another_spider_has_it(server: redis.Redis) -> None:
    first = sharing(server, "a", "exact")
    first.push("x")
    first.frontier.leave(finished=False, persist=False)
    sharing(server, "b", "exact", flush=True)
    assert server.scard(SHARED) == 1


# -- several keys of seeds -----------------------------------------------------------------------


def with_seeds(server: redis.Redis, name: str, lease: float = 30.0) -> Client:
    keys = Keys("s", start_urls_templates=("now", "later", "last"))
    return Client(server, name, "priority", lease, 5, "exact", keys).open()


@pytest.mark.single("keys with other names")
def test_seeds_of_the_first_key_come_first_with_keys_of_all_types(server: redis.Redis) -> None:
    server.zadd("last", {"e": 1, "d": 2})
    server.sadd("later", "c")
    server.rpush("now", "a", "b")
    worker = with_seeds(server, "a")
    reply = worker.say(want=1, want_seeds=4)
    assert [lease.payload for lease in reply.leases] == [b"a", b"b", b"c", b"d"]
    assert reply.seeds == 1


@pytest.mark.single("keys with other names")
def test_seeds_of_a_dead_worker_go_back_to_the_keys_that_they_came_from(
    server: redis.Redis, join: Join
) -> None:
    server.rpush("now", "a", "b")
    server.sadd("later", "c")
    server.zadd("last", {"d": 2, "e": 1})
    dying = with_seeds(server, "a", lease=0.2)
    assert len(dying.say(want=1, want_seeds=5).leases) == 5
    other = with_seeds(server, "b")
    while not other.say(in_hand=0).returned:
        pass
    assert server.lrange("now", 0, -1) == [b"a", b"b"]
    assert server.smembers("later") == {b"c"}
    assert server.zrange("last", 0, -1, withscores=True) == [(b"e", 1.0), (b"d", 2.0)]


@pytest.mark.single("keys with other names")
def test_a_seed_of_a_key_that_is_not_read_any_more_goes_to_one_that_is(server: redis.Redis) -> None:
    server.rpush("last", "a")
    dying = with_seeds(server, "a", lease=0.2)
    dying.say(want=1, want_seeds=5)
    other = Client(server, "b", "priority", 30.0, 5).open()
    while not other.say(in_hand=0).returned:
        pass
    assert server.lrange("s:start_urls", 0, -1) == [b"a"]


@pytest.mark.single("keys with other names")
def test_a_seed_is_waited_for_in_each_key_in_turn(server: redis.Redis) -> None:
    worker = with_seeds(server, "a")
    server.rpush("last", "a")
    assert [worker.frontier.wait_for_seed(0.03) for _ in range(3)] == [False, False, True]
    assert server.lrange("last", 0, -1) == [b"a"]


@pytest.mark.single("keys with other names")
def test_of_several_keys_the_one_of_a_wrong_type_is_named_and_the_others_are_read(
    server: redis.Redis,
) -> None:
    worker = with_seeds(server, "a")
    server.set("now", "http://example.com")
    server.rpush("later", "a")
    reply = worker.say(want=1, want_seeds=5)
    assert reply.seeds_problem == ("string", "now")
    assert [lease.payload for lease in reply.leases] == [b"a"]
