"""A frontier with something of everything, the same each time; and the commands that show it."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.commands.frontier import Command
from scrapy_rq_sched.frontier.messages import Failed
from scrapy_rq_sched.inspect import Control, View
from scrapy_rq_sched.inspect.audit import Audit
from scrapy_rq_sched.inspect.slots import Slots
from scrapy_rq_sched.keys import Keys

from ..dashboard.filled import BOOKS, failed_entry, history, push
from ..support.client import Client
from .hostile import kept
from .oracle import Complaint, crash, printable_faults, refusal_of_a_script

SPIDER = "shop"
#: What another program has in the same Redis: nothing of it may change.
NEIGHBOUR = {"prod:requests": "ours", "prod:dupefilter": "ours too"}


def worker(server: Any, name: str) -> Client:
    """Return a worker of the shop that has joined."""
    about = {"host": name, "pid": 411, "version": "0.1.0", "scrapy": "2.19.0"}
    client = Client(server, name, "priority", 30, 5, keys=Keys(SPIDER))
    client.frontier.open({"SCHEDULER_SERIALIZER": "json"}, about=json.dumps(about))
    return client


def fill(server: Any, url: str) -> Client:
    """Fill the shop's frontier, in an empty Redis, and return a worker of it."""
    dead, alive = worker(server, "crawler-2-422-aa"), worker(server, "crawler-1-411-bb")
    push(alive, {"www.books.example": 6, "api.books.example": 4, "slow.example.net": 3, "one.example": 1})
    dead.say(want=2, pages=11)
    alive.say(
        want=4, pages=20, busy=True, times={"5": 1}, found=3, local_only=1, local_only_reason="a lambda"
    )
    leases = alive.say(want=2).leases
    alive.say(failed=[Failed(lease.name, 0, "its callback raised KeyError: 'price'") for lease in leases[:1]])
    server.zadd(f"{SPIDER}:workers", {dead.name: 1})
    server.rpush(f"{SPIDER}:start_urls", *(f"https://www.books.example/new/{n}" for n in range(3)))
    server.rpush(f"{SPIDER}:start_urls", json.dumps({"url": f"{BOOKS}/seed", "priority": 3}))
    server.rpush(f"{SPIDER}:failed", *(failed_entry(n, "timeout", f"{BOOKS}/{n}") for n in range(1, 4)))
    entry = json.dumps({"url": f"{BOOKS}/late"})
    server.zadd(f"{SPIDER}:delayed", {f"request 0 {dead.name}/1.1@www.books.example {entry}": 9e12})
    view = View.from_settings(settings(url), SPIDER)
    slots = Slots(view)
    slots.set("www.books.example", SlotRule("www.books.example", delay=0.5))
    slots.block("slow.example.net", 1200)
    Control(view).resume()
    Audit(view).note("ann", "seed", {"seeds": [BOOKS]}, "1 seed pushed")
    history(server, SPIDER, [100, 120, 90], [30, 20, 10])
    server.mset(NEIGHBOUR)
    view.server.close()
    return alive


class _Settings(Settings):
    """Settings that nobody changes, so that they need no frozen copy: it takes ten milliseconds."""

    def frozencopy(self) -> Any:
        return self


def settings(url: str, **more: Any) -> Settings:
    """Return the settings of somebody who has no project."""
    return _Settings({"REDIS_URL": url, **more})


@functools.cache
def _parser() -> ArgumentParser:
    parser = ArgumentParser(conflict_handler="resolve")
    command = Command()
    command.settings = Settings()
    command.add_options(parser)
    return parser


class Base:
    """A filled shop in another database of the server, from which it is copied: that is faster.

    :param most: seconds after which it is filled anew, since the workers' deadlines pass.
    """

    def __init__(self, server: Any, url: str, most: float = 10.0) -> None:
        self._server = server
        self._url = url
        self._most = most
        self._dumped: list[tuple[bytes, bytes, int]] = []
        self._made = 0.0
        self._worker: Client | None = None
        self._number = 0

    def restore(self) -> Client:
        """Have the shop, and nothing else, in Redis; return its worker."""
        if self._worker is None or time.monotonic() - self._made > self._most:
            self._server.flushall()
            self._worker = fill(self._server, self._url)
            self._number = self._worker.number
            keys = sorted(self._server.scan_iter(count=1000))
            self._dumped = [(key, self._server.dump(key), max(0, self._server.pttl(key))) for key in keys]
            self._made = time.monotonic()
            return self._worker
        pipe = self._server.pipeline(transaction=False)
        pipe.flushdb()
        for key, data, ttl in self._dumped:
            pipe.restore(key, ttl, data)
        pipe.execute()
        self._worker.number = self._number
        return self._worker


def contents(server: Any) -> dict[bytes, Any]:
    """Return what all keys have in them, in an order that does not depend on how Redis keeps it."""
    keys = sorted(server.scan_iter(count=1000))
    pipe = server.pipeline(transaction=False)
    for key in keys:
        pipe.type(key)
    kinds = pipe.execute()
    for key, kind in zip(keys, kinds, strict=True):
        if kind == b"list":
            pipe.lrange(key, 0, -1)
        elif kind == b"zset":
            pipe.zrange(key, 0, -1, withscores=True)
        elif kind == b"set":
            pipe.smembers(key)
        elif kind == b"hash":
            pipe.hgetall(key)
        elif kind == b"stream":
            pipe.xrange(key)
        else:
            pipe.get(key)
    return dict(zip(keys, pipe.execute(), strict=True))


def everything(found: dict[bytes, Any]) -> bytes:
    """Return all values in *found* in one text, to look for a request in it."""
    return b"\0".join(_values(found))


def _values(found: Any) -> Iterator[bytes]:
    if isinstance(found, bytes):
        yield found
    elif isinstance(found, dict):
        for value in found.values():
            yield from _values(value)
    elif isinstance(found, (list, tuple, set)):
        for value in found:
            yield from _values(value)


def run_command(url: str, *arguments: str) -> tuple[int, str, str]:
    """Run ``scrapy frontier`` in this process; return its exit code, and what it has printed."""
    out, err = io.StringIO(), io.StringIO()
    command = Command()
    command.settings = settings(url)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            options, rest = _parser().parse_known_args(arguments)
            # Scrapy configures logging here, for the whole process.
            options.logfile = options.loglevel = None
            options.nolog = False
            command.process_options(rest, options)
            command.run(rest, options)
        except SystemExit as end:
            return int(end.code or 0), out.getvalue(), err.getvalue()
        except UsageError as error:
            return 2, out.getvalue(), str(error)
    return command.exitcode, out.getvalue(), err.getvalue()


def command_faults(url: str, *arguments: str) -> Iterator[Complaint]:
    """Run a command, and yield what must not have happened."""
    name = f"scrapy frontier {arguments[0]}"
    try:
        code, out, err = run_command(url, *arguments)
    except Exception as error:
        yield crash(error, name)
        return
    yield from printable_faults(kept(out.encode("utf-8", "surrogatepass")), f"output of {name}")
    yield from printable_faults(kept(err.encode("utf-8", "surrogatepass")), f"errors of {name}")
    if code == 1 and err.count("\n") != 1:
        yield Complaint(f"{name} does not refuse in one line", err[:1000])
    if code not in (0, 1, 2):
        yield Complaint(f"{name} ends with {code}", err[:1000])
    if refusal_of_a_script(RuntimeError(err)):
        yield Complaint(f"a fault of a script ({name}): {err.partition('user_script')[2][:60]}", err[:1000])
