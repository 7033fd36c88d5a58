"""The places of ``FRONTIER_MAX_WORKERS`` against a model of them: whoever comes, goes, dies or is late."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from scrapy_rq_sched.frontier.client import Waiting
from scrapy_rq_sched.frontier.replies import Order
from scrapy_rq_sched.keys import Keys

from ..support.client import MADE_WITH, Client
from .test_model import SETTINGS

pytestmark = pytest.mark.single("names of keys")

MOST = 2
#: No test lasts as long: somebody is late when the test says so.
LEASE = 100_000.0
COUNT = 6
WHO = st.integers(0, COUNT - 1)


@dataclass
class Worker:
    """A worker, and whether it has had a place since it came."""

    client: Client
    has_joined: bool = False


class Fleet(RuleBasedStateMachine):
    """Six workers at a time, of which two may be at it."""

    def __init__(self, server: redis.Redis) -> None:
        super().__init__()
        server.flushall()
        self.server = server
        self.keys = Keys("s")
        self.made = 0
        self.workers = [self.make() for _ in range(COUNT)]
        #: Who has a place, and whether that is late; who waits, in order, and whether that is late.
        self.places: dict[str, bool] = {}
        self.line: dict[str, bool] = {}
        #: Whose place was renewed after an outage, and has not been heard since.
        self.renewed: set[str] = set()
        for who in range(COUNT - 1):
            self.ask(self.workers[who])

    def make(self) -> Worker:
        self.made += 1
        return Worker(Client(self.server, f"w{self.made}", "priority", LEASE, 5, max_workers=MOST))

    def expect(self, name: str) -> int:
        """Return the place in the line that this worker is told; 0 if it has one in the fleet."""
        if name in self.places:
            self.places[name] = False
            self.renewed.discard(name)
            return 0
        if self.line.get(name):
            excused = {other for other, late in self.places.items() if late and other not in self.renewed}
            self.places.update(dict.fromkeys(excused, False))
            self.renewed |= excused
        self.places = {other: late for other, late in self.places.items() if not late}
        self.renewed &= set(self.places)
        self.line[name] = False
        self.line = {other: late for other, late in self.line.items() if not late}
        before = list(self.line).index(name)
        if before < MOST - len(self.places):
            del self.line[name]
            self.places[name] = False
            return 0
        return before + 1

    def one_of(self, who: int, has_joined: bool) -> Worker | None:
        chosen = [worker for worker in self.workers if worker.has_joined == has_joined]
        return chosen[who % len(chosen)] if chosen else None

    @rule(who=WHO)
    def one_that_has_not_joined_asks(self, who: int) -> None:
        if (worker := self.one_of(who, has_joined=False)) is not None:
            self.ask(worker)

    def ask(self, worker: Worker) -> None:
        found = worker.client.frontier.open(MADE_WITH)
        assert (found.place if isinstance(found, Waiting) else 0) == self.expect(worker.client.name)
        worker.has_joined = not isinstance(found, Waiting)

    @rule(who=WHO)
    def one_exchanges(self, who: int) -> None:
        if (worker := self.one_of(who, has_joined=True)) is None:
            return
        told = worker.client.say(in_hand=0).order
        assert told == (Order.WAIT if self.expect(worker.client.name) else Order.CRAWL)

    @rule(who=WHO)
    def one_leaves(self, who: int) -> None:
        worker = self.workers[who]
        worker.client.frontier.leave(False, True)
        self.places.pop(worker.client.name, None)
        self.line.pop(worker.client.name, None)
        self.workers[who] = self.make()

    @rule(who=WHO)
    def one_dies(self, who: int) -> None:
        self.be_late(who)
        self.workers[who] = self.make()

    @rule(who=WHO)
    def be_late(self, who: int) -> None:
        name = self.workers[who].client.name
        if name in self.places:
            self.server.zadd(self.keys.places, {name: 1.5 if name in self.renewed else 1})
            self.places[name] = True
        if name in self.line:
            self.server.zadd(self.keys.heard, {name: 1})
            self.line[name] = True

    @rule()
    def redis_is_away_for_longer_than_a_lease(self) -> None:
        for who in range(len(self.workers)):
            self.be_late(who)

    @invariant()
    def redis_holds_what_the_model_holds(self) -> None:
        assert set(self.server.zrange(self.keys.places, 0, -1)) == {name.encode() for name in self.places}
        assert self.server.zrange(self.keys.line, 0, -1) == [name.encode() for name in self.line]

    @invariant()
    def there_are_never_more_than_may_be(self) -> None:
        assert self.server.zcount(self.keys.places, 2, "inf") <= MOST
        assert self.server.zcard(self.keys.heard) == len(self.line)


def test_places_agree_with_the_model(server: redis.Redis) -> None:
    run_state_machine_as_test(lambda: Fleet(server), settings=SETTINGS)
