"""The failed list: what gets there, and what can be done with it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched import FailedRequests
from scrapy_rq_sched.errors import InspectionError, SettingError
from scrapy_rq_sched.frontier.messages import Failed, Push
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.serializers import load_serializer

from ..project.crawls.graph import page_url
from ..support.client import Join, payloads
from ..support.crawl import Fleet


@pytest.fixture
def listed(server: redis.Redis) -> FailedRequests:
    return FailedRequests(server, Keys("s"))


def fail(join: Join, **reasons: str) -> None:
    worker = join("worker")
    worker.push(*reasons)
    for lease in worker.take(len(reasons)):
        reason = reasons[lease.payload.decode()]
        worker.say(failed=[Failed(lease.name, 0, reason, "Traceback …")])


def test_the_failed_list_has_the_requests_that_were_set_aside(join: Join, listed: FailedRequests) -> None:
    fail(join, one="its callback raised KeyError: 'price'")
    (failed,) = listed
    assert (failed.kind, failed.data, failed.worker) == ("request", b"one", "worker")
    assert failed.reason == "its callback raised KeyError: 'price'"
    assert (failed.deliveries, failed.deaths, failed.traceback) == (1, 0, "Traceback …")
    assert failed.id.startswith("worker/")
    assert abs(failed.time - time.time()) < 60


def test_they_are_counted_by_reason(join: Join, listed: FailedRequests) -> None:
    fail(join, one="bad", two="worse", three="bad")
    assert listed.count_by_reason() == {"bad": 2, "worse": 1}
    assert len(listed) == 3


@pytest.mark.parametrize(
    "strange",
    [
        '"time": 1795219165000000',
        '"time": 1e999',
        f'"deaths": {10**400}',
        '"score": "1 2"',
        '"score": "nan"',
    ],
)
def test_an_entry_that_makes_no_sense_is_listed_as_such(
    listed: FailedRequests, server: redis.Redis, strange: str
) -> None:
    fields = {"id": "x/1", "kind": "request", "reason": "r", "worker": "w", "history": "", "data": "d"}
    entry = json.dumps({**fields, "time": 1, "deaths": 0})[:-1] + f", {strange}}}"
    server.rpush("s:failed", entry)
    (failed,) = listed
    assert (failed.kind, failed.data) == ("unknown", entry.encode())
    assert listed.requeue() == 0


def test_all_are_tried_again_where_they_stood(join: Join, listed: FailedRequests, discipline: str) -> None:
    fail(join, one="bad")
    failed = FailedRequests(listed._server, Keys("s"), discipline)
    assert failed.requeue() == 1
    assert len(listed) == 0
    worker = join("other")
    (lease,) = worker.take(5)
    assert (lease.payload, lease.deaths) == (b"one", 0)


def test_requests_with_a_reason_are_put_back(join: Join, listed: FailedRequests) -> None:
    fail(join, one="its callback raised A", two="its download failed", three="its callback raised B")
    assert listed.requeue(reason="its callback raised") == 2
    assert [failed.reason for failed in listed] == ["its download failed"]


def test_a_single_one_is_tried_again(join: Join, listed: FailedRequests) -> None:
    fail(join, one="bad", two="bad")
    second = list(listed)[1]
    assert listed.requeue(id=second.id) == 1
    assert payloads(join("other").take(5)) == ["two"]


def test_a_seed_goes_back_to_the_seeds(join: Join, listed: FailedRequests, server: redis.Redis) -> None:
    worker = join()
    server.zadd("s:start_urls", {"seed": 7})
    (lease,) = worker.say(want_seeds=1).leases
    worker.say(failed=[Failed(lease.name, 0, "bad")])
    assert listed.requeue() == 1
    assert server.zrange("s:start_urls", 0, -1, withscores=True) == [(b"seed", 7.0)]


def test_a_binary_request_comes_back_to_the_byte(join: Join, listed: FailedRequests) -> None:
    payload = bytes(range(256))
    worker = join()
    worker.say(pushes=[Push("force", "", 0, payload)])
    (lease,) = worker.take(1)
    worker.say(failed=[Failed(lease.name, 0, "bad")])
    listed.requeue()
    assert [lease.payload for lease in worker.take(1)] == [payload]


def test_the_forgotten_are_gone_and_still_count_as_seen(
    join: Join, listed: FailedRequests, server: redis.Redis
) -> None:
    fail(join, one="bad", two="worse")
    assert listed.forget(reason="bad") == 1
    assert [failed.reason for failed in listed] == ["worse"]
    assert join("other").push("one").duplicates == (0,)


def test_many_are_tried_again_in_steps(join: Join, listed: FailedRequests, server: redis.Redis) -> None:
    fail(join, **{f"request {n}": "good" if n % 3 else "bad" for n in range(700)})
    assert listed.requeue(reason="bad") == 234
    assert len(listed) == 466
    assert listed.requeue() == 466
    assert server.zcard("s:requests") == 700


def entry(number: int, reason: str = "bad", data: str | None = None, kind: str = "request") -> bytes:
    fields = {"kind": kind, "reason": reason, "time": 1, "worker": "w", "deaths": 0, "history": ""}
    return json.dumps({"id": f"w/{number}", **fields, "data": data or f"request {number}"}).encode()


def test_entries_dropped_at_the_head_meanwhile_make_no_other_be_passed_over(
    listed: FailedRequests, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.rpush("s:failed", *(entry(n, "bad" if n % 4 else "good") for n in range(1000)))
    move = listed._move_some

    def drops(*arguments: Any) -> Any:
        # Between what was read and what is moved; and a new one comes each time.
        server.ltrim("s:failed", 10, -1)
        server.rpush("s:failed", entry(5000 + server.llen("s:failed")))
        return move(*arguments)

    monkeypatch.setattr(listed, "_move_some", drops)
    taken = listed.requeue(reason="bad")
    left = [failed for failed in listed if not failed.id.startswith("w/5") or len(failed.id) < 6]
    assert {failed.reason for failed in left} == {"good"}
    requeued = server.zrange("s:requests", 0, -1)
    assert taken == len(requeued) == len(set(requeued)) > 600


def test_the_list_is_read_on_where_it_was_though_its_head_is_dropped(
    listed: FailedRequests, server: redis.Redis
) -> None:
    server.rpush("s:failed", *map(entry, range(350)))
    ids = []
    for failed in listed:
        ids.append(failed.id)
        if len(ids) in (50, 150):
            server.ltrim("s:failed", 30, -1)
    assert ids == [f"w/{n}" for n in range(350)]


def test_entries_taken_by_another_program_are_not_put_back_and_the_remaining_are(
    listed: FailedRequests, server: redis.Redis
) -> None:
    server.rpush("s:failed", *map(entry, range(100)))
    read = list(enumerate(listed))
    server.ltrim("s:failed", 60, -1)
    server.lrem("s:failed", 1, entry(80))
    assert listed._move(read, again=True) == 39
    assert server.zcard("s:requests") == 39
    assert (listed._move(read, again=True), server.zcard("s:requests"), len(listed)) == (0, 39, 0)


def test_equal_entries_are_as_many_as_there_are(listed: FailedRequests, server: redis.Redis) -> None:
    server.rpush("s:failed", entry(1), entry(2), entry(1), entry(1))
    assert listed.forget(id="w/1") == 3
    assert [failed.id for failed in listed] == ["w/2"]


def test_an_export_that_is_under_way_is_not_disturbed(
    join: Join, listed: FailedRequests, server: redis.Redis
) -> None:
    fail(join, one="bad")
    server.hset("s:meta", "exporting", int(time.time() * 1000) + 60_000)
    for move in (listed.requeue, listed.forget):
        with pytest.raises(
            InspectionError, match=r"is being exported\. Try again when the export is finished"
        ):
            move()
    assert len(listed) == 1


@pytest.mark.single("it sets how much memory the server may have")
def test_a_full_redis_lets_entries_be_forgotten(listed: FailedRequests, server: redis.Redis) -> None:
    server.rpush("s:failed", *map(entry, range(10)))
    server.config_set("maxmemory", 1)
    try:
        assert (listed.requeue(id="w/3"), listed.forget()) == (1, 9)
    finally:
        server.config_set("maxmemory", 0)


REASONS = ["its callback raised A"] * 5 + ["its download failed", "its callback raised B"] * 5


def walks(listed: FailedRequests, server: redis.Redis, count: int, reason: str | None) -> dict[str, float]:
    """Return how often a step walks through the list while *count* requests are tried again, by command."""
    reasons = [REASONS[number % len(REASONS)] for number in range(count)]
    for start in range(0, count, 1000):
        numbers = range(start, min(start + 1000, count))
        server.rpush("s:failed", *(entry(n, reasons[n], "x" * 400 + str(n)) for n in numbers))
    server.config_resetstat()
    assert listed.requeue(reason=reason) == sum(text.startswith(reason or "") for text in reasons)
    server.delete("s:failed")
    stats = server.info("commandstats")
    # A step is a script that reads, and one that moves.
    steps = stats["cmdstat_evalsha"]["calls"] // 2
    return {name: stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] / steps for name in ("lpos", "lrem")}


@pytest.mark.single("the counts of one server")
@pytest.mark.parametrize("reason", [None, "its callback", "its download"])
def test_a_step_walks_through_the_list_once_however_many_have_failed(
    listed: FailedRequests, server: redis.Redis, reason: str | None
) -> None:
    # A step that searched for each of its requests would take time in proportion to the list.
    few, many = (walks(listed, server, count, reason) for count in (600, 10_000))
    assert few == many == {"lpos": 0, "lrem": 1}


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        ("*", ["one", "two", "seed", "json seed"]),
        ("http://a.test/*", ["one", "seed"]),
        ("*?page=2", ["two"]),
        ("http://b.test/json", ["json seed"]),
        ("http://a.test", []),
    ],
)
def test_entries_are_chosen_by_their_url(server: redis.Redis, pattern: str, chosen: list[str]) -> None:
    listed = FailedRequests(server, Keys("s"), serializer=load_serializer("json"))
    for kind, reason, data in (
        ("request", "one", '{"url": "http://a.test/x"}'),
        ("request", "two", '{"url": "http://b.test/?page=2"}'),
        ("seed", "seed", " http://a.test/y "),
        ("seed", "json seed", '{"url": "http://b.test/json"}'),
        ("request", "no url", "[1]"),
        ("request", "other serializer", "\x82\xa3url"),
        ("seed", "no json", "{"),
        ("seed", "no text", '{"url": 5}'),
    ):
        server.rpush("s:failed", entry(1, reason, data, kind))
    assert [failed.reason for failed in listed.chosen(url=pattern)] == chosen
    assert listed.forget(url=pattern) == len(chosen)
    assert len(listed) == 8 - len(chosen)


GARBAGE = [b"", b"{", b"[]", b"5", b'{"kind": "request"}', b"\x80\x04", b'{"data": 5}', b"[" * 100_000]


@pytest.mark.parametrize("entry", GARBAGE, ids=range(len(GARBAGE)))
def test_an_entry_that_cannot_be_read_is_listed_and_stays_until_it_is_forgotten(
    join: Join, listed: FailedRequests, server: redis.Redis, entry: bytes
) -> None:
    server.rpush("s:failed", entry)
    fail(join, one="bad")
    assert [failed.kind for failed in listed] == ["unknown", "request"]
    assert next(iter(listed)).data == entry
    assert listed.requeue() == 1
    assert listed.forget() == 1


class Own:
    push = pop = clear = __len__ = None


def test_a_queue_of_the_users_own_is_refused() -> None:
    settings = Settings({"SCHEDULER_QUEUE_CLASS": Own})
    with pytest.raises(SettingError, match="cannot be put back: SCHEDULER_QUEUE_CLASS"):
        FailedRequests.from_settings(settings, "s")


# -- what gets there ------------------------------------------------------------------------------------


def entries(server: redis.Redis, spider: str) -> dict[str, Any]:
    decoded = map(json.loads, server.lrange(f"{spider}:failed", 0, -1))
    return {json.loads(entry["data"])["url"]: entry for entry in decoded}


def test_failed_callbacks_and_downloads_are_set_aside_if_the_setting_says_so(
    fleet: Fleet, server: redis.Redis
) -> None:
    fleet.start("failing", FRONTIER_SET_ASIDE="callback,download")
    fleet.wait()
    failed = entries(server, "failing")
    assert failed.keys() == {page_url(1_000_000 + number) for number in (1, 2, 3)}
    raised, refused, status = (failed[page_url(1_000_000 + number)] for number in (1, 2, 3))
    assert raised["reason"] == "its callback raised KeyError: 'price'"
    assert "KeyError: 'price'" in raised["traceback"]
    assert refused["reason"] == "its download failed: ConnectionRefusedError: nobody there"
    assert status["reason"] == "its download failed: status 503"
    # Once each, when nobody retries it any more; and what it had yielded is crawled.
    assert fleet.urls("parsed").keys() == {page_url(1_000_004), page_url(1_000_005)}
    assert fleet.stat("retry/max_reached") == 2
    assert fleet.reasons() == ["finished"]


def test_without_the_setting_nothing_is_set_aside(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("failing")
    fleet.wait()
    assert not server.exists("failing:failed")


def test_a_failed_request_is_crawled_after_it_was_requeued(fleet: Fleet, server: redis.Redis) -> None:
    fleet.start("failing", FRONTIER_SET_ASIDE="callback")
    fleet.wait()
    failed = FailedRequests.from_settings(Settings({"REDIS_URL": fleet.redis_url}), "failing")
    assert failed.requeue() == 1
    fleet.start("failing", 1, "-a", "well=1")
    fleet.wait()
    assert fleet.urls("parsed")[page_url(1_000_001)] >= 1


def test_downloads_need_the_middleware(fleet: Fleet) -> None:
    settings = {"ADDONS": "{}", "SCHEDULER": "scrapy_rq_sched.Scheduler"}
    fleet.start("failing", FRONTIER_SET_ASIDE="download", **settings)
    fleet.wait()
    assert fleet.workers[0].returncode == 1
    assert (
        "Use the add-on, or add {'scrapy_rq_sched.failures.FailedDownloads': 10} to DOWNLOADER_MIDDLEWARES"
        in fleet.log()
    )
