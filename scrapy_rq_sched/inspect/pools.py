"""Read the items of pools (``FRONTIER_POOLS``): which are free, in use or at rest. No value is read."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import unquote

from .. import connection
from ..codec.names import quoted
from ..codec.pools import pool_of, quoted_pool
from ..codec.values import number_of, text_of, whole_of
from ..frontier.entries import Entries
from . import questions
from .questions import asked, command
from .slots import clock_of
from .status import PoolCounts
from .view import View

State = Literal["free", "in use", "rests", "waits", "retired"]
STATES: tuple[State, ...] = get_args(State)
#: How many items are read in one round trip.
STEP = 300
#: Bytes that are read of a name, and of a reason, at most.
LONGEST = 1000
#: The fields that are read of an item. Its value and its cookies are secret, and are not among them.
_FIELDS = "limits next rests why retired bad used is_set"


@dataclass(frozen=True)
class Item:
    """An item of a pool. Times are in seconds, from now on.

    :param pool: the name of its pool, and :param name: its own.
    :param state: ``free``; ``in use``: it has as many users as it may have; ``rests``; ``waits``: for the end
        of its delay; ``retired``.
    :param workers: the workers that have it, for a request or for their lives.
    :param leases: the leases that have it, each as its worker, ``/``, and its name.
    :param free_in: when a request may have it; 0: now, None: if that is not known.
    :param rests_for: for how long it rests; 0: it does not. :param why: why it rests.
    :param retired: why it is retired; empty if it is not.
    :param used: how often it was given, and :param bad: how many bad answers in a row it had.
    :param concurrency: how many users it may have at a time, and :param delay: seconds between two requests.
    :param is_set: whether it is from the settings.
    """

    pool: str
    name: str
    state: State
    workers: list[str]
    leases: list[str]
    free_in: float | None = 0.0
    rests_for: float = 0.0
    why: str = ""
    retired: str = ""
    used: int = 0
    bad: int = 0
    concurrency: int = 1
    delay: float = 0.0
    is_set: bool = False


class Use(NamedTuple):
    """A use of an item: *lease* is empty if the worker has it for its life."""

    pool: str
    item: str
    worker: str
    lease: str


class Pools:
    """The pools of *view*'s frontier."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._entries = Entries(view.server)

    def names(self) -> list[str]:
        """Return the names of the pools, in alphabetical order."""
        return sorted(map(unquote, self._limits()))

    def items_of(self, pool: str) -> list[str]:
        """Return the names of the items of *pool*, as they stand in Redis; both are as in Redis."""
        key = self._view.keys.pool_items(pool)
        return sorted({text_of(piece.data) for piece in self._scan("ZSCAN", key) if not piece.is_cut})

    def item(self, pool: str, name: str) -> Item | None:
        """Return an item; None if the pool lacks it."""
        limits, wire = self._limits(), (quoted_pool(pool), quoted(name))
        key = self._view.keys.pool_items(wire[0])
        if wire[0] not in limits or text_of(self._view.server.type(key)) != "zset":
            return None
        if self._view.server.zscore(key, wire[1]) is None:
            return None
        uses = [use for use in self.uses() if use[:2] == wire]
        return next(self._read([wire], limits, {wire: uses}))

    def read(self, names: Collection[str] = (), most: int | None = None) -> Iterator[Item]:
        """Yield the items of the pools with these *names*; by default, of all, in alphabetical order.

        :param most: read at most this number of items.
        """
        limits = self._limits()
        wanted = sorted(pool for pool in limits if not names or unquote(pool) in names)
        if not wanted:
            return
        users: dict[tuple[str, str], list[Use]] = {}
        for use in self.uses():
            users.setdefault((use.pool, use.item), []).append(use)
        found = islice(((pool, item) for pool in wanted for item in self.items_of(pool)), most)
        while some := list(islice(found, STEP)):
            yield from self._read(some, limits, users)

    def counts(self, most: int | None = None, names: Collection[str] = ()) -> list[PoolCounts]:
        """Return how many items of each pool are in each state.

        :param most: read at most this number of items.
        :param names: the names of the pools; by default, of all.
        """
        pools = [pool for pool in self._limits() if not names or unquote(pool) in names]
        if not pools:
            return []
        pipe = self._view.pipeline()
        for pool in pools:
            pipe.zcard(self._view.keys.pool_items(pool))
        sizes = pipe.execute(raise_on_error=False)
        by_pool: dict[str, list[Item]] = {}
        for item in self.read(names, most):
            by_pool.setdefault(item.pool, []).append(item)
        return sorted(
            (
                counted(unquote(pool), by_pool.get(unquote(pool), []), size)
                for pool, size in zip(pools, sizes, strict=True)
            ),
            key=lambda one: one.name,
        )

    def uses(self) -> Iterator[Use]:
        """Yield which items are in use, with their names as they stand in Redis."""
        seen = set[str]()
        for piece in self._scan("ZSCAN", self._view.keys.pool_uses):
            text = text_of(piece.data)
            pool, _, rest = text.partition(" ")
            item, _, user = rest.partition(" ")
            worker, slash, lease = user.rpartition("/")
            if slash and text not in seen and not piece.is_cut:
                seen.add(text)
                yield Use(pool, item, worker, lease)

    def _limits(self) -> dict[str, str]:
        """Return the limits of each pool; the names are as in Redis."""
        return {
            text_of(piece.name): text_of(piece.data)
            for piece in self._scan("HSCAN", self._view.keys.pools)
            if b" " not in piece.name  # a removed item
        }

    def _scan(self, kind: Any, key: str) -> Iterator[Any]:
        expected = "hash" if kind == "HSCAN" else "zset"
        if text_of(self._view.server.type(key)) == expected:
            yield from self._entries.scan(kind, key, LONGEST)

    def _read(
        self,
        some: list[tuple[str, str]],
        limits: Mapping[str, str],
        users: Mapping[tuple[str, str], list[Use]],
    ) -> Iterator[Item]:
        keys = self._view.keys
        answers = asked(
            self._view,
            _Answers,
            time=command("time"),
            clock=questions.fields({"": clock_of(keys)}, "clock clock_ahead"),
            # No name of an item has a space.
            items=questions.fields(
                {f"{pool} {item}": keys.pool_item(pool, item) for pool, item in some}, _FIELDS, LONGEST
            ),
        )
        now = _now(answers)
        for pool, item in some:
            yield _item(
                *(unquote(pool), unquote(item), answers.items[f"{pool} {item}"]),
                *(limits[pool], users.get((pool, item), []), now),
            )


