"""The frontier for a user's own queue class, which has only ``push`` and ``pop``: with a weaker guarantee.

The exchange still handles duplicates, start requests, seeds and the finish. But a request is marked as seen
in one step and pushed in another, and it is popped instead of leased. So a killed worker loses the requests
that it had popped, and the requests that it was about to push.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from scrapy import Request

from ..connection import DataError, RedisError, may_pass
from ..keys import Keys
from .client import Frontier, Left, Opened, Waiting
from .fleet_config import FleetConfig
from .messages import Batch
from .replies import Order, Reply

logger = logging.getLogger(__name__)


class CustomQueueFrontier(Frontier):
    """A frontier that keeps its waiting requests in *queue*.

    :param queue: an object with ``push(request)``, ``pop()``, ``__len__`` and ``clear()``.
    """

    def __init__(
        self,
        queue: Any,
        server: Any,
        keys: Keys,
        worker: str,
        config: FleetConfig | None = None,
        dupefilter: str = "exact",
    ) -> None:
        super().__init__(server, keys, worker, "custom", config, dupefilter, length=lambda: len(queue))
        self._queue = queue
        # The number of the current exchange. In it: the places of the pushes that are done, of the pushes
        # that the queue did not take, and the requests that were popped.
        self._number = 0
        self._is_busy = False
        self._done: set[int] = set()
        self._kept: list[int] = []
        self._popped: list[Request] = []
        self._has_logged = False
        # The place of the push that Redis has refused.
        self._failed_at: int | None = None

    def open(self, *arguments: Any, **options: Any) -> Opened | Waiting:
        """Join the frontier; see :meth:`Frontier.open`."""
        found = super().open(*arguments, **options)
        if isinstance(found, Opened) and found.flushed:
            self._queue.clear()
        return found

    def exchange(self, batch: Batch) -> Reply:
        """Make the exchange, push the new requests, and pop as many as are wanted.

        A repeated exchange continues where the first attempt failed.
        """
        if batch.number != self._number:
            self._number, self._done, self._kept, self._popped = batch.number, set(), [], []
            self._failed_at = None
            # Redis hears this before anything is popped. Otherwise other workers could meanwhile take the
            # empty queue for the end of the crawl.
            self._is_busy = len(self._queue) > 0
        sent = replace(batch, busy=batch.busy or self._is_busy)
        reply = super().exchange(sent)
        self._push(sent, reply)
        self._pop(sent.want if sent.busy and reply.order == Order.CRAWL else 0)
        return replace(reply, kept=tuple(self._kept), popped=tuple(self._popped))

    def leave(self, finished: bool, persist: bool, returns: bool = False) -> Left:
        """Leave the fleet; see :meth:`Frontier.leave`."""
        left = super().leave(finished, persist, returns)
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
                # An outage ends. But if Redis refuses the request itself, it refuses a repeat, too.
                refused = isinstance(error, DataError) or place == self._failed_at
                if isinstance(error, RedisError) and not refused:
                    self._failed_at = None if may_pass(error) else place
                    raise
                logger.log(
                    logging.DEBUG if self._has_logged else logging.ERROR,
                    "%s cannot be pushed to the queue: this worker crawls it from memory. Further requests "
                    "of this kind are logged as DEBUG",
                    request,
                    exc_info=True,
                )
                self._has_logged = True
                self._kept.append(place)
            self._done.add(place)

    def _pop(self, want: int) -> None:
        while len(self._popped) < want:
            try:
                request = self._queue.pop()
            except RedisError:
                raise
            except Exception:  # the user's code, which must itself save the entry that it has popped
                logger.exception("An entry of the queue cannot be popped")
                return
            if request is None:
                return
            self._popped.append(request)
