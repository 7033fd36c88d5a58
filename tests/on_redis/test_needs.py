"""Requests that need what not every worker offers: which worker is given them, and where they wait."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Callable

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.failed import FailedRequests
from scrapy_rq_sched.frontier.messages import Failed, Push, UsedGrants
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.archive import ArchiveReader
from scrapy_rq_sched.inspect.export import Export
from scrapy_rq_sched.inspect.operations.clear import clear
from scrapy_rq_sched.inspect.read_status import read_status
from scrapy_rq_sched.inspect.restore import Import
from scrapy_rq_sched.inspect.slots import Slots

from ..support.client import Client, Eager, Start, payloads
from ..support.crawl import wait_until

BROWSER = frozenset({"browser"})


@pytest.fixture
def pair(start: Start, way: dict[str, str]) -> tuple[Client, Client]:
    """Return a worker that offers nothing, and one with a browser."""
    return start("plain", **way), start("browser", offers=BROWSER, **way)


# -- which worker is given them ----------------------------------------------------------------------


def test_a_worker_is_given_no_request_with_a_need_that_it_does_not_offer(pair: tuple[Client, Client]) -> None:
    plain, browser = pair
    plain.push("rendered", slot="a", lane="browser")
    plain.push("page", slot="a")
    assert payloads(plain.take(9)) == ["page"]
    assert payloads(browser.take(9)) == ["rendered"]


def test_a_worker_with_offers_is_also_given_requests_without_needs(
    pair: tuple[Client, Client],
) -> None:
    plain, browser = pair
    plain.push("page", slot="a")
    plain.push("rendered", slot="a", lane="browser")
    # A worker is given its share of what waits, and no more.
    assert sorted(payloads(browser.take(9) + browser.take(9))) == ["page", "rendered"]


def test_a_request_with_several_needs_is_for_a_worker_that_offers_all(start: Start) -> None:
    one, both = start("one", offers=BROWSER), start("both", offers=BROWSER | {"gpu"})
    one.push("x", slot="a", lane="browser|gpu")
    assert one.take(9) == []
    assert payloads(both.take(9)) == ["x"]


def test_the_lanes_of_a_worker_take_turns(pair: tuple[Client, Client]) -> None:
    plain, browser = pair
    for number in range(20):
        plain.push(f"page{number}", slot=f"host{number}")
        plain.push(f"rendered{number}", slot=f"host{number}", lane="browser")
    kinds = [name.rstrip("0123456789") for name in payloads(browser.take(10))]
    assert {kinds.count("page"), kinds.count("rendered")} == {5}


def test_the_highest_priority_of_all_lanes_comes_first(start: Start) -> None:
    browser = start("browser", discipline="priority", offers=BROWSER, order="priority")
    for priority in (1, 3, 5):
        browser.push(f"page{priority}", slot="a", priority=priority)
        browser.push(f"rendered{priority + 1}", slot="a", lane="browser", priority=priority + 1)
    names = [payloads(browser.take(1))[0] for _ in range(6)]
    assert names == ["rendered6", "page5", "rendered4", "page3", "rendered2", "page1"]


def test_many_requests_that_wait_for_a_browser_hide_no_others(pair: tuple[Client, Client]) -> None:
    plain, _ = pair
    for first in range(0, 400, 100):
        names = [f"{number}" for number in range(first, first + 100)]
        plain.say(pushes=[Push("force", "", 0, b"rendered", name, lane="browser") for name in names])
    plain.push("page", slot="z")
    assert payloads(plain.take(1)) == ["page"]


# -- where they wait ---------------------------------------------------------------------------------


def test_the_crawl_is_not_finished_while_a_request_waits_for_a_browser(pair: tuple[Client, Client]) -> None:
    plain, browser = pair
    plain.push("rendered", slot="a", lane="browser")
    reply = plain.say(in_hand=0, want=1)
    assert (reply.waiting, reply.finished) == (1, False)
    (lease,) = browser.take(1)
    browser.say(finished=[lease.name], in_hand=0)
    assert plain.say(in_hand=0).finished


def test_the_leases_of_a_dead_worker_go_back_to_their_lane(start: Start, way: dict[str, str]) -> None:
    plain, dead = start("plain", **way), start("dead", lease=0.1, offers=BROWSER, **way)
    plain.push("rendered", slot="a", lane="browser")
    assert len(dead.take(1)) == 1
    wait_until(lambda: plain.say().returned)
    assert plain.take(9) == []
    other = start("other", offers=BROWSER, **way)
    assert payloads(other.take(9)) == ["rendered"]


def test_a_request_given_back_waits_in_its_lane(pair: tuple[Client, Client]) -> None:
    plain, browser = pair
    plain.push("rendered", slot="a", lane="browser")
    (lease,) = browser.take(1)
    assert (lease.slot, lease.lane) == ("a", "browser")
    browser.say(given_back=[lease.name])
    assert plain.take(9) == []
    assert payloads(browser.take(9)) == ["rendered"]


def test_a_refused_request_is_left_to_a_worker_that_meets_its_needs(start: Start) -> None:
    plain, one, other = start("plain"), start("one", offers=BROWSER), start("other", offers=BROWSER)
    plain.push("rendered", slot="a", lane="browser")
    (lease,) = one.take(1)
    other.say()
    one.say(refused=[(lease.name, "no such callback")])
    assert plain.take(9) == []
    assert payloads(other.take(9)) == ["rendered"]


def test_a_request_that_all_workers_with_a_browser_refuse_is_set_aside(
    start: Start, server: redis.Redis
) -> None:
    plain, one = start("plain"), start("one", offers=BROWSER)
    plain.push("rendered", slot="a", lane="browser")
    (lease,) = one.take(1)
    one.say(refused=[(lease.name, "no such callback")])
    assert server.llen("s:failed") == 1


def test_deleted_requests_of_a_lane_do_not_keep_the_crawl_from_its_end(
    pair: tuple[Client, Client], server: redis.Redis
) -> None:
    _, browser = pair
    browser.push("rendered", slot="a", lane="browser")
    server.delete("s:requests:slot:a|browser")
    assert browser.take(1) == []
    reply = browser.say(in_hand=0)
    assert (reply.waiting, reply.finished) == (0, True)


def test_lanes_are_found_again_after_the_loss_of_meta(
    pair: tuple[Client, Client], server: redis.Redis
) -> None:
    plain, browser = pair
    plain.push("rendered", slot="a", lane="browser")
    server.delete("s:meta")
    plain.say()
    assert payloads(browser.take(9)) == ["rendered"]


def test_leases_of_a_lane_return_to_it_after_the_loss_of_meta(
    start: Start, way: dict[str, str], server: redis.Redis
) -> None:
    plain, dead = start("plain", **way), start("dead", lease=0.2, offers=BROWSER, **way)
    plain.push("rendered", slot="a", lane="browser")
    assert len(dead.take(1)) == 1
    server.delete("s:meta")
    wait_until(lambda: plain.say().returned)
    assert plain.take(9) == []
    assert payloads(start("other", offers=BROWSER, **way).take(9)) == ["rendered"]


def test_a_worker_that_joins_finds_the_lanes_after_the_loss_of_meta(
    start: Start, pair: tuple[Client, Client], way: dict[str, str], server: redis.Redis
) -> None:
    pair[0].push("rendered", slot="a", lane="browser")
    server.delete("s:meta")
    new = start("new", **way, offers=BROWSER)
    assert payloads(new.take(9)) == ["rendered"]


@pytest.mark.parametrize("key", ["s:slots:offers", "s:slots:lane:browser"])
def test_a_value_of_another_type_at_a_key_of_lanes_loses_no_request(
    start: Start, server: redis.Redis, key: str
) -> None:
    plain, browser = start("plain"), start("browser", offers=BROWSER)
    plain.push("rendered", slot="a", lane="browser")
    server.set(key, "garbage")
    assert payloads(browser.take(9)) == ["rendered"]
    server.set(key, "garbage")
    plain.push("another", slot="b", lane="browser")
    assert payloads(browser.take(9)) == ["another"]


def test_a_lane_is_found_again_after_the_loss_of_its_index(start: Start, server: redis.Redis) -> None:
    plain, browser = start("plain"), start("browser", offers=BROWSER)
    plain.push("rendered", slot="a", lane="browser")
    server.delete("s:slots:lane:browser")
    plain.say()
    assert payloads(browser.take(9)) == ["rendered"]


def test_a_download_that_ends_does_not_put_its_slot_before_others(start: Start) -> None:
    worker = start("worker", offers=BROWSER, slots=SlotLimits(concurrency=8))
    worker.push("rendered", slot="z", lane="browser")
    for slot in "abc":
        worker.push(*(f"{slot}{number}" for number in range(100)), slot=slot)
    taken: list[str] = []
    downloaded: dict[str, int] = {}
    for _ in range(60):
        leases = worker.say(want=2, downloaded=downloaded).leases
        downloaded = dict(Counter(lease.slot for lease in leases))
        taken += [lease.slot for lease in leases if lease.slot != "z"]
    counts = Counter(taken)
    assert max(counts.values()) - min(counts.values()) <= 2


def test_a_lane_without_requests_is_forgotten_and_found_again_when_a_lease_returns(
    start: Start, server: redis.Redis, way: dict[str, str]
) -> None:
    plain, dead = start("plain", **way), start("dead", lease=0.2, offers=BROWSER, **way)
    plain.push("rendered", slot="a", lane="browser")
    assert len(dead.take(1)) == 1
    assert server.hget("s:meta", "lanes") == b""
    wait_until(lambda: plain.say().returned)
    assert plain.take(9) == []
    assert server.hget("s:meta", "lanes") == b"browser"


def test_the_status_tells_when_a_request_of_a_lane_has_its_turn(start: Start, redis_url: str) -> None:
    browser = start("browser", offers=BROWSER, slots=SlotLimits(delay=60.0))
    browser.push("rendered", "another", slot="a", lane="browser")
    assert len(browser.take(1)) == 1
    status = read_status(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"))
    assert 50 < status.next_turn_in < 61
    assert status.workers[0].offers == ("browser",)


def test_a_failed_request_is_queued_again_in_its_lane(
    pair: tuple[Client, Client], way: dict[str, str], redis_url: str
) -> None:
    plain, browser = pair
    plain.push('{"url": "data:,"}', slot="a", lane="browser")
    (lease,) = browser.take(1)
    browser.say(failed=[Failed(lease.name, 0, "broken")])
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), "s")
    entries = FailedRequests(view.server, view.keys, way["discipline"])
    assert entries.requeue() == 1
    assert plain.take(9) == []
    assert len(browser.take(9)) == 1


def test_clear_leaves_nothing_of_lanes(
    pair: tuple[Client, Client], redis_url: str, server: redis.Redis
) -> None:
    pair[0].push("rendered", slot="a", lane="browser")
    for worker in pair:
        worker.frontier.leave(finished=False, persist=True)
    clear(View.from_settings(Settings({"REDIS_URL": redis_url}), "s"))
    assert [key for key in server.keys("s*") if b"|browser" in key or b"lane" in key] == []


def test_lanes_survive_an_export_and_an_import(start: Start, server: redis.Redis, redis_url: str) -> None:
    plain = start("plain")
    plain.push("rendered", slot="a", lane="browser")
    plain.push("page", slot="a")
    plain.frontier.leave(finished=False, persist=True)
    view = View.from_settings(Settings({"REDIS_URL": redis_url}), "s")
    lines = b"".join(Export(view).lines())
    server.flushdb()
    for _ in Import(view, ArchiveReader(io.BytesIO(lines))).steps():
        pass
    plain, browser = start("plain"), start("browser", offers=BROWSER)
    assert payloads(plain.take(9)) == ["page"]
    assert payloads(browser.take(9)) == ["rendered"]


# -- the limits of their slots -----------------------------------------------------------------------


def test_the_requests_of_all_lanes_keep_one_delay(start: Start, server: redis.Redis) -> None:
    slow = SlotLimits(delay=60.0)
    plain, browser = start("plain", slots=slow), start("browser", offers=BROWSER, slots=slow)
    for number in range(3):
        plain.push(f"page{number}", slot="a")
        plain.push(f"rendered{number}", slot="a", lane="browser")
    assert len(plain.take(9)) == 1
    assert browser.take(9) == []
    assert server.exists("s:slots:state:a")
    assert not server.exists("s:slots:state:a|browser")


@pytest.mark.parametrize("limits", [SlotLimits(delay=0.05), SlotLimits(concurrency=1)])
def test_no_lane_keeps_a_slot_to_itself(start: Start, limits: SlotLimits) -> None:
    plain = start("plain", slots=limits)
    browser = start("browser", offers=BROWSER, slots=limits)
    plain.push(*(f"page{number}" for number in range(2000)), slot="a")
    plain.push(*(f"rendered{number}" for number in range(2000)), slot="a", lane="browser")
    both = [Eager(plain), Eager(browser)]

    def both_have_some() -> bool:
        for one in both:
            one.take()
        rendered = [name for one in both for name in one.taken if name.startswith("rendered")]
        return len(rendered) >= 5 and sum(len(one.taken) for one in both) - len(rendered) >= 5

    wait_until(both_have_some)


def test_three_lanes_of_a_slot_take_turns(start: Start) -> None:
    limits = SlotLimits(delay=0.02)
    worker = start("worker", offers=BROWSER | {"gpu"}, slots=limits)
    for lane in ("", "browser", "gpu"):
        worker.push(*(f"{lane or 'plain'}-{number}" for number in range(500)), slot="a", lane=lane)
    eager = Eager(worker)

    def all_have_some() -> bool:
        eager.take()
        kinds = Counter(name.partition("-")[0] for name in eager.taken)
        return len(kinds) == 3 and min(kinds.values()) >= 5

    wait_until(all_have_some, timeout=10)


def test_a_full_worker_serves_all_lanes_of_a_slot(start: Start) -> None:
    worker = start("worker", offers=BROWSER | {"gpu"}, slots=SlotLimits(delay=0.02))
    for lane in ("", "browser", "gpu"):
        worker.push(*(f"{lane or 'plain'}-{number}" for number in range(500)), slot="a", lane=lane)
    kinds: Counter[str] = Counter()
    used: dict[str, UsedGrants] = {}

    def all_have_some() -> bool:
        leases = worker.say(want=1, ahead=300, grants=used).leases
        used.clear()
        if leases:
            used["a"] = UsedGrants(1, leases[0].begin, left=0)
        kinds.update(name.partition("-")[0] for name in payloads(leases))
        return kinds.total() >= 60

    wait_until(all_have_some, timeout=20)
    assert min(kinds["plain"], kinds["browser"], kinds["gpu"]) >= 8


def test_a_lane_with_few_requests_does_not_hold_up_the_others(start: Start) -> None:
    worker = start("worker", offers=BROWSER | {"gpu"}, slots=SlotLimits(delay=0.05))
    for lane in ("", "browser"):
        worker.push(*(f"{lane}{number}" for number in range(200)), slot="a", lane=lane)
    eager = Eager(worker)
    begun = time.monotonic()
    for number in range(4):
        worker.push(f"gpu{number}", slot="a", lane="gpu")
        wait_until(lambda number=number: eager.take() or len(eager.taken) >= 10 * (number + 1))
    # 40 requests take two seconds. A turn that was left to a lane in vain would cost one and a half.
    assert {"gpu0", "gpu1", "gpu2"} < set(eager.taken)
    assert time.monotonic() - begun < 5


def test_a_refused_entry_of_a_lane_is_for_no_other_worker_after_an_import(
    start: Start, server: redis.Redis
) -> None:
    plain = start("plain")
    server.zadd("s:delayed", {"request 0 x/1~refused@a|browser rendered": 0})
    assert plain.take(9) == []
    assert payloads(start("browser", offers=BROWSER).take(9)) == ["rendered"]


def test_saturated_slots_with_lanes_hide_no_other_slot(pair: tuple[Client, Client]) -> None:
    _, browser = pair
    for slot in "abc":
        browser.push(f"page-{slot}", slot=slot)
        browser.push(f"rendered-{slot}", slot=slot, lane="browser")
    leases = browser.say(want=1, saturated=["a", "b"]).leases
    assert [lease.slot for lease in leases] == ["c"]


def test_a_request_that_waits_for_its_time_returns_to_its_lane(pair: tuple[Client, Client]) -> None:
    plain, browser = pair
    now = plain.push("page", slot="a").now or 0.0
    push = Push("force", "", 0, b"rendered", "b", now + 300, lane="browser")
    soon = plain.say(pushes=[push]).now
    push = Push("force", "", 0, b"rendered", "b", (soon or 0) + 200, lane="browser")
    plain.say(pushes=[push])
    wait_until(lambda: not plain.say().later)
    assert payloads(plain.take(9) + plain.take(9)) == ["page"]
    wait_until(lambda: browser.take(9))


def test_a_worker_waits_for_no_turn_of_a_lane_that_it_does_not_serve(start: Start) -> None:
    slow = SlotLimits(delay=60.0)
    plain, browser = start("plain", slots=slow), start("browser", offers=BROWSER, slots=slow)
    plain.push("rendered", "other", slot="a", lane="browser")
    assert plain.say(want=1).next_turn is None
    assert len(browser.take(1)) == 1
    reply = browser.say(want=1)
    assert reply.next_turn is not None
    assert reply.next_turn > (reply.now or 0) + 10_000


def test_a_blocked_slot_gives_no_request_of_a_lane(
    pair: tuple[Client, Client], slots: Callable[[], Slots]
) -> None:
    plain, browser = pair
    plain.push("rendered", slot="a", lane="browser")
    # `slots` lists its requests with needs by this name.
    assert slots().named("a|browser") == "a"
    slots().block("a|browser", 60)
    assert browser.take(9) == []
    slots().unblock("a")
    assert payloads(browser.take(9)) == ["rendered"]


# -- needs that no worker meets ----------------------------------------------------------------------


def test_unmet_needs_are_in_the_reply_and_the_events_after_a_while(start: Start, server: redis.Redis) -> None:
    plain = start("plain", lease=0.2)
    plain.push("rendered", slot="a", lane="browser|gpu")
    assert plain.say().unmet == ()
    wait_until(lambda: plain.say().unmet == ("browser|gpu",))
    # A worker with one of both does not meet them, and other needs change nothing of it.
    start("browser", offers=BROWSER)
    plain.push("shown", slot="a", lane="screen")
    assert plain.say().unmet == ("browser|gpu",)
    start("both", offers=BROWSER | {"gpu", "screen"})
    assert plain.say().unmet == ()
    types = [entry[1][b"event"] for entry in server.xrange("s:events")]
    assert [b"needs_unmet" in one for one in types].count(True) == 1
    assert b"needs_met" in types[-1]
