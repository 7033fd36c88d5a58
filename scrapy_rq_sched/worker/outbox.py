"""Requests on their way to the frontier, in their order, each with a number."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from scrapy import Request

from ..frontier.messages import Batch, Push
from ..frontier.replies import Lease, Reply
from .part import Part

#: The maximum that one exchange carries, so that the script and the packet are short.
BATCH_PUSHES = 1000
BATCH_BYTES = 4 * 1024 * 1024
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

    :ivar orphans: leases that were not begun, of a frontier that is no longer in Redis.
    """

    stored: list[Request] = field(default_factory=list)
    kept: list[Outgoing] = field(default_factory=list)
    duplicates: list[Request] = field(default_factory=list)
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
    :ivar outcome: what became of the last batch.
    """

    def __init__(self, replicated: bool = False) -> None:
        self.enqueued = 0
        self.taken = 0
        self.safe = 0
        self.blocked = self.takes_few = False
        self.outcome = BatchOutcome()
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

    def fill(self, batch: Batch) -> None:  # noqa: D102
        sent = self._take()
        batch.pushes = [outgoing.push for outgoing in sent]
        batch.requests = [outgoing.request for outgoing in sent]

    def _take(self) -> list[Outgoing]:
        size, most = 0, EXCESS if self.takes_few else min(self._most, self._most_together)
        while self._waiting and len(self._sent) < most:
            size += len(self._waiting[0].push.payload)
            if self._sent and size > BATCH_BYTES:
                break
            self._sent.append(self._waiting.popleft())
        self.taken += len(self._sent)
        return self._sent

    def applied(self, reply: Reply) -> None:
        """Note which of the sent requests are settled. The others are sent again first."""
        settled = self._settle(reply.stored, reply.replicated, reply.pushes_sent)
        kept = {place for place, outgoing in enumerate(settled) if not outgoing.push.payload}
        self._sort(settled, set(reply.duplicates), kept if reply.kept is None else set(reply.kept))

    def _sort(self, settled: Iterable[Outgoing], duplicates: set[int], kept: set[int]) -> None:
        self.outcome = outcome = BatchOutcome()
        for place, outgoing in enumerate(settled):
            if place in duplicates:
                outcome.duplicates.append(outgoing.request)
            elif place in kept:
                outcome.kept.append(outgoing)
            else:
                outcome.stored.append(outgoing.request)

    def _settle(self, stored: int, replicated: bool, pushes_sent: int | None) -> list[Outgoing]:
        settled, left = self._sent[:stored], self._sent[stored:]
        self._sent = []
        self._waiting.extendleft(reversed(left))
        self.taken -= len(left)
        if replicated:
            self.safe = self.taken
        self._keep_starts(settled)
        if pushes_sent is not None and left and stored >= pushes_sent:
            self._most_together = max(1, (len(settled) + len(left)) // 2)
            return settled
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
