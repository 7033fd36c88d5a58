"""The thread that waits for Redis, so that the event loop does not."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from ..engine.event_loop import EventLoop


class BackgroundThread:
    """A thread that does one call after the other and gives each result to the event loop.

    It is a daemon: a process that was told twice to stop does not wait for Redis to let it.
    """

    def __init__(self, name: str, loop: EventLoop) -> None:
        self._loop = loop
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Callable[..., None]] | None]
        self._calls = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, function: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Call *function* in the thread, then *done* with its result or error on the event loop."""
        self._calls.put((function, done))

    def stop(self) -> None:
        """End the thread when it has nothing more to do."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            function, done = call
            result, failure = None, None
            try:
                result = function()
            except Exception as error:  # whatever it is, it is handed over, not handled, here
                failure = error
            self._loop.call_from_thread(done, result, failure)
