"""What somebody else may have put into the frontier's keys."""

from __future__ import annotations

import json
import pickle
import time

import redis

from ..project.crawls.graph import page_url
from .arena import UNRELEASED, Arena
from .referee import Outcome
from .registry import scenario

#: No entry and no seed is any of these; all differ.
RUBBISH: list[bytes] = [
    b'{"url": "http://graph.test/1", "meta": {"de',
    pickle.dumps({"url": "http://graph.test/1", "callback": print}),
    bytes(range(256)),
    b'{"url": "' + b"x" * 1_000_000 + b'"}',
    b"",
    b"[]",
    b"null",
    b"NaN",
    b"-1 ' \" \r\n %s",
]


def _feed(arena: Arena, put: str, explained: int = 0) -> Outcome:
    """Put rubbish into the keys that *put* names, twice, and see that it does not stay there."""
    arena.crawl(**arena.without_deaths)
    faults = 0
    shares = arena.choose([0.2, 0.5], [0.1, 0.3, 0.5, 0.7])
    for share in shares:
        arena.reach(share)
        faults += {"entries": _entries, "fleet": _fleet, "rest": _rest}[put](arena)
    arena.settle()
    if put == "entries":
        failed = [json.loads(entry) for entry in arena.client.lrange("graph:failed", 0, -1)]
        aside = {
            (entry["kind"], entry["data"].encode() if "data" in entry else bytes.fromhex(entry["data_hex"]))
            for entry in failed
        }
        expected = {(kind, data) for kind in ("request", "seed") for data in RUBBISH}
        lacking = [(kind, data[:40]) for kind, data in expected - aside]
        assert not lacking, f"not in the failed list: {lacking}"
    return Outcome(faults, len(shares) * explained)


def _entries(arena: Arena) -> int:
    arena.client.zadd("graph:requests", dict.fromkeys(RUBBISH, 0.0))
    arena.client.rpush("graph:start_urls", *RUBBISH)
    return 2 * len(RUBBISH)


def _fleet(arena: Arena) -> int:
    client = arena.client
    now = int(time.time() * 1000)
    # Requests that are where the rubbish is, and have to come back from there.
    for number, (entry, score) in enumerate(client.zpopmin("graph:requests:slot:graph.test", 10)):
        place = repr(score).encode()
        if number % 2:
            client.zadd("graph:delayed", {b"request " + place + b" nobody/1.1 " + entry: now - 1})
        else:
            client.hset("graph:leases:nobody", f"1.{number + 1}", b"request " + place + b" 0 " + entry)
    client.zadd("graph:delayed", dict.fromkeys(RUBBISH, now - 1))
    client.hset("graph:leases:nobody", mapping=dict(zip(RUBBISH, reversed(RUBBISH), strict=True)))
    client.hset("graph:leases:nobody", "2.1", "request x y z")
    client.hset("graph:worker:nobody", mapping={"exchange": "?", "busy": "\xff", "lost": "{"})
    client.zadd("graph:workers", {"nobody": now - 1, "no body": now - 1, b"\xff\x00": now - 1})
    client.hset("graph:history", mapping=dict(zip(RUBBISH, reversed(RUBBISH), strict=True)))
    # A live worker's, too: it is as one that was given up, and must get over it.
    (living, *_) = [name.decode() for name in client.zrange("graph:workers", 0, -1) if b"-" in name]
    client.hset(f"graph:worker:{living}", mapping={"exchange": "?", "duplicates": "x y", "busy": "?"})
    return 3 * len(RUBBISH) + 4


def _rest(arena: Arena) -> int:
    client = arena.client
    client.sadd("graph:started", *RUBBISH)
    client.sadd("graph:dupefilter", *RUBBISH)
    client.rpush("graph:failed", *RUBBISH)
    client.hset("graph:meta", mapping={"epoch": "yesterday", "unheard-of": b"\xff"})
    client.set("graph:requests:count", "many")
    client.set("graph:finished", "never")
    return 3 * len(RUBBISH) + 3


@scenario(
    "garbage-entries",
    "Invalid entries are pushed into the queue and the seeds. They end up in the failed list. Nothing is "
    "repeated.",
)
def garbage_entries(arena: Arena) -> Outcome:
    return _feed(arena, "entries")


