"""The frontier against a model of it: whatever a fleet says, in whatever order, Redis holds what a few
lines of plain Python say it should.

MODEL_EXAMPLES=1000 tries that many crawls of each discipline, other ones each time.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha1
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from scrapy_rq_sched.codec.needs import place_of, split_place
from scrapy_rq_sched.codec.pools import Pool, lane_of, pool_of
from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.frontier.fleet_config import FleetConfig
from scrapy_rq_sched.frontier.messages import Batch, Failed, Finished, Push
from scrapy_rq_sched.frontier.replies import Lease, Membership, Order, Reply, parse_lease
from scrapy_rq_sched.keys import Keys

from ..conftest import INTSETS
from ..support.client import compact_member, compact_members

pytestmark = pytest.mark.single("what it says is compared to the millisecond")

EXAMPLES = os.environ.get("MODEL_EXAMPLES")
#: The same crawls each time, so that a red build is red again; asked for more, new ones.
SETTINGS = settings(
    max_examples=int(EXAMPLES or 40),
    stateful_step_count=40,
    derandomize=not EXAMPLES,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

KEYS = Keys("s")
#: The pool for requests and the one for workers, and how many users each of their items may have at a time.
ACCOUNTS, LIFE = "accounts", "life"
ITEMS = {ACCOUNTS: {"alice": 1, "bob": 2}, LIFE: {"carol": 1, "dave": 1}}
POOLS = tuple(
    Pool(
        name,
        is_for_worker=name == LIFE,
        items=tuple({"name": item, "concurrency": most} for item, most in items.items()),
    )
    for name, items in ITEMS.items()
)
#: No test lasts as long: a worker dies when the test says so.
BOUNDS = FleetConfig(lease_timeout=100_000.0, max_deliveries=3, pools=POOLS)
LANE = "browser"
POOLED, LANE_POOLED = lane_of("", ACCOUNTS), lane_of(LANE, ACCOUNTS)
LANES = LANE, POOLED, LANE_POOLED


def offers_lane(worker: str) -> bool:
    """Return whether the worker of this name may have requests that need a browser: every second one."""
    return int(worker[1:]) % 2 == 1


def needs_item(worker: str) -> bool:
    """Return whether the worker of this name has an item for its life: every second one, too."""
    return not offers_lane(worker)


def may_serve(worker: str, lane: str) -> bool:
    """Return whether *worker* may have requests of *lane*, if their pool has an item."""
    return not lane.startswith(LANE) or offers_lane(worker)


#: Later than any test, in the server's milliseconds.
FAR_FUTURE = 2**52


# -- the model -----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Entry:
    """A request or a seed. Its payload is like no other's, so that none can stand in for another."""

    payload: bytes
    number: float
    priority: int = 0
    kind: str = "request"
    slot: str = ""
    #: Which workers may have it, and the pool of which it needs an item.
    lane: str = ""
    #: The group that it is in, and the one that it waits for.
    group: str = ""
    after: str = ""
    #: Workers that died after they had said that they had begun it, and before.
    died: int = 0
    unbegun: int = 0
    refused_by: set[str] = field(default_factory=set)
    #: Whether a worker that had been given up for dead has finished it.
    done: bool = False

    def __post_init__(self) -> None:
        self.arrived = int(self.number)

    @property
    def deaths(self) -> int:
        return self.died + self.unbegun

    @property
    def place(self) -> str:
        return place_of(self.slot, self.lane)

    @property
    def is_pooled(self) -> bool:
        return bool(pool_of(self.lane))


@dataclass(eq=False)
class Held:
    """An entry in a worker's hands. The same entry, handed out again, is another lease."""

    entry: Entry
    exchange: int
    place: int
    deaths: int
    name: str = ""

    @property
    def order(self) -> tuple[int, int]:
        return self.exchange, self.place


@dataclass
class Member:
    """What the frontier knows of a worker that has joined."""

    exchange: int = 0
    duplicates: tuple[int, ...] = ()
    lost: bool = False
    reclaimed: bool = False
    left: bool = False
    busy: bool = False
    registered: bool = True
    #: When it was dead, in an order only; 0 while it is alive.
    dead_since: int = 0
    #: Whether its lease was renewed after an outage, and it was not heard since.
    renewed: bool = False
    held: list[Held] = field(default_factory=list)
    #: The last request and the last seed that it has said it had begun.
    begun: Held | None = None
    expanded: Held | None = None
    #: What it had begun when it was given up for dead.
    taken_away: list[Held] = field(default_factory=list)
    #: Its requests of groups that are only in its memory.
    memory: set[Entry] = field(default_factory=set)
    #: Whether it has an item for its life.
    has_item: bool = False


@dataclass
class Said:
    """A batch, with the leases themselves in the place of their names."""

    number: int
    pushes: list[tuple[Push, Entry]] = field(default_factory=list)
    finished: list[Held] = field(default_factory=list)
    given_back: list[Held] = field(default_factory=list)
    refused: list[Held] = field(default_factory=list)
    failed: list[Held] = field(default_factory=list)
    forgotten: list[tuple[str, str]] = field(default_factory=list)
    want: int = 0
    want_seeds: int = 0
    suspects: int = 0
    busy: bool = False
    in_hand: int = 0
    begun: Held | None = None
    expanded: Held | None = None
    #: Finished groups that its spider was told, and requests of groups that have left its memory.
    groups_acked: list[str] = field(default_factory=list)
    left_memory: list[Entry] = field(default_factory=list)
    #: The item that it has for its life, as far as it knows; None if it needs none.
    own_item: str | None = None
    #: Whether the pushes are left out, as after failures. What led to them is not released then.
    left_out: bool = False

    def batch(self) -> Batch:
        after = len(self.pushes)
        batch = Batch(
            self.number,
            busy=self.busy,
            want=self.want,
            want_seeds=self.want_seeds,
            suspects=self.suspects,
            in_hand=self.in_hand,
            begun=self.begun.name if self.begun else "",
            expanded=self.expanded.name if self.expanded else "",
            pushes=[push for push, _ in self.pushes],
            finished=[Finished(held.name, after) for held in self.finished],
            given_back=[held.name for held in self.given_back],
            refused=[(held.name, "no callback") for held in self.refused],
            failed=[Failed(held.name, after, "no good") for held in self.failed],
            forgotten=self.forgotten,
            groups_acked=self.groups_acked,
            left_memory=[entry.arrived for entry in self.left_memory],
            own_items={} if self.own_item is None else {LIFE: self.own_item},
        )
        return batch.of_first(0) if self.left_out else batch

    @property
    def kept(self) -> list[Held]:
        """The leases that are done, and are not released because what they led to is left out."""
        return [*self.finished, *self.failed] if self.left_out else []


