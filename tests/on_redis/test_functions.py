"""The exchange as a function of Redis, which lives on between calls; and as a script where that is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from scrapy_rq_sched import connection
from scrapy_rq_sched.codec.slot_limits import SlotLimits, SlotPolicy
from scrapy_rq_sched.embedded import PrivateRedis
from scrapy_rq_sched.frontier import scripts
from scrapy_rq_sched.frontier.client import Frontier
from scrapy_rq_sched.frontier.messages import Batch, Finished, Push
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.servers.releases import version_of

LIBRARY = scripts.compose_library("scripts/exchange", "priority", "exact")

pytestmark = pytest.mark.single("functions are not used on a Cluster")


@pytest.fixture
def modern(server: redis.Redis) -> redis.Redis:
    """A client of a server that has functions, and none of ours."""
    if version_of(str(server.info("server")["executable"])) < (7, 0):
        pytest.skip("functions came with Redis 7.0; this server is older")
    server.execute_command("FUNCTION", "FLUSH")
    return server


def joined(server: redis.Redis, worker: str = "w", spider: str = "s", dupefilter: str = "exact") -> Frontier:
    frontier = Frontier(server, Keys(spider), worker, "priority", dupefilter=dupefilter)
    frontier.open({})
    return frontier


def push(name: str, slot: str = "") -> Push:
    return Push("filter", name, 0, name.encode(), slot)


def libraries(server: redis.Redis) -> list[str]:
    return [scripts._library_name(each) for each in server.execute_command("FUNCTION", "LIST")]


def calls(server: redis.Redis) -> dict[str, int]:
    """Return how often each way of calling a script was used since the statistics were reset."""
    stats = server.info("commandstats")
    return {
        way: stats[f"cmdstat_{way}"]["calls"] for way in ("fcall", "evalsha") if f"cmdstat_{way}" in stats
    }


def test_a_worker_calls_the_exchange_as_a_function(modern: redis.Redis) -> None:
    frontier = joined(modern)
    modern.config_resetstat()
    frontier.exchange(Batch(1))
    assert calls(modern) == {"fcall": 1}


def test_a_worker_that_joins_removes_the_library_of_another_version(modern: redis.Redis) -> None:
    other = f"{LIBRARY.kind}{'0' * 12}"
    modern.execute_command("FUNCTION", "LOAD", LIBRARY.text.replace(LIBRARY.name.encode(), other.encode()))
    users = b"#!lua name=of_the_user\nredis.register_function('of_the_user', function() end)"
    modern.execute_command("FUNCTION", "LOAD", users)
    joined(modern)
    assert sorted(libraries(modern)) == ["of_the_user", LIBRARY.name]


def test_a_library_that_was_removed_is_loaded_again(modern: redis.Redis) -> None:
    frontier = joined(modern)
    frontier.exchange(Batch(1, pushes=[push("a")]))
    modern.execute_command("FUNCTION", "FLUSH")
    assert frontier.exchange(Batch(2)).waiting == 1
    assert libraries(modern) == [LIBRARY.name]


@pytest.mark.parametrize("right", ["-fcall", "-function|load", "-function|list"])
def test_a_user_without_the_rights_for_functions_calls_a_script(modern: redis.Redis, right: str) -> None:
    options = modern.connection_pool.connection_kwargs
    modern.acl_setuser(
        "limited", enabled=True, passwords=["+secret"], keys=["*"], channels=["*"], categories=["+@all"]
    )
    modern.execute_command("ACL", "SETUSER", "limited", right)
    address = {name: options[name] for name in ("host", "port", "path") if name in options}
    limited = redis.Redis(
        **{**address, **({"unix_socket_path": address.pop("path")} if "path" in address else {})},
        username="limited",
        password="secret",
    )
    frontier = joined(limited)
    modern.config_resetstat()
    try:
        assert frontier.exchange(Batch(1, pushes=[push("a")])).waiting == 1
        assert frontier.exchange(Batch(2)).waiting == 1
        assert calls(modern)["evalsha"] >= 1
        assert not frontier._exchange.is_function
    finally:
        limited.close()
        modern.acl_deluser("limited")


@pytest.fixture
def full(modern: redis.Redis, tmp_path: Path) -> Iterator[redis.Redis]:
    """A client of a server of its own, which may be full."""
    with PrivateRedis(tmp_path) as server:
        client = connection.get_redis(url=server.url)
        yield client
        client.close()


def test_a_full_redis_still_releases_pages(full: redis.Redis) -> None:
    frontier = joined(full)
    frontier.exchange(Batch(1, pushes=[push("a"), push("b")]))
    (lease,) = frontier.exchange(Batch(2, want=1)).leases
    full.config_set("maxmemory", 1)
    reply = frontier.exchange(Batch(3, pushes=[push("c")], finished=[Finished(lease.name)], in_hand=1))
    assert (reply.full, reply.stored) == ("memory", 0)
    assert full.hlen(frontier.keys.leases("w")) == 0
    full.config_set("maxmemory", 0)
    assert frontier._exchange.is_function


def test_frontiers_that_take_turns_do_not_see_each_other(modern: redis.Redis) -> None:
    """All calls of a server share the function, and with it every variable that is not reset."""
    one, other = joined(modern, spider="one"), joined(modern, spider="other")
    polite = joined(modern, spider="polite")
    polite.limit_slots(SlotPolicy(SlotLimits(delay=60.0)))
    for number in range(1, 4):
        one.exchange(Batch(number, pushes=[push(f"{number}.{n}", "a.example") for n in range(10)]))
        other.exchange(Batch(number, pushes=[push("same", "a.example"), push(f"{number}", "b.example")]))
        polite.exchange(Batch(number, pushes=[push(f"{number}", "a.example")]))
    counts = [frontier.exchange(Batch(4)).waiting for frontier in (one, other, polite)]
    assert counts == [30, 4, 3]
    assert [len(frontier.exchange(Batch(5, want=9, in_hand=1)).leases) for frontier in (polite, one)] == [
        1,
        9,
    ]


def test_a_call_that_failed_leaves_nothing_to_the_next_one(modern: redis.Redis) -> None:
    frontier, keys = joined(modern), Keys("s")
    frontier.exchange(Batch(1, pushes=[push("a", "a.example")]))
    modern.rename(keys.slots, "kept")
    modern.set(keys.slots, "text")
    with pytest.raises(connection.ResponseError, match="WRONGTYPE"):
        frontier.exchange(Batch(2, pushes=[push("b", "b.example")]))
    modern.rename("kept", keys.slots)
    other = joined(modern, spider="other")
    other.exchange(Batch(1))
    assert modern.zcard(Keys("other").slots) == 0
    assert frontier.exchange(Batch(2, pushes=[push("b", "b.example")])).waiting == 2


def test_a_script_and_a_function_continue_each_others_frontier(modern: redis.Redis) -> None:
    by_function, by_script = joined(modern, "f"), joined(modern, "s")
    by_script._exchange.is_function = False
    by_function.exchange(Batch(1, pushes=[push("a", "a.example"), push("b", "b.example")]))
    (lease,) = by_script.exchange(Batch(1, want=1)).leases
    by_script.exchange(Batch(2, finished=[Finished(lease.name)], in_hand=1))
    reply = by_function.exchange(Batch(2, want=5, in_hand=1))
    assert (len(reply.leases), reply.waiting) == (1, 0)


def test_calls_leave_no_memory_behind(modern: redis.Redis) -> None:
    frontier = joined(modern)
    number = 0

    def after(calls: int) -> int:
        nonlocal number
        for _ in range(calls):
            number += 1
            frontier.exchange(Batch(number, pushes=[push(f"{number}", f"{number % 50}.example")]))
        return int(modern.info("memory")["used_memory_vm_functions"])

    before = after(2000)
    assert after(2000) < 1.5 * before
