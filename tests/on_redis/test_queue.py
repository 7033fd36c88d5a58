"""The disciplines: in which order requests come out, and that each comes out once."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
import redis

from scrapy_rq_sched import FifoQueue, LifoQueue, PriorityQueue, keys
from scrapy_rq_sched import queue as queue_module
from scrapy_rq_sched.errors import (
    PayloadError,
    SettingError,
    UnknownCallbackError,
    UnserializableRequestError,
)
from scrapy_rq_sched.queue import Base

from ..support.queue_contract import KEY, QueueContract, number_of, page, pop_all
from ..unit.test_request import PagesSpider, assert_same_request

SPIDER = PagesSpider()
QUEUES: list[type[Base]] = [FifoQueue, LifoQueue, PriorityQueue]

each_queue = pytest.mark.parametrize("cls", QUEUES)


class TestFifoQueue(QueueContract):
    cls = FifoQueue
    takes = staticmethod(lambda waiting: 0)


class TestLifoQueue(QueueContract):
    cls = LifoQueue
    takes = staticmethod(lambda waiting: -1)


class TestPriorityQueue(QueueContract):
    cls = PriorityQueue
    # The first of those with the highest priority.
    takes = staticmethod(lambda waiting: max(range(len(waiting)), key=lambda place: waiting[place][0]))


# -- the order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "order"),
    [(FifoQueue, [0, 1, 2, 3]), (LifoQueue, [3, 2, 1, 0]), (PriorityQueue, [0, 1, 2, 3])],
)
def test_requests_of_one_priority_come_out_in_the_order_of_the_discipline(
    fake: Any, cls: type[Base], order: list[int]
) -> None:
    queue = cls(fake, SPIDER, KEY)
    for number in range(4):
        queue.push(page(number))
    assert pop_all(queue) == order


@pytest.mark.parametrize(("cls", "order"), [(FifoQueue, [0, 1, 2]), (LifoQueue, [2, 1, 0])])
def test_a_list_disregards_priorities(fake: Any, cls: type[Base], order: list[int]) -> None:
    queue = cls(fake, SPIDER, KEY)
    for number, priority in enumerate([0, 5, -5]):
        queue.push(page(number, priority=priority))
    assert pop_all(queue) == order


@pytest.mark.parametrize(
    "priorities",
    [[0, 1, 2], [-1, -3, -2, 0], [10, -10, 0, 1000, -1000], [2**20 - 1, 2**20 - 2, 1 - 2**20]],
)
def test_the_highest_priority_comes_out_first(fake: Any, priorities: list[int]) -> None:
    queue = PriorityQueue(fake, SPIDER, KEY)
    for number, priority in enumerate(priorities):
        queue.push(page(number, priority=priority))
    assert [priorities[number or 0] for number in pop_all(queue)] == sorted(priorities, reverse=True)


@pytest.mark.parametrize("priority", [0, 7, -7, 2**20 - 1, 1 - 2**20])
@pytest.mark.parametrize("already", [0, 2**31, 2**32 - 20], ids=["first", "later", "last"])
def test_equal_priorities_come_out_in_the_order_of_arrival(fake: Any, priority: int, already: int) -> None:
    queue = PriorityQueue(fake, SPIDER, KEY)
    fake.set(keys.queue_counter(queue.key), already)
    for number in range(12):  # more than ten: the order of the bytes is another
        queue.push(page(number, priority=priority))
    assert pop_all(queue) == list(range(12))


def test_equal_priorities_of_two_workers_come_out_in_the_order_of_arrival(fake: Any) -> None:
    workers = [PriorityQueue(fake, SPIDER, KEY) for _ in range(2)]
    for number in range(12):
        workers[number % 2].push(page(number))
    assert pop_all(workers[0]) == list(range(12))


def test_a_later_request_of_a_higher_priority_overtakes_earlier_ones(fake: Any) -> None:
    queue = PriorityQueue(fake, SPIDER, KEY)
    queue.push(page(0))
    queue.push(page(1))
    first = queue.pop()
    queue.push(page(2, priority=1))
    assert (number_of(first), pop_all(queue)) == (0, [2, 1])


@pytest.mark.parametrize("priority", [10**9, -(10**18), 10**400, -(10**400)], ids=["9", "-18", "400", "-400"])
def test_a_priority_too_large_for_an_exact_score_loses_no_request(fake: Any, priority: int) -> None:
    queue = PriorityQueue(fake, SPIDER, KEY)
    requests = [page(number, priority=priority) for number in range(3)]
    try:
        for request in requests:
            queue.push(request)
    except UnserializableRequestError:
        assert len(queue) == 0  # it is crawled from memory
        return
    assert sorted(pop_all(queue)) == [0, 1, 2]


# -- what is in it -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "serializer"),
    [
        (FifoQueue, None),
        (LifoQueue, "json"),
        (PriorityQueue, "json+deflate"),
        (FifoQueue, "msgpack"),
        (LifoQueue, "pickle"),
    ],
)
def test_a_request_comes_out_as_it_went_in(fake: Any, cls: type[Base], serializer: str | None) -> None:
    queue = cls(fake, SPIDER, KEY, serializer)
    request = page(
        1,
        method="POST",
        callback=SPIDER.parse_item,
        errback=SPIDER.failed,
        headers={"X-Token": b"\xff"},
        body=b"\x00",
        meta={"depth": 2},
        priority=-4,
        dont_filter=True,
    )
    queue.push(request)
    popped = queue.pop()
    assert popped is not None
    assert_same_request(request, popped)


@pytest.mark.parametrize(
    ("old", "new"),
    [("SpiderQueue", FifoQueue), ("SpiderStack", LifoQueue), ("SpiderPriorityQueue", PriorityQueue)],
)
def test_the_names_that_scrapy_redis_has_stay(old: str, new: type[Base]) -> None:
    assert getattr(queue_module, old) is new


# -- serializers -------------------------------------------------------------------------------------


@each_queue
def test_a_request_is_stored_as_json_unless_told_otherwise(fake: Any, cls: type[Base]) -> None:
    queue = cls(fake, SPIDER, KEY)
    queue.push(page(1))
    (entry,) = fake.zrange(queue.key, 0, -1) if cls is PriorityQueue else fake.lrange(queue.key, 0, -1)
    assert json.loads(entry)["url"] == "http://example.com/1"


@pytest.fixture
def own_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with dumps and loads, such as a user names in SCHEDULER_SERIALIZER."""
    module = ModuleType("own_serializer")
    module.dumps = lambda obj: json.dumps(obj)  # type: ignore[attr-defined]
    module.loads = lambda data: json.loads(data)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_serializer", module)
    return module


