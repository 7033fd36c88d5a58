"""A thread that waits for Redis, so that the event loop does not wait."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from .event_loop import EventLoop


class BackgroundThread:
    """Make one call after another in a thread, and give each result to the event loop.

    The thread is a daemon: after a second Ctrl-C, the process ends even if Redis does not answer.
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
        """End the thread after its last call."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            function, done = call
            result, failure = None, None
            try:
                result = function()
            except Exception as error:  # *done* handles it
                failure = error
            self._loop.call_from_thread(done, result, failure)
