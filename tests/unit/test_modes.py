"""A worker that is told to end while it is being opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from twisted.internet.defer import Deferred

from scrapy_rq_sched.connection import RedisConnectionError
from scrapy_rq_sched.frontier.client import Waiting
from scrapy_rq_sched.worker import membership, modes
from scrapy_rq_sched.worker.modes import Crawling


class Opening:
    """A worker that joins a frontier whose replies come when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        #: The calls of the thread that have no reply yet, with their functions for the reply.
        self.calls: list[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]] = []
        self.shutdown: list[Callable[[], Deferred[None] | None]] = []
        self.session = Mock()
        self.session.settings.join_timeout = 60
        loop = Mock()
        loop.before_shutdown = self.shutdown.append
        monkeypatch.setattr(modes, "EventLoop", lambda: loop)
        monkeypatch.setattr(modes, "_line_of", lambda session: Mock(came=""))
        monkeypatch.setattr(membership, "join", Mock(side_effect=lambda *_: "join"))
        monkeypatch.setattr(modes, "JoinRetry", lambda seconds: Mock(again=lambda error, join: True))
        exchanges = Mock()
        exchanges.call = lambda function, done: self.calls.append((function, done))
        monkeypatch.setattr(modes, "ExchangeLoop", lambda *_: exchanges)
        self.session.frontier.leave = lambda *_: "leave"
        self.crawling = Crawling(self.session, Mock())
        self.crawling.open()

    def reply(self, found: Any = None, error: Exception | None = None) -> None:
        _, done = self.calls.pop(0)
        done(found, error)

    def told_to_end(self) -> Deferred[None] | None:
        (leave_line,) = self.shutdown
        return leave_line()


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Opening:
    return Opening(monkeypatch)


def test_a_worker_that_does_not_know_yet_that_it_is_in_line_leaves_the_line(opening: Opening) -> None:
    gone = opening.told_to_end()
    assert gone is not None
    assert [function() for function, _ in opening.calls] == ["join", "leave"]
    opening.reply(Mock(spec=Waiting))
    assert not gone.called
    opening.reply()
    assert gone.called


def test_a_worker_that_redis_has_not_answered_has_no_line_to_leave(opening: Opening) -> None:
    opening.reply(error=RedisConnectionError("connection refused"))
    assert opening.told_to_end() is None
    assert opening.calls == []