@pytest.mark.parametrize(("cls", "by"), [(FifoQueue, "object"), (PriorityQueue, "path")])
def test_a_users_serializer_may_be_a_module_with_dumps_that_returns_text(
    fake: Any, own_module: ModuleType, cls: type[Base], by: str
) -> None:
    queue = cls(fake, SPIDER, KEY, own_module if by == "object" else "own_serializer")
    request = page(1, callback=SPIDER.parse, meta={"name": "жук"})
    queue.push(request)
    popped = queue.pop()
    assert popped is not None
    assert_same_request(request, popped)


@pytest.mark.parametrize(
    ("cls", "serializer"),
    [(FifoQueue, "json"), (LifoQueue, "msgpack"), (PriorityQueue, "own_serializer")],
)
def test_a_request_that_the_serializer_would_change_is_refused_and_not_stored(
    fake: Any, own_module: ModuleType, cls: type[Base], serializer: str
) -> None:
    queue = cls(fake, SPIDER, KEY, serializer)
    with pytest.raises(UnserializableRequestError):
        queue.push(page(1, meta={"pair": (1, 2)}))
    assert len(queue) == 0


@pytest.mark.parametrize(
    "serializer", ["no.such.module", "os", 5, object()], ids=["no module", "module", "number", "object"]
)
def test_a_bad_serializer_is_refused_when_the_queue_is_made(fake: Any, serializer: Any) -> None:
    with pytest.raises(SettingError, match="SCHEDULER_SERIALIZER"):
        PriorityQueue(fake, SPIDER, KEY, serializer)


