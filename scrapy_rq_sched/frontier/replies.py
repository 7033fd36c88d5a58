"""What the frontier answers to what a worker says; ``lua/exchange/reply.lua`` writes it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

from .close_limits import CLOSED_BY
from .slot_limits import SlotLimits


@dataclass(frozen=True, slots=True)
class Lease:
    """A request or a seed that is this worker's to finish.

    :param kind: ``request``; ``drop`` for a request that is to be dropped, because too many wait; or
        for a seed the type of the key that it came from.
    :param deaths: how many workers died while they held it.
    :param slot: the name of its slot; empty if no worker knew it.
    :param begin: from when it may be begun, by the server's clock, in milliseconds; 0: at once.
    """

    name: str
    kind: str
    deaths: int
    payload: bytes
    slot: str = ""
    begin: float = 0.0


def lease_value(kind: str, score: str, payload: bytes, slot: str = "") -> bytes:
    """Return what stands in Redis for a lease, as ``lua/leases.lua`` reads it, of what nobody has held."""
    place = f"0@@{slot}" if slot else "0"
    return f"{kind} {score} {place} ".encode("utf-8", "replace") + payload


class Told(str, Enum):
    """What all workers of a frontier are told to do."""

    #: To crawl.
    CRAWL = ""
    #: To begin nothing, until they are told to go on.
    PAUSE = "pause"
    #: To do what is in hand, and to take no more.
    DRAIN = "drain"
    #: To close.
    STOP = "stop"
    #: Only this worker: to begin nothing, for it has lost its place (``FRONTIER_MAX_WORKERS``) to another.
    WAIT = "wait"

    @property
    def begins_nothing(self) -> bool:
        """Whether a worker that is told this begins no request, also none that it holds."""
        return self in (Told.PAUSE, Told.STOP, Told.WAIT)


#: What stands for the time of a turn that may be used at once.
AT_ONCE = 1.0


class Standing(IntEnum):
    """What the frontier takes a worker for."""

    #: One that it knows.
    KNOWN = 0
    #: One that was given up for dead: what it had not begun is another's.
    LOST = 1
    #: One that has said more than Redis, which came back with older data, knows of: all that it held went
    #: back to the queue.
    REWOUND = 2


@dataclass(frozen=True, slots=True)
class Reply:
    """What the frontier answers. Counts are the fleet's, at the end of the exchange.

    :param epoch: changes when fingerprints were forgotten.
    :param duplicates: places, from 0, of the pushes that were duplicates.
    :param stored: how many pushes, from the first, are dealt with; the others found no room.
    :param full: why there is no room: ``memory`` (Redis has no more), ``bound`` (as many wait as may),
        ``exceeded`` (more than that wait now), or nothing.
    :param leased: requests in workers' hands, and :param busy: workers that may add requests without
        holding any; None if it did not matter.
    :param returned: requests of dead workers that went back, and :param dead: whose they were.
    :param set_aside: requests and seeds that went to the failed list, and :param forgotten: entries that
        it no longer keeps.
    :param replicated: whether as many replicas as are asked for have all that was pushed.
    """

    epoch: str
    standing: Standing = Standing.KNOWN
    duplicates: tuple[int, ...] = ()
    stored: int = 0
    full: str = ""
    waiting: int = 0
    delayed: int = 0
    seeds: int = 0
    workers: int = 1
    leased: int | None = None
    busy: int | None = None
    finished: bool = False
    returned: int = 0
    set_aside: int = 0
    forgotten: int = 0
    dead: tuple[str, ...] = ()
    #: What is gone though no worker took it: ``frontier``, or ``requests`` or ``dupefilter`` and how many
    #: there were.
    lost: tuple[str, ...] = ()
    #: The type and the name of a seeds' key that can hold no seeds.
    seeds_problem: tuple[str, ...] = ()
    #: The server's time, and from when a slot may give a request, in milliseconds; None if none has limits.
    now: float | None = None
    next_turn: float | None = None
    #: Turns for requests in the worker's memory, by slot: from when each may begin; and from when there may
    #: be more, in milliseconds.
    given: dict[str, list[float]] = field(default_factory=dict)
    ask_at: float | None = None
    #: Limits that were set while the crawl runs, of slots of which there are leases.
    limits: dict[str, SlotLimits] = field(default_factory=dict)
    #: Those of them of which the delay was set.
    with_delay: frozenset[str] = frozenset()
    #: Changes when somebody has set limits, or has blocked a slot.
    limits_changed: str = ""
    #: Why the spider is to be closed, where this worker is told to stop.
    stop_reason: str = "stopped"
    #: Where what was at the key of a slot's requests, and is none, was put; empty if there was nothing.
    garbage: str = ""
    #: How many slots have waiting requests; 0 if none has limits.
    slots: int = 0
    #: When the question was sent and the answer received, by this process's monotonic clock, in seconds.
    sent: float = 0.0
    received: float = 0.0
    told: Told = Told.CRAWL
    leases: list[Lease] = field(default_factory=list)
    replicated: bool = True
    #: With a queue of the user's own: places of the pushes that it did not take, and what was popped.
    kept: tuple[int, ...] | None = None
    popped: tuple[Any, ...] = ()

    @classmethod
    def parse(cls, raw: list[Any], sent: float, replicated: bool = True) -> Reply:
        """Return the reply of ``lua/exchange.lua``, which was received just now.

        :param sent: when the question was sent.
        """
        head = json.loads(raw[0].decode("utf-8", "replace"))
        limits = head.get("limits") or {}
        problem = head["seeds_problem"]
        return cls(
            epoch=head["epoch"],
            standing=Standing(head["standing"]),
            # Digits and nothing else, whatever somebody may have written there.
            duplicates=tuple(int(place) - 1 for place in re.findall("[0-9]+", head["duplicates"])),
            stored=head["stored"],
            full=head["full"],
            waiting=head["waiting"],
            delayed=head["delayed"],
            seeds=head["seeds"],
            workers=head["workers"],
            leased=None if head["leased"] < 0 else head["leased"],
            busy=None if head["busy"] < 0 else head["busy"],
            finished=head["finished"],
            returned=head["returned"],
            set_aside=head["set_aside"],
            forgotten=head["forgotten"],
            dead=tuple(head["dead"].split()),
            lost=tuple(head["lost"].split()),
            seeds_problem=tuple(problem.split(" ", 1)) if problem else (),
            now=head.get("now"),
            next_turn=head.get("next_turn"),
            given=_given(head.get("given")),
            ask_at=head.get("ask_at"),
            limits={slot: SlotLimits.parse(its[:3]) for slot, its in limits.items()},
            with_delay=frozenset(slot for slot, its in limits.items() if its[3]),
            limits_changed=head.get("limits_changed", ""),
            stop_reason=head["stop_reason"] if head.get("stop_reason") in CLOSED_BY else "stopped",
            garbage=head.get("garbage", ""),
            slots=head.get("slots", 0),
            sent=sent,
            received=time.monotonic(),
            told=Told(head["told"]),
            leases=list(_leases(raw[1])),
            replicated=replicated,
        )


def _given(said: Any) -> dict[str, list[float]]:
    """Return turns as they were given, if nobody has written something else there."""
    if not isinstance(said, dict):
        return {}
    return {
        slot: [float(time) for time in times if isinstance(time, (int, float))]
        for slot, times in said.items()
        if isinstance(times, list)
    }


def _leases(flat: list[Any]) -> Iterator[Lease]:
    for name, value in zip(*[iter(flat)] * 2, strict=True):
        kind, _score, particulars, payload = value.split(b" ", 3)
        deaths, _second, slot, begin = (*particulars.split(b"@", 3), b"", b"", b"")[:4]
        yield Lease(
            name.decode(),
            kind.decode(),
            int(deaths),
            payload,
            slot.decode("utf-8", "replace"),
            float(begin) if begin else 0.0,
        )