class Model:
    """What the frontier is to do, for one worker after the other, with no Redis and no clock."""

    def __init__(self, discipline: str) -> None:
        self.discipline = discipline
        self.queues: dict[str, list[Entry]] = {"": []}  # of each place, the next one first
        self.grants: list[str] = []  # places with requests, the next one first
        self.seeds: list[Entry] = []
        self.delayed: list[Entry] = []
        self.failed: list[tuple[Entry, int]] = []  # with the deaths that it had
        self.seen: set[str] = set()
        self.started: set[str] = set()
        self.members: dict[str, Member] = {}
        self.accepted: set[bytes] = set()
        self.due: list[Entry] = []  # of the delayed, the next one first
        self.epoch = 0
        self.ages = 0
        self.is_made = False
        #: The open groups with their numbers, what waits for them, and the finished ones; and of those that
        #: no spider has confirmed, the worker that tells it.
        self.open: dict[str, int] = {}
        self.opened = 0
        self.followers: list[Entry] = []
        self.done: set[str] = set()
        #: How many requests of each group were set aside since it was opened.
        self.failures: dict[str, int] = {}
        self.news: dict[str, str] = {}
        self.latest = 0.0
        #: Each event, and whom it concerns.
        self.told: list[tuple[str, str]] = []

    @property
    def waiting(self) -> list[Entry]:
        return [entry for queue in self.queues.values() for entry in queue]

    def dead(self) -> list[str]:
        """Return who is dead and not yet reclaimed, the longest dead first."""
        dead = [name for name, member in self.registered().items() if member.dead_since]
        return sorted(dead, key=lambda name: self.members[name].dead_since)

    def registered(self) -> dict[str, Member]:
        return {name: member for name, member in self.members.items() if member.registered}

    def leased(self) -> int:
        return sum(len(member.held) for member in self.members.values())

    def room(self, taken: Iterable[Entry] = ()) -> int:
        """Return how many requests can have an item, when *taken* were handed out, too."""
        members = self.members.values()
        users = [*taken, *(held.entry for member in members for held in member.held)]
        return sum(ITEMS[ACCOUNTS].values()) - sum(entry.is_pooled for entry in users)

    def _take_item(self, name: str, member: Member) -> None:
        has_room = sum(other.has_item for other in self.members.values()) < sum(ITEMS[LIFE].values())
        member.has_item = needs_item(name) and (member.has_item or has_room)

    def finished(self) -> bool:
        left = len(self.waiting) + len(self.seeds) + len(self.delayed) + self.leased()
        is_quiet = not left and not any(member.busy for member in self.registered().values())
        return is_quiet and not (self.open or self.followers or self.news)

    def members_of(self, group: str) -> list[Entry]:
        """Return what holds *group* open, wherever it is."""
        members = self.members.values()
        entries = [*self.waiting, *self.delayed, *self.followers]
        entries += [held.entry for member in members for held in member.held]
        entries += [entry for member in members for entry in member.memory]
        return [entry for entry in entries if entry.group == group]

    def _settle(self) -> None:
        """Close the groups that nothing holds open."""
        for group, number in sorted(self.open.items(), key=lambda pair: str(pair[1])):
            if self.members_of(group):
                continue
            freed = [entry for entry in self.followers if entry.after == group]
            for entry in freed:
                self.followers.remove(entry)
                self.latest += 1e-4
                entry.number = self.latest
            self._add(freed)
            assert self.open.pop(group) == number
            if group not in self.done:
                self.done.add(group)
                self.news[group] = ""

    def _announce(self, name: str, said: Said) -> set[tuple[str, int]]:
        for group, owner in self.news.items():
            if owner not in self.registered():
                self.news[group] = name
        return {(group, self.failures[group]) for group, owner in self.news.items() if owner == name}

    def _acknowledge(self, name: str, member: Member, said: Said) -> None:
        if said.left_out:
            return
        for group in said.groups_acked:
            if self.news.get(group) == name:
                del self.news[group]
        member.memory -= set(said.left_memory)

    def join(self, name: str, busy: bool) -> None:
        self.members[name] = Member(busy=busy)
        if not self.is_made:
            self.told.append(("crawl_started", name))
        self.is_made = True
        self.told.append(("worker_joined", name))

    def expire(self, name: str) -> int:
        self.ages += 1
        self.members[name].dead_since = self.ages
        return self.ages

    def leave(self, name: str) -> int:
        member = self.members[name]
        # Who is lost already does not leave as well.
        if member.registered and not member.reclaimed:
            self.told.append(("worker_left", name))
        if member.held:
            self.expire(name)
            member.registered = member.left = True
            member.renewed = False
        else:
            member.registered = member.has_item = False
            member.memory.clear()
        is_anything_left = self.waiting or self.seeds or self.delayed or self.leased()
        nothing_is_left = not (self.registered() or is_anything_left or self.followers or self.news)
        # A frontier in which there never was anything is none: the next to join makes it anew.
        if nothing_is_left and not (self.seen or self.started):
            self.epoch += 1
            self.is_made = False
        return len(member.held)

    def exchange(self, name: str, said: Said) -> dict[str, Any]:
        member = self.members[name]
        alive = [other for other in self.registered().values() if not other.dead_since]
        if member.registered and not alive:
            # Nobody got through in time, so it was not the workers. But that is believed of each only once.
            for other in self.registered().values():
                if not other.renewed:
                    other.dead_since, other.renewed = 0, True
        member.registered, member.dead_since, member.renewed = True, 0, False
        member.left = member.left and said.number == member.exchange
        repeated = said.number == member.exchange
        lost = member.reclaimed or (repeated and member.lost)
        failed_before = len(self.failed)
        self._take_item(name, member)
        if not repeated:
            member.duplicates = self._push(member, said)
            self._release(name, member, said)
            if member.reclaimed:
                self.told.append(("worker_joined", name))
            member.exchange, member.lost, member.reclaimed = said.number, lost, False
            member.begun, member.expanded = said.begun, said.expanded
        member.busy = said.busy or said.left_out
        dead = [] if lost else self.dead()[:4]
        returned = sum(self._reclaim(other) for other in dead)
        self._acknowledge(name, member, said)
        self._settle()
        groups_finished = self._announce(name, said)
        if not repeated:
            self._hand_out(name, member, said)
        self.due = []
        return {
            "membership": Membership.EXPIRED if lost else Membership.CURRENT,
            "stored": 0 if said.left_out else len(said.pushes),
            "duplicates": member.duplicates,
            "waiting": len(self.waiting),
            "parked": len(self.delayed),
            "seeds": len(self.seeds),
            "workers": len(self.registered()),
            "leased": None if self.waiting else self.leased(),
            "finished": self.finished(),
            "returned": returned,
            "set_aside": len(self.failed) - failed_before,
            "dead": tuple(dead),
            "lost": (),
            "seeds_problem": (),
            "order": Order.ITEM if needs_item(name) and not member.has_item else Order.CRAWL,
            "groups_finished": groups_finished,
        }

    def _push(self, member: Member, said: Said) -> tuple[int, ...]:
        duplicates, accepted = [], []
        for place, (push, entry) in enumerate([] if said.left_out else said.pushes):
            new = True
            for mode, known in (("start", self.started), ("filter", self.seen)):
                if new and mode in push.mode.split("+"):
                    new = push.fingerprint not in known
                    known.add(push.fingerprint)
            if not new:
                duplicates.append(place)
                continue
            waits = entry.after in self.open
            if entry.group and entry.group not in self.open:
                self.opened += 1
                self.open[entry.group] = self.opened
                self.failures.setdefault(entry.group, 0)
            self.latest = max(self.latest, entry.number)
            if not push.payload:
                member.memory |= {entry} if entry.group else set()
                continue
            self.accepted.add(entry.payload)
            (self.followers if waits else accepted).append(entry)
        self._add(accepted)
        return tuple(duplicates)

    def _add(self, entries: list[Entry]) -> None:
        # New places in a lane have their turn before the others of the same exchange.
        for entry in sorted(entries, key=lambda entry: not entry.lane):
            queue = self._queue_of(entry)
            queue.insert(0 if self.discipline == "lifo" else len(queue), entry)
        self._sort()

    def _queue_of(self, entry: Entry) -> list[Entry]:
        """Return the queue that *entry* comes into; its place has a turn from now on."""
        if entry.place and entry.place not in self.grants:
            self.grants.append(entry.place)
        return self.queues.setdefault(entry.place, [])

    def _sort(self) -> None:
        if self.discipline == "priority":
            for queue in self.queues.values():
                queue.sort(key=lambda entry: (-entry.priority, entry.number))

    def _put_back(self, entries: Iterable[Entry]) -> None:
        entries = list(entries)
        requests = [entry for entry in entries if entry.kind == "request"]
        for entry in sorted(requests, key=lambda entry: not entry.lane):
            self._queue_of(entry)
        for place, queue in self.queues.items():
            queue[:0] = [entry for entry in requests if entry.place == place]
        self.seeds[:0] = [entry for entry in entries if entry.kind != "request"]
        self._sort()

    def _set_aside(self, entry: Entry) -> None:
        self.failed.append((entry, entry.died))
        if entry.group:
            self.failures[entry.group] += 1
        self.told.append(("request_set_aside", ""))
        self._forget_history(entry)

    @staticmethod
    def _forget_history(entry: Entry) -> None:
        entry.died = entry.unbegun = 0
        entry.refused_by.clear()
        entry.done = False

    def _release(self, name: str, member: Member, said: Said) -> None:
        def release(leases: list[Held]) -> list[Entry]:
            # Of what it no longer holds a worker can free nothing.
            released = [held for held in leases if held in member.held]
            member.held = [held for held in member.held if held not in released]
            return [held.entry for held in sorted(released, key=lambda held: (held.exchange, held.place))]

        finished, failed = ([], []) if said.left_out else (said.finished, said.failed)
        for held in finished:
            late = held in member.taken_away and held not in member.held
            if late and (held.entry.deaths or held.entry.refused_by):
                held.entry.done = True
                member.taken_away.remove(held)
        for entry in release(finished):
            self.accepted.remove(entry.payload)
            self._forget_history(entry)
        self._put_back(release(said.given_back))
        # As they were said, which is the order in which they come back.
        for held in said.refused:
            for entry in release([held]):
                entry.refused_by.add(name)
                if self._may_have(entry) <= entry.refused_by:
                    self._set_aside(entry)
                else:
                    self.delayed.append(entry)
        for entry in release(failed):
            self._set_aside(entry)
        forgotten = 0
        for mode, fingerprint in said.forgotten:
            for part, known in (("start", self.started), ("filter", self.seen)):
                if part in mode.split("+") and fingerprint in known:
                    known.remove(fingerprint)
                    forgotten += 1
        self.epoch += forgotten > 0

    def _reclaim(self, name: str) -> int:
        member = self.members[name]
        if not (member.left or member.reclaimed):
            self.told.append(("worker_lost", name))
        others = []
        for held in member.held:
            entry, last = held.entry, member.begun if held.entry.kind == "request" else member.expanded
            begun = last is not None and held.order <= last.order
            if not member.left:  # to leave is not to die
                entry.died += begun
                entry.unbegun += not begun
            if entry.done:
                self._end(entry)
            elif entry.died >= BOUNDS.max_deliveries:
                self._set_aside(entry)
            else:
                others.append(entry)
                if begun and not member.left:
                    member.taken_away.append(held)
        self._put_back(others)
        member.held = []
        member.memory.clear()
        member.registered, member.reclaimed, member.busy = False, True, False
        member.has_item = False
        return len(others)

    def _hand_out(self, name: str, member: Member, said: Said) -> None:
        if needs_item(name) and not member.has_item:
            return
        to_share = len(self.waiting) + len(self.delayed)
        share = max(1, math.ceil(to_share / len(self.registered())))
        seeds, self.seeds = self.seeds[: said.want_seeds], self.seeds[said.want_seeds :]
        taken, later = [], []
        for seed in seeds:
            if seed.done:
                self._end(seed)
            else:
                (later if self._is_for_another(name, seed) else taken).append(seed)
        self.seeds[:0] = later
        want, suspects = min(said.want, share), said.suspects
        has_item = self.room() > 0

        def admit(entry: Entry) -> bool:
            nonlocal want, suspects
            if entry.done:
                self._end(entry)
                return True
            if self._is_for_another(name, entry) or (entry.deaths >= 2 and suspects):
                return False
            taken.append(entry)
            suspects += entry.deaths >= 2
            want -= entry.kind == "request"
            return True

        for entry in self.due[:50]:  # it does not look further at what is set back
            is_offered = may_serve(name, entry.lane) and not (entry.is_pooled and not self.room(taken))
            if is_offered and (want if entry.kind == "request" else said.want_seeds) > 0 and admit(entry):
                self.delayed.remove(entry)

        def take(slot: str, most: int) -> int:
            queue, before = self.queues[slot], most
            while want > 0 and most > 0 and queue:
                entry = queue.pop(0)
                most -= 1
                if not admit(entry):
                    self.delayed.append(entry)
            return before - most

        closed: set[str] = set()
        while want > 0:
            served = [
                place
                for place in self.grants
                if may_serve(name, split_place(place)[1]) and (has_item or not is_pooled(place))
            ]
            due, flat = served[: want + len(closed)], bool(self.queues[""])
            turns = [place for place in due if place not in closed]
            each = math.ceil(want / max(1, len(turns) + flat))
            progress = take("", each)
            for place in turns:
                if want <= 0:
                    break
                most = min(each, self.room(taken)) if is_pooled(place) else each
                if not most:
                    closed.add(place)
                    continue
                progress += max(1, take(place, most))
                self.grants.remove(place)
                self.grants += [place] if self.queues[place] else []
            if not progress:
                break
        for place, entry in enumerate(taken):
            member.held.append(Held(entry, said.number, place, entry.deaths))

    def _end(self, entry: Entry) -> None:
        self.accepted.remove(entry.payload)
        self._forget_history(entry)

    def _alive(self) -> set[str]:
        return {name for name, member in self.registered().items() if not member.dead_since}

    def _may_have(self, entry: Entry) -> set[str]:
        """Return the living workers that may have *entry*."""
        return {name for name in self._alive() if may_serve(name, entry.lane)}

    def _is_for_another(self, name: str, entry: Entry) -> bool:
        return name in entry.refused_by and not self._may_have(entry) <= entry.refused_by


