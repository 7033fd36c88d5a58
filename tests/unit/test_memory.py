"""Requests in a worker's memory, and the turns that some of them need."""

from __future__ import annotations

from collections import Counter

from scrapy import Request

from scrapy_rq_sched.frontier.messages import Push
from scrapy_rq_sched.worker.outbox import Outgoing
from scrapy_rq_sched.worker.ready import Memory


def outgoing(number: int) -> Outgoing:
    return Outgoing(Push("force", "", 0, b""), Request(f"http://example.com/{number}"))


def filled() -> Memory:
    memory = Memory()
    for number, slot in enumerate(["", "a", "a", "b"]):
        memory.append(outgoing(number), slot)
    return memory


def test_a_request_of_no_slot_with_limits_needs_no_turn() -> None:
    memory = filled()
    taken = memory.take_free()
    assert taken is not None
    assert taken.request.url.endswith("/0")
    assert memory.take_free() is None
    assert len(memory) == 3


def test_turns_are_asked_for_that_are_lacking() -> None:
    memory = filled()
    assert memory.asks(9) == {"a": 2, "b": 1}
    assert not memory.give({"a": [5.0]})
    assert memory.asks(9) == {"a": 1, "b": 1}


def test_a_request_uses_the_first_turn_of_its_slot() -> None:
    memory = filled()
    memory.give({"a": [5.0, 6.0]})
    assert list(memory.grants()) == [("a", 5.0)]
    assert memory.take("a").request.url.endswith("/1")
    assert list(memory.grants()) == [("a", 6.0)]
    assert memory.take("a").request.url.endswith("/2")
    assert list(memory.grants()) == []
    assert memory.asks(9) == {"b": 1}


def test_the_requests_of_a_slot_that_gets_limits_wait_for_turns() -> None:
    memory = Memory()
    for number, slot in enumerate(["a", "b", "a"]):
        push = Push("force", "", 0, b"", slot)
        memory.append(Outgoing(push, Request(f"http://{slot}/{number}")))
    memory.limit("a")
    assert (memory.asks(9), len(memory)) == ({"a": 2}, 3)
    free = memory.take_free()
    assert free is not None
    assert free.push.slot == "b"
    assert memory.take_free() is None
    memory.give({"a": [1.0]})
    assert memory.take("a").request.url == "http://a/0"


def test_the_turns_of_one_slot_are_taken_back() -> None:
    memory = filled()
    memory.give({"a": [5.0, 6.0], "b": [7.0]})
    assert memory.take_back_of("a") == 2
    assert memory.take_back_of("c") == 0
    assert list(memory.grants()) == [("b", 7.0)]


def test_a_turn_that_nothing_is_left_for_is_told_of() -> None:
    memory = filled()
    assert memory.give({"b": [5.0, 6.0], "c": [7.0]}) == Counter({"b": 1, "c": 1})
    assert list(memory.grants()) == [("b", 5.0)]


def test_turns_that_are_late_are_taken_back_and_asked_for_again() -> None:
    memory = filled()
    memory.give({"a": [5.0, 9.0], "b": [6.0]})
    assert memory.take_back(before=7.0) == Counter({"a": 1, "b": 1})
    assert list(memory.grants()) == [("a", 9.0)]
    assert memory.asks(9) == {"a": 1, "b": 1}


def test_when_all_is_forgotten_the_turns_are_left() -> None:
    memory = filled()
    memory.give({"a": [5.0]})
    memory.clear()
    assert (len(memory), memory.asks(9)) == (0, {})
    assert memory.take_back(before=float("inf")) == Counter({"a": 1})


def test_a_slot_that_was_given_turns_asks_after_the_others() -> None:
    memory = filled()
    assert memory.asks(1) == {"a": 1}
    memory.give({"a": [5.0]})
    assert memory.asks(1) == {"b": 1}


def test_a_request_that_was_put_off_joins_its_slot_when_its_time_has_come() -> None:
    memory = Memory()
    memory.put_off(outgoing(1), until=20.0)
    memory.put_off(outgoing(2), until=10.0, limited="a")
    assert (memory.note_time(9.0), len(memory), memory.has_free) == (10.0, 2, False)
    assert memory.asks(9) == {}
    assert (memory.note_time(10.0), memory.asks(9)) == (20.0, {"a": 1})
    assert (memory.note_time(20.0), memory.has_free, len(memory)) == (None, True, 2)


def test_a_request_that_was_put_off_is_forgotten_with_the_others() -> None:
    memory = Memory()
    memory.put_off(outgoing(1), until=20.0)
    assert len(list(memory)) == 1
    memory.clear()
    assert (len(memory), memory.note_time(0.0)) == (0, None)
