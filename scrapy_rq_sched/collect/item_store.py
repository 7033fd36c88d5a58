"""Items on their way to Redis: in their order, in batches, each of them once."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from ..connection import LONGEST_BACKOFF, RedisError, backoff
from ..engine.event_loop import EventLoop
from ..errors import ItemNotStoredError
from ..frontier.scripts import register
from ..runtime.background import BackgroundThread
from ..runtime.outage import Outage

logger = logging.getLogger(__name__)

#: Items of a batch, and bytes of one step, at the most.
BATCH_ITEMS, STEP_BYTES = 1000, 4_000_000
#: Seconds for which Redis knows a batch again.
REPEATED_WITHIN = 3600

#: Says to which list an item goes, and as what; may raise anything.
Entry = Callable[[], tuple[bytes, bytes]]


class _Waiting:
    """An item that is not in Redis yet."""

    __slots__ = ("entry", "failure", "stored")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.stored: Deferred[None] = Deferred()
        self.failure: Exception | None = None


class _Batch:
    """Items that go to Redis together, in steps of a bounded size."""

    def __init__(self, items: list[_Waiting]) -> None:
        self.items = items
        self._steps: deque[dict[bytes, list[bytes]]] | None = None

    @property
    def steps(self) -> deque[dict[bytes, list[bytes]]]:
        """What is still to be appended, by list; what serializes the items is called once."""
        if self._steps is None:
            self._steps = deque()
            room = 0
            for waiting in self.items:
                try:
                    key, data = waiting.entry()
                except Exception as error:  # the user's code; it is the error of this item alone
                    waiting.failure = error
                    continue
                if not self._steps or room < len(data):
                    self._steps.append({})
                    room = STEP_BYTES
                room -= len(data)
                self._steps[-1].setdefault(key, []).append(data)
        return self._steps


class ItemStore:
    """Appends items to lists in Redis.

    While a batch is on its way the next one grows. The event loop never waits. A batch whose reply was lost
    is sent again with its number, by which Redis knows it.

    :param server: a redis-py client.
    :param batch_key: where Redis keeps the number of the last batch.
    :param is_closing: returns whether the spider closes, so that Redis is not waited for without end.
    :param given_up: called before the first item fails because Redis did not answer for too long.
    :param patience: seconds for which Redis is tried when the spider closes.
    :param count: counts a statistic: its name, and by how much.
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
        """Append an item; return what fires when it is in Redis.

        :param entry: is called in the thread. What it raises is the item's error, and of no other.
        """
        waiting = _Waiting(entry)
        self._queue.append(waiting)
        if self._gave_up:
            self._fail_all()
        elif self._batch is None and not self._kicked:
            # Items that come in the same moment go together.
            self._kicked = True
            self._loop.call_later(0, self._next)
        return waiting.stored

    def close(self) -> Deferred[None]:
        """End the thread when all is stored or given up; return what fires then."""
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
        assert batch is not None  # noqa: S101 - only called where there is one
        self._thread.call(lambda: self._store(batch), lambda _, error: self._sent(batch, error))

    def _store(self, batch: _Batch) -> None:
        """Store what is left of *batch*. Waits for Redis: runs in the thread."""
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
            logger.error("Items were not stored in a way that should not be", exc_info=error)
        self._count("items/redis_errors", 1)
        self._outage.failed(error, f"{self._waiting()} items wait to be stored, and it is tried again")
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
            "%d items are not in Redis, which did not answer for %g s while the spider was closing. With "
            "scrapy_rq_sched.Scheduler the pages that they come from are crawled again; else they are lost",
            self._waiting(),
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
