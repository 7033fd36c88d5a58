"""Measure for how long a worker stands still, and find the requests at which it hangs.

A callback that never returns stops the event loop of its worker, while the process lives on. So each worker
under a supervisor sends heartbeats from its event loop: see ``runtime/supervised.py``. They do not pass
through Redis, so an outage of Redis never looks like a worker that stands still.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from ..runtime.supervised import CLOSING, CRAWLING

#: The number of leases for which a worker may stand still at a request. After the first lease, other workers
#: crawl its requests. The rest is for a callback that only computes for long, and finishes its request.
LEASES = 3
#: The same in seconds, at least: short leases must leave time for several heartbeats.
LEAST = 5.0
#: If the supervisor takes no step for so many seconds, it was stopped itself, and perhaps its workers, too.
PAUSE = 3.0
#: Seconds between two questions to Redis about one worker, at most.
QUESTIONS = 1.0


class Evidence(NamedTuple):
    """The requests of a worker, as Redis has them.

    :param requests: the requests in words; empty if the worker has none.
    :param exchange: the number of the worker's last exchange; empty if it has left.
    :param has_begun: whether the worker has begun these requests; if not, it has only leased them.
    """

    requests: str
    exchange: str
    has_begun: bool = True


def _nothing_known(worker: str) -> Future[Evidence | None]:
    nothing: Future[Evidence | None] = Future()
    nothing.set_result(None)
    return nothing


@dataclass(frozen=True)
class Limits:
    """The limits after which a worker that stands still is killed.

    :param lease: the lease timeout, in seconds.
    :param closing: for how many seconds a worker may stand still at all. It may hold no request: a pipeline
        may load a model at the beginning, or write its last items at the end.
    :param find_requests: begins to look for the requests of the worker of a name; the result is None if Redis
        does not answer. It must not wait for Redis.
    """

    lease: float = 30.0
    closing: float = 270.0
    find_requests: Callable[[str], Future[Evidence | None]] = _nothing_known

    @property
    def at_a_request(self) -> float:
        """For how many seconds a worker may stand still at a request."""
        return max(LEAST, LEASES * self.lease)


class Liveness:
    """Measures for how long one process stands still.

    :param now: when the process was started, by the monotonic clock, in seconds.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._since = self._now = now
        self._asked = 0.0
        self._question: Future[Evidence | None] | None = None
        self._asked_at_the_end = False
        self._evidence: Evidence | None = None
        self._phase = b""

    def step(self, heartbeats: bytes, now: float) -> None:
        """Take the heartbeats since the last step. Call this often."""
        if heartbeats:
            self._evidence = self._question = None
            self._phase = heartbeats[-1:]
        if heartbeats or now - self._now > PAUSE:
            self._since = now
        self._now = now

    @property
    def is_crawling(self) -> bool:
        """Whether the worker's spider was open at the last heartbeat."""
        return self._phase == CRAWLING

    @property
    def is_closing(self) -> bool:
        """Whether the worker's spider was being closed at the last heartbeat."""
        return self._phase == CLOSING

    @property
    def still(self) -> float:
        """The number of seconds for which the process has stood still."""
        return self._now - self._since

    @property
    def is_suspect(self) -> bool:
        """Whether the process may hang, and deserves a closer look."""
        return self.still >= min(self._limits.lease / 2, self._limits.closing)

    @property
    def is_known(self) -> bool:
        """Whether Redis has answered which requests the worker holds, since its last heartbeat."""
        return self._evidence is not None

    def hung_at(self, worker: str) -> Evidence | None:
        """Return the requests at which the process hangs; None if it does not hang at a request.

        Other workers take over the requests after one lease, so Redis is asked before. It must also answer
        at the end: the worker may have finished them in a later exchange, and write its last items now.

        :param worker: the worker's name in Redis; empty if it has not joined.
        """
        is_over = self.still >= self._limits.at_a_request
        is_time = self._now >= self._asked + min(QUESTIONS, self._limits.lease / 4)
        has_requests = self._evidence is not None and self._evidence.requests
        if worker and self._question is None and is_time and (is_over or not has_requests):
            self._asked, self._asked_at_the_end = self._now, is_over
            self._question = self._limits.find_requests(worker)
        if self._question is None or not self._question.done():
            return None
        found, self._question = self._question.result(), None
        if found is None:
            return None
        if self._evidence is None or self._evidence.exchange != found.exchange:
            self._evidence = found
        return self._evidence if self._asked_at_the_end and self._evidence.requests else None

    def is_silent_too_long(self, since: float) -> bool:
        """Return whether the process has stood still for too long, whatever it does.

        :param since: when it had to close, by the monotonic clock; 0 if it need not.
        """
        return self._now - max(self._since, since) >= self._limits.closing
