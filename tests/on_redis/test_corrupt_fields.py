"""Fields of hashes that the scripts read as numbers, and that have other text: no exchange fails."""

from __future__ import annotations

import pytest
import redis

from scrapy_rq_sched.codec.slot_limits import SlotLimits
from scrapy_rq_sched.frontier.close_limits import CloseLimits
from scrapy_rq_sched.frontier.messages import Failed, Push, UsedGrants

from ..support.client import Client, payloads

pytestmark = pytest.mark.single("names of keys")

TEXTS = ["garbage", "", "nan", "inf", "-inf", "-1", "1e300", "0.5", "9" * 400]
#: Fields with text: an order, the settings that all workers must share, and the limits of slots, which are
#: asked for again (see test_slot_faults.py).
TEXT = {"state", "format", "dupefilter", "SCHEDULER_SERIALIZER", "spider", "requests_key", "dupefilter_key"}
TEXT |= {"rules", "slot_default", "slot_patterns"}


def crawl(server: redis.Redis, dupefilter: str = "exact") -> Client:
    """Return a worker in the middle of a crawl that has used every part of an exchange."""
    bounds = {
        "slots": SlotLimits(delay=0.001, concurrency=8),
        "named": {"x": SlotLimits(delay=0.002)},
        "patterns": {"y*": SlotLimits(delay=0.003)},
        "close": CloseLimits(pagecount=1000, timeout=1000.0),
        "max_workers": 5,
        "stall_timeout": 600.0,
        "max_waiting": 100,
    }
    dead = Client(server, "dead", "priority", 30.0, 5, dupefilter, **bounds).open()
    dead.say(pushes=[Push("filter", "fp-dead", 0, b"of the dead", "dead")])
    dead.say(want=1)
    worker = Client(server, "a", "priority", 30.0, 5, dupefilter, **bounds).open()
    worker.say(
        pushes=[
            Push("filter", f"fp-{slot}{n}", 0, f"{slot}{n}".encode(), slot) for slot in "xy" for n in "12"
        ],
    )
    worker.say(pushes=[Push("start+filter", "fp-start", 0, b"start")], want=1, asks={"z": 1}, pages=1)
    speak(worker, "before")
    server.zadd("s:workers", {"dead": 1})
    return worker


def speak(worker: Client, name: str) -> tuple[list[str], int]:
    """Make an exchange with everything in it; return the requests that it gave, and how many duplicates."""
    worker.number += 1
    said = {
        "pushes": [Push("filter", f"fp-{name}", 9, name.encode())],
        "want": 10,
        "found": 2,
        "local_only": 1,
        "local_only_reason": "a lambda",
        "times": {"5": 1},
        "counted": {"pagecount": 1},
        "pages": 1,
        "grants": {"x": UsedGrants(1, 0)},
        "downloaded": {"x": 1},
        "bottleneck": "none",
        "busy": True,
    }
    reply = worker.repeat(**said)
    return payloads(reply.leases), len(reply.duplicates)


def numbers(server: redis.Redis) -> list[tuple[str, str]]:
    """Return the fields of all hashes that may be numbers."""
    found = []
    for key in sorted(server.scan_iter(), key=bytes):
        name = key.decode()
        if server.type(key) == b"hash" and not name.startswith("s:leases:"):
            fields = sorted(field.decode() for field in server.hkeys(key))
            found += [(name, field) for field in fields if field not in TEXT]
    return found


def _restore(server: redis.Redis, state: dict[bytes, bytes]) -> None:
    """Give Redis exactly the keys of *state*; to crawl anew for each field takes five times as long."""
    with server.pipeline() as pipeline:
        pipeline.flushall()
        for key, value in state.items():
            pipeline.restore(key, 0, value)
        pipeline.execute()


@pytest.mark.parametrize("dupefilter", ["exact", "compact"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_corrupt_number_fails_no_exchange_and_costs_no_request(
    server: redis.Redis, text: str, dupefilter: str
) -> None:
    worker = crawl(server, dupefilter)
    number, state, fields = (
        worker.number,
        {key: server.dump(key) for key in server.scan_iter()},
        numbers(server),
    )
    # The statistics of the issue, the state of a slot, the worker's own key, and the dead worker's.
    expected = {
        ("s:meta", "found"),
        ("s:meta", "in_slots"),
        ("s:slots:state:x", "tat"),
        ("s:worker:a", "pages"),
    }
    assert expected <= set(fields)
    for key, field in fields:
        if (field, text) == ("run_since", "0.5"):
            continue  # a number: a moment of 1970, so that the fleet has reached its limit of time
        _restore(server, state)
        worker.number = number
        server.hset(key, field, text)
        got, duplicates = speak(worker, "after")
        assert ("after" in got, duplicates) == (True, 0), (key, field)
        (lease,) = [name for name, value in server.hgetall("s:leases:a").items() if value.endswith(b" after")]
        worker.say(failed=[Failed(lease.decode(), 0, "its callback raised")], want=1)
        assert server.llen("s:failed") == 1, (key, field)


@pytest.mark.parametrize("text", TEXTS)
def test_a_corrupt_count_of_reasons_costs_no_lease_and_reports_no_duplicate(
    server: redis.Redis, text: str
) -> None:
    worker = crawl(server)
    speak(worker, "one")
    one, two = [name.decode() for name in server.hkeys("s:leases:a")][:2]
    worker.say(failed=[Failed(one, 0, "its callback raised")])
    for reason in server.hkeys("s:failed:reasons"):
        server.hset("s:failed:reasons", reason, text)
    reply = worker.say(
        failed=[Failed(two, 0, "its callback raised")], pushes=[Push("filter", "fp-new", 9, b"new")], want=1
    )
    assert (reply.set_aside, reply.duplicates, payloads(reply.leases)) == (1, (), ["new"])


@pytest.mark.parametrize("text", TEXTS)
def test_a_corrupt_time_does_not_keep_a_crawl_from_its_end(server: redis.Redis, text: str) -> None:
    for field in ("pages", "began", "finished", "max_events", "fleet", "run_since", "run_pagecount"):
        server.flushall()
        worker = Client(server, "a", "priority", 30.0, 5, close=CloseLimits(pagecount=10)).open()
        worker.push("one")
        (lease,) = worker.take(1)
        server.hset("s:meta", field, text)
        reply = worker.say(finished=[lease.name], in_hand=0, finishing=True, counted={"pagecount": 1})
        assert reply.finished, field
        assert worker.frontier.leave(finished=True, persist=False).cleared, field
