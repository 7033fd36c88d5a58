"""The news of a worker's leases: finished, returned, refused and failed ones."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ..errors import one_line
from ..frontier.messages import Batch, Failed, Finished
from ..frontier.replies import Lease, Reply
from .outbox import Outbox
from .part import Part


@dataclass(frozen=True, slots=True)
class Ended:
    """A lease with a finished or failed request.

    :param after: the number of the last push that must be stored before; 0 if the request led to none.
    :param reason: the reason to set the lease aside; empty if it is finished.
    """

    lease: str
    after: int
    reason: str = ""
    traceback: str = ""


class Releases(Part):
    """The leases that are no longer needed.

    Children before parents: a lease is released in the exchange that stores the last request that it led to,
    or later. Scrapy does not tell which request a push comes from. So all pushes since a request was begun
    count as its children.

    :param outbox: the outbox with the children.
    :param replicated: whether the children must be on replicas as well.
    """

    def __init__(self, outbox: Outbox, replicated: bool = False) -> None:
        self._outbox = outbox
        self._replicated = replicated
        self._ended: deque[Ended] = deque()
        self._sent: list[Ended] = []
        self._given_back: list[str] = []
        self._refused: list[tuple[str, str]] = []
        self._forgotten: list[tuple[str, str]] = []

    def __len__(self) -> int:
        """Return how many leases are done, but not known to be released."""
        return len(self._ended) + len(self._sent)

    @property
    def has_news(self) -> bool:
        """Whether there is something to send."""
        return bool(self._ended or self._given_back or self._refused or self._forgotten)

    @property
    def has_undone(self) -> bool:
        """Whether an unused lease must still be set aside or left to another worker."""
        return bool(self._refused) or any(ended.reason for ended in self._ended)

    @property
    def not_sent(self) -> int:
        """How many leases are done, but not yet sent."""
        return len(self._ended)

    def end(self, lease: Lease, after: int, reason: str = "", traceback: str = "") -> None:
        """Note that *lease* is done; with a *reason*, it is set aside."""
        trace = traceback.encode("utf-8", "backslashreplace").decode()
        self._ended.append(Ended(lease.name, after, one_line(reason), trace))

    def give_back(self, lease: Lease) -> None:
        """Note that *lease* goes back to its place in the queue."""
        self._given_back.append(lease.name)

    def refuse(self, lease: Lease, reason: str) -> None:
        """Note that *lease* must go to another worker."""
        self._refused.append((lease.name, one_line(reason)))

    def drop(self, lease: Lease, mode: str, fingerprint: str) -> None:
        """Note that *lease* is dropped, and that its request does not count as seen."""
        self._ended.appendleft(Ended(lease.name, 0))
        self.forget(mode, fingerprint)

    def forget(self, mode: str, fingerprint: str) -> None:
        """Note that *fingerprint* does not count as seen."""
        self._forgotten.append((mode, fingerprint))

    def fill(self, batch: Batch) -> None:
        """Put the ended leases into *batch*, which has its pushes already."""
        before = self._outbox.taken - len(batch.pushes)
        safe = self._outbox.safe if self._replicated else self._outbox.taken
        self._sent = [ended for ended in self._ended if ended.after <= safe]
        self._ended = deque(ended for ended in self._ended if ended.after > safe)
        for ended in self._sent:
            after = max(0, ended.after - before)
            if ended.reason:
                batch.failed.append(Failed(ended.lease, after, ended.reason, ended.traceback))
            else:
                batch.finished.append(Finished(ended.lease, after))
        batch.given_back, self._given_back = self._given_back, []
        batch.refused, self._refused = self._refused, []
        batch.forgotten, self._forgotten = self._forgotten, []

    def applied(self, reply: Reply) -> None:
        """Note that the batch was applied. A lease is sent again if its pushes found no room."""
        self._ended.extendleft(reversed([ended for ended in self._sent if ended.after > self._outbox.taken]))
        self._sent = []

    def rolled_back(self) -> None:
        """Forget all leases, because Redis has put them back."""
        self._ended.clear()
        self._sent = []
        self._given_back, self._refused = [], []
