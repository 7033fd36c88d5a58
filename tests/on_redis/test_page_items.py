"""Items in the exchange: stored with the release of their page, or not at all."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import redis

from scrapy_rq_sched.errors import FrontierMismatchError
from scrapy_rq_sched.frontier import messages
from scrapy_rq_sched.frontier.messages import Batch, Failed, Finished, ItemGroup, Push
from scrapy_rq_sched.frontier.replies import Lease, Membership, Reply
from scrapy_rq_sched.frontier.scripts import register

from ..support.client import Client, Join, failed
from ..support.crawl import wait_until


def key(client: Client) -> str:
    return client.frontier.keys.items


def listed(server: redis.Redis, client: Client) -> list[bytes]:
    return server.lrange(key(client), 0, -1)


def streamed(server: redis.Redis, client: Client) -> list[dict[bytes, bytes]]:
    return [fields for _, fields in server.xrange(key(client))]


def last(lease: Lease, *items: str, url: str = "") -> ItemGroup:
    """Return the last items of the page of *lease*."""
    page = lease.payload.decode()
    return ItemGroup(tuple(item.encode() for item in items), lease.name, url, page, is_last=True)


def part(lease: Lease, *items: str) -> ItemGroup:
    """Return items of a page that is not finished."""
    return ItemGroup(tuple(item.encode() for item in items), lease.name)


def finish(client: Client, *groups: ItemGroup, leases: list[Lease] | None = None, **more: Any) -> Reply:
    """Release the leases of the last *groups*, and *leases*, in a new exchange."""
    client.number += 1
    return again(client, *groups, leases=leases, **more)


def again(client: Client, *groups: ItemGroup, leases: list[Lease] | None = None, **more: Any) -> Reply:
    """Make the last exchange again."""
    names = [group.lease for group in groups if group.is_last] + [lease.name for lease in leases or []]
    afters = more.pop("afters", {})
    done = [Finished(name, afters.get(name, 0)) for name in names]
    more.setdefault("in_hand", 1)
    return client.frontier.exchange(Batch(client.number, finished=done, item_groups=list(groups), **more))


@pytest.fixture
def worker(join: Join) -> Client:
    return join("w", bounds={"items": "list"})


def take(client: Client, count: int = 1) -> list[Lease]:
    client.push(*(f"page-{number}" for number in range(count)))
    return client.take(count)


def test_the_items_of_a_page_are_stored_with_its_release(server: redis.Redis, worker: Client) -> None:
    one, other = take(worker, 2)
    reply = finish(worker, last(one, "a", "b"), last(other, "c"))
    assert listed(server, worker) == [b"a", b"b", b"c"]
    assert reply.items == 3
    assert not server.exists(worker.frontier.keys.leases("w"))


def test_a_repeated_exchange_stores_its_items_once(server: redis.Redis, worker: Client) -> None:
    (lease,) = take(worker)
    finish(worker, last(lease, "a"))
    reply = again(worker, last(lease, "a"))
    assert listed(server, worker) == [b"a"]
    assert reply.items == 1


def test_a_late_worker_s_items_are_refused_with_its_release(join: Join, server: redis.Redis) -> None:
    late, other = join("late", lease=0.2, bounds={"items": "list"}), join("other", bounds={"items": "list"})
    (lease,) = take(late)
    late.say(begun=lease.name)
    wait_until(lambda: other.say().returned)
    assert finish(late, last(lease, "of the late one")).membership == Membership.EXPIRED
    (taken,) = other.take(1)  # the release of the late worker has not marked the page as done
    finish(other, last(taken, "of the other"))
    assert listed(server, late) == [b"of the other"]


def test_the_items_of_a_late_worker_that_are_refused_do_not_count(join: Join, server: redis.Redis) -> None:
    late, other = join("late", lease=0.2, bounds={"items": "list"}), join("other", bounds={"items": "list"})
    (lease,) = take(late)
    late.say(begun=lease.name)
    wait_until(lambda: other.say().returned)
    finish(late, last(lease, "a", "b"), scraped=2, pages=1)
    (taken,) = other.take(1)
    finish(other, last(taken, "a", "b"), scraped=2, pages=1)
    entries = [entry.split() for entry in server.lrange(late.frontier.keys.pages, 0, -1)]
    assert sum(int(entry[3]) for entry in entries) == len(listed(server, late)) == 2


def counted_items(server: redis.Redis, worker: Client) -> int:
    """Return how many items the frontier has counted."""
    entries = [entry.split() for entry in server.lrange(worker.frontier.keys.pages, 0, -1)]
    return sum(int(entry[3]) for entry in entries)


def test_parts_of_a_page_count_when_the_page_is_released(join: Join, server: redis.Redis) -> None:
    late, other = join("late", lease=0.2, bounds={"items": "list"}), join("other", bounds={"items": "list"})
    (lease,) = take(late)
    late.say(begun=lease.name, item_groups=[part(lease, "a", "b")])
    wait_until(lambda: other.say().returned)
    (taken,) = other.take(1)
    other.say(item_groups=[part(taken, "a", "b")])
    assert counted_items(server, other) == 0
    finish(other, last(taken, "c"), pages=1)
    finish(late, last(lease, "c"), pages=1)
    assert counted_items(server, other) == len(listed(server, other)) == 3


def test_items_of_start_that_another_worker_has_yielded_do_not_count(join: Join, server: redis.Redis) -> None:
    one, other = join("one", bounds={"items": "list"}), join("other", bounds={"items": "list"})
    group = ItemGroup((b"a",), mark="item:a#1")
    one.say(item_groups=[group])
    other.say(item_groups=[group])
    assert counted_items(server, one) == len(listed(server, one)) == 1


def test_a_late_release_without_items_still_marks_a_page_as_done(join: Join) -> None:
    late, other = join("late", lease=0.2, bounds={"items": "list"}), join("other", bounds={"items": "list"})
    (lease,) = take(late)
    late.say(begun=lease.name)
    wait_until(lambda: other.say().returned)
    finish(late, leases=[lease])
    assert other.take(1) == []


def test_items_wait_for_the_requests_of_their_page(join: Join, server: redis.Redis) -> None:
    worker = join("w", bounds={"items": "list", "max_waiting": 1})
    (one,) = take(worker)
    pushes = [Push("force", "", 0, name) for name in (b"x", b"y", b"z")]
    reply = finish(worker, last(one, "a"), pushes=pushes, afters={one.name: 3})
    assert reply.stored < 3
    assert listed(server, worker) == []
    assert server.hexists(worker.frontier.keys.leases("w"), one.name)


def test_a_part_becomes_visible_with_the_release(server: redis.Redis, worker: Client) -> None:
    (lease,) = take(worker)
    finish(worker, part(lease, "a", "b"))
    finish(worker, part(lease, "c"))
    assert listed(server, worker) == []
    finish(worker, last(lease, "d"))
    assert listed(server, worker) == [b"a", b"b", b"c", b"d"]
    assert not list(server.scan_iter(f"{key(worker)}:*"))


def test_a_dead_worker_s_parts_are_dropped_with_its_lease(join: Join, server: redis.Redis) -> None:
    dead, other = join("dead", lease=0.2, bounds={"items": "list"}), join("other", bounds={"items": "list"})
    (lease,) = take(dead)
    finish(dead, part(lease, "a"))
    wait_until(lambda: other.say().returned)
    (taken,) = other.take(1)
    finish(other, last(taken, "b"))
    assert listed(server, dead) == [b"b"]
    assert not list(server.scan_iter(f"{key(dead)}:*"))


@pytest.mark.parametrize("way", ["given_back", "failed"])
def test_the_parts_of_a_lease_that_is_not_finished_are_dropped(
    server: redis.Redis, worker: Client, way: str
) -> None:
    (lease,) = take(worker)
    finish(worker, part(lease, "a"))
    if way == "given_back":
        worker.say(given_back=[lease.name])
    else:
        worker.say(failed=[Failed(lease.name, 0, "no reason")])
        assert failed(server)
    assert listed(server, worker) == []
    assert not list(server.scan_iter(f"{key(worker)}:*"))


def test_a_part_of_a_lease_that_is_gone_is_refused(server: redis.Redis, worker: Client) -> None:
    (lease,) = take(worker)
    finish(worker, leases=[lease])
    assert finish(worker, part(lease, "a")).items == 0
    assert not list(server.scan_iter(f"{key(worker)}*"))


@pytest.mark.parametrize("kind", ["list", "stream"])
def test_a_page_of_very_many_items_becomes_visible_in_steps_and_in_order(
    join: Join, server: redis.Redis, kind: str
) -> None:
    worker = join("w", bounds={"items": kind})
    large, small = take(worker, 2)
    names = [f"item-{number}" for number in range(5000)]
    for first in range(0, 4000, 1000):
        finish(worker, part(large, *names[first : first + 1000]))
    reply = finish(worker, last(large, *names[4000:]))
    assert not reply.finished  # the crawl is not at its end before all items are visible
    finish(worker, last(small, "after them"))
    wait_until(lambda: worker.say(in_hand=0).finished, 10)
    if kind == "list":
        found = [item.decode() for item in listed(server, worker)]
    else:
        found = [fields[b"item"].decode() for fields in streamed(server, worker)]
        assert len({fields[b"id"] for fields in streamed(server, worker)}) == 5001
    assert found == [*names, "after them"]
    assert not list(server.scan_iter(f"{key(worker)}:*"))


def test_the_last_worker_does_not_clear_a_frontier_before_all_items_are_visible(
    join: Join, server: redis.Redis
) -> None:
    worker = join("w", bounds={"items": "list"})
    (lease,) = take(worker)
    for _ in range(5):
        finish(worker, part(lease, *map(str, range(1000))))
    finish(worker, last(lease))
    assert not worker.frontier.leave(finished=True, persist=False).cleared
    other = join("other", bounds={"items": "list"})
    wait_until(lambda: other.say(in_hand=0).finished, 10)
    assert server.llen(key(worker)) == 5000


def test_the_identity_of_an_item_is_the_same_for_each_delivery_of_its_page(
    join: Join, server: redis.Redis
) -> None:
    dead, other = (
        join("dead", lease=0.2, bounds={"items": "stream"}),
        join("other", bounds={"items": "stream"}),
    )
    (lease,) = take(dead)
    finish(dead, part(lease, "a"))  # were it released, this would be the first delivery
    began = server.hget(dead.frontier.keys.meta, "began").decode()
    wait_until(lambda: other.say().returned)
    (taken,) = other.take(1)
    finish(other, last(taken, "a", "b"))
    found = [fields[b"id"].decode() for fields in streamed(server, dead)]
    assert found == [f"{began}-page-0-0", f"{began}-page-0-1"]


def test_an_entry_of_a_stream_has_the_page_and_the_worker(join: Join, server: redis.Redis) -> None:
    worker = join("w", bounds={"items": "stream"})
    (lease,) = take(worker)
    finish(worker, last(lease, "a", url="http://example.com/"))
    (fields,) = streamed(server, worker)
    assert {name: fields[name] for name in (b"item", b"url", b"worker")} == {
        b"item": b"a",
        b"url": b"http://example.com/",
        b"worker": b"w",
    }


def test_an_item_of_start_is_stored_once_by_all_workers(join: Join, server: redis.Redis) -> None:
    workers = [join(name, bounds={"items": "list"}) for name in ("a", "b")]
    for worker in workers:
        finish(worker, ItemGroup((b"one",), mark="item:1#1"), ItemGroup((b"two",), mark="item:2#1"))
    assert listed(server, workers[0]) == [b"one", b"two"]


def test_items_without_a_lease_are_stored(server: redis.Redis, worker: Client) -> None:
    finish(worker, ItemGroup((b"a", b"b")))
    assert listed(server, worker) == [b"a", b"b"]


def test_items_that_have_no_room_keep_their_lease(join: Join, server: redis.Redis) -> None:
    worker = join("w", bounds={"items": "list", "max_items": 1})
    full, kept, free = take(worker, 3)
    finish(worker, last(full, "a"))
    reply = finish(worker, last(kept, "b"), leases=[free])
    assert reply.no_items == "bound"
    assert again(worker, last(kept, "b"), leases=[free]).no_items == "bound"
    assert server.hkeys(worker.frontier.keys.leases("w")) == [kept.name.encode()]
    server.delete(key(worker))
    assert not finish(worker, last(kept, "b")).no_items
    assert listed(server, worker) == [b"b"]


def test_a_full_redis_stores_no_items_and_keeps_their_leases(join: Join, server: redis.Redis) -> None:
    worker = join("w", bounds={"items": "list"})
    (lease,) = take(worker)
    server.config_set("maxmemory", 1)
    try:
        reply = finish(worker, last(lease, "a"))
    finally:
        server.config_set("maxmemory", 0)
    assert reply.no_items == "memory"
    assert finish(worker, last(lease, "a")).items == 1
    assert listed(server, worker) == [b"a"]


def test_a_key_of_another_type_fails_the_exchange_before_its_first_write(
    server: redis.Redis, worker: Client
) -> None:
    (lease,) = take(worker)
    server.set(key(worker), "x")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        finish(worker, last(lease, "a"))
    assert server.hexists(worker.frontier.keys.leases("w"), lease.name)


def test_after_a_rewind_neither_parts_nor_releases_count(join: Join, server: redis.Redis) -> None:
    worker = join("w", bounds={"items": "list"})
    (lease,) = take(worker)
    finish(worker, part(lease, "a"))
    server.hset(worker.frontier.keys.worker("w"), "exchange", 1)  # Redis came back with older data
    assert finish(worker, last(lease, "b")).membership == Membership.ROLLED_BACK
    assert listed(server, worker) == []
    assert not list(server.scan_iter(f"{key(worker)}:*"))


@pytest.mark.parametrize(
    "record",
    [
        "no JSON",
        "[]",
        "1",
        '{"name": "x"}',
        '{"name": "w/1", "worker": "", "url": "", "id": "", "n": 0, "kind": "set"}',
        '{"name": "released", "worker": "", "url": "", "id": "", "n": 0, "kind": "list"}',
    ],
)
def test_garbage_among_released_parts_is_dropped_and_the_others_are_moved(
    server: redis.Redis, worker: Client, record: str
) -> None:
    (lease,) = take(worker)
    finish(worker, part(lease, "a"))
    server.rpush(worker.frontier.keys.items_released, record)
    finish(worker, last(lease, "b"))
    assert listed(server, worker) == [b"a", b"b"]
    assert not server.exists(worker.frontier.keys.items_released)


def test_a_repetition_without_its_items_tells_that_the_first_attempt_carried_them(
    server: redis.Redis, worker: Client
) -> None:
    (lease,) = take(worker)
    finish(worker, part(lease, "a"), ItemGroup((b"b",)))
    assert again(worker).items == 2
    worker.number += 1
    assert again(worker).items is None  # an exchange without items, and its repetition
    assert again(worker).items is None


@pytest.mark.parametrize("name", ["item_parts", "items_released"])
def test_a_wrong_type_of_a_key_of_parts_fails_the_exchange_before_its_first_write(
    server: redis.Redis, worker: Client, name: str
) -> None:
    (lease,) = take(worker)
    server.set(getattr(worker.frontier.keys, name), "x")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE Key"):
        finish(worker, part(lease, "a"))
    assert not list(server.scan_iter(f"{key(worker)}*"))
    assert server.hexists(worker.frontier.keys.leases("w"), lease.name)


def made_with(items: str) -> dict[str, str]:
    return {"FRONTIER_ITEMS": items}


def test_a_worker_with_other_items_is_refused_while_others_run(server: redis.Redis, worker: Client) -> None:
    worker.frontier.open(made_with("list s:items"))
    other = Client(server, "other", "priority", 30, 5)
    with pytest.raises(FrontierMismatchError, match=r"FRONTIER_ITEMS 'list s:items'.*''"):
        other.frontier.open(made_with(""))


def test_a_worker_may_continue_a_crawl_with_other_items(server: redis.Redis, worker: Client) -> None:
    worker.frontier.open(made_with("list s:items"))
    worker.push("page")
    worker.frontier.leave(finished=False, persist=False)
    Client(server, "other", "priority", 30, 5).frontier.open(made_with("stream s:items"))
    assert server.hget(worker.frontier.keys.meta, "FRONTIER_ITEMS") == b"stream s:items"


@pytest.mark.parametrize("flush", [False, True])
def test_items_that_are_not_moved_yet_are_moved_to_the_items_of_the_next_worker(
    join: Join, server: redis.Redis, worker: Client, flush: bool
) -> None:
    worker.frontier.open(made_with("list s:items"))
    (lease,) = take(worker)
    for _ in range(4):
        finish(worker, part(lease, *map(str, range(1000))))
    finish(worker, last(lease))
    left = 4000 - server.llen(key(worker))
    worker.frontier.leave(finished=False, persist=False)
    server.delete(key(worker))  # a consumer has taken them
    other = Client(server, "other", "priority", 30, 5, items="stream")
    other.frontier.open(made_with("stream s:items"), flush=flush)
    wait_until(lambda: not other.say().unmoved)
    assert 0 < left == server.xlen(key(worker))
    assert len({fields[b"id"] for fields in streamed(server, worker)}) == left


def test_items_that_are_not_moved_yet_need_a_worker_that_stores_items(
    server: redis.Redis, worker: Client
) -> None:
    worker.frontier.open(made_with("list s:items"))
    (lease,) = take(worker)
    for _ in range(9):
        finish(worker, part(lease, *map(str, range(1000))))
    finish(worker, last(lease))
    worker.push("page")
    worker.frontier.leave(finished=False, persist=False)
    other = Client(server, "other", "priority", 30, 5)
    with pytest.raises(FrontierMismatchError, match="FRONTIER_ITEMS"):
        other.frontier.open(made_with(""))


def test_a_repetition_tells_again_that_the_frontier_is_lost(server: redis.Redis, worker: Client) -> None:
    take(worker, 2)
    server.flushall()
    first = worker.say(in_hand=2)
    again = worker.repeat(in_hand=2)
    assert (first.lost, first.membership) == (again.lost, again.membership)
    assert again.lost == ("frontier",)


def test_items_go_to_no_key_twice_if_another_one_cannot_take_them(join: Join, server: redis.Redis) -> None:
    worker = join("w", bounds={"items": "list", "feed": "abc"})
    (lease,) = take(worker)
    for _ in range(4):
        finish(worker, part(lease, *map(str, range(1000))))
    other = join("other", bounds={"items": "list"})  # does not look at that file's key
    server.set(worker.frontier.keys.feed("abc"), "x")
    server.delete(worker.frontier.keys.items)
    record = json.dumps(
        {"name": f"w/{lease.name}", "worker": "w", "url": "", "id": "", "n": 0, "kind": "list", "feed": "abc"}
    )
    server.rpush(worker.frontier.keys.items_released, record)
    for _ in range(3):
        other.say()
    assert not server.exists(worker.frontier.keys.items)


def test_the_bound_of_a_file_does_not_bind_the_items(
    join: Join, server: redis.Redis, monkeypatch: Any
) -> None:
    monkeypatch.setattr(messages, "FEED_MOST", 3)
    worker = join("w", bounds={"items": "list", "feed": "abc"})
    server.rpush(key(worker), *"xxxxx")
    one, other = take(worker, 2)
    assert finish(worker, last(one, "a", "b", "c")).no_items == ""
    assert finish(worker, last(other, "d")).no_items == "feed"


def test_parts_that_no_lease_has_are_dropped_at_the_end_of_the_crawl(
    server: redis.Redis, worker: Client
) -> None:
    (lease,) = take(worker)
    finish(worker, part(lease, "a"))
    server.hdel(worker.frontier.keys.leases("w"), lease.name)  # as an older version puts it back
    assert worker.frontier.leave(finished=True, persist=False).cleared
    assert not list(server.scan_iter(f"{worker.frontier.keys.item_parts}*"))


def test_a_frontier_is_cleared_though_the_parts_key_has_a_wrong_type(
    server: redis.Redis, worker: Client
) -> None:
    server.set(worker.frontier.keys.item_parts, "x")
    assert worker.frontier.leave(finished=True, persist=False).cleared
    assert not server.exists(worker.frontier.keys.item_parts)


def test_one_exchange_moves_few_items_if_they_are_large(server: redis.Redis, worker: Client) -> None:
    (lease,) = take(worker)
    for _ in range(20):
        finish(worker, part(lease, "x" * 400_000))
    reply = finish(worker, last(lease))
    assert server.llen(key(worker)) == 5  # two megabytes
    assert reply.unmoved == "more"
    wait_until(lambda: not worker.say().unmoved)
    assert server.llen(key(worker)) == 20


def test_released_items_are_not_moved_beyond_the_bound(join: Join, server: redis.Redis) -> None:
    worker = join("w", bounds={"items": "list", "max_items": 10})
    (lease,) = take(worker)
    for _ in range(3):
        finish(worker, part(lease, *map(str, range(1000))))
    assert finish(worker, last(lease, *map(str, range(1000)))).items == 1000
    there = server.llen(key(worker))
    assert there < 4000
    assert worker.say().unmoved == "bound"
    assert server.llen(key(worker)) == there
    server.delete(key(worker))
    assert worker.say() is not None
    assert server.llen(key(worker)) == 4000 - there


def test_items_behind_released_parts_do_not_become_more_and_more(server: redis.Redis, worker: Client) -> None:
    large, *small = take(worker, 9)
    for _ in range(4):
        finish(worker, part(large, *map(str, range(1000))))
    finish(worker, last(large))
    waiting = []
    for lease in small:
        finish(worker, last(lease, *map(str, range(3000))))
        waiting.append(server.llen(worker.frontier.keys.items_released))
    assert waiting[-1] <= 2


def test_a_page_that_was_forgotten_has_other_identities_when_it_is_crawled_again(
    join: Join, server: redis.Redis
) -> None:
    worker = join("w", bounds={"items": "stream"})
    script = register(server, "forget", dupefilter="exact")
    page = "f" + hashlib.sha1(b"fp-page").hexdigest()[:20]
    for _ in range(3):
        worker.push("page")
        (lease,) = worker.take(1)
        finish(worker, last(lease, "a")._replace(page=page))
        assert script([*worker.frontier.keys.all()], [1, "fp-page"]) == 1
    assert len({fields[b"id"] for fields in streamed(server, worker)}) == 3


def test_a_page_that_is_forgotten_while_it_is_crawled_has_two_identities(
    join: Join, server: redis.Redis
) -> None:
    worker = join("w", bounds={"items": "stream"})
    script = register(server, "forget", dupefilter="exact")
    page = "f" + hashlib.sha1(b"fp-page").hexdigest()[:20]
    worker.push("page")
    (lease,) = worker.take(1)
    assert script([*worker.frontier.keys.all()], [1, "fp-page"]) == 1
    finish(worker, last(lease, "a")._replace(page=page))
    worker.push("page")
    (lease,) = worker.take(1)
    finish(worker, last(lease, "a")._replace(page=page))
    assert len({fields[b"id"] for fields in streamed(server, worker)}) == 2
