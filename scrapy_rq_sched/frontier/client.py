"""The frontier in Redis, as one worker uses it: one method for each script.

Every method blocks until Redis answers. So none of them is called on the event loop of a running crawl.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..codec.slot_limits import SlotPolicy
from ..connection import RedisError, RedisTimeoutError, ResponseError, server_may_wait
from ..keys import Keys
from . import refusals
from .fleet_config import FleetConfig
from .messages import FORMAT, Batch
from .pool_store import PoolStore
from .replies import Membership, Reply
from .scripts import filter_step, register, register_function

logger = logging.getLogger(__name__)

#: Seconds for which Redis keeps the start requests of a finished crawl, for workers that were started before
#: the finish and become ready only now.
LATE_WORKER_GRACE = 86400
#: The maximum number of seconds that an exchange waits for replicas. If a replica lags further behind, it
#: never has the last exchange before the next one is made, and nothing is ever released.
REPLICA_TIMEOUT = 4.0


@dataclass(frozen=True, slots=True)
class Opened:
    """The state of the frontier when a worker joins. Most fields are counts.

    :param flushed: whether the frontier was cleared first.
    :param kept_for: another frontier that uses the dupefilter, so that it was not cleared; else empty.
    :param seen: the number of fingerprints.
    :param failed: the number of entries in the failed list.
    :param unshared: the number of requests that earlier workers of this crawl could not share.
    :param unflushed: why the frontier was not cleared though the worker asked for it, as
        ``lua/scripts/open.lua`` names the reason; else empty.
    :param run: the number of the crawl in the history; empty without a history.
    :param other: a running worker with other limits of slots by default; empty if all have the same.
    :param other_limits: the limits of that worker, in words.
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
    unflushed: str = ""
    run: str = ""
    other: str = ""
    other_limits: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer to a worker that must wait in line for a place (``FRONTIER_MAX_WORKERS``).

    :param place: its position in the line, from 1.
    :param taken: how many places are taken.
    :param came: when it joined the line; it passes this to :meth:`Frontier.open` when it asks again.
    :param free_in: in how many seconds the next place becomes free, unless the worker that has it makes an
        exchange.
    :param others: how many other workers this frontier has. With ``FRONTIER_MAX_WORKERS_KEY``, workers of
        other frontiers may have the places.
    """

    place: int
    taken: int
    came: str
    free_in: float
    others: int


class Left(NamedTuple):
    """The state of the frontier when a worker leaves.

    :param cleared: whether the frontier was cleared, because this was the last worker of a finished crawl.
    :param leases: the number of leases that the worker left behind.
    :param failed: the number of entries in the failed list.
    :param awaits: whether the worker must call :meth:`Frontier.leave` again: the crawl is finished, but
        another worker was not heard since. If that one was killed, this worker is the last one when it counts
        as dead.
    """

    cleared: bool
    leases: int
    failed: int
    awaits: bool = False


class Frontier:
    """One spider's frontier, as one worker uses it.

    :param server: a redis-py client that does not repeat commands by itself.
    :param worker: the worker's name: no spaces, never used before.
    :param discipline: the queue discipline, in ``lua/store/queue/<discipline>.lua``.
    :param dupefilter: the dupefilter, in ``lua/store/filter/<dupefilter>.lua``.
    :param length: for a user's own queue, which the scripts cannot read: a function that returns its length.
    """

    def __init__(
        self,
        server: Any,
        keys: Keys,
        worker: str,
        discipline: str,
        config: FleetConfig | None = None,
        dupefilter: str = "exact",
        length: Callable[[], int] | None = None,
    ) -> None:
        self.server = server
        self.keys = keys
        self.worker = worker
        self.config = config or FleetConfig()
        self._all_keys = keys.all()
        # Whether the next exchange carries the limits of slots: the frontier does not know them.
        self._sends_policy = True
        self.pools = PoolStore(server, self._all_keys, worker, self.config.pools)
        self._open = register(server, "open", discipline, dupefilter)
        self._exchange = register_function(server, "exchange", discipline, dupefilter)
        self._leave = register(server, "leave", discipline, dupefilter)
        self._sweep_slots = register(server, "sweep")
        self._filter_step = filter_step(server, keys.dupefilter, dupefilter)
        self._dupefilter = dupefilter
        self._length = length
        self._awaited = itertools.cycle(keys.start_urls)

    def limit_slots(self, policy: SlotPolicy) -> None:
        """Apply *policy*, the limits of slots in this worker's settings, from the next exchange on."""
        self.config = replace(self.config, slot_policy=policy)
        self._sends_policy = True

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
        run: str = "",
        replaced: str = "",
        shown_settings: str = "{}",
    ) -> Opened | Waiting:
        """Join the frontier, and create it if it does not exist.

        :param made_with: the settings that all workers of the frontier must share.
        :param about: a description of this worker, for people inspecting Redis.
        :param age: seconds since this worker's process started.
        :param busy: whether this worker may add requests without holding a lease: it reads ``start()``.
        :param flush: whether to clear the frontier first, unless a worker of its crawl runs or may return.
        :param persist: whether the fingerprints of a finished crawl stay.
        :param server_age: seconds since the server was started. If it was down, no worker could reach it, so
            all of them get a full lease again before they count as dead.
        :param came: for a worker in line for a place: when it joined the line.
        :param run: the id of the supervisor's run that this worker belongs to, if it has a supervisor.
        :param replaced: the name of the dead worker that the supervisor replaces by this worker.
        :param shown_settings: the settings that the history of crawls shows, as a JSON object.
        :raises FleetFullError: if all places are taken, and this worker should not wait.
        :raises FleetFinishedError: if the crawl finished while this worker waited.
        :raises FleetStoppedError: if the fleet was told to stop while this worker waited.
        :raises RedisUnsuitableError: if a key has the wrong type.
        :raises SettingError: if the items of a pool in this worker's settings are not valid.
        :raises FrontierMismatchError: if the frontier was made with other settings.
        """
        # Before this worker joins: it must not count as alive if its settings are not valid.
        self.pools.read()
        # Load the script now, while there is time. Otherwise the first exchange would need two round trips.
        self._exchange.load(self.keys.requests)
        flags = (
            int(busy),
            int(flush),
            int(persist),
            int(min(server_age, 1e9) * 1000),
            about,
            self.keys.prefix,
            self.keys.spider,
            self.config.max_workers,
            int(self.config.max_workers_policy == "exit"),
            came,
            self.config.max_events,
            run,
            replaced,
            self.config.wire_offers,
            self.config.wire_history,
            shown_settings,
            self.config.wire_limits,
        )
        # Workers with a filter of their own class may share a set with workers that have the exact filter.
        kind = "exact" if self._dupefilter == "custom" else self._dupefilter
        made_of = {"format": FORMAT, "dupefilter": kind, **made_with}
        pairs = [text for pair in made_of.items() for text in pair]
        arguments = (self.worker, self.config.lease_ms, int(age * 1000), *flags, len(pairs) // 2, *pairs)
        arguments += self._trailing()
        problem, *rest = self._open(keys=self._all_keys, args=arguments)
        if problem == b"wait":
            place, taken, arrival, free_in, others = rest
            return Waiting(place, taken, arrival.decode(), free_in / 1000, others)
        if problem:
            raise refusals.to_join(problem, rest, self.keys)
        self.pools.fill()
        flushed, kept_for, *counts = rest[:-4]
        texts = (text.decode() for text in rest[-4:])
        return Opened(bool(flushed), kept_for.decode(), *counts, *texts)

    def exchange(self, batch: Batch) -> Reply:
        """Send *batch* and return the reply: one round trip, one atomic step. May be repeated.

        :raises FrontierMismatchError: if another version of this package has changed the format of the data
            meanwhile. To repeat the exchange cannot help.
        """
        arguments = (*batch.arguments(self.worker, self.config, self._sends_policy), *self._trailing())
        try:
            reply = self._sent(arguments)
        except ResponseError as error:
            if (refusal := refusals.to_exchange(error, self.keys)) is not None:
                raise refusal from error
            raise
        self._sends_policy = reply.wants_policy or reply.membership == Membership.ROLLED_BACK
        if reply.wants_pools:
            self.pools.fill()
        return reply

    def _sent(self, arguments: Sequence[Any]) -> Reply:
        """Send an exchange, and wait for replicas if the settings ask for it."""
        wanted, sent = self.config.wait_replicas, time.monotonic()
        if not wanted:
            return Reply.parse(self._exchange(keys=self._all_keys, args=arguments), sent)
        patience = min(REPLICA_TIMEOUT, self.config.lease_timeout / 3)
        raw, replicas = self._exchange.call_and_wait(self._all_keys, arguments, wanted, patience)
        return Reply.parse(raw, sent, replicated=replicas >= wanted)

    def leave(self, finished: bool, persist: bool, returns: bool = False) -> Left:
        """Leave the fleet. May be repeated.

        :param finished: whether the worker closes because the fleet is finished.
        :param persist: whether the fingerprints of a finished crawl stay.
        :param returns: whether the worker closes because of its memory, and something may start it again.
        """
        flags = (int(finished), int(persist), LATE_WORKER_GRACE, self.keys.prefix, int(returns))
        arguments = (self.worker, *flags, *self._trailing())
        cleared, leases, failed, awaits = self._leave(keys=self._all_keys, args=arguments)
        if cleared:
            self._sweep()
        return Left(bool(cleared), leases, failed, bool(awaits))

    def _sweep(self) -> None:
        """Delete the rest of cleared filters and slots in small steps, as exchanges do during a crawl."""
        try:
            while self._filter_step("sweep"):
                pass
            while self._sweep_slots(self._all_keys, []):
                pass
        except RedisError as error:
            logger.warning(
                "Some data of the finished crawl of spider %r is not deleted yet: %s. The next crawl deletes "
                "it",
                self.keys.spider,
                error,
            )

    def _trailing(self) -> tuple[int, ...]:
        """Return the arguments that ``lua/store/queue/custom.lua`` reads from the end of ARGV."""
        return () if self._length is None else (self._length(),)

    def has_seed(self) -> bool:
        """Return whether there is a seed in any of the seeds' keys."""
        return any(self.server.exists(key) for key in self.keys.start_urls)

    def wait_for_seed(self, timeout: float) -> bool:
        """Wait for a seed in the next of the seeds' keys, without taking it.

        :param timeout: the maximum number of seconds to wait, divided by the number of keys.
        :return: whether there is a seed.
        """
        key = next(self._awaited)
        timeout = server_may_wait(self.server, timeout / len(self.keys.start_urls))
        try:
            # Moving the first seed from the head to the head does not change the list.
            return self.server.blmove(key, key, timeout, "LEFT", "LEFT") is not None
        except RedisTimeoutError:
            return False
