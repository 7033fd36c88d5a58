"""What each part of a worker has to do with an exchange."""

from __future__ import annotations

from ..frontier.messages import Batch
from ..frontier.replies import Reply


class Part:
    """A part of a worker that has news for the frontier, or gets news from it.

    ``Session`` calls these methods of all its parts. Each field of a batch is filled by exactly one part.
    """

    def fill(self, batch: Batch) -> None:
        """Put the news into *batch*, and consider it sent: the batch is repeated until it is answered."""

    def applied(self, reply: Reply) -> None:
        """Note that the last batch was applied, and the *reply* to it."""

    def rolled_back(self) -> None:
        """Note that Redis has come back with older data. The reply with this news is applied next."""
