"""A frontier that is exported, while a crawl runs or not, and imported."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.failed_request import FailedRequest
from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.errors import FrontierError, FrontierMismatchError, InspectionError
from scrapy_rq_sched.failed import FailedRequests
from scrapy_rq_sched.frontier.messages import FORMAT, Failed, Push
from scrapy_rq_sched.inspect import (
    ArchiveReader,
    Export,
    Import,
    View,
    export,
    read_status,
    restore,
    steps,
    verify,
)
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.queue import PriorityQueue

from ..support.client import Client, Join, compact_members
from ..support.crawl import PROJECT, Fleet, wait_until
from .test_crawl import pages

QUEUES = {"priority": "PriorityQueue", "fifo": "FifoQueue", "lifo": "LifoQueue"}
each_filter = pytest.mark.parametrize("kind", ["exact", "compact"])


def a_worker(
    server: redis.Redis,
    discipline: str,
    kind: str = "exact",
    name: str = "a",
    deaths: int = 5,
    **bounds: Any,
) -> Client:
    """Return a worker that has joined."""
    worker = Client(server, name, discipline, 30.0, deaths, kind, **bounds)
    queue_class = f"scrapy_rq_sched.queue.{QUEUES[discipline]}"
    worker.frontier.open({"SCHEDULER_SERIALIZER": "json", "SCHEDULER_QUEUE_CLASS": queue_class})
    return worker


def a_view(redis_url: str, spider: str = "s") -> View:
    return View.from_settings(Settings({"REDIS_URL": redis_url}), spider)


def exported(redis_url: str) -> bytes:
    return b"".join(Export(a_view(redis_url)).lines())


def imported(redis_url: str, data: bytes, spider: str = "s") -> None:
    for _ in Import(a_view(redis_url, spider), ArchiveReader(io.BytesIO(data))).steps():
        pass


def contents(server: redis.Redis, spider: str = "s") -> dict[str, Any]:
    """Return all that a frontier is, whatever its buckets are called."""
    keys = Keys(spider, hash_tag=needs_hash_tag(server))
    read: dict[bytes, Callable[[str], Any]] = {
        b"list": lambda key: server.lrange(key, 0, -1),
        b"zset": lambda key: server.zrange(key, 0, -1, withscores=True),
        b"set": server.smembers,
        b"hash": server.hgetall,
        b"string": server.get,
        b"none": lambda key: None,
    }
    names = ("requests", "dupefilter", "started", "delayed", "history", "failed")
    found = {name: read[server.type(key)](key) for name in names for key in [getattr(keys, name)]}
    found["compact"] = sorted(compact_members(server, keys.dupefilter))
    found["seeds"] = [read[server.type(key)](key) for key in keys.start_urls]
    found["counter"] = server.get(f"{keys.requests}:count")
    own = (b"epoch", b"spider", b"requests_key", b"dupefilter_key", b"start_urls_keys", b"imported")
    own += (
        b"in_slots",
        b"in_slots_estimated",
        b"clock",
        b"clock_ahead",
        b"rules",
        b"slot_default",
        b"slot_states",
        b"run_since",
    )
    own += (b"began", b"going_since")
    found["meta"] = {k: v for k, v in server.hgetall(keys.meta).items() if k not in own}
    return found


#: When nothing is due that a test has set back.
FAR_FUTURE = 4e12


def filled(server: redis.Redis, discipline: str, kind: str = "exact", count: int = 700) -> Client:
    """Fill a frontier with something of everything, and return the worker that did it."""
    worker, rng = a_worker(server, discipline, kind), random.Random(count)
    # What one worker alone refuses is set aside.
    other = a_worker(server, discipline, kind, "other")
    for start in range(0, count, 100):
        worker.say(
            pushes=[
                Push(
                    "start+filter" if n % 7 == 0 else "filter", f"fp-{n}", rng.choice([0, 0, 5]), a_payload(n)
                )
                for n in range(start, start + 100)
            ]
        )
    first, second, *rest = worker.take(12)
    worker.say(
        refused=[(first.name, "unknown"), (second.name, "unknown")],
        failed=[Failed(lease.name, 0, f"no {lease.name}") for lease in rest[:8]],
        given_back=[lease.name for lease in rest[8:]],
        pages=3,
    )
    other.frontier.leave(finished=False, persist=True)
    # No test is to take what is set back for another.
    delayed = worker.frontier.keys.delayed
    server.zadd(delayed, dict.fromkeys(server.zrange(delayed, 0, -1), FAR_FUTURE), xx=True)
    return worker


def a_payload(number: int) -> bytes:
    # Every byte, what looks like text and is none, and line ends.
    odd = [bytes(range(256)), 'é\u2028\n\r"\\'.encode(), b"\xed\xa0\x80", b"\xff\xfe", b"{}", b""]
    return b"%d " % number + odd[number % len(odd)]


def dies(server: redis.Redis, worker: Client) -> None:
    server.zadd(worker.frontier.keys.workers, {worker.name: 1})


# -- a frontier at rest --------------------------------------------------------------------------


@each_filter
def test_an_import_restores_the_exported_frontier(
    server: redis.Redis, redis_url: str, discipline: str, kind: str
) -> None:
    worker = filled(server, discipline, kind)
    worker.frontier.leave(finished=False, persist=True)
    before = contents(server)
    assert all(before[name] for name in ("failed", "delayed", "history", "started"))
    data = exported(redis_url)
    assert contents(server) == before
    server.flushall()
    imported(redis_url, data)
    after = contents(server)
    for name, value in before.items():
        assert after[name] == value, name


@each_filter
def test_workers_go_on_with_an_imported_frontier(
    server: redis.Redis, redis_url: str, discipline: str, kind: str
) -> None:
    filled(server, discipline, kind).frontier.leave(finished=False, persist=True)
    data = exported(redis_url)
    expected = [lease.payload for lease in a_worker(server, discipline, kind, "b").take(100)]
    server.flushall()
    imported(redis_url, data)
    worker = a_worker(server, discipline, kind, "c")
    assert list(worker.push("0", "1", "700").duplicates) == [0, 1]
    if discipline != "lifo":  # there what was pushed last comes first
        assert [lease.payload for lease in worker.take(100)] == expected


@pytest.mark.parametrize("push", ["rpush", "sadd", "zadd"])
def test_seeds_of_each_type_are_imported_and_waiting_seeds_stay(
    server: redis.Redis, redis_url: str, push: str
) -> None:
    worker = a_worker(server, "priority")
    key = worker.frontier.keys.start_urls[0]
    seeds = [b"http://example.com/%d\xff" % n for n in range(300)]
    values = [{seed: n / 3 for n, seed in enumerate(seeds)}] if push == "zadd" else seeds
    getattr(server, push)(key, *values)
    before = contents(server)["seeds"]
    data = exported(redis_url)
    server.flushall()
    imported(redis_url, data)
    assert contents(server)["seeds"] == before
    server.flushall()
    server.rpush(key, b"already there")
    imported(redis_url, data)
    (found,) = contents(server)["seeds"]
    assert len(found) == 301
    assert found[-1] == b"already there"
    if push == "rpush":
        assert found[:-1] == seeds


@each_filter
def test_the_leases_of_a_dead_worker_are_imported_to_their_places(
    server: redis.Redis, redis_url: str, discipline: str, kind: str
) -> None:
    worker = filled(server, discipline, kind)
    before = contents(server)
    assert len(worker.take(150)) == 150
    dies(server, worker)
    data = exported(redis_url)
    server.flushall()
    imported(redis_url, data)
    after = contents(server)
    assert {**after, "meta": 0} == {**before, "meta": 0}


def test_scores_are_imported_exactly(server: redis.Redis, redis_url: str) -> None:
    worker = a_worker(server, "priority")
    scores = [0.1, -1 / 3, 1e300, float("inf"), float("-inf"), 5e-324, 2.0**53, -0.9999998833518475]
    server.zadd(worker.frontier.keys.requests, {f"r{n}": score for n, score in enumerate(scores)})
    before = contents(server)
    data = exported(redis_url)
    server.flushall()
    imported(redis_url, data)
    assert contents(server) == before


def test_an_exact_filter_that_is_half_converted_is_imported_so(server: redis.Redis, redis_url: str) -> None:
    worker = filled(server, "priority", "exact", 2000)
    worker.frontier.leave(finished=False, persist=True)
    compact = a_worker(server, "priority", "compact", "b")
    compact.say()
    compact.frontier.leave(finished=False, persist=True)
    before = contents(server)
    assert all(before[name] for name in ("dupefilter", "compact"))
    data = exported(redis_url)
    server.flushall()
    imported(redis_url, data)
    assert contents(server) == before


def test_a_compact_filter_is_imported_into_buckets_that_redis_keeps_small(
    server: redis.Redis, redis_url: str
) -> None:
    filled(server, "priority", "compact", 20_000)
    data = exported(redis_url)
    server.flushall()
    imported(redis_url, data)
    keys = a_view(redis_url).keys
    sizes = [
        server.scard(name)
        for name in server.scan_iter(f"{keys.dupefilter}:*")
        if server.type(name) == b"set" and b"frontiers" not in name
    ]
    assert sum(sizes) == 20_000
    assert max(sizes) < 512


def test_it_may_be_imported_for_a_spider_of_another_name(server: redis.Redis, redis_url: str) -> None:
    filled(server, "fifo")
    before = contents(server)
    imported(redis_url, exported(redis_url), "other")
    assert contents(server, "other") == before
    view = a_view(redis_url, "other")
    assert view.meta["spider"] == "other"
    assert view.meta["requests_key"] == view.keys.requests
    assert server.smembers(f"{view.keys.dupefilter}:frontiers") == {view.keys.prefix.encode()}


def test_the_number_of_pages_and_the_settings_of_the_frontier_are_imported(
    server: redis.Redis, redis_url: str
) -> None:
    filled(server, "lifo")
    epoch = a_view(redis_url).meta["epoch"]
    data = exported(redis_url)
    server.flushall()
    imported(redis_url, data)
    meta = a_view(redis_url).meta
    assert (meta["pages"], meta["SCHEDULER_QUEUE_CLASS"]) == ("3", "scrapy_rq_sched.queue.LifoQueue")
    assert meta["epoch"] != epoch


def test_a_finish_before_the_import_does_not_have_the_crawl_begin_anew(
    server: redis.Redis, redis_url: str
) -> None:
    filled(server, "priority")
    data = exported(redis_url)
    server.flushall()
    server.set(a_view(redis_url).keys.finished, 1)
    imported(redis_url, data)
    before = contents(server)
    a_worker(server, "priority", "exact", "b").frontier.leave(finished=False, persist=True)
    assert contents(server) == before


# -- while a crawl runs --------------------------------------------------------------------------

SITE = 160


def links(number: int) -> list[int]:
    """Return the pages that a page links to: three that only it has, and two of any."""
    known = random.Random(number).choices(range(SITE), k=2)
    return [n for n in (3 * number + 1, 3 * number + 2, 3 * number + 3) if n < SITE] + known


class Crawl:
    """Workers that do at random what workers do."""

    def __init__(self, server: redis.Redis, discipline: str, kind: str, seed: int) -> None:
        self.server, self.discipline, self.kind = server, discipline, kind
        self.rng = random.Random(seed)
        self.joined = 0
        self.done: set[int] = set()
        self.workers = [self._join(), self._join()]
        self.keys = self.workers[0][0].frontier.keys
        self._push(self.workers[0][0], [0])
        server.rpush(self.keys.start_urls[0], *map(str, range(100, 140)))

    def act(self) -> None:
        place = self.rng.randrange(2)
        worker, held = self.workers[place]
        what = self.rng.choices(
            ["take", "seeds", "finish", "give back", "refuse", "fail", "die", "due"],
            [6, 3, 10, 2, 1, 0.3, 0.3, 1],
        )[0]
        lease = self.rng.choice(list(held)) if held else None
        if what == "take":
            self._hold(held, worker.say(want=self.rng.randint(1, 5)).leases)
        elif what == "seeds":
            self._hold(held, worker.say(want_seeds=self.rng.randint(1, 3)).leases)
        elif what == "due":
            for entry in self.server.zrange(self.keys.delayed, 0, -1):
                self.server.zadd(self.keys.delayed, {entry: 1})
        elif what == "die":
            dies(self.server, worker)
            self.workers[place] = self._join()
        elif lease is not None:
            page = held.pop(lease)
            if what == "finish":
                self._push(worker, links(page), finished=[lease])
                self.done.add(page)
            elif what == "give back":
                worker.say(given_back=[lease])
            elif what == "refuse":
                worker.say(refused=[(lease, "unknown")])
            else:
                worker.say(failed=[Failed(lease, 0, "it raised")])

    def finish(self, worker: Client) -> None:
        """Have one worker crawl all that is left."""
        FailedRequests(self.server, self.keys, self.discipline).requeue()
        idle = 0
        while idle < 3:
            for entry in self.server.zrange(self.keys.delayed, 0, -1):
                self.server.zadd(self.keys.delayed, {entry: 1})
            leases = worker.say(want=20, want_seeds=20).leases
            idle = 0 if leases else idle + 1
            for lease in leases:
                page = int(lease.payload)
                self._push(worker, links(page), finished=[lease.name])
                self.done.add(page)

    def _join(self) -> tuple[Client, dict[str, int]]:
        self.joined += 1
        name = f"w{self.joined}"
        return a_worker(self.server, self.discipline, self.kind, name, deaths=2), {}

    def _push(self, worker: Client, numbers: list[int], **said: Any) -> None:
        pushes = [Push("filter", f"fp-{n}", n % 3, b"%d" % n) for n in numbers]
        worker.say(pushes=pushes, **said)

    @staticmethod
    def _hold(held: dict[str, int], leases: list[Any]) -> None:
        held.update({lease.name: int(lease.payload) for lease in leases})


@pytest.fixture
def small_steps(server: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have an export make many steps of a small frontier."""
    for name, value in (("FIRST", 2), ("MOST", 3), ("MOST_OF_LIST", 3)):
        monkeypatch.setattr(steps, name, value)
    monkeypatch.setattr(export, "FIRST", 2)
    monkeypatch.setattr(export, "BUCKETS", 1)
    options = {"zset-max-ziplist-entries": 128, "hash-max-ziplist-entries": 512}
    for option in options:
        server.config_set(option, 1)
    server.config_set("set-max-intset-entries", 16)
    yield
    for option, value in options.items():
        server.config_set(option, value)


