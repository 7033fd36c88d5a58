"""Requests on their way to the frontier, in the order they came, each known by its number."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from scrapy import Request

from ..frontier.messages import Push

#: The most that one exchange carries, so that the script is short and so is the packet.
BATCH_PUSHES = 1000
BATCH_BYTES = 4 * 1024 * 1024
#: How many are tried where the last exchange found no room for any; and how many go beyond
#: FRONTIER_MAX_WAITING at a time, where nothing else would go on.
PROBE, EXCESS = 16, 100
#: Seconds for which start requests are kept after they were stored. A Redis that comes back with older
#: data has lost the last second or so; other requests are found again by the pages that they came from.
KEEP_STARTS = 10.0


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way to the frontier."""

    push: Push
    request: Request


class Outbox:
    """What is to be pushed, and how far that has got.

    Numbers count from 1, in the order in which the requests came.

    :param replicated: whether only what replicas have is safe.
    :ivar enqueued: the number of the last request that came.
    :ivar taken: the number of the last one that was sent, or is being sent.
    :ivar safe: the number of the last one that is stored, and replicated if it has to be.
    :ivar blocked: whether the last exchange found no room for all that was sent.
    """

    def __init__(self, replicated: bool = False) -> None:
        self.enqueued = 0
        self.taken = 0
        self.safe = 0
        self.blocked = False
        self._replicated = replicated
        self._waiting: deque[Outgoing] = deque()
        self._sent: list[Outgoing] = []
        self._most = BATCH_PUSHES
        # How many at a time, after a batch of more could not be sent.
        self._most_together = BATCH_PUSHES
        # Start requests come from no page that would be crawled again: number, when stored, request.
        self._starts: deque[tuple[int, float, Outgoing]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_settled(self) -> bool:
        """Whether all that came has been dealt with."""
        return not (self._waiting or self._sent)

    @property
    def unsettled(self) -> int:
        """How many requests have not been dealt with."""
        return len(self._waiting) + len(self._sent)

    def append(self, outgoing: Outgoing) -> None:
        """Put *outgoing* at the end."""
        self.enqueued += 1
        self._waiting.append(outgoing)

    def take(self, few: bool = False) -> list[Outgoing]:
        """Return what the next exchange pushes, and consider it sent.

        :param few: whether it is no more than has to be, because too many wait.
        """
        size, most = 0, EXCESS if few else min(self._most, self._most_together)
        while self._waiting and len(self._sent) < most:
            size += len(self._waiting[0].push.payload)
            if self._sent and size > BATCH_BYTES:
                break
            self._sent.append(self._waiting.popleft())
        self.taken += len(self._sent)
        return self._sent

    def settle(self, stored: int, replicated: bool, said: int | None = None) -> list[Outgoing]:
        """Take note of how many of those that were sent are dealt with, and return them.

        The others are the first to be sent again.

        :param said: how many of them the exchange carried at last, if not all: after a failure it carries
            none.
        """
        settled, left = self._sent[:stored], self._sent[stored:]
        self._sent = []
        self._waiting.extendleft(reversed(left))
        self.taken -= len(left)
        if replicated:
            self.safe = self.taken
        self._keep_starts(settled)
        if said is not None and left and stored >= said:
            self._most_together = max(1, (len(settled) + len(left)) // 2)
            return settled
        self._most_together = min(BATCH_PUSHES, 4 * self._most_together)
        self.blocked = bool(left)
        # A full Redis is not asked ten times a second to take megabytes.
        self._most = max(PROBE, min(BATCH_PUSHES, 2 * stored)) if left else BATCH_PUSHES
        return settled

    def withdraw_first(self) -> Outgoing:
        """Keep the next request from Redis: only its mark is sent; if that cannot be sent, nothing is.

        :return: what was to be sent.
        """
        first = self._waiting[0]
        push = first.push
        mark = Push(push.mode, push.fingerprint, 0, b"") if push.payload else Push("force", "", 0, b"")
        self._waiting[0] = Outgoing(mark, first.request)
        return first

    def rewind(self) -> None:
        """Send the start requests again of which Redis, back with older data, may not know.

        To be called before the exchange that told so is settled.
        """
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