def awaited(view: View) -> set[str]:
    """Return the pools with items for which requests wait."""
    try:
        known = connection.server_of(view.server, view.keys.requests).hget(view.keys.meta, "lanes")
    except connection.ResponseError:  # the key has another type, which the doctor reports
        return set()
    lanes = [lane for lane in text_of(known).split() if pool_of(lane)]
    pipe = view.pipeline()
    for lane in lanes:
        pipe.exists(view.keys.lane(lane))
    found = pipe.execute(raise_on_error=False) if lanes else []
    return {pool_of(lane) for lane, exists in zip(lanes, found, strict=True) if exists == 1}


class _Answers(NamedTuple):
    time: tuple[int, int] | None
    clock: dict[str, list[bytes | None]]
    items: dict[str, list[bytes | None]]


def counted(name: str, items: Collection[Item], size: Any = None) -> PoolCounts:
    """Return how many of the *items* of pool *name* are in each state.

    :param size: how many items it has.
    """
    numbers = {state: sum(item.state == state for item in items) for state in STATES}
    nexts = [item.free_in for item in items if item.free_in and item.state in ("rests", "waits")]
    total = size if isinstance(size, int) and size > len(items) else len(items)
    return PoolCounts(
        name,
        total,
        **{state.replace(" ", "_"): number for state, number in numbers.items()},
        next_in=min(nexts, default=None),
        is_whole=total == len(items),
    )


def _now(answers: _Answers) -> float:
    """Return the frontier's time in milliseconds, as ``lua/slots/slots.lua`` does."""
    latest, ahead = (number_of(value) for value in answers.clock[""])
    seconds, microseconds = answers.time or (0, 0)
    return max(latest, 1000 * seconds + microseconds / 1000 + ahead)


def _item(pool: str, name: str, values: list[bytes | None], limits: str, uses: list[Use], now: float) -> Item:
    its = dict(zip(_FIELDS.split(), values, strict=True))
    delay, concurrency = _limits_of(limits, text_of(its["limits"]))
    rests = max(0.0, number_of(its["rests"]) - now) / 1000
    waits = max(0.0, number_of(its["next"]) - now) / 1000
    state: State
    if its["retired"] is not None:
        state = "retired"
    elif len(uses) >= concurrency:
        state = "in use"
    else:
        state = "rests" if rests else "waits" if waits else "free"
    return Item(
        pool,
        name,
        state,
        sorted({use.worker for use in uses}),
        sorted(f"{use.worker}/{use.lease}" for use in uses if use.lease),
        None if state in ("retired", "in use") else max(rests, waits),
        rests,
        text_of(its["why"]) if rests else "",
        text_of(its["retired"]),
        whole_of(its["used"]),
        whole_of(its["bad"]),
        concurrency,
        delay,
        its["is_set"] == b"1",
    )


def _limits_of(of_pool: str, own: str) -> tuple[float, int]:
    """Return the delay in seconds and the concurrency of an item, as ``lua/store/pool_items.lua`` does."""
    delay, concurrency = (*of_pool.split(" "), "", "")[:2]
    own_delay, own_concurrency = (*own.split(" "), "-", "-")[:2]
    if own_delay not in ("", "-"):
        delay = own_delay
    if own_concurrency not in ("", "-"):
        concurrency = own_concurrency
    return number_of(delay) / 1000, max(1, math.floor(number_of(concurrency) or 1))
