"""Read and decode requests and seeds that wait, are leased, or are delayed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from .. import serializers
from ..assembly.queue import PICKLE
from ..codec.pools import pool_of
from ..codec.seeds import url_at_beginning
from ..codec.values import text_of
from ..connection import server_of
from ..errors import PayloadError
from ..frontier.entries import SHOWN, Entries, Piece
from ..frontier.replies import lease_order, parse_lease
from ..serializers import faithful
from .groups import Groups
from .view import View

#: Number of entries that a step reads.
STEP = 200

_FOLLOWER = re.compile(rb"[0-9]+\.[0-9]+(\|\S*)? (\S+) @(\S*) (.*)", re.DOTALL)
_DELAYED = re.compile(rb"([a-z]+[0-9]*) (\S+) [^ @]+?(?:~([a-z]+))?(?:@(\S*))? (.*)", re.DOTALL)


@dataclass(frozen=True)
class Delayed:
    """A request or seed that a rule of admission has set back.

    :param due: from when it may begin, in seconds since 1970.
    :param cause: the rule's cause in ``lua/exchange/admission.lua``; empty if an older version set it back.
    """

    due: float
    cause: str
    entry: Entry

    @property
    def is_for_another(self) -> bool:
        """Whether it waits for another worker than the one that received it."""
        return self.cause in ("", "refused", "suspect")


@dataclass(frozen=True)
class Follower:
    """A request that waits until groups are finished.

    :param groups: their names in Redis, the next one first.
    """

    groups: list[str]
    entry: Entry


@dataclass(frozen=True)
class Entry:
    """A request or a seed in Redis.

    :param kind: ``request`` or ``seed``.
    :param data: its bytes in Redis; or their beginning, if they are too many.
    :param score: its score, if it has one: ``-priority`` and a fraction.
    :param fields: its decoded fields; None if it cannot be decoded.
    :param problem: why it cannot be decoded; empty if it can.
    :param slot: the name of its slot; empty for a seed, and if no worker knew the slot.
    :param size: the number of its bytes in Redis, if only their beginning was read; otherwise 0.
    """

    kind: str
    data: bytes
    score: float | None = None
    fields: dict[str, Any] | None = None
    problem: str = ""
    slot: str = ""
    size: int = 0

    @property
    def method(self) -> str:
        """Its method; empty if it cannot be decoded."""
        return str(self.fields.get("method", "GET")) if self.fields else ""

    @property
    def callback(self) -> str:
        """The name of its callback; empty if it cannot be decoded."""
        return str(self.fields.get("callback") or "parse") if self.fields else ""

    @property
    def url(self) -> str:
        """Its URL; empty if it cannot be decoded."""
        if self.size:
            return url_at_beginning(self.data)
        return str((self.fields or {}).get("url", ""))

    @property
    def priority(self) -> int:
        """Its priority in the queue, or in its own fields if the queue has no priorities."""
        if self.score is not None and math.isfinite(self.score):
            return -math.floor(self.score)
        priority = (self.fields or {}).get("priority", 0)
        return priority if isinstance(priority, int) else 0


@dataclass(frozen=True)
class Held:
    """A lease.

    :param worker: the worker's name, and :param alive: whether it is alive.
    :param lease: the lease's name.
    :param since: when the lease began, in seconds since 1970, by the server's clock; 0 if unknown.
    :param deaths: how many workers died while they held it.
    :param pool: the pool of which it has an item, and :param item: the item's name; empty if it has none.
    """

    worker: str
    alive: bool
    lease: str
    since: int
    deaths: int
    entry: Entry
    pool: str = ""
    item: str = ""


class Reader:
    """Reads the entries of *view*'s frontier.

    :param longest: the number of bytes of an entry that are read.
    """

    def __init__(self, view: View, longest: int = SHOWN) -> None:
        self.view = view
        self.entries = Entries(view.server)
        self._longest = longest
        self._server = server_of(view.server, view.keys.requests)

    def request(self, data: bytes, score: float | None = None, slot: str = "", size: int = 0) -> Entry:
        """Decode a request from *data*, which is only its beginning if *size*, its size, is given."""
        if size:
            return Entry("request", data, score, None, _too_long(size), slot, size)
        try:
            fields = faithful.load(self.view.serializer, data)
        except PayloadError as error:
            return Entry("request", data, score, None, _why_unreadable(data, error), slot)
        if not isinstance(fields, dict) or not isinstance(fields.get("url"), str):
            return Entry("request", data, score, None, "it is not a request", slot)
        return Entry("request", data, score, fields, "", slot)

    def seed(self, data: bytes, size: int = 0) -> Entry:
        """Decode a seed from *data*: a URL, or a JSON object with one. *size* is as for a request."""
        if size:
            return Entry("seed", data, problem=_too_long(size), size=size)
        text = data.decode(self.view.settings.encoding, "replace").strip()
        if not text.startswith("{"):
            return Entry("seed", data, fields={"url": text})
        try:
            fields = serializers.JSONSerializer().loads(text.encode())
        except (ValueError, RecursionError) as error:
            return Entry("seed", data, problem=f"not JSON: {error}")
        return Entry("seed", data, fields=fields)

    def held(self, worker: str | None = None) -> Iterator[Held]:
        """Yield the leases of *worker*; by default, those of all workers."""
        seconds, microseconds = self._server.time()
        now = seconds * 1000 + microseconds / 1000
        for name, deadline in self._server.zrange(self.view.keys.workers, 0, -1, withscores=True):
            text = text_of(name)
            if worker in (None, text):
                for piece in self.entries.scan("HSCAN", self.view.keys.leases(text), self._longest):
                    yield self._held(text, deadline > now, piece)

    def _held(self, worker: str, alive: bool, piece: Piece) -> Held:
        name = text_of(piece.name)
        try:
            lease = parse_lease(piece.data)
        except ValueError:
            return Held(worker, alive, name, 0, 0, Entry("request", piece.data, problem="it is not a lease"))
        size = _size_of(piece, lease.payload)
        entry = self._of_kind(lease.kind, lease.score, lease.slot, lease.payload, size)
        pool = pool_of(lease.slot) if lease.item else ""
        return Held(worker, alive, name, lease.since, lease.deaths, entry, pool, unquote(lease.item))

    def delayed(self) -> Iterator[Delayed]:
        """Yield the delayed requests."""
        for piece in self.entries.scan("ZSCAN", self.view.keys.delayed, self._longest):
            due, parts = float(piece.name) / 1000, _DELAYED.fullmatch(piece.data)
            if parts is None:
                problem = "it is not a delayed request"
                yield Delayed(due, "", Entry("request", piece.data, problem=problem))
            else:
                kind, score, cause, slot, data = parts.groups(b"")
                entry = self._of_kind(kind.decode(), score, text_of(slot), data, _size_of(piece, data))
                yield Delayed(due, cause.decode(), entry)

    def followers(self) -> Iterator[Follower]:
        """Yield the requests that wait for groups."""
        groups = Groups(self.view)  # it reads their names if there is a follower
        for piece in self.entries.scan("ZSCAN", self.view.keys.followers, self._longest):
            parts, first = _FOLLOWER.fullmatch(piece.data), groups.names.get(int(float(piece.name)), "?")
            if parts is None:
                problem = "it is not a request that waits for a group"
                yield Follower([first], Entry("request", piece.data, problem=problem))
            else:
                further, score, slot, data = parts.groups(b"")
                entry = self._of_kind("request", score, text_of(slot), data, _size_of(piece, data))
                yield Follower([first, *filter(None, text_of(further).split("|"))], entry)

    def seeds(self) -> Iterator[tuple[str, int | None, Entry]]:
        """Yield each seed with its key, and the number of seeds before it, None if unknown."""
        for key in self.view.keys.start_urls:
            kind = self._server.type(key).decode()
            if kind == "list":
                for place, piece in enumerate(self.entries.all_of(key, self._longest)):
                    yield key, place, self._seed_of(piece)
            elif kind in ("set", "zset"):
                scanned = self.entries.scan("SSCAN" if kind == "set" else "ZSCAN", key, self._longest)
                yield from ((key, None, self._seed_of(piece)) for piece in scanned)

    def _seed_of(self, piece: Piece) -> Entry:
        return self.seed(piece.data, piece.size if piece.is_cut else 0)

    def _of_kind(self, kind: str, score: bytes, slot: str, data: bytes, size: int) -> Entry:
        if kind not in ("request", "drop"):
            return self.seed(data, size)
        try:
            return self.request(data, float(score) if self.view.is_sorted else None, slot, size)
        except ValueError:
            return self.request(data, None, slot, size)


class WorkerRequests(NamedTuple):
    """The requests of a worker, as Redis has them.

    :param begun: the leases that it had begun by its last exchange: first those that most workers died of,
        then those begun last.
    :param unbegun: its other leases. It may have begun some of them since.
    :param taken_over: the number of begun leases that other workers took over because it counts as dead.
    :param exchange: the number of its last exchange; empty if it has left.
    """

    begun: list[Held]
    unbegun: list[Held]
    taken_over: int
    exchange: str


def read_requests(view: View, worker: str) -> WorkerRequests:
    """Return the requests of the worker of this name.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    server, key = server_of(view.server, view.keys.requests), view.keys.worker(worker)
    fields = server.hmget(key, "begun", "sown", "passed", "reclaimed", "exchange")
    begun, expanded, passed, reclaimed, exchange = map(text_of, fields)
    # If the worker is only slow, it may still finish these.
    taken_over = sum(name.startswith(b"r:") for name in server.hkeys(key)) if reclaimed else 0
    skipped = set(passed.split())

    def has_begun(held: Held) -> bool:
        last = expanded if held.entry.kind == "seed" else begun
        return held.lease not in skipped and lease_order(held.lease) <= lease_order(last)

    leases = sorted(
        Reader(view).held(worker), key=lambda held: (held.deaths, lease_order(held.lease)), reverse=True
    )
    return WorkerRequests(
        [held for held in leases if has_begun(held)],
        [held for held in leases if not has_begun(held)],
        taken_over,
        exchange,
    )


def _size_of(piece: Piece, data: bytes) -> int:
    """Return the size of the request or seed in *piece* that begins with *data*; 0 if this is all of it."""
    return piece.size - len(piece.data) + len(data) if piece.is_cut else 0


def _too_long(size: int) -> str:
    return f"it has {size:,} bytes, of which only the beginning was read"


def _why_unreadable(data: bytes, error: PayloadError) -> str:
    if data.startswith(PICKLE):
        return (
            f"a pickle of {len(data)} bytes, which is not read because that may run code. If you trust it, "
            "add -s SCHEDULER_SERIALIZER=pickle"
        )
    return str(error)