@each_filter
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("small_steps")
def test_no_page_is_missing_after_an_export_with_workers_at_work_between_its_steps(
    server: redis.Redis, redis_url: str, discipline: str, kind: str, seed: int
) -> None:
    crawl = Crawl(server, discipline, kind, seed)
    for _ in range(20 * (seed + 1)):
        crawl.act()
    view = a_view(redis_url)
    command = view.server.execute_command

    def meanwhile(*said: Any, **options: Any) -> Any:
        for _ in range(crawl.rng.choice([0, 0, 1, 1, 2, 4])):
            crawl.act()
        return command(*said, **options)

    exporting = Export(view)
    view.server.execute_command = meanwhile
    data = b"".join(exporting.lines())
    done = set(crawl.done)
    server.flushall()
    imported(redis_url, data)
    crawl.finish(a_worker(server, discipline, kind, "last"))
    assert crawl.done | done == set(range(SITE))


def unfinished(data: bytes) -> set[bytes]:
    """Return what is to be crawled after an import of *data*."""
    found: set[bytes] = set()
    for kind, values in ArchiveReader(io.BytesIO(data)):
        if kind == "waiting":
            found.update(values[1::2])
        elif kind in ("seeds", "leased", "noted"):
            found.update(value.split(b" ", 3)[3] for value in values)
        elif kind == "delayed":
            found.update(value.split(b" ", 3)[3] for value in values[1::2])
        elif kind == "failed":
            found.update(FailedRequest.parse(value).data for value in values)
    return found


