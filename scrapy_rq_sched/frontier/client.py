"""The frontier in Redis, as one worker talks to it: one method a script.

Every method waits for Redis, so none is called on the event loop of a running crawl.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..connection import RedisError, RedisTimeoutError
from ..keys import Keys
from . import refusals
from .messages import Batch, Bounds
from .replies import Reply
from .scripts import filter_step, register
from .slot_limits import SlotLimits

logger = logging.getLogger(__name__)

#: The version of what is in Redis; a worker of another one is refused.
FORMAT = "6"
#: Seconds for which the start requests of a finished crawl are remembered, for workers that were
#: started before it finished and are only now ready.
LATE_WORKER_GRACE = 600
#: Seconds that an exchange waits for replicas, at the most. One that lags further behind has never heard of
#: the last exchange before the next is made, so that nothing would ever be released.
REPLICA_TIMEOUT = 4.0


@dataclass(frozen=True, slots=True)
class Opened:
    """What a worker finds when it joins.

    :param kept_for: whose the filter is as well, so that it was not cleared.
    :param failed: how many entries the failed list has.
    :param unshared: how many requests an earlier worker of this crawl could not share.
    """

    flushed: bool
    kept_for: str
    waiting: int
    seen: int
    seeds: int
    leased: int
    workers: int
    failed: int
    unshared: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a worker finds that has to wait for a place, because only so many workers may be at it.

    :param place: its place in the line, from 1.
    :param taken: how many places are taken.
    :param came: when it came into the line; :meth:`Frontier.open` is told when it asks again.
    :param free_in: in how many seconds the next place is free, unless its worker is heard before.
    :param others: how many others are at this frontier. With ``FRONTIER_MAX_WORKERS_KEY``, workers of another
        may have the places.
    """

    place: int
    taken: int
    came: str
    free_in: float
    others: int


class Left(NamedTuple):
    """What a worker finds when it leaves.

    :param cleared: whether the frontier was cleared, because this was the last worker of a finished crawl.
    :param leases: how many leases it left behind.
    :param failed: how many entries the failed list has.
    """

    cleared: bool
    leases: int
    failed: int


