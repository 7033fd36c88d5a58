"""The event loop of a crawl: a reactor of Twisted, or asyncio's event loop without a reactor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred


class EventLoop:
    """Timers and calls from threads, with the same methods for Twisted's reactors and for asyncio."""

    def __init__(self) -> None:
        self._reactor = sys.modules.get("twisted.internet.reactor")
        self._loop = None if self._reactor is not None else asyncio.get_running_loop()

    @staticmethod
    def is_running() -> bool:
        """Return whether an event loop is running, so that a call must not wait for Redis."""
        reactor = sys.modules.get("twisted.internet.reactor")
        if reactor is not None and reactor.running:
            return True
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    def call_later(self, delay: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call *call* in *delay* seconds; return a function that cancels the call."""
        if self._reactor is None:
            assert self._loop is not None  # noqa: S101 - there is a reactor or a loop
            return self._loop.call_later(delay, call).cancel
        delayed = self._reactor.callLater(delay, call)
        return lambda: delayed.cancel() if delayed.active() else None

    def before_shutdown(self, call: Callable[[], Any]) -> None:
        """Call *call* before the reactor stops. The reactor waits for the Deferred that *call* returns."""
        if self._reactor is not None:
            self._reactor.addSystemEventTrigger("before", "shutdown", call)

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking the event loop."""
        waited: Deferred[None] = Deferred()
        self.call_later(seconds, lambda: None if waited.called else waited.callback(None))
        await maybe_deferred_to_future(waited)

    def call_from_thread(self, call: Callable[..., None], *args: Any) -> None:
        """Call *call* on the event loop; may be used in any thread."""
        if self._reactor is not None:
            self._reactor.callFromThread(call, *args)
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *args)