class Meddler:
    """A worker that takes something before one command of an export, and does something before another.

    :param at: before which command it takes, and :param later: before which it does *then*.
    """

    def __init__(self, server: redis.Redis, discipline: str, at: int, later: int, then: str) -> None:
        self.server, self.at, self.later, self.then = server, at, later, then
        self.commands = 0
        self.worker, self.other = (a_worker(server, discipline, name=name, deaths=1) for name in "ab")
        self.worker.say(pushes=[Push("force", "", n % 3, b"request %d" % n) for n in range(24)])
        key, seeds = self.worker.frontier.keys.start_urls[0], [b"seed %d" % n for n in range(12)]
        if discipline == "priority":
            server.zadd(key, dict.fromkeys(seeds, 1))
        elif discipline == "fifo":
            server.rpush(key, *seeds)
        else:
            server.sadd(key, *seeds)
        self.held = [lease.name for lease in self.worker.say(want=4, want_seeds=2).leases]

    def meddle(self) -> None:
        self.commands += 1
        if self.commands == self.at:
            self.held += [lease.name for lease in self.worker.say(want=6, want_seeds=4).leases]
        elif self.commands == self.later and self.then == "give back":
            self.worker.say(given_back=self.held)
        elif self.commands == self.later and self.then == "refuse":
            self.worker.say(refused=[(lease, "unknown") for lease in self.held])
        elif self.commands == self.later and self.then == "fail":
            self.worker.say(failed=[Failed(lease, 0, "it raised") for lease in self.held])
        elif self.commands == self.later and self.then == "die":
            dies(self.server, self.worker)
            self.other.say()

    def lines(self, redis_url: str) -> Iterator[bytes]:
        """Export meanwhile."""
        view = a_view(redis_url)
        command, lines = view.server.execute_command, Export(view).lines()

        def hooked(*said: Any, **options: Any) -> Any:
            self.meddle()
            return command(*said, **options)

        view.server.execute_command = hooked
        yield from lines


