"""The failed list: what gets there, and what can be done with it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from scrapy_rq_sched import FailedRequests
from scrapy_rq_sched.errors import SettingError
from scrapy_rq_sched.exchange import Failed, Push
from scrapy_rq_sched.keys import Keys

from .client import Join, payloads
from .crawl import Fleet
from .project.crawls.graph import page_url


@pytest.fixture
def listed(server: redis.Redis) -> FailedRequests:
    return FailedRequests(server, Keys("s"))


def fail(join: Join, **reasons: str) -> None:
    worker = join("worker")
    worker.push(*reasons)
    for lease in worker.take(len(reasons)):
        reason = reasons[lease.payload.decode()]
        worker.say(failed=[Failed(lease.name, 0, reason, "Traceback …")])


def test_what_is_listed_is_what_was_set_aside(join: Join, listed: FailedRequests) -> None:
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


def test_all_are_tried_again_where_they_stood(join: Join, listed: FailedRequests, discipline: str) -> None:
    fail(join, one="bad")
    failed = FailedRequests(listed._server, Keys("s"), discipline)
    assert failed.requeue() == 1
    assert len(listed) == 0
    worker = join("other")
    (lease,) = worker.take(5)
    assert (lease.payload, lease.deaths) == (b"one", 0)


def test_those_of_a_reason_are_tried_again(join: Join, listed: FailedRequests) -> None:
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


def test_what_is_not_text_comes_back_to_the_byte(join: Join, listed: FailedRequests) -> None:
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
    with pytest.raises(SettingError, match="to which nothing can be put back"):
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


def test_what_failed_is_crawled_after_it_was_requeued(fleet: Fleet, server: redis.Redis) -> None:
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
    assert "which needs the add-on, or {'scrapy_rq_sched.failures.FailedDownloads': 10}" in fleet.log()