@pytest.mark.parametrize(
    ("cls", "entry", "error"),
    [
        (FifoQueue, b"\x80\x04K\x01.", PayloadError),
        (LifoQueue, b"http://example.com/", PayloadError),
        (PriorityQueue, b"[]", PayloadError),
        (FifoQueue, b'{"url": 5}', PayloadError),
        (LifoQueue, b'{"url": "http://example.com/", "callback": "no_such"}', UnknownCallbackError),
    ],
)
def test_an_entry_that_stands_for_no_request_is_an_error(
    fake: Any, cls: type[Base], entry: bytes, error: type[Exception]
) -> None:
    queue = cls(fake, SPIDER, KEY)
    if cls is PriorityQueue:
        fake.zadd(queue.key, {entry: 0})
    else:
        fake.lpush(queue.key, entry)
    with pytest.raises(error):
        queue.pop()


def test_requests_pushed_by_scrapy_redis_with_its_json_serializer_are_popped(fake: Any) -> None:
    queue = FifoQueue(fake, SPIDER, KEY)
    entry = {"url": "http://example.com/1", "callback": "parse", "errback": None, "method": "GET"}
    entry |= {"headers": {}, "body": "", "cookies": {}, "meta": {"depth": 1}, "priority": 0}
    fake.lpush("pages:requests", json.dumps({**entry, "dont_filter": False, "flags": [], "cb_kwargs": {}}))
    popped = queue.pop()
    assert popped is not None
    assert_same_request(page(1, callback=SPIDER.parse, meta={"depth": 1}), popped)


# -- on a real Redis: commands, waiting, atomicity ---------------------------------------------------


@contextmanager
def recorded(server: redis.Redis) -> Iterator[list[str]]:
    """Record the commands that the server gets."""
    commands: list[str] = []
    with server.monitor() as monitor:
        server.echo("begin")  # before it, a new connection says hello
        yield commands
        server.echo("end")
        heard = (entry["command"] for entry in monitor.listen())
        for _ in iter(lambda: next(heard), "ECHO begin"):
            pass
        commands.extend(iter(lambda: next(heard), "ECHO end"))


MULTI_POP = ["MULTI", "ZRANGE pages:requests 0 0", "ZREMRANGEBYRANK pages:requests 0 0", "EXEC"]


@pytest.mark.single("MONITOR")
@pytest.mark.parametrize(
    ("cls", "timeout", "filled", "expected"),
    [
        (FifoQueue, 0, True, ["RPOP pages:requests"]),
        (FifoQueue, 9, True, ["BRPOP pages:requests 9"]),
        (LifoQueue, 0, True, ["LPOP pages:requests"]),
        (LifoQueue, 9, True, ["BLPOP pages:requests 9"]),
        (PriorityQueue, 0, True, MULTI_POP),
        (PriorityQueue, 9, True, MULTI_POP),
        (PriorityQueue, 0, False, MULTI_POP),
    ],
)
def test_a_pop_is_the_command_of_the_discipline_and_no_other(
    server: redis.Redis, cls: type[Base], timeout: float, filled: bool, expected: list[str]
) -> None:
    queue = cls(server, SPIDER, KEY)
    if filled:
        queue.push(page(1))
    with recorded(server) as commands:
        queue.pop(timeout)
    assert commands == expected


@pytest.mark.single("MONITOR")
@pytest.mark.parametrize(
    ("cls", "command"), [(FifoQueue, "LPUSH"), (LifoQueue, "LPUSH"), (PriorityQueue, "ZADD")]
)
def test_a_push_adds_with_the_command_of_the_discipline(
    server: redis.Redis, cls: type[Base], command: str
) -> None:
    queue = cls(server, SPIDER, KEY)
    with recorded(server) as commands:
        queue.push(page(1))
    assert [text.split(" ")[1] for text in commands if text.startswith(command)] == ["pages:requests"]


@pytest.mark.single("MONITOR")
@each_queue
def test_a_pop_with_a_timeout_returns_a_waiting_request_at_once(server: redis.Redis, cls: type[Base]) -> None:
    queue = cls(server, SPIDER, KEY)
    queue.push(page(1))
    with recorded(server) as commands:
        assert number_of(queue.pop(timeout=60)) == 1
    assert not [text for text in commands if text.startswith("BZPOPMIN")]