class Frontier:
    """One spider's frontier, as one worker talks to it.

    :param server: a redis-py client that does not repeat commands by itself.
    :param worker: the worker's name: no spaces, never used before.
    :param discipline: which ``lua/queue/<discipline>.lua`` the queue follows.
    :param dupefilter: which ``lua/filter/<dupefilter>.lua`` keeps what was seen.
    :param length: how many wait in a queue of the user's own, which the scripts do not look into.
    """

    def __init__(
        self,
        server: Any,
        keys: Keys,
        worker: str,
        discipline: str,
        bounds: Bounds | None = None,
        dupefilter: str = "exact",
        length: Callable[[], int] | None = None,
    ) -> None:
        self.server = server
        self.keys = keys
        self.worker = worker
        self.bounds = bounds or Bounds()
        self._all_keys = keys.all()
        self._open = register(server, "open", discipline, dupefilter)
        self._exchange = register(server, "exchange", discipline, dupefilter)
        self._leave = register(server, "leave", discipline, dupefilter)
        self._sweep_slots = register(server, "sweep")
        self._filter_step = filter_step(server, keys.dupefilter, dupefilter)
        self._dupefilter = dupefilter
        self._length = length
        self._awaited = itertools.cycle(keys.start_urls)

    def limit_slots(self, limits: SlotLimits) -> None:
        """Have *limits* hold for every slot that has none of its own."""
        self.bounds = replace(self.bounds, slots=limits)

    def open(
        self,
        made_with: Mapping[str, str],
        about: str = "",
        age: float = 0.0,
        busy: bool = False,
        flush: bool = False,
        persist: bool = False,
        server_age: float = math.inf,
        came: str = "",
    ) -> Opened | Waiting:
        """Join the frontier; make it if there is none.

        :param made_with: what a worker must have been set up with to share it.
        :param about: what this worker says of itself, for those who look into Redis.
        :param age: seconds since its process started.
        :param flush: whether to clear it first, if no worker is at it.
        :param server_age: seconds since the server was started: if it was away, no worker could get
            through to it, and all have as long again before they count as dead.
        :param came: of a worker that waits for a place, when it came into the line.
        :raises FleetFullError: if all places are taken, and this worker is not to wait for one.
        :raises FleetFinishedError: if the crawl was finished while this worker waited.
        :raises FleetStoppedError: if the fleet was told to stop while this worker waited.
        :raises RedisUnsuitableError: if a key has a type that it should not have.
        :raises FrontierMismatchError: if it was made with something else.
        """
        # Here there is time for it; the first exchange would have to ask twice.
        self._exchange.load(self.keys.requests)
        flags = (
            int(busy),
            int(flush),
            int(persist),
            int(min(server_age, 1e9) * 1000),
            about,
            self.keys.prefix,
            self.keys.spider,
            self.bounds.max_workers,
            int(self.bounds.max_workers_policy == "exit"),
            came,
            self.bounds.max_events,
        )
        made_of = {"format": FORMAT, "dupefilter": self._dupefilter, **made_with}
        pairs = [text for pair in made_of.items() for text in pair]
        arguments = (self.worker, self.bounds.lease_ms, int(age * 1000), *flags, len(pairs) // 2, *pairs)
        arguments += self._trailing()
        problem, *rest = self._open(keys=self._all_keys, args=arguments)
        if problem == b"wait":
            place, taken, arrival, free_in, others = rest
            return Waiting(place, taken, arrival.decode(), free_in / 1000, others)
        if problem:
            raise refusals.to_join(problem, rest, self.keys)
        flushed, kept_for, *counts = rest
        return Opened(bool(flushed), kept_for.decode(), *counts)

    def exchange(self, batch: Batch) -> Reply:
        """Say *batch*, in one round trip and one atomic step. May be repeated."""
        arguments = (*batch.arguments(self.worker, self.bounds), *self._trailing())
        wanted, sent = self.bounds.wait_replicas, time.monotonic()
        if not wanted:
            return Reply.parse(self._exchange(keys=self._all_keys, args=arguments), sent)
        patience = min(REPLICA_TIMEOUT, self.bounds.lease_timeout / 3)
        raw, replicas = self._exchange.call_and_wait(self._all_keys, arguments, wanted, patience)
        return Reply.parse(raw, sent, replicated=replicas >= wanted)

    def leave(self, finished: bool, persist: bool) -> Left:
        """Leave the fleet. May be repeated.

        :param finished: whether the worker closes because the fleet is finished.
        """
        flags = (int(finished), int(persist), LATE_WORKER_GRACE, self.keys.prefix)
        arguments = (self.worker, *flags, *self._trailing())
        cleared, leases, failed = self._leave(keys=self._all_keys, args=arguments)
        if cleared:
            self._sweep()
        return Left(bool(cleared), leases, failed)

    def _sweep(self) -> None:
        """Delete what is left of cleared filters in steps, as exchanges do while a crawl runs."""
        try:
            while self._filter_step("sweep"):
                pass
            while self._sweep_slots(self._all_keys, []):
                pass
        except RedisError as error:
            logger.warning(
                "What the finished crawl of spider %r has seen is not all deleted: %s. Its next crawl goes "
                "on with that",
                self.keys.spider,
                error,
            )

    def _trailing(self) -> tuple[int, ...]:
        """Return what ``lua/queue/custom.lua`` reads from the end of ARGV."""
        return () if self._length is None else (self._length(),)

    def wait_for_seed(self, timeout: float) -> bool:
        """Wait until there is a seed in the next of the seeds' keys, and leave it there.

        :param timeout: seconds to wait at the most; less, if there are several keys.
        :return: whether there is one.
        """
        key = next(self._awaited)
        timeout /= len(self.keys.start_urls)
        try:
            # From its head to its head: the list stays as it is.
            return self.server.blmove(key, key, timeout, "LEFT", "LEFT") is not None
        except RedisTimeoutError:
            return False
