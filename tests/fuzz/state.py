"""What a frontier keeps in Redis, with fields that another program has spoiled, or of another type."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from redis.exceptions import RedisError

from scrapy_rq_sched.dashboard import create_app
from scrapy_rq_sched.errors import FrontierError
from scrapy_rq_sched.frontier.messages import Push

from ..dashboard.filled import BOOKS
from .asgi import answer_faults, answered
from .hostile import blobs, kept, mutated, numbers, raw
from .oracle import Complaint, crash, one_line_faults, refusal_of_a_script
from .shop import NEIGHBOUR, SPIDER, Base, command_faults, contents, everything, settings
from .target import Target, World

COMMANDS = [
    ("status", SPIDER),
    ("status",),
    ("status", SPIDER, "--json"),
    ("workers", SPIDER),
    ("events", SPIDER),
    ("events", SPIDER, "--json"),
    ("leases", SPIDER),
    ("leases", SPIDER, "--json"),
    ("peek", SPIDER),
    ("peek", SPIDER, "--json"),
    ("explain", SPIDER, f"{BOOKS}/1"),
    ("explain", SPIDER, "https://www.books.example/page/1"),
    ("slots", SPIDER),
    ("slots", SPIDER, "--json"),
    ("failed", SPIDER),
    ("failed", SPIDER, "--json"),
    ("failed", SPIDER, "--counts"),
    ("failed", SPIDER, "--url", "*"),
    ("metrics", SPIDER),
    ("reprioritize", SPIDER, "*", "5", "--dry-run"),
]
PATHS = ("status", "workers", "slots", "peek", "failed", "failed/counts", "events", "audit")
#: Before the name of a slot, in the key of its queue.
SLOT = b":requests:slot:"
#: An exchange in which a worker has something of everything.
EXCHANGE: dict[str, Any] = {
    "want": 3,
    "found": 2,
    "local_only": 1,
    "local_only_reason": "a lambda",
    "times": {"5": 1},
    "counted": {"pagecount": 1},
    "pages": 1,
    "downloaded": {"www.books.example": 1},
    "bottleneck": "none",
    "busy": True,
}


class State(Target):
    """Hashes, lists, sets, streams and strings of a frontier, spoiled in some places.

    A case has changes, and what is done then: commands, paths of the page, or an exchange of a worker.
    """

    name = "state"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._base = Base(world.server, world.url)
        self._base.restore()

    def cases(self) -> st.SearchStrategy[Any]:
        self._base.restore()
        keys = sorted(self.world.server.scan_iter(f"{SPIDER}:*"))
        changes = st.sampled_from(keys).flatmap(lambda key: of_key[key])
        of_key = {key: _changes_of(self.world.server, key) for key in keys}
        kinds = st.one_of(
            st.lists(st.integers(0, len(COMMANDS) - 1), min_size=1, max_size=2).map(
                lambda n: {"commands": n}
            ),
            st.lists(st.sampled_from(PATHS), min_size=1, max_size=2).map(lambda paths: {"paths": paths}),
            st.just({"exchange": True}),
            st.just({"exchange": True}),
        )
        return st.tuples(st.lists(changes, min_size=1, max_size=3), kinds).map(list)

    def examine(self, cases: list[Any]) -> Iterator[Complaint]:
        for changes, done in cases:
            worker, server = self._base.restore(), self.world.server
            for change in changes:
                spoil(server, *change)
            before = contents(server)
            yield from self._looked_at(done)
            after = contents(server)
            if after != before:
                changed = sorted(
                    kept(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)
                )
                yield Complaint("looking has changed Redis", f"{done}: {changed}")
            if done.get("exchange"):
                yield from _exchanged(worker, server)
            for key, value in NEIGHBOUR.items():
                if server.get(key) != value.encode():
                    yield Complaint("a key of another program was changed", key)

    def _looked_at(self, done: dict[str, Any]) -> Iterator[Complaint]:
        for number in done.get("commands", ()):
            yield from command_faults(self.world.url, *COMMANDS[number])
        if paths := done.get("paths"):
            app = create_app(settings(self.world.url))
            for path in paths:
                answer = asyncio.run(answered(app, f"/api/v1/{path}", f"spider={SPIDER}"))
                yield from answer_faults(answer, path)


def _exchanged(worker: Any, server: Any) -> Iterator[Complaint]:
    """Make an exchange: it may fail, but must not lose a request."""
    found = contents(server)
    index = found.get(f"{SPIDER}:slots".encode())
    slots = {slot for slot, _ in index} if isinstance(index, list) and isinstance(index[0], tuple) else set()
    # A slot that is not in the index was cleared: what it has left may be deleted.
    read = {key: value for key, value in found.items() if SLOT not in key or key.partition(SLOT)[2] in slots}
    there = [data for data in everything(read).split(b"\0") if data.startswith(b'{"url": "https://')]
    entry = b'{"url":"https://www.books.example/new"}'
    worker.number += 1
    try:
        worker.repeat(pushes=[Push("filter", "fp-new", 9, entry, "www.books.example")], **EXCHANGE)
    except FrontierError as error:
        yield from one_line_faults(str(error), "refusal of an exchange")
    except RedisError as error:
        if refusal_of_a_script(error):
            where = str(error).partition("user_script")[2][:60]
            yield Complaint(f"a fault of a script (exchange): {where}", str(error)[:1000])
    except Exception as error:
        yield crash(error, "an exchange")
    else:
        there.append(entry)
    found = everything(contents(server))
    for data in there:
        if data not in found:
            yield Complaint("an exchange has lost a request", kept(data))
            return


def spoil(server: Any, key: str, how: str, *values: Any) -> None:
    """Make one change. What Redis itself refuses, nobody can do."""
    name = raw(key)
    try:
        if how == "field":
            server.hset(name, raw(values[0]), raw(values[1]))
        elif how == "member":
            server.zadd(name, {raw(values[0]): values[1]})
        elif how == "element":
            server.lset(name, values[0], raw(values[1]))
        elif how == "add":
            (server.lpush if server.type(name) == b"list" else server.sadd)(name, raw(values[0]))
        elif how == "entry":
            server.xadd(name, {raw(values[0]): raw(values[1])})
        elif how == "set":
            server.set(name, raw(values[0]))
        elif how == "delete":
            server.delete(name)
        else:
            _retype(server, name, how)
    except RedisError:
        pass


def _retype(server: Any, name: bytes, kind: str) -> None:
    server.delete(name)
    make = {
        "list": lambda: server.rpush(name, b"x"),
        "zset": lambda: server.zadd(name, {b"x": 1}),
        "hash": lambda: server.hset(name, b"x", b"y"),
        "stream": lambda: server.xadd(name, {b"x": b"y"}),
        "string": lambda: server.set(name, b"x"),
    }
    make[kind]()


def _changes_of(server: Any, key: bytes) -> st.SearchStrategy[list[Any]]:
    """Return the changes of a key that is there."""
    name, kind = kept(key), server.type(key)
    scores = st.one_of(st.floats(allow_nan=False), st.sampled_from([0, -1, 9e15, 1e300]))
    others = st.sampled_from(["list", "zset", "hash", "stream", "string", "delete"]).map(
        lambda how: [name, how]
    )
    if kind == b"hash":
        found = {kept(field): kept(value) for field, value in server.hgetall(key).items()}
        fields = st.one_of(st.sampled_from(sorted(found)), blobs())
        values = st.one_of(mutated(sorted(found.values())), blobs(), numbers().map(str))
        main = st.tuples(fields, values).map(lambda pair: [name, "field", *pair])
    elif kind == b"zset":
        members = sorted(map(kept, server.zrange(key, 0, -1)))
        main = st.tuples(st.one_of(st.sampled_from(members), mutated(members), blobs()), scores).map(
            lambda pair: [name, "member", *pair]
        )
    elif kind == b"list":
        elements = sorted(map(kept, server.lrange(key, 0, -1)))
        values = st.one_of(mutated(elements), blobs())
        main = st.one_of(
            st.tuples(st.integers(0, len(elements) - 1), values).map(lambda pair: [name, "element", *pair]),
            values.map(lambda value: [name, "add", value]),
        )
    elif kind == b"stream":
        entries = sorted({kept(v) for _, fields in server.xrange(key) for v in fields.values()})
        main = st.tuples(st.one_of(st.just("event"), blobs()), st.one_of(mutated(entries), blobs())).map(
            lambda pair: [name, "entry", *pair]
        )
    elif kind == b"set":
        main = blobs().map(lambda value: [name, "add", value])
    else:
        value = kept(server.get(key))
        main = st.one_of(mutated([value]), blobs(), numbers().map(str)).map(lambda text: [name, "set", text])
    return st.one_of(main, main, main, others)
