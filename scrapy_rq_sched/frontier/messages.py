"""What a worker says in an exchange; ``lua/exchange.lua`` reads it, and ``replies.py`` has the answer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

from .close_limits import NEVER, CloseLimits
from .slot_limits import UNLIMITED, SlotLimits

Mode = Literal["filter", "force", "start", "start+filter"]
#: What keeps a worker from going faster: see ``worker/bottleneck.py``.
Limit = Literal["politeness", "callbacks", "concurrency", "redis", "none"]
LIMITS: tuple[Limit, ...] = get_args(Limit)


#: How many requests of a hundred may be in a worker's memory only, without a word.
FEW_UNSHARED = 5


def is_much_unshared(found: int, unshared: int) -> bool:
    """Return whether *unshared* of *found* requests are so many that it has to be said."""
    return unshared * 100 > found * FEW_UNSHARED


def suspicious(max_deliveries: int) -> int:
    """Return how many deaths of its workers make a request a suspect, which is handed out alone.

    A worker that dies takes all that it holds down with it. So the first deaths say little; but the last
    that are allowed should not be those of what only stood beside the cause.
    """
    return max(2, max_deliveries - 2)


def rank(priority: Any) -> float:
    """Return *priority* as a number that Redis takes; 0 if it is none, for then the request is not stored."""
    try:
        number = float(priority)
    except (TypeError, ValueError):
        return 0
    except OverflowError:
        return math.inf if priority > 0 else -math.inf
    # Exact where the digits of an int are few enough for Redis to have them exact.
    return (
        priority if isinstance(priority, int) and abs(number) < 2**53 else 0 if math.isnan(number) else number
    )


@dataclass(frozen=True, slots=True)
class Push:
    """A request to queue.

    :param mode: ``filter``: unless its fingerprint was seen; ``force``: always; ``start``: unless
        this crawl has had it as a start request; ``start+filter``: unless either.
    :param fingerprint: in hexadecimal; empty for ``force``.
    :param priority: Scrapy's: the higher, the sooner.
    :param payload: the serialized request; empty for one that the worker keeps in its own memory.
    :param slot: the name of its slot (see ``codec/slots.py``); empty if it waits with those of all slots.
    """

    mode: Mode
    fingerprint: str
    priority: float
    payload: bytes
    slot: str = ""


class Turns(NamedTuple):
    """Turns of a slot that a worker no longer has.

    :param used: how many.
    :param last: when the last of them was begun, by the server's clock, in milliseconds; 0 if none was.
    :param unused: how many of them began nothing.
    """

    used: int
    last: float
    unused: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What bounds a frontier.

    :param lease_timeout: seconds without an exchange after which a worker is dead.
    :param max_deliveries: how often a request is handed out before it is set aside, if the worker
        dies each time.
    :param max_waiting: how many requests may wait; 0 for any number.
    :param policy: what happens when more come: ``slow`` or ``drop-lowest``.
    :param max_failed: how many entries the failed list keeps.
    :param wait_replicas: how many replicas have to have what a page led to before it is released.
    :param max_workers: how many workers may be at it; 0 for any number.
    :param max_workers_policy: whether one more waits (``wait``) or is refused (``exit``).
    :param close: when the whole fleet closes.
    :param stall_timeout: seconds without a page after which a crawl that has something to do stands still;
        0: it never does.
    :param max_events: how many events are kept; 0: none are told.
    :param slots: what holds for every slot that has no limits of its own.
    :param order: ``slots``: they take turns; ``priority``: the highest over all slots comes first.
    """

    lease_timeout: float = 30.0
    max_deliveries: int = 5
    max_waiting: int = 0
    policy: str = "slow"
    max_failed: int = 10_000
    wait_replicas: int = 0
    max_workers: int = 0
    max_workers_policy: str = "wait"
    close: CloseLimits = NEVER
    stall_timeout: float = 600.0
    max_events: int = 10_000
    slots: SlotLimits = UNLIMITED
    order: str = "slots"

    @property
    def lease_ms(self) -> int:
        """The lease timeout in whole milliseconds, as the scripts take it."""
        return max(1, int(self.lease_timeout * 1000))


class Finished(NamedTuple):
    """A lease that is finished.

    :param after: how many of the batch's pushes have to be stored before it may be released.
    """

    lease: str
    after: int = 0


class Failed(NamedTuple):
    """A lease that is to be set aside, with the reason and, if there is one, the traceback."""

    lease: str
    after: int
    reason: str
    traceback: str = ""