@scenario(
    "garbage-fleet",
    "Garbage is written to the keys of the fleet: workers, leases, delayed requests, history. Each time "
    f"explains {UNRELEASED} repeats, by the worker whose number of exchanges is overwritten.",
)
def garbage_fleet(arena: Arena) -> Outcome:
    return _feed(arena, "fleet", UNRELEASED)


@scenario(
    "garbage-rest",
    "Garbage is written to the other keys: fingerprints, start requests, the failed list, the epoch, the "
    "counter, the time of the finish. Nothing is repeated.",
)
def garbage_rest(arena: Arena) -> Outcome:
    return _feed(arena, "rest")


@scenario(
    "wrong-type",
    "During the crawl a key is replaced by one of another type. The log names it, and it is restored. "
    "Nothing is repeated.",
)
def wrong_type(arena: Arena) -> Outcome:
    # In the long form a key is wrong for longer than a lease; in the short form nobody is to count as dead.
    arena.crawl(**arena.without_deaths)
    names = ["slots", "dupefilter", "meta"]
    names = arena.choose(names, [*names, "workers", "started"])
    for number, name in enumerate(names):
        key, aside = f"graph:{name}", f"aside:{name}"
        arena.reach(0.1 + 0.1 * number)
        with arena.client.pipeline(transaction=True) as pipe:
            pipe.rename(key, aside).set(key, "wrong").execute()
        try:
            with arena.lasting(arena.choose(0.0, 10.0)):
                arena.wait_for_log(f"Key '{key}'")
        finally:
            with arena.client.pipeline(transaction=True) as pipe:
                pipe.delete(key).rename(aside, key).execute()
        _all_got_through(arena)
    return Outcome(len(names))


@scenario(
    "too-large",
    "A page leads to a request that is larger than Redis accepts (proto-max-bulk-len). One worker "
    "crawls it from its memory, and the others continue. Nothing is repeated.",
)
def too_large(arena: Arena) -> Outcome:
    arena.client.config_set("proto-max-bulk-len", 1024 * 1024)
    settings = {"SPIDER_MODULES": "crawls.unusual", "CONCURRENT_REQUESTS": 4, **arena.without_deaths}
    arena.crawl("large", pages=101, **settings)
    return Outcome(1)


def _is_all_in_hand(client: redis.Redis) -> bool:
    """Return whether workers hold all that there is to do, and have released the seed that led to it."""
    leases = [lease for key in client.scan_iter("ready:leases:*") for lease in client.hvals(key)]
    waits = client.exists("ready:requests", "ready:slots", "ready:start_urls")
    return bool(leases) and not waits and all(lease.startswith(b"request ") for lease in leases)


@scenario(
    "flushall",
    "All keys are deleted during the crawl. The requests that waited in Redis are lost. Requests held by "
    "workers are stored again and crawled, and the log reports the loss.",
)
def flushall(arena: Arena) -> Outcome:
    # Few pages and few at a time: all that there is to do is in the workers' hands, and most of it is not
    # begun.
    arena.crawl(
        "ready",
        pages=41,
        workers=0,
        SPIDER_MODULES="crawls.unusual",
        CONCURRENT_REQUESTS=4,
        GRAPH_LATENCY=0.3,
    )
    # Not a start request: those of the last minute are sent again, and would find all of it anew.
    arena.client.lpush("ready:start_urls", page_url(0))
    arena.join(1)
    arena.wait(lambda: arena.share > 0.1 and _is_all_in_hand(arena.client), "something waits")
    arena.client.flushall()
    arena.wait_for_log("is no longer in Redis")
    # What was begun and not released is fetched again.
    return Outcome(1, 30)


def _all_got_through(arena: Arena) -> None:
    """Wait until each worker has made a further exchange, or is gone."""

    def exchanges() -> dict[bytes, int]:
        workers = arena.client.zrange("graph:workers", 0, -1)
        made = {name: arena.client.hget(b"graph:worker:" + name, "exchange") for name in workers}
        return {name: int(number) for name, number in made.items() if number}

    before = exchanges()

    def got_through() -> bool:
        now = exchanges()
        return all(now.get(name, number + 1) > number for name, number in before.items())

    arena.wait(got_through, "not every worker got through")