# -- the fleet -----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Worker:
    """One worker's side of it: what it believes, right or wrong."""

    name: str
    frontier: Frontier
    number: int = 0
    believes_held: list[Held] = field(default_factory=list)
    #: What it had not begun when it heard that it was given up for dead.
    dropped: list[Held] = field(default_factory=list)
    #: What it has said and has heard no answer to: it says nothing else before it has one.
    unanswered: Said | None = None
    lease_names: set[str] = field(default_factory=set)
    #: Its requests of groups that are only in its memory; those before a number are over.
    memory: list[Entry] = field(default_factory=list)
    remembers_from: int = 0
    latest: int = 0
    #: The finished groups that its spider was told.
    groups: list[str] = field(default_factory=list)
    #: The item that it has for its life.
    own_item: str = ""
    #: The last request and the last seed that it has begun: of what it was given, all but the very last.
    given: list[Held] = field(default_factory=list)

    def last_begun(self, *kinds: str) -> Held | None:
        given = [held for held in self.given if held.entry.kind in kinds]
        return max(given[:-1], key=lambda held: held.order, default=None)


def shown(leases: Iterable[Lease]) -> list[tuple[str, str, int, bytes]]:
    return [(lease.name, lease.kind, lease.deaths, lease.payload) for lease in leases]


