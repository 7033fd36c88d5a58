"""The frontier's reply to an exchange, which ``lua/exchange/reply.lua`` writes, and who gets it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, NamedTuple
from urllib.parse import unquote

from ..codec.needs import split_place
from ..codec.slot_limits import SlotLimits
from ..codec.values import number_of, text_of, whole_of
from .close_limits import CLOSED_BY
from .messages import Batch


@dataclass(frozen=True, slots=True)
class Lease:
    """A request or a seed that this worker holds until it has finished it.

    :param kind: ``request``; ``drop`` for a request to drop, because too many requests wait; for a seed, the
        type of the key that it came from.
    :param deaths: how many workers died while they held it.
    :param slot: the name of its slot; empty if the slot is unknown.
    :param begin: when it may begin, in milliseconds by the server's clock; 0: at once.
    :param lane: the name of its needs; empty if it has none.
    :param item: the name of the item that it has of its pool; empty if it has none.
    """

    name: str
    kind: str
    deaths: int
    payload: bytes
    slot: str = ""
    begin: float = 0.0
    lane: str = ""
    item: str = ""


class LeaseValue(NamedTuple):
    """The value of a lease in Redis.

    :param score: the score of its request, or ``0``.
    :param since: when the lease began, in seconds since 1970, by the server's clock; 0 if unknown.
    :param item: the item that its request has of its pool, as its name stands in Redis; empty if it has none.
    """

    kind: str
    score: bytes
    deaths: int
    since: int
    slot: str
    begin: float
    payload: bytes
    item: str = ""


def parse_lease(value: bytes) -> LeaseValue:
    """Return the parts of the value of a lease, as ``lua/store/leases.lua`` writes it.

    :raises ValueError: if it is not a lease.
    """
    kind, score, particulars, payload = value.split(b" ", 3)
    deaths, since, slot, begin = (*particulars.split(b"@", 3), b"", b"", b"")[:4]
    place, _, item = text_of(slot).partition("#")
    return LeaseValue(
        kind.decode(), score, int(deaths), whole_of(since), place, number_of(begin), payload, item
    )


def lease_order(name: str) -> tuple[int, ...]:
    """Return the position of the lease *name* among those of its worker; an empty name is the first."""
    return tuple(map(whole_of, name.split(".")))


def lease_value(kind: str, score: str, payload: bytes, slot: str = "") -> bytes:
    """Return the value of a lease that no worker has held yet, as ``lua/store/leases.lua`` reads it."""
    place = f"0@@{slot}" if slot else "0"
    return f"{kind} {score} {place} ".encode("utf-8", "replace") + payload


def without_item(value: bytes) -> bytes:
    """Return the value of a lease without the item that its request has of a pool."""
    parts = value.split(b" ", 3)
    if len(parts) < 4 or b"#" not in parts[2]:
        return value
    deaths, since, place, *begin = parts[2].split(b"@", 3)
    parts[2] = b"@".join((deaths, since, place.partition(b"#")[0], *begin))
    return b" ".join(parts)


class BackedOff(NamedTuple):
    """What the answers of a slot's site have led to.

    :param blocked_for: seconds for which the slot is blocked; 0 if it was not blocked now.
    :param delay: seconds between two of its requests from now on; 0 if it is not slower than before. If it is
        given up, the seconds for which it could not be reached.
    :param reason: what the site has answered; or why it cannot be reached.
    :param change: ``down``: the site cannot be reached; ``gone``: not for so long that its requests are set
        aside; ``up``: it can be reached again; ``robots``: its robots.txt asks for the delay; else empty.
    """

    blocked_for: float
    delay: float
    reason: str
    change: str = ""


class GroupNews(NamedTuple):
    """News of a group of requests.

    :param kind: ``never``: a request does not wait for it, because it never had a request; ``circle``: a
        request would wait for itself; ``dropped``: a follower is set aside; ``stuck``: its requests are lost.
    :param name: its name in Redis.
    :param failed: how many of its requests were set aside.
    """

    kind: str
    name: str
    failed: int = 0


class Order(str, Enum):
    """An order for all workers of a frontier."""

    #: Crawl.
    CRAWL = ""
    #: Begin no request until the crawl is resumed.
    PAUSE = "pause"
    #: Finish the requests that the worker holds, and take no more.
    DRAIN = "drain"
    #: Close.
    STOP = "stop"
    #: For this worker only: begin no request, because another worker has its place
    #: (``FRONTIER_MAX_WORKERS``).
    WAIT = "wait"
    #: For this worker only: begin no request, because it needs an item of a pool for its life, and none is
    #: free (``FRONTIER_POOLS``).
    ITEM = "item"

    @property
    def begins_nothing(self) -> bool:
        """Whether a worker with this order begins no request, not even one that it holds."""
        return self in (Order.PAUSE, Order.STOP, Order.WAIT, Order.ITEM)


#: The time of a turn that may begin at once.
AT_ONCE = 1.0


class Membership(IntEnum):
    """Whether this worker's lease on its place in the fleet is alive."""

    #: The frontier knows the worker.
    CURRENT = 0
    #: The worker had counted as dead. The requests that it had not begun belong to other workers now.
    EXPIRED = 1
    #: Redis came back with older data, and does not know the worker's last exchanges. All requests that the
    #: worker held went back to the queue.
    ROLLED_BACK = 2


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to an exchange. Counts are those of the fleet, at the end of the exchange.

    :param epoch: changes when fingerprints were removed.
    :param membership: how the frontier regards this worker.
    :param duplicates: places, from 0, of the pushes that were duplicates, or are above a cap.
    :param stored: how many pushes, from the first, were stored or dropped; there was no room for the others.
    :param full: why there is no room: ``memory`` (Redis is out of memory), ``bound`` (the maximum number of
        requests wait), ``exceeded`` (now more than the maximum wait); else empty.
    :param leased: the number of leases, and
    :param busy: of workers that may add requests without holding a lease; None if they were not counted.
    :param returned: the number of requests of dead workers that went back to the queue, and
    :param dead: the names of these workers.
    :param set_aside: the number of requests and seeds that went to the failed list, and
    :param forgotten: of older entries that were removed from it.
    :param replicated: whether enough replicas have everything that was pushed.
    """

    epoch: str
    membership: Membership = Membership.CURRENT
    duplicates: tuple[int, ...] = ()
    stored: int = 0
    full: str = ""
    waiting: int = 0
    parked: int = 0
    seeds: int = 0
    workers: int = 1
    leased: int | None = None
    busy: int | None = None
    finished: bool = False
    returned: int = 0
    set_aside: int = 0
    forgotten: int = 0
    dead: tuple[str, ...] = ()
    #: Data that disappeared though no worker took it: ``frontier``; or ``requests`` or ``dupefilter``, each
    #: with the number of lost entries.
    lost: tuple[str, ...] = ()
    #: The type and the name of a seeds' key that has a type for which there are no seeds.
    seeds_problem: tuple[str, ...] = ()
    #: Places, from 0, of the pushes that are above a cap; and whether the crawl is finished because it has as
    #: many pages as its cap allows.
    capped: frozenset[int] = frozenset()
    is_capped: bool = False
    #: The version of the deny-list, and its hosts and patterns of URLs; None if this worker knows it.
    denied: tuple[str, tuple[str, ...]] | None = None
    #: The server's time, and when the next slot may give a request, in milliseconds; None if nothing waits
    #: for a time.
    now: float | None = None
    next_turn: float | None = None
    #: How many of the parked requests are not due, and when the first of them is, in milliseconds.
    later: int = 0
    next_parked: float | None = None
    #: If this worker asked in vain: why the first slot that was asked has no turn for it, or ``delay`` if all
    #: slots sleep; else empty.
    why: str = ""
    #: Turns for requests in the worker's memory, by slot: when each may begin; and when there may be more
    #: turns, in milliseconds.
    given: dict[str, list[float]] = field(default_factory=dict)
    ask_at: float | None = None
    #: Turns for requests that the worker sends without the scheduler, by slot: when each may begin; and when
    #: to ask again, if there are none, in milliseconds.
    given_outside: dict[str, list[float]] = field(default_factory=dict)
    ask_outside_at: dict[str, float] = field(default_factory=dict)
    #: Slots whose requests of this kind must fail, because they would wait for long: ``blocked``, or
    #: ``unreachable``.
    refused_outside: dict[str, str] = field(default_factory=dict)
    #: Limits that were set during the crawl, for slots with leases in this reply.
    limits: dict[str, SlotLimits] = field(default_factory=dict)
    #: The slots in ``limits`` whose delay is not that of the settings; and those for which an operator has
    #: set it.
    with_delay: frozenset[str] = frozenset()
    by_operator: frozenset[str] = frozenset()
    #: The slots in ``limits`` of which the fleet has learnt a delay from their answers.
    learnt: frozenset[str] = frozenset()
    #: What the answers that this worker has reported have led to, by slot; and the slots whose block was over
    #: when this worker asked for their requests.
    backed_off: dict[str, BackedOff] = field(default_factory=dict)
    freed: tuple[str, ...] = ()
    #: The slots whose leases this worker must give back, because they were handed out for other limits; and
    #: the number of the last such recall, 0 if there is no new one.
    recalled: tuple[str, ...] = ()
    last_recall: int = 0
    #: Whether the frontier does not know the limits of slots in this worker's settings, and hands out nothing
    #: until the next exchange sends them.
    wants_policy: bool = False
    #: The limits of a slot by default in the settings of other workers, if those differ from this worker's.
    other_limits: SlotLimits | None = None
    #: The limits of a slot by default that are in force, if they are not of a policy like this worker's.
    limits_in_force: SlotLimits | None = None
    #: Changes when somebody sets limits or blocks a slot.
    limits_changed: str = ""
    #: The reason with which the spider closes, if the order is to stop.
    stop_reason: str = "stopped"
    #: If a slot's key had a value of a wrong type: the key to which it was renamed; else empty.
    garbage: str = ""
    unmet: tuple[str, ...] = ()
    #: News of groups for the log; and the finished groups that the spider must be told, with how many of
    #: their requests were set aside.
    group_news: tuple[GroupNews, ...] = ()
    groups_finished: tuple[tuple[str, int], ...] = ()
    #: The items of the leases, and those that this worker has for its life from now on, each with its pool,
    #: its name, its value and its cookies, both in JSON; the pool of which it needs one and has none; and the
    #: items that its reports have retired, each with its pool, the reason, and whether others are left.
    pool_items: tuple[tuple[str, str, str, str], ...] = ()
    own_items: tuple[tuple[str, str, str, str], ...] = ()
    lacks_item: str = ""
    #: When an item is free for which requests wait, in milliseconds; None if that is not known, or if there
    #: is one.
    next_item: float | None = None
    retired_items: tuple[tuple[str, str, str, bool], ...] = ()
    #: Whether the frontier does not know the pools of this worker's settings.
    wants_pools: bool = False
    #: The number of the crawl in the history, if the batch had counts; else empty.
    run: str = ""
    #: How many slots have waiting requests; 0 if no slot has limits.
    slots: int = 0
    #: The other worker that has the turns of the only slot with waiting requests, if this worker asked in
    #: vain; else empty.
    owner: str = ""
    #: How many items were stored, None if the exchange had none; and why there was no room for items:
    #: ``memory``, ``bound`` or ``feed``; else empty.
    items: int | None = None
    no_items: str = ""
    #: If released items of large pages are not where they belong: ``more`` if the next exchange can move
    #: some, ``bound`` if there is no room for them.
    unmoved: str = ""
    #: When the exchange was sent and the reply received, in seconds by this process's monotonic clock.
    sent: float = 0.0
    received: float = 0.0
    order: Order = Order.CRAWL
    leases: list[Lease] = field(default_factory=list)
    replicated: bool = True
    #: How many of the batch's pushes the exchange carried; None: all.
    pushes_sent: int | None = None
    #: Whether the items of the batch were carried by the exchange, or by an earlier attempt.
    items_sent: bool = True
    #: With a user's own queue: places of the pushes that it did not take, and the requests that were popped.
    kept: tuple[int, ...] | None = None
    popped: tuple[Any, ...] = ()

    @property
    def has_refused_items(self) -> bool:
        """Whether the items of the batch must be sent again, and the leases of their pages released then."""
        return bool(self.no_items) or not self.items_sent

    @classmethod
    def parse(cls, raw: list[Any], sent: float, replicated: bool = True) -> Reply:
        """Return the reply that ``lua/scripts/exchange.lua`` has just returned.

        :param raw: the reply as redis-py returns it.
        :param sent: when the exchange was sent, by this process's monotonic clock, in seconds.
        """
        head = json.loads(text_of(raw[0]))
        limits = head.get("limits") or {}
        # Accept only digits: somebody may have written other text there.
        places = [int(place) for place in re.findall("-?[0-9]+", head["duplicates"])]
        problem, recalled = head["seeds_problem"], head.get("recalled") or (0, ())
        return cls(
            epoch=head["epoch"],
            membership=Membership(head.get("membership", 0)),
            duplicates=tuple(abs(place) - 1 for place in places),
            capped=frozenset(-place - 1 for place in places if place < 0),
            is_capped=head.get("is_capped", False),
            denied=(head["denied"][0], tuple(head["denied"][1])) if head.get("denied") else None,
            stored=head.get("stored", 0),
            full=head["full"],
            waiting=head.get("waiting", 0),
            parked=head.get("parked", 0),
            seeds=head.get("seeds", 0),
            workers=head["workers"],
            leased=head.get("leased"),
            busy=head.get("busy"),
            finished=head.get("finished", False),
            returned=head.get("returned", 0),
            set_aside=head.get("set_aside", 0),
            forgotten=head.get("forgotten", 0),
            dead=tuple(head["dead"].split()),
            lost=tuple(head["lost"].split()),
            seeds_problem=tuple(problem.split(" ", 1)) if problem else (),
            now=head.get("now"),
            next_turn=head.get("next_turn"),
            later=head.get("later", 0),
            next_parked=head.get("next_parked"),
            why=head.get("why", ""),
            given=_given(head.get("given")),
            ask_at=head.get("ask_at"),
            given_outside=_given(head.get("given_outside")),
            ask_outside_at=head.get("ask_outside_at", {}),
            refused_outside=head.get("refused_outside", {}),
            limits={slot: SlotLimits.parse(its[:3]) for slot, its in limits.items()},
            with_delay=frozenset(slot for slot, its in limits.items() if its[3]),
            by_operator=frozenset(slot for slot, its in limits.items() if its[3] == "set"),
            learnt=frozenset(slot for slot, its in limits.items() if its[4:] == [True]),
            backed_off={
                slot: BackedOff(wait / 1000, delay / 1000, reason, change)
                for slot, (wait, delay, reason, change) in (head.get("backed_off") or {}).items()
            },
            freed=tuple(head.get("freed", ())),
            recalled=tuple(recalled[1]),
            last_recall=int(recalled[0]),
            wants_policy=head.get("wants_policy", False),
            other_limits=_limits(head.get("other_limits")),
            limits_in_force=_limits(head.get("limits_in_force")),
            limits_changed=head.get("limits_changed", ""),
            stop_reason=head["stop_reason"] if head.get("stop_reason") in CLOSED_BY else "stopped",
            garbage=head.get("garbage", ""),
            unmet=tuple(head.get("unmet") or ()),
            group_news=tuple(GroupNews(*news) for news in head.get("group_news") or ()),
            groups_finished=tuple((name, failed) for name, failed in head.get("groups_finished") or ()),
            pool_items=tuple(
                _items((*name.split(" "), *its) for name, its in (head.get("pool_items") or {}).items())
            ),
            own_items=tuple(_items((pool, *its) for pool, its in (head.get("own_items") or {}).items())),
            next_item=head.get("next_item"),
            lacks_item=unquote(head.get("lacks_item", "")),
            retired_items=tuple(
                (unquote(pool), unquote(item), reason, are_left)
                for pool, item, reason, are_left in head.get("retired_items") or ()
            ),
            wants_pools=head.get("wants_pools", False),
            run=str(head.get("run") or ""),
            slots=head.get("slots", 0),
            owner=head.get("owner", ""),
            items=head.get("items"),
            no_items=head.get("no_items", ""),
            unmoved=head.get("unmoved", ""),
            sent=sent,
            received=time.monotonic(),
            order=Order(head["order"]),
            leases=list(_leases(raw[1])),
            replicated=replicated,
        )


def _limits(wire: Any) -> SlotLimits | None:
    """Return the limits in the text ``<delay> <jitter> <concurrency>``; None if there are none."""
    try:
        delay, jitter, concurrency = map(float, str(wire or "").split(" "))
    except ValueError:  # somebody has written other text there
        return None
    return SlotLimits.parse([delay, jitter, concurrency])


def _items(wire: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the items of pools in *wire*: pool, item, value, cookies."""
    for pool, item, value, cookies in wire:
        yield unquote(pool), unquote(item), value, cookies


def _given(wire: Any) -> dict[str, list[float]]:
    """Return the turns that were given, without anything that is not a turn."""
    if not isinstance(wire, dict):
        return {}
    return {
        slot: [float(time) for time in times if isinstance(time, (int, float))]
        for slot, times in wire.items()
        if isinstance(times, list)
    }


def _leases(flat: list[Any]) -> Iterator[Lease]:
    for name, value in zip(*[iter(flat)] * 2, strict=True):
        parsed = parse_lease(value)
        slot, lane = split_place(parsed.slot)
        yield Lease(
            *(name.decode(), parsed.kind, parsed.deaths, parsed.payload),
            *(slot, parsed.begin, lane, unquote(parsed.item)),
        )


class Part:
    """A part of a worker that has news for the frontier, or gets news from it.

    The worker's session calls these methods of all its parts. Each field of a batch is filled by exactly one
    part.
    """

    def fill(self, batch: Batch) -> None:
        """Put the news into *batch*, and consider it sent: the batch is repeated until it is answered."""

    def applied(self, reply: Reply) -> None:
        """Note that the last batch was applied, and the *reply* to it."""

    def rolled_back(self) -> None:
        """Note that Redis has come back with older data. The reply with this news is applied next."""
