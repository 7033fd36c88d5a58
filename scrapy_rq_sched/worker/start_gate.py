"""The gate of ``start()``: a worker reads no more of it than it can store and the crawl needs."""

from __future__ import annotations

import time

from ..engine.bridge import EngineBridge
from ..frontier.replies import Reply, Told
from ..settings import FrontierSettings
from .limits import Limits
from .state import State


class StartGate:
    """Hold ``start()`` while there are enough requests, or while no request may begin."""

    def __init__(
        self, state: State, limits: Limits, settings: FrontierSettings, engine: EngineBridge
    ) -> None:
        self._state = state
        self._limits = limits
        self._settings = settings
        self._engine = engine
        self._was_full = False

    def holds(self, reply: Reply | None) -> bool:
        """Return whether ``start()`` should wait.

        :param reply: the frontier's last reply.
        """
        enough = self._limits.is_full or len(self._state.memory) >= self._settings.outbox_size
        no_room = reply is not None and bool(reply.full)
        waits = enough or no_room or self._state.told != Told.CRAWL
        return waits or self._holds_first() or self._holds_lazy_start(reply)

    def _holds_first(self) -> bool:
        """Return whether one of the first requests is on its way, and its download could begin.

        Scrapy begins a start request before it reads the next one, as long as it may download more. So the
        first ones are begun in their order, whatever their priorities are.
        """
        items = self._engine.start_items
        if self._state.begun >= items or items > self._settings.concurrency or self._engine.backs_out():
            return False
        return bool(self._state.outbox.unsettled) or self._state.ready.next(time.monotonic()) is not None

    def _holds_lazy_start(self, reply: Reply | None) -> bool:
        """Return whether the requests on their way are enough to fill the downloader.

        A lazy ``start()``, which checks before each request whether the downloader is full
        (``engine.needs_backout()``), would otherwise be read much further than needed. A ``start()`` that
        has not waited when the downloader was full is not lazy.
        """
        if self._engine.backs_out():
            self._was_full = True
            return False
        if self._was_full and not self._engine.reads_lazily:
            return False
        on_their_way = self._state.outbox.unsettled + self._state.ready.usable
        if not self._engine.reads_lazily:
            return on_their_way >= max(self._limits.target, self._settings.concurrency)
        waiting = 0 if reply is None else reply.waiting
        return on_their_way + waiting >= self._settings.concurrency - self._engine.downloading()
