"""The frontier as one looks at it from outside: how it stands, what waits, what became of a URL."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.errors import InspectionError
from scrapy_rq_sched.frontier.messages import FORMAT, Failed, Push
from scrapy_rq_sched.inspect import ArchiveReader, Export, Import, View, find_frontiers, read_status
from scrapy_rq_sched.inspect.entries import Entry, Reader
from scrapy_rq_sched.inspect.explain import Explainer
from scrapy_rq_sched.inspect.fingerprint import Fingerprinter
from scrapy_rq_sched.inspect.operations.clear import clear
from scrapy_rq_sched.inspect.operations.forget import forget
from scrapy_rq_sched.inspect.operations.orders import Control
from scrapy_rq_sched.inspect.operations.waiting import Waiting
from scrapy_rq_sched.inspect.queues import Queues
from scrapy_rq_sched.inspect.slots import Slots
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.worker.log.notices import Notices

from ..support.client import MADE_WITH, Client, Join

SITE = "http://example.com"
Look = Callable[..., View]


@pytest.fixture
def look(redis_url: str) -> Look:
    def view(spider: str = "s", **settings: Any) -> View:
        return View.from_settings(Settings({"REDIS_URL": redis_url, **settings}), spider)

    return view


QUEUES = {
    "priority": "scrapy_rq_sched.PriorityQueue",
    "fifo": "scrapy_rq_sched.FifoQueue",
    "lifo": "scrapy_rq_sched.LifoQueue",
}


@pytest.fixture
def view(look: Look, discipline: str, join: Join) -> View:
    """The frontier as somebody sees it whose settings say which queue it has."""
    join("first")
    return look(SCHEDULER_QUEUE_CLASS=QUEUES[discipline])


@pytest.fixture
def by_priority(look: Look, join: Join) -> View:
    join("first")
    return look()


def page(name: str, **fields: Any) -> bytes:
    return json.dumps({"url": f"{SITE}/{name}", **fields}).encode()


def push(worker: Client, view: View, *names: str, priority: int = 0, **fields: Any) -> None:
    make = Fingerprinter(view).of
    worker.say(
        pushes=[
            Push(
                "filter",
                make(Request(f"{SITE}/{name}")),
                priority,
                page(name, **fields, **({"priority": priority} if priority else {})),
            )
            for name in names
        ]
    )


def urls(entries: Any) -> list[str]:
    return [entry.url.removeprefix(f"{SITE}/") for entry in entries]


def named(*names: str) -> Callable[[Entry], bool]:
    return lambda entry: entry.url in {f"{SITE}/{name}" for name in names}


# -- status ----------------------------------------------------------------------------------------


def test_the_status_counts_requests_leases_seeds_and_fingerprints(
    join: Join, view: View, server: redis.Redis
) -> None:
    worker = join("a")
    push(worker, view, *"abcdefgh")
    one, two, _ = worker.take(3)
    worker.say(failed=[Failed(one.name, 0, "bad")], refused=[(two.name, "no callback")])
    server.rpush("s:start_urls", "x", "y")
    status = read_status(view)
    assert (status.waiting, status.leased, status.delayed, status.failed) == (5, 1, 1, 1)
    assert (status.seeds, status.seen) == (2, 8)


@pytest.mark.parametrize("dupefilter", ["exact", "compact"])
def test_the_fingerprints_are_counted_with_either_filter(join: Join, look: Look, dupefilter: str) -> None:
    worker = join("a", dupefilter=dupefilter)
    worker.push(*map(str, range(700)))
    status = read_status(look())
    assert status.seen == 700
    assert status.seen_bytes is not None
    assert 5_000 < status.seen_bytes < 200_000


def test_a_worker_is_shown_with_its_own_reports(join: Join, look: Look) -> None:
    about = {"host": "h1", "pid": 17, "version": "9.9", "scrapy": "2.19"}
    worker = join("a", about=json.dumps(about))
    worker.push("one", "two")
    worker.take(1)
    worker.say(pages=12, busy=True)
    worker.say(pages=3)
    (one,) = read_status(look()).workers
    assert (one.name, one.host, one.pid, one.version, one.pages) == ("a", "h1", 17, "9.9", 15)
    assert (one.alive, one.in_hand, one.busy) == (True, 1, False)
    assert abs(one.joined - time.time()) < 60
    assert one.heard >= one.joined - 0.001


def test_a_worker_that_was_silent_for_too_long_is_dead(join: Join, look: Look, server: redis.Redis) -> None:
    join("a")
    server.zadd("s:workers", {"a": 1})
    assert [worker.alive for worker in read_status(look()).workers] == [False]


def test_pages_are_counted_once_though_an_exchange_is_repeated(join: Join, look: Look) -> None:
    worker = join("a")
    worker.push("one")
    worker.say(pages=5)
    worker.repeat(pages=5)
    status = read_status(look())
    assert (status.pages, status.workers[0].pages) == (5, 5)
    assert sum(moment.pages for moment in status.history) == 5


def long_ago(join: Join, server: redis.Redis) -> Client:
    """Join a worker that has been there for days."""
    worker = join("a")
    server.hset("s:worker:a", "joined", 1_000_000)
    return worker


def moments(server: redis.Redis, *pages_and_waiting: tuple[int, int]) -> None:
    """Write so many tens of seconds, the last of which is over."""
    last = int(server.time()[0]) // 10 * 10 - 10
    server.rpush(
        "s:pages",
        *(f"{last - 10 * n} {done} {left}" for n, (done, left) in enumerate(reversed(pages_and_waiting))),
    )


def test_the_rate_is_that_of_the_last_twenty_seconds_and_of_the_last_hour(
    join: Join, look: Look, server: redis.Redis
) -> None:
    long_ago(join, server).push("one")
    moments(server, *[(100, 1)] * 100, *[(10, 1)] * 8)
    status = read_status(look())
    # The last ten seconds that are over, and none of the present ones.
    assert 0.5 <= status.per_second <= 1
    # 100 tens of seconds with 100 pages and 8 with 10, in 1,080 seconds.
    assert 3600 * 10_080 / 1_095 < status.per_hour < 3600 * 10_080 / 1_079


def test_a_crawl_that_is_young_is_not_taken_for_a_slow_one(
    join: Join, look: Look, server: redis.Redis
) -> None:
    long_ago(join, server).push("one")
    moments(server, (200, 1))
    assert 9 < read_status(look()).per_second <= 20


def test_pages_done_before_the_workers_joined_do_not_count_for_their_rate(
    join: Join, look: Look, server: redis.Redis
) -> None:
    join("a").push("one")
    moments(server, *[(1000, 500)] * 3)
    assert read_status(look()).per_second == 0
    assert read_status(look()).per_hour > 3000


def test_the_time_left_is_by_how_fast_the_queue_shrinks(join: Join, look: Look, server: redis.Redis) -> None:
    long_ago(join, server).push(*map(str, range(100)))
    # From 200 to 100 in ten seconds, with 20 pages a second of which most find others.
    moments(server, *((200, 700 - 100 * n) for n in range(6)))
    status = read_status(look())
    assert status.growth is not None
    assert status.seconds_left is not None
    # The present ten seconds have no pages.
    assert -20 <= status.growth <= -10
    assert status.seconds_left == pytest.approx(100 / -status.growth)


def test_the_time_left_is_by_the_last_twenty_seconds(join: Join, look: Look, server: redis.Redis) -> None:
    long_ago(join, server).push(*map(str, range(100)))
    # Nine minutes of growth do not count.
    moments(server, *((200, 10 * n) for n in range(54)), (200, 300), (200, 100))
    status = read_status(look())
    assert status.seconds_left is not None
    assert 4.9 < status.seconds_left <= 10


def test_no_end_is_foretold_once_the_queue_does_not_shrink_any_more(
    join: Join, look: Look, server: redis.Redis
) -> None:
    long_ago(join, server).push(*map(str, range(100)))
    moments(server, *((200, 1000) for n in range(54)), *((200, 100) for n in range(7)))
    status = read_status(look())
    assert status.growth == 0
    assert status.seconds_left is None


def test_no_end_is_foretold_while_the_queue_grows(join: Join, look: Look, server: redis.Redis) -> None:
    long_ago(join, server).push(*map(str, range(100)))
    moments(server, *((200, 10 * n) for n in range(7)))
    status = read_status(look())
    assert status.seconds_left is None
    assert status.seconds_left_at_least is not None
    assert status.seconds_left_at_least == pytest.approx(100 / status.per_second)


def test_no_end_is_foretold_while_all_slots_are_blocked(join: Join, look: Look, server: redis.Redis) -> None:
    worker = long_ago(join, server)
    worker.push(*map(str, range(100)), slot="h")
    moments(server, (200, 700), (200, 300), (200, 100))
    assert read_status(look()).seconds_left is not None
    Slots(look()).block("h", 600)
    worker.say(want=1)
    status = read_status(look())
    assert 590 < status.next_turn_in <= 600
    assert (status.seconds_left, status.seconds_left_at_least) == (None, None)


def test_the_time_left_has_the_rest_of_a_slot_that_is_blocked(
    join: Join, look: Look, server: redis.Redis
) -> None:
    worker = long_ago(join, server)
    worker.push(*map(str, range(100)), slot="h")
    worker.push("one of a few", slot="blocked")
    moments(server, (200, 700), (200, 300), (200, 100))
    Slots(look()).block("blocked", 600)
    status = read_status(look())
    assert status.limit != "politeness"
    assert status.seconds_left == pytest.approx(600, abs=10)
    assert status.seconds_left_at_least == pytest.approx(600, abs=10)


def test_a_crawl_without_workers_has_no_time_left(join: Join, look: Look, server: redis.Redis) -> None:
    join("a").push("one")
    moments(server, (200, 700), (200, 100))
    server.zadd("s:workers", {"a": 1})
    assert read_status(look()).seconds_left_at_least is None


def test_no_end_is_foretold_while_the_crawl_is_paused(join: Join, look: Look, server: redis.Redis) -> None:
    long_ago(join, server).push("one")
    moments(server, (200, 700), (200, 100))
    server.hset("s:meta", "state", "paused")
    assert read_status(look()).seconds_left_at_least is None
    assert read_status(look()).growth is None


@pytest.mark.slow
@pytest.mark.parametrize("count", [3_000, 5_000, 9_000])
def test_the_memory_of_a_compact_filter_is_estimated_about_right(
    join: Join, look: Look, server: redis.Redis, count: int
) -> None:
    worker = join("a", dupefilter="compact")
    for first in range(0, count, 500):
        worker.say(pushes=[Push("filter", f"fp-{n}", 0, b"") for n in range(first, first + 500)])
    buckets = [key for key in server.scan_iter("s:dupefilter:*:*") if server.type(key) == b"set"]
    taken = sum(server.memory_usage(key) for key in buckets)
    told = read_status(look()).seen_bytes
    assert told is not None
    assert 0.6 < told / taken < 1.6


@pytest.mark.slow
def test_the_state_is_named(join: Join, look: Look, server: redis.Redis) -> None:
    assert read_status(look()).state == "new"
    worker = join("a")
    assert read_status(look()).state == "idle"
    worker.push("one")
    assert read_status(look()).state == "crawling"
    server.hset("s:meta", mapping={"state": "paused", "state_since": 1})
    assert (read_status(look()).state, read_status(look()).state_since) == ("paused", 0.001)
    server.hdel("s:meta", "state")
    server.zrem("s:workers", "a")
    assert read_status(look()).state == "stopped"
    server.delete("s:requests")
    assert read_status(look()).state == "finished"
    server.hset("s:meta", "state", "paused")
    assert read_status(look()).state == "paused"
    server.hset("s:converting", "from", "pickle")
    assert read_status(look()).state == "converting"


@pytest.mark.parametrize("state", ["paused", "draining"])
def test_a_crawl_that_is_paused_is_not_finished_though_nothing_waits(
    join: Join, look: Look, state: str
) -> None:
    worker = join("a")
    {"paused": Control(look()).pause, "draining": Control(look()).drain}[state]()
    worker.frontier.leave(False, False)
    status = read_status(look())
    assert (status.state, status.waiting, status.alive) == (state, 0, 0)
    assert status.state_since


def test_the_status_is_read_in_two_round_trips_however_many_workers_there_are(
    join: Join, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        join(f"w{n}").push(str(n))
    view = look()
    executed = []
    pipeline = View.pipeline

    def counted(self: View) -> Any:
        executed.append(1)
        return pipeline(self)

    monkeypatch.setattr(View, "pipeline", counted)
    assert read_status(view).alive == 30
    assert len(executed) == 2


@pytest.mark.parametrize("key", ["requests", "workers", "dupefilter", "pages", "delayed", "failed"])
def test_a_key_of_a_wrong_type_does_not_keep_from_the_rest(
    join: Join, look: Look, server: redis.Redis, key: str
) -> None:
    join("a").push("one")
    server.delete(f"s:{key}")
    server.set(f"s:{key}", "what")
    read_status(look())


def test_all_frontiers_of_a_redis_are_found(server: redis.Redis, redis_url: str) -> None:
    from scrapy_rq_sched.keys import Keys

    tagged = needs_hash_tag(server)
    for spider, queue in (("two", "%(spider)s:requests"), ("one", "prod:%(spider)s:queue")):
        Client(server, "w", "priority", 30, 5, keys=Keys(spider, queue, hash_tag=tagged)).open()
    server.hset("other:meta", "some", "thing")
    found = list(find_frontiers(Settings({"REDIS_URL": redis_url})))
    assert [view.spider for view in found] == ["one", "two"]
    assert [read_status(view).alive for view in found] == [1, 1]
    assert found[0].keys.start_urls == Keys("one", hash_tag=tagged).start_urls


# -- what waits ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_next_requests_are_shown_in_the_order_of_their_leases(join: Join, view: View) -> None:
    worker = join("a")
    push(worker, view, *(f"{n:03}" for n in range(450)))
    next_ones = list(Queues(view).next(430))
    # As long as another is there each takes half of what waits.
    taken = [json.loads(lease.payload)["url"] for _ in range(3) for lease in worker.take(430)]
    assert [entry.url for entry in next_ones[: len(taken)]] == taken[:430]
    assert len(taken) > 300


def test_to_peek_takes_nothing(join: Join, view: View) -> None:
    push(join("a"), view, *"abc")
    assert len(list(Queues(view).next(10))) == 3
    assert read_status(view).waiting == 3


def test_an_unreadable_request_is_shown_with_its_problem(join: Join, view: View) -> None:
    join("a").push("no json")
    (entry,) = Queues(view).next(1)
    assert entry.problem.startswith("not json:")
    assert entry.url == ""


@pytest.mark.slow
def test_all_that_waits_is_met(join: Join, view: View) -> None:
    names = [f"{n:04}" for n in range(1234)]
    for n in range(0, 1234, 500):
        push(join("a"), view, *names[n : n + 500])
    met = [entry for entries in Queues(view).waiting() for _, entry in entries]
    assert sorted(urls(met)) == names


def test_nothing_that_waits_is_passed_over_while_a_crawl_pushes_and_takes(join: Join, view: View) -> None:
    worker = join("a")
    names = [f"{n:04}" for n in range(1000)]
    push(worker, view, *names)
    met, taken = [], set()
    for step, entries in enumerate(Queues(view).waiting()):
        met += urls(entry for _, entry in entries)
        taken |= {json.loads(lease.payload)["url"][-4:] for lease in worker.take(30)}
        push(worker, view, *(f"new{step}-{n}" for n in range(30)))
    assert set(names) - taken <= set(met)


def test_a_pickle_is_not_read_on_the_word_of_redis(join: Join, look: Look, server: redis.Redis) -> None:
    join("a").push("one")
    server.hset("s:meta", "SCHEDULER_SERIALIZER", "pickle")
    with pytest.raises(InspectionError, match="-s SCHEDULER_SERIALIZER=pickle"):
        list(Queues(look()).next(1))


def test_a_lease_is_shown_with_its_worker_and_its_time(join: Join, by_priority: View) -> None:
    worker = join("a")
    push(worker, by_priority, "one", priority=3)
    worker.take(1)
    (held,) = Reader(by_priority).held()
    assert (held.worker, held.alive, held.deaths, held.entry.url) == ("a", True, 0, f"{SITE}/one")
    assert held.entry.priority == 3
    assert abs(held.since - time.time()) < 60


# -- explain ---------------------------------------------------------------------------------------


def test_a_url_that_waits_is_told_with_its_place(join: Join, view: View, discipline: str) -> None:
    push(join("a"), view, *(f"{n:03}" for n in range(300)))
    found = Explainer(view).explain(f"{SITE}/100")
    assert found.seen
    (place,) = found.waiting
    assert place.before == (199 if discipline == "lifo" else 100)


def test_a_url_that_differs_only_in_the_order_of_its_query_is_the_same(join: Join, by_priority: View) -> None:
    push(join("a"), by_priority, "p?b=2&a=1")
    assert len(Explainer(by_priority).explain(f"{SITE}/p?a=1&b=2").waiting) == 1


def test_a_url_that_a_worker_has_is_told_with_the_worker(join: Join, view: View) -> None:
    worker = join("a")
    push(worker, view, "one")
    worker.take(1)
    found = Explainer(view).explain(f"{SITE}/one")
    assert [held.worker for held in found.held] == ["a"]
    assert not found.waiting


def test_a_url_that_was_set_aside_is_told_with_the_reason(join: Join, view: View) -> None:
    worker = join("a")
    push(worker, view, "one")
    (lease,) = worker.take(1)
    worker.say(failed=[Failed(lease.name, 0, "its callback raised KeyError")])
    assert [one.reason for one in Explainer(view).explain(f"{SITE}/one").failed] == [
        "its callback raised KeyError"
    ]


def test_a_refused_url_is_explained_with_the_workers_that_refused_it(join: Join, view: View) -> None:
    worker = join("a")
    push(worker, view, "one")
    (lease,) = worker.take(1)
    join("b")
    worker.say(refused=[(lease.name, "no callback")])
    found = Explainer(view).explain(f"{SITE}/one")
    assert len(found.delayed) == 1
    assert [event.split("@")[0] for event in found.history] == ["refused:a"]


@pytest.mark.parametrize("push_seed", ["rpush", "sadd"])
def test_a_url_that_is_a_seed_is_told(by_priority: View, server: redis.Redis, push_seed: str) -> None:
    getattr(server, push_seed)("s:start_urls", f"{SITE}/x", json.dumps({"url": f"{SITE}/one"}))
    (place,) = Explainer(by_priority).explain(f"{SITE}/one").seeds
    assert place.before == (1 if push_seed == "rpush" else None)


@pytest.mark.parametrize("dupefilter", ["exact", "compact"])
def test_a_url_that_was_crawled_is_seen_and_nowhere(join: Join, look: Look, dupefilter: str) -> None:
    worker = join("a", dupefilter=dupefilter)
    view = look()
    push(worker, view, "one")
    (lease,) = worker.take(1)
    worker.say(finished=[lease.name])
    found = Explainer(view).explain(f"{SITE}/one")
    assert found.seen
    assert found.is_nowhere


def test_a_url_that_was_never_found_is_explained_with_similar_ones(join: Join, by_priority: View) -> None:
    worker = join("a")
    push(worker, by_priority, "dir/")
    found = Explainer(by_priority).explain("https://www.example.com/dir")
    assert (found.seen, found.is_nowhere) == (False, True)
    assert found.alike == [f"{SITE}/dir/"]


def test_a_request_of_another_method_is_another(join: Join, by_priority: View) -> None:
    push(join("a"), by_priority, "one")
    explainer = Explainer(by_priority)
    assert explainer.explain(json.dumps({"url": f"{SITE}/one"})).seen
    assert not explainer.explain(json.dumps({"url": f"{SITE}/one", "method": "POST"})).seen


@pytest.mark.parametrize(
    ("waits", "asked"),
    [("%c3%a9", "%C3%A9"), ("%c3%a9", "é"), ("a?x=%7e", "a?x=~"), ("", "")],
    ids=["escaped", "not escaped", "in the query", "the root"],
)
def test_a_url_that_is_written_otherwise_is_the_same(
    join: Join, by_priority: View, waits: str, asked: str
) -> None:
    push(join("a"), by_priority, waits)
    assert len(Explainer(by_priority).explain(f"{SITE}/{asked}").waiting) == 1


def test_a_seed_that_is_not_ascii_is_found(by_priority: View, server: redis.Redis) -> None:
    server.rpush("s:start_urls", f"{SITE}/ü".encode())
    assert len(Explainer(by_priority).explain(f"{SITE}/ü").seeds) == 1


class Lowercase:
    """A fingerprinter to which upper and lower case are the same."""

    def fingerprint(self, request: Request) -> bytes:
        return request.url.lower().encode()


class Raises:
    """A fingerprinter that cannot make any."""

    def fingerprint(self, request: Request) -> bytes:
        raise OSError("no")


def test_with_a_fingerprinter_of_ones_own_all_that_waits_is_compared(join: Join, look: Look) -> None:
    worker = join("a")
    view = look(REQUEST_FINGERPRINTER_CLASS=Lowercase)
    push(worker, view, "one")
    assert len(Explainer(view).explain(f"{SITE}/ONE").waiting) == 1


def test_a_fingerprinter_that_raises_is_one_line(join: Join, look: Look) -> None:
    join("a")
    with pytest.raises(InspectionError, match="OSError: no"):
        Explainer(look(REQUEST_FINGERPRINTER_CLASS=Raises)).explain(f"{SITE}/one")


STRANGE = {
    "meta": {b"\xff": b"\xff", b"pages": b"1" * 30, b"state_since": b"[]"},
    "dupefilter:buckets": {b"name": b"\xff", b"first": b"x", b"count": b"1e400", b"most": b"9"},
    "worker:a": {b"about": b'{"pid": [1], "host": {}}', b"pages": b"-", b"joined": b"9" * 25, b"heard": b"x"},
    "leases:a": {b"\xff": b"request 1 " + b"9" * 5000 + b"@" + b"9" * 5000 + b" x", b"1.1": b"\xff"},
}


@pytest.mark.parametrize("key", STRANGE)
def test_foreign_values_in_redis_do_not_keep_from_looking(
    join: Join, look: Look, server: redis.Redis, key: str
) -> None:
    join("a").push("one")
    server.hset(f"s:{key}", mapping=STRANGE[key])
    view = look()
    read_status(view)
    list(Reader(view).held())
    with contextlib.suppress(redis.ResponseError):  # of a filter that makes no sense: the server says so
        Explainer(view).explain(f"{SITE}/one")


def test_a_request_in_an_unknown_encoding_is_another(join: Join, by_priority: View) -> None:
    push(join("a"), by_priority, "one", encoding="nope")
    assert Explainer(by_priority).explain(f"{SITE}/one").waiting == []


def test_an_invalid_url_is_refused(by_priority: View) -> None:
    with pytest.raises(InspectionError, match="'nonsense' is neither a valid URL"):
        Explainer(by_priority).explain("nonsense")


def test_fingerprints_that_are_made_otherwise_are_not_guessed(
    by_priority: View, look: Look, server: redis.Redis
) -> None:
    server.hset("s:meta", "REQUEST_FINGERPRINTER_CLASS", "shop.Fingerprinter")
    with pytest.raises(InspectionError, match=r"make fingerprints with shop\.Fingerprinter"):
        Explainer(look())


def test_the_spiders_own_settings_hold(join: Join, redis_url: str) -> None:
    class Own(Spider):
        name = "s"
        custom_settings = {
            "REQUEST_FINGERPRINTER_CLASS": "scrapy_rq_sched.fingerprints.ScrapyRedisFingerprinter"
        }

    join("a")
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), "s", Own)
    theirs = View.from_settings(Settings({"REDIS_URL": redis_url}), "s")
    request = Request(f"{SITE}/one")
    assert Fingerprinter(view).of(request) != Fingerprinter(theirs).of(request)


# -- change ----------------------------------------------------------------------------------------


def test_a_removal_takes_out_the_matching_requests_and_keeps_the_order_of_the_rest(
    join: Join, view: View
) -> None:
    worker = join("a")
    names = [f"{n:03}" for n in range(500)]
    push(worker, view, *names)
    before = urls(Queues(view).next(1000))
    worker.frontier.leave(finished=False, persist=False)
    view.server.delete(view.keys.workers)
    gone = set(names[50:450:3])
    removed = [entry for entries in Waiting(view).remove(named(*gone)) for entry in entries]
    assert sorted(urls(removed)) == sorted(gone)
    assert urls(Queues(view).next(1000)) == [name for name in before if name not in gone]


def test_a_removed_request_still_counts_as_seen(join: Join, by_priority: View) -> None:
    worker = join("a")
    push(worker, by_priority, "one")
    list(Waiting(by_priority).remove(named("one")))
    push(worker, by_priority, "one")
    assert read_status(by_priority).waiting == 0


def test_a_request_leased_meanwhile_is_not_removed(join: Join, by_priority: View) -> None:
    worker = join("a")
    push(worker, by_priority, "one", "two")
    waiting = Waiting(by_priority)
    found = [entry for entries in waiting.find(named("one", "two")) for entry in entries]
    worker.take(1)
    assert len(waiting._change([(entry, b"", 0.0) for entry in found])) == 1
    assert read_status(by_priority).leased == 1


@pytest.mark.parametrize("queue", ["fifo", "lifo"])
def test_from_a_list_nothing_is_removed_while_workers_take_from_it(
    server: redis.Redis, look: Look, queue: str
) -> None:
    Client(server, "a", queue, 30, 5).open().push("one")
    view = look(SCHEDULER_QUEUE_CLASS=QUEUES[queue])
    with pytest.raises(InspectionError, match="scrapy frontier pause s"):
        list(Waiting(view).remove(named("one")))
    server.hset("s:meta", "state", "paused")
    list(Waiting(look(SCHEDULER_QUEUE_CLASS=QUEUES[queue])).remove(named("one")))


@pytest.mark.parametrize("queue", ["fifo", "lifo"])
def test_a_list_that_is_interrupted_is_turned_all_the_way_round(
    server: redis.Redis, look: Look, queue: str
) -> None:
    worker = Client(server, "a", queue, 30, 5).open()
    view = look(SCHEDULER_QUEUE_CLASS=QUEUES[queue])
    push(worker, view, *(f"{n:03}" for n in range(700)))
    server.hset("s:meta", "state", "paused")
    before = urls(Queues(view).next(1000))
    removal = Waiting(view).remove(lambda _: True)
    gone = set(urls(next(removal)))
    removal.close()
    assert 0 < len(gone) < 700
    assert urls(Queues(view).next(1000)) == [name for name in before if name not in gone]


def test_another_priority_is_another_place(join: Join, by_priority: View) -> None:
    worker = join("a")
    push(worker, by_priority, *"abcdef")
    changed = [e for entries in Waiting(by_priority).reprioritize(named("d", "f"), 5) for e in entries]
    assert sorted(urls(changed)) == ["d", "f"]
    assert urls(Queues(by_priority).next(10)) == ["d", "f", "a", "b", "c", "e"]
    (lease, *_) = worker.take(6)
    assert json.loads(lease.payload)["priority"] == 5


def test_a_priority_of_0_is_not_written(join: Join, by_priority: View) -> None:
    push(join("a"), by_priority, "one", priority=9)
    list(Waiting(by_priority).reprioritize(named("one"), 0))
    (entry,) = Queues(by_priority).next(1)
    assert (entry.priority, entry.fields) == (0, {"url": f"{SITE}/one"})


def test_two_requests_do_not_become_one_by_their_priority(by_priority: View, server: redis.Redis) -> None:
    one, same = b'{"url":"http://example.com/one"}', b'{"url":"http://example.com/one","priority":5}'
    server.zadd("s:requests", {one: 0.5, same: -4.5})
    assert sum(map(len, Waiting(by_priority).reprioritize(named("one"), 5))) == 0
    assert read_status(by_priority).waiting == 2


def test_an_unwritable_request_is_left_as_it_is_and_the_rest_changed(
    join: Join, by_priority: View, server: redis.Redis
) -> None:
    push(join("a"), by_priority, "one")
    server.zadd("s:requests", {b'{"url":"http://example.com/two","meta":{"x":NaN}}': 9})
    waiting = Waiting(by_priority)
    assert sum(map(len, waiting.reprioritize(named("one", "two"), 5))) == 1
    (unwritable,) = waiting.unwritable
    assert unwritable.startswith(f"{SITE}/two: ")


def test_the_deaths_of_a_request_are_remembered_when_its_priority_changes(
    join: Join, by_priority: View, server: redis.Redis
) -> None:
    worker = join("a", lease=0.1)
    push(worker, by_priority, "one")
    worker.take(1)
    server.zadd("s:workers", {"a": 1})
    other = join("b")
    other.say()
    list(Waiting(by_priority).reprioritize(named("one"), 5))
    (lease,) = other.take(1)
    assert lease.deaths == 1


def test_a_list_has_no_priorities(server: redis.Redis, look: Look) -> None:
    Client(server, "a", "fifo", 30, 5).open()
    with pytest.raises(InspectionError, match="has no priorities"):
        list(Waiting(look(SCHEDULER_QUEUE_CLASS=QUEUES["fifo"])).reprioritize(named("one"), 5))


@pytest.mark.parametrize("dupefilter", ["exact", "compact"])
def test_a_forgotten_url_is_crawled_again_by_workers_that_remember_it(
    join: Join, look: Look, dupefilter: str
) -> None:
    worker = join("a", dupefilter=dupefilter)
    view = look()
    push(worker, view, "one", "two")
    epoch = worker.say().epoch
    make = Fingerprinter(view).of
    assert forget(view, [make(Request(f"{SITE}/{name}")) for name in ("one", "other")]) == 1
    assert worker.say().epoch != epoch
    push(worker, view, "one", "two")
    assert urls(Queues(view).next(5)) == ["two", "one"]
    assert read_status(view).seen == 2


def test_a_start_request_that_is_forgotten_is_begun_with_again(
    join: Join, by_priority: View, server: redis.Redis
) -> None:
    fingerprint = Fingerprinter(by_priority).of(Request(f"{SITE}/one"))
    server.sadd("s:started", fingerprint, f"{fingerprint}#1", f"{fingerprint}#2", "other")
    assert forget(by_priority, [fingerprint]) == 1
    assert server.smembers("s:started") == {b"other"}


# -- clear -----------------------------------------------------------------------------------------


def left(server: redis.Redis) -> set[bytes]:
    return {key.replace(b"{", b"").replace(b"}", b"") for key in server.scan_iter("*")}


@pytest.mark.parametrize("dupefilter", ["exact", "compact"])
def test_a_frontier_that_is_cleared_has_left_nothing(
    join: Join, look: Look, server: redis.Redis, dupefilter: str
) -> None:
    worker = join("a", dupefilter=dupefilter)
    for n in range(3):
        worker.push(*(f"{n}-{m}" for m in range(900)))
    one, two, *_ = worker.take(5)
    worker.say(failed=[Failed(one.name, 0, "bad")], refused=[(two.name, "no callback")], pages=2)
    server.rpush("s:start_urls", "x")
    server.zadd("s:workers", {"a": 1})
    assert clear(look(), with_history=True) == ""
    assert left(server) == set()


def test_a_frontier_is_not_cleared_while_workers_are_alive(
    join: Join, look: Look, server: redis.Redis
) -> None:
    join("a").push("one")
    with pytest.raises(InspectionError, match="scrapy frontier stop s"):
        clear(look())
    assert server.zcard("s:requests") == 1
    clear(look(), force=True, with_history=True)
    # From these the workers that are alive find out, for ten minutes.
    assert left(server) == {b"s:finished", b"s:worker:a"}
    assert 0 < server.ttl("s:worker:a") <= 600
    assert 0 < server.ttl("s:finished") <= 600


def test_the_name_of_a_spider_is_quoted_in_each_command(look: Look, server: redis.Redis) -> None:
    keys = Keys("my shop", hash_tag=needs_hash_tag(server))
    worker = Client(server, "a", "fifo", 30, 5, keys=keys)
    worker.open()
    worker.push("one")
    view = look("my shop", SCHEDULER_QUEUE_CLASS=QUEUES["fifo"])
    with pytest.raises(InspectionError, match="scrapy frontier pause 'my shop'"):
        list(Waiting(view).remove(named("one")))
    with pytest.raises(InspectionError, match="scrapy frontier stop 'my shop'"):
        clear(view)
    archive = ArchiveReader(io.BytesIO(b"".join(Export(view).lines())))
    command = "scrapy frontier stop 'my shop'.* scrapy frontier clear 'my shop'"
    with pytest.raises(InspectionError, match=command):
        list(Import(view, archive).steps())
    assert "scrapy frontier clear 'my shop' --force" in str(Import(view, archive).broken("Interrupted"))
    clear(view, force=True)
    server.set(keys.finished, 1)
    server.sadd(keys.dupefilter, "x")
    with pytest.raises(InspectionError, match="scrapy frontier clear 'my shop'"):
        list(Import(view, archive).steps())
    server.hset(keys.converting, mapping={"from": "import", "id": "x"})
    with pytest.raises(InspectionError, match="scrapy frontier clear 'my shop' --force"):
        list(Import(view, archive).steps())
    server.hset(keys.converting, mapping={"from": "pickle", "to": "json"})
    with pytest.raises(InspectionError, match="scrapy frontier convert 'my shop'"):
        list(Import(view, archive).steps())


def test_a_clear_keeps_the_parts_to_keep(join: Join, look: Look, server: redis.Redis) -> None:
    worker = join("a")
    worker.push("one", "two")
    (lease,) = worker.take(1)
    worker.say(failed=[Failed(lease.name, 0, "bad")])
    server.rpush("s:start_urls", "x")
    clear(look(), force=True, keep=["seeds", "failed", "seen"])
    assert left(server) >= {b"s:start_urls", b"s:failed", b"s:dupefilter"}
    assert not left(server) & {b"s:requests", b"s:meta", b"s:started"}


def test_a_filter_that_is_anothers_as_well_is_not_cleared(server: redis.Redis, redis_url: str) -> None:
    from scrapy_rq_sched.keys import Keys

    def keys(spider: str) -> Keys:
        return Keys(spider, "{x}%(spider)s:requests", "{x}shared", ("{x}%(name)s:start_urls",))

    for spider in ("one", "two"):
        Client(server, spider, "priority", 30, 5, keys=keys(spider)).open().push(spider)
    settings = {
        "SCHEDULER_QUEUE_KEY": "{x}%(spider)s:requests",
        "SCHEDULER_DUPEFILTER_KEY": "{x}shared",
        "REDIS_START_URLS_KEY": "{x}%(name)s:start_urls",
    }
    view = View.from_settings(Settings({"REDIS_URL": redis_url, **settings}), "one")
    assert clear(view, force=True) == "{x}two"
    assert server.scard("{x}shared") == 2


def test_the_status_has_the_settings_that_workers_must_share(join: Join, look: Look) -> None:
    join("a")
    assert read_status(look()).made_with == {"format": FORMAT, "dupefilter": "exact", **MADE_WITH}


def test_no_worker_takes_a_clear_for_a_crash_of_redis(
    look: Look, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    workers = [join(name) for name in "abc"]
    workers[0].push("one", "two", "three")
    for worker in workers:
        worker.take(1)
        worker.say()
    clear(look(), force=True)
    # The first has nothing in hand, so it makes a new frontier. The others find that one.
    for worker, in_hand in zip(workers, (0, 1, 0), strict=True):
        reply = worker.say(in_hand=in_hand)
        assert (reply.epoch, reply.lost, reply.leases) == ("", (), [])
        Notices(StatsCollector(get_crawler()), "s").reply(reply, 0)
    assert not caplog.records
    assert workers[0].push("four").waiting == 1
