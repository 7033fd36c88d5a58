"""The exchange where no event loop runs: made at once, and waited for."""

from __future__ import annotations

import time

from ..connection import RedisError, unreachable
from ..frontier.messages import Batch
from ..frontier.replies import Reply
from .attempt import Attempt
from .session import Session


class InlineExchange:
    """Exchanges for a scheduler that is driven by hand."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._batch: Batch | None = None
        self._attempt = Attempt()

    def exchange(self, want: int = 0) -> Reply:
        """Exchange until all is said, or there is no room for it.

        :param want: how many leases to have at hand then.
        :raises RedisUnreachableError: if Redis does not answer; nothing is lost, the next call says it.
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
                    continue  # it may be a request that cannot be sent: then the rest can
                raise unreachable(session.frontier.server, error) from error
            self._batch = None
            session.take_reply(reply, time.monotonic() - started, self._attempt.pushes)
            culprit = self._attempt.over(reply)
            if culprit is not None:
                session.withdraw_first(culprit)
            if not session.state.has_news or session.state.outbox.blocked or not reply.replicated:
                return reply
