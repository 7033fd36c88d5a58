"""What is asked of Redis at most once in a while for all browsers together, in a thread."""

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

#: What takes long is made less often: it is made at most in this share of the time.
SHARE = 1 / 20
#: Seconds for which an answer is waited for; after that the last picture is shown.
PATIENCE = 2.0
#: Seconds after which Redis is asked again if it has not answered.
AGAIN = 1.0


@dataclass(frozen=True)
class Made(Generic[T]):
    """What was made last.

    :param value: None if nothing could be made yet.
    :param at: when it was made, in seconds since 1970.
    :param problem: why there is no newer; empty if this is the newest.
    :param refused: whether the problem is one of the frontier: Redis has answered.
    :param version: another for each that differs.
    """

    value: T | None = None
    at: float = 0.0
    problem: str = ""
    refused: bool = False
    version: int = 0


class Kept(Generic[T]):
    """Makes something at most every *every* seconds, whoever asks for it how often.

    :param make: makes it, in a thread.
    :param every: seconds.
    :param executor: whose threads.
    :param describe: says in one line which Redis failed, and how.
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
        # Seconds that the last two took: one alone may have waited for a connection.
        self._took = (0.0, 0.0)
        self._is_stale = False
        self._made: Made[T] = Made()
        #: When somebody asked for it last, by the monotonic clock.
        self.asked = time.monotonic()

    async def get(self, max_age: float = 0.0) -> Made[T]:
        """Return what was made last, after it was made anew if that was due.

        :param max_age: seconds for which the last one is good enough, if that is more than usual.
        """
        self.asked = time.monotonic()
        under_way = self._begin_if_due(max_age)
        if under_way is not None:
            # The thread goes on if nobody waits for it any more.
            await asyncio.wait([asyncio.wrap_future(under_way)], timeout=PATIENCE)
        return self._latest()

    def forget(self) -> None:
        """Have the next who asks be given a new one: something was changed."""
        with self._lock:
            self._ended = 0.0
            # What is under way may have asked before.
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
            logger.exception("Unexpected error in the dashboard")
            text = f"Unexpected error ({type(error).__name__}). This is a bug in scrapy-rq-sched; report it"
            made = Made(None, 0.0, text, True, before.version + 1)
        with self._lock:
            self._made = made
            ended = time.monotonic()
            self._took = (self._took[1], ended - begun if not made.problem else 0.0)
            self._ended, self._is_stale = 0.0 if self._is_stale else ended, False
            self._under_way = None
