"""Pools as an operator sees and changes them: the states of items, and that nothing shows their secrets."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched.codec.pools import LONGEST_REST
from scrapy_rq_sched.commands.look import leases_table
from scrapy_rq_sched.commands.output import plain
from scrapy_rq_sched.commands.slots import slots_table
from scrapy_rq_sched.commands.status_text import items_of, workers_table
from scrapy_rq_sched.errors import InspectionError
from scrapy_rq_sched.frontier.replies import without_item
from scrapy_rq_sched.inspect import View, as_json, read_status
from scrapy_rq_sched.inspect.archive import ArchiveReader
from scrapy_rq_sched.inspect.explain import Explainer, Explanation
from scrapy_rq_sched.inspect.export import Export
from scrapy_rq_sched.inspect.frontier_checks import check_frontier
from scrapy_rq_sched.inspect.operations import pools as operations
from scrapy_rq_sched.inspect.operations.operation import Operation
from scrapy_rq_sched.inspect.operations.pools import add_items, remove_items, rest_item, retire_item
from scrapy_rq_sched.inspect.pools import Item, Pools
from scrapy_rq_sched.inspect.restore import Import
from scrapy_rq_sched.inspect.slots import Slots
from scrapy_rq_sched.inspect.status import PoolCounts
from scrapy_rq_sched.inspect.verdict import verdict
from scrapy_rq_sched.keys import Keys

from ..support import pools
from ..support.client import Client
from ..support.pools import PASSWORD, SECRET

pytestmark = pytest.mark.single("the workers here have the keys of a single server")


@pytest.fixture
def settings(redis_url: str) -> Settings:
    return Settings({"REDIS_URL": redis_url})


@pytest.fixture
def worker(server: redis.Redis) -> Client:
    return pools.start(server)


@pytest.fixture
def view(worker: Client, settings: Settings) -> View:
    return View.from_settings(settings, "pooled")


def items(view: View, pool: str = "accounts") -> dict[str, Item]:
    return {item.name: item for item in Pools(view).read([pool])}


def value_of(server: redis.Redis, name: str, pool: str = "accounts") -> object:
    text = server.hget(Keys("pooled").pool_item(pool, name), "value")
    return None if text is None else json.loads(text)


def test_each_item_has_its_state(worker: Client, view: View) -> None:
    reply = pools.fill(worker, view)
    found = items(view)
    states = {name: item.state for name, item in found.items()}
    assert states == {
        "alice": "in use",
        "bob": "rests",
        "carol": "retired",
        "dave": "free",
        "erin": "free",
        "frank": "waits",
    }
    alice, bob, frank = found["alice"], found["bob"], found["frank"]
    assert (alice.workers, alice.leases) == (["w-1"], [f"w-1/{reply.leases[0].name}"])
    assert (alice.free_in, alice.used, bob.used) == (None, 1, 0)
    assert (bob.why, found["carol"].retired, frank.bad) == ("status 403", "it is locked", 2)
    assert 50 < bob.rests_for <= 60
    assert bob.free_in == bob.rests_for
    assert 50 < (frank.free_in or 0) <= 60
    assert (frank.delay, bob.delay, bob.is_set) == (60, 0, True)


def test_a_worker_that_has_an_item_for_its_life_is_named_without_a_lease(worker: Client, view: View) -> None:
    pools.fill(worker, view)
    (proxy,) = items(view, "proxies").values()
    assert (proxy.name, proxy.state, proxy.workers, proxy.leases) == (
        *("u@p1.example:3128", "in use"),
        *(["w-1"], []),
    )


def test_the_counts_add_up_the_states(worker: Client, view: View) -> None:
    pools.fill(worker, view)
    accounts, keys, proxies = Pools(view).counts()
    assert (accounts.name, keys.name, proxies.name) == ("accounts", "keys", "proxies")
    assert (accounts.items, accounts.free, accounts.in_use) == (6, 2, 1)
    assert (accounts.rests, accounts.waits, accounts.retired) == (1, 1, 1)
    assert 50 < (accounts.next_in or 0) <= 60
    assert keys == PoolCounts("keys", 2, free=2)
    assert proxies.next_in is None


def test_counts_of_more_items_than_are_read_tell_so(worker: Client, view: View) -> None:
    accounts = Pools(view).counts(most=3)[0]
    assert (accounts.items, accounts.free, accounts.is_whole) == (6, 3, False)


def test_the_time_of_a_rest_is_by_the_frontiers_clock(
    worker: Client, view: View, server: redis.Redis
) -> None:
    server.hset("pooled:meta", "clock_ahead", 100_000)
    rest_item(view, "accounts", "bob", 60).do()
    assert 50 < items(view)["bob"].rests_for <= 60


def test_thousands_of_items_are_read_in_some_round_trips(
    worker: Client, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_items(view, "accounts", [f"n-{number}" for number in range(1000)]).do()
    monkeypatch.setattr("scrapy_rq_sched.inspect.pools.STEP", 100)
    calls = view.server.info("commandstats")
    assert len(items(view)) == 1006
    after = view.server.info("commandstats")
    scripts = after["cmdstat_evalsha"]["calls"] - calls["cmdstat_evalsha"]["calls"]
    assert 10 <= scripts <= 30


def test_pools_of_other_types_are_none(worker: Client, view: View, server: redis.Redis) -> None:
    keys = Keys("pooled")
    server.delete(keys.pool_items("keys"), keys.pool_uses)
    server.set(keys.pool_items("keys"), "x")
    server.set(keys.pool_uses, "x")
    server.delete(keys.pool_item("accounts", "alice"))
    server.set(keys.pool_item("accounts", "alice"), "x")
    assert {item.state for item in Pools(view).read()} == {"free"}
    assert [one.items for one in Pools(view).counts()] == [6, 0, 1]
    server.delete(keys.pools)
    server.set(keys.pools, "x")
    assert (list(Pools(view).read()), Pools(view).counts()) == ([], [])


# -- changes -------------------------------------------------------------------------------------------------


def test_an_item_is_added_with_its_limits(worker: Client, view: View, server: redis.Redis) -> None:
    item = json.dumps({"name": "gina", "password": PASSWORD, "delay": 7, "concurrency": 3})
    outcome = add_items(view, "accounts", [item]).do()
    assert (outcome.text, outcome.touched) == ("1 item was added to pool 'accounts': 'gina'", 1)
    its = items(view)["gina"]
    assert (its.delay, its.concurrency, its.is_set) == (7, 3, False)
    assert value_of(server, "gina") == json.loads(item)


def test_the_name_alone_uses_an_item_again_and_keeps_its_value(
    worker: Client, view: View, server: redis.Redis
) -> None:
    pools.fill(worker, view)
    before = value_of(server, "carol")
    outcome = add_items(view, "accounts", ["carol", "bob"]).do()
    assert outcome.text.endswith("2 items of pool 'accounts' were used again: 'carol', 'bob'")
    assert {items(view)[name].state for name in ("bob", "carol")} == {"free"}
    assert value_of(server, "carol") == before


def test_the_name_of_a_removed_item_has_the_value_of_the_settings(
    worker: Client, server: redis.Redis, redis_url: str
) -> None:
    item = {"user": "alice", "password": PASSWORD}
    settings = Settings({"REDIS_URL": redis_url, "FRONTIER_POOLS": {"accounts": {"items": [item]}}})
    view = View.from_settings(settings, "pooled")
    remove_items(view, "accounts", ["alice"]).do()
    assert value_of(server, "alice") is None
    pools.start(server, name="w-2")
    assert value_of(server, "alice") is None, "the settings have added an item that was removed"
    add_items(view, "accounts", ["alice"]).do()
    assert value_of(server, "alice") == item


def test_a_key_that_is_added_without_the_settings_has_a_hash_as_its_name(worker: Client, view: View) -> None:
    outcome = add_items(view, "keys", [f"{SECRET}-key"]).do()
    assert SECRET not in outcome.text
    assert all(name.startswith("key-") for name in items(view, "keys"))


def test_several_items_are_removed(worker: Client, view: View) -> None:
    outcome = remove_items(view, "accounts", ["alice", "bob", "alice"]).do()
    assert outcome.touched == 2
    assert outcome.text.startswith("2 items were removed from pool 'accounts'")
    assert outcome.text.endswith("'alice', 'bob'")
    assert sorted(items(view)) == ["carol", "dave", "erin", "frank"]


def test_an_item_is_found_by_its_value(worker: Client, view: View) -> None:
    outcome = retire_item(view, "proxies", f"http://u:{PASSWORD}@p1.example:3128").do()
    assert items(view, "proxies")["u@p1.example:3128"].state == "retired"
    assert SECRET not in outcome.text + outcome.hint
    assert retire_item(view, "keys", f"{SECRET}-first").plan().touched == 1


def test_a_rest_ends_with_a_rest_of_0_seconds(worker: Client, view: View) -> None:
    pools.fill(worker, view)
    outcome = rest_item(view, "accounts", "bob", 0).do()
    assert outcome.text == "Item 'bob' of pool 'accounts' will no longer rest"
    assert items(view)["bob"].state == "free"


def test_a_plan_changes_nothing(worker: Client, view: View, server: redis.Redis) -> None:
    before = {key: server.dump(key) for key in server.keys("pooled:pools*")}
    for operation in (
        add_items(view, "accounts", ["gina"]),
        remove_items(view, "accounts", ["alice"]),
        rest_item(view, "accounts", "alice", 5),
        retire_item(view, "accounts", "alice"),
    ):
        assert "would" in operation.plan().text
    assert {key: server.dump(key) for key in server.keys("pooled:pools*")} == before


LONG = f"{SECRET}-{'x' * 300}"
REFUSED: dict[str, Callable[[View], Operation]] = {
    "must have a name": lambda view: add_items(view, "accounts", [json.dumps({"password": PASSWORD})]),
    "Item 2 of 2 is refused, and nothing is added": lambda view: add_items(
        view, "accounts", ["ok", json.dumps({"password": PASSWORD})]
    ),
    "must be a JSON object": lambda view: add_items(view, "accounts", [f'{{"password": {PASSWORD}']),
    "at most 200 characters": lambda view: add_items(view, "accounts", [LONG]),
    "nested too deeply": lambda view: add_items(view, "accounts", ['{"a":' * 100_000]),
    "an item must be a text": lambda view: add_items(view, "accounts", [""]),
    "Give 1 to 10,000 items, not 0": lambda view: add_items(view, "accounts", []),
    "two of the items are named 'a'": lambda view: add_items(
        view, "accounts", [json.dumps({"name": "a", "key": f"{SECRET}-{number}"}) for number in (1, 2)]
    ),
    "has no pool of this name. The pools are 'accounts', 'keys', 'proxies'": lambda view: add_items(
        view, SECRET, [LONG]
    ),
    "no item of this name": lambda view: remove_items(view, "accounts", ["alice", PASSWORD]),
    "has no item": lambda view: retire_item(view, "proxies", f"http://v:{PASSWORD}@p1.example:3128"),
    "Give the names of the items": lambda view: remove_items(view, "accounts", []),
    "must be 0 s to": lambda view: rest_item(view, "accounts", "alice", LONGEST_REST + 1),
    "must be 0 s": lambda view: rest_item(view, "accounts", "alice", -1),
    "is retired, so it cannot rest: it is locked. To use it again": lambda view: rest_item(
        view, "accounts", "carol", 5
    ),
    "is already retired: it is locked": lambda view: retire_item(view, "accounts", "carol"),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_a_wrong_change_is_refused_and_shows_nothing_secret(
    worker: Client, view: View, server: redis.Redis, problem: str
) -> None:
    retire_item(view, "accounts", "carol", "it is locked").do()
    before = {key: server.dump(key) for key in server.keys("pooled:pools*")}
    with pytest.raises(InspectionError) as refusal:
        REFUSED[problem](view).do()
    text = str(refusal.value)
    assert problem in text
    assert (SECRET in text, "\n" in text) == (False, False)
    assert {key: server.dump(key) for key in server.keys("pooled:pools*")} == before


def test_a_long_list_of_items_is_added_in_steps(
    worker: Client, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "STEP", 2)
    assert add_items(view, "accounts", ["a", "b", "c", "d", "e"]).do().touched == 5
    assert len(items(view)) == 11
    assert remove_items(view, "accounts", ["a", "b", "c"]).do().touched == 3
    assert len(items(view)) == 8


# -- status and explain --------------------------------------------------------------------------------------


def test_the_status_has_a_line_for_each_pool(worker: Client, view: View) -> None:
    pools.fill(worker, view)
    status = read_status(view)
    lines = [items_of(pool, "pooled") for pool in status.pools]
    # Every rest has lost some milliseconds by now.
    assert re.sub(r"in [56]\d s|in 1 min", "in 60 s", lines[0]) == (
        "6 items: 2 free, 1 in use, 1 rests, 1 in its delay (next in 60 s), 1 retired"
    )
    assert lines[1:] == [
        "2 items: 2 free, 0 in use, 0 rest, 0 retired",
        "1 item: 0 free, 1 in use, 0 rest, 0 retired",
    ]
    assert as_json.status(status)["pools"][0]["in_use"] == 1
    (w,) = status.workers
    assert w.items == {"proxies": "u@p1.example:3128"}
    assert "ITEM" in workers_table(status).headings


def test_the_status_of_a_pool_without_usable_items_names_the_command(worker: Client, view: View) -> None:
    retire_item(view, "proxies", "u@p1.example:3128").do()
    line = items_of(read_status(view).pools[-1], "pooled")
    assert line == ("1 item: 0 free, 0 in use, 0 rest, 1 retired (scrapy frontier pool pooled)")


def test_the_status_of_a_crawl_without_pools_has_none(server: redis.Redis, settings: Settings) -> None:
    pools.start(server, "plain", pools=())
    status = read_status(View.from_settings(settings, "plain"))
    assert status.pools == []
    assert "ITEM" not in workers_table(status).headings


def test_the_status_tells_that_it_has_not_read_all_items(
    worker: Client, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["scrapy_rq_sched.inspect.read_status"], "MOST_ITEMS", 2)
    status = read_status(view)
    assert items_of(status.pools[0], "pooled").startswith("6 items: at least 2 free")
    assert "pooled:pools (more" in status.cut


def explained(view: View, path: str) -> tuple[Explanation, list[str]]:
    # The fixture's requests have a pool, which is no part of their fingerprints.
    found = Explainer(view).explain(f"{pools.PAGE}/{path}")
    return found, verdict(found, read_status(view), "URL")


def test_a_request_with_an_item_names_it(worker: Client, view: View) -> None:
    reply = pools.fill(worker, view)
    path = json.loads(reply.leases[0].payload)["url"].rpartition("/")[2]
    found, _ = explained(view, path)
    assert [(held.pool, held.item) for held in found.held] == [("accounts", "alice")]
    assert as_json.explanation(found)["leased"][0]["item"] == "alice"
    assert "ITEM" in leases_table(found.held, 0).headings


def test_a_request_that_waits_for_an_item_tells_when_one_is_free(worker: Client, view: View) -> None:
    pools.fill(worker, view)
    for name in ("dave", "erin", "frank"):
        retire_item(view, "accounts", name).do()
    found, (sentence,) = explained(view, "2")
    assert as_json.explanation(found)["pools"][0]["rests"] == 1
    assert re.fullmatch(
        r"It waits for an item of pool 'accounts': 1 item is in use, 1 item rests, 4 items are retired\. "
        r"The first is free in (5\d|60) s at the latest",
        sentence,
    )


def test_a_request_that_waits_for_a_pool_without_items_tells_how_to_add_one(
    worker: Client, view: View
) -> None:
    names = [item.name for item in Pools(view).read(["accounts"])]
    worker.say(pushes=[pools.request("2")])
    for name in names:
        retire_item(view, "accounts", name).do()
    add = "scrapy frontier pool pooled add accounts ITEM"
    assert (
        f"all of its items are retired. To use one again, or to add one: {add}" in explained(view, "2")[1][0]
    )
    remove_items(view, "accounts", names).do()
    assert f"which has none. To add one: {add}" in explained(view, "2")[1][0]


def test_a_request_for_which_an_item_is_free_waits_for_its_turn(worker: Client, view: View) -> None:
    pools.fill(worker, view)
    assert "when its turn comes" in explained(view, "2")[1][0]


def test_a_worker_that_waits_for_an_item_for_its_life_is_named(
    worker: Client, view: View, settings: Settings, server: redis.Redis
) -> None:
    worker.say(own_items={"proxies": ""})
    worker.say(pushes=[pools.request("2")])
    pools.start(server, name="w-2").say(own_items={"proxies": ""})
    assert [one.name for one in read_status(view).workers if one.lacks_item] == ["w-2"]
    (text,) = findings(settings)
    assert text.startswith("worker 'w-2' begins no request: it needs an item of a pool for its life")
    assert "when its turn comes" in explained(view, "2")[1][0]
    worker.frontier.leave(False, True)
    assert explained(view, "2")[1][0].startswith("It waits: worker w-2 begins no request, because it needs")


def test_a_worker_that_asked_for_an_item_a_while_ago_does_not_wait_for_it(
    worker: Client, view: View, server: redis.Redis
) -> None:
    server.hset("pooled:meta", "item_wanted", f"w-1 {1000 * (int(server.time()[0]) - 20)}")
    assert not any(one.lacks_item for one in read_status(view).workers)


def test_no_time_is_left_while_requests_wait_for_items_that_are_all_retired(
    worker: Client, view: View, server: redis.Redis
) -> None:
    seconds = int(server.time()[0])
    server.hset(Keys("pooled").worker("w-1"), "joined", (seconds - 1000) * 1_000_000)
    worker.say(pushes=[pools.request("1", "keys")])
    server.rpush("pooled:pages", f"{seconds // 10 * 10} 50 1", f"{seconds // 10 * 10 - 30} 50 100")
    assert read_status(view).seconds_left_at_least is not None
    for item in items(view, "keys"):
        retire_item(view, "keys", item).do()
    assert read_status(view).seconds_left_at_least is None


def test_the_slots_of_requests_with_a_pool_are_shown_and_found_in_words(worker: Client, view: View) -> None:
    worker.say(pushes=[pools.request("2")])
    slots = Slots(view)
    assert plain(slots_table(slots.read())).splitlines()[1].startswith("shop.example|pool accounts  1  ")
    assert slots.find("shop.example|pool accounts") == ("shop.example", True)


# -- export and import ---------------------------------------------------------------------------------------


def exported(view: View, with_secrets: bool = False) -> bytes:
    return b"".join(Export(view, with_secrets).lines())


def imported(file: bytes, settings: Settings, spider: str = "copy") -> View:
    view = View.from_settings(settings, spider)
    for _ in Import(view, ArchiveReader(io.BytesIO(file))).steps():
        pass
    return View.from_settings(settings, spider)


def states(view: View) -> dict[str, str]:
    return {f"{item.pool}/{item.name}": item.state for item in Pools(view).read()}


def test_an_export_has_the_states_of_items_and_nothing_secret(
    worker: Client, view: View, settings: Settings, server: redis.Redis
) -> None:
    pools.fill(worker, view)
    remove_items(view, "accounts", ["erin"]).do()
    file = exported(view)
    assert SECRET.encode() not in file
    copy = imported(file, settings)
    assert server.hget("copy:meta", "item_wanted") is None
    # The workers of the copy have the same settings.
    second = pools.start(server, "copy", "w-2")
    assert {name: state for name, state in states(copy).items() if not name.startswith("keys/")} == {
        "accounts/alice": "free",
        "accounts/bob": "rests",
        "accounts/carol": "retired",
        "accounts/dave": "free",
        "accounts/frank": "waits",
        "proxies/u@p1.example:3128": "free",
    }
    assert len([name for name in states(copy) if name.startswith("keys/")]) == 1
    assert value_of(server, "alice") == {"user": "alice", "password": PASSWORD}
    bob = {item.name: item for item in Pools(copy).read(["accounts"])}["bob"]
    assert (bob.why, 50 < bob.rests_for <= 60, bob.is_set) == ("status 403", True, True)
    # Both requests of the original wait there, without an item.
    second.say()
    reply = second.say(want=2)
    assert sorted(lease.item for lease in reply.leases) == ["alice", "dave"]


def test_an_item_without_its_value_is_not_given_before_the_settings_have_it(
    worker: Client, view: View, settings: Settings, server: redis.Redis
) -> None:
    pools.fill(worker, view)
    imported(exported(view), settings)
    second = pools.start(server, "copy", "w-2", pools=())
    assert second.say(want=2).leases == []


def test_an_export_with_secrets_restores_items_with_their_values_and_cookies(
    worker: Client, view: View, settings: Settings, server: redis.Redis
) -> None:
    pools.fill(worker, view)
    file = exported(view, with_secrets=True)
    assert (PASSWORD.encode() in file, pools.COOKIE.encode() in file) == (True, True)
    copy = imported(file, settings)
    expected = states(view) | {"accounts/alice": "free", "proxies/u@p1.example:3128": "free"}
    assert states(copy) == expected
    keys = Keys("copy")
    its = server.hgetall(keys.pool_item("accounts", "alice"))
    assert json.loads(its[b"value"])["password"] == PASSWORD
    assert its[b"cookies"] == f'"{pools.COOKIE}"'.encode()
    second = pools.start(server, "copy", "w-2")
    assert {lease.item for lease in second.say(want=2).leases} == {"dave", "erin"}


def test_an_import_leaves_the_items_that_the_spider_has_usable(
    worker: Client, view: View, settings: Settings, server: redis.Redis
) -> None:
    file = exported(view)
    other = pools.start(server, "copy", "w-2")
    other.frontier.leave(True, False)
    imported(file, settings)
    assert set(states(View.from_settings(settings, "copy")).values()) == {"free"}
    pools.start(server, "copy", "w-3").say(pushes=[pools.request("3")])
    assert server.zcount(Keys("copy").pool_items("accounts"), "-inf", 9e15) == 6


LIMITS = '{"limits": "- -"}'


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        *((name, LIMITS) for name in ("accounts", "accounts a b", "accounts a#b", f"a {'x' * 300}", "")),
        *(("accounts a", fields) for fields in ('{"other": "x"}', "[]", "{}", '{"limits": 5}', "{")),
    ],
)
def test_a_file_with_other_items_is_refused(settings: Settings, view: View, name: str, fields: str) -> None:
    export = Export(view)
    writer = export._writer
    file = writer.first() + writer.line("pool items", [name.encode(), fields.encode()]) + writer.last()
    with pytest.raises(InspectionError, match="an item of a pool that is not valid"):
        imported(file, settings)


def test_the_lease_of_an_item_loses_it_in_an_export() -> None:
    value = b'request -1 0@1700000000@shop.example|~accounts#alice@12.5 {"url": "a#b@c"}'
    assert without_item(value) == value.replace(b"#alice", b"")
    for other in (b"request 0 0@1 x#y", b"request 0 0 x", b"x", b"seed 0 0@1@a@5 x #y"):
        assert without_item(other) == other


# -- the doctor ----------------------------------------------------------------------------------------------


def findings(settings: Settings) -> list[str]:
    view = View.from_settings(settings, "pooled")
    return [f"{one.text}. {one.advice}" for one in check_frontier(view) if "pool" in one.text]


def test_the_doctor_finds_nothing_wrong_with_pools_in_use(
    worker: Client, view: View, settings: Settings
) -> None:
    pools.fill(worker, view)
    assert findings(settings) == []


def test_the_doctor_finds_uses_without_a_lease_or_a_worker(
    worker: Client, view: View, settings: Settings, server: redis.Redis
) -> None:
    pools.fill(worker, view)
    server.delete("pooled:leases:w-1")
    (text,) = findings(settings)
    assert text.startswith("1 item of pools is in use by leases or workers that are gone, such as 'alice of")
    server.hdel(Keys("pooled").worker("w-1"), "pool proxies")
    assert findings(settings)[0].startswith("2 items of pools are in use by")
    pools.start(server, name="w-2")
    assert findings(settings) == []


def test_the_doctor_finds_requests_that_wait_for_pools_without_items(
    worker: Client, view: View, settings: Settings
) -> None:
    worker.say(pushes=[pools.request("1"), pools.request("2", "unknown")])
    (text,) = findings(settings)
    assert text.startswith("requests wait for an item of pool 'unknown', which has none. Add items: scrapy")
    for name in items(view):
        retire_item(view, "accounts", name).do()
    text, _ = findings(settings)
    assert text.startswith("requests wait for an item of pool 'accounts', but all of its 6 items are retired")