@dataclass(slots=True)
class Batch:
    """What a worker says in one exchange. Made once, and repeated unchanged until it is answered."""

    number: int
    busy: bool = False
    want: int = 0
    want_seeds: int = 0
    suspects: int = 0
    in_hand: int = 0
    #: Whether to push though too many wait.
    exceed: bool = False
    #: How many pages this worker is through with since the last exchange.
    pages: int = 0
    #: The leases of the last request and of the last seed that this worker has begun.
    begun: str = ""
    sown: str = ""
    #: Whether this worker closes because the fleet is finished.
    finishing: bool = False
    #: How many requests were found since the last exchange, how many of these are in a worker's memory
    #: only, and why.
    found: int = 0
    unshared: int = 0
    unshared_reason: str = ""
    pushes: list[Push] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    given_back: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    forgotten: list[tuple[str, str]] = field(default_factory=list)
    #: The leases that were passed over: they came before the last that was begun, and are not begun.
    passed: list[str] = field(default_factory=list)
    #: Slots of which this worker has enough.
    sated: list[str] = field(default_factory=list)
    #: Milliseconds from now in which a turn of a slot may begin that is given to this worker.
    ahead: float = 0.0
    #: How many turns this worker needs for requests in its memory, by slot.
    asks: dict[str, int] = field(default_factory=dict)
    #: Slots with limits of their own that this worker has met.
    limits: dict[str, SlotLimits] = field(default_factory=dict)
    #: What has become of this worker's turns, and how many of its downloads are over, by slot.
    turns: dict[str, Turns] = field(default_factory=dict)
    downloaded: dict[str, int] = field(default_factory=dict)
    #: Responses, items and errors since the last exchange, where the fleet closes after so many.
    counted: dict[str, int] = field(default_factory=dict)
    #: How many exchanges took how long: see ``exchange_times.py``.
    times: dict[str, int] = field(default_factory=dict)
    #: What keeps this worker from going faster, if that has changed.
    limit: Limit | None = None
    #: What the pushes stand for; only read where the queue is the user's own.
    requests: list[Any] = field(default_factory=list)

    def arguments(self, worker: str, bounds: Bounds) -> Iterator[Any]:
        """Yield what ``lua/exchange.lua`` reads: the header, and then what it says how many there are of.

        Redis reads five numbers in the header in the time in which it reads one argument. So whatever is
        short is in the header.
        """
        yield json.dumps({**self._always(worker, bounds), **self._seldom(bounds)})
        yield from (push.fingerprint for push in self.pushes)
        yield from (push.payload for push in self.pushes)
        yield from (finished.lease for finished in self.finished)
        yield from self.given_back
        for tuples in (self.refused, self.failed, self.forgotten):
            for values in tuples:
                yield from values

    def _always(self, worker: str, bounds: Bounds) -> dict[str, Any]:
        return {
            "worker": worker,
            "exchange": self.number,
            "lease_ms": bounds.lease_ms,
            "want": self.want,
            "want_seeds": self.want_seeds,
            "in_hand": self.in_hand,
            "suspicious": suspicious(bounds.max_deliveries),
            "deaths_allowed": bounds.max_deliveries,
            "most_failed": bounds.max_failed,
            "pages": self.pages,
            "begun": self.begun,
            "sown": self.sown,
            "pushes": len(self.pushes),
            "finished": len(self.finished),
        }

    def _seldom(self, bounds: Bounds) -> dict[str, Any]:
        """Return those fields that are not 0, false or empty: the script takes a missing one for that."""
        modes = [push.mode for push in self.pushes]
        slots = {push.slot: 0 for push in self.pushes}
        slots = {slot: place for place, slot in enumerate(slots, 1)}
        # JSON has no infinite numbers; Lua reads them in text.
        ranks = [
            -push.priority if math.isfinite(push.priority) else str(-push.priority) for push in self.pushes
        ]
        fields = {
            "mode": modes[0] if len(set(modes)) == 1 else "",
            "modes": modes if len(set(modes)) > 1 else [],
            "ranks": ranks if any(ranks) else [],
            "slots": list(slots) if any(slots) else [],
            "slot_of": [slots[push.slot] for push in self.pushes] if len(slots) > 1 else [],
            "after": [finished.after for finished in self.finished],
            "most_after": max((finished.after for finished in self.finished), default=0),
            "busy": self.busy,
            "exceed": self.exceed,
            "finishing": self.finishing,
            "suspects": self.suspects,
            "most_waiting": bounds.max_waiting,
            "policy": bounds.policy if bounds.max_waiting else "",
            "found": self.found if self.unshared or self.unshared_reason else 0,
            "unshared": self.unshared,
            "unshared_reason": self.unshared_reason,
            "delay": 1000 * bounds.slots.delay,
            "jitter": bounds.slots.jitter,
            "concurrency": bounds.slots.concurrency,
            "ahead": self.ahead,
            "order": bounds.order if bounds.order != "slots" else "",
            "max_workers": bounds.max_workers,
            "close": bounds.close.said(),
            "stall_ms": int(1000 * bounds.stall_timeout),
            "counted": self.counted,
            "limit": self.limit,
            "times": self.times,
            "passed": " ".join(self.passed),
            "sated": self.sated,
            "asks": self.asks,
            "limits": {slot: limits.said() for slot, limits in self.limits.items()},
            "turns": self.turns,
            "downloaded": self.downloaded,
            "given_back": len(self.given_back),
            "refused": len(self.refused),
            "failed": len(self.failed),
            "forgotten": len(self.forgotten),
        }
        return {name: value for name, value in fields.items() if value}

    def of_first(self, pushes: int) -> Batch:
        """Return this batch with only its first *pushes*: what else there is to push is said later."""
        return replace(self, pushes=self.pushes[:pushes], busy=True)
