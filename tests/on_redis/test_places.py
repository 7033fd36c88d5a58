"""``FRONTIER_MAX_WORKERS``: so many workers have a place, and the others wait in line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.errors import FleetFinishedError, FleetFullError, FleetStoppedError
from scrapy_rq_sched.frontier.client import Opened, Waiting
from scrapy_rq_sched.frontier.replies import Order
from scrapy_rq_sched.keys import Keys

from ..support.client import MADE_WITH, Client
from ..support.crawl import wait_until

Arrive = Callable[..., "Arrival"]


class Arrival:
    """A worker that asks to join a fleet, as often as a test has it ask."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._came = ""

    def ask(self, **options: Any) -> Opened | Waiting:
        """Ask once."""
        found = self.client.frontier.open(MADE_WITH, came=self._came, **options)
        if isinstance(found, Waiting):
            self._came = found.came
        return found

    @property
    def place(self) -> int:
        """Ask; return the place in the line, 0 if it has joined."""
        found = self.ask()
        return found.place if isinstance(found, Waiting) else 0

    def leave(self) -> None:
        """Leave the fleet, or the line."""
        self.client.frontier.leave(False, True)


@pytest.fixture
def arrive(server: redis.Redis) -> Arrive:
    """Return what has a worker arrive at a fleet of at most two."""

    def make(
        name: str, most: int = 2, lease: float = 30, spider: str = "s", places: str = "", **bounds: Any
    ) -> Arrival:
        keys = Keys(spider, hash_tag=needs_hash_tag(server), places_template=places)
        return Arrival(Client(server, name, "priority", lease, 5, keys=keys, max_workers=most, **bounds))

    return make


def places(server: redis.Redis, name: str = "s:places") -> set[bytes]:
    key = f"{{s}}{name[1:]}" if needs_hash_tag(server) else name
    return set(server.zrange(key, 0, -1))


def test_one_more_than_may_be_waits_and_is_no_worker(arrive: Arrive, server: redis.Redis) -> None:
    assert [arrive(name).place for name in "abc"] == [0, 0, 1]
    assert places(server) == {b"a", b"b"}
    assert arrive("b").client.say().workers == 2


def test_waiting_workers_have_their_places_in_the_order_of_their_arrival(arrive: Arrive) -> None:
    workers = [arrive(name) for name in "abcde"]
    assert [worker.place for worker in workers] == [0, 0, 1, 2, 3]
    # However often and in whatever order they ask.
    assert [workers[n].place for n in (4, 3, 2, 4)] == [3, 2, 1, 3]


def test_the_place_of_one_that_leaves_goes_to_the_first_in_line(arrive: Arrive) -> None:
    a, _b, c, d = workers = [arrive(name) for name in "abcd"]
    assert [worker.place for worker in workers] == [0, 0, 1, 2]
    a.leave()
    assert d.place == 2  # it is the first's, though that has not asked yet
    assert c.place == 0
    assert d.place == 1


def test_the_place_of_a_dead_worker_goes_to_the_first_in_line_when_its_lease_is_over(arrive: Arrive) -> None:
    dead, waiting = arrive("dead", 1, lease=0.3), arrive("waiting", 1)
    assert dead.place == 0
    found = waiting.ask()
    assert isinstance(found, Waiting)
    assert 0 < found.free_in <= 0.3
    wait_until(lambda: waiting.place == 0, timeout=5)


def test_a_worker_that_leaves_the_line_holds_up_no_other(arrive: Arrive) -> None:
    a, b, c = (arrive(name, 1) for name in "abc")
    assert (a.place, b.place, c.place) == (0, 1, 2)
    b.leave()
    assert c.place == 1
    a.leave()
    assert c.place == 0


def test_a_worker_that_dies_in_line_holds_up_others_no_longer_than_its_lease(arrive: Arrive) -> None:
    a, dead, c = arrive("a", 1), arrive("dead", 1, lease=0.2), arrive("c", 1)
    assert (a.place, dead.place, c.place) == (0, 1, 2)
    a.leave()
    wait_until(lambda: c.place == 0, timeout=5)


def test_a_repeated_question_takes_no_second_place(arrive: Arrive, server: redis.Redis) -> None:
    a = arrive("a")
    assert (a.place, a.place) == (0, 0)
    assert places(server) == {b"a"}