def expected(leases: Iterable[Held]) -> list[tuple[str, str, int, bytes]]:
    return [(held.name, held.entry.kind, held.deaths, held.entry.payload) for held in leases]


WHO = st.integers(0, 3)
# Few fingerprints, so that most are soon seen; the ends of what keeps its order exactly.
PUSHES = st.lists(
    st.tuples(
        st.sampled_from(["filter", "force", "start", "start+filter"]),
        st.integers(0, 11),
        st.sampled_from([0, 0, 0, 1, -1, 7, 2**20, -(2**20)]),
        st.sampled_from([False] * 9 + [True]),  # whether it stays in the worker's memory
        st.sampled_from(
            [
                *("", "", "a", "a", "b", "c", "a|browser", "d|browser"),
                *(place_of("a", POOLED), place_of("e", POOLED), place_of("a", LANE_POOLED)),
            ]
        ),  # its place
        st.sampled_from(["", "", "", "in g", "in h", "after g", "after h"]),
    ),
    min_size=1,
    max_size=8,
)
# Which lease of those that are left, and what becomes of it.
FATES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["finished", "given_back", "given_back", "failed"])),
    min_size=1,
    max_size=5,
)
WANT = st.sampled_from([1, 2, 3, 100])
ANSWERED = st.sampled_from([True, True, False])
FORGOTTEN = st.lists(
    st.tuples(st.sampled_from(["filter", "start", "start+filter"]), st.integers(0, 11).map(str)), max_size=2
)


