"""A worker that its supervisor has started again is no stranger to the frontier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from scrapy_rq_sched.connection import needs_hash_tag
from scrapy_rq_sched.errors import FleetFinishedError, FleetFullError, FrontierMismatchError
from scrapy_rq_sched.events.stream import Stream
from scrapy_rq_sched.frontier.client import Opened, Waiting
from scrapy_rq_sched.frontier.close_limits import CloseLimits
from scrapy_rq_sched.frontier.replies import Order
from scrapy_rq_sched.frontier.scripts import register
from scrapy_rq_sched.keys import Keys

from ..support.client import MADE_WITH, Client
from ..support.crawl import wait_until
from .test_limits import server_ms

#: A lease that a test waits for.
SHORT = 0.1
#: Milliseconds of a day.
DAY = 86_400_000

Worker = Callable[..., Client]
Join = Callable[..., Opened]


@pytest.fixture
def worker(server: redis.Redis) -> Worker:
    """Return what makes a worker that has not joined."""

    def make(name: str, lease: float = 30, **bounds: Any) -> Client:
        keys = Keys("s", hash_tag=needs_hash_tag(server))
        return Client(server, name, "priority", lease, 5, keys=keys, **bounds)

    return make


def opened(worker: Client, **options: Any) -> Opened:
    found = worker.frontier.open(MADE_WITH, **options)
    assert isinstance(found, Opened)
    return found


def flushes(worker: Client, **options: Any) -> str:
    """Join with SCHEDULER_FLUSH_ON_START; return why nothing was cleared, empty if something was."""
    found = opened(worker, flush=True, **options)
    assert found.flushed == (found.unflushed == "")
    return found.unflushed.partition(" ")[0]


@pytest.fixture
def dead(worker: Worker, server: redis.Redis) -> Callable[..., Client]:
    """Return what makes a worker that has pushed a request, and whose lease has expired."""

    def make(name: str = "dead", **options: Any) -> Client:
        made = worker(name, SHORT)
        opened(made, **options)
        made.push("one")
        _wait_for_death(server, made)
        return made

    return make


def _wait_for_death(server: redis.Redis, worker: Client) -> None:
    workers = worker.frontier.keys.workers

    def is_dead() -> bool:
        seconds, microseconds = server.time()
        return (server.zscore(workers, worker.name) or 0) < seconds * 1000 + microseconds // 1000

    wait_until(is_dead, timeout=5)


def _order(worker: Client, state: str) -> None:
    register(worker.frontier.server, "control")(worker.frontier.keys.all(), [state])


def yesterday(server: redis.Redis, *keys: str) -> None:
    for key in keys:
        for name, score in server.zrange(key, 0, -1, withscores=True):
            server.zadd(key, {name: score - DAY})


# -- a flush belongs to the start of a crawl ------------------------------------------------------------


@pytest.fixture
def seeded(worker: Worker, server: redis.Redis) -> Client:
    """A killed worker with the lease of a seed, which came after another worker had found the finish."""
    first, second = worker("first"), worker("second", SHORT)
    opened(first)
    opened(second)
    assert first.say(in_hand=0, finishing=True).finished
    first.frontier.leave(True, False)
    server.lpush(second.frontier.keys.start_urls[0], "http://a.test/")
    assert second.say(want_seeds=1, in_hand=0).leases
    _wait_for_death(server, second)
    return second


def test_seeds_that_came_after_the_finish_are_not_cleared_with_their_killed_worker(
    worker: Worker, seeded: Client
) -> None:
    assert flushes(worker("next"), age=0.0) == "lost"


def test_seeds_that_came_after_the_finish_belong_to_the_crawl_that_goes_on(
    worker: Worker, seeded: Client
) -> None:
    opened(worker("next"), age=0.0)
    assert _kinds(seeded).count("crawl_started") == 1


def test_a_restarted_process_does_not_clear_the_crawl_of_its_run(worker: Worker, dead: Worker) -> None:
    first = dead(run="r", flush=True)
    assert flushes(worker("second"), run="r", replaced=first.name) == "run"
    assert flushes(worker("third"), run="r") == "running"


def test_a_restarted_process_that_does_not_know_its_predecessor_clears_nothing(
    worker: Worker, dead: Worker, server: redis.Redis
) -> None:
    first = dead(run="r")
    yesterday(server, first.frontier.keys.workers)
    assert flushes(worker("second"), run="r") == "run"


def test_a_process_of_a_second_supervisor_does_not_clear_the_crawl_of_both(worker: Worker) -> None:
    one, other = worker("one"), worker("other")
    assert flushes(one, run="a") == ""
    assert flushes(other, run="b") == "running"
    for each in (one, other):
        each.push(each.name)
        each.frontier.leave(False, False)
    assert flushes(worker("again"), run="b") == "run"


def test_the_second_run_of_a_command_clears_the_crawl_that_was_interrupted(worker: Worker) -> None:
    one = worker("one")
    opened(one, run="a")
    one.push("one")
    one.frontier.leave(False, False)
    assert flushes(worker("two"), run="b") == ""


@pytest.mark.parametrize("run", ["", "b"])
@pytest.mark.parametrize("is_reclaimed", [False, True])
def test_no_worker_clears_the_crawl_of_a_worker_that_may_come_back(
    worker: Worker, dead: Worker, server: redis.Redis, run: str, is_reclaimed: bool
) -> None:
    keys = dead().frontier.keys
    if is_reclaimed:
        other = worker("other")
        opened(other)
        assert other.say().dead == ("dead",)
        other.frontier.leave(False, False)
        assert not server.exists(keys.workers)
    found = opened(worker("next"), flush=True, run=run)
    reason, remaining, name = found.unflushed.split()
    assert (reason, name, found.waiting) == ("lost", "dead", 1)
    assert 590_000 < int(remaining) <= 600_000


@pytest.mark.parametrize("is_reclaimed", [False, True])
def test_a_crawl_with_workers_killed_yesterday_is_cleared(
    worker: Worker, dead: Worker, server: redis.Redis, is_reclaimed: bool
) -> None:
    keys = dead().frontier.keys
    if is_reclaimed:
        other = worker("other")
        opened(other)
        other.say()
        other.frontier.leave(False, False)
    yesterday(server, keys.workers, f"{keys.workers}:lost")
    assert flushes(worker("next")) == ""


def test_a_worker_that_dies_of_yesterday_s_lease_is_not_remembered(
    worker: Worker, dead: Worker, server: redis.Redis
) -> None:
    keys = dead().frontier.keys
    yesterday(server, keys.workers)
    other = worker("other")
    opened(other)
    assert other.say().dead == ("dead",)
    assert not server.exists(f"{keys.workers}:lost")


def test_a_worker_that_closes_because_of_its_memory_may_come_back(worker: Worker) -> None:
    full = worker("full")
    opened(full)
    full.push("one")
    full.frontier.leave(False, False, True)
    assert flushes(worker("next")) == "lost"


def test_a_worker_that_has_left_does_not_come_back(worker: Worker, dead: Worker) -> None:
    slow, other = dead("slow"), worker("other")
    opened(other)
    other.say()
    slow.say(in_hand=0)
    for each in (slow, other):
        each.frontier.leave(False, False)
    assert flushes(worker("next")) == ""


def test_a_worker_that_was_replaced_does_not_come_back(
    worker: Worker, dead: Worker, server: redis.Redis
) -> None:
    dead(run="r")
    second = worker("second")
    opened(second, run="r", replaced="dead")
    assert second.say().dead == ("dead",)
    second.frontier.leave(False, False)
    assert flushes(worker("next"), run="s") == ""


def test_the_end_of_a_crawl_is_the_end_of_its_lost_workers(worker: Worker, dead: Worker) -> None:
    dead()
    last = worker("last")
    opened(last)
    last.say()
    (lease,) = last.take(1)
    last.say(finished=[lease.name], in_hand=0)
    last.say(finishing=True, in_hand=0)
    assert last.frontier.leave(True, False).cleared
    assert flushes(worker("next")) == ""


def test_a_repeated_join_is_answered_like_the_first(worker: Worker, dead: Worker) -> None:
    first = worker("first")
    assert flushes(first, run="r") == flushes(first, run="r") == ""
    first.push("one")
    first.frontier.leave(False, False)
    second = worker("second")
    assert flushes(second, run="r") == flushes(second, run="r") == "run"


def test_a_replacement_clears_nothing_after_a_loss_of_data(worker: Worker, server: redis.Redis) -> None:
    first = worker("first")
    opened(first, run="r", flush=True)
    first.push("one")
    server.flushall()
    first.push("two")
    first.frontier.leave(False, False, True)
    assert flushes(worker("second"), run="r", replaced="first") == "run"


def test_a_replacement_of_a_worker_that_never_joined_clears_the_frontier(worker: Worker) -> None:
    before = worker("before")
    opened(before)
    before.push("one")
    before.frontier.leave(False, False)
    assert flushes(worker("second"), run="r", replaced="first") == ""


def test_a_process_that_was_restarted_after_the_finish_clears_nothing(worker: Worker) -> None:
    _crawl_to_the_end(worker("first"), run="a")
    late = worker("late")
    assert flushes(late, run="b", age=60.0) == "late"
    assert late.push("one", mode="start").duplicates == (0,)


def test_another_serializer_is_refused_with_the_reason_for_keeping_the_frontier(
    worker: Worker, dead: Worker
) -> None:
    dead()
    with pytest.raises(FrontierMismatchError, match=r"scrapy frontier clear s\).*worker dead has ended"):
        worker("next").frontier.open({"SCHEDULER_SERIALIZER": "pickle"}, flush=True)


def test_keys_of_a_wrong_type_stop_neither_a_join_nor_an_exchange(
    worker: Worker, dead: Worker, server: redis.Redis
) -> None:
    keys = dead().frontier.keys
    for name in (f"{keys.workers}:lost", keys.worker("dead"), keys.worker("gone")):
        server.delete(name)
        server.set(name, "something else")
    first, second = worker("first"), worker("second")
    assert flushes(first) == "lost"
    assert first.say().dead == ("dead",)
    first.frontier.leave(False, False, True)
    assert flushes(second, replaced="gone") == "run"
    second.frontier.leave(False, False)
    assert flushes(worker("third"), replaced="never there") == ""


# -- the finish -----------------------------------------------------------------------------------------


def _crawl_to_the_end(worker: Client, **options: Any) -> None:
    opened(worker, **options)
    worker.push("one", mode="start")
    (lease,) = worker.take(1)
    worker.say(finished=[lease.name], pages=1, in_hand=0)
    worker.say(finishing=True, in_hand=0)
    persist = options.get("persist", False)
    assert worker.frontier.leave(True, persist).cleared != persist


def _kinds(worker: Client) -> list[str]:
    keys = worker.frontier.keys
    return [event.type for event in Stream(keys.events, "s").latest(worker.frontier.server, 100)]


@pytest.mark.parametrize("persist", [False, True])
@pytest.mark.parametrize("busy", [False, True])
def test_a_late_worker_does_not_keep_a_new_crawl_from_beginning(
    worker: Worker, persist: bool, busy: bool
) -> None:
    _crawl_to_the_end(worker("first"), persist=persist, run="a")
    late, fresh = worker("late"), worker("fresh")
    opened(late, age=60.0, busy=busy, persist=persist, run="b")
    assert late.push("one", mode="start").duplicates == (0,)
    opened(fresh, persist=persist)
    assert _kinds(fresh)[-2:] == ["crawl_started", "worker_joined"]
    assert fresh.push("one", mode="start").duplicates == ()


def test_a_worker_that_missed_the_finish_does_not_keep_a_new_crawl_from_beginning(
    worker: Worker, server: redis.Redis
) -> None:
    silent, first = worker("silent"), worker("first")
    opened(silent)
    silent.say()
    server.zadd(silent.frontier.keys.workers, {"silent": 1})
    _crawl_to_the_end(first)
    silent.say(in_hand=1)
    fresh = worker("fresh")
    opened(fresh)
    assert fresh.push("one", mode="start").duplicates == ()


def test_a_late_worker_forgets_the_start_requests_when_a_new_crawl_begins(worker: Worker) -> None:
    _crawl_to_the_end(worker("first"))
    late = worker("late")
    opened(late, age=60.0)
    epoch = late.say(in_hand=0).epoch
    opened(worker("fresh"))
    assert late.say(in_hand=0).epoch != epoch


@pytest.mark.parametrize("is_killed", [True, False])
def test_an_order_to_a_crawl_does_not_hold_for_the_next_one_even_if_its_last_worker_was_killed(
    worker: Worker, server: redis.Redis, is_killed: bool
) -> None:
    first = worker("first", SHORT)
    opened(first, persist=True)
    first.say(in_hand=0)
    _order(first, "draining")
    assert first.say(in_hand=0, finishing=True).finished
    if is_killed:
        _wait_for_death(server, first)
    else:
        first.frontier.leave(True, True)
    second = worker("second")
    opened(second, persist=True, age=0.0)
    assert second.say(in_hand=0).order == Order.CRAWL


def test_an_order_that_was_given_after_the_end_of_a_crawl_holds_for_the_next_one(
    worker: Worker, server: redis.Redis
) -> None:
    first = worker("first")
    _crawl_to_the_end(first)
    finish = float(server.hget(first.frontier.keys.meta, "finished") or 0)
    wait_until(
        lambda: server_ms(server) >= finish + 1
    )  # an order of the same millisecond may be an earlier one
    _order(first, "paused")
    second = worker("second")
    opened(second)
    assert second.say(in_hand=0).order == Order.PAUSE


def test_a_late_worker_takes_part_in_the_new_crawl_and_finishes_it(
    worker: Worker, server: redis.Redis
) -> None:
    _crawl_to_the_end(worker("first"))
    late, fresh = worker("late"), worker("fresh")
    opened(late, age=60.0)
    opened(fresh)
    fresh.push("two", mode="start")
    fresh.say(finished=[fresh.take(1)[0].name], in_hand=0)
    # The worker that has done all pages is killed before it notes the finish.
    server.zadd(fresh.frontier.keys.workers, {"fresh": 1})
    assert late.say(in_hand=0, finishing=True).finished
    assert late.frontier.leave(True, False).cleared
    assert _kinds(late)[-1] == "crawl_finished"
    assert worker("next").open().push("two", mode="start").duplicates == ()


def test_the_run_of_a_late_worker_takes_part_in_the_new_crawl(worker: Worker) -> None:
    _crawl_to_the_end(worker("first"), run="a")
    late, fresh = worker("late"), worker("fresh")
    opened(late, age=60.0, run="b")
    opened(fresh, run="c")
    fresh.push("two")
    for each in (late, fresh):
        each.frontier.leave(False, False)
    assert flushes(worker("again"), run="b") == "run"


def test_a_fresh_worker_in_a_late_worker_s_company_has_its_full_limits(worker: Worker) -> None:
    limit = CloseLimits(pagecount=10)
    first = worker("first", close=limit)
    opened(first, persist=True, run="a")
    first.push("one", mode="start")
    (lease,) = first.take(1)
    first.say(finished=[lease.name], in_hand=0, counted={"pagecount": 9})
    first.say(finishing=True, in_hand=0)
    first.frontier.leave(True, True)
    opened(worker("late", close=limit), age=60.0, run="b", replaced="first")
    fresh = worker("fresh", close=limit)
    opened(fresh, persist=True)
    assert fresh.say(counted={"pagecount": 2}).order == Order.CRAWL


def test_a_late_worker_that_finds_work_starts_a_crawl(worker: Worker, server: redis.Redis) -> None:
    _crawl_to_the_end(worker("first"), persist=True)
    late = worker("late")
    opened(late, age=60.0, persist=True)
    late.push("two", "three", mode="start")
    leases = late.take(2)
    assert _kinds(late)[-2:] == ["worker_joined", "crawl_started"]
    late.say(finished=[lease.name for lease in leases], pages=2, in_hand=0)
    late.say(in_hand=0, finishing=True)
    late.frontier.leave(True, True)
    (finish,) = Stream(late.frontier.keys.events, "s").latest(server, 1)
    assert (finish.type, finish.details["pages"]) == ("crawl_finished", 2)


def test_a_worker_that_missed_the_finish_starts_a_crawl_with_a_seed(
    worker: Worker, server: redis.Redis
) -> None:
    silent = worker("silent")
    opened(silent)
    silent.say()
    server.zadd(silent.frontier.keys.workers, {"silent": 1})
    _crawl_to_the_end(worker("first"))
    for _ in range(3):
        silent.say(in_hand=0)
    server.lpush(silent.frontier.keys.start_urls[0], "http://a.example/")
    assert silent.say(want=1, want_seeds=1).leases
    assert _kinds(silent)[-2:] == ["worker_joined", "crawl_started"]


def test_a_late_worker_that_gets_work_of_a_new_crawl_starts_no_other(worker: Worker) -> None:
    _crawl_to_the_end(worker("first"))
    late, fresh = worker("late"), worker("fresh")
    opened(late, age=60.0)
    opened(fresh)
    fresh.push("two", mode="start")
    assert late.take(1)
    assert _kinds(late).count("crawl_started") == 2


# -- places ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["exit", "wait"])
def test_the_place_of_a_dead_worker_goes_to_its_replacement(worker: Worker, policy: str) -> None:
    limits: dict[str, Any] = {"max_workers": 1, "max_workers_policy": policy}
    opened(worker("first", **limits), run="r")
    opened(worker("second", **limits), run="r", replaced="first")
    with pytest.raises(FleetFullError):
        worker("third", max_workers=1, max_workers_policy="exit").frontier.open(MADE_WITH, run="r")


def test_a_place_that_another_worker_has_taken_is_not_handed_over(worker: Worker, dead: Worker) -> None:
    limits: dict[str, Any] = {"max_workers": 1, "max_workers_policy": "exit"}
    opened(worker("first", SHORT, **limits), run="r")
    other = worker("other", **limits)

    def has_joined() -> bool:
        try:
            return bool(opened(other))
        except FleetFullError:
            return False

    wait_until(has_joined, timeout=5)
    with pytest.raises(FleetFullError):
        worker("second", **limits).frontier.open(MADE_WITH, run="r", replaced="first")


def test_a_replacement_has_the_position_in_line_of_its_predecessor(worker: Worker) -> None:
    opened(worker("at work", max_workers=1))
    for place, name in enumerate(("first", "second"), 1):
        found = worker(name, max_workers=1).frontier.open(MADE_WITH, run="r")
        assert isinstance(found, Waiting)
        assert found.place == place
    found = worker("again", max_workers=1).frontier.open(MADE_WITH, run="r", replaced="first")
    assert isinstance(found, Waiting)
    assert found.place == 1
    found = worker("second", max_workers=1).frontier.open(MADE_WITH, came=found.came, run="r")
    assert isinstance(found, Waiting)
    assert found.place == 2


def test_a_replacement_of_a_worker_in_line_learns_of_the_finish(worker: Worker) -> None:
    last = worker("last", max_workers=1)
    opened(last)
    assert isinstance(worker("first", max_workers=1).frontier.open(MADE_WITH, run="r"), Waiting)
    _crawl_to_the_end(last)
    with pytest.raises(FleetFinishedError):
        worker("again", max_workers=1).frontier.open(MADE_WITH, run="r", replaced="first")


# -- FRONTIER_CLOSE_… -----------------------------------------------------------------------------------


@pytest.fixture
def page(worker: Worker) -> Callable[..., Order]:
    """Return what has a worker join, crawl some pages of at most ten, and close; it returns the order."""

    def crawl(name: str, pages: int, returns: bool = False, **options: Any) -> Order:
        made = worker(name, close=CloseLimits(pagecount=10))
        opened(made, **options)
        made.push("a", "b")
        told = made.say(counted={"pagecount": pages}).order
        made.frontier.leave(False, False, returns)
        return told

    return crawl


def test_a_restarted_worker_continues_the_counts_of_its_fleet(page: Callable[..., Order]) -> None:
    assert page("first", 6, run="r", returns=True) == Order.CRAWL
    assert page("second", 3, run="r", replaced="first") == Order.CRAWL
    assert page("third", 1, run="r") == Order.STOP


def test_the_counts_belong_to_the_runs_of_all_supervisors(page: Callable[..., Order], worker: Worker) -> None:
    one = worker("one", close=CloseLimits(pagecount=10))
    opened(one, run="a")
    assert page("other", 6, run="b") == Order.CRAWL
    one.push("c")
    one.frontier.leave(False, False)
    assert page("other again", 3, run="b") == Order.CRAWL
    assert page("one again", 1, run="a") == Order.STOP


@pytest.mark.parametrize("runs", [("a", "b"), ("", ""), ("a", "")])
def test_the_next_run_of_a_command_has_its_full_limits(
    page: Callable[..., Order], runs: tuple[str, str]
) -> None:
    assert page("first", 10, run=runs[0]) == Order.STOP
    assert page("second", 9, run=runs[1]) == Order.CRAWL
    assert page("third", 10, run="c") == Order.STOP


def test_the_time_of_a_fleet_continues_over_a_restart(worker: Worker, server: redis.Redis) -> None:
    first = worker("first", close=CloseLimits(timeout=100))
    opened(first, run="r")
    meta = first.frontier.keys.meta
    since = server.hget(meta, "run_since")
    first.push("one")
    first.frontier.leave(False, False)
    opened(worker("second", close=CloseLimits(timeout=100)), run="r")
    assert server.hget(meta, "run_since") == since


def test_a_second_supervisor_in_the_gap_of_a_replacement_continues_the_counts(
    page: Callable[..., Order],
) -> None:
    assert page("first", 9, run="a", returns=True) == Order.CRAWL
    assert page("other", 1, run="b") == Order.STOP


def test_a_fleet_of_seeds_without_links_continues_its_counts_over_a_replacement(worker: Worker) -> None:
    first = worker("first", close=CloseLimits(pagecount=10))
    opened(first, run="r")
    first.say(counted={"pagecount": 9}, in_hand=0)
    first.frontier.leave(False, False, True)
    second = worker("second", close=CloseLimits(pagecount=10))
    opened(second, run="r", replaced="first")
    assert second.say(counted={"pagecount": 1}).order == Order.STOP


def test_a_new_crawl_has_its_full_limits_though_a_worker_of_the_last_one_still_counts_as_alive(
    worker: Worker,
) -> None:
    first, killed = (worker(name, close=CloseLimits(pagecount=10)) for name in ("first", "killed"))
    opened(first)
    opened(killed)
    assert first.say(counted={"pagecount": 9}, in_hand=0, finishing=True).finished
    first.frontier.leave(True, True)
    fresh = worker("fresh", close=CloseLimits(pagecount=10))
    opened(fresh, persist=True)
    assert fresh.say(counted={"pagecount": 2}).order == Order.CRAWL


def test_only_the_latest_runs_of_a_crawl_are_kept(worker: Worker, server: redis.Redis) -> None:
    for number in range(103):
        opened(worker(f"w{number}"), run=f"run{number}")
    runs = server.hget(worker("x").frontier.keys.meta, "runs").decode().split()
    assert (len(runs), runs[0], runs[-1]) == (100, "run3", "run102")