@pytest.mark.parametrize("then", ["keep", "give back", "refuse", "fail", "die"])
@pytest.mark.usefixtures("small_steps")
def test_requests_leased_at_any_step_of_an_export_are_in_the_export(
    server: redis.Redis, redis_url: str, discipline: str, then: str
) -> None:
    everything = {b"request %d" % n for n in range(24)} | {b"seed %d" % n for n in range(12)}
    rng, at, commands = random.Random(then), 0, 1
    while at < commands:
        at += 1
        server.flushall()
        meddler = Meddler(server, discipline, at, at + rng.randint(1, 12), then)
        assert everything <= unfinished(b"".join(meddler.lines(redis_url))), (at, meddler.later)
        commands = meddler.commands
    assert at > 20


@pytest.mark.parametrize(
    ("queue", "kind"),
    [
        pytest.param("PriorityQueue", "exact", marks=pytest.mark.long),
        ("FifoQueue", "compact"),
        pytest.param("LifoQueue", "exact", marks=pytest.mark.long),
    ],
)
def test_a_crawl_that_was_exported_while_it_ran_is_gone_on_with(
    fleet: Fleet, server: redis.Redis, redis_url: str, queue: str, kind: str
) -> None:
    settings = {
        "GRAPH_PAGES": 700,
        "GRAPH_LATENCY": 0.1,
        "SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.{queue}",
        **({"DUPEFILTER_CLASS": "scrapy_rq_sched.CompactDupeFilter"} if kind == "compact" else {}),
    }
    fleet.start("graph", 2, **settings)
    wait_until(lambda: len(fleet.events("parsed")) > 150)
    steps = Export(a_view(redis_url, "graph")).lines()
    lines = []
    for line in steps:
        lines.append(line)
        # So that pages are done between any two steps.
        done = len(fleet.events("parsed"))
        wait_until(lambda done=done: len(fleet.events("parsed")) > done)  # type: ignore[misc]
    crawled = set(fleet.urls("parsed"))
    assert len(crawled) < 700
    for worker in range(2):
        fleet.kill(worker)
    fleet.wait()
    server.flushall()
    imported(redis_url, b"".join(lines), "graph")
    before = len(fleet.events("parsed"))
    fleet.start("graph", 2, **settings)
    fleet.wait()
    after = {event.what for event in fleet.events("parsed")[before:]}
    assert crawled | after == pages(700)
    # It went on: it did not begin anew.
    assert len(after) < 650


