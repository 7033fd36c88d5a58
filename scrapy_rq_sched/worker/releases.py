"""What a worker has to say of its leases: which are finished, and what else became of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ..errors import one_line
from ..frontier.messages import Batch, Failed, Finished
from ..frontier.replies import Lease
from .outbox import Outbox


@dataclass(frozen=True, slots=True)
class Ended:
    """A lease whose request is done.

    :param after: the number of the last push that has to be stored before; 0 if it led to none.
    :param reason: why it is to be set aside, if it is.
    """

    lease: str
    after: int
    reason: str = ""
    traceback: str = ""


class Releases:
    """The leases that are no longer needed.

    Children before parents: a lease is released in the exchange that stores the last of what its request
    led to, or after it. Whose request a push is, Scrapy does not say: so all that came from the moment
    in which a request was begun counts as its.

    :param outbox: where the children are.
    :param replicated: whether they have to be on replicas as well.
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
        """Return how many leases are done and not known to be released."""
        return len(self._ended) + len(self._sent)

    @property
    def has_news(self) -> bool:
        """Whether there is something to say."""
        return bool(self._ended or self._given_back or self._refused or self._forgotten)

    @property
    def has_undone(self) -> bool:
        """Whether a lease of which nothing was made is still to be set aside or left to another worker."""
        return bool(self._refused) or any(ended.reason for ended in self._ended)

    @property
    def not_sent(self) -> int:
        """How many leases are done, and not yet said to be."""
        return len(self._ended)

    def end(self, lease: Lease, after: int, reason: str = "", traceback: str = "") -> None:
        """Note that *lease* is done; with a *reason*, that it is to be set aside."""
        trace = traceback.encode("utf-8", "backslashreplace").decode()
        self._ended.append(Ended(lease.name, after, one_line(reason), trace))

    def give_back(self, lease: Lease) -> None:
        """Note that *lease* goes back to where it stood."""
        self._given_back.append(lease.name)

    def refuse(self, lease: Lease, reason: str) -> None:
        """Note that another worker has to do *lease*."""
        self._refused.append((lease.name, one_line(reason)))

    def drop(self, lease: Lease, mode: str, fingerprint: str) -> None:
        """Note that *lease* is dropped, and that its request does not count as seen."""
        self._ended.appendleft(Ended(lease.name, 0))
        self.forget(mode, fingerprint)

    def forget(self, mode: str, fingerprint: str) -> None:
        """Note that *fingerprint* does not count as seen."""
        self._forgotten.append((mode, fingerprint))

    def fill(self, batch: Batch, before: int) -> None:
        """Put what there is to say into *batch*, and consider it said.

        :param before: the number of the last push before those of this batch.
        """
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

    def settle(self) -> None:
        """Take note that all was said; what has to wait for pushes that found no room is said again."""
        self._ended.extendleft(reversed([ended for ended in self._sent if ended.after > self._outbox.taken]))
        self._sent = []

    def clear(self) -> None:
        """Forget about all leases: Redis, back with older data, has put them back."""
        self._ended.clear()
        self._sent = []
        self._given_back, self._refused = [], []
