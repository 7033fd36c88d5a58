"""The webhook, step by step: which events it sends, and which it drops."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.events.event import Event
from scrapy_rq_sched.events.post import Problem
from scrapy_rq_sched.events.webhook import Webhook
from scrapy_rq_sched.frontier.scripts import register

from ..support.client import Client, Join

pytestmark = pytest.mark.single("names of keys")


class Receiver:
    """A receiver that is away, or fails with some events."""

    where = "http://receiver.test"

    def __init__(self) -> None:
        self.accepted: list[int] = []
        self.poison: set[int] = set()
        self.is_away = False

    def __call__(self, event: Event) -> Problem | None:
        if self.is_away or event.number in self.poison:
            return Problem("it answered with status 500")
        self.accepted.append(event.number)
        return None


class Sender:
    """A webhook that does not pause between two attempts."""

    def __init__(self, server: redis.Redis, redis_url: str, worker: Client, name: str = "w") -> None:
        settings = SimpleNamespace(webhook_url="http://receiver.test", webhook_secret="", webhook_types=[])
        self.webhook = Webhook(Settings({"REDIS_URL": redis_url}), worker.frontier.keys, name, settings)
        self.receiver = self.webhook._post = Receiver()  # type: ignore[assignment]
        self.webhook._pauses = SimpleNamespace(compute=lambda failures: 0)
        script, keys = register(server, "webhook"), worker.frontier.keys.all()

        def say(lease: float, sent: str, number: int = -1) -> tuple[bool, str, int]:
            is_ours, last, its_number = script(keys, [name, int(1000 * lease), sent, number])
            return bool(is_ours), last.decode(), its_number

        self._server, self._say = server, say

    def step(self, times: int = 1) -> bool:
        return [self.webhook._step(self._server, self._say) for _ in range(times)][-1]

    def resign(self) -> None:
        self.webhook._resign(self._say)


@pytest.fixture
def sender(server: redis.Redis, redis_url: str, join: Join) -> Any:
    return Sender(server, redis_url, join())  # events 1 and 2: the crawl has started, the worker has joined


def tell(join: Join, count: int) -> None:
    """Record so many more events: workers that join."""
    for _ in range(count):
        tell.made += 1  # type: ignore[attr-defined]
        join(f"worker{tell.made}")  # type: ignore[attr-defined]


tell.made = 0  # type: ignore[attr-defined]


def test_events_are_numbered_without_gaps(sender: Any, join: Join) -> None:
    tell(join, 3)
    assert sender.step()
    assert sender.receiver.accepted == [1, 2, 3, 4, 5]


def test_an_event_that_always_fails_is_dropped_when_later_ones_are_accepted(
    sender: Any, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    tell(join, 4)
    sender.receiver.poison = {2}
    assert not sender.step(6)
    assert sender.receiver.accepted == [1]
    assert sender.step(6)
    # Two later events came before their turn, and are not sent again.
    assert sorted(sender.receiver.accepted) == [1, 3, 4, 5, 6]
    (dropped,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "status 500. Later events were accepted" in dropped.getMessage()


def test_several_events_that_always_fail_are_dropped_one_after_the_other(sender: Any, join: Join) -> None:
    tell(join, 6)
    sender.receiver.poison = {2, 3, 5}
    sender.step(60)
    assert sorted(sender.receiver.accepted) == [1, 4, 6, 7, 8]


def test_no_event_is_dropped_while_the_receiver_is_away(sender: Any, join: Join) -> None:
    tell(join, 4)
    sender.receiver.is_away = True
    sender.step(100)
    sender.receiver.is_away = False
    sender.step(3)
    assert sorted(sender.receiver.accepted) == [1, 2, 3, 4, 5, 6]


def test_an_event_that_fails_is_kept_if_there_is_no_later_one(sender: Any, join: Join) -> None:
    sender.receiver.poison = {2}
    sender.step(50)
    sender.receiver.poison = set()
    assert sender.step()
    assert sender.receiver.accepted == [1, 2]


def test_events_that_redis_has_removed_are_counted_by_the_next_sender(
    sender: Any, server: redis.Redis, redis_url: str, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    sender.step()
    sender.resign()
    tell(join, 5)
    server.xtrim("s:events", maxlen=2, approximate=False)
    following = Sender(server, redis_url, join(), "another")
    assert following.step()
    assert following.receiver.accepted[:2] == [6, 7]
    assert [record for record in caplog.records if "has missed 3 events" in record.getMessage()]


def test_events_are_counted_though_the_receiver_was_away_from_the_beginning(
    sender: Any, server: redis.Redis, redis_url: str, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    sender.receiver.is_away = True
    sender.step(3)
    sender.resign()
    tell(join, 6)
    server.xtrim("s:events", maxlen=2, approximate=False)
    following = Sender(server, redis_url, join(), "another")
    assert following.step()
    assert following.receiver.accepted == [7, 8]
    assert [record for record in caplog.records if "has missed 6 events" in record.getMessage()]


def test_events_that_were_sent_before_redis_removed_them_are_not_missed(
    sender: Any, server: redis.Redis, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    sender.step()
    server.xtrim("s:events", maxlen=1, approximate=False)
    tell(join, 1)
    assert sender.step()
    server.delete("s:events")
    tell(join, 1)
    sender.step()
    assert not [record for record in caplog.records if "missed" in record.getMessage()]


def test_events_that_a_worker_of_an_older_version_has_sent_are_not_missed(
    sender: Any, server: redis.Redis, redis_url: str, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    sender.step()
    sender.resign()
    tell(join, 5)
    # It notes the id of the last event that it has sent, without the number.
    server.hset("s:events:webhook", "sent", server.xrevrange("s:events", count=1)[0][0])
    tell(join, 1)
    following = Sender(server, redis_url, join(), "another")
    assert following.step()
    assert following.receiver.accepted == [8]
    assert not [record for record in caplog.records if "missed" in record.getMessage()]
