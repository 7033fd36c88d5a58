"""The frontier of a user's own queue class: plain ``push`` and ``pop``, with a weaker guarantee.

Duplicates, start requests, seeds and the finish are the exchange's as ever. But a request is marked as
seen and pushed in two steps, and popped, not leased: what a killed worker had popped or was about to
push is lost.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from scrapy import Request

from ..connection import DataError, RedisError, may_pass
from ..keys import Keys
from .client import Frontier, Left, Opened, Waiting
from .messages import Batch, Bounds
from .replies import Reply, Told

logger = logging.getLogger(__name__)


class CustomQueueFrontier(Frontier):
    """A frontier whose waiting requests are in *queue*.

    :param queue: has ``push(request)``, ``pop()``, ``__len__`` and ``clear()``.
    """

    def __init__(
        self,
        queue: Any,
        server: Any,
        keys: Keys,
        worker: str,
        bounds: Bounds | None = None,
        dupefilter: str = "exact",
    ) -> None:
        super().__init__(server, keys, worker, "custom", bounds, dupefilter, length=lambda: len(queue))
        self._queue = queue
        # Of the exchange with this number: places that are through, those the queue did not take, and
        # what was popped.
        self._number = 0
        self._is_busy = False
        self._done: set[int] = set()
        self._kept: list[int] = []
        self._popped: list[Request] = []
        self._told = False
        # The place of the push that Redis has refused.
        self._failed_at: int | None = None

    def open(self, *arguments: Any, **options: Any) -> Opened | Waiting:
        """Join the frontier; see :meth:`Frontier.open`."""
        found = super().open(*arguments, **options)
        if isinstance(found, Opened) and found.flushed:
            self._queue.clear()
        return found

    def exchange(self, batch: Batch) -> Reply:
        """Exchange, then push what is new and pop what is wanted. A repeat goes on where it failed."""
        if batch.number != self._number:
            self._number, self._done, self._kept, self._popped = batch.number, set(), [], []
            self._failed_at = None
            # Said before anything is popped: nobody must take an empty queue for the end meanwhile.
            self._is_busy = len(self._queue) > 0
        said = replace(batch, busy=batch.busy or self._is_busy)
        reply = super().exchange(said)
        self._push(said, reply)
        self._pop(said.want if said.busy and reply.told == Told.CRAWL else 0)
        return replace(reply, kept=tuple(self._kept), popped=tuple(self._popped))

    def leave(self, finished: bool, persist: bool) -> Left:
        """Leave the fleet; see :meth:`Frontier.leave`."""
        left = super().leave(finished, persist)
        if left.cleared:
            self._queue.clear()
        return left

    def _push(self, batch: Batch, reply: Reply) -> None:
        for place, request in enumerate(batch.requests[: reply.stored]):
            if place in self._done or place in reply.duplicates:
                continue
            try:
                self._queue.push(request)
            except Exception as error:  # the user's code; the request is crawled from memory
                # An outage passes. What Redis refuses for the request's sake it refuses again.
                refused = isinstance(error, DataError) or place == self._failed_at
                if isinstance(error, RedisError) and not refused:
                    self._failed_at = None if may_pass(error) else place
                    raise
                logger.log(
                    logging.DEBUG if self._told else logging.ERROR,
                    "%s cannot be pushed to the queue, and is crawled from memory; more of this kind are "
                    "logged as DEBUG",
                    request,
                    exc_info=True,
                )
                self._told = True
                self._kept.append(place)
            self._done.add(place)

    def _pop(self, want: int) -> None:
        while len(self._popped) < want:
            try:
                request = self._queue.pop()
            except RedisError:
                raise
            except Exception:  # the user's code; what it has popped is its own to save
                logger.exception("An entry of the queue cannot be popped")
                return
            if request is None:
                return
            self._popped.append(request)
