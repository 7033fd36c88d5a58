"""Groups of requests: what waits for one, when it is finished, and who is told."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.failed import FailedRequests
from scrapy_rq_sched.frontier.messages import Failed, Push
from scrapy_rq_sched.frontier.replies import GroupNews, Lease
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.archive import ArchiveReader
from scrapy_rq_sched.inspect.explain import Explainer
from scrapy_rq_sched.inspect.export import Export
from scrapy_rq_sched.inspect.groups import Group, Groups
from scrapy_rq_sched.inspect.operations.clear import clear
from scrapy_rq_sched.inspect.operations.waiting import Waiting
from scrapy_rq_sched.inspect.read_status import read_status
from scrapy_rq_sched.inspect.restore import Import
from scrapy_rq_sched.inspect.verdict import verdict

from ..support.client import Client, Start, calls_of, failed, key_of, payloads


@pytest.fixture(params=["fifo", "lifo", "priority"])
def discipline(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def worker(start: Start, discipline: str) -> Client:
    return start(discipline=discipline)


def finish(worker: Client, *leases: Lease, **more: Any) -> Any:
    return worker.say(finished=[lease.name for lease in leases], **more)


def finish_all(worker: Client) -> list[str]:
    """Crawl everything, and confirm all signals; return the requests in their order."""
    crawled: list[str] = []
    acked: list[str] = []
    for _ in range(50):
        leases = worker.say(want=50, groups_acked=acked).leases
        crawled += payloads(leases)
        reply = finish(worker, *leases)
        acked = [name for name, _ in reply.groups_finished]
        if not (reply.waiting or leases or acked or worker.say(in_hand=0).group_news):
            return crawled
    raise AssertionError("the crawl has no end")


# -- what waits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("slot", ["", "a.example"])
def test_a_request_waits_until_its_group_is_finished(worker: Client, slot: str) -> None:
    worker.push("one", "two", slot=slot, groups="g")
    worker.push("then", slot=slot, after="g")
    first = worker.take(9)
    assert sorted(payloads(first)) == ["one", "two"]
    finish(worker, first[0])
    assert worker.take(9) == []
    finish(worker, first[1])
    assert payloads(worker.take(9)) == ["then"]


@pytest.mark.parametrize("payload", [b"\0\1 \n|@", bytes(range(256)), b" " * 2000])
def test_the_bytes_of_a_request_are_the_same_after_it_has_waited(worker: Client, payload: bytes) -> None:
    worker.push("one", groups="g", slot="a")
    worker.push("two", groups="h", slot="a")
    worker.say(pushes=[Push("filter", "fp", 0, payload, "a", after="g|h")])
    finish(worker, *worker.take(9))
    assert [lease.payload for lease in worker.take(9)] == [payload]


@pytest.mark.parametrize("kept", ["fifo", "priority"])
def test_followers_begin_in_the_order_in_which_they_were_found(start: Start, kept: str) -> None:
    worker = start(discipline=kept)
    worker.push("one", groups="g")
    worker.push(*(f"then-{number}" for number in range(20)), after="g")
    crawled = finish_all(worker)[1:]
    assert crawled == [f"then-{number}" for number in range(20)]


def test_a_request_that_is_only_in_the_memory_of_a_worker_holds_its_group_open(worker: Client) -> None:
    worker.say(pushes=[Push("filter", "fp", 0, b"", groups="g", member=7)], busy=True)
    worker.say(pushes=[Push("filter", "fp-then", 0, b"then", after="g")], busy=True)
    assert worker.say(want=9, busy=True).leases == []
    worker.say(left_memory=[7], busy=True)
    assert payloads(worker.take(9)) == ["then"]


def test_the_memory_of_a_dead_worker_holds_no_group_open(start: Start, server: redis.Redis) -> None:
    dead, heir = start("dead", lease=0.2), start("heir")
    dead.say(pushes=[Push("filter", "fp", 0, b"", groups="g", member=7)], busy=True)
    heir.push("then", after="g")
    assert heir.take(9) == []
    server.zadd(key_of(server, "workers"), {"dead": 1})
    heir.say()
    assert payloads(heir.take(9)) == ["then"]


def test_the_memory_of_a_worker_that_leaves_holds_no_group_open(start: Start) -> None:
    leaver, heir = start("leaver"), start("heir")
    leaver.say(pushes=[Push("filter", "fp", 0, b"", groups="g", member=7)], in_hand=0)
    heir.push("then", after="g")
    leaver.frontier.leave(finished=False, persist=False)
    heir.say()
    assert payloads(heir.take(9)) == ["then"]


def test_requests_of_a_dead_worker_hold_their_group_open(start: Start, server: redis.Redis) -> None:
    dead, heir = start("dead"), start("heir")
    dead.push("one", groups="g")
    dead.push("then", after="g")
    assert payloads(dead.take(1)) == ["one"]
    server.zadd(key_of(server, "workers"), {"dead": 1})
    assert finish_all(heir) == ["one", "then"]


def test_a_duplicate_is_no_member(worker: Client) -> None:
    worker.push("one")
    worker.push("one", groups="g")
    assert worker.push("then", after="g").group_news == (GroupNews("never", "g"),)
    assert sorted(payloads(worker.take(9))) == ["one", "then"]


def test_a_request_after_an_unknown_group_begins_at_once_with_a_line(worker: Client) -> None:
    assert worker.push("then", after="g").group_news == (GroupNews("never", "g"),)
    assert payloads(worker.take(9)) == ["then"]


def test_a_request_after_a_finished_group_begins_at_once(worker: Client) -> None:
    worker.push("one", groups="g")
    finish(worker, *worker.take(9))
    assert worker.push("then", after="g").group_news == ()
    assert payloads(worker.take(9)) == ["then"]


def test_a_request_found_by_the_last_member_keeps_its_group_open(worker: Client) -> None:
    worker.push("one", groups="g")
    worker.push("then", after="g")
    (lease,) = worker.take(9)
    finish(worker, lease, pushes=[Push("filter", "fp-two", 0, b"two", groups="g")])
    assert payloads(worker.take(9)) == ["two"]


def test_a_request_may_wait_for_several_groups(worker: Client) -> None:
    worker.push("one", groups="g")
    worker.push("two", groups="h")
    worker.push("then", after="g|h|never")
    leases = {lease.payload: lease for lease in worker.take(9)}
    finish(worker, leases[b"one"])
    assert worker.take(9) == []
    finish(worker, leases[b"two"])
    assert payloads(worker.take(9)) == ["then"]


def test_a_request_in_two_groups_holds_both_open(worker: Client) -> None:
    worker.push("one", groups="inner|outer")
    worker.push("after inner", after="inner")
    worker.push("after outer", after="outer")
    (lease,) = worker.take(9)
    finish(worker, lease, pushes=[Push("filter", "fp-two", 0, b"two", groups="outer")])
    leases = {lease.payload: lease for lease in worker.take(9)}
    assert leases.keys() == {b"two", b"after inner"}
    finish(worker, leases[b"two"])
    assert payloads(worker.take(9)) == ["after outer"]


def test_a_follower_in_another_group_holds_that_open(worker: Client) -> None:
    worker.push("one", groups="first")
    worker.push("two", after="first", groups="second")
    worker.push("three", after="second")
    assert finish_all(worker) == ["one", "two", "three"]


def test_many_followers_are_let_go_in_steps(worker: Client, server: redis.Redis) -> None:
    worker.push("one", groups="g")
    worker.push(*(f"then-{number}" for number in range(500)), after="g")
    finish(worker, *worker.take(9))
    assert server.zcard(key_of(server, "groups:followers")) == 300
    assert len(finish_all(worker)) == 500
    assert server.zcard(key_of(server, "groups:followers")) == 0


def test_a_follower_with_needs_waits_for_a_worker_that_offers_them(start: Start) -> None:
    plain, browser = start("plain"), start("browser", offers=frozenset({"browser"}))
    plain.push("one", slot="a", groups="g")
    plain.push("then", slot="a", lane="browser", after="g")
    finish(plain, *plain.take(9))
    assert plain.take(9) == []
    assert payloads(browser.take(9)) == ["then"]


def test_a_group_that_was_opened_again_holds_its_followers(worker: Client) -> None:
    worker.push("one", groups="g")
    finish(worker, *worker.take(9))
    worker.push("two", groups="g")
    worker.push("then", after="g")
    assert finish_all(worker) == ["two", "then"]


# -- requests that fail --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["run", "drop"])
def test_a_failed_member_ends_its_group_and_the_setting_decides_about_its_followers(
    start: Start, server: redis.Redis, way: str
) -> None:
    worker = start(group_failed=way)
    worker.push("one", "two", groups="g")
    worker.push("then", after="g")
    one, two = worker.take(9)
    reply = worker.say(failed=[Failed(one.name, 0, "no reason")], finished=[two.name])
    assert reply.groups_finished == (("g", 1),)
    later = worker.push("later", after="g")
    if way == "run":
        assert sorted(payloads(worker.take(9))) == ["later", "then"]
        assert not reply.group_news
    else:
        assert worker.take(9) == []
        assert reply.group_news == later.group_news == (GroupNews("dropped", "g", 1),)
        assert [entry["data"] for entry in failed(server)] == ["one", "then", "later"]
        reason = "it waited for group 'g', requests of which were set aside: 1"
        assert failed(server)[1]["reason"] == reason


def test_with_drop_a_member_that_was_dropped_fails_its_own_group(start: Start, server: redis.Redis) -> None:
    worker = start(group_failed="drop")
    worker.push("one", groups="first")
    worker.push("two", after="first", groups="second")
    worker.push("three", after="second")
    (one,) = worker.take(9)
    worker.say(failed=[Failed(one.name, 0, "no reason")])
    worker.say()
    assert [entry["data"] for entry in failed(server)] == ["one", "two", "three"]


@pytest.mark.parametrize("name", ["g", "/orders/17", "a|b"])
def test_a_request_of_the_failed_list_that_is_put_back_is_in_its_groups_again(
    start: Start, server: redis.Redis, name: str
) -> None:
    worker = start()
    worker.push("one", slot="a", groups=name)
    (one,) = worker.take(9)
    worker.say(failed=[Failed(one.name, 0, "no reason")])
    entries = FailedRequests(server, worker.frontier.keys)
    assert entries.requeue() == 1
    worker.push("then", after=name.partition("|")[0])
    assert finish_all(worker) == ["one", "then"]


def test_requests_that_are_put_back_after_the_end_of_a_crawl_are_in_their_groups(
    start: Start, server: redis.Redis
) -> None:
    worker = start()
    worker.push("one", "other", slot="a", groups="g")
    worker.say(failed=[Failed(lease.name, 0, "no reason") for lease in worker.take(9)])
    worker.say(groups_acked=["g"], in_hand=0, finishing=True)
    assert worker.frontier.leave(finished=True, persist=False).cleared
    entries = FailedRequests(server, worker.frontier.keys)
    assert entries.requeue() == 2
    again = start("again")
    again.push("then", after="g")
    assert sorted(finish_all(again)[:2]) == ["one", "other"]
    assert not server.zcard(key_of(server, "groups:followers"))


@pytest.mark.parametrize("way", ["run", "drop"])
def test_an_entry_of_another_program_among_the_followers_is_set_aside(
    start: Start, server: redis.Redis, way: str
) -> None:
    worker = start(group_failed=way)
    worker.push("one", groups="g")
    worker.push("then", after="g")
    server.zadd(key_of(server, "groups:followers"), {"foreign": 1})
    (one,) = worker.take(9)
    worker.say(failed=[Failed(one.name, 0, "no reason")])
    assert finish_all(worker) == (["then"] if way == "run" else [])
    assert {entry["data"] for entry in failed(server)} >= {"one", "foreign"}


# -- circles -------------------------------------------------------------------------------------------


def test_a_request_that_would_wait_for_itself_is_set_aside(worker: Client, server: redis.Redis) -> None:
    worker.push("a", groups="g")
    worker.push("b", groups="h")
    worker.push("c", groups="k")
    assert not worker.push("g after h", groups="g", after="h").group_news
    assert not worker.push("h after k", groups="h", after="k").group_news
    assert worker.push("k after g", groups="k", after="g").group_news == (GroupNews("circle", "g"),)
    (entry,) = failed(server)
    assert entry["data"] == "k after g"
    assert entry["reason"] == "it would wait for itself: it is in group 'k', for which group 'g' waits"
    assert entry["groups"] == "k"


def test_a_circle_is_found_through_any_of_the_groups_of_a_request(worker: Client) -> None:
    worker.push("a", groups="g")
    worker.push("b", groups="h")
    worker.push("c", groups="k")
    worker.push("g after k", groups="g", after="k")
    assert worker.push("k after both", groups="k", after="h|g").group_news == (GroupNews("circle", "g"),)


def test_a_chain_of_groups_is_no_circle(worker: Client) -> None:
    for stage in "abc":
        worker.push(f"{stage}1", groups=stage)
    worker.push("b2", groups="b", after="a")
    assert worker.push("c2", groups="c", after="b").group_news == ()
    assert finish_all(worker)[-2:] == ["b2", "c2"]


def test_stages_with_many_requests_are_searched_for_circles_once_in_an_exchange(start: Start) -> None:
    worker = start()
    for stage in range(10):
        worker.push(f"first-{stage}", groups=f"stage-{stage}")
        pushes = [
            Push(
                "force",
                "",
                0,
                b"%d-%d" % (stage, number),
                groups=f"stage-{stage}",
                after=f"stage-{stage - 1}",
            )
            for number in range(100 if stage else 0)
        ]
        worker.say(pushes=pushes)
    server = worker.frontier.server
    server.config_resetstat()
    worker.say(
        pushes=[
            Push("force", "", 0, b"more-%d" % number, groups="stage-9", after="stage-8")
            for number in range(200)
        ]
    )
    assert calls_of(server, "zscore") < 1500


def test_a_circle_that_is_set_aside_leaves_the_others_to_be_crawled(worker: Client) -> None:
    worker.push("a", groups="g")
    worker.push("b", groups="h")
    worker.push("c", groups="k")
    worker.push("g after h", groups="g", after="h")
    worker.push("h after k", groups="h", after="k")
    worker.push("k after g", groups="k", after="g")
    assert sorted(finish_all(worker)) == ["a", "b", "c", "g after h", "h after k"]


def test_an_exchange_tells_of_a_group_once(worker: Client) -> None:
    pushes = [Push("force", "", 0, b"%d" % number, after="never") for number in range(100)]
    assert worker.say(pushes=pushes).group_news == (GroupNews("never", "never"),)
    pushes = [Push("force", "", 0, b"%d" % number, after=f"never-{number}") for number in range(100)]
    assert len(worker.say(pushes=pushes).group_news) == 20


# -- the signal ---------------------------------------------------------------------------------------


def test_one_worker_gets_the_signal_of_a_finished_group_until_it_confirms(start: Start) -> None:
    first, second = start("first"), start("second")
    first.push("one", groups="g")
    assert finish(first, *first.take(9)).groups_finished == (("g", 0),)
    assert second.say().groups_finished == ()
    assert first.say().groups_finished == first.repeat().groups_finished == (("g", 0),)
    assert first.say(groups_acked=["g"]).groups_finished == ()
    assert second.say().groups_finished == ()


def test_the_crawl_is_not_finished_before_the_worker_confirms(worker: Client) -> None:
    worker.push("one", groups="g")
    assert not finish(worker, *worker.take(9)).finished
    assert worker.say(groups_acked=["g"], in_hand=0).finished


def test_another_worker_gets_the_signal_if_the_first_one_dies_or_leaves(
    start: Start, server: redis.Redis
) -> None:
    dead, heir = start("dead"), start("heir")
    dead.push("one", groups="g")
    finish(dead, *dead.take(9))
    server.zadd(key_of(server, "workers"), {"dead": 1})
    heir.say()
    assert heir.say().groups_finished == (("g", 0),)
    # What the dead one says now is out of date.
    dead.say(groups_acked=["g"])
    assert heir.say().groups_finished == (("g", 0),)
    heir.frontier.leave(finished=False, persist=False)
    third = start("third")
    assert third.say().groups_finished == (("g", 0),)


def test_a_worker_that_closes_gets_no_signal(start: Start) -> None:
    closing, other = start("closing"), start("other")
    closing.push("one", groups="g")
    assert finish(closing, *closing.take(9), is_closing=True).groups_finished == ()
    assert other.say().groups_finished == (("g", 0),)


def test_the_signal_is_sent_once_for_a_group_that_was_opened_again(worker: Client) -> None:
    worker.push("one", groups="g")
    assert finish(worker, *worker.take(9)).groups_finished
    worker.say(groups_acked=["g"])
    worker.push("two", groups="g")
    assert not finish(worker, *worker.take(9)).groups_finished


def test_the_groups_that_a_request_is_in_only_together_are_no_group_for_the_spider(worker: Client) -> None:
    worker.push("one", groups="g|h")
    assert sorted(finish(worker, *worker.take(9)).groups_finished) == [("g", 0), ("h", 0)]


# -- the second life -----------------------------------------------------------------------------------


def test_a_finished_crawl_leaves_no_groups_behind(worker: Client, server: redis.Redis, start: Start) -> None:
    worker.push("one", groups="g|h")
    worker.push("then", after="g")
    finish_all(worker)
    assert worker.say(groups_acked=["g", "h"], in_hand=0, finishing=True).finished
    worker.frontier.leave(finished=True, persist=False)
    assert not list(server.scan_iter(key_of(server, "groups*")))
    again = start("again")
    again.push("one", groups="g")
    assert finish(again, *again.take(9)).groups_finished == (("g", 0),)


def test_a_crawl_that_keeps_its_fingerprints_forgets_its_groups(worker: Client, server: redis.Redis) -> None:
    worker.push("one", groups="g")
    finish(worker, *worker.take(9))
    assert worker.say(groups_acked=["g"], in_hand=0, finishing=True).finished
    worker.frontier.leave(finished=True, persist=True)
    assert server.exists(key_of(server, "meta"))
    assert not list(server.scan_iter(key_of(server, "groups*")))


def test_followers_of_a_crawl_that_was_stopped_are_there_for_the_next_start(
    worker: Client, server: redis.Redis, start: Start, discipline: str
) -> None:
    worker.push("one", groups="g")
    worker.push("then", after="g")
    worker.frontier.leave(finished=False, persist=False)
    assert finish_all(start("again", discipline=discipline)) == ["one", "then"]


def test_requests_that_another_program_removed_keep_no_crawl_open(
    worker: Client, server: redis.Redis
) -> None:
    worker.push("one", "two", groups="g|h")
    worker.push("then", after="g")
    server.delete(key_of(server, "requests"))
    news = [worker.say(in_hand=0).group_news for _ in range(5)]
    assert GroupNews("stuck", "g") in sum(news, ())
    leases = worker.take(9)
    assert payloads(leases) == ["then"]
    finish(worker, *leases)
    worker.say(groups_acked=["g", "h"], in_hand=0)
    assert any(worker.say(groups_acked=["g", "h"], in_hand=0).finished for _ in range(5))


@pytest.mark.parametrize(
    "key", ["groups", "groups:members", "groups:followers", "groups:emptied", "groups:news", "groups:done"]
)
def test_a_deleted_key_hangs_no_crawl(worker: Client, server: redis.Redis, key: str) -> None:
    worker.push("one", groups="g|h")
    worker.push("then", after="g")
    (one,) = worker.take(9)
    server.delete(key_of(server, key))
    finish(worker, one)
    crawled = finish_all(worker)
    assert crawled == ([] if key == "groups:followers" else ["then"])
    told = {"groups_acked": ["g", "h"], "in_hand": 0}
    assert any(worker.say(**told).finished for _ in range(9))


@pytest.mark.parametrize(
    ("key", "garbage"),
    [
        ("groups", {"g": "x", "#": "y", "#1!": "z", "h": ""}),
        ("groups", {"#1": "x"}),
        ("groups:news", {"g": "x", "h": ""}),
        ("groups:emptied", {"x": 0}),
        ("groups:members", {"x": 1.5}),
        ("groups:done", {"g": 1e300, "x": 0}),
    ],
)
def test_text_of_another_program_hangs_no_crawl(
    start: Start, server: redis.Redis, key: str, garbage: dict[str, Any]
) -> None:
    worker = start()
    worker.push("one", groups="g")
    worker.push("then", after="g")
    (one,) = worker.take(9)
    if server.type(key_of(server, key)) == b"hash" or key == "groups:news":
        server.hset(key_of(server, key), mapping=garbage)
    else:
        server.zadd(key_of(server, key), garbage)
    finish(worker, one)
    worker.push("other", groups="h")
    assert sorted(finish_all(worker)) == ["other", "then"]


@pytest.mark.parametrize("key", ["groups", "groups:members", "groups:news"])
def test_a_key_of_another_type_refuses_the_exchange_with_its_name(
    worker: Client, server: redis.Redis, key: str
) -> None:
    server.set(key_of(server, key), "foreign")
    with pytest.raises(redis.ResponseError, match=f"Key '{key_of(server, key)}' is a string"):
        worker.push("one", groups="g")


def test_the_groups_of_lost_requests_are_closed_together(worker: Client, server: redis.Redis) -> None:
    for number in range(50):
        worker.push(f"member-{number}", groups=f"g-{number}")
        worker.push(f"follower-{number}", after=f"g-{number}")
    server.delete(key_of(server, "requests"))
    worker.say(in_hand=0)
    worker.say(in_hand=0)
    assert worker.say(in_hand=0).waiting == 50


def test_the_requests_of_inner_groups_come_first_if_all_others_are_lost(
    worker: Client, server: redis.Redis
) -> None:
    worker.push("lost", groups="outer")
    worker.push("also lost", groups="inner")
    worker.push("bill", after="outer")
    worker.push("inner one", groups="outer", after="inner")
    server.delete(key_of(server, "requests"))
    for _ in range(3):
        worker.say(in_hand=0)
    assert finish_all(worker) == ["inner one", "bill"]


def test_the_groups_are_known_later_after_the_loss_of_meta(worker: Client, server: redis.Redis) -> None:
    worker.push("one", groups="g")
    worker.push("then", after="g")
    (one,) = worker.take(9)
    server.delete(key_of(server, "meta"))
    worker.say()
    worker.say()
    finish(worker, one)
    assert finish_all(worker) == ["then"]


def test_the_groups_are_known_after_the_loss_of_meta(worker: Client, server: redis.Redis) -> None:
    worker.push("one", groups="g")
    worker.push("then", after="g")
    (one,) = worker.take(9)
    server.delete(key_of(server, "meta"))
    finish(worker, one)
    assert finish_all(worker) == ["then"]


def test_a_frontier_in_which_nothing_was_crawled_leaves_no_groups_behind(
    worker: Client, server: redis.Redis
) -> None:
    worker.say(pushes=[Push("force", "", 0, b"one", groups="g")])
    finish(worker, *worker.take(9))
    worker.say(groups_acked=["g"], in_hand=0)
    worker.frontier.leave(finished=False, persist=False)
    assert not list(server.scan_iter(key_of(server, "groups*")))


def test_a_signal_that_was_not_sent_is_there_after_a_stop(
    worker: Client, server: redis.Redis, start: Start, view: View
) -> None:
    worker.push("one", groups="g")
    finish(worker, *worker.take(9), is_closing=True)
    worker.frontier.leave(finished=False, persist=False)
    status = read_status(view)
    assert (status.state, status.left, status.unsent_signals) == ("stopped", 1, 1)
    assert start("again").say().groups_finished == (("g", 0),)


def test_a_group_that_was_tried_again_with_success_has_no_failed_requests(start: Start) -> None:
    worker = start(group_failed="drop")
    worker.push("one", slot="a", groups="g")
    (one,) = worker.take(9)
    worker.say(failed=[Failed(one.name, 0, "no reason")])
    assert FailedRequests(worker.frontier.server, worker.frontier.keys).requeue() == 1
    assert finish_all(worker) == ["one"]
    worker.push("then", after="g")
    assert payloads(worker.take(9)) == ["then"]


# -- what it costs -------------------------------------------------------------------------------------


def test_a_crawl_without_groups_uses_none_of_their_keys(worker: Client, server: redis.Redis) -> None:
    worker.push("one", slot="a")
    finish(worker, *worker.take(9))
    assert not list(server.scan_iter(key_of(server, "groups*")))
    assert not server.hexists(key_of(server, "meta"), "groups")


# -- what a person sees, and moves ---------------------------------------------------------------------


@pytest.fixture
def view(server: redis.Redis, redis_url: str) -> View:
    return View.from_settings(Settings({"REDIS_URL": redis_url}), "s")


def entry(number: int) -> bytes:
    return json.dumps({"url": f"http://a.example/{number}"}).encode()


@pytest.fixture
def filled(start: Start) -> Client:
    """A worker, whose frontier has two groups: one within the other."""
    worker = start()
    said = [("order", ""), ("order|customer", ""), ("customer", ""), ("", "order|customer"), ("", "customer")]
    pushes = [
        Push("filter", f"fp-{number}", 0, entry(number), "a.example", groups=groups, after=after)
        for number, (groups, after) in enumerate(said)
    ]
    worker.say(pushes=[push for push in pushes if push.groups])
    worker.say(pushes=[push for push in pushes if push.after])
    return worker


def test_the_count_of_a_group_includes_the_groups_within_it(filled: Client, view: View) -> None:
    assert list(Groups(view).read()) == [Group("customer", 2, 1, 0), Group("order", 2, 1, 0)]
    assert list(Groups(view).read(["order"])) == [Group("order", 2, 1, 0)]
    assert list(Groups(view).read(["never"])) == []
    first, *_ = filled.take(9)
    filled.say(failed=[Failed(first.name, 0, "no reason")])
    assert [group.failed for group in Groups(view).read()] == [0, 1]
    assert Groups(view).count == 2


def test_a_request_that_waits_for_groups_is_explained(filled: Client, view: View) -> None:
    found = Explainer(view).explain("http://a.example/3")
    assert [one.groups for one in found.following] == [["order", "customer"]]
    assert found.seen is False
    status = read_status(view)
    assert (status.following, status.waiting, status.left) == (2, 3, 5)
    (sentence,) = verdict(found, status, "")
    assert sentence == (
        "It waits until group 'order' is finished, of which 2 requests are not finished, and then for "
        "'customer'"
    )


def test_groups_survive_an_export_and_an_import(
    filled: Client, view: View, server: redis.Redis, start: Start
) -> None:
    filled.push("done", groups="done")
    first, *others = filled.take(9)
    filled.say(given_back=[lease.name for lease in (first, *others)])
    filled.frontier.leave(finished=False, persist=True)
    before = {key: server.type(key) for key in server.scan_iter(key_of(server, "groups*"))}
    lines = b"".join(Export(view).lines())
    server.flushdb()
    for _ in Import(view, ArchiveReader(io.BytesIO(lines))).steps():
        pass
    assert {key: server.type(key) for key in server.scan_iter(key_of(server, "groups*"))} == before
    heir = start("heir")
    crawled = finish_all(heir)
    assert sorted(crawled) == sorted([*(entry(number).decode() for number in range(5)), "done"])
    place = crawled.index
    first, second, third, both, outer = (place(entry(number).decode()) for number in range(5))
    assert both > max(first, second, third)
    assert outer > max(second, third)


def test_clearing_a_frontier_removes_its_groups(filled: Client, view: View, server: redis.Redis) -> None:
    clear(view, force=True)
    assert not list(server.scan_iter(key_of(server, "groups*")))


def test_a_removed_request_holds_no_group_open(filled: Client, view: View, server: redis.Redis) -> None:
    gone = ("http://a.example/0", "http://a.example/1")
    assert sum(map(len, Waiting(view).remove(lambda one: one.url in gone))) == 2
    crawled = finish_all(filled)
    assert crawled == [entry(number).decode() for number in (2, 3, 4)] or crawled == [
        entry(number).decode() for number in (2, 4, 3)
    ]


def test_a_request_with_a_new_priority_stays_in_its_groups(filled: Client, view: View) -> None:
    assert sum(map(len, Waiting(view).reprioritize(lambda one: True, 7))) == 3
    assert sorted(finish_all(filled)[-2:]) == [entry(3).decode(), entry(4).decode()]
