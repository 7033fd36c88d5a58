"""The exchange where no event loop runs: made at once, and waited for."""

from __future__ import annotations

import time

from ..connection import RedisError, unreachable
from ..frontier.client import Frontier
from ..frontier.messages import Batch, Reply
from .attempt import Attempt
from .loop import Exchanging, next_batch
from .state import Worker


class InlineExchange:
    """Exchanges for a scheduler that is driven by hand."""

    def __init__(self, frontier: Frontier, worker: Worker, scheduler: Exchanging) -> None:
        self._frontier = frontier
        self._worker = worker
        self._scheduler = scheduler
        self._batch: Batch | None = None
        self._attempt = Attempt()

    def exchange(self) -> Reply:
        """Exchange until all is said, or there is no room for it.

        :raises RedisUnreachableError: if Redis does not answer; nothing is lost, the next call says it.
        """
        while True:
            if self._batch is None:
                self._batch = next_batch(self._worker, self._scheduler)
                self._attempt.begin(self._batch)
            started = time.monotonic()
            try:
                reply = self._frontier.exchange(self._attempt.said)
            except RedisError as error:
                self._scheduler.count_error()
                was_whole = self._attempt.pushes is None
                self._attempt.failed(error, at_once=False)
                if was_whole and self._attempt.pushes is not None:
                    continue  # it may be a request that cannot be sent: then the rest can
                raise unreachable(self._frontier.server, error) from error
            self._batch = None
            self._scheduler.take_reply(reply, time.monotonic() - started, self._attempt.pushes)
            culprit = self._attempt.over(reply)
            if culprit is not None:
                self._scheduler.withdraw_first(culprit)
            if not self._worker.has_news or self._worker.outbox.blocked or not reply.replicated:
                return reply
