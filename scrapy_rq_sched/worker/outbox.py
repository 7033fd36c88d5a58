"""The news for the frontier: numbered requests on their way to it, in their order, and ended leases.

Children before parents: a lease is released in the exchange that stores the last request that it led to, or
later. A request whose fingerprint is known to be seen does not go to the frontier at all.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from scrapy import Request

from ..errors import one_line
from ..frontier.messages import Batch, Failed, Finished, ItemGroup, Push, is_much_unshared
from ..frontier.replies import Lease, Part, Reply

logger = logging.getLogger(__name__)

#: The maximum that one exchange carries, so that the script and the packet are short.
BATCH_PUSHES = 1000
BATCH_BYTES = 4 * 1024 * 1024
BATCH_ITEMS = 5000
#: How many requests are tried if the last exchange found no room for any; and how many are stored at a time
#: beyond FRONTIER_MAX_WAITING, if the crawl could not continue otherwise.
PROBE, EXCESS = 16, 100
#: Seconds for which start requests are kept after they were stored. A Redis that comes back with older
#: data has lost about a second. Other requests are found again on the pages that link to them.
KEEP_STARTS = 10.0


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way to the frontier."""

    push: Push
    request: Request


@dataclass(slots=True)
class BatchOutcome:
    """The requests of a batch: stored in Redis, kept in this worker's memory, or dropped as duplicates.

    :ivar capped: those that were dropped because they are above a cap.
    :ivar orphans: leases that were not begun, of a frontier that is no longer in Redis.
    """

    stored: list[Request] = field(default_factory=list)
    kept: list[Outgoing] = field(default_factory=list)
    duplicates: list[Request] = field(default_factory=list)
    capped: list[Outgoing] = field(default_factory=list)
    orphans: list[Lease] = field(default_factory=list)


