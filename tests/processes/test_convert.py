"""What scrapy-redis has left in Redis: to go on with it, to convert it, and to share it for a while."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy import FormRequest, Request
from scrapy.dupefilters import BaseDupeFilter
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler
from scrapy_redis import dupefilter as their_dupefilter
from scrapy_redis import queue as theirs

from scrapy_rq_sched import RFPDupeFilter, Scheduler
from scrapy_rq_sched import queue as ours
from scrapy_rq_sched.convert import STEP, Conversion
from scrapy_rq_sched.errors import FrontierError, FrontierMismatchError
from scrapy_rq_sched.failed import FailedRequests
from scrapy_rq_sched.fingerprints import ScrapyRedisFingerprinter

from ..support.client import Client
from ..support.crawl import Fleet, run_python, wait_until
from ..unit.test_request import PagesSpider
from .test_crawl import pages

pytestmark = pytest.mark.single("scrapy-redis knows no other")

QUEUES = ["PriorityQueue", "FifoQueue", "LifoQueue"]
KEY = "pages:requests"
FINGERPRINTER = "scrapy_rq_sched.fingerprints.ScrapyRedisFingerprinter"
each_queue = pytest.mark.parametrize("name", QUEUES)


def requests(spider: PagesSpider, count: int = 0) -> list[Request]:
    """Return requests such as a scrapy-redis crawl has waiting."""
    several: list[Request] = [
        Request("http://example.com/?b=1&a=2", spider.parse, priority=3, meta={"depth": 2, "raw": b"\xff"}),
        Request("http://example.com/post", method="POST", body=b"a=1", headers={"Referer": "http://x/"}),
        FormRequest("http://example.com/form", formdata={"q": "x"}, priority=-1, cb_kwargs={"page": 7}),
        Request("http://example.com/again", dont_filter=True, cookies={"k": "v"}, flags=["f"]),
    ]
    return several + [Request(f"http://example.com/{number}", meta={"depth": 1}) for number in range(count)]


def filled(server: redis.Redis, name: str, count: int = 0) -> list[Request]:
    """Have scrapy-redis fill a frontier, and return what it would pop, in its order."""
    spider = PagesSpider()
    pushed = requests(spider, count)
    seen = their_dupefilter.RFPDupeFilter(server, "pages:dupefilter")
    queue = getattr(theirs, name)(server, spider, KEY)
    for request in pushed:
        assert not seen.request_seen(request)
        queue.push(request)
    before = server.dump(KEY)
    popped = [queue.pop() for _ in pushed]
    server.restore(KEY, 0, before)
    return popped


def what(request: Request) -> dict[str, Any]:
    return request.to_dict(spider=PagesSpider())


def a_scheduler(redis_url: str, **settings: Any) -> Scheduler:
    crawler = get_crawler(PagesSpider, {"REDIS_URL": redis_url, **settings})
    crawler.spider = PagesSpider.from_crawler(crawler)
    scheduler = Scheduler.from_crawler(crawler)
    scheduler.open(crawler.spider)
    return scheduler


def popped_by(scheduler: Scheduler) -> list[dict[str, Any]]:
    found = []
    while (request := scheduler.next_request()) is not None:
        found.append(request.to_dict(spider=scheduler.crawler.spider))
    return found


# -- going on with it ----------------------------------------------------------------------------


@each_queue
def test_requests_left_by_scrapy_redis_are_popped_in_its_order(
    redis_url: str, server: redis.Redis, name: str
) -> None:
    expected = filled(server, name)
    scheduler = a_scheduler(
        redis_url,
        SCHEDULER_QUEUE_CLASS=f"scrapy_rq_sched.{name}",
        SCHEDULER_SERIALIZER="pickle",
        REQUEST_FINGERPRINTER_CLASS=FINGERPRINTER,
    )
    assert popped_by(scheduler) == [what(request) for request in expected]
    scheduler.close("shutdown")


def test_requests_seen_by_scrapy_redis_are_duplicates_with_its_fingerprints(
    redis_url: str, server: redis.Redis
) -> None:
    filled(server, "PriorityQueue")
    scheduler = a_scheduler(
        redis_url, SCHEDULER_SERIALIZER="pickle", REQUEST_FINGERPRINTER_CLASS=FINGERPRINTER
    )
    seen = [request for request in requests(PagesSpider()) if not request.dont_filter]
    assert [scheduler.enqueue_request(request) for request in seen] == [False, False, False]
    assert scheduler.enqueue_request(Request("http://example.com/new"))
    scheduler.close("shutdown")


def test_the_fingerprints_are_scrapy_redis_own(server: redis.Redis) -> None:
    fingerprinter, own = ScrapyRedisFingerprinter(), their_dupefilter.RFPDupeFilter(server, "x")
    for request in requests(PagesSpider(), 3):
        assert fingerprinter.fingerprint(request).hex() == own.request_fingerprint(request)
    dupefilter = RFPDupeFilter(server, "y", fingerprinter=fingerprinter)
    assert dupefilter.request_fingerprint(request) == own.request_fingerprint(request)


@each_queue
def test_a_worker_that_cannot_read_pickles_is_refused_and_takes_none(
    redis_url: str, server: redis.Redis, name: str
) -> None:
    filled(server, name)
    before = server.dump(KEY)
    with pytest.raises(FrontierMismatchError, match=r"picklecompat.*scrapy frontier convert pages"):
        a_scheduler(redis_url, SCHEDULER_QUEUE_CLASS=f"scrapy_rq_sched.{name}")
    assert server.dump(KEY) == before
    assert server.keys("pages:*") == [KEY.encode(), b"pages:dupefilter"] or len(server.keys("pages:*")) == 2


def test_a_worker_that_begins_anew_need_not_read_them(redis_url: str, server: redis.Redis) -> None:
    filled(server, "PriorityQueue")
    scheduler = a_scheduler(redis_url, SCHEDULER_FLUSH_ON_START=True)
    assert popped_by(scheduler) == []
    scheduler.close("shutdown")


class OwnFingerprints(RFPDupeFilter):
    """Written for scrapy-redis, where it has made the same."""

    def request_fingerprint(self, request: Request) -> str:
        return request.url


REFUSED = r":dupefilter' contains fingerprints made by scrapy-redis.* set REQUEST_FINGERPRINTER_CLASS = "


def seen_by_scrapy_redis(server: redis.Redis) -> None:
    their_dupefilter.RFPDupeFilter(server, "pages:dupefilter").request_seen(Request("http://example.com/"))


@pytest.mark.parametrize("dupefilter", ["RFPDupeFilter", "CompactDupeFilter"])
def test_a_worker_that_would_crawl_all_that_scrapy_redis_has_seen_is_refused(
    redis_url: str, server: redis.Redis, dupefilter: str
) -> None:
    seen_by_scrapy_redis(server)
    with pytest.raises(FrontierMismatchError, match=REFUSED):
        a_scheduler(redis_url, DUPEFILTER_CLASS=f"scrapy_rq_sched.{dupefilter}")
    assert server.keys("*") == [b"pages:dupefilter"]


@pytest.mark.parametrize(
    "settings",
    [
        {"REQUEST_FINGERPRINTER_CLASS": FINGERPRINTER},
        {"DUPEFILTER_CLASS": OwnFingerprints},
        {"DUPEFILTER_CLASS": BaseDupeFilter},
        {"SCHEDULER_FLUSH_ON_START": True},
    ],
    ids=["its fingerprinter", "one's own", "a filter that asks by itself", "anew"],
)
def test_a_worker_with_the_fingerprints_of_scrapy_redis_or_a_new_filter_joins(
    redis_url: str, server: redis.Redis, settings: dict[str, Any]
) -> None:
    seen_by_scrapy_redis(server)
    scheduler = a_scheduler(redis_url, **settings)
    assert server.exists("pages:meta")
    scheduler.close("shutdown")


def test_requests_seen_by_scrapy_redis_are_crawled_again_once_its_filter_is_deleted(
    redis_url: str, server: redis.Redis
) -> None:
    seen_by_scrapy_redis(server)
    server.delete("pages:dupefilter")
    scheduler = a_scheduler(redis_url)
    assert scheduler.enqueue_request(Request("http://example.com/"))
    scheduler.close("shutdown")


def test_a_noted_fingerprinter_lets_a_worker_join_with_it(redis_url: str, server: redis.Redis) -> None:
    RFPDupeFilter(server, "pages:dupefilter").request_seen(Request("http://example.com/"))
    made_by = "scrapy.utils.request.RequestFingerprinter"
    server.hset("pages:meta", "REQUEST_FINGERPRINTER_CLASS", made_by)
    scheduler = a_scheduler(redis_url)
    assert not scheduler.enqueue_request(Request("http://example.com/"))
    scheduler.close("shutdown")


def test_a_filter_that_another_frontier_of_ours_has_is_not_taken_for_scrapy_redis_s(
    redis_url: str, server: redis.Redis
) -> None:
    shared = {"SCHEDULER_DUPEFILTER_KEY": "seen"}
    other = a_scheduler(redis_url, SCHEDULER_QUEUE_KEY="other:requests", **shared)
    other.enqueue_request(Request("http://example.com/"))
    other.close("shutdown")
    assert server.scard("seen") == 1
    scheduler = a_scheduler(redis_url, **shared)
    assert not scheduler.enqueue_request(Request("http://example.com/"))
    scheduler.close("shutdown")


def test_a_crawl_of_scrapy_redis_is_taken_over_as_the_guide_says(fleet: Fleet, server: redis.Redis) -> None:
    common = {"GRAPH_PAGES": 120, "SCHEDULER_SERIALIZER": "scrapy_rq_sched.picklecompat"}
    theirs_own = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.PriorityQueue",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "CLOSESPIDER_PAGECOUNT": 30,
        "CONCURRENT_REQUESTS": 2,
    }
    fleet.start("graph", 1, **common, **theirs_own, SCHEDULER_PERSIST=False)
    fleet.wait()
    assert server.keys("graph:*") == []  # so the guide says that it has to be True before

    fleet.start("graph", 1, **common, **theirs_own, SCHEDULER_PERSIST=True)
    fleet.wait()
    assert server.zcard("graph:requests") > 0
    before = fleet.urls("downloaded", 1)

    fleet.start("graph", 1, **common)
    fleet.wait()
    assert re.search(f"The crawl cannot start: .*{REFUSED}", fleet.log(2))
    assert fleet.workers[2].returncode == 1
    assert not fleet.urls("downloaded", 2)

    fleet.start("graph", 1, **common, REQUEST_FINGERPRINTER_CLASS=FINGERPRINTER)
    fleet.wait()
    after = fleet.urls("downloaded", 3)
    assert before.keys() | after.keys() == pages(120)
    assert not (before.keys() & after.keys()) - {"http://graph.test/0"}


def test_start_requests_are_fetched_once_more_by_one_of_ours(fleet: Fleet) -> None:
    common = {"SCHEDULER_SERIALIZER": "scrapy_rq_sched.picklecompat", "SCHEDULER_PERSIST": True}
    theirs_own = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.PriorityQueue",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    }
    fleet.start("starts", 1, **common, **theirs_own)
    fleet.wait()
    fleet.start("starts", 2, **common, REQUEST_FINGERPRINTER_CLASS=FINGERPRINTER)
    fleet.wait()
    downloaded = fleet.urls("downloaded")
    assert len(downloaded) == 40
    assert set(downloaded.values()) == {2}


# -- converting it -------------------------------------------------------------------------------


def conversion(redis_url: str, name: str = "PriorityQueue", target: str = "json") -> Conversion:
    settings = {"REDIS_URL": redis_url, "SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.{name}"}
    return Conversion.from_settings(Settings(settings), "pages", "pickle", target)


@each_queue
@pytest.mark.parametrize("target", ["json", "json+deflate", "msgpack"])
def test_a_converted_frontier_is_popped_in_the_same_order(
    redis_url: str, server: redis.Redis, name: str, target: str
) -> None:
    count = 2 * STEP + 7
    expected = filled(server, name, count)
    converted = conversion(redis_url, name, target)
    met = converted.run()
    assert (met.changed, met.problems) == (count + 4, {})
    queue_class = f"scrapy_rq_sched.{name}"
    scheduler = a_scheduler(
        redis_url,
        SCHEDULER_QUEUE_CLASS=queue_class,
        SCHEDULER_SERIALIZER=target,
        REQUEST_FINGERPRINTER_CLASS=FINGERPRINTER,
    )
    # scrapy-redis pops equal priorities in the order of their bytes, so that is what a sorted set can keep.
    found, wanted = popped_by(scheduler), [what(request) for request in expected]
    if name == "PriorityQueue":
        assert [data["priority"] for data in found] == [data["priority"] for data in wanted]
        found, wanted = (sorted(datas, key=str) for datas in (found, wanted))
    assert found == wanted
    scheduler.close("shutdown")


@each_queue
def test_to_look_at_it_changes_nothing(redis_url: str, server: redis.Redis, name: str) -> None:
    filled(server, name, 50)
    before = server.dump(KEY)
    assert conversion(redis_url, name).look().changed == 54
    assert server.dump(KEY) == before


@each_queue
def test_a_conversion_that_broke_off_goes_on_where_it_was(
    redis_url: str, server: redis.Redis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = filled(server, name, 3 * STEP)
    broken = conversion(redis_url, name)
    step, steps = broken._step, []

    def breaks(**said: Any) -> Any:
        steps.append(1)
        if len(steps) == 3:
            raise KeyboardInterrupt
        return step(**said)

    monkeypatch.setattr(broken, "_step", breaks)
    with pytest.raises(KeyboardInterrupt):
        broken.run()
    met = conversion(redis_url, name).run()
    assert 0 < met.changed < len(expected)
    queue = getattr(ours, name)(server, PagesSpider(), KEY)
    assert len(queue) == len(expected)
    found = [queue.pop() for _ in expected]
    if name != "PriorityQueue":
        assert [request.url for request in found] == [request.url for request in expected]
    assert {request.url for request in found} == {request.url for request in expected}


@each_queue
def test_a_worker_does_not_join_while_a_queue_is_half_converted(
    redis_url: str, server: redis.Redis, name: str
) -> None:
    filled(server, name)
    server.delete(KEY)
    server.hset("pages:converting", mapping={"from": "pickle", "to": "json", "left": 5, "length": 5})
    with pytest.raises(FrontierMismatchError, match="scrapy frontier convert pages"):
        a_scheduler(redis_url, SCHEDULER_QUEUE_CLASS=f"scrapy_rq_sched.{name}")


def test_a_worker_that_slept_is_given_nothing_while_the_queue_is_converted(server: redis.Redis) -> None:
    worker = Client(server, "a", "priority", 30.0, 5).open()
    worker.push("x")
    server.hset("s:converting", mapping={"from": "pickle", "to": "json"})
    with pytest.raises(redis.ResponseError, match="CONVERTING"):
        worker.take(1)
    server.delete("s:converting")
    assert worker.repeat(want=1).leases


@each_queue
def test_a_conversion_does_not_go_on_to_another_serializer_than_it_began_with(
    redis_url: str, server: redis.Redis, name: str
) -> None:
    filled(server, name)
    server.hset("pages:converting", mapping={"from": "pickle", "to": "json", "left": 2, "length": 4})
    with pytest.raises(FrontierError, match=r"interrupted.*convert \S+ --from pickle --to json"):
        conversion(redis_url, name, "msgpack").run()


def test_requests_pushed_while_a_sorted_set_is_converted_are_converted_too(
    redis_url: str, server: redis.Redis
) -> None:
    filled(server, "PriorityQueue", 10)
    mine, pushed = conversion(redis_url), []
    step = mine._step

    def and_another_pushes(**said: Any) -> Any:
        if not pushed:
            pushed.append(
                theirs.PriorityQueue(server, PagesSpider(), KEY).push(Request("http://example.com/late"))
            )
        return step(**said)

    mine._step = and_another_pushes  # type: ignore[assignment]
    assert mine.run().changed == 15
    assert all(entry.startswith(b"{") for entry in server.zrange(KEY, 0, -1))


def test_a_request_of_a_missing_class_is_counted_as_a_problem(redis_url: str, server: redis.Redis) -> None:
    server.zadd(KEY, {pickle.dumps({"url": "http://example.com/", "_class": "no.such.Request"}): -5})
    met = conversion(redis_url).run()
    assert "no.such.Request" in next(iter(met.problems))
    (failed,) = FailedRequests.from_settings(Settings({"REDIS_URL": redis_url}), "pages")
    assert float(failed.score) == -5


@each_queue
def test_an_inconvertible_request_is_counted_and_goes_to_the_failed_list(
    redis_url: str, server: redis.Redis, name: str
) -> None:
    filled(server, name)
    getattr(theirs, name)(server, PagesSpider(), KEY).push(
        Request("http://example.com/t", meta={"t": (1, 2)})
    )
    looked_at = conversion(redis_url, name).look()
    assert (looked_at.changed, sum(looked_at.problems.values())) == (4, 1)
    assert "meta['t'] is a tuple" in next(iter(looked_at.problems))
    conversion(redis_url, name).run()
    settings = Settings({"REDIS_URL": redis_url, "SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.{name}"})
    (failed,) = FailedRequests.from_settings(settings, "pages")
    assert "meta['t'] is a tuple" in failed.reason
    assert failed.data.startswith(b"\x80")
    assert len(getattr(ours, name)(server, PagesSpider(), KEY)) == 4


def test_nothing_is_converted_while_a_worker_is_at_it(redis_url: str, server: redis.Redis) -> None:
    worker = Client(server, "a", "priority", 30.0, 5).open()
    settings = Settings({"REDIS_URL": redis_url})
    refused(
        Conversion.from_settings(settings, "s", target="msgpack"),
        "1 worker is running for spider 's'. Stop it first",
    )
    worker.push("x")
    worker.take(1)
    server.zadd("s:workers", {"a": 1})
    refused(
        Conversion.from_settings(settings, "s", target="msgpack"), "Workers that died still hold requests"
    )


def refused(mine: Conversion, said: str) -> None:
    """Check that it does not run, and that this is known before, in the same words."""
    for attempt in (mine.check, mine.run):
        with pytest.raises(FrontierError, match=said):
            attempt()


def test_a_queue_of_another_class_is_not_converted(redis_url: str, server: redis.Redis) -> None:
    filled(server, "FifoQueue")
    refused(conversion(redis_url), "is a list, but this queue class needs a zset")


@pytest.mark.parametrize(
    ("key", "fields", "said"),
    [
        ("pages:meta", {"exporting": "99999999999999.7"}, "is being exported"),
        ("pages:converting", {"from": "import", "to": ""}, "is being imported"),
        (
            "pages:converting",
            {"from": "pickle", "to": "msgpack"},
            "from 'pickle' to 'msgpack' was interrupted",
        ),
    ],
)
def test_nothing_is_converted_while_something_else_is_done_to_the_queue(
    redis_url: str, server: redis.Redis, key: str, fields: dict[str, Any], said: str
) -> None:
    filled(server, "PriorityQueue")
    server.hset(key, mapping=fields)
    refused(conversion(redis_url), said)


@each_queue
def test_to_check_whether_it_may_be_converted_changes_nothing(
    redis_url: str, server: redis.Redis, name: str
) -> None:
    filled(server, name)
    conversion(redis_url, name).check()
    assert not server.exists("pages:converting")
    conversion(redis_url, name).run()


def test_a_list_that_another_changes_meanwhile_is_not_converted_further(
    redis_url: str, server: redis.Redis
) -> None:
    filled(server, "FifoQueue", 10)
    mine = conversion(redis_url, "FifoQueue")
    lrange = server.lrange

    def meanwhile(*arguments: Any) -> Any:
        found = lrange(*arguments)
        server.rpop(KEY)
        return found

    mine.server.lrange = meanwhile
    before = server.llen(KEY)
    with pytest.raises(FrontierError, match="another process uses it"):
        mine.run()
    assert server.llen(KEY) == before - 1
    assert conversion(redis_url, "FifoQueue").run().total == before - 1
    assert all(entry.startswith(b"{") for entry in server.lrange(KEY, 0, -1))


# -- the command ---------------------------------------------------------------------------------


#: What is said before a pickle is read.
WARNED = (
    "scrapy frontier: reading a request with the serializer 'pickle' runs any code that is in it, also in a "
    "dry run: every program that can write to the queue of spider 'pages' must be trusted\n"
)


def command(redis_url: str, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = ("-m", "scrapy", "frontier", "convert", *options, "-s", f"REDIS_URL={redis_url}")
    return run_python(*arguments, redis_url=redis_url, timeout=60, RECORD=os.devnull)


def test_the_command_converts_after_a_dry_run_that_changes_nothing(
    redis_url: str, server: redis.Redis
) -> None:
    filled(server, "PriorityQueue", 20)
    before = server.dump(KEY)
    dry = command(redis_url, "pages", "--from", "pickle", "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, WARNED)
    assert "24 requests wait: 24 to convert" in dry.stdout
    assert server.dump(KEY) == before
    done = command(redis_url, "pages", "--from", "pickle")
    assert (done.returncode, done.stderr) == (0, WARNED)
    assert all(entry.startswith(b"{") for entry in server.zrange(KEY, 0, -1))


def test_the_command_refuses_before_it_prints_its_plan(redis_url: str, server: redis.Redis) -> None:
    filled(server, "PriorityQueue", 20)
    server.zadd("pages:workers", {"a": 99999999999999})
    refusal = command(redis_url, "pages", "--from", "pickle")
    assert (refusal.returncode, refusal.stdout) == (1, "")
    assert refusal.stderr == (
        f"{WARNED}scrapy frontier: 1 worker is running for spider 'pages'. Stop it first\n"
    )
    assert "24 requests wait" in command(redis_url, "pages", "--from", "pickle", "--dry-run").stdout


def test_a_worker_with_another_serializer_is_told_how_to_convert(redis_url: str, server: redis.Redis) -> None:
    with_json = a_scheduler(redis_url)
    with_json.enqueue_request(Request("http://example.com/"))
    with_json.close("shutdown")
    with pytest.raises(FrontierMismatchError) as refusal:
        a_scheduler(redis_url, SCHEDULER_SERIALIZER="msgpack")
    (typed,) = re.findall(r"To convert the waiting requests: scrapy (.+)$", str(refusal.value))
    assert typed == "frontier convert pages --from json --to msgpack"
    assert command(redis_url, *typed.split()[2:]).returncode == 0
    found = popped_by(a_scheduler(redis_url, SCHEDULER_SERIALIZER="msgpack"))
    assert [request["url"] for request in found] == ["http://example.com/"]


def test_the_serializer_of_the_waiting_requests_need_not_be_named(redis_url: str) -> None:
    with_json = a_scheduler(redis_url)
    with_json.enqueue_request(Request("http://example.com/"))
    with_json.close("shutdown")
    done = command(redis_url, "pages", "--to", "msgpack")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 request converted, 0 moved into the failed list" in done.stdout
    again = command(redis_url, "pages", "--to", "msgpack")
    assert again.returncode == 1
    assert "The requests of spider 'pages' are already stored as msgpack" in again.stderr


def test_an_interrupted_conversion_continues_to_the_same_serializer_without_being_told_which(
    redis_url: str, server: redis.Redis
) -> None:
    filled(server, "PriorityQueue")
    server.hset("pages:converting", mapping={"from": "pickle", "to": "msgpack", "left": 0, "length": 0})
    done = command(redis_url, "pages", "--from", "pickle")
    assert (done.returncode, done.stderr) == (0, WARNED)
    assert not any(entry.startswith(b"{") for entry in server.zrange(KEY, 0, -1))


def test_the_wrong_serializer_is_not_answered_with_setting_all_aside(
    redis_url: str, server: redis.Redis
) -> None:
    filled(server, "PriorityQueue")
    refused = command(redis_url, "pages", "--from", "msgpack")
    assert refused.returncode == 1
    assert refused.stderr == (
        "scrapy frontier: Nothing was changed. The requests were written by another serializer. Name it with "
        "--from\n"
    )


def test_the_command_changes_nothing_if_something_cannot_be_converted_unless_told_to(
    redis_url: str, server: redis.Redis
) -> None:
    theirs.PriorityQueue(server, PagesSpider(), KEY).push(Request("http://example.com/", meta={"t": (1,)}))
    before = server.dump(KEY)
    refused = command(redis_url, "pages", "--from", "pickle")
    assert refused.returncode == 1
    assert "1 cannot be converted: meta['t'] is a tuple" in refused.stdout
    assert refused.stderr == (
        f"{WARNED}scrapy frontier: Nothing was changed. --set-aside moves these requests into the failed "
        "list\n"
    )
    assert server.dump(KEY) == before
    assert command(redis_url, "pages", "--from", "pickle", "--set-aside").returncode == 0
    assert (server.exists(KEY), server.llen("pages:failed")) == (0, 1)


def test_the_command_converts_to_json_where_the_project_goes_on_with_pickle(
    redis_url: str, server: redis.Redis
) -> None:
    filled(server, "PriorityQueue")
    setting = "SCHEDULER_SERIALIZER=scrapy_rq_sched.picklecompat"
    done = command(redis_url, "pages", "--from", "pickle", "-s", setting)
    assert (done.returncode, done.stderr) == (0, WARNED)
    assert all(entry.startswith(b"{") for entry in server.zrange(KEY, 0, -1))


def test_the_command_sets_no_more_aside_than_the_failed_list_keeps(
    redis_url: str, server: redis.Redis
) -> None:
    for number in range(3):
        bad = Request("http://example.com/", meta={"t": (number,)})
        theirs.PriorityQueue(server, PagesSpider(), KEY).push(bad)
    options = ("--from", "pickle", "--set-aside", "-s", "FRONTIER_MAX_FAILED=2")
    refused = command(redis_url, "pages", *options)
    assert (refused.returncode, server.zcard(KEY)) == (1, 3)
    assert "would keep only 2 of these" in refused.stderr


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("redis://127.0.0.1:1", ["pages"], "cannot be reached"),
        (None, ["pages", "--from", "pickle", "--to", "pickle"], "are already stored as pickle. Name another"),
        (None, ["pages", "--from", "pickle", "--to", "yaml"], "SCHEDULER_SERIALIZER must be 'json', "),
        (None, ["pages"], "scrapy frontier convert pages --from pickle"),
        (None, ["pages", "-s", "SCHEDULER_QUEUE_CLASS=no.such"], "SCHEDULER_QUEUE_CLASS is 'no.such'"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    redis_url: str, url: str | None, options: list[str], said: str
) -> None:
    ended = command(url or redis_url, *options)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1


# -- a fleet of both -----------------------------------------------------------------------------


@each_queue
def test_workers_of_scrapy_redis_and_of_ours_crawl_one_queue(
    fleet: Fleet, server: redis.Redis, name: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    common = {
        "GRAPH_PAGES": 400,
        "GRAPH_LATENCY": 0.05,
        "GRAPH_GATE": gate,
        "GRAPH_GATED_FROM": 100,
        "SCHEDULER_PERSIST": True,
    }
    their_own = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_QUEUE_CLASS": f"scrapy_redis.queue.{name}",
    }
    fleet.start("graph", 1, **common, **their_own)
    wait_until(lambda: len(fleet.events("parsed", 0)) > 20)
    our_own = {
        "SCHEDULER_SERIALIZER": "pickle",
        "SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.{name}",
        "REQUEST_FINGERPRINTER_CLASS": FINGERPRINTER,
    }
    fleet.start("graph", 1, **common, **our_own)
    wait_until(lambda: fleet.events("downloaded", 1))
    gate.touch()
    fleet.wait()
    assert set(fleet.urls("parsed")) == pages(400)
    assert all(len(fleet.urls("parsed", worker)) > 40 for worker in (0, 1))
    twice = {url for url, times in fleet.urls("downloaded").items() if times > 1}
    assert twice <= {
        f"http://graph.test/{number}" for number in range(1)
    }  # its start request is each one's own
