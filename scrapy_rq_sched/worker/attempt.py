"""The attempts to send one batch: whole, or after failures without the requests that may be the cause.

Most failures are outages, and the same batch succeeds when Redis is back. But a request may be too large for
the server, or for the network to send in time; then the batch would be repeated forever. So after a second
failure, the batch is sent without its requests. If this succeeds, the requests are sent in smaller batches,
down to one request. A request that fails alone, while other batches succeed, is kept from Redis.
"""

from __future__ import annotations

from ..frontier.messages import Batch, Push
from ..frontier.replies import Reply

#: Failures after which a batch is sent without its requests.
WHOLE = 2


class Attempt:
    """The part of a batch that is sent, and the failures so far.

    :ivar said: the batch, or the part of it that is sent.
    :ivar failures: how often the batch has failed.
    """

    def __init__(self) -> None:
        self.said = Batch(0)
        self.failures = 0
        self._whole = self.said
        self._error: Exception | None = None
        # The only request of the last batch that failed.
        self._suspect: Push | None = None

    def begin(self, batch: Batch) -> None:
        """Begin with a new *batch*."""
        self.said = self._whole = batch
        self.failures = 0
        self._error = None

    @property
    def pushes(self) -> int | None:
        """How many requests the last attempt sent; None if it sent all of them."""
        return None if self.said is self._whole else len(self.said.pushes)

    def failed(self, error: Exception, at_once: bool) -> None:
        """Note a failure; *at_once*: a repetition cannot succeed."""
        self.failures += 1
        self._error = self._error or error
        if self._whole.pushes and (at_once or self.failures >= WHOLE):
            self.said = self._whole.of_first(0)

    def over(self, reply: Reply) -> Exception | None:
        """Note the *reply* to the batch.

        :return: the error for which the next request must be kept from Redis, or None.
        """
        if self.said is self._whole:
            self._suspect = None
        alone = len(self._whole.pushes) == 1 and self.said is not self._whole and reply.stored == 0
        suspect = self._whole.pushes[0] if alone else None
        is_culprit = suspect is not None and suspect is self._suspect
        self._suspect = None if is_culprit else suspect or self._suspect
        return self._error if is_culprit else None