class Outbox(Part):
    """The requests to push, and how many of them are sent and stored.

    Numbers count from 1, in the order in which the requests came.

    :param replicated: whether a request is safe only when replicas have it.
    :ivar enqueued: the number of the last request that came.
    :ivar taken: the number of the last request that was sent, or is being sent.
    :ivar safe: the number of the last request that is stored, and replicated if required.
    :ivar blocked: whether the last exchange found no room for all requests that it carried.
    :ivar takes_few: whether to push as few requests as possible, because too many wait.
    :ivar is_held: whether to push nothing now.
    :ivar outcome: what became of the last batch.
    """

    def __init__(self, replicated: bool = False) -> None:
        self.enqueued = 0
        self.taken = 0
        self.safe = 0
        self.blocked = self.takes_few = self.is_held = False
        self.outcome = BatchOutcome()
        #: The slots of the requests that are not sent.
        self.slots: set[str] = set()
        self._replicated = replicated
        self._waiting: deque[Outgoing] = deque()
        self._sent: list[Outgoing] = []
        self._most = BATCH_PUSHES
        # The maximum after a larger batch could not be sent.
        self._most_together = BATCH_PUSHES
        # Start requests, which no page would lead to again: number, time when stored, request.
        self._starts: deque[tuple[int, float, Outgoing]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_on_trial(self) -> bool:
        """Whether only one request is sent at a time, because larger batches could not be sent."""
        return self._most_together == 1

    @property
    def is_settled(self) -> bool:
        """Whether there are no unsettled requests."""
        return not (self._waiting or self._sent)

    @property
    def unsettled(self) -> int:
        """How many requests are not yet stored, kept in memory, or dropped."""
        return len(self._waiting) + len(self._sent)

    def append(self, outgoing: Outgoing) -> None:
        """Put *outgoing* at the end."""
        self.enqueued += 1
        self._waiting.append(outgoing)
        self.slots.add(outgoing.push.slot)

    def fill(self, batch: Batch) -> None:  # noqa: D102
        sent = self._take()
        batch.pushes = [outgoing.push for outgoing in sent]
        batch.requests = [outgoing.request for outgoing in sent]

    def _take(self) -> list[Outgoing]:
        size, most = 0, min(EXCESS if self.takes_few else self._most, self._most_together)
        most = 0 if self.is_held else most
        while self._waiting and len(self._sent) < most:
            size += len(self._waiting[0].push.payload)
            if self._sent and size > BATCH_BYTES:
                break
            self._sent.append(self._waiting.popleft())
        self.taken += len(self._sent)
        self.slots = {outgoing.push.slot for outgoing in self._waiting}
        return self._sent

    def applied(self, reply: Reply) -> None:
        """Note which of the sent requests are settled. The others are sent again first."""
        settled = self._settle(reply.stored, reply.replicated, reply.pushes_sent)
        kept = {place for place, outgoing in enumerate(settled) if not outgoing.push.payload}
        self._sort(settled, reply, kept if reply.kept is None else set(reply.kept))

    def _sort(self, settled: Iterable[Outgoing], reply: Reply, kept: set[int]) -> None:
        self.outcome = outcome = BatchOutcome()
        duplicates = set(reply.duplicates)
        for place, outgoing in enumerate(settled):
            if place in reply.capped:
                outcome.capped.append(outgoing)
            elif place in duplicates:
                outcome.duplicates.append(outgoing.request)
            elif place in kept:
                outcome.kept.append(outgoing)
            else:
                outcome.stored.append(outgoing.request)

    def _settle(self, stored: int, replicated: bool, pushes_sent: int | None) -> list[Outgoing]:
        settled, left = self._sent[:stored], self._sent[stored:]
        self._sent = []
        self._waiting.extendleft(reversed(left))
        self.slots.update(outgoing.push.slot for outgoing in left)
        self.taken -= len(left)
        if replicated:
            self.safe = self.taken
        self._keep_starts(settled)
        if pushes_sent is not None and left and stored >= pushes_sent:
            self._most_together = max(1, (len(settled) + len(left)) // 2)
            return settled
        if not (settled or left):
            return settled  # it carried none, and shows nothing about them
        self._most_together = min(BATCH_PUSHES, 4 * self._most_together)
        self.blocked = bool(left)
        # Do not send megabytes to a full Redis ten times a second.
        self._most = max(PROBE, min(BATCH_PUSHES, 2 * stored)) if left else BATCH_PUSHES
        return settled

    def withdraw_first(self) -> Outgoing:
        """Keep the next request from Redis, and send only its fingerprint, or nothing if that fails, too.

        :return: the request as it was in the outbox.
        """
        first = self._waiting[0]
        push = first.push
        mark = replace(push, priority=0, payload=b"")
        if not push.payload:
            mark = replace(mark, mode="force", fingerprint="")
        self._waiting[0] = Outgoing(mark, first.request)
        return first

    def rolled_back(self) -> None:
        """Send recent start requests again, because Redis may lack them."""
        again = [outgoing for _, _, outgoing in self._starts]
        self._starts.clear()
        self._waiting.extendleft(reversed(again))
        self.slots.update(outgoing.push.slot for outgoing in again)
        self.enqueued += len(again)

    def _keep_starts(self, settled: list[Outgoing]) -> None:
        now, first = time.monotonic(), self.taken - len(settled) + 1
        for number, outgoing in enumerate(settled, first):
            if outgoing.push.mode.startswith("start") and outgoing.push.payload:
                self._starts.append((number, now, outgoing))
        while self._starts and now - self._starts[0][1] > KEEP_STARTS:
            if self._replicated and self._starts[0][0] > self.safe:
                break
            self._starts.popleft()


@dataclass(frozen=True, slots=True)
class Ended:
    """A lease with a finished or failed request.

    :param after: the number of the last push that must be stored before; 0 if the request led to none.
    :param reason: the reason to set the lease aside; empty if it is finished.
    :param items: the last items of its page, if they are stored with the release.
    """

    lease: str
    after: int
    reason: str = ""
    traceback: str = ""
    items: ItemGroup | None = None


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
        #: Returns how many pages with items the next exchange may release, and the leases that it may not
        #: release, because earlier items of their pages are not sent with it.
        self.room_for_items: Callable[[], tuple[float, Collection[str]]] = lambda: (math.inf, ())
        #: The last items of the pages that the last exchange has released.
        self.released_items: list[ItemGroup] = []

    def __len__(self) -> int:
        """Return how many leases are done, but not known to be released."""
        return len(self._ended) + len(self._sent)

    @property
    def has_news(self) -> bool:
        """Whether there is something to send."""
        return bool(self._ended or self._given_back or self._refused or self._forgotten)

    @property
    def has_returned(self) -> bool:
        """Whether there are leases for other workers, or fingerprints that no longer count as seen."""
        return bool(self._given_back or self._refused or self._forgotten)

    @property
    def has_undone(self) -> bool:
        """Whether an unused lease must still be set aside, left to another worker, or dropped."""
        return bool(self._refused or self._forgotten) or any(ended.reason for ended in self._ended)

    @property
    def not_sent(self) -> int:
        """How many leases are done, but not yet sent."""
        return len(self._ended)

    @property
    def have_items(self) -> bool:
        """Whether a page with items can be released, and does not wait for requests."""
        return any(ended.items is not None and ended.after <= self._stored for ended in self._ended)

    @property
    def items(self) -> list[ItemGroup]:
        """The items of the leases that are being released."""
        return [ended.items for ended in self._sent if ended.items is not None]

    def end(
        self, lease: Lease, after: int, reason: str = "", traceback: str = "", items: ItemGroup | None = None
    ) -> None:
        """Note that *lease* is done; with a *reason*, it is set aside."""
        trace = traceback.encode("utf-8", "backslashreplace").decode()
        self._ended.append(Ended(lease.name, after, one_line(reason), trace, items))

    def fail(self, lease: str, reason: str) -> list[ItemGroup]:
        """Set a lease aside that is done, but not released; return the items that it had."""
        dropped = [ended.items for ended in self._ended if ended.lease == lease and ended.items is not None]
        self._ended = deque(
            Ended(lease, ended.after, reason) if ended.lease == lease else ended for ended in self._ended
        )
        return dropped

    def take_items(self) -> list[ItemGroup]:
        """Take the items of all leases, because these are about to be forgotten."""
        return [ended.items for ended in (*self._sent, *self._ended) if ended.items is not None]

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
        self._choose()
        for ended in self._sent:
            after = max(0, ended.after - before)
            if ended.reason:
                batch.failed.append(Failed(ended.lease, after, ended.reason, ended.traceback))
            else:
                batch.finished.append(Finished(ended.lease, after))
        batch.given_back, self._given_back = self._given_back, []
        batch.refused, self._refused = self._refused, []
        batch.forgotten, self._forgotten = self._forgotten, []

    @property
    def _stored(self) -> int:
        """The number of the last request that is stored when the next exchange has been applied."""
        return self._outbox.safe if self._replicated else self._outbox.taken

    def _choose(self) -> None:
        """Choose the ended leases for the next exchange: not those for whose items it has no room."""
        self._sent, later, stored = [], deque[Ended](), self._stored
        room, incomplete = self.room_for_items()
        count = size = items = 0
        for ended in self._ended:
            is_later = ended.after > stored
            if ended.items is not None and not is_later:
                size, items = size + ended.items.size, items + len(ended.items.items)
                is_much = count > 0 and (size > BATCH_BYTES or items > BATCH_ITEMS)
                is_later = is_much or count >= room or ended.lease in incomplete
                count += not is_later
            (later if is_later else self._sent).append(ended)
        self._ended = later

    def applied(self, reply: Reply) -> None:
        """Note that the batch was applied. A lease is sent again if its pushes or items found no room."""
        refused = reply.has_refused_items
        again = [
            ended
            for ended in self._sent
            if ended.after > self._outbox.taken or (refused and ended.items is not None)
        ]
        kept = {ended.lease for ended in again}
        self.released_items = [
            ended.items for ended in self._sent if ended.items is not None and ended.lease not in kept
        ]
        self._ended.extendleft(reversed(again))
        self._sent = []

    def rolled_back(self) -> None:
        """Forget all leases, because Redis has put them back."""
        self._ended.clear()
        self._sent = []
        self._given_back, self._refused = [], []


class SeenCache:
    """The latest fingerprints that are known to be in Redis, at most *size* of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._epoch: str | None = None
        # Not a dict: after deletions at its front, finding its first key takes longer and longer.
        self._fingerprints: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._fingerprints

    def add(self, fingerprint: str) -> None:
        """Add *fingerprint*; if there are too many, forget the oldest."""
        self._fingerprints[fingerprint] = None
        if len(self._fingerprints) > self._size:
            self._fingerprints.popitem(last=False)

    def discard(self, fingerprint: str) -> None:
        """Forget *fingerprint*, if it is there."""
        self._fingerprints.pop(fingerprint, None)

    def clear(self) -> None:
        """Forget all fingerprints."""
        self._fingerprints.clear()

    def note_epoch(self, epoch: str) -> None:
        """Forget all fingerprints if *epoch* has changed, because Redis has forgotten fingerprints."""
        if self._epoch not in (None, epoch):
            self.clear()
            if not epoch:
                logger.error(
                    "The frontier is no longer in Redis: it was cleared, or the crawl finished while this "
                    "worker was silent for longer than FRONTIER_LEASE_TIMEOUT"
                )
        self._epoch = epoch


#: Requests after which the share is first checked.
FIRST_LOOK = 100
#: Number of different reasons that are counted.
MOST_REASONS = 100


class LocalOnly(Part):
    """Count the requests that were found, and the part that must stay in this worker's memory.

    :ivar found: how many requests were found.
    :ivar unshared: how many of them cannot be stored in Redis.
    """

    def __init__(self) -> None:
        self.found = 0
        self.unshared = 0
        self._reasons: Counter[str] = Counter()
        self._reported = 0, 0
        self._next_look = FIRST_LOOK

    def note(self, reason: str) -> None:
        """Count a request; *reason* is why it cannot be stored, or empty."""
        self.found += 1
        if reason:
            self.unshared += 1
            if reason in self._reasons or len(self._reasons) < MOST_REASONS:
                self._reasons[reason] += 1

    def fill(self, batch: Batch) -> None:
        """Put the counts since the last batch into *batch*, if any request cannot be stored."""
        if self.unshared:
            batch.found, batch.local_only = self.found - self._reported[0], self.unshared - self._reported[1]
            batch.local_only_reason = self.reason
            self._reported = self.found, self.unshared

    @property
    def reason(self) -> str:
        """The most common reason."""
        return max(self._reasons, key=self._reasons.__getitem__, default="")

    @property
    def are_many(self) -> bool:
        """Whether so many requests cannot be stored that a line must be logged."""
        return is_much_unshared(self.found, self.unshared)

    def is_due(self) -> bool:
        """Return whether it is time to check: after a hundred requests, a thousand, and so on."""
        if self.found < self._next_look:
            return False
        self._next_look *= 10
        return True

    def __str__(self) -> str:
        share = 100 * self.unshared // max(1, self.found)
        return (
            f"{share} % of the requests found by this worker ({self.unshared} of {self.found}) cannot be "
            f"shared with other workers: {self.reason}. This worker crawls them from its memory, and they "
            "are lost if it dies"
        )
