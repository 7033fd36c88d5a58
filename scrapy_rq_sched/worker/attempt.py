"""The attempts to send a batch, and what it is that cannot be sent.

Most failures are outages, and the same batch succeeds when Redis is back. But a request or an item may be too
large for the server, or for the network to send in time; then the batch would be repeated forever. So after a
second failure, the batch is sent without its requests and items. If this succeeds, they are sent in smaller
batches, down to one request, or to the items of one page. A request that fails alone, while other batches
succeed, is kept from Redis; items that do, are set aside with their page.
"""

from __future__ import annotations

from dataclasses import replace

from ..frontier.messages import Batch, ItemGroup, Push
from ..frontier.replies import Reply

#: Failures after which a batch is sent without its requests.
WHOLE = 2
#: Failures of a page's items alone, while Redis answers, after which the page is set aside.
PROOFS = 3


class Attempt:
    """The part of a batch that is sent, and the failures so far.

    :ivar sent: the batch, or the part of it that is sent.
    :ivar failures: how often the batch has failed, and :ivar error: the first error.
    """

    def __init__(self) -> None:
        self.sent = Batch(0)
        self.failures = 0
        self._whole = self.sent
        self.error: Exception | None = None
        # Whether the part has failed, too: then Redis was away, and the batch is not to blame.
        self._was_away = False
        # The request that was alone in a batch that failed; and items that were, with the number of failures.
        self._push: Push | None = None
        self._items: ItemGroup | None = None
        self._proofs = 0

    def begin(self, batch: Batch) -> None:
        """Begin with a new *batch*."""
        self.sent = self._whole = batch
        self.failures = 0
        self.error = None
        self._was_away = False

    def reply_of(self, reply: Reply) -> Reply:
        """Return *reply* with the part of the batch that was sent: by the last attempt, or before."""
        if self.is_whole:
            return reply
        # If the reply to the whole batch was lost, this is a repetition, and tells of the items, too.
        items_sent = not self._whole.item_groups or reply.items is not None
        return replace(reply, pushes_sent=len(self.sent.pushes), items_sent=items_sent)

    @property
    def is_whole(self) -> bool:
        """Whether the last attempt sent the whole batch."""
        return self.sent is self._whole

    def failed(self, error: Exception, at_once: bool) -> None:
        """Note a failure; *at_once*: a repetition cannot succeed."""
        self.failures += 1
        self.error = self.error or error
        self._was_away = self._was_away or not self.is_whole
        if (self._whole.pushes or self._whole.item_groups) and (at_once or self.failures >= WHOLE):
            self.sent = self._whole.of_first(0)

    def over(self, reply: Reply) -> tuple[Exception | None, ItemGroup | None]:
        """Note the *reply*; return why to keep the next request from Redis, and items that cannot be sent."""
        pushes, groups = self._whole.pushes, self._whole.item_groups
        if self.is_whole or reply.stored or reply.items is not None:
            self._push = None if pushes else self._push
            if any(group is self._items for group in groups):
                self._items, self._proofs = None, 0
        elif not self._was_away and len(pushes) + len(groups) == 1:
            if pushes:
                return self._suspect(pushes[0]), None
            return None, self._suspect_items(groups[0])
        return None, None

    def _suspect(self, push: Push) -> Exception | None:
        before, self._push = self._push, push
        if push is not before:
            return None
        self._push = None
        return self.error

    def _suspect_items(self, items: ItemGroup) -> ItemGroup | None:
        self._proofs = self._proofs + 1 if items is self._items else 1
        self._items = items
        return items if self._proofs >= PROOFS else None
