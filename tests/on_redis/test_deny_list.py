"""The deny-list: how it reaches the workers, what it removes, and how long it lasts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from scrapy import Request
from scrapy.settings import Settings

from scrapy_rq_sched.errors import InspectionError
from scrapy_rq_sched.events.stream import Stream
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.operations.deny import MOST, allow, denied, deny
from scrapy_rq_sched.inspect.operations.operation import Observer

from ..support.by_hand import URL, Make, urls
from ..support.client import Client, Join

Look = Callable[[], View]


@pytest.fixture
def view(redis_url: str) -> Look:
    return lambda: View.from_settings(Settings({"REDIS_URL": redis_url}), "s")


def news(worker: Client, known: str = "") -> tuple[str, tuple[str, ...]] | None:
    return worker.say(denied=known).denied


def test_each_worker_gets_a_new_list_once(join: Join, view: Look) -> None:
    worker, other = join("a"), join("b")
    assert news(worker) is None
    assert deny(view(), Observer(), "www.example.com").do().touched == 0
    version, texts = news(worker) or ("", ())
    assert texts == ("www.example.com",)
    assert news(worker, version) is None
    assert news(other) == (version, texts)


def test_a_worker_gets_an_empty_list_when_all_entries_are_allowed(join: Join, view: Look) -> None:
    worker = join()
    deny(view(), Observer(), "a.test").do()
    version, _ = news(worker) or ("", ())
    allow(view(), "a.test").do()
    assert (news(worker, version) or ("", None))[1] == ()


def test_workers_get_a_list_from_before_the_crawl(join: Join, view: Look) -> None:
    deny(view(), Observer(), "a.test").do()
    assert (news(join()) or ("", ()))[1] == ("a.test",)


def test_the_list_outlives_the_crawl(join: Join, view: Look, server: redis.Redis) -> None:
    worker = join()
    deny(view(), Observer(), "a.test").do()
    worker.say(in_hand=0)
    worker.frontier.leave(True, False)
    assert not server.exists("s:meta")
    assert (news(join("b")) or ("", ()))[1] == ("a.test",)


def test_a_worker_keeps_its_list_when_the_frontier_is_lost(
    join: Join, view: Look, server: redis.Redis
) -> None:
    worker = join()
    deny(view(), Observer(), "a.test").do()
    version, _ = news(worker) or ("", ())
    server.delete("s:meta")
    assert news(worker, version) is None
    assert not server.exists("s:meta:denied") or news(worker, version) is None


def test_the_list_shows_each_entry_with_its_time(view: Look, join: Join) -> None:
    join()
    deny(view(), Observer(), "b.test").do()
    deny(view(), Observer(), "*/private/*").do()
    assert [one.text for one in denied(view())] == ["*/private/*", "b.test"]
    assert all(one.time.startswith("20") for one in denied(view()))


def test_denying_and_allowing_are_events_once(view: Look, join: Join, server: redis.Redis) -> None:
    join()
    deny(view(), Observer(), "a.test").do()
    deny(view(), Observer(), "a.test").do()
    allow(view(), "a.test").do()
    types = [event.type for event in Stream("s:events", "s").latest(server, 100)]
    assert [one for one in types if one.startswith("url")] == ["url_denied", "url_allowed"]


def test_a_plan_changes_nothing(view: Look, join: Join) -> None:
    join()
    assert "would begin" in deny(view(), Observer(), "a.test").plan().text
    assert denied(view()) == []


@pytest.mark.parametrize("text", ["", "  ", ".", "x" * 2001])
def test_a_text_that_is_neither_a_host_nor_a_pattern_is_refused(view: Look, text: str) -> None:
    with pytest.raises(InspectionError):
        deny(view(), Observer(), text)


def test_a_host_that_is_not_denied_cannot_be_allowed(view: Look) -> None:
    with pytest.raises(InspectionError, match="is not denied"):
        allow(view(), "a.test")


def test_the_list_has_a_bound(view: Look, server: redis.Redis) -> None:
    server.hset("s:meta:denied", mapping={f"{number}.test": 0 for number in range(MOST)})
    deny(view(), Observer(), "1.test")
    with pytest.raises(InspectionError, match="At most"):
        deny(view(), Observer(), "another.test")


@pytest.fixture
def of_example(redis_url: str) -> Look:
    return lambda: View.from_settings(Settings({"REDIS_URL": redis_url}), "example")


def test_the_waiting_requests_are_removed_and_do_not_count_as_seen(
    make: Make, server: redis.Redis, of_example: Look
) -> None:
    scheduler = make()
    for host in ("www.a.test/1", "a.test/2", "a.test/3", "b.test/"):
        scheduler.enqueue_request(Request(f"http://{host}"))
    found = deny(of_example(), Observer(), "a.test").do()
    assert (found.touched, found.text) == (
        3,
        "No worker will begin a request of a.test from now on, and 3 waiting requests were removed",
    )
    assert server.scard("example:dupefilter") == 1
    assert urls(scheduler) == ["http://b.test/"]


def test_new_requests_are_dropped_until_they_are_allowed(make: Make, of_example: Look) -> None:
    scheduler = make()
    scheduler.enqueue_request(Request(URL))
    deny(of_example(), Observer(), "a.test").do()
    assert urls(scheduler) == [URL]
    assert not scheduler.enqueue_request(Request("http://a.test/"))
    allow(of_example(), "a.test").do()
    assert not urls(scheduler)
    assert scheduler.enqueue_request(Request("http://a.test/"))
    assert urls(scheduler) == ["http://a.test/"]


@pytest.mark.parametrize("queue", ["FifoQueue", "LifoQueue"])
def test_workers_drop_denied_requests_that_cannot_be_removed_from_a_list(
    make: Make, of_example: Look, queue: str, server: redis.Redis
) -> None:
    scheduler = make(SCHEDULER_QUEUE_CLASS=f"scrapy_rq_sched.{queue}")
    for host in ("a.test/1", "a.test/2", "b.test/"):
        scheduler.enqueue_request(Request(f"http://{host}"))
    first = scheduler.next_request()
    assert first is not None
    observer = Observer()
    found = deny(of_example(), observer, "a.test").do()
    assert "workers drop its waiting requests when they come to them" in found.text
    assert "is a list" in observer.warnings[0]
    assert all("a.test" not in url for url in urls(scheduler))
    assert server.scard("example:dupefilter") <= 2


def test_a_request_of_a_pattern_is_dropped_and_others_of_its_host_are_not(
    make: Make, of_example: Look
) -> None:
    scheduler = make()
    scheduler.enqueue_request(Request("http://a.test/1"))
    scheduler.enqueue_request(Request("http://a.test/calendar/1"))
    deny(of_example(), Observer(), "*/calendar/*").do()
    assert urls(scheduler) == ["http://a.test/1"]
    assert not scheduler.enqueue_request(Request("http://a.test/calendar/2"))