def test_a_full_queue_drops_no_requests_during_an_export(server: redis.Redis, redis_url: str) -> None:
    worker = a_worker(server, "fifo", max_waiting=5, policy="drop-lowest")
    steps = Export(a_view(redis_url)).lines()
    kinds = [json.loads(next(steps))[0]]
    worker.push("seen")
    while server.hget(worker.frontier.keys.meta, "exporting") is None:
        kinds.append(json.loads(next(steps))[0])
    worker.push(*map(str, range(9)))
    assert server.llen(worker.frontier.keys.requests) == 10
    steps.close()
    worker.say()
    assert server.llen(worker.frontier.keys.requests) == 5


def test_a_second_export_is_refused_while_one_is_under_way(server: redis.Redis, redis_url: str) -> None:
    filled(server, "priority")
    first = Export(a_view(redis_url)).lines()
    while json.loads(next(first))[0] != "waiting":
        pass
    with pytest.raises(InspectionError, match="Another export of spider 's' is under way"):
        exported(redis_url)
    assert json.loads(list(first)[-1])[0] == "end"
    assert exported(redis_url)


def test_an_export_that_breaks_off_leaves_nothing(server: redis.Redis, redis_url: str) -> None:
    worker = filled(server, "priority")
    steps = Export(a_view(redis_url)).lines()
    while json.loads(next(steps))[0] != "waiting":
        pass
    worker.say(given_back=[lease.name for lease in worker.take(3)])
    keys = worker.frontier.keys
    assert server.llen(keys.exported) == 3 * 2
    steps.close()
    assert not server.exists(keys.exported)
    assert not server.hexists(keys.meta, "exporting")


def test_an_export_goes_on_being_noted_for_when_it_takes_long(
    server: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "RENEWED_AFTER", 0)
    worker = filled(server, "priority")
    steps = Export(a_view(redis_url)).lines()
    while json.loads(next(steps))[0] != "waiting":
        pass
    first = float(server.hget(worker.frontier.keys.meta, "exporting"))
    wait_until(lambda: server.time()[1] // 1000 % 10 != int(first) % 10)
    next(steps)
    next(steps)
    assert float(server.hget(worker.frontier.keys.meta, "exporting")) > first


@pytest.mark.parametrize("how", ["cleared", "lapsed"])
def test_an_export_of_a_cleared_frontier_or_after_a_delay_is_refused(
    server: redis.Redis, redis_url: str, how: str
) -> None:
    worker = filled(server, "priority")
    steps = Export(a_view(redis_url)).lines()
    while json.loads(next(steps))[0] != "waiting":
        pass
    if how == "cleared":
        server.delete(worker.frontier.keys.meta)
    else:
        exporting = server.hget(worker.frontier.keys.meta, "exporting").decode()
        server.hset(worker.frontier.keys.meta, "exporting", "1." + exporting.partition(".")[2])
    with pytest.raises(InspectionError, match="its frontier was cleared, or this export was delayed"):
        list(steps)


def test_during_an_export_no_failed_request_is_requeued_and_no_queue_converted(
    server: redis.Redis, redis_url: str
) -> None:
    from scrapy_rq_sched.convert import Conversion

    worker = a_worker(server, "priority")
    worker.push("x")
    worker.frontier.leave(finished=False, persist=True)
    steps = Export(a_view(redis_url)).lines()
    while json.loads(next(steps))[0] != "waiting":
        pass
    with pytest.raises(FrontierError, match="is being exported"):
        Conversion.from_settings(Settings({"REDIS_URL": redis_url}), "s", target="msgpack").run()
    steps.close()


def test_nothing_is_exported_while_a_frontier_is_converted(server: redis.Redis, redis_url: str) -> None:
    worker = filled(server, "priority")
    server.hset(worker.frontier.keys.converting, "from", "pickle")
    with pytest.raises(InspectionError, match="is being converted"):
        exported(redis_url)


def test_a_frontier_that_is_not_there_is_not_exported(server: redis.Redis, redis_url: str) -> None:
    with pytest.raises(InspectionError, match="There is no frontier"):
        exported(redis_url)


@pytest.mark.parametrize("from_tail", [False, True])
def test_a_list_is_read_whole_and_once_though_it_is_pushed_to_at_the_end_where_it_is_read(
    server: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch, from_tail: bool
) -> None:
    monkeypatch.setattr(steps, "FIRST", 5)
    monkeypatch.setattr(steps, "MOST_OF_LIST", 5)
    a_worker(server, "fifo")
    key = a_view(redis_url).keys.requests
    entries = [b"%d" % n for n in range(50)]
    server.rpush(key, *(reversed(entries) if from_tail else entries))
    push = server.rpush if from_tail else server.lpush
    found = []
    for part in steps.read_list(server, key, from_tail):
        found += part
        push(key, *(b"new" for _ in range(len(found) % 4)))
    assert found == entries


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["requests", "dupefilter", "started", "delayed", "failed", "meta"])
def test_an_import_where_there_is_something_is_refused_and_changes_nothing(
    server: redis.Redis, redis_url: str, key: str
) -> None:
    filled(server, "priority")
    data = exported(redis_url)
    source = a_view(redis_url).keys
    kept = server.dump(getattr(source, key))
    server.flushall()
    server.restore(getattr(source, key), 0, kept)
    before = contents(server)
    with pytest.raises(InspectionError, match=r"before the import: scrapy frontier clear s$"):
        imported(redis_url, data)
    assert contents(server) == before
    assert not server.exists(source.converting)


