"""The message of a worker in an exchange, for ``lua/scripts/exchange.lua``; ``replies.py`` has the reply."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

from ..codec.needs import place_of
from .fleet_config import FleetConfig

PushMode = Literal["filter", "force", "start", "start+filter"]
#: The bottleneck of a worker: see ``worker/reports.py``.
BottleneckName = Literal["politeness", "callbacks", "concurrency", "redis", "needs", "pool", "none"]
BOTTLENECKS: tuple[BottleneckName, ...] = get_args(BottleneckName)


#: The version of the data in Redis. A worker with another version cannot join, and its exchanges are
#: refused.
FORMAT = "6"

#: How many items may wait for the writer of a file.
FEED_MOST = 100_000

#: The percentage of requests that may be only in workers' memory without a warning.
FEW_UNSHARED = 5


def is_much_unshared(found: int, unshared: int) -> bool:
    """Return whether so many of the *found* requests are *unshared* that a warning is needed."""
    return unshared * 100 > found * FEW_UNSHARED


def suspicious(max_deliveries: int) -> int:
    """Return the number of deaths after which a request is a suspect, which is handed out alone.

    All requests that a dying worker holds count the death, though only one of them may have caused it. So
    the first deaths prove little. But before a request is set aside, its last deaths must be its own.
    """
    return max(2, max_deliveries - 2)


def rank(priority: Any) -> float:
    """Return *priority* as a number for Redis; 0 if it is not a number: such a request is never stored."""
    try:
        number = float(priority)
    except (TypeError, ValueError):
        return 0
    except OverflowError:
        return math.inf if priority > 0 else -math.inf
    # Redis stores ints exactly only up to 2**53.
    return (
        priority if isinstance(priority, int) and abs(number) < 2**53 else 0 if math.isnan(number) else number
    )


@dataclass(frozen=True, slots=True)
class Push:
    """A request to queue.

    :param mode: when to queue it. ``filter``: unless its fingerprint was seen; ``force``: always; ``start``:
        unless this crawl has had it as a start request; ``start+filter``: unless one of both is true.
    :param fingerprint: in hexadecimal; empty for ``force``.
    :param priority: Scrapy's priority: higher ones come first.
    :param payload: the serialized request; empty if the worker keeps the request in its own memory.
    :param slot: the name of its slot (see ``codec/slots.py``); empty if it waits in the queue without slots.
    :param not_before: from when it may begin, by the frontier's clock, in milliseconds; 0: at once.
    :param lane: the name of its needs (see ``codec/needs.py``); empty if it has none.
    :param groups: the name of its groups together (see ``codec/names.py``); empty if it is in none.
    :param after: the names of the groups for which it waits, in the same way.
    :param member: its number among the requests with groups of this worker; 0 if it has none.
    :param continues: empty if it counts as a page of its own; ``page`` if it is the retry of a page or the
        target of its redirect, or was counted before; ``crawl`` if that page is of another slot.
    """

    mode: PushMode
    fingerprint: str
    priority: float
    payload: bytes
    slot: str = ""
    not_before: float = 0.0
    continues: Literal["", "page", "crawl"] = ""
    lane: str = ""
    groups: str = ""
    after: str = ""
    member: int = 0

    @property
    def place(self) -> str:
        """Where it waits, as the scripts call it."""
        return place_of(self.slot, self.lane)


#: The fields of :class:`Push` that only rules of admission read.
_OF_ADMISSION = ("not_before",)


class UsedGrants(NamedTuple):
    """Turns of a slot that a worker no longer has.

    :param used: the number of these turns.
    :param last: when the worker began the last of them, in milliseconds by the server's clock; 0 if it began
        none.
    :param unused: how many of these turns began no request.
    :param left: how many turns of the slot the worker still has; None if it does not count them. The frontier
        may think that it has more, if Redis came back with older data.
    """

    used: int
    last: float
    unused: int = 0
    left: int | None = None


class SlotAnswers(NamedTuple):
    """What the site of a slot has answered to a worker since its last exchange.

    :param good: how many good answers there were, if the fleet has learnt a delay of the slot; else 0.
    :param is_bad: whether there was a bad answer: the site was asked too fast, or cannot answer now.
    :param ago: how long before the exchange the request of the last bad answer was sent, or that of the last
        failure if there are any, in milliseconds.
    :param wait: for how many milliseconds the site asks to wait; 0 if it does not.
    :param reason: what it has answered, as ``429``; or why it cannot be reached.
    :param failures: how many requests in a row could not reach the site, up to now.
    :param crawl_delay: the ``Crawl-delay`` of its robots.txt in milliseconds; 0 if there is no news of it.
    :param has_answered: whether it has answered anything since, if the fleet has learnt a delay of the slot.
    """

    good: int = 0
    is_bad: bool = False
    ago: float = 0.0
    wait: float = 0.0
    reason: str = ""
    failures: int = 0
    has_answered: bool = False
    crawl_delay: float = 0.0


class Finished(NamedTuple):
    """A lease that is finished.

    :param after: how many of the batch's pushes must be stored before the lease may be released.
    """

    lease: str
    after: int = 0


class Failed(NamedTuple):
    """A lease to set aside, with the reason and, if there is one, the traceback.

    :param after: how many of the batch's pushes must be stored before.
    """

    lease: str
    after: int
    reason: str
    traceback: str = ""


class ItemGroup(NamedTuple):
    """Items of one page, or without a page.

    :param items: the items, serialized.
    :param lease: the lease of the page, or empty.
    :param url: the URL of the page.
    :param page: for a stream: a text that is the same for each delivery of the page.
    :param mark: for an item of ``start()`` a text; of all items with this text, a crawl stores the first.
    :param is_last: whether the batch finishes the lease. Then all items of the page become visible.
    :param before: how many items of the page were sent before these.
    """

    items: tuple[bytes, ...]
    lease: str = ""
    url: str = ""
    page: str = ""
    mark: str = ""
    is_last: bool = False
    before: int = 0

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(map(len, self.items))


@dataclass(slots=True)
class Batch:
    """The message of one exchange. It is made once, and repeated unchanged until it is answered."""

    number: int
    busy: bool = False
    want: int = 0
    want_seeds: int = 0
    suspects: int = 0
    in_hand: int = 0
    #: Whether to push although too many requests wait.
    exceed: bool = False
    #: How many pages this worker has finished since the last exchange.
    pages: int = 0
    #: The leases of the last request and of the last seed that this worker has begun.
    begun: str = ""
    expanded: str = ""
    #: Whether this worker closes because the fleet is finished.
    finishing: bool = False
    #: How many requests were found since the last exchange, how many of these are only in this worker's
    #: memory, and why.
    found: int = 0
    local_only: int = 0
    local_only_reason: str = ""
    pushes: list[Push] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    given_back: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    forgotten: list[tuple[str, str]] = field(default_factory=list)
    #: The leases that were passed over: they are not begun, though a later lease is.
    passed: list[str] = field(default_factory=list)
    #: Slots of which this worker has enough requests.
    saturated: list[str] = field(default_factory=list)
    #: How far ahead a slot's turns may be given to this worker: milliseconds from now until they begin.
    ahead: float = 0.0
    #: Whether this worker does not keep up with its turns, so that its slots are left to the other workers.
    is_late: bool = False
    #: How many turns this worker needs for requests in its memory, by slot.
    asks: dict[str, int] = field(default_factory=dict)
    #: How many turns it needs for requests that it sends without the scheduler, by slot; and how many
    #: milliseconds the reply takes, so that no turn comes too late.
    outside: dict[str, int] = field(default_factory=dict)
    latency: float = 0.0
    #: By slot: the turns that this worker no longer has, and how many of its downloads have ended.
    grants: dict[str, UsedGrants] = field(default_factory=dict)
    downloaded: dict[str, int] = field(default_factory=dict)
    #: What sites have answered, by slot; and the last number of a recall that this worker knows.
    answers: dict[str, SlotAnswers] = field(default_factory=dict)
    recalled: int = 0
    #: The version of the deny-list that this worker knows; empty if it knows none.
    denied: str = ""
    #: How many pages the slots of the pushes may have, if this worker's settings have caps for them.
    caps: dict[str, int] = field(default_factory=dict)
    #: The latencies of responses, by slot, in milliseconds, with a minus if the status was not 200. And if
    #: the fleet adjusts its delays: how many requests shall be under way, the shortest delay, the longest.
    latencies: dict[str, list[float]] = field(default_factory=dict)
    throttle: tuple[float, float, float] | None = None
    #: Responses, items and errors since the last exchange, if the fleet has a limit for them.
    counted: dict[str, int] = field(default_factory=dict)
    #: The histogram of the exchanges since the last report: see ``exchange_times.py``.
    times: dict[str, int] = field(default_factory=dict)
    #: This worker's bottleneck, if it has changed.
    bottleneck: BottleneckName | None = None
    #: Finished groups that the spider was told; the numbers of requests of groups that were only in this
    #: worker's memory, and are finished; and whether the spider closes, and is told of no more groups.
    groups_acked: list[str] = field(default_factory=list)
    left_memory: list[int] = field(default_factory=list)
    is_closing: bool = False
    #: News of items of pools, each with its pool and its name in Redis; and by pool, the item that this
    #: worker has for its life, empty if it has none yet.
    pool_reports: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    own_items: dict[str, str] = field(default_factory=dict)
    #: The pools of which it has such an item with which requests are in flight, perhaps the last one.
    own_in_flight: list[str] = field(default_factory=list)
    #: If it has such items: for how many milliseconds it has had no request.
    idle: int = 0
    #: How many items the finished pages had, and how many errors were logged, since the last exchange.
    scraped: int = 0
    errors: int = 0
    #: Once a second: the number of the crawl in the history, empty if this worker does not know it; what this
    #: worker has done in it, as ``<name>=<number> …``; responses, and the milliseconds that they took
    #: together, by slot; and what became of requests: see ``codec/outcomes.py``.
    run: str = ""
    counts: str = ""
    slot_counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    outcomes: bytes = b""
    #: Items of pages.
    item_groups: list[ItemGroup] = field(default_factory=list)
    #: The requests of the pushes. Only a user's own queue needs them.
    requests: list[Any] = field(default_factory=list)

    def arguments(self, worker: str, config: FleetConfig, with_policy: bool = False) -> Iterator[Any]:
        """Yield the arguments of ``lua/scripts/exchange.lua``: the header with the lists' lengths, the lists.

        :param with_policy: whether to send the limits of slots, and not only the name of their policy.

        Redis reads five numbers in the header as fast as one argument. So all short values are in the header.
        """
        policy = {"limits": config.slot_policy.to_wire()} if with_policy and config.slot_policy else {}
        yield json.dumps({**self._always(worker, config), **self._seldom(config), **policy})
        yield from (push.fingerprint for push in self.pushes)
        yield from (push.payload for push in self.pushes)
        yield from (finished.lease for finished in self.finished)
        yield from self.given_back
        for tuples in (self.refused, self.failed, self.forgotten):
            for values in tuples:
                yield from values
        for group in self.item_groups:
            yield from group.items
        if self.outcomes:
            yield self.outcomes

    def _always(self, worker: str, config: FleetConfig) -> dict[str, Any]:
        return {
            "worker": worker,
            "format": FORMAT,
            "exchange": self.number,
            "lease_ms": config.lease_ms,
            "want": self.want,
            "want_seeds": self.want_seeds,
            "in_hand": self.in_hand,
            "suspicious": suspicious(config.max_deliveries),
            "max_deliveries": config.max_deliveries,
            "max_failed": config.max_failed,
            "pages": self.pages,
            "begun": self.begun,
            "expanded": self.expanded,
            "pushes": len(self.pushes),
            "finished": len(self.finished),
        }

    def _seldom(self, config: FleetConfig) -> dict[str, Any]:
        """Return the optional fields that are not empty. The script takes a missing one for empty or 0."""
        modes = [push.mode for push in self.pushes]
        slots = {push.place: 0 for push in self.pushes}
        slots = {slot: place for place, slot in enumerate(slots, 1)}
        # JSON has no infinite numbers, but Lua can read them from text.
        ranks = [
            -push.priority if math.isfinite(push.priority) else str(-push.priority) for push in self.pushes
        ]
        columns = {name: [getattr(push, name) for push in self.pushes] for name in _OF_ADMISSION}
        optional = {
            "mode": modes[0] if len(set(modes)) == 1 else "",
            "modes": modes if len(set(modes)) > 1 else [],
            "ranks": ranks if any(ranks) else [],
            "slots": list(slots) if any(slots) else [],
            "slot_of": [slots[push.place] for push in self.pushes] if len(slots) > 1 else [],
            "has_lanes": any(push.lane for push in self.pushes),
            "offers": config.wire_offers,
            "columns": columns if any(map(any, columns.values())) else {},
            "after": [finished.after for finished in self.finished],
            "most_after": max((finished.after for finished in self.finished), default=0),
            "busy": self.busy,
            "exceed": self.exceed,
            "finishing": self.finishing,
            "suspects": self.suspects,
            "max_waiting": config.max_waiting,
            "policy": config.policy if config.max_waiting else "",
            "max_seed_bytes": config.max_seed_bytes if self.want_seeds else 0,
            "found": self.found if self.local_only or self.local_only_reason else 0,
            "local_only": self.local_only,
            "local_only_reason": self.local_only_reason,
            "slot_policy": config.slot_policy.id if config.slot_policy else "",
            "ahead": self.ahead,
            "is_late": self.is_late,
            "slot_order": config.order if config.order != "slots" else "",
            "max_workers": config.max_workers,
            "close": config.close.to_wire(),
            "stall_ms": int(1000 * config.stall_timeout),
            "counted": self.counted,
            "bottleneck": self.bottleneck,
            "times": self.times,
            "passed": " ".join(self.passed),
            "saturated": self.saturated,
            "asks": self.asks,
            "outside": self.outside,
            "latency": self.latency,
            "latencies": self.latencies,
            "throttle": self.throttle,
            "grants": self.grants,
            "downloaded": self.downloaded,
            "answers": self.answers,
            "backoff": self.answers
            and [
                1000 * config.backoff_min_delay,
                1000 * config.backoff_max_delay,
                1000 * config.slot_give_up,
            ],
            "recalled": self.recalled,
            "gives_up": config.slot_give_up > 0,
            "max_pages": config.max_pages,
            "caps": self.caps,
            "denied": self.denied,
            "continued": self._of_pushes("continues"),
            "groups": self._of_pushes("groups"),
            "follows": self._of_pushes("after", lambda push: bool(push.payload)),
            "members": self._of_pushes("member", lambda push: not push.payload),
            "groups_acked": self.groups_acked,
            "left_memory": self.left_memory,
            "is_closing": self.is_closing,
            "pools": bool(config.pools),
            "pool_reports": self.pool_reports,
            "own_items": self.own_items,
            "own_in_flight": self.own_in_flight,
            "idle": self.idle,
            "scraped": self.scraped,
            "errors": self.errors,
            "run": self.run,
            "counts": self.counts,
            "slot_counts": self.slot_counts,
            "outcomes": 1 if self.outcomes else 0,
            "max_outcomes": config.outcomes if self.outcomes else 0,
            "drops_followers": config.group_failed == "drop",
            "given_back": len(self.given_back),
            "refused": len(self.refused),
            "failed": len(self.failed),
            "forgotten": len(self.forgotten),
            "items": sum(len(group.items) for group in self.item_groups),
            "item_groups": self._groups_to_wire(config.items == "stream" or bool(config.feed)),
            "items_as": config.items,
            "feed": config.feed,
            "max_items": config.max_items if config.items else 0,
            "max_feed": FEED_MOST if config.feed else 0,
        }
        return {name: value for name, value in optional.items() if value}

    def _of_pushes(self, name: str, chosen: Callable[[Push], bool] = lambda push: True) -> dict[str, Any]:
        """Return the field *name* of the *chosen* pushes that have it, by the place of the push, from 1."""
        values = ((str(place), getattr(push, name), push) for place, push in enumerate(self.pushes, 1))
        return {place: value for place, value, push in values if value and chosen(push)}

    def _groups_to_wire(self, with_urls: bool) -> list[list[Any]]:
        """Return the groups of items without the items, as ``lua/exchange/page_items.lua`` reads them."""
        places = {finished.lease: place for place, finished in enumerate(self.finished, 1)}
        return [
            [
                len(group.items),
                places[group.lease] if group.is_last else group.lease or 0,
                *((group.url, group.page, group.mark) if with_urls or group.mark else ()),
            ]
            for group in self.item_groups
        ]

    def of_first(self, pushes: int) -> Batch:
        """Return this batch with only its first *pushes*, and no items. The others are sent later."""
        with_items = {group.lease for group in self.item_groups}
        finished = [finished for finished in self.finished if finished.lease not in with_items]
        is_whole = pushes >= len(self.pushes)
        # The worker still holds the other leases.
        in_hand = self.in_hand + len(self.finished) - len(finished)
        return replace(
            self,
            pushes=self.pushes[:pushes],
            finished=finished,
            item_groups=[],
            # This news is valid only with the pushes that came before it.
            groups_acked=self.groups_acked if is_whole else [],
            left_memory=self.left_memory if is_whole else [],
            in_hand=in_hand,
            busy=True,
        )
