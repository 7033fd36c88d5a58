"""What is told of a fleet: each change once, by the step in which it happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.event_types import TEXTS
from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.events.event import Event
from scrapy_rq_sched.events.stream import Stream
from scrapy_rq_sched.frontier.close_limits import CloseLimits
from scrapy_rq_sched.frontier.messages import Failed, Push
from scrapy_rq_sched.frontier.scripts import register
from scrapy_rq_sched.inspect import Control, View, read_events
from scrapy_rq_sched.inspect.events import folded
from scrapy_rq_sched.inspect.slots import Slots
from scrapy_rq_sched.keys import Keys

from ..support.client import Client, Join
from ..support.crawl import wait_until


@pytest.fixture
def stream(server: redis.Redis) -> Stream:
    return Stream(Keys("s", hash_tag=needs_hash_tag(server)).events, "s")


Order = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def told(server: redis.Redis, stream: Stream) -> Order:
    """Return what gives the events since it was asked last: their types, and whom they concern."""
    last = "0-0"

    def ask() -> list[tuple[str, str]]:
        nonlocal last
        events = list(stream.all_after(server, last))
        last = events[-1].id if events else last
        return [(event.type, event.worker) for event in events]

    return ask


def view(redis_url: str) -> View:
    return View.from_settings(Settings({"REDIS_URL": redis_url}), "s")


def the_last(server: redis.Redis, stream: Stream) -> Event:
    (event,) = stream.latest(server, 1)
    return event


def test_the_first_worker_to_join_starts_the_crawl(join: Join, told: Order) -> None:
    join("a"), join("b")
    assert told() == [("crawl_started", "a"), ("worker_joined", "a"), ("worker_joined", "b")]


def test_a_join_with_a_lost_reply_is_recorded_once(join: Join, told: Order) -> None:
    join("a").open()
    assert told() == [("crawl_started", "a"), ("worker_joined", "a")]


def test_a_finished_crawl_is_told_once_and_the_next_one_starts_anew(join: Join, told: Order) -> None:
    a, b = join("a"), join("b")
    a.push("one", mode="start")
    (lease,) = a.take(1)
    a.say(finished=[lease.name], pages=1)
    told()
    for worker in (a, b):
        assert worker.say(in_hand=0, finishing=True).finished
        worker.frontier.leave(finished=True, persist=False)
        worker.frontier.leave(finished=True, persist=False)
    assert told() == [("worker_left", "a"), ("worker_left", "b"), ("crawl_finished", "")]
    join("c")
    assert told() == [("crawl_started", "c"), ("worker_joined", "c")]


def test_the_end_says_how_many_pages_there_were_and_how_many_failed(
    join: Join, server: redis.Redis, stream: Stream
) -> None:
    a = join("a")
    # The failed list also has entries of earlier crawls.
    server.lpush(a.frontier.keys.failed, '{"v": 2}', '{"v": 2}')
    a.push("one", "two", mode="start")
    leases = a.take(2)
    a.say(finished=[leases[0].name], failed=[Failed(leases[1].name, 0, "no price")], pages=2)
    a.say(in_hand=0, finishing=True)
    a.frontier.leave(finished=True, persist=False)
    details = the_last(server, stream).details
    assert (details["pages"], details["failed"]) == (2, 1)
    assert 0 <= details["seconds"] < 60


def finish(worker: Client, persist: bool = False) -> bool:
    """Have *worker* close because the fleet is finished; return whether it must ask again."""
    assert worker.say(in_hand=0, finishing=True).finished
    return worker.frontier.leave(finished=True, persist=persist).awaits


def crawl_one_page(worker: Client, name: str = "one") -> None:
    worker.push(name, mode="start")
    worker.say(finished=[worker.take(1)[0].name], pages=1, in_hand=0)


def test_a_crawl_that_another_worker_continues_has_not_finished(join: Join, told: Order) -> None:
    a, b = join("a"), join("b")
    crawl_one_page(a)
    told()
    finish(a)
    assert told() == [("worker_left", "a")]
    crawl_one_page(b, "two")
    assert told() == []
    finish(b)
    assert told() == [("worker_left", "b"), ("crawl_finished", "")]


def test_a_finished_worker_waits_until_every_other_is_heard_or_dead(
    join: Join, told: Order, server: redis.Redis
) -> None:
    a, b, killed = join("a"), join("b"), join("killed")
    crawl_one_page(a)
    told()
    assert finish(a)
    b.say(in_hand=0)
    server.zadd(a.frontier.keys.workers, {"killed": server.time()[0] * 1000 + 60_000})
    assert a.frontier.leave(finished=True, persist=False).awaits
    killed.say(in_hand=0)
    assert not a.frontier.leave(finished=True, persist=False).awaits
    server.zadd(a.frontier.keys.workers, {"killed": 1, "b": 1})
    assert a.frontier.leave(finished=True, persist=False).cleared
    assert [event for event in told() if event[0] != "worker_lost"] == [
        ("worker_left", "a"),
        ("crawl_finished", ""),
    ]


@pytest.mark.parametrize("flush", [False, True])
def test_the_next_crawl_records_the_end_of_a_crawl_with_a_killed_last_worker(
    join: Join, told: Order, server: redis.Redis, flush: bool
) -> None:
    a, b = join("a"), join("killed")
    crawl_one_page(a)
    b.say(in_hand=0)
    finish(a)
    server.zadd(a.frontier.keys.workers, {"killed": 1})
    told()
    join("next", flush=flush)
    kinds = [kind for kind, _ in told() if kind != "worker_lost"]
    assert kinds == ["crawl_finished", "crawl_started", "worker_joined"]


# A worker of version c8219d1 recorded the event as soon as it found the finish, if META did not have the
# finish yet. It cleared the frontier without recording it.


def _of_older_version(worker: Client) -> Client:
    """Make *worker* look like one of version c8219d1."""
    worker.frontier.server.hdel(worker.frontier.keys.worker(worker.name), "records_end")
    return worker


def _note_the_finish_as_before(worker: Client, stream: Stream) -> None:
    server = worker.frontier.server
    if server.hsetnx(worker.frontier.keys.meta, "finished", server.time()[0] * 1000):
        event = {"v": 1, "type": "crawl_finished", "time": server.time()[0], "spider": "s"}
        server.xadd(stream.key, {"event": json.dumps(event)})


def test_a_finish_that_an_older_worker_recorded_is_recorded_once(
    join: Join, told: Order, stream: Stream
) -> None:
    a, older = join("a"), _of_older_version(join("older"))
    crawl_one_page(a)
    told()
    _note_the_finish_as_before(older, stream)
    older.frontier.leave(finished=False, persist=True)
    finish(a)
    assert [kind for kind, _ in told()].count("crawl_finished") == 1


def test_a_finish_beside_an_older_worker_is_recorded_before_it_clears_the_frontier(
    join: Join, told: Order, stream: Stream
) -> None:
    a, older = join("a"), _of_older_version(join("older"))
    crawl_one_page(a)
    told()
    finish(a)
    assert told() == [("crawl_finished", ""), ("worker_left", "a")]
    _note_the_finish_as_before(older, stream)
    older.frontier.leave(finished=True, persist=False)
    assert told() == [("worker_left", "older")]


def test_a_finish_that_an_older_worker_recorded_after_more_pages_is_recorded_once(
    join: Join, told: Order, stream: Stream
) -> None:
    a, b = join("a"), join("b")
    crawl_one_page(a)
    finish(a)
    # An older worker joins, goes on with another request, and removes the note of the finish.
    older = _of_older_version(join("older", age=60.0))
    older.frontier.server.hdel(older.frontier.keys.meta, "finished")
    told()
    _note_the_finish_as_before(older, stream)
    for worker in (older, b):
        worker.say(in_hand=0)
        worker.frontier.leave(finished=True, persist=False)
    assert [kind for kind, _ in told()].count("crawl_finished") == 1


def test_after_a_loss_of_data_a_leaving_worker_records_no_second_end(
    join: Join, told: Order, server: redis.Redis
) -> None:
    a, b = join("a"), join("b")
    server.flushall()
    for worker in (a, b):
        worker.say()
    crawl_one_page(a)
    told()
    finish(a)
    assert told() == [("worker_left", "a")]


def test_a_worker_that_dies_is_told_once_and_again_when_it_is_back(
    join: Join, told: Order, server: redis.Redis
) -> None:
    a, b = join("a"), join("b")
    a.push(*(f"r{number}" for number in range(300)))
    a.take(300)
    told()
    server.zadd(a.frontier.keys.workers, {"a": 1})
    # Of so many leases some go back in each exchange.
    for _ in range(3):
        b.say()
    assert told() == [("worker_lost", "a")]
    a.say()
    assert told() == [("worker_joined", "a")]
    a.say()
    assert told() == []


def test_a_worker_that_leaves_something_behind_has_left_and_is_not_lost(join: Join, told: Order) -> None:
    a, b = join("a"), join("b")
    a.push("one")
    a.take(1)
    told()
    for _ in range(2):
        a.frontier.leave(finished=False, persist=True)
    b.say()
    assert told() == [("worker_left", "a")]


def test_an_order_to_the_fleet_is_recorded_when_it_changes(join: Join, told: Order, redis_url: str) -> None:
    join("a")
    told()
    control = Control(view(redis_url))
    for tell in (control.pause, control.pause, control.drain, control.resume, control.resume, control.stop):
        tell()
    assert [kind for kind, _ in told()] == ["paused", "draining", "resumed", "stopped"]


def test_a_stop_of_one_worker_is_recorded_once(join: Join, told: Order, redis_url: str) -> None:
    a, b = join("a"), join("b")
    told()
    control = Control(view(redis_url))
    assert (control.stop("a"), control.stop("a"), control.stop("nobody")) == (1, 1, 0)
    assert told() == [("worker_stopped", "a")]
    for _ in range(2):
        assert (a.say().order, b.say().order) == ("stop", "")


def test_a_failed_request_is_recorded_once_with_its_reason(
    join: Join, server: redis.Redis, stream: Stream
) -> None:
    a = join("a")
    a.push("one")
    (lease,) = a.take(1)
    for _ in range(2):
        a.number = 3
        a.repeat(failed=[Failed(lease.name, 0, "KeyError: 'price' " + "x" * 5000, "traceback")])
    events = [event for event in stream.latest(server, 10) if event.type == "request_set_aside"]
    assert len(events) == 1
    assert events[0].worker == "a"
    assert events[0].details["entry"] == f"a/{lease.name}"
    assert events[0].details["reason"].startswith("KeyError: 'price' xx")
    assert len(events[0].details["reason"]) == 1000


@pytest.mark.parametrize(
    ("data", "url"),
    [
        ('{"url": "http://a.example/1", "meta": {"url": "http://b.example/"}}', "http://a.example/1"),
        (
            '{"meta": {"url": "http://b.example/"}, "url": "http://a.example/\\u00fc"}',
            "http://a.example/\u00fc",
        ),
        ('{"url": "http://ann:secret@a.example/1"}', "http://a.example/1"),
        ('{"url": "http://a.example/' + "x" * 3000 + '"}', "http://a.example/" + "x" * 483),
        ("http://ann@a.example/1", "http://a.example/1"),
        ('{"url": 7}', None),
        ('{"url": "http://a.example/1"', None),
        ('{"url": "http://a.example/", "body": "' + "x" * 30_000 + '"}', None),
        ("no URL", None),
        ("\x00\xff", None),
    ],
)
def test_the_event_of_a_failed_request_has_its_url_without_a_login(
    join: Join, stream: Stream, server: redis.Redis, data: str, url: str | None
) -> None:
    a = join("a")
    a.say(pushes=[Push("filter", "fp", 0, data.encode("latin-1"))])
    (lease,) = a.take(1)
    a.say(failed=[Failed(lease.name, 0, "bad", "")])
    (event,) = [event for event in stream.latest(server, 10) if event.type == "request_set_aside"]
    assert event.details.get("url") == url
    assert event.text == (f"request {url} is set aside: bad" if url else "a request is set aside: bad")


def test_equal_events_that_follow_each_other_are_folded() -> None:
    def event(name: str, worker: str = "", **details: Any) -> Event:
        return Event("1-0", 0.0, name, "s", worker, details)

    def failure(worker: str, host: str, reason: str = "its download failed: DNSLookupError: no") -> Event:
        return event(
            "request_set_aside", worker, kind="request", reason=f"{reason} {host}", url=f"http://{host}/"
        )

    events = [
        *(event("worker_joined", name) for name in "ab"),
        *(failure(worker, host) for worker, host in zip("abb", ("x", "y", "z"), strict=True)),
        event("worker_lost", "a"),
        failure("b", "x"),
        failure("b", "x", "its callback raised KeyError: 7"),
    ]
    assert [(one.type, one.worker, count) for one, count in folded(events)] == [
        ("worker_joined", "a", 1),
        ("worker_joined", "b", 1),
        ("request_set_aside", "b", 3),
        ("worker_lost", "a", 1),
        ("request_set_aside", "b", 1),
        ("request_set_aside", "b", 1),
    ]


def test_a_limit_is_reached_once_for_the_fleet(server: redis.Redis, told: Order) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    a, b = (
        Client(server, name, "priority", 30, 5, keys=keys, close=CloseLimits(pagecount=2)).open()
        for name in "ab"
    )
    told()
    for worker in (a, b, a):
        worker.say(counted={"pagecount": 1})
    Client(server, "c", "priority", 30, 5, keys=keys, close=CloseLimits(pagecount=2)).open().say()
    assert told() == [("limit_reached", ""), ("worker_joined", "c")]


def test_the_block_of_a_slot_and_its_end_are_recorded_once(join: Join, told: Order, redis_url: str) -> None:
    join("a").push("one", slot="h")
    told()
    slots = Slots(view(redis_url))
    slots.block("h", 100)
    assert [kind for kind, _ in told()] == ["slot_blocked"]
    for _ in range(2):
        slots.unblock("h")
    assert [kind for kind, _ in told()] == ["slot_free"]


def test_a_slot_is_free_again_when_its_time_is_over_and_it_is_asked(
    join: Join, told: Order, redis_url: str
) -> None:
    a = join("a")
    a.push("one", slot="h")
    Slots(view(redis_url)).block("h", 0.3)
    assert a.take(1) == []
    told()
    wait_until(lambda: a.take(1))
    a.take(1)
    assert [kind for kind, _ in told()] == ["slot_free"]


def test_a_crawl_without_a_page_for_long_stands_still_until_there_is_one(
    server: redis.Redis, told: Order
) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    a = Client(server, "a", "priority", 30, 5, keys=keys, stall_timeout=0.2).open()
    a.push("one", "two")
    (lease,) = a.take(1)
    told()
    wait_until(lambda: a.say() and told() == [("crawl_stalled", "")])
    a.say()
    a.say(finished=[lease.name], pages=1)
    assert told() == [("crawl_going_on", "")]


def test_a_crawl_with_limits_of_slots_stands_still_if_a_slot_is_due(server: redis.Redis, told: Order) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    limits = SlotLimits(delay=0.001)
    a = Client(server, "a", "priority", 30, 5, keys=keys, stall_timeout=0.2, slots=limits).open()
    a.push("one", "two", slot="x")
    assert a.take(1)
    told()
    wait_until(lambda: a.say() and told() == [("crawl_stalled", "")])


def has_stalled_at_once(a: Client, told: Order) -> bool:
    """Return whether the next exchanges find that the crawl stands still."""
    for _ in range(3):
        a.say()
    return any(kind == "crawl_stalled" for kind, _ in told())


def test_a_request_after_an_idle_time_is_no_standstill(server: redis.Redis, told: Order) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    a = Client(server, "a", "priority", 30, 5, keys=keys, stall_timeout=1.5).open()
    begun = server.time()[0]
    wait_until(lambda: a.say() and server.time()[0] > begun + 3)
    a.push("one")
    assert not has_stalled_at_once(a, told)


def test_the_end_of_a_block_is_no_standstill(server: redis.Redis, told: Order, redis_url: str) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    a = Client(server, "a", "priority", 30, 5, keys=keys, stall_timeout=1.5).open()
    a.push("one", slot="h")
    Slots(view(redis_url)).block("h", 3)
    wait_until(lambda: a.take(1))
    assert not has_stalled_at_once(a, told)


def test_a_page_now_and_then_is_no_standstill(server: redis.Redis, told: Order) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    a = Client(server, "a", "priority", 30, 5, keys=keys, stall_timeout=2.5).open()
    a.push(*(f"r{number}" for number in range(20)))
    begun = server.time()[0]

    def a_second_later() -> bool:
        nonlocal begun
        a.say()
        if server.time()[0] == begun:
            return False
        begun = server.time()[0]
        return True

    for _ in range(4):
        wait_until(a_second_later)
        a.say(pages=1)
    assert "crawl_stalled" not in [kind for kind, _ in told()]


def test_a_crawl_with_deleted_keys_may_stand_still(server: redis.Redis, told: Order) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    a = Client(server, "a", "priority", 30, 5, keys=keys, stall_timeout=0.2).open()
    server.hdel(keys.meta, "going_since", "began")
    a.push("one", "two")
    (lease,) = a.take(1)
    told()
    wait_until(lambda: a.say() and told() == [("crawl_stalled", "")])
    a.say(finished=[lease.name], pages=1)


@pytest.mark.parametrize("why", ["nothing to do", "paused"])
def test_a_crawl_that_has_nothing_to_do_does_not_stand_still(
    server: redis.Redis, told: Order, redis_url: str, why: str
) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    a = Client(server, "a", "priority", 30, 5, keys=keys, stall_timeout=0.1).open()
    if why == "paused":
        a.push("one")
        Control(view(redis_url)).pause()
    told()
    begun = server.time()[0]
    wait_until(lambda: a.say() and server.time()[0] > begun + 1)
    assert told() == []


def test_a_full_queue_is_told_once_until_there_is_room(server: redis.Redis, told: Order) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    a = Client(server, "a", "priority", 30, 5, keys=keys, max_waiting=10).open()
    told()
    a.push(*(f"r{number}" for number in range(12)))
    assert told() == [("queue_full", "")]
    a.push("one more")
    leases = a.take(5)
    assert told() == []
    # There has to have been room for a while.
    wait_until(lambda: a.say(finished=[]) and told() == [("queue_has_room", "")], timeout=15)
    assert len(leases) == 5


@pytest.mark.single("its memory is bounded")
def test_a_redis_without_memory_is_told_once_until_it_has_room(
    join: Join, server: redis.Redis, told: Order
) -> None:
    a = join("a")
    told()
    server.config_set("maxmemory", 1)
    try:
        for _ in range(3):
            assert a.push("one").full == "memory"
        assert told() == [("redis_full", "")]
    finally:
        server.config_set("maxmemory", 0)
    a.say()
    assert told() == []
    wait_until(lambda: a.say() and told() == [("redis_has_room", "")], timeout=15)


def test_so_many_are_kept_as_the_setting_says(server: redis.Redis, stream: Stream) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    for number in range(300):
        Client(server, f"w{number}", "priority", 30, 5, keys=keys, max_events=50).open()
    # Redis trims whole nodes of about a hundred entries.
    assert 50 <= server.xlen(stream.key) <= 200


def test_a_fleet_that_is_to_tell_nothing_tells_nothing(server: redis.Redis, told: Order) -> None:
    keys = Keys("s", hash_tag=needs_hash_tag(server))
    Client(server, "a", "priority", 30, 5, keys=keys, max_events=0).open().push("one")
    assert told() == []


def test_they_are_published_as_they_happen(join: Join, server: redis.Redis, stream: Stream) -> None:
    with server.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(stream.key)
        listener.get_message(timeout=5)
        join("a")
        heard = []
        wait_until(
            lambda: (
                ((message := listener.get_message(timeout=1)) and heard.append(message)) or len(heard) == 2
            )
        )
    said = [json.loads(message["data"]) for message in heard]
    assert [event["id"] for event in said] == [event.id for event in stream.latest(server, 2)]
    assert (said[1]["v"], said[1]["type"], said[1]["spider"], said[1]["worker"]) == (
        1,
        "worker_joined",
        "s",
        "a",
    )


def test_a_foreign_value_at_the_key_of_the_events_stops_no_crawl(
    join: Join, server: redis.Redis, stream: Stream
) -> None:
    a = join("a")
    server.delete(stream.key)
    server.set(stream.key, "mine")
    a.push("one")
    (lease,) = a.take(1)
    assert a.say(failed=[Failed(lease.name, 0, "no price")]).set_aside == 1
    assert server.get(stream.key) == b"mine"


def test_a_worker_joins_with_a_foreign_value_at_the_key_of_the_events(
    join: Join, server: redis.Redis, stream: Stream
) -> None:
    server.rpush(stream.key, "mine")
    a = join("a")
    a.push("one")
    (lease,) = a.take(1)
    a.say(failed=[Failed(lease.name, 0, "no price")])
    a.say()
    assert (server.lrange(stream.key, 0, -1), server.ttl(stream.key)) == ([b"mine"], -1)


def test_a_foreign_entry_of_the_stream_is_an_unknown_event(
    join: Join, server: redis.Redis, stream: Stream, redis_url: str
) -> None:
    join("a")
    server.xadd(stream.key, {"event": "[]"})
    server.xadd(stream.key, {"mine": b"\xff"})
    assert [event.type for event in read_events(view(redis_url))][-2:] == ["unknown", "unknown"]


def test_the_events_after_a_given_one_are_read(join: Join, redis_url: str) -> None:
    join("a"), join("b")
    first, *others = read_events(view(redis_url))
    assert read_events(view(redis_url), first.id) == others
    assert read_events(view(redis_url), first.id, 1) == others[:1]
    assert read_events(view(redis_url), count=1) == others[-1:]


@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_an_event_without_details_has_a_text_in_words(kind: str) -> None:
    details: dict[str, Any] = {"reason": "a\nb"} if kind == "request_set_aside" else {}
    text = Event("1-1", 1.0, kind, "s", "w", details).text
    assert "{" not in text
    assert "\n" not in text


def test_a_crawl_that_persists_starts_anew_however_late_the_next_worker_comes(
    server: redis.Redis, join: Join, told: Order
) -> None:
    a = join("a")
    a.push("one", mode="start")
    a.say(finished=[a.take(1)[0].name])
    a.say(in_hand=0, finishing=True)
    a.frontier.leave(finished=True, persist=True)
    server.delete(a.frontier.keys.finished)  # it has a time to live
    told()
    join("b")
    assert told() == [("crawl_started", "b"), ("worker_joined", "b")]


def test_a_late_exchange_of_a_worker_that_has_left_has_it_join_again(join: Join, told: Order) -> None:
    a, b = join("a"), join("b")
    a.push("one")
    a.take(1)
    told()
    a.frontier.leave(finished=False, persist=True)
    a.say()
    b.say()
    assert told() == [("worker_left", "a"), ("worker_joined", "a")]


@pytest.mark.parametrize("persist", [False, True])
def test_a_worker_that_sleeps_through_the_end_is_lost_and_the_end_is_told_once(
    join: Join, told: Order, server: redis.Redis, persist: bool
) -> None:
    a, sleeper = join("a"), join("sleeper")
    sleeper.say()
    a.push("one", mode="start")
    a.say(finished=[a.take(1)[0].name])
    a.say(in_hand=0, finishing=True)
    server.zadd(a.frontier.keys.workers, {"sleeper": 1})
    told()
    a.frontier.leave(finished=True, persist=persist)
    assert told() == [("worker_left", "a"), ("worker_lost", "sleeper"), ("crawl_finished", "")]
    for _ in range(2):
        sleeper.say(in_hand=0, finishing=True)
    sleeper.frontier.leave(finished=True, persist=persist)
    assert [kind for kind, _ in told()] == ["worker_joined", "worker_left"]


def test_a_worker_started_before_the_end_that_joins_after_it_starts_no_crawl(join: Join, told: Order) -> None:
    a = join("a")
    a.push("one", mode="start")
    a.say(finished=[a.take(1)[0].name])
    a.say(in_hand=0, finishing=True)
    a.frontier.leave(finished=True, persist=False)
    told()
    join("late", age=60.0)
    assert told() == [("worker_joined", "late")]


def test_a_join_that_is_repeated_late_is_told_again_as_one(
    join: Join, told: Order, server: redis.Redis
) -> None:
    a, b = join("a"), join("b")
    server.zadd(a.frontier.keys.workers, {"a": 1})
    b.say()
    told()
    a.open()
    a.say()
    assert told() == [("worker_joined", "a")]


@pytest.mark.parametrize(
    "entry",
    [
        {"time": 1, "type": "{"},
        {"time": 1, "type": "{worker.__class__}"},
        {"time": 10**400, "type": "paused"},
        {"time": float("nan"), "type": "paused"},
        {"time": 1, "type": "paused", "price": float("inf")},
        {"time": 1, "type": ["paused"], "spider": {}, "worker": 5},
        [],
    ],
)
def test_a_foreign_event_has_a_text_and_json(
    join: Join, server: redis.Redis, stream: Stream, entry: Any
) -> None:
    join("a")
    server.xadd(stream.key, {"event": json.dumps(entry)})
    event = the_last(server, stream)
    assert "class '" not in event.text
    json.dumps(event.as_dict(), allow_nan=False)


@pytest.mark.parametrize("reason", ["x" * 100_000, "é" * 5000, "\x01" * 30_000])
def test_a_long_reason_costs_little_time_and_is_cut_between_characters(
    join: Join, server: redis.Redis, stream: Stream, reason: str
) -> None:
    a = join("a")
    a.push("one")
    (lease,) = a.take(1)
    server.config_resetstat()
    a.say(failed=[Failed(lease.name, 0, reason)])
    spent = sum(each["usec"] for name, each in server.info("commandstats").items() if "eval" in name)
    assert spent < 100_000  # in microseconds; it was seconds
    assert "\ufffd" not in the_last(server, stream).details["reason"]
    (kind,) = server.hkeys(a.frontier.keys.reasons)
    assert len(kind.decode()) <= 80


def webhook(server: redis.Redis, worker: str, lease: int, sent: str = "") -> tuple[int, str]:
    script = register(server, "webhook")
    is_ours, last, _ = script(Keys("s", hash_tag=needs_hash_tag(server)).all(), [worker, lease, sent, 0])
    return is_ours, last.decode()


def test_one_worker_at_a_time_sends_and_goes_on_where_the_last_one_was(server: redis.Redis) -> None:
    assert webhook(server, "a", 100_000)[0] == 1
    assert webhook(server, "a", 100_000, "5-0") == (1, "5-0")
    assert webhook(server, "b", 100_000) == (0, "5-0")
    assert webhook(server, "a", 0) == (1, "5-0")
    assert webhook(server, "b", 0) == (1, "5-0")


def test_a_worker_that_was_not_heard_takes_back_nothing_that_another_has_sent(server: redis.Redis) -> None:
    webhook(server, "a", 0, "6-0")
    webhook(server, "b", 0, "9-10")
    assert webhook(server, "a", 100_000, "9-9") == (1, "9-10")
