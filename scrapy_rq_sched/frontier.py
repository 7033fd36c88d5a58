"""The frontier in Redis: what goes up in an exchange, what comes down, one method a script.

Every method waits for Redis, so none is called on the event loop of a running crawl.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

from .connection import RedisTimeoutError
from .errors import FrontierMismatchError, RedisUnsuitableError
from .keys import Keys

#: The version of what is in Redis; a worker of another one is refused.
FORMAT = "1"
#: Seconds for which the start requests of a finished crawl are remembered, for workers that were
#: started before it finished and are only now ready.
LATE_WORKER_GRACE = 600

Mode = Literal["filter", "force", "start", "start+filter"]


@dataclass(frozen=True, slots=True)
class Push:
    """A request to queue.

    :param mode: ``filter``: unless its fingerprint was seen; ``force``: always; ``start``: unless
        this crawl has had it as a start request; ``start+filter``: unless either.
    :param fingerprint: in hexadecimal; empty for ``force``.
    :param priority: Scrapy's: the higher, the sooner.
    :param payload: the serialized request; empty for one that the worker keeps in its own memory.
    """

    mode: Mode
    fingerprint: str
    priority: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Lease:
    """A request or a seed that is this worker's to finish.

    :param kind: ``request``, or for a seed the type of the key that it came from.
    :param deaths: how many workers died while they held it.
    """

    name: str
    kind: str
    deaths: int
    payload: bytes


@dataclass(slots=True)
class Batch:
    """What a worker says in one exchange. Made once, and repeated unchanged until it is answered."""

    number: int
    busy: bool = False
    want: int = 0
    want_seeds: int = 0
    suspects: int = 0
    in_hand: int = 0
    pushes: list[Push] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    given_back: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    forgotten: list[tuple[str, str]] = field(default_factory=list)
    #: What the pushes stand for; only read where the queue is the user's own.
    requests: list[Any] = field(default_factory=list)

    def arguments(self, worker: str, lease_ms: int, max_deliveries: int) -> Iterator[Any]:
        """Yield what ``lua/exchange.lua`` reads, in its order."""
        yield from (worker, self.number, lease_ms, int(self.busy), self.want, self.want_seeds)
        yield from (self.suspects, self.in_hand, max_deliveries, len(self.pushes))
        for push in self.pushes:
            yield from (push.mode, push.fingerprint, -push.priority, push.payload)
        for names in (self.finished, self.given_back):
            yield len(names)
            yield from names
        for pairs in (self.refused, self.failed, self.forgotten):
            yield len(pairs)
            for pair in pairs:
                yield from pair


@dataclass(frozen=True, slots=True)
class Reply:
    """What the frontier answers. Counts are the fleet's, at the end of the exchange.

    :param lost: this worker was given up for dead; what it had not begun is now another's.
    :param epoch: changes when fingerprints were forgotten.
    :param duplicates: places, from 0, of the pushes that were duplicates.
    :param leased: requests in workers' hands, or None if it did not matter.
    :param returned: requests of dead workers that went back, and :param dead: whose they were.
    """

    lost: bool
    epoch: bytes
    duplicates: tuple[int, ...]
    waiting: int
    delayed: int
    seeds: int
    workers: int
    leased: int | None
    finished: bool
    returned: int
    set_aside: int
    dead: tuple[str, ...]
    seeds_type_error: str
    leases: list[Lease]
    #: With a queue of the user's own: places of the pushes that it did not take, and what was popped.
    kept: tuple[int, ...] | None = None
    popped: tuple[Any, ...] = ()

    @classmethod
    def parse(cls, raw: list[Any]) -> Reply:
        """Return the reply of ``lua/exchange.lua``."""
        lost, epoch, duplicates, waiting, delayed, seeds, workers, leased = raw[:8]
        finished, returned, set_aside, note, leases = raw[8:]
        dead, _, seeds_type = note.decode().partition("|")
        return cls(
            bool(lost),
            epoch,
            tuple(int(place) - 1 for place in duplicates.split()),
            waiting,
            delayed,
            seeds,
            workers,
            None if leased < 0 else leased,
            bool(finished),
            returned,
            set_aside,
            tuple(dead.split()),
            seeds_type,
            list(_leases(leases)),
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """What a worker finds when it joins."""

    flushed: bool
    waiting: int
    seen: int
    seeds: int
    leased: int
    workers: int


class Frontier:
    """One spider's frontier, as one worker talks to it.

    :param server: a redis-py client that does not repeat commands by itself.
    :param worker: the worker's name: no spaces, never used before.
    :param discipline: which ``lua/queue_<discipline>.lua`` the queue follows.
    :param lease_timeout: seconds without an exchange after which this worker is dead.
    :param max_deliveries: how often a request is handed out before it is set aside, if the worker
        dies each time.
    """

    def __init__(
        self,
        server: Any,
        keys: Keys,
        worker: str,
        discipline: str,
        lease_timeout: float = 30.0,
        max_deliveries: int = 5,
    ) -> None:
        self.server = server
        self.keys = keys
        self.worker = worker
        self._all_keys = keys.all()
        self._lease_ms = max(1, int(lease_timeout * 1000))
        self._max_deliveries = max_deliveries
        parts = ("keys", f"queue_{discipline}", "seeds", "leases")
        self._open = server.register_script(_source((*parts, "open")))
        self._exchange = server.register_script(_source((*parts, "exchange")))
        self._leave = server.register_script(_source((*parts, "leave")))

    def open(
        self,
        made_with: Mapping[str, str],
        about: str = "",
        age: float = 0.0,
        busy: bool = False,
        flush: bool = False,
        persist: bool = False,
    ) -> Opened:
        """Join the frontier; make it if there is none.

        :param made_with: what a worker must have been set up with to share it.
        :param about: what this worker says of itself, for those who look into Redis.
        :param age: seconds since its process started.
        :param flush: whether to clear it first, if no worker is at it.
        :raises RedisUnsuitableError: if a key has a type that it should not have.
        :raises FrontierMismatchError: if it was made with something else.
        """
        # Here there is time for it; the first exchange would have to ask twice.
        self.server.script_load(self._exchange.script)
        epoch = time.time_ns()
        flags = (int(busy), int(flush), int(persist), epoch, about)
        pairs = [text for pair in {"format": FORMAT, **made_with}.items() for text in pair]
        arguments = (self.worker, self._lease_ms, int(age * 1000), *flags, len(pairs) // 2, *pairs)
        arguments += self._trailing()
        problem, *rest = self._open(keys=self._all_keys, args=arguments)
        if problem == b"type":
            key, found, expected = (text.decode() for text in rest)
            raise RedisUnsuitableError(
                f"Key {key!r} in Redis is a {found}, where the frontier of spider "
                f"{self.keys.spider!r} needs a {expected}. Rename or delete it, or set another key"
            )
        if problem == b"mismatch":
            name, there, ours = (text.decode() for text in rest)
            raise FrontierMismatchError(
                f"The frontier of spider {self.keys.spider!r} was made with {name} {there!r}, and "
                f"this worker is set up with {ours!r}. Set it up alike, or start the frontier anew "
                "with SCHEDULER_FLUSH_ON_START"
            )
        flushed, *counts = rest
        return Opened(bool(flushed), *counts)

    def exchange(self, batch: Batch) -> Reply:
        """Say *batch*, in one round trip and one atomic step. May be repeated."""
        said = batch.arguments(self.worker, self._lease_ms, self._max_deliveries)
        arguments = (*said, *self._trailing())
        return Reply.parse(self._exchange(keys=self._all_keys, args=arguments))

    def leave(self, finished: bool, persist: bool) -> tuple[bool, int]:
        """Leave the fleet. May be repeated.

        :param finished: whether the worker closes because the fleet is finished.
        :return: whether the frontier was cleared, and how many leases were left behind.
        """
        flags = (int(finished), int(persist), LATE_WORKER_GRACE)
        cleared, left = self._leave(keys=self._all_keys, args=(self.worker, *flags, *self._trailing()))
        return bool(cleared), left

    def _trailing(self) -> tuple[int, ...]:
        """Return what the discipline's part of the scripts reads from the end of ARGV."""
        return ()

    def wait_for_seed(self, timeout: float) -> bool:
        """Wait until there is a seed, and leave it there.

        :param timeout: seconds to wait at the most.
        :return: whether there is one.
        """
        key = self.keys.start_urls
        try:
            # From its head to its head: the list stays as it is.
            return self.server.blmove(key, key, timeout, "LEFT", "LEFT") is not None
        except RedisTimeoutError:
            return False


def _source(parts: Iterable[str]) -> str:
    folder = files("scrapy_rq_sched.lua")
    return "\n".join((folder / f"{part}.lua").read_text("utf-8") for part in parts)


def _leases(flat: list[Any]) -> Iterator[Lease]:
    for name, kind, deaths, payload in zip(*[iter(flat)] * 4, strict=True):
        yield Lease(name.decode(), kind.decode(), int(deaths), payload)
