"""The history of crawls: each crawl has one entry, however it ends, with the figures of all its workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.outcomes import SIZE, Ending, Outcome, find, times, url_digest, written
from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.frontier.messages import Failed
from scrapy_rq_sched.frontier.replies import Lease
from scrapy_rq_sched.inspect import View, find_frontiers, read_events, read_status
from scrapy_rq_sched.inspect.crawl import Crawl
from scrapy_rq_sched.inspect.crawls import Crawls
from scrapy_rq_sched.inspect.history import crawl_page
from scrapy_rq_sched.inspect.operations.clear import clear
from scrapy_rq_sched.keys import Keys

from ..support.client import Client, Start

History = Callable[[], list[Crawl]]


@pytest.fixture
def keys(server: redis.Redis) -> Keys:
    return Keys("s", hash_tag=needs_hash_tag(server))


@pytest.fixture
def view(redis_url: str) -> Callable[[], View]:
    settings = {"REDIS_URL": redis_url, "SCHEDULER_QUEUE_CLASS": "scrapy_rq_sched.PriorityQueue"}
    return lambda: View.from_settings(Settings(settings), "s")


@pytest.fixture
def history(view: Callable[[], View]) -> History:
    """Return what reads the history, the latest crawl first, with the charts."""

    def read() -> list[Crawl]:
        crawls = Crawls(view())
        return list(crawls.read(crawls.numbers(), with_charts=True))

    return read


def crawl(worker: Client, pages: int, **told: Any) -> None:
    """Crawl so many pages, with an exchange that has what is *told*."""
    worker.push(*(f"{worker.name}-{worker.number}-{n}" for n in range(pages)), mode="force")
    leases: list[Lease] = []
    while len(leases) < pages:  # the other workers have their share of the requests
        leases += worker.take(pages)
    worker.say(finished=[lease.name for lease in leases], pages=pages, in_hand=0, **told)


def report(worker: Client, counts: str, **told: Any) -> None:
    """Report what the worker has done, as it does once a second."""
    run = worker.say(in_hand=0, counts="requests=0").run
    worker.say(in_hand=0, counts=counts, run=run, **told)


def finish(worker: Client) -> None:
    worker.say(in_hand=0, finishing=True)
    worker.frontier.leave(finished=True, persist=False)


def kill(server: redis.Redis, keys: Keys, *workers: str) -> None:
    """Let the leases of *workers* end."""
    server.zadd(keys.workers, dict.fromkeys(workers, 1))


def test_a_worker_of_an_older_version_leaves_one_entry_for_ten_seconds(
    start: Start, view: Callable[[], View], server: redis.Redis, keys: Keys
) -> None:
    worker = start("one")
    crawl(worker, 2, scraped=2)
    second, pages, waiting, *_ = server.lindex(keys.pages, 0).split()
    server.lset(keys.pages, 0, b" ".join((second, pages, waiting)))
    crawl(worker, 1, scraped=1)
    (head, *earlier) = server.lrange(keys.pages, 0, -1)
    # The exchange may have begun the next ten seconds.
    assert head.split()[1:2] == ([b"1"] if earlier else [b"3"])
    assert read_status(view()).items == 1


def test_items_and_errors_of_earlier_tens_of_seconds_count(
    start: Start, view: Callable[[], View], server: redis.Redis, keys: Keys
) -> None:
    worker = start("one")
    crawl(worker, 2, scraped=5, errors=1)
    second, rest = server.lindex(keys.pages, 0).split(b" ", 1)
    server.lset(keys.pages, 0, b"%d %s" % (int(second) - 20, rest))
    crawl(worker, 1, scraped=3, errors=2)
    crawl(worker, 1, scraped=1)
    status = read_status(view())
    assert (status.items, status.errors) == (9, 3)


def test_a_finished_crawl_has_an_entry_with_the_figures_of_all_workers(
    start: Start, history: History
) -> None:
    one, two = start("one"), start("two")
    crawl(one, 3, scraped=5, errors=1)
    crawl(two, 2, scraped=1)
    report(one, "responses=3 bytes=300 200=2 404=1")
    report(two, "responses=2 bytes=200 200=2")
    for worker in (one, two):
        worker.say(in_hand=0, finishing=True)
    for worker in (one, two):
        worker.frontier.leave(finished=True, persist=False)
    (found,) = history()
    assert (found.state, found.pages, found.items, found.errors) == ("finished", 5, 6, 1)
    assert found.counts == {"x": 0, "responses": 5, "bytes": 500} or found.counts == {
        "responses": 5,
        "bytes": 500,
    }
    assert found.statuses == {"200": 4, "404": 1}
    assert [(worker.name, worker.how) for worker in found.workers] == [("one", "left"), ("two", "left")]
    assert (found.joined, found.lost) == (2, 0)
    assert sum(moment.pages for moment in found.history) == 5
    assert 0 < found.began <= found.ended


def test_the_record_of_a_finished_crawl_is_removed(start: Start, server: redis.Redis, keys: Keys) -> None:
    worker = start()
    crawl(worker, 1)
    report(worker, "responses=1", slot_counts={"a": (1, 10)})
    finish(worker)
    assert not server.exists(keys.counts, keys.slot_counts, keys.chart)
    assert 0 < server.ttl(keys.crawls) <= 90 * 86400


def test_a_crawl_that_lasts_longer_than_the_history_is_kept_keeps_its_number(
    start: Start, history: History, server: redis.Redis, keys: Keys
) -> None:
    for n in range(3):
        worker = start(f"before{n}")
        crawl(worker, 1)
        finish(worker)
    worker = start("one")
    crawl(worker, 1)
    server.delete(keys.crawls)  # as Redis does it when the time is over
    finish(worker)
    assert [one.run for one in history()] == [4]
    worker = start("after")
    crawl(worker, 1)
    finish(worker)
    assert [one.run for one in history()] == [5, 4]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_crawl_that_is_cleared_ended_with_its_last_workers(
    start: Start, history: History, view: Callable[[], View], goes_on: bool, server: redis.Redis, keys: Keys
) -> None:
    worker = start("one")
    crawl(worker, 1)
    worker.push("left over")
    worker.frontier.leave(finished=False, persist=False)
    (stopped,) = history()
    if goes_on:
        start("two").say()
        server.zrem(keys.workers, "two")  # killed, and found dead by another one
    clear(view(), force=True)
    (cleared,) = history()
    assert cleared.state == "cleared"
    assert (cleared.ended > stopped.ended) == goes_on


def test_counts_of_before_redis_lost_the_first_crawl_do_not_count(start: Start, server: redis.Redis) -> None:
    worker = start("one")
    crawl(worker, 3)
    run = worker.say(in_hand=0, counts="requests=0").run
    worker.say(in_hand=0, counts="responses=3", run=run)
    server.flushall()
    worker.say(in_hand=1)
    again = worker.say(in_hand=0, counts="responses=3", run=run).run
    assert again.partition(":")[0] == run.partition(":")[0] == "1"
    assert again != run


def test_a_worker_that_leaves_before_any_request_leaves_no_entry(start: Start, history: History) -> None:
    for n in range(2):
        start(f"{n}").frontier.leave(finished=False, persist=False)
    assert history() == []
    worker = start("one")
    crawl(worker, 1)
    finish(worker)
    assert [one.run for one in history()] == [1]


@pytest.mark.parametrize("name", ["counts", "crawls"])
def test_a_worker_leaves_though_another_program_has_written_to_the_record(
    start: Start, server: redis.Redis, keys: Keys, name: str
) -> None:
    worker = start("one")
    server.delete(getattr(keys, name))
    server.set(getattr(keys, name), "text")
    worker.frontier.leave(finished=False, persist=False)
    assert not server.exists(keys.workers)


def test_a_crawl_that_begins_without_a_history_has_no_entry_in_one_that_comes_later(
    start: Start, history: History, server: redis.Redis, keys: Keys
) -> None:
    worker = start("one", history=0)
    crawl(worker, 1)
    start("two", history=100)
    start("two").frontier.leave(finished=False, persist=False)
    finish(worker)
    assert history() == []
    assert not server.exists(keys.crawls)


def test_a_crawl_that_goes_on_after_a_stop_has_one_entry(start: Start, history: History) -> None:
    worker = start("one")
    crawl(worker, 2, scraped=2)
    worker.push("left over")
    worker.frontier.leave(finished=False, persist=False)
    assert [(one.run, one.state, one.pages) for one in history()] == [(1, "stopped", 2)]
    worker = start("two")
    (lease,) = worker.take(1)
    worker.say(finished=[lease.name], pages=1, scraped=1, in_hand=0)
    finish(worker)
    (found,) = history()
    assert (found.run, found.state, found.pages, found.items, found.joined) == (1, "finished", 3, 3, 2)


def test_a_stopped_crawl_takes_no_longer_as_time_goes_by(
    start: Start, server: redis.Redis, keys: Keys, history: History, view: Callable[[], View]
) -> None:
    worker = start("one")
    worker.push("left over")
    worker.frontier.leave(finished=False, persist=False)
    (stopped,) = history()
    ((found, _),) = crawl_page(view(), read_status(view()), 0, 9).crawls
    assert (found.state, found.ended) == ("stopped", stopped.ended)
    killed = start("two")
    killed.say(in_hand=0)
    kill(server, keys, "two")
    heard = int(server.hget(keys.worker("two"), "heard")) / 1000
    ((found, _),) = crawl_page(view(), read_status(view()), 0, 9).crawls
    assert (found.state, found.ended) == ("stopped", heard)


def test_a_crawl_of_dead_workers_has_one_entry(
    start: Start, server: redis.Redis, keys: Keys, history: History, view: Callable[[], View]
) -> None:
    worker = start("one")
    crawl(worker, 2)
    worker.push("in hand")
    worker.take(1)
    report(worker, "responses=2")
    kill(server, keys, "one")
    current = Crawls(view()).current("stopped")
    assert current is not None
    assert (current.state, current.pages, current.counts["responses"]) == ("stopped", 2, 2)
    worker = start("two")
    (lease,) = worker.take(1) or worker.take(1)
    worker.say(finished=[lease.name], pages=1, in_hand=0)
    finish(worker)
    (found,) = history()
    assert (found.run, found.state, found.pages, found.joined, found.lost) == (1, "finished", 3, 2, 1)
    assert [(one.name, one.how) for one in found.workers] == [("one", "lost"), ("two", "left")]


def test_a_crawl_has_its_entry_though_its_last_worker_dies_at_its_end(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    worker = start("one")
    crawl(worker, 2)
    worker.say(in_hand=0, finishing=True)
    kill(server, keys, "one")
    worker = start("two")
    crawl(worker, 1)
    finish(worker)
    assert [(one.run, one.state, one.pages) for one in history()] == [(2, "finished", 1), (1, "finished", 2)]


def test_a_killed_worker_that_no_other_one_found_dead_counts_as_lost(
    start: Start, server: redis.Redis, keys: Keys, history: History, view: Callable[[], View]
) -> None:
    crawl(start("one"), 2)
    worker = start("two")
    worker.frontier.leave(finished=False, persist=False)
    kill(server, keys, "one")
    clear(view(), force=True)
    (found,) = history()
    assert (found.state, found.lost) == ("cleared", 1)
    assert {one.name: one.how for one in found.workers} == {"one": "lost", "two": "left"}


@pytest.mark.parametrize("flushes", [False, True])
def test_a_cleared_crawl_has_its_entry(
    start: Start, server: redis.Redis, keys: Keys, history: History, view: Callable[[], View], flushes: bool
) -> None:
    worker = start("one")
    crawl(worker, 2)
    worker.push("never crawled")
    worker.frontier.leave(finished=False, persist=False)
    if flushes:
        start("two").frontier.open({"SCHEDULER_SERIALIZER": "json"}, flush=True)
        server.delete(keys.workers)
    clear(view(), force=True)
    worker = start("three")
    crawl(worker, 1)
    finish(worker)
    found = [(one.state, one.pages) for one in history()]
    assert found[0] == ("finished", 1)
    assert found[-1] == ("cleared", 2)


def test_the_history_is_removed_with_the_frontier_only_on_request(
    start: Start, server: redis.Redis, keys: Keys, view: Callable[[], View]
) -> None:
    start().frontier.leave(finished=False, persist=False)
    clear(view())
    assert server.exists(keys.crawls)
    clear(view(), with_history=True)
    assert not server.exists(keys.crawls)


def test_a_crawl_goes_on_in_a_new_entry_after_all_data_was_lost(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    worker = start()
    crawl(worker, 2)
    server.flushall()
    crawl(worker, 1)
    report(worker, "responses=3")
    finish(worker)
    (found,) = history()
    assert (found.run, found.state) == (1, "finished")
    assert not server.exists(keys.counts)


def test_a_worker_that_is_slow_counts_once(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    slow, other = start("slow"), start("other")
    crawl(slow, 2, scraped=2)
    report(slow, "responses=2")
    kill(server, keys, "slow")
    other.say(in_hand=0)
    report(slow, "responses=3")
    finish(other)
    finish(slow)
    found = history()[0]
    assert (found.counts["responses"], found.joined, found.lost) == (3, 2, 0)


def test_a_repeated_exchange_counts_once(start: Start, history: History) -> None:
    worker = start()
    crawl(worker, 1)
    told: dict[str, Any] = {"scraped": 4, "errors": 2, "slot_counts": {"a": (3, 30)}, "counts": "x=1"}
    worker.say(in_hand=0, **told)
    worker.repeat(in_hand=0, **told)
    finish(worker)
    (found,) = history()
    assert (found.items, found.errors, found.largest[0].responses) == (4, 2, 3)


def test_the_counts_of_an_earlier_crawl_do_not_count(start: Start, history: History) -> None:
    worker = start()
    worker.say(in_hand=0, counts="responses=7", run="99")
    finish(worker)
    assert history()[0].counts == {}


def test_a_request_that_is_set_aside_counts_by_its_reason(start: Start, history: History) -> None:
    worker = start()
    worker.push("one", "two")
    one, two = worker.take(2)
    failed = [Failed(one.name, 0, "no route: a.test"), Failed(two.name, 0, "no route: b.test")]
    worker.say(failed=failed, pages=2, in_hand=0)
    finish(worker)
    (found,) = history()
    assert (found.set_aside, found.failed) == ({"no route": 2}, 2)


def test_the_begun_requests_of_dead_workers_count(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    worker = start("one")
    worker.push("begun", "not begun")
    leases = worker.take(2)
    worker.say(begun=leases[0].name, in_hand=2)
    kill(server, keys, "one")
    other = start("two")
    other.say(in_hand=0)
    leases = other.take(2)
    other.say(finished=[lease.name for lease in leases], in_hand=0)
    finish(other)
    assert history()[0].returned == 1


def test_the_slots_are_by_their_responses_and_by_their_time(start: Start, history: History) -> None:
    worker = start()
    worker.say(in_hand=0, slot_counts={"large": (100, 1000), "slow": (3, 9000), "one page": (1, 9000)})
    worker.say(in_hand=0, slot_counts={"large": (50, 500)})
    finish(worker)
    (found,) = history()
    assert found.slots == 3
    assert [slot.slot for slot in found.largest] == ["large", "slow", "one page"]
    assert (found.largest[0].responses, found.largest[0].seconds) == (150, 0.01)
    assert [slot.slot for slot in found.slowest] == ["slow", "large"]


def test_the_slots_are_bounded(start: Start, server: redis.Redis, keys: Keys) -> None:
    worker = start()
    for first in range(0, 1500, 500):
        worker.say(in_hand=0, slot_counts={f"{first + n}": (1, 1) for n in range(500)})
    assert server.hlen(keys.slot_counts) == 1000


def test_the_history_is_bounded_in_number(start: Start, history: History) -> None:
    for n in range(5):
        worker = start(f"w{n}", history=3)
        crawl(worker, 1)
        finish(worker)
    assert [one.run for one in history()] == [5, 4, 3]


def test_the_history_is_bounded_in_age(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    for run in range(1, 4):
        worker = start(f"w{run}")
        crawl(worker, 1)
        finish(worker)
        if run == 1:
            entry = json.loads(server.hget(keys.crawls, "1"))
            server.hset(keys.crawls, "1", json.dumps({**entry, "ended": 1}, separators=(",", ":")))
    assert [one.run for one in history()] == [3, 2]


def test_no_history_is_kept_if_the_setting_is_0(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    worker = start(history=0)
    crawl(worker, 1)
    report(worker, "responses=1")
    assert server.hget(keys.counts, "done w") == b"responses=1"
    finish(worker)
    assert history() == []
    assert not server.exists(keys.crawls, keys.counts)


def test_a_figure_that_differs_from_the_crawl_before_is_an_event(
    start: Start, view: Callable[[], View]
) -> None:
    for items in (10, 8, 3):
        worker = start(f"w{items}")
        crawl(worker, 1, scraped=items)
        finish(worker)
    events = [event for event in read_events(view()) if event.type == "crawl_differs"]
    assert [event.details for event in events] == [
        {"figure": "items", "now": 3, "before": 8, "percent": -62, "run": 3}
    ]


def test_no_figure_is_an_event_if_the_setting_is_0(start: Start, view: Callable[[], View]) -> None:
    for items in (10, 1):
        worker = start(f"w{items}", history_alert=0.0)
        crawl(worker, 1, scraped=items)
        finish(worker)
    assert not [event for event in read_events(view()) if event.type == "crawl_differs"]


def test_a_long_crawl_has_a_chart_of_the_whole(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    worker = start()
    second = int(server.time()[0]) // 10 * 10 - 100_000
    for n in range(500):
        server.lpush(keys.pages, f"{second + 10 * n} 2 7 1 0 0")
        crawl(worker, 1)
        server.ltrim(keys.pages, 1, -1)
    finish(worker)
    (found,) = history()
    assert 40 <= len(found.history) <= 122
    assert found.width == 80
    assert sum(moment.pages for moment in found.history) >= 1000
    assert sum(moment.items for moment in found.history) >= 500


def test_many_workers_are_folded_into_one_sum(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    worker = start("first")
    for n in range(1200):
        server.hset(
            keys.counts,
            mapping={f"joined w{n}": "1 {}", f"left w{n}": "2", f"done w{n}": "responses=1 200=1"},
        )
    worker = start("last")
    assert server.hlen(keys.counts) < 20
    finish(worker)
    start("first").frontier.leave(finished=False, persist=False)
    found = history()[-1]
    assert (found.counts["responses"], found.statuses["200"]) == (1200, 1200)
    assert found.joined >= 1201


@pytest.mark.parametrize("name", ["counts", "slot_counts", "chart", "crawls", "outcomes"])
def test_a_record_of_a_wrong_type_does_not_stop_a_crawl(
    start: Start, server: redis.Redis, keys: Keys, name: str
) -> None:
    worker = start()
    server.delete(getattr(keys, name))
    server.sadd(getattr(keys, name), "mine")
    crawl(worker, 1, scraped=1)
    outcomes = Outcome(url_digest("http://a.test/"), b"abc", 1, 200).to_wire()
    worker.say(in_hand=0, counts="x=1", slot_counts={"a": (1, 1)}, outcomes=outcomes)
    start("two").frontier.leave(finished=False, persist=False)
    finish(worker)
    assert server.smembers(getattr(keys, name)) == {b"mine"} or name in ("counts", "slot_counts", "chart")


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", '{"run": "x", "workers": 5, "done": []}', "\xff"])
def test_garbage_in_the_history_is_no_error(
    start: Start, server: redis.Redis, keys: Keys, history: History, text: str
) -> None:
    worker = start()
    crawl(worker, 1)
    finish(worker)
    server.hset(keys.crawls, mapping={"1": text, "1 chart": text})
    history()
    worker = start("another")
    crawl(worker, 1)
    finish(worker)
    assert history()[0].pages == 1


def outcomes_of(*urls: str, code: int = 200, time: int = 1) -> bytes:
    return b"".join(Outcome(url_digest(url), b"abc", time, code).to_wire() for url in urls)


def test_the_latest_outcomes_are_kept(start: Start, server: redis.Redis, keys: Keys) -> None:
    worker = start(outcomes=10)
    for n in range(0, 24, 4):
        worker.say(in_hand=0, outcomes=outcomes_of(*(f"http://a.test/{m}" for m in range(n, n + 4)), time=n))
    ring = server.get(keys.outcomes)
    assert len(ring) == 11 * SIZE
    assert (written(ring), len(times(ring))) == (24, 10)
    kept = [n for n in range(24) if list(find(ring, f"http://a.test/{n}"))]
    assert kept == list(range(14, 24))
    assert 0 < server.ttl(keys.outcomes) <= 30 * 86400


def test_more_outcomes_than_are_kept_leave_the_latest(start: Start, server: redis.Redis, keys: Keys) -> None:
    worker = start(outcomes=10)
    worker.say(in_hand=0, outcomes=outcomes_of(*(f"http://a.test/{n}" for n in range(37))))
    ring = server.get(keys.outcomes)
    assert [n for n in range(37) if list(find(ring, f"http://a.test/{n}"))] == list(range(27, 37))


def test_an_outcome_is_read_as_it_was_written(start: Start, server: redis.Redis, keys: Keys) -> None:
    worker = start()
    made = Outcome(url_digest("http://a.test/"), b"\xff" * 3, 2**31, Ending.ROBOTS, True, True)
    worker.say(in_hand=0, outcomes=made.to_wire())
    assert list(find(server.get(keys.outcomes), "http://a.test/")) == [made]


def test_a_finished_crawl_is_found_by_its_history(start: Start, redis_url: str, server: redis.Redis) -> None:
    worker = start()
    crawl(worker, 1)
    finish(worker)
    (found,) = find_frontiers(Settings({"REDIS_URL": redis_url}), server)
    assert found.spider == "s"
    assert Crawls(found).numbers() == [1]


@pytest.mark.parametrize(
    ("key", "push"),
    [
        ("other:start_urls", lambda server: server.lpush("other:start_urls", "http://a.test/")),
        ("other:failed", lambda server: server.rpush("other:failed", '{"id":"a","reason":"no"}')),
    ],
)
def test_a_spider_is_found_by_its_lasting_keys(
    server: redis.Redis, redis_url: str, key: str, push: Callable[[redis.Redis], Any]
) -> None:
    push(server)
    (found,) = find_frontiers(Settings({"REDIS_URL": redis_url}), server)
    assert (found.spider, found.exists) == ("other", False)


@pytest.mark.parametrize("key", ["a:failed", "a:start_urls", "a:meta:crawls", "a:meta", ":failed"])
def test_a_key_of_another_program_is_no_frontier(server: redis.Redis, redis_url: str, key: str) -> None:
    server.set(key, "mine")
    assert list(find_frontiers(Settings({"REDIS_URL": redis_url}), server)) == []


@pytest.mark.parametrize(
    "text", ["x", "-5", "1e300", "9" * 20, "responses=" + "9" * 400, "9" * 400 + " 1", ""]
)
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("crawls", "last"),
        ("crawls", "oldest"),
        ("counts", "run"),
        ("counts", "began"),
        ("counts", "width"),
        ("counts", "returned"),
        ("counts", "aside bad"),
        ("counts", "folded"),
        ("counts", "joined w"),
        ("counts", "done w"),
        ("slot_counts", "a"),
        ("meta", "history"),
        ("meta", "began"),
    ],
)
def test_garbage_in_a_record_does_not_stop_a_crawl(
    start: Start, server: redis.Redis, keys: Keys, history: History, name: str, field: str, text: str
) -> None:
    worker = start()
    server.hset(getattr(keys, name), field, text)
    worker.push("one", "two")
    one, two = worker.take(2)
    failed = [Failed(one.name, 0, "bad")]
    worker.say(failed=failed, finished=[two.name], pages=2, scraped=1, errors=1, in_hand=0)
    report(worker, "responses=2", slot_counts={"a": (1, 1)})
    start("x").frontier.leave(finished=False, persist=False)
    finish(worker)
    start("another").frontier.leave(finished=False, persist=False)
    assert server.exists(keys.crawls) <= 1


@pytest.mark.parametrize(
    ("points", "latest"),
    [
        (["x"], "1 1 1"),
        (["1 1 1 1 1"] * 20_000, "5 1 1 1 1"),
        ([], "3 1 1 1 1"),
        ([], "9" * 17 + " 1 1 1 1"),
        ([], ""),
    ],
    ids=["text", "many points", "second", "late", "empty"],
)
def test_garbage_in_a_chart_does_not_stop_a_crawl(
    start: Start, server: redis.Redis, keys: Keys, history: History, points: list[str], latest: str
) -> None:
    worker = start()
    for first in range(0, len(points), 5000):
        server.rpush(keys.chart, *points[first : first + 5000])
    server.lpush(keys.pages, latest)
    crawl(worker, 1)
    finish(worker)
    assert history()[0].pages == 1


def test_a_history_of_any_age_can_be_cleared(
    start: Start, server: redis.Redis, keys: Keys, view: Callable[[], View]
) -> None:
    worker = start()
    server.hset(keys.meta, "history", "100 " + "9" * 20 + " 0.3")
    worker.frontier.leave(finished=False, persist=False)
    clear(view())
    assert not server.exists(keys.counts)


def test_a_point_that_is_not_text_is_passed_over(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    worker = start()
    crawl(worker, 1)
    finish(worker)
    server.hset(keys.crawls, "1 chart", '{"width": 10, "points": ["\\ud800", "10 1 1 1 1"]}')
    server.hset(keys.crawls, "9" * 5000, "x")
    assert [moment.pages for moment in history()[0].history] == [1]


def test_a_worker_that_is_back_after_the_end_begins_no_record(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    late, worker = start("late"), start("worker")
    crawl(worker, 1)
    kill(server, keys, "late")
    worker.say(in_hand=0)
    worker.say(in_hand=0, finishing=True)
    worker.frontier.leave(finished=True, persist=True)
    late.say(in_hand=0, counts="responses=1")
    assert [(one.run, one.state) for one in history()] == [(1, "finished")]
    assert not server.exists(keys.counts)


def test_a_report_after_a_recorded_end_begins_no_record(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    one, two = start("one"), start("two")
    server.hdel(keys.worker("two"), "records_end")  # a worker of an older version
    crawl(one, 1)
    one.say(in_hand=0, finishing=True)
    two.say(in_hand=0, counts="responses=1")
    finish(two)
    finish(one)
    assert [(found.run, found.state) for found in history()] == [(1, "finished")]


def test_a_finished_crawl_that_is_cleared_stays_finished(
    start: Start, server: redis.Redis, keys: Keys, history: History, view: Callable[[], View]
) -> None:
    worker = start("one")
    crawl(worker, 2)
    worker.say(in_hand=0, finishing=True)
    kill(server, keys, "one")
    clear(view())
    assert [(one.state, one.pages) for one in history()] == [("finished", 2)]


def test_a_stopped_crawl_that_is_cleared_later_ended_when_it_was_stopped(
    start: Start, server: redis.Redis, keys: Keys, history: History, view: Callable[[], View]
) -> None:
    worker = start("one")
    worker.push("left over")
    worker.frontier.leave(finished=False, persist=False)
    (stopped,) = history()
    clear(view())
    assert [(one.state, one.ended) for one in history()] == [("cleared", stopped.ended)]


def test_a_crawl_that_an_older_version_has_begun_has_the_workers_that_join(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    old = start("old")
    server.delete(keys.counts)
    start("new")
    report(old, "responses=1")
    old.frontier.leave(finished=False, persist=False)
    finish(start("last"))
    assert {worker.name for worker in history()[0].workers} == {"new", "last", "old"}


def test_the_reason_of_an_earlier_stop_is_not_that_of_a_later_one(
    start: Start, server: redis.Redis, keys: Keys, history: History
) -> None:
    worker = start("one")
    worker.push("left over")
    server.hset(keys.meta, mapping={"stop": 8 * 10**15, "stop_reason": "closespider_pagecount"})
    worker.frontier.leave(finished=False, persist=False)
    assert history()[0].reason == "closespider_pagecount"
    server.hset(keys.meta, "stop", 1)
    start("two").frontier.leave(finished=False, persist=False)
    assert history()[0].reason == ""
