"""The transport of items to Redis: in their order, in batches, each item once."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from ..connection import LONGEST_BACKOFF, RedisError, backoff
from ..errors import ItemNotStoredError, counted
from ..frontier.scripts import register
from ..runtime.background import BackgroundThread
from ..runtime.event_loop import EventLoop
from ..runtime.outage import Outage

logger = logging.getLogger(__name__)

#: Items of a batch, and bytes of one step, at most.
BATCH_ITEMS, STEP_BYTES = 1000, 4_000_000
#: Seconds for which Redis recognises a repeated batch.
REPEATED_WITHIN = 3600

#: Returns the list of an item, and its bytes; may raise any exception.
Entry = Callable[[], tuple[bytes, bytes]]


class _Waiting:
    """An item that is not in Redis yet."""

    __slots__ = ("entry", "failure", "stored")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.stored: Deferred[None] = Deferred()
        self.failure: Exception | None = None


class _Batch:
    """Items that are sent together, in steps of a limited size."""

    def __init__(self, items: list[_Waiting]) -> None:
        self.items = items
        self._steps: deque[dict[bytes, list[bytes]]] | None = None

    @property
    def steps(self) -> deque[dict[bytes, list[bytes]]]:
        """The entries that are not appended yet, by list. Each item is serialized once."""
        if self._steps is None:
            self._steps = deque()
            room = 0
            for waiting in self.items:
                try:
                    key, data = waiting.entry()
                except Exception as error:  # from the user's code; only this item fails
                    waiting.failure = error
                    continue
                if not self._steps or room < len(data):
                    self._steps.append({})
                    room = STEP_BYTES
                room -= len(data)
                self._steps[-1].setdefault(key, []).append(data)
        return self._steps


class ItemStore:
    """Append items to lists in Redis.

    While one batch is on its way, the next one grows. The event loop never waits. If the reply to a batch is
    lost, the batch is sent again with the same number, by which Redis recognises it.

    :param server: a redis-py client.
    :param batch_key: the key with the number of the last batch.
    :param is_closing: returns whether the spider closes; then it waits at most *patience* for Redis.
    :param given_up: called before the first item fails because Redis did not answer for too long.
    :param patience: seconds for which the store tries to reach Redis while the spider closes.
    :param count: adds to a statistic: its name, and the number to add.
    """

    def __init__(
        self,
        server: Any,
        batch_key: str,
        is_closing: Callable[[], bool],
        given_up: Callable[[], None],
        patience: float,
        count: Callable[[str, int], None],
    ) -> None:
        self._append = register(server, "items")
        self._batch_key = batch_key
        self._is_closing = is_closing
        self._given_up = given_up
        self._patience = patience
        self._count = count
        self._loop = EventLoop()
        self._thread = BackgroundThread("items", self._loop)
        self._queue: deque[_Waiting] = deque()
        self._batch: _Batch | None = None
        self._number = 1
        self._kicked = False
        self._outage = Outage(server)
        self._backoff = backoff(min(LONGEST_BACKOFF, patience / 3))
        self._stop_by: float | None = None
        self._gave_up = False
        self._all_through: Deferred[None] | None = None

    def append(self, entry: Entry) -> Deferred[None]:
        """Append an item; return a Deferred that fires when the item is in Redis.

        :param entry: is called in the thread. If it raises an exception, only this item fails.
        """
        waiting = _Waiting(entry)
        self._queue.append(waiting)
        if self._gave_up:
            self._fail_all()
        elif self._batch is None and not self._kicked:
            # Items that come at the same moment go into one batch.
            self._kicked = True
            self._loop.call_later(0, self._next)
        return waiting.stored

    def close(self) -> Deferred[None]:
        """End the thread when all items are stored or given up; return a Deferred that fires then."""
        self._all_through = Deferred()
        self._all_through.addCallback(lambda _: self._thread.stop())
        if self._batch is None and not self._queue:
            self._all_through.callback(None)
        return self._all_through

    def _next(self) -> None:
        self._kicked = False
        if self._batch is not None:
            return
        if self._queue:
            take = min(len(self._queue), BATCH_ITEMS)
            self._batch = _Batch([self._queue.popleft() for _ in range(take)])
            self._send()
        elif self._all_through is not None and not self._all_through.called:
            self._all_through.callback(None)

    def _send(self) -> None:
        batch = self._batch
        assert batch is not None  # noqa: S101 - the callers have a batch
        self._thread.call(lambda: self._store(batch), lambda _, error: self._sent(batch, error))

    def _store(self, batch: _Batch) -> None:
        """Store the remaining steps of *batch*. Waits for Redis: runs in the thread."""
        while batch.steps:
            lists = batch.steps[0]
            arguments: list[Any] = [self._number, REPEATED_WITHIN]
            for items in lists.values():
                arguments += [len(items), *items]
            self._append(keys=[self._batch_key, *lists], args=arguments)
            batch.steps.popleft()
            self._number += 1

    def _sent(self, batch: _Batch, error: Exception | None) -> None:
        if error is not None:
            self._failed(error)
            return
        self._outage.over()
        self._batch = None
        stored = 0
        for waiting in batch.items:
            if waiting.failure is None:
                stored += 1
                waiting.stored.callback(None)
            else:
                waiting.stored.errback(waiting.failure)
        self._count("items/stored", stored)
        self._next()

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, RedisError):
            logger.error(
                "Unexpected error while storing items. This is a bug in scrapy-rq-sched; please report it",
                exc_info=error,
            )
        self._count("items/redis_errors", 1)
        self._outage.failed(
            error, f"the worker keeps {counted(self._waiting(), 'item')} to store, and tries again"
        )
        if self._is_closing() or self._all_through is not None:
            self._stop_by = self._stop_by or time.monotonic() + self._patience
        if self._stop_by is not None and time.monotonic() > self._stop_by:
            self._give_up()
        else:
            self._loop.call_later(self._backoff.compute(self._outage.failures), self._send)

    def _waiting(self) -> int:
        return len(self._queue) + (len(self._batch.items) if self._batch else 0)

    def _give_up(self) -> None:
        logger.error(
            "%s not stored: Redis did not answer for %g s while the spider was closing. With "
            "scrapy_rq_sched.Scheduler, the pages of these items are crawled again; with another scheduler, "
            "the items are lost",
            counted(self._waiting(), "item was", "items were"),
            self._patience,
        )
        self._gave_up = True
        self._given_up()
        if self._batch is not None:
            self._queue.extendleft(reversed(self._batch.items))
            self._batch = None
        self._fail_all()
        self._next()

    def _fail_all(self) -> None:
        while self._queue:
            waiting = self._queue.popleft()
            self._count("items/not_stored", 1)
            waiting.stored.errback(
                waiting.failure or ItemNotStoredError("Redis did not answer while the spider was closing")
            )