class Crawl(RuleBasedStateMachine):
    """A fleet on a real Redis, and the same fleet in the model."""

    def __init__(self, server: redis.Redis, discipline: str, dupefilter: str) -> None:
        super().__init__()
        self.server = server
        self.dupefilter = dupefilter
        self.server.flushall()
        self.model = Model(discipline)
        self.workers: list[Worker] = []
        self.entries = 0
        self.epochs: dict[int, bytes] = {}

    # -- joining, dying, leaving -------------------------------------------------------------------

    @initialize(
        count=st.integers(2, 4), busy=st.booleans(), priorities=st.lists(st.integers(0, 2), max_size=12)
    )
    def a_fleet_joins(self, count: int, busy: bool, priorities: list[int]) -> None:
        for _ in range(count):
            self.join(busy)
        self.say(self.workers[0], True, [("force", 0, priority, False, "", "") for priority in priorities])

    @precondition(lambda self: len(self.workers) < 4)
    @rule(busy=st.booleans())
    def one_more_joins(self, busy: bool) -> None:
        self.join(busy)

    def join(self, busy: bool = False) -> Worker:
        name = f"w{len(self.model.members)}"
        bounds = replace(BOUNDS, offers=frozenset({LANE} if offers_lane(name) else ()))
        frontier = Frontier(self.server, KEYS, name, self.model.discipline, bounds, self.dupefilter)
        opened = frontier.open({"SCHEDULER_SERIALIZER": "json"}, busy=busy)
        self.model.join(name, busy)
        model = self.model
        there = (opened.waiting, opened.seen, opened.seeds, opened.leased, opened.workers)
        counted = (len(model.waiting), len(model.seen), len(model.seeds), model.leased())
        assert there == (*counted, len(model.registered()))
        assert not opened.flushed
        # Every second worker calls a script, if the others call a function: both must do the same.
        frontier._exchange.is_function &= len(self.model.members) % 2 == 0
        self.workers.append(Worker(name, frontier))
        return self.workers[-1]

    @precondition(lambda self: self.workers)
    @rule(who=WHO, for_good=st.booleans())
    def one_is_not_heard_of_in_time(self, who: int, for_good: bool) -> None:
        worker = self.workers[who % len(self.workers)]
        self.expire(worker.name)
        if for_good:
            self.workers.remove(worker)

    @rule()
    def redis_is_away_for_longer_than_a_lease(self) -> None:
        for name in self.model.registered():
            self.expire(name)

    def expire(self, name: str) -> None:
        # Who was reclaimed already is no longer there, and joins again with its next word.
        if (member := self.model.members[name]).registered:
            renewed = 0.5 if member.renewed else 0
            self.server.zadd("s:workers", {name: self.model.expire(name) + renewed}, xx=True)

    @precondition(lambda self: self.workers)
    @rule(who=WHO, want=WANT)
    def one_is_killed_at_work(self, who: int, want: int) -> None:
        worker = self.workers[who % len(self.workers)]
        self.say(worker, True, want=want, want_seeds=1)
        self.expire(worker.name)
        self.workers.remove(worker)

    @precondition(lambda self: len(self.workers) > 1)
    @rule(
        who=WHO,
        want=WANT,
        busy=st.booleans(),
        answered=ANSWERED,
        others_want=st.integers(0, 3),
        redis_was_away=st.booleans(),
        pushes=PUSHES,
        fates=FATES,
        begun=WHO,
    )
    def one_speaks_when_it_has_been_given_up(
        self,
        who: int,
        want: int,
        busy: bool,
        answered: bool,
        others_want: int,
        redis_was_away: bool,
        **late_words: Any,
    ) -> None:
        late = self.workers[who % len(self.workers)]
        self.say(late, answered, want=want, busy=busy)
        self.expire(late.name)
        for other in self.workers:
            if other is not late:
                self.say(other, True, want=others_want)
        if redis_was_away:
            self.redis_is_away_for_longer_than_a_lease()
        self.say(late, True, want=want, **late_words)

    @precondition(lambda self: self.workers)
    @rule(who=WHO)
    def one_leaves(self, who: int) -> None:
        worker = self.workers[who % len(self.workers)]
        self.workers.remove(worker)
        assert worker.frontier.leave(finished=False, persist=False)[:2] == (
            False,
            self.model.leave(worker.name),
        )
        if self.model.members[worker.name].held:
            seconds, microseconds = self.server.time()
            assert self.server.zscore("s:workers", worker.name) <= seconds * 1000 + microseconds / 1000
            # It is dead at once; here, in the order of the others.
            since = self.model.members[worker.name].dead_since
            self.server.zadd("s:workers", {worker.name: since}, xx=True)

    # -- saying --------------------------------------------------------------------------------------

    @precondition(lambda self: self.workers)
    @rule(who=WHO, pushes=PUSHES, answered=ANSWERED)
    def one_pushes(self, who: int, pushes: list[Any], answered: bool) -> None:
        self.say(self.workers[who % len(self.workers)], answered, pushes)

    @precondition(lambda self: self.workers)
    @rule(who=WHO, want=WANT, answered=ANSWERED)
    def one_takes(self, who: int, want: int, answered: bool) -> None:
        self.say(self.workers[who % len(self.workers)], answered, want=want)

    @precondition(lambda self: self.workers)
    @rule(who=WHO, want_seeds=st.integers(1, 3), want=st.sampled_from([0, 1]))
    def one_takes_seeds(self, who: int, want_seeds: int, want: int) -> None:
        self.say(self.workers[who % len(self.workers)], True, want=want, want_seeds=want_seeds)

    @precondition(lambda self: any(worker.believes_held for worker in self.workers))
    @rule(who=WHO, fates=FATES, answered=ANSWERED)
    def one_releases(self, who: int, fates: list[Any], answered: bool) -> None:
        holders = [worker for worker in self.workers if worker.believes_held]
        self.say(holders[who % len(holders)], answered, fates=fates)

    @precondition(lambda self: any(worker.believes_held for worker in self.workers))
    @rule(who=WHO)
    def one_gives_back_all_that_it_holds(self, who: int) -> None:
        holders = [worker for worker in self.workers if worker.believes_held]
        holder = holders[who % len(holders)]
        # In no order: the frontier has to find the one in which they stood.
        self.say(holder, True, fates=[(1, "given_back")] * len(holder.believes_held))

    @precondition(lambda self: any(worker.believes_held for worker in self.workers))
    @rule(who=WHO, lease=st.integers(0, 5))
    def one_does_not_know_a_callback(self, who: int, lease: int) -> None:
        holders = [worker for worker in self.workers if worker.believes_held]
        self.say(holders[who % len(holders)], True, fates=[(lease, "refused")])

    @precondition(lambda self: any(worker.believes_held for worker in self.workers))
    @rule(who=WHO, want=WANT, want_seeds=st.integers(0, 3), others_die=st.booleans())
    def one_knows_no_callback_at_all_and_asks_again(
        self, who: int, want: int, want_seeds: int, others_die: bool
    ) -> None:
        holders = [worker for worker in self.workers if worker.believes_held]
        holder = holders[who % len(holders)]
        self.take_and_refuse(holder, want, want_seeds)
        if self.model.delayed:
            self.what_is_delayed_is_due()
        # It is for another, while there is one; then for whoever is there.
        self.say(holder, True, want=want, want_seeds=want_seeds)
        if others_die:
            for name in self.model.registered():
                if name != holder.name:
                    self.expire(name)
            self.say(holder, True)
            self.say(holder, True, want=want, want_seeds=want_seeds)

    def take_and_refuse(self, worker: Worker, want: int, want_seeds: int) -> None:
        self.say(worker, True, want=want, want_seeds=want_seeds)
        self.say(worker, True, fates=[(0, "refused")] * len(worker.believes_held))

    @precondition(lambda self: any(worker.believes_held for worker in self.workers))
    @rule(
        who=WHO, answered=ANSWERED, pushes=PUSHES.filter(bool), fate=st.sampled_from(["finished", "failed"])
    )
    def one_is_done_and_leaves_out_what_it_found(
        self, who: int, answered: bool, fate: str, pushes: Any
    ) -> None:
        holders = [worker for worker in self.workers if worker.believes_held]
        holder = holders[who % len(holders)]
        self.say(holder, answered, pushes=pushes, fates=[(0, fate)], left_out=True)

    @precondition(lambda self: self.workers)
    @rule(
        who=WHO,
        answered=ANSWERED,
        pushes=PUSHES,
        fates=FATES,
        want=WANT,
        want_seeds=st.integers(0, 2),
        busy=st.booleans(),
        forgotten=FORGOTTEN,
        begun=st.integers(0, 3),
        left_out=st.booleans(),
    )
    def one_says_everything_at_once(self, who: int, answered: bool, **said: Any) -> None:
        self.say(self.workers[who % len(self.workers)], answered, **said)

    def say(
        self,
        worker: Worker,
        answered: bool,
        pushes: Iterable[tuple[Any, int, int, bool, str, str]] = (),
        fates: Iterable[tuple[int, str]] = (),
        forgotten: Iterable[tuple[str, str]] = (),
        begun: int = 1,
        **numbers: Any,
    ) -> Reply:
        """Have *worker* say this, or what it has had no answer to.

        :param answered: whether it hears the answer.
        :param begun: how many leases it had begun, if it hears that it was given up for dead.
        """
        repeats = worker.unanswered
        said = repeats or self.compose(worker, pushes, fates, forgotten, numbers)
        model_reply = self.model.exchange(worker.name, said)
        groups_finished = model_reply.pop("groups_finished")
        reply = worker.frontier.exchange(said.batch())
        assert {name: getattr(reply, name) for name in model_reply} == model_reply
        assert set(reply.groups_finished) == groups_finished
        self.check_own_item(worker, said, reply)
        self.check_epoch(reply)
        # No test is to last until what is delayed is due.
        delayed = self.server.zrange("s:delayed", 0, -1)
        if delayed:
            self.server.zadd("s:delayed", dict.fromkeys(delayed, FAR_FUTURE), xx=True)
        leases = self.check_leases(worker, said, reply, bool(repeats))
        self.check_that_a_repeat_changes_nothing(worker, said, reply)
        worker.unanswered = None if answered else said
        if answered:
            worker.own_item = self.own_items().get(worker.name, "")
            worker.groups = [group for group, _ in reply.groups_finished]
            if said.left_out:
                worker.memory += said.left_memory
            worker.believes_held[:0] = said.kept
            if reply.membership == Membership.EXPIRED:
                worker.dropped += worker.believes_held[begun:]
                del worker.believes_held[begun:]
            worker.believes_held += leases
            worker.given += [held for held in leases if held not in worker.given]
        event(f"membership: {reply.membership.name}, repeats: {bool(repeats)}")
        return reply

    def compose(self, worker: Worker, pushes: Any, fates: Any, forgotten: Any, numbers: Any) -> Said:
        worker.number += 1
        said = Said(worker.number, forgotten=list(forgotten), **numbers)
        for mode, fingerprint, priority, in_memory, place, order in pushes:
            self.entries += 1
            slot, lane = split_place(place)
            entry = Entry(f"request-{self.entries}".encode(), self.entries, priority, slot=slot, lane=lane)
            entry.group = order.removeprefix("in ") if order.startswith("in ") else ""
            entry.after = order.removeprefix("after ") if order.startswith("after ") else ""
            is_in_memory = in_memory and mode != "force" and not entry.after
            payload = b"" if is_in_memory else entry.payload
            groups = {"groups": entry.group, "after": entry.after, "member": self.entries}
            push = Push(mode, str(fingerprint), priority, payload, slot, lane=lane, **groups)
            said.pushes.append((push, entry))
            if is_in_memory and entry.group:
                worker.memory.append(entry)
        # It finishes what is in its memory in the exchange after the next one.
        said.left_memory = [entry for entry in worker.memory if entry.arrived < worker.remembers_from]
        worker.memory = [entry for entry in worker.memory if entry not in said.left_memory]
        worker.remembers_from = worker.latest
        worker.latest = self.entries + 1
        said.groups_acked, worker.groups = worker.groups, []
        # What is in its memory may lead to more.
        said.busy = said.busy or bool(worker.memory)
        for place, fate in fates:
            if worker.believes_held:
                held = worker.believes_held.pop(place % len(worker.believes_held))
                getattr(said, fate).append(held)
        said.given_back += worker.dropped
        worker.dropped = []
        said.in_hand = len(worker.believes_held)
        said.begun, said.expanded = worker.last_begun("request"), worker.last_begun("list")
        said.suspects = sum(held.deaths >= 2 for held in worker.believes_held)
        said.left_out = said.left_out and bool(said.pushes)
        said.own_item = worker.own_item if needs_item(worker.name) else None
        return said

    def check_epoch(self, reply: Reply) -> None:
        assert self.epochs.setdefault(self.model.epoch, reply.epoch) == reply.epoch
        assert len(set(self.epochs.values())) == len(self.epochs)

    def check_own_item(self, worker: Worker, said: Said, reply: Reply) -> None:
        """Check that the worker learns the item that it has for its life, and only if it is another one."""
        own = self.own_items().get(worker.name, "")
        assert [item for _, item, _, _ in reply.own_items] == ([own] if own and own != said.own_item else [])
        assert reply.lacks_item == (LIFE if needs_item(worker.name) and not own else "")

    def own_items(self) -> dict[str, str]:
        """Return, by worker, the items that workers have for their life."""
        uses = [use.decode().split(" ") for use in self.server.zrange("s:pools:uses", 0, -1)]
        return {user.rstrip("/"): item for pool, item, user in uses if pool == LIFE}

    def check_leases(self, worker: Worker, said: Said, reply: Reply, repeats: bool) -> list[Held]:
        leases = [held for held in self.model.members[worker.name].held if held.exchange == said.number]
        if repeats:
            # The hash that remembers them knows no order.
            assert sorted(shown(reply.leases)) == sorted(expected(leases))
            return leases
        for held, lease in zip(leases, reply.leases, strict=True):
            assert lease.name not in worker.lease_names
            worker.lease_names.add(lease.name)
            held.name = lease.name
        assert shown(reply.leases) == expected(leases)
        return leases

    def check_that_a_repeat_changes_nothing(self, worker: Worker, said: Said, reply: Reply) -> None:
        if self.model.dead():
            return  # it would reclaim the next four
        if reply.order == Order.ITEM:
            return  # it would take the item of a worker that the exchange has reclaimed
        before, call = self.contents(), worker.frontier._exchange
        is_function, call.is_function = call.is_function, False
        again = worker.frontier.exchange(said.batch())
        call.is_function = is_function
        assert self.contents() == before
        assert sorted(shown(again.leases)) == sorted(shown(reply.leases))
        assert (again.returned, again.set_aside, again.dead) == (0, 0, ())
        for name in ("membership", "epoch", "duplicates", "waiting", "parked", "seeds", "workers", "leased"):
            assert getattr(again, name) == getattr(reply, name), name
        assert again.finished == reply.finished

    def contents(self) -> dict[bytes, Any]:
        """Return everything in Redis but the time: deadlines and times to live."""
        names = self.server.keys()
        with self.server.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.type(name)
            readers: dict[bytes, Callable[[bytes], Any]] = {
                b"string": pipe.get,
                b"hash": pipe.hgetall,
                b"set": pipe.smembers,
                b"list": lambda name: pipe.lrange(name, 0, -1),
                b"stream": pipe.xrange,
                b"zset": lambda name: pipe.zrange(name, 0, -1, withscores=name != b"s:workers"),
            }
            for name, kind in zip(names, pipe.execute(), strict=True):
                readers[kind](name)
            found = dict(zip(names, pipe.execute(), strict=True))
        # Times that move on with each second in which the same is still so.
        moving = {b"going_since", b"no_memory", b"no_room"}
        meta = found.get(b"s:meta", {})
        found[b"s:meta"] = {name: b"a time" if name in moving else value for name, value in meta.items()}
        # Who speaks has another deadline, and another place among the others; and so has what it offers.
        offered = [name for name, _ in found.pop(b"s:slots:offers", ())]
        return {**found, b"s:workers": sorted(found.get(b"s:workers", ())), b"s:slots:offers": offered}

    # -- from outside ------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def seeds_come(self, count: int) -> None:
        for _ in range(count):
            self.entries += 1
            entry = Entry(f"seed-{self.entries}".encode(), self.entries, kind="list")
            self.server.rpush("s:start_urls", entry.payload)
            self.model.seeds.append(entry)
            self.model.accepted.add(entry.payload)

    @precondition(lambda self: self.model.delayed)
    @rule()
    def what_is_delayed_is_due(self) -> None:
        members = {payload_of(member): member for member in self.server.zrange("s:delayed", 0, -1)}
        scores = {members[entry.payload]: n for n, entry in enumerate(self.model.delayed)}
        self.server.zadd("s:delayed", scores, xx=True)
        self.model.due = [*self.model.delayed]

    # -- what always holds -------------------------------------------------------------------------

    @invariant()
    def redis_holds_what_the_model_holds(self) -> None:
        model = self.model
        with self.server.pipeline() as pipe:
            for place in model.queues:
                key = f"s:requests:slot:{place}" if place else "s:requests"
                if model.discipline == "priority":
                    pipe.zrange(key, 0, -1)
                else:
                    pipe.lrange(key, 0, -1)
            for lane in LANES:
                pipe.zrange(f"s:slots:lane:{lane}", 0, -1)
            pipe.zrange("s:slots", 0, -1).hget("s:meta", "in_slots").zrange("s:pools:uses", 0, -1)
            pipe.lrange("s:start_urls", 0, -1).zrange("s:delayed", 0, -1).lrange("s:failed", 0, -1)
            pipe.smembers("s:dupefilter").smembers("s:started").zrange("s:workers", 0, -1)
            pipe.hgetall("s:history").zrange("s:groups:followers", 0, -1).zcard("s:groups:members")
            pipe.hkeys("s:groups").hkeys("s:groups:news")
            for name in model.members:
                pipe.hgetall(f"s:leases:{name}")
            replies = pipe.execute()
        queues, replies = replies[: len(model.queues)], replies[len(model.queues) :]
        of_lanes, replies = replies[: len(LANES)], replies[len(LANES) :]
        grants, in_slots, uses, seeds, delayed, failed, seen, started, workers, history, *replies = replies
        followers, members, groups, news, *held = replies
        if model.discipline == "fifo":
            for queue in queues:
                queue.reverse()  # it is taken from the tail
        waiting = [payload for queue in queues for payload in queue]
        delayed = [payload_of(member) for member in delayed]
        failed = [(e["kind"], e["data"].encode(), e["deaths"]) for e in map(json.loads, failed)]
        leases = [{(name, payload_of(value)) for name, value in hash_.items()} for hash_ in held]

        # Nothing is lost, and nothing is in two places.
        aside = [payload for _, payload, _ in failed]
        leased = [payload for hash_ in leases for _, payload in hash_]
        followers = [payload_of(follower) for follower in followers]
        assert Counter([*waiting, *seeds, *delayed, *aside, *leased, *followers]) == Counter(model.accepted)

        assert set(followers) == {entry.payload for entry in model.followers}
        assert {name.decode() for name in groups if b"#" not in name} == set(model.open)
        assert members == sum(len(model.members_of(group)) for group in model.open)
        assert {name.decode() for name in news} == set(model.news)

        assert waiting == [entry.payload for entry in model.waiting]
        laned = [place for place in model.grants if "|" in place]
        for lane, of_lane in zip(LANES, of_lanes, strict=True):
            assert [place.decode() for place in of_lane] == [
                place for place in laned if split_place(place)[1] == lane
            ], lane
        # The places of the lanes come last there.
        plain = [place for place in model.grants if place not in laned]
        assert [place.decode() for place in grants] == plain + sorted(laned)
        assert int(in_slots or 0) == len(model.waiting) - len(model.queues[""])
        assert seeds == [entry.payload for entry in model.seeds]
        assert set(delayed) == {entry.payload for entry in model.delayed}
        assert sorted(failed) == sorted(
            (entry.kind.replace("list", "seed"), entry.payload, deaths) for entry, deaths in model.failed
        )
        if self.dupefilter == "compact":
            assert sorted(compact_members(self.server)) == sorted(map(compact_member, model.seen))
        else:
            assert {name.decode() for name in seen} == model.seen
        assert {name.decode() for name in started} == model.started
        assert {name.decode() for name in workers} == set(model.registered())
        for name, found in zip(model.members, leases, strict=True):
            known = {(held.name.encode(), held.entry.payload) for held in model.members[name].held}
            assert found == known, name
        self.check_items([use.decode() for use in uses], dict(zip(model.members, held, strict=True)))
        self.check_history(history)
        assert self.told() == model.told

    def check_items(self, uses: list[str], leases: dict[str, dict[bytes, bytes]]) -> None:
        """Check that each item has the users that it should have, and not more than it may have.

        :param uses: what Redis says, and :param leases: of each worker.
        """
        expected = []
        for worker, held in leases.items():
            for name, value in held.items():
                lease = parse_lease(value)
                assert bool(lease.item) == is_pooled(lease.slot), value
                expected += [f"{ACCOUNTS} {lease.item} {worker}/{name.decode()}"] if lease.item else []
        owners = [use for use in uses if use.startswith(LIFE)]
        assert sorted(use for use in uses if use not in owners) == sorted(expected)
        with_item = [name for name, member in self.model.members.items() if member.has_item]
        assert sorted(use.split(" ")[2] for use in owners) == sorted(f"{name}/" for name in with_item)
        users = Counter(tuple(use.split(" ")[:2]) for use in uses)
        for pool, items in ITEMS.items():
            for item, most in items.items():
                assert users.pop((pool, item), 0) <= most, uses
        assert not users, uses

    def told(self) -> list[tuple[str, str | None]]:
        events = [json.loads(fields[b"event"]) for _, fields in self.server.xrange("s:events")]
        return [
            (event["type"], event.get("worker") if event["type"] != "request_set_aside" else "")
            for event in events
        ]

    def check_history(self, history: dict[bytes, bytes]) -> None:
        model = self.model
        entries = [*model.waiting, *model.seeds, *model.delayed]
        entries += [held.entry for member in model.members.values() for held in member.held]
        known = {sha1(entry.payload).hexdigest(): entry for entry in entries}
        events = {digest.decode(): text.decode().split() for digest, text in history.items()}
        died = {
            digest: (
                sum(word.startswith("died:") for word in words),
                any(word.startswith("done:") for word in words),
            )
            for digest, words in events.items()
        }
        unbegun = {
            digest: sum(word.startswith("unbegun:") for word in words) for digest, words in events.items()
        }
        refused = {
            digest: sorted(word[8:].partition("@")[0] for word in words if word.startswith("refused:"))
            for digest, words in events.items()
        }
        remembered = {d: entry for d, entry in known.items() if entry.deaths or entry.refused_by}
        assert died == {digest: (entry.died, entry.done) for digest, entry in remembered.items()}
        assert unbegun == {digest: entry.unbegun for digest, entry in remembered.items()}
        assert refused == {digest: sorted(entry.refused_by) for digest, entry in remembered.items()}

    # -- the end -------------------------------------------------------------------------------------

    def teardown(self) -> None:
        # Not after a failure: it would fail here again, and hide where it failed first.
        if not self.failed():
            self.drain()
        super().teardown()

    def failed(self) -> bool:
        return sys.exc_info()[0] is not None

    def drain(self) -> None:
        """Have all die, and one that is new do all that is left; then nothing is left."""
        self.seeds_come(2)
        old, older, last = self.join(), self.join(), self.join()
        if not offers_lane(last.name):
            last = self.join()
        # What one of them has refused goes by it in its order; what the other has refused stays delayed.
        self.take_and_refuse(old, 2, 100)
        if self.model.delayed:
            self.what_is_delayed_is_due()
        self.say(old, True, want=2, want_seeds=100)
        self.redis_holds_what_the_model_holds()
        self.take_and_refuse(older, 2, 1)
        for name in self.model.registered():
            if name != last.name:
                self.expire(name)
        while self.model.dead():
            self.say(last, True)
        # While something is delayed, that alone keeps the crawl from being finished.
        reply = self.drain_what_waits(last)
        if self.model.delayed:
            reply = self.drain_what_waits(last)
        assert reply.finished
        assert self.model.accepted == {entry.payload for entry, _ in self.model.failed}
        assert last.frontier.leave(finished=True, persist=False).cleared
        assert self.told()[len(self.model.told) :][-2:] == [
            ("worker_left", last.name),
            ("crawl_finished", None),
        ]
        lasting = {name for name in self.server.scan_iter() if self.server.ttl(name) == -1}
        assert {key for key in lasting if not key.startswith(b"s:pools")} <= {b"s:failed"}
        assert not self.server.exists("s:pools:uses")

    def drain_what_waits(self, last: Worker) -> Reply:
        drained: list[Held] = []
        set_back = [*self.model.delayed]
        while last.believes_held or self.model.waiting or self.model.delayed:
            if self.model.delayed:
                self.what_is_delayed_is_due()
            every = [(0, "finished")] * len(last.believes_held)
            self.say(last, True, fates=every, want=100, want_seeds=100)
            self.redis_holds_what_the_model_holds()
            drained += last.believes_held
        if self.model.discipline == "priority":
            # In the words of the docs, and not by the model: of each slot the first of the highest priority
            # first. But for what is given out one at a time, and so later.
            for place in self.model.queues:
                calm = [
                    (-held.entry.priority, held.entry.number)
                    for held in drained
                    if held.deaths < 2
                    and (held.entry.kind, held.entry.place) == ("request", place)
                    and held.entry not in set_back
                    # It came when the others had been taken.
                    and not held.entry.after
                ]
                assert calm == sorted(calm)
        self.say(last, True, want_seeds=100)
        return self.say(last, True, fates=[(0, "finished")] * len(last.believes_held))


def is_pooled(place: str) -> bool:
    """Return whether the requests of *place* need an item."""
    return bool(pool_of(split_place(place)[1]))


def payload_of(value: bytes) -> bytes:
    """Return what stands last in a lease or a delayed entry; no payload here has a space."""
    return value.rpartition(b" ")[2]


@pytest.mark.parametrize("discipline", ["priority", "fifo", "lifo"])
def test_a_fleet_behaves_as_the_model(server: redis.Redis, discipline: str) -> None:
    run_state_machine_as_test(lambda: Crawl(server, discipline, "exact"), settings=SETTINGS)


def test_a_fleet_with_a_compact_filter_behaves_as_the_model(server: redis.Redis) -> None:
    # So that there are many buckets of few.
    server.config_set(INTSETS, 16)
    run_state_machine_as_test(lambda: Crawl(server, "fifo", "compact"), settings=SETTINGS)
