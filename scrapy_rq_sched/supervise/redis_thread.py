"""A thread that reads from Redis, so that the supervisor never waits for Redis.

While Redis does not answer, a question lasts as long as the timeout of the connection. In this time, the
supervisor must read heartbeats, restart workers, and obey Ctrl-C.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class RedisThread:
    """Make one call after another in a thread.

    The thread is a daemon: the command ends even if Redis does not answer.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="redis", daemon=True).start()

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Begin to call *function*, and return the future of its result."""
        result: Future[T] = Future()
        self._calls.put((function, result))
        return result

    def _run(self) -> None:
        while True:
            function, result = self._calls.get()
            try:
                found = function()
            except Exception as error:  # the caller gets it with the result
                result.set_exception(error)
            else:
                result.set_result(found)
