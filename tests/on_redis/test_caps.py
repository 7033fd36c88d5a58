"""Caps: a crawl, or a slot, has no more pages than it may have, and what is above is found again later."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.events.stream import Stream
from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.frontier.replies import Reply
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.slots import Slots

from ..support.client import Client, Join

PAGES = [f"page-{number}" for number in range(10)]


def push(
    worker: Client, *names: str, slot: str = "a", mode: Any = "filter", continues: Any = "", **said: Any
) -> Reply:
    pushes = [
        Push(mode, f"fp-{name}" if mode != "force" else "", 0, name.encode(), slot, continues=continues)
        for name in names
    ]
    return worker.say(pushes=pushes, **said)


def counts(server: redis.Redis, *names: str) -> list[int]:
    found = server.hmget("s:slots:pages", names)
    return [int(value or 0) for value in found]


@pytest.mark.parametrize("dupefilter", ["exact", "compact"])
def test_a_crawl_has_no_more_pages_than_its_cap(join: Join, dupefilter: str) -> None:
    worker = join(dupefilter=dupefilter, bounds={"max_pages": 3})
    reply = push(worker, *PAGES)
    assert reply.capped == {3, 4, 5, 6, 7, 8, 9}
    assert reply.stored == 10
    assert len(worker.take(100)) == 3


def test_a_request_above_the_cap_is_not_seen_and_found_again_when_the_cap_is_raised(join: Join) -> None:
    worker = join("a", bounds={"max_pages": 3})
    push(worker, *PAGES)
    larger = join("b", bounds={"max_pages": 5})
    reply = push(larger, *PAGES)
    assert set(reply.duplicates) - reply.capped == {0, 1, 2}
    assert reply.capped == {5, 6, 7, 8, 9}


def test_duplicates_do_not_count(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_pages": 3})
    push(worker, "x", "x", "y")
    reply = push(worker, "x", "y", "z", "z")
    assert reply.capped == set()
    assert counts(server, "pages", "dropped") == [3, 0]


def test_unfiltered_requests_count(join: Join) -> None:
    worker = join(bounds={"max_pages": 3})
    assert push(worker, *PAGES, mode="force").capped == set(range(3, 10))


def test_a_start_request_above_the_cap_is_not_marked(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_pages": 1})
    push(worker, "x", "y", mode="start+filter")
    assert server.smembers("s:started") == {b"fp-x"}


@pytest.mark.parametrize(("continues", "capped"), [("page", False), ("crawl", False), ("", True)])
def test_a_retry_or_the_target_of_a_redirect_is_no_further_page_of_the_crawl(
    join: Join, continues: str, capped: bool
) -> None:
    worker = join(bounds={"max_pages": 1})
    push(worker, "x")
    assert bool(push(worker, "x2", mode="force", continues=continues).capped) == capped


def test_a_slot_has_no_more_pages_than_its_cap(join: Join, server: redis.Redis) -> None:
    worker = join()
    reply = push(worker, *PAGES, caps={"a": 4})
    assert reply.capped == {4, 5, 6, 7, 8, 9}
    assert push(worker, "other", slot="b", caps={}).capped == set()
    assert counts(server, "pages a", "dropped a") == [4, 6]


def test_the_target_of_a_redirect_counts_as_a_page_of_another_slot(join: Join) -> None:
    worker = join()
    push(worker, "x", caps={"a": 1})
    assert push(worker, "y", continues="crawl", caps={"a": 1}).capped == {0}
    assert push(worker, "z", continues="page", caps={"a": 1}).capped == set()


def test_a_repeated_exchange_counts_once_and_has_the_same_answer(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_pages": 3})
    first = push(worker, *PAGES)
    pushes = [Push("filter", f"fp-{name}", 0, name.encode(), "a") for name in PAGES]
    again = worker.repeat(pushes=pushes)
    assert (again.capped, again.duplicates) == (first.capped, first.duplicates)
    assert counts(server, "pages", "dropped") == [3, 7]


def test_a_crawl_that_gets_a_cap_later_counts_its_pages_so_far(join: Join) -> None:
    worker = join("a")
    push(worker, *PAGES[:4])
    (lease,) = worker.take(1)
    worker.say(finished=[lease.name], pages=1)
    worker.take(1)
    capped = join("b", bounds={"max_pages": 6})
    assert push(capped, *PAGES[4:]).capped == {2, 3, 4, 5}


def test_a_slot_that_gets_a_cap_later_counts_its_waiting_requests(join: Join) -> None:
    worker = join()
    push(worker, *PAGES[:4])
    assert push(worker, *PAGES[4:], caps={"a": 6}).capped == {2, 3, 4, 5}


def test_the_first_request_above_a_cap_is_an_event(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_pages": 3})
    push(worker, *PAGES, caps={"a": 2})
    push(worker, *PAGES, caps={"a": 2})
    push(worker, "x", "y", slot="b")
    found = [event for event in Stream("s:events", "s").latest(server, 100) if event.type == "cap_reached"]
    assert [event.details["limit"] for event in found] == ["max_pages of slot a", "FRONTIER_MAX_PAGES"]


def test_a_finished_crawl_that_has_dropped_requests_tells_so(join: Join) -> None:
    worker = join(bounds={"max_pages": 1})
    push(worker, "x")
    (lease,) = worker.take(1)
    reply = worker.say(finished=[lease.name], pages=1, in_hand=0)
    assert (reply.finished, reply.is_capped) == (True, False)
    push(worker, "y")
    assert worker.say(in_hand=0).is_capped


def test_the_next_crawl_counts_anew(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_pages": 1})
    push(worker, "x", "y")
    (lease,) = worker.take(1)
    worker.say(finished=[lease.name], pages=1, in_hand=0)
    worker.frontier.leave(True, False)
    assert not server.exists("s:slots:pages")
    assert push(join("b", bounds={"max_pages": 1}), "x", "y").capped == {1}


def test_text_in_place_of_a_count_is_replaced(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_pages": 3})
    push(worker, "x")
    server.hset("s:slots:pages", mapping={"pages": "many", "dropped": "few"})
    push(worker, *PAGES)
    assert counts(server, "pages") == [3]


def test_only_slots_with_a_cap_are_counted(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_pages": 100})
    push(worker, *PAGES)
    push(worker, "x", slot="b", caps={"b": 5})
    assert set(server.hkeys("s:slots:pages")) == {b"pages", b"pages b"}


def test_a_cap_that_an_operator_has_set_comes_before_that_of_the_settings(
    join: Join, server: redis.Redis, redis_url: str
) -> None:
    worker = join()
    slots = Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"))
    slots.set("a", SlotRule("a", max_pages=2))
    assert push(worker, *PAGES, caps={"a": 5}).capped == set(range(2, 10))
    slots.set("a", SlotRule("a", max_pages=0))
    assert push(worker, *PAGES, caps={"a": 5}).capped == set()


def test_an_operator_may_cap_a_slot_without_a_cap_in_the_settings(
    join: Join, server: redis.Redis, redis_url: str
) -> None:
    worker = join()
    push(worker, *PAGES[:4])
    Slots(View.from_settings(Settings({"REDIS_URL": redis_url}), "s")).set("a", SlotRule("a", max_pages=6))
    assert push(worker, *PAGES[4:]).capped == {2, 3, 4, 5}
    push(worker, "x", slot="b")
    assert server.hget("s:slots:pages", "pages b") is None


def test_a_crawl_that_never_began_leaves_no_counts(join: Join, server: redis.Redis) -> None:
    worker = join(bounds={"max_pages": 5})
    push(worker, *PAGES[:5], mode="force")
    for lease in worker.take(5):
        worker.say(finished=[lease.name])
    worker.say(in_hand=0)
    worker.frontier.leave(False, False)
    assert not server.exists("s:slots:pages")
