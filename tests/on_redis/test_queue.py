"""The disciplines: in which order requests come out, and that each comes out once."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import fakeredis
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request

from scrapy_rq_sched import FifoQueue, LifoQueue, PriorityQueue, keys
from scrapy_rq_sched import queue as queue_module
from scrapy_rq_sched.errors import (
    PayloadError,
    SettingError,
    UnknownCallbackError,
    UnserializableRequestError,
)
from scrapy_rq_sched.queue import Base

from ..crawl import wait_until
from ..unit.test_request import PagesSpider, assert_same_request

SPIDER = PagesSpider()
KEY = "%(spider)s:requests"
QUEUES: list[type[Base]] = [FifoQueue, LifoQueue, PriorityQueue]
SERIALIZERS = ["json", "json+deflate", "msgpack", "pickle"]

each_queue = pytest.mark.parametrize("cls", QUEUES)


@pytest.fixture
def fake() -> fakeredis.FakeRedis:
    """A client of a Redis in memory, for what needs no server."""
    return fakeredis.FakeRedis(server=fakeredis.FakeServer())


def page(number: int, **fields: Any) -> Request:
    return Request(f"http://example.com/{number}", **fields)


def number_of(request: Request | None) -> int | None:
    return None if request is None else int(request.url.rpartition("/")[2])


def pop_all(queue: Base) -> list[int | None]:
    """Return the numbers of the pages in *queue*, in the order in which they come out."""
    return [number_of(queue.pop()) for _ in range(len(queue))]


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


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(-3, 3)),
        st.tuples(st.sampled_from(["pop", "pop", "pop", "clear"]), st.just(0)),
    ),
    max_size=40,
)


@each_queue
@settings(deadline=None, max_examples=60)
@given(operations=OPERATIONS)
def test_a_queue_does_what_a_python_list_does(cls: type[Base], operations: list[tuple[str, int]]) -> None:
    queue = cls(fakeredis.FakeRedis(server=fakeredis.FakeServer()), SPIDER, KEY)
    model: list[tuple[int, int]] = []
    for number, (operation, priority) in enumerate(operations):
        if operation == "push":
            queue.push(page(number, priority=priority))
            model.append((priority, number))
            if cls is PriorityQueue:
                model.sort(key=lambda entry: -entry[0])  # a stable sort keeps the order of arrival
        elif operation == "pop":
            expected = model.pop(-1 if cls is LifoQueue else 0)[1] if model else None
            assert number_of(queue.pop()) == expected
        else:
            queue.clear()
            model.clear()
        assert len(queue) == len(model)


# -- what is in it -----------------------------------------------------------------------------------


@each_queue
def test_an_empty_queue_has_no_request(fake: Any, cls: type[Base]) -> None:
    queue = cls(fake, SPIDER, KEY)
    assert (queue.pop(), len(queue)) == (None, 0)


@each_queue
@pytest.mark.parametrize("serializer", [None, *SERIALIZERS])
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


@each_queue
@pytest.mark.parametrize("of", ["one worker", "two workers"])
def test_identical_requests_with_dont_filter_stay_two(fake: Any, cls: type[Base], of: str) -> None:
    queue = cls(fake, SPIDER, KEY)
    other = queue if of == "one worker" else cls(fake, SPIDER, KEY)
    for one in (queue, other):
        one.push(page(1, dont_filter=True))
    assert (len(queue), pop_all(queue)) == (2, [1, 1])


@each_queue
def test_len_is_the_number_of_requests(fake: Any, cls: type[Base]) -> None:
    queue = cls(fake, SPIDER, KEY)
    for number in range(3):
        queue.push(page(number))
    queue.pop()
    assert len(queue) == 2


@each_queue
def test_clear_leaves_no_key_behind(fake: Any, cls: type[Base]) -> None:
    queue = cls(fake, SPIDER, KEY)
    for number in range(3):
        queue.push(page(number))
    queue.clear()
    assert (len(queue), fake.keys()) == (0, [])


@each_queue
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("%(spider)s:requests", "pages:requests"),
        ("%(name)s/queue", "pages/queue"),
        ("{%(spider)s}:requests", "{pages}:requests"),
        ("fixed", "fixed"),
    ],
)
def test_the_key_has_the_name_of_the_spider_in_it(
    fake: Any, cls: type[Base], key: str, expected: str
) -> None:
    cls(fake, SPIDER, key).push(page(1))
    assert fake.exists(expected) == 1


@each_queue
def test_two_queues_with_two_keys_have_nothing_in_common(fake: Any, cls: type[Base]) -> None:
    one, other = cls(fake, SPIDER, KEY), cls(fake, PagesSpider("others"), KEY)
    one.push(page(1))
    other.push(page(2))
    other.push(page(3))
    other.clear()
    assert (pop_all(one), pop_all(other)) == ([1], [])


@each_queue
def test_two_queues_with_one_key_are_one_queue(fake: Any, cls: type[Base]) -> None:
    cls(fake, SPIDER, KEY).push(page(1))
    assert number_of(cls(fake, PagesSpider(), KEY).pop()) == 1


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


@each_queue
@pytest.mark.parametrize("by", ["object", "path"])
def test_a_users_serializer_may_be_a_module_whose_dumps_returns_text(
    fake: Any, own_module: ModuleType, cls: type[Base], by: str
) -> None:
    queue = cls(fake, SPIDER, KEY, own_module if by == "object" else "own_serializer")
    request = page(1, callback=SPIDER.parse, meta={"name": "жук"})
    queue.push(request)
    popped = queue.pop()
    assert popped is not None
    assert_same_request(request, popped)


@each_queue
@pytest.mark.parametrize("serializer", ["json", "msgpack", "own_serializer"])
def test_a_request_that_the_serializer_would_change_is_refused_and_not_stored(
    fake: Any, own_module: ModuleType, cls: type[Base], serializer: str
) -> None:
    queue = cls(fake, SPIDER, KEY, serializer)
    with pytest.raises(UnserializableRequestError):
        queue.push(page(1, meta={"pair": (1, 2)}))
    assert len(queue) == 0


@each_queue
@pytest.mark.parametrize(
    "serializer", ["no.such.module", "os", 5, object()], ids=["no module", "module", "number", "object"]
)
def test_a_bad_serializer_is_refused_when_the_queue_is_made(
    fake: Any, cls: type[Base], serializer: Any
) -> None:
    with pytest.raises(SettingError, match="SCHEDULER_SERIALIZER"):
        cls(fake, SPIDER, KEY, serializer)


@each_queue
@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (b"\x80\x04K\x01.", PayloadError),
        (b"http://example.com/", PayloadError),
        (b"[]", PayloadError),
        (b'{"url": 5}', PayloadError),
        (b'{"url": "http://example.com/", "callback": "no_such"}', UnknownCallbackError),
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


def test_what_scrapy_redis_pushed_with_its_json_serializer_comes_out(fake: Any) -> None:
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


@each_queue
def test_a_pop_with_a_timeout_of_an_empty_queue_returns_none(server: redis.Redis, cls: type[Base]) -> None:
    assert cls(server, SPIDER, KEY).pop(timeout=0.01) is None


@pytest.mark.single("MONITOR")
@each_queue
def test_a_pop_with_a_timeout_returns_at_once_what_is_there(server: redis.Redis, cls: type[Base]) -> None:
    queue = cls(server, SPIDER, KEY)
    queue.push(page(1))
    with recorded(server) as commands:
        assert number_of(queue.pop(timeout=60)) == 1
    assert not [text for text in commands if text.startswith("BZPOPMIN")]


@pytest.mark.slow
@pytest.mark.single("its address")
@each_queue
def test_a_pop_may_wait_for_longer_than_the_socket_of_the_client(redis_url: str, cls: type[Base]) -> None:
    # Our clients have a socket timeout (connection.DEFAULT_PARAMS).
    with redis.Redis.from_url(redis_url, socket_timeout=2) as client:
        assert cls(client, SPIDER, KEY).pop(timeout=2.5) is None


@pytest.mark.single("what it says of its clients")
@each_queue
def test_a_pop_with_a_timeout_gets_the_request_that_is_pushed_meanwhile(
    server: redis.Redis, cls: type[Base]
) -> None:
    queue = cls(server, SPIDER, KEY)
    with ThreadPoolExecutor(1) as pool:
        popped = pool.submit(queue.pop, timeout=30)
        wait_until(lambda: server.info("clients")["blocked_clients"] == 1, message="the pop waits")
        queue.push(page(1, priority=3))
        assert number_of(popped.result(timeout=10)) == 1
    assert len(queue) == 0


def in_threads(count: int, work: Callable[[], list[int]]) -> list[int]:
    """Return what *work* returns in *count* threads that start at once."""
    barrier = threading.Barrier(count)

    def run() -> list[int]:
        barrier.wait(10)
        return work()

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(run) for _ in range(count)]
        return [number for future in futures for number in future.result(timeout=30)]


@each_queue
def test_each_request_is_popped_by_one_of_several_workers(server: redis.Redis, cls: type[Base]) -> None:
    queue = cls(server, SPIDER, KEY)
    for number in range(300):
        queue.push(page(number))

    def pop_until_empty() -> list[int]:
        own = cls(server, SPIDER, KEY)
        return [number_of(request) or 0 for request in iter(own.pop, None)]

    assert Counter(in_threads(4, pop_until_empty)) == Counter(range(300))


@each_queue
def test_requests_that_several_workers_push_at_once_are_all_kept(
    server: redis.Redis, cls: type[Base]
) -> None:
    def push_identical() -> list[int]:
        own = cls(server, SPIDER, KEY)
        for _ in range(50):
            own.push(page(1, dont_filter=True))
        return []

    in_threads(4, push_identical)
    assert len(cls(server, SPIDER, KEY)) == 200
