"""Cache a value from Redis for all browsers, and renew it in a thread from time to time."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ..connection import RedisError
from ..errors import FrontierError

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: The share of the time that making a value may take: a slow one is made less often.
SHARE = 1 / 20
#: Seconds to wait for a new value; after that the last one is shown.
PATIENCE = 2.0
#: Seconds until the next attempt if Redis did not answer.
AGAIN = 1.0


@dataclass(frozen=True)
class Made(Generic[T]):
    """The value that was made last.

    :param value: the value; None if it could not be made yet.
    :param at: the time at which it was made, in seconds since 1970.
    :param problem: the reason why it could not be renewed; empty if it is the newest.
    :param refused: whether Redis answered, so that the problem concerns the frontier.
    :param version: a number that changes with the value.
    """

    value: T | None = None
    at: float = 0.0
    problem: str = ""
    refused: bool = False
    version: int = 0


class Cached(Generic[T]):
    """A value that is made at most every *every* seconds, however often it is asked for.

    :param make: makes the value. It is called in a thread.
    :param every: seconds.
    :param executor: provides the thread.
    :param describe: returns in one line which Redis failed, and how.
    """

    def __init__(
        self,
        make: Callable[[], T],
        every: float,
        executor: Executor,
        describe: Callable[[RedisError | None], str],
    ) -> None:
        self._make = make
        self._every = every
        self._executor = executor
        self._describe = describe
        self._lock = threading.Lock()
        self._under_way: Future[None] | None = None
        self._begun = self._ended = 0.0
        # Seconds that the last two runs took. One of them may have waited for a connection.
        self._took = (0.0, 0.0)
        self._is_stale = False
        self._made: Made[T] = Made()
        #: The time of the last :meth:`get`, by the monotonic clock.
        self.asked = time.monotonic()

    async def get(self, max_age: float = 0.0) -> Made[T]:
        """Return the value, renewed if that is due.

        :param max_age: seconds for which an old value is good enough, if more than *every*.
        """
        self.asked = time.monotonic()
        under_way = self._begin_if_due(max_age)
        if under_way is not None:
            # After the timeout the thread continues by itself.
            await asyncio.wait([asyncio.wrap_future(under_way)], timeout=PATIENCE)
        return self._latest()

    @property
    def has_value(self) -> bool:
        """Whether a value was made."""
        return self.latest is not None

    @property
    def latest(self) -> T | None:
        """The value that was made last; None without one."""
        return self._made.value

    def forget(self) -> None:
        """Make the next :meth:`get` renew the value, because something was changed."""
        with self._lock:
            self._ended = 0.0
            # A run under way may have read Redis before the change.
            self._is_stale = self._under_way is not None

    def _begin_if_due(self, max_age: float) -> Future[None] | None:
        with self._lock:
            is_away = self._made.problem and not self._made.refused
            pause = AGAIN if is_away else max(self._every, max_age, min(self._took) / SHARE)
            if self._under_way is None and (not self._ended or time.monotonic() >= self._ended + pause):
                self._begun = time.monotonic()
                self._under_way = self._executor.submit(self._run)
            return self._under_way

    def _latest(self) -> Made[T]:
        with self._lock:
            waited = time.monotonic() - self._begun
            if self._under_way is not None and waited >= PATIENCE and not self._made.problem:
                return replace(self._made, problem=self._describe(None))
            return self._made

    def _run(self) -> None:
        before, begun = self._made, time.monotonic()
        try:
            value = self._make()
            made = Made(value, time.time(), version=before.version + 1)
        except RedisError as error:
            made = replace(before, problem=self._describe(error), refused=False)
        except FrontierError as error:
            made = Made(None, 0.0, str(error), True, before.version + 1)
        except Exception as error:
            bug = "This is a bug in scrapy-rq-sched; please report it"
            logger.exception("Unexpected error in the dashboard. %s", bug)
            text = f"Unexpected error ({type(error).__name__}). {bug}"
            made = Made(None, 0.0, text, True, before.version + 1)
        with self._lock:
            self._made = made
            ended = time.monotonic()
            self._took = (self._took[1], ended - begun if not made.problem else 0.0)
            self._ended, self._is_stale = 0.0 if self._is_stale else ended, False
            self._under_way = None