def test_an_exchange_keeps_the_place(arrive: Arrive, server: redis.Redis) -> None:
    a, waiting = arrive("a", 1, lease=0.4), arrive("waiting", 1)
    assert a.place == 0
    until = time.monotonic() + 1.2
    while time.monotonic() < until:
        assert a.client.say().order == Order.CRAWL
        assert waiting.place == 1
        time.sleep(0.05)


def test_a_silent_worker_keeps_its_place_until_another_takes_it(arrive: Arrive) -> None:
    slow = arrive("slow", 1, lease=0.1)
    assert slow.place == 0
    time.sleep(0.2)
    assert slow.client.say().order == Order.CRAWL


def test_a_worker_that_lost_its_place_begins_nothing_until_it_has_one_again(arrive: Arrive) -> None:
    slow, other = arrive("slow", 1, lease=0.2), arrive("other", 1)
    assert slow.place == 0
    slow.client.push("one", "two")
    wait_until(lambda: other.place == 0, timeout=5)
    reply = slow.client.say(want=1)
    assert (reply.order, reply.leases) == (Order.WAIT, [])
    other.leave()
    reply = slow.client.say(want=1)
    assert (reply.order, len(reply.leases)) == (Order.CRAWL, 1)


def test_a_worker_without_a_place_still_adds_its_start_requests(arrive: Arrive) -> None:
    slow, other = arrive("slow", 1, lease=0.2), arrive("other", 1)
    assert slow.place == 0
    slow.client.push("one")
    wait_until(lambda: other.place == 0, timeout=5)
    assert slow.client.say(busy=True, want=1).order == Order.WAIT
    (lease,) = other.client.take(1)
    other.client.say(finished=[lease.name], in_hand=0)
    # Else the fleet would wait for the rest of its start() to no end.
    reply = slow.client.say(busy=True, want=1)
    assert (reply.order, reply.leases) == (Order.CRAWL, [])
    slow.client.push("two")
    reply = slow.client.say(busy=True, want=1)
    assert (reply.order, reply.leases) == (Order.WAIT, [])


def test_a_paused_crawl_stays_paused_for_a_worker_without_a_place(
    arrive: Arrive, server: redis.Redis
) -> None:
    slow, other = arrive("slow", 1, lease=0.2), arrive("other", 1)
    assert slow.place == 0
    wait_until(lambda: other.place == 0, timeout=5)
    server.hset(slow.client.frontier.keys.meta, "state", "paused")
    assert slow.client.say(busy=True, want=1).order == Order.PAUSE