def test_an_import_is_refused_while_workers_are_at_it(server: redis.Redis, redis_url: str) -> None:
    worker = filled(server, "priority")
    data = exported(redis_url)
    alive = server.dump(worker.frontier.keys.workers)
    server.flushall()
    server.restore(worker.frontier.keys.workers, 0, alive)
    with pytest.raises(InspectionError, match="1 worker is alive at the frontier of spider 's'"):
        imported(redis_url, data)


def test_an_import_that_broke_off_keeps_workers_out_and_another_import(
    server: redis.Redis, redis_url: str
) -> None:
    worker = filled(server, "priority")
    data = exported(redis_url)
    server.flushall()
    cut = data[: len(data) // 2]
    with pytest.raises(InspectionError, match=r"It was cut off.*scrapy frontier clear s --force"):
        imported(redis_url, cut)
    assert server.exists(worker.frontier.keys.dupefilter)
    with pytest.raises(FrontierMismatchError, match="scrapy frontier clear s --force"):
        a_worker(server, "priority", "exact", "b")
    with pytest.raises(redis.ResponseError, match="CONVERTING A frontier is being imported"):
        worker.take(1)
    with pytest.raises(InspectionError, match="scrapy frontier clear s --force"):
        imported(redis_url, data)
    with pytest.raises(InspectionError, match="is being imported"):
        exported(redis_url)
    assert read_status(a_view(redis_url)).state == "importing"


def test_an_import_that_is_cleared_meanwhile_goes_no_further(server: redis.Redis, redis_url: str) -> None:
    filled(server, "priority")
    data = exported(redis_url)
    server.flushall()
    steps = Import(a_view(redis_url), ArchiveReader(io.BytesIO(data))).steps()
    next(steps)
    server.flushall()
    with pytest.raises(InspectionError, match="was cleared during the import") as refusal:
        list(steps)
    assert "--force" not in str(refusal.value)
    assert server.dbsize() == 0


def test_an_import_with_foreign_pushes_is_not_taken_for_whole(server: redis.Redis, redis_url: str) -> None:
    filled(server, "priority")
    data = exported(redis_url)
    server.flushall()
    steps = Import(a_view(redis_url), ArchiveReader(io.BytesIO(data))).steps()
    next(steps)
    server.zadd(a_view(redis_url).keys.requests, {"pushed by another": 1})
    with pytest.raises(InspectionError, match="has 691 members, but 690 were imported: another program"):
        list(steps)


def test_a_step_of_an_import_with_a_lost_reply_is_done_once(server: redis.Redis, redis_url: str) -> None:
    filled(server, "fifo", "compact")
    before = contents(server)
    data = exported(redis_url)
    server.flushall()
    view = a_view(redis_url)
    command = view.server.execute_command

    def twice(*said: Any, **options: Any) -> Any:
        if said[0] == "EVALSHA":
            command(*said, **options)
        return command(*said, **options)

    importing = Import(view, ArchiveReader(io.BytesIO(data)))
    steps = importing.steps()
    next(steps)
    view.server.execute_command = twice
    for _ in steps:
        pass
    assert contents(server) == before


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return *data* with one bit turned round."""
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def test_a_file_that_is_cut_or_changed_anywhere_is_refused(server: redis.Redis, redis_url: str) -> None:
    filled(server, "priority", "compact", 300)
    data, rng = exported(redis_url), random.Random(1)
    list(verify(io.BytesIO(data)))
    for _ in range(300):
        with pytest.raises(InspectionError, match=r"^[^\n]+$"):
            list(verify(io.BytesIO(data[: rng.randrange(len(data))])))
        with pytest.raises(InspectionError, match=r"^[^\n]+$"):
            list(verify(io.BytesIO(damaged(data, rng))))
    lines = data.splitlines(keepends=True)
    for wrong in (data + b"\n", b"".join(lines[:3] + lines[4:]), b"".join(lines[:3] + lines[2:]), b""):
        with pytest.raises(InspectionError):
            list(verify(io.BytesIO(wrong)))


def test_a_request_that_is_dropped_while_the_frontier_is_exported_waits_in_the_file(
    server: redis.Redis, redis_url: str
) -> None:
    worker = a_worker(server, "priority", max_waiting=3, policy="drop-lowest")
    (drop,) = worker.push("first", "second", "third", "low").leases
    assert drop.kind == "drop"
    lines = Export(a_view(redis_url)).lines()
    data = next(lines)
    while b'["seen"' not in data:
        data += next(lines)
    dropped = drop.payload.decode()
    worker.say(finished=[drop.name], forgotten=[("start+filter", f"fp-{dropped}")])
    data += b"".join(lines)
    server.flushall()
    imported(redis_url, data)
    other = a_worker(server, "priority", name="b")
    taken = [lease.payload.decode() for _ in range(5) for lease in other.take(10)]
    assert dropped in taken


def test_a_crawl_that_ends_while_it_is_exported_and_begins_anew_is_no_export(
    server: redis.Redis, redis_url: str
) -> None:
    worker = filled(server, "priority")
    lines = Export(a_view(redis_url)).lines()
    data = next(lines)
    while b'["seen"' not in data:
        data += next(lines)
    server.flushall()
    worker = a_worker(server, "priority", name="another")
    worker.push("p0")
    with pytest.raises(InspectionError, match="has finished meanwhile"):
        list(lines)


class OurQueue(PriorityQueue):
    """A subclass such as a user may have."""


def test_the_frontier_of_a_subclass_of_a_queue_is_imported(server: redis.Redis, redis_url: str) -> None:
    worker = Client(server, "a", "priority", 30.0, 5)
    worker.frontier.open({"SCHEDULER_QUEUE_CLASS": "tests.processes.test_transfer.OurQueue"})
    worker.push("one")
    settings = Settings({"REDIS_URL": redis_url, "SCHEDULER_QUEUE_CLASS": OurQueue})
    data = b"".join(Export(View.from_settings(settings, "s")).lines())
    server.flushall()
    imported(redis_url, data)
    assert read_status(a_view(redis_url)).waiting == 1


def test_an_import_takes_no_order_to_the_workers_from_a_file(server: redis.Redis, redis_url: str) -> None:
    filled(server, "priority", count=100)
    first, _, rest = exported(redis_url).partition(b"\n")
    header = json.loads(first)
    header[1]["meta"] |= {"state": "paused", "exporting": "99999999999999", "requests_key": "other"}
    first = json.dumps(header).encode()
    lines = [first, *rest.split(b"\n")[:-2]]
    end = json.loads(rest.split(b"\n")[-2])
    end[1]["sha256"] = hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()
    server.flushall()
    imported(redis_url, b"\n".join([*lines, json.dumps(end).encode(), b""]))
    meta = a_view(redis_url).meta
    assert not meta.keys() & {"state", "exporting"}
    assert meta["requests_key"] != "other"


def test_a_file_of_another_version_is_refused(server: redis.Redis, redis_url: str) -> None:
    filled(server, "priority", count=100)
    data = exported(redis_url)
    with pytest.raises(InspectionError, match="version 2 of the format"):
        ArchiveReader(io.BytesIO(data.replace(b'"version":1', b'"version":2', 1)))
    with pytest.raises(InspectionError, match="has the format '2'"):
        imported(redis_url, data.replace(f'"format":"{FORMAT}"'.encode(), b'"format":"2"', 1), "other")
    with pytest.raises(InspectionError, match="not an exported frontier"):
        ArchiveReader(io.BytesIO(b'["url", "http://example.com/"]\n'))


def test_a_queue_of_the_users_own_is_not_exported(server: redis.Redis, redis_url: str) -> None:
    Client(server, "a", "priority", 30.0, 5).frontier.open({"SCHEDULER_QUEUE_CLASS": "crawls.PlainQueue"})
    settings = Settings(
        {"REDIS_URL": redis_url, "SCHEDULER_QUEUE_CLASS": "tests.processes.test_transfer.OwnQueue"}
    )
    with pytest.raises(InspectionError, match="stores requests in its own form"):
        Export(View.from_settings(settings, "s"))


class OwnQueue:
    """A queue class such as a user may have."""

    push = pop = clear = __len__ = lambda self, *_: 0


@pytest.mark.parametrize("kind", ["seen", "waiting", "seeds", "noted", "failed"])
def test_a_step_of_an_import_is_short_for_each_kind_of_line(kind: str) -> None:
    width = restore.WIDTHS[kind]
    values = [b"1"] * 2500 * width + [b"1", b"x" * 2_000_000][-width:]
    parts = list(restore._parts(kind, values, restore.MOST))
    assert sum(map(len, parts)) == len(values)
    assert all(len(part) <= restore.MOST * width for part in parts)
    assert all(len(part) == width or sum(map(len, part)) <= restore.MOST_BYTES for part in parts)


# -- the commands --------------------------------------------------------------------------------


def command(redis_url: str, *options: str, **passed: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "scrapy", "frontier", *options, "--redis-url", redis_url],
        cwd=PROJECT.parent,  # outside any project, which would have to know the spider
        capture_output=True,
        timeout=60,
        **passed,
    )


def test_the_commands_export_to_a_pipe_and_import_from_one(server: redis.Redis, redis_url: str) -> None:
    filled(server, "priority")
    before = contents(server)
    done = command(redis_url, "export", "s")
    assert done.returncode == 0
    assert done.stderr == (
        b"scrapy frontier: spider s was exported: 690 waiting, 2 delayed, 8 failed, 700 seen, 100 started\n"
    )
    server.flushall()
    back = command(redis_url, "import", "s", input=done.stdout)
    assert (back.returncode, back.stderr) == (0, b"")
    assert b": 690 waiting, 2 delayed, 8 failed, 700 seen, 100 started\n" in back.stdout
    assert contents(server) == before


def test_the_commands_export_to_a_file_and_import_from_it(
    server: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    filled(server, "priority")
    before, file = contents(server), tmp_path / "frontier.jsonl"
    assert command(redis_url, "export", "s", "--file", str(file)).returncode == 0
    assert list(tmp_path.iterdir()) == [file]
    server.flushall()
    assert command(redis_url, "import", "s", "--file", str(file)).returncode == 0
    assert contents(server) == before


@pytest.mark.long
def test_a_dry_run_of_import_counts_the_file_and_changes_nothing(
    server: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    filled(server, "priority", count=100)
    file = tmp_path / "s.frontier"
    file.write_bytes(exported(redis_url))
    refused = command(redis_url, "import", "s", "--file", str(file), "--dry-run")
    assert (refused.returncode, b"already has a frontier" in refused.stderr) == (1, True)
    server.flushall()
    for stdin in (None, file.read_bytes()):
        options = () if stdin else ("--file", str(file))
        dry = command(redis_url, "import", "s", *options, "--dry-run", input=stdin)
        assert dry.returncode == 0, dry.stderr
        assert b"this would import the frontier" in dry.stdout
        assert b"100 seen" in dry.stdout
    assert not server.keys()


def test_the_first_line_of_a_file_adds_no_line_to_the_output_of_import(
    server: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    filled(server, "priority")
    lines = exported(redis_url).splitlines(keepends=True)
    server.flushall()
    _, header = json.loads(lines[0])
    header["spider"], header["time"] = "shop\nSpider t: imported", "1\x9b2J"
    lines[0] = json.dumps(["frontier", header]).encode() + b"\n"
    _, end = json.loads(lines[-1])
    end["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    file = tmp_path / "s.frontier"
    file.write_bytes(b"".join(lines[:-1]) + json.dumps(["end", end]).encode() + b"\n")
    done = command(redis_url, "import", "s", "--file", str(file))
    assert (done.returncode, done.stderr) == (0, b"")
    (line,) = done.stdout.decode().splitlines()
    assert r"the frontier that spider shop\nSpider t: imported had at 1\x9b2J: " in line


def test_requests_that_wait_by_slot_count_as_waiting(server: redis.Redis, redis_url: str, join: Join) -> None:
    worker = join()
    worker.push("one", "two", slot="a.test")
    worker.push("three")
    worker.frontier.leave(finished=False, persist=True)
    done = command(redis_url, "export", "s")
    assert b"spider s was exported: 3 waiting, 3 seen" in done.stderr


def test_a_damaged_file_changes_nothing(server: redis.Redis, redis_url: str, tmp_path: Path) -> None:
    filled(server, "priority")
    data, file = exported(redis_url), tmp_path / "frontier.jsonl"
    server.flushall()
    # In the last line but one: all before it is right.
    file.write_bytes(data.replace(b'"counter",["700"]', b'"counter",["701"]'))
    for options in ({}, {"stdin": file.open("rb")}):
        name = [] if options else ["--file", str(file)]
        refused = command(redis_url, "import", "s", *name, **options)
        assert refused.returncode == 1
        assert refused.stderr == (
            b"scrapy frontier: The file was changed after the export: its SHA-256 differs from that in its "
            b"last line. Export the frontier again\n"
        )
        assert server.dbsize() == 0


def test_an_export_that_fails_leaves_the_file_of_before(
    server: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    worker, file = filled(server, "priority"), tmp_path / "frontier.jsonl"
    file.write_text("yesterday's")
    server.hset(worker.frontier.keys.converting, "from", "pickle")
    refused = command(redis_url, "export", "s", "--file", str(file))
    assert refused.returncode == 1
    assert refused.stderr.count(b"\n") == 1
    assert b"The export is incomplete, and import refuses it" in refused.stderr
    assert file.read_text() == "yesterday's"
    assert list(tmp_path.iterdir()) == [file]


def test_an_export_of_a_spider_that_has_no_frontier_is_refused_in_one_line(
    server: redis.Redis, redis_url: str
) -> None:
    refused = command(redis_url, "export", "graph")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert refused.stderr.startswith(b"scrapy frontier: There is no frontier of spider 'graph'")
    assert refused.stderr.count(b"\n") == 1


@pytest.mark.single("the tests' Redis is one server")
def test_an_export_does_not_write_to_a_terminal(server: redis.Redis, redis_url: str) -> None:
    filled(server, "priority", count=100)
    ours, theirs = os.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "frontier", "export", "s", "--redis-url", redis_url],
        cwd=PROJECT,
        env={**os.environ, "RECORD": os.devnull},
        stdout=theirs,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 1
    assert b"scrapy frontier export s > FILE" in done.stderr
