"""The event loop that a crawl runs on: one of Twisted's reactors, or asyncio's without one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred


class EventLoop:
    """Timers and calls from threads, alike for Twisted's reactors and for asyncio without one."""

    def __init__(self) -> None:
        self._reactor = sys.modules.get("twisted.internet.reactor")
        self._loop = None if self._reactor is not None else asyncio.get_running_loop()

    @staticmethod
    def is_running() -> bool:
        """Return whether an event loop runs, which Redis must not keep waiting."""
        reactor = sys.modules.get("twisted.internet.reactor")
        if reactor is not None and reactor.running:
            return True
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    def call_later(self, delay: float, call: Callable[[], None]) -> Callable[[], None]:
        """Have *call* called in *delay* seconds; return what cancels it."""
        if self._reactor is None:
            assert self._loop is not None  # noqa: S101 - one of both is there
            return self._loop.call_later(delay, call).cancel
        delayed = self._reactor.callLater(delay, call)
        return lambda: delayed.cancel() if delayed.active() else None

    def before_shutdown(self, call: Callable[[], Any]) -> None:
        """Have *call* called before the reactor stops, which waits for the Deferred that it returns."""
        if self._reactor is not None:
            self._reactor.addSystemEventTrigger("before", "shutdown", call)

    async def sleep(self, seconds: float) -> None:
        """Wait without keeping the event loop waiting."""
        waited: Deferred[None] = Deferred()
        self.call_later(seconds, lambda: None if waited.called else waited.callback(None))
        await maybe_deferred_to_future(waited)

    def call_from_thread(self, call: Callable[..., None], *args: Any) -> None:
        """Have *call* called on the event loop; may be used in any thread."""
        if self._reactor is not None:
            self._reactor.callFromThread(call, *args)
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *args)
