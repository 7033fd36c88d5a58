"""One batch on its way to Redis: whole, or after failures without the requests that may be the cause.

Most failures are outages, and the same batch goes through when Redis is back. But a request may be larger
than the server takes, or than the network carries in time; then the batch would be sent for ever. So after
a second failure the batch goes without its requests. If that goes through, the requests are sent in smaller
batches, down to one; and one that fails by itself, while the rest goes through, is kept from Redis.
"""

from __future__ import annotations

from ..frontier.messages import Batch, Push
from ..frontier.replies import Reply

#: Failures after which a batch goes without its requests.
WHOLE = 2


class Attempt:
    """What is sent of a batch, and what is known of why it failed.

    :ivar said: the batch, or what is sent of it.
    :ivar failures: how often it failed.
    """

    def __init__(self) -> None:
        self.said = Batch(0)
        self.failures = 0
        self._whole = self.said
        self._error: Exception | None = None
        # The request that was alone in the last batch that failed.
        self._suspect: Push | None = None

    def begin(self, batch: Batch) -> None:
        """Have *batch* sent."""
        self.said = self._whole = batch
        self.failures = 0
        self._error = None

    @property
    def pushes(self) -> int | None:
        """How many of the requests were sent at last; None if all were."""
        return None if self.said is self._whole else len(self.said.pushes)

    def failed(self, error: Exception, at_once: bool) -> None:
        """Note a failure; *at_once* if no repeat can make it right."""
        self.failures += 1
        self._error = self._error or error
        if self._whole.pushes and (at_once or self.failures >= WHOLE):
            self.said = self._whole.of_first(0)

    def over(self, reply: Reply) -> Exception | None:
        """Note that *reply* came.

        :return: why the next request has to be kept from Redis, if it has to be.
        """
        if self.said is self._whole:
            self._suspect = None
        alone = len(self._whole.pushes) == 1 and self.said is not self._whole and reply.stored == 0
        suspect = self._whole.pushes[0] if alone else None
        is_culprit = suspect is not None and suspect is self._suspect
        self._suspect = None if is_culprit else suspect or self._suspect
        return self._error if is_culprit else None
