"""The exchange without an event loop: each call waits for Redis."""

from __future__ import annotations

import time
from dataclasses import replace

from ..frontier.messages import Batch
from ..frontier.replies import Reply
from ..servers.failures import RedisError, unreachable
from .attempt import Attempt
from .session import Session


class InlineExchange:
    """Exchange for a scheduler that is driven by hand."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._batch: Batch | None = None
        self._attempt = Attempt()

    def exchange(self, want: int = 0) -> Reply:
        """Exchange until everything is sent, or Redis has no room for more.

        :param want: how many ready leases to have afterwards.
        :raises RedisUnreachableError: if Redis does not answer. Nothing is lost: the next call sends it.
        """
        session = self._session
        session.want_by_hand = want
        while True:
            if self._batch is None:
                session.prepare()
                self._batch = session.batch()
                self._attempt.begin(self._batch)
            started = time.monotonic()
            try:
                reply = session.frontier.exchange(self._attempt.said)
            except RedisError as error:
                session.count_error()
                was_whole = self._attempt.pushes is None
                self._attempt.failed(error, at_once=False)
                if was_whole and self._attempt.pushes is not None:
                    continue  # perhaps one request cannot be sent: try the batch without its requests
                raise unreachable(session.frontier.server, error) from error
            self._batch = None
            session.take_reply(replace(reply, pushes_sent=self._attempt.pushes), time.monotonic() - started)
            culprit = self._attempt.over(reply)
            if culprit is not None:
                session.withdraw_first(culprit)
            if not session.state.has_news or session.state.outbox.blocked or not reply.replicated:
                return reply