def test_a_worker_in_line_does_not_join_a_finished_crawl(arrive: Arrive, server: redis.Redis) -> None:
    a, waiting = arrive("a", 1), arrive("waiting", 1)
    assert (a.place, waiting.place) == (0, 1)
    seconds, micros = server.time()
    server.set(a.client.frontier.keys.finished, (seconds * 1_000_000 + micros) // 1000 + 1)
    with pytest.raises(FleetFinishedError):
        waiting.ask()
    assert server.exists(a.client.frontier.keys.line) == 0


def test_a_worker_that_lost_its_place_gets_the_order_to_stop(arrive: Arrive, server: redis.Redis) -> None:
    slow, other = arrive("slow", 1, lease=0.2), arrive("other", 1)
    assert slow.place == 0
    wait_until(lambda: other.place == 0, timeout=5)
    meta = slow.client.frontier.keys.meta
    server.hset(meta, "state", "paused")
    assert slow.client.say().order == Order.WAIT
    server.hset(meta, "stop", 2**52)
    assert slow.client.say().order == Order.STOP


def test_a_worker_is_refused_if_it_is_not_to_wait(arrive: Arrive, server: redis.Redis) -> None:
    assert arrive("a", 1).place == 0
    with pytest.raises(FleetFullError, match="1 worker is running, and FRONTIER_MAX_WORKERS allows no more"):
        arrive("b", 1, max_workers_policy="exit").ask()
    assert server.exists(arrive("b").client.frontier.keys.line) == 0


def test_a_worker_in_line_does_not_join_a_stopped_fleet(arrive: Arrive, server: redis.Redis) -> None:
    a, waiting = arrive("a", 1), arrive("waiting", 1)
    assert (a.place, waiting.place) == (0, 1)
    assert a.client.say().order == Order.CRAWL
    seconds, micros = server.time()
    server.hset(a.client.frontier.keys.meta, "stop", f"{seconds}{micros:06}")
    assert a.client.say().order == Order.STOP
    a.leave()
    with pytest.raises(FleetStoppedError):
        waiting.ask()
    # One that comes later goes on with the crawl, as it would without a limit.
    assert arrive("later", 1).place == 0


def test_a_worker_in_line_does_not_clear_the_frontier_of_others(arrive: Arrive) -> None:
    a, waiting = arrive("a", 1), arrive("waiting", 1)
    assert a.place == 0
    found = waiting.ask(flush=True)
    assert isinstance(found, Waiting)
    assert found.others == 1


def test_after_an_outage_no_worker_takes_the_place_of_another_that_was_cut_off(
    arrive: Arrive, server: redis.Redis
) -> None:
    a, waiting, later = arrive("a", 1, lease=0.3), arrive("waiting", 1, lease=0.3), arrive("later", 1)
    assert (a.place, waiting.place) == (0, 1)
    time.sleep(0.4)  # Redis answers nobody
    assert waiting.place == 1
    assert later.place == 2
    assert a.client.say().order == Order.CRAWL


def test_a_worker_in_line_that_is_always_late_gets_the_place_of_a_dead_worker(arrive: Arrive) -> None:
    dead, waiting = arrive("dead", 1, lease=0.2), arrive("waiting", 1, lease=0.2)
    assert (dead.place, waiting.place) == (0, 1)
    found = []
    for _ in range(2):
        time.sleep(0.3)
        found.append(waiting.place)
    # The first time, Redis may have been away. The second time, only the dead worker was silent.
    assert found == [1, 0]


def test_after_a_restart_of_redis_no_worker_takes_the_place_of_another(
    arrive: Arrive,
) -> None:
    a, new = arrive("a", 1, lease=0.2), arrive("new", 1, lease=0.5)
    assert a.place == 0
    time.sleep(0.3)
    assert isinstance(new.ask(server_age=0.3), Waiting)
    assert a.client.say().order == Order.CRAWL


def test_the_limits_of_workers_may_differ(arrive: Arrive) -> None:
    assert [arrive("a", 1).place, arrive("b", 1).place, arrive("b", 1).place] == [0, 1, 1]
    assert arrive("b", 2).place == 0


def test_the_places_have_a_time_to_live(arrive: Arrive, server: redis.Redis) -> None:
    a, waiting = arrive("a", 1), arrive("waiting", 1)
    assert (a.place, waiting.place) == (0, 1)
    keys = a.client.frontier.keys
    for key in (keys.places, keys.line, keys.heard, keys.worker("waiting")):
        assert server.pttl(key) > 0, key


def test_nothing_of_it_is_left_when_all_have_left(arrive: Arrive, server: redis.Redis) -> None:
    a, waiting = arrive("a", 1), arrive("waiting", 1)
    assert (a.place, waiting.place) == (0, 1)
    waiting.leave()
    a.leave()
    keys = a.client.frontier.keys
    assert server.exists(keys.places, keys.line, keys.heard) == 0


def test_a_place_outlives_a_full_memory(arrive: Arrive, server: redis.Redis) -> None:
    used = server.info("memory")["used_memory"]
    a, waiting = arrive("a", 1), arrive("waiting", 1)
    assert (a.place, waiting.place) == (0, 1)
    server.config_set("maxmemory", used // 2)
    try:
        assert a.client.say().order == Order.CRAWL
        assert waiting.place == 1
        a.leave()
        assert waiting.place == 0
    finally:
        server.config_set("maxmemory", 0)


@pytest.mark.single("keys of several spiders are on several slots")
def test_several_spiders_may_share_the_places(arrive: Arrive, server: redis.Redis) -> None:
    one, other, third = (arrive(f"w-{spider}", 2, spider=spider, places="group") for spider in "abc")
    assert (one.place, other.place, third.place) == (0, 0, 1)
    found = third.ask()
    assert isinstance(found, Waiting)
    assert found.others == 0
    one.leave()
    assert third.place == 0
    assert set(server.zrange("group", 0, -1)) == {b"w-b", b"w-c"}
