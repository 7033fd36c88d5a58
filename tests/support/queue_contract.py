"""What every queue class does, whatever its order: a test class for one of them is three lines.

class TestMyQueue(QueueContract):
    cls = MyQueue
    takes = staticmethod(lambda waiting: ...)  # which of [(priority, number), ...] is next
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fakeredis
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request, Spider

from scrapy_rq_sched.queue import Base

from .crawl import wait_until

KEY = "%(spider)s:requests"
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(-3, 3)),
        st.tuples(st.sampled_from(["pop", "pop", "pop", "clear"]), st.just(0)),
    ),
    max_size=40,
)


def page(number: int, **fields: Any) -> Request:
    return Request(f"http://example.com/{number}", **fields)


def number_of(request: Request | None) -> int | None:
    return None if request is None else int(request.url.rpartition("/")[2])


def pop_all(queue: Base) -> list[int | None]:
    """Return the numbers of the pages in *queue*, in the order in which they come out."""
    return [number_of(queue.pop()) for _ in range(len(queue))]


def in_threads(count: int, work: Callable[[], list[int]]) -> list[int]:
    """Return what *work* returns in *count* threads that start at once."""
    barrier = threading.Barrier(count)

    def run() -> list[int]:
        barrier.wait(10)
        return work()

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(run) for _ in range(count)]
        return [number for future in futures for number in future.result(timeout=30)]


class QueueContract:
    """The contract of a queue discipline.

    ``cls`` is the class; ``takes`` returns the index of the entry that is popped next, of a list of
    (priority, number) in the order of arrival.
    """

    cls: type[Base]
    takes: Callable[[list[tuple[int, int]]], int]

    def make(self, server: Any, spider: str = "pages", key: str = KEY) -> Base:
        return self.cls(server, Spider(spider), key)

    def test_a_queue_behaves_as_a_python_list(self) -> None:
        # A test of Hypothesis's belongs to one class.
        @settings(deadline=None, max_examples=60)
        @given(operations=OPERATIONS)
        def compare(operations: list[tuple[str, int]]) -> None:
            queue = self.make(fakeredis.FakeRedis(server=fakeredis.FakeServer()))
            model: list[tuple[int, int]] = []
            for number, (operation, priority) in enumerate(operations):
                if operation == "push":
                    queue.push(page(number, priority=priority))
                    model.append((priority, number))
                elif operation == "pop":
                    expected = model.pop(type(self).takes(model))[1] if model else None
                    assert number_of(queue.pop()) == expected
                else:
                    queue.clear()
                    model.clear()
                assert len(queue) == len(model)

        compare()

    def test_an_empty_queue_has_no_request(self, fake: Any) -> None:
        queue = self.make(fake)
        assert (queue.pop(), len(queue)) == (None, 0)

    @pytest.mark.parametrize("of", ["one worker", "two workers"])
    def test_identical_requests_with_dont_filter_stay_two(self, fake: Any, of: str) -> None:
        queue = self.make(fake)
        other = queue if of == "one worker" else self.make(fake)
        for one in (queue, other):
            one.push(page(1, dont_filter=True))
        assert (len(queue), pop_all(queue)) == (2, [1, 1])

    def test_len_is_the_number_of_requests(self, fake: Any) -> None:
        queue = self.make(fake)
        for number in range(3):
            queue.push(page(number))
        queue.pop()
        assert len(queue) == 2

    def test_clear_leaves_no_key_behind(self, fake: Any) -> None:
        queue = self.make(fake)
        for number in range(3):
            queue.push(page(number))
        queue.clear()
        assert (len(queue), fake.keys()) == (0, [])

    @pytest.mark.parametrize(
        ("key", "expected"),
        [
            ("%(spider)s:requests", "pages:requests"),
            ("%(name)s/queue", "pages/queue"),
            ("{%(spider)s}:requests", "{pages}:requests"),
            ("fixed", "fixed"),
        ],
    )
    def test_the_key_has_the_name_of_the_spider_in_it(self, fake: Any, key: str, expected: str) -> None:
        self.make(fake, key=key).push(page(1))
        assert fake.exists(expected) == 1

    def test_two_queues_with_two_keys_have_nothing_in_common(self, fake: Any) -> None:
        one, other = self.make(fake), self.make(fake, "others")
        one.push(page(1))
        other.push(page(2))
        other.push(page(3))
        other.clear()
        assert (pop_all(one), pop_all(other)) == ([1], [])

    def test_two_queues_with_one_key_are_one_queue(self, fake: Any) -> None:
        self.make(fake).push(page(1))
        assert number_of(self.make(fake).pop()) == 1

    def test_a_pop_with_a_timeout_of_an_empty_queue_returns_none(self, server: redis.Redis) -> None:
        assert self.make(server).pop(timeout=0.01) is None

    @pytest.mark.slow
    @pytest.mark.single("its address")
    def test_a_pop_may_wait_for_longer_than_the_socket_of_the_client(self, redis_url: str) -> None:
        # Our clients have a socket timeout (connection.DEFAULT_PARAMS).
        with redis.Redis.from_url(redis_url, socket_timeout=1) as client:
            assert self.make(client).pop(timeout=1.5) is None

    @pytest.mark.single("what it says of its clients")
    def test_a_pop_with_a_timeout_gets_the_request_that_is_pushed_meanwhile(
        self, server: redis.Redis
    ) -> None:
        queue = self.make(server)
        with ThreadPoolExecutor(1) as pool:
            popped = pool.submit(queue.pop, timeout=30)
            wait_until(lambda: server.info("clients")["blocked_clients"] == 1, message="the pop waits")
            queue.push(page(1, priority=3))
            assert number_of(popped.result(timeout=10)) == 1
        assert len(queue) == 0

    def test_each_request_is_popped_by_one_of_several_workers(self, server: redis.Redis) -> None:
        queue = self.make(server)
        for number in range(300):
            queue.push(page(number))

        def pop_until_empty() -> list[int]:
            own = self.make(server)
            return [number_of(request) or 0 for request in iter(own.pop, None)]

        assert Counter(in_threads(4, pop_until_empty)) == Counter(range(300))

    def test_requests_that_several_workers_push_at_once_are_all_kept(self, server: redis.Redis) -> None:
        def push_identical() -> list[int]:
            own = self.make(server)
            for _ in range(50):
                own.push(page(1, dont_filter=True))
            return []

        in_threads(4, push_identical)
        assert len(self.make(server)) == 200
