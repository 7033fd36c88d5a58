"""The Lua scripts: composed of the files in ``lua/``, each of which is one part or one step."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from ..connection import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    RedisConnectionError,
    RedisTimeoutError,
    ResponseError,
    find_servers_anew,
    leave_replica,
    server_of,
    socket_timeout,
)
from ..keys import never
from ..keys.key import Use
from ..keys.table import KEYS


class Script:
    """A script, ready to be called.

    Not redis-py's: that one asks a Cluster which nodes there are as soon as it is made, and loads what a
    server does not know into all of them, of which some may be away.

    :param server: a redis-py client.
    :param text: the script.
    """

    def __init__(self, server: Any, text: bytes) -> None:
        self.server = server
        self.text = text
        self.sha = hashlib.sha1(text).hexdigest()  # noqa: S324 - the name that Redis gives it

    def __call__(self, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        """Call it with *keys* and *args*, and return its reply.

        A server that has forgotten it is sent its text with the call: one that is loaded may be forgotten
        again before it is called.
        """
        try:
            try:
                return self.server.evalsha(self.sha, len(keys), *keys, *args)
            except NoScriptError:
                return self.server.eval(self.text, len(keys), *keys, *args)
        except ResponseError as error:
            leave_replica(self.server, error)
            raise

    def call_and_wait(
        self, keys: Sequence[Any], args: Sequence[Any], replicas: int, timeout: float
    ) -> tuple[Any, int]:
        """Call it, and wait until *replicas* replicas have what it wrote; in one round trip.

        :param timeout: seconds to wait at the most, unless the client gives up sooner.
        :return: the script's reply, and how many replicas have it.
        """
        client = self.server
        patience = socket_timeout(client)
        if patience:
            timeout = min(timeout, 0.8 * patience)

        def attempt(by_name: bool) -> tuple[Any, int]:
            # One connection for both: Redis waits for what this connection wrote.
            pipeline = server_of(client, keys[0]).pipeline(transaction=False)
            if by_name:
                pipeline.evalsha(self.sha, len(keys), *keys, *args)
            else:
                pipeline.eval(self.text, len(keys), *keys, *args)
            pipeline.wait(replicas, max(1, int(timeout * 1000)))
            results = pipeline.execute(raise_on_error=False)
            for result in results:
                if isinstance(result, Exception):
                    raise result
            reply, reached = results
            return reply, reached

        try:
            try:
                return attempt(by_name=True)
            except NoScriptError:
                return attempt(by_name=False)
        except (RedisConnectionError, RedisTimeoutError, AskError, ClusterDownError, MovedError):
            # This connection is to one node; the client of a Cluster would have found another.
            find_servers_anew(client)
            raise
        except ResponseError as error:
            leave_replica(client, error)
            raise

    def load(self, key: Any) -> None:
        """Have the server that has *key* know it."""
        server_of(self.server, key).script_load(self.text)


#: How the first line of a Lua file begins that needs others before it.
NEEDS = b"-- Needs: "
#: How a file ends that is a module. What it does not return nobody else sees.
RETURNS = re.compile(rb"\nreturn (\w+)( -- seldom used)?\n\Z")


@cache
def part(name: str) -> bytes:
    """Return the text of ``lua/<name>.lua``."""
    return (files("scrapy_rq_sched.frontier.lua") / f"{name}.lua").read_bytes()


#: The queue and the filter look at theirs, and for want of events no crawl stops.
_OF_ANY_TYPE = ("requests", "dupefilter", "events")


@cache
def key_names() -> bytes:
    """Return the Lua that gives the keys of a frontier their names."""
    given = [key for key in KEYS if key.use in (Use.ARGUMENT, Use.PREFIX)]
    lines = [f"local {key.name.upper()} = KEYS[{place}]" for place, key in enumerate(given, 1)]
    lines.append(f"local SEEDS = {{unpack(KEYS, {len(given) + 1})}}")
    for key in KEYS:
        if key.use is Use.DERIVED:
            root, _, suffix = key.place.partition("}")
            lines.append(f"local {key.name.upper()} = {root[1:].upper()} .. '{suffix}'")
    # The parts of the queue and of the filter know theirs.
    others = [key for key in given if key.use is Use.ARGUMENT and key.name not in _OF_ANY_TYPE]
    types = ", ".join(f"{{{key.name.upper()}, '{key.types[0]}'}}" for key in others)
    return "\n".join([*lines, f"local function types() return {{{types}}} end\n"]).encode()


def compose(name: str, queue: str = "", dupefilter: str = "") -> bytes:
    """Return the script that ``lua/<name>.lua`` makes with all that it needs, each part once.

    A part that ends by returning a name is a module, and has that name in those that follow. It becomes a
    function of its own: its local variables do not count towards the 200 that Lua allows one, and its
    functions are made in half of the time. For all functions are made anew with every call of a script; those
    of a module that is seldom used only if it is.

    :param queue: which ``lua/queue/<queue>.lua`` is meant where ``queue`` is needed.
    :param dupefilter: which ``lua/filter/<dupefilter>.lua`` is meant where ``filter`` is needed.
    """
    variants = {"queue": f"queue/{queue}", "filter": f"filter/{dupefilter}"}
    texts: dict[str, bytes] = {}

    def add(part_name: str) -> None:
        file = variants.get(part_name, part_name)
        if file in texts:
            return
        text = part(file)
        first, _, _ = text.partition(b"\n")
        if first.startswith(NEEDS):
            for needed in first.removeprefix(NEEDS).decode().split(", "):
                add(needed)
        module = RETURNS.search(text)
        if module and file != name:
            form = (
                b"local %s = seldom(function()\n%send)\n"
                if module[2]
                else b"local %s = (function()\n%send)()\n"
            )
            text = form % (module[1], text)
        if file == "keys":
            text = key_names() + text
        texts[file] = text

    add(name)
    return b"\n".join(texts.values())


def register(server: Any, name: str, queue: str = "", dupefilter: str = "") -> Script:
    """Return the script that :func:`compose` makes, ready to be called on *server*."""
    return Script(server, compose(name, queue, dupefilter))


def filter_step(server: Any, key: str, kind: str) -> Callable[..., int]:
    """Return what asks or changes the filter at *key* by itself: ``step(what, fingerprint="")``.

    :param kind: which ``lua/filter/<kind>.lua`` keeps it.
    :return: a function of what ``lua/filter_step.lua`` can do; it waits for Redis.
    """
    script = register(server, "filter_step", dupefilter=kind)
    # Of the keys that lua/keys.lua names this step knows one, the third.
    names = [never(key), key, key]
    return lambda what, fingerprint="": int(script(names, [what, fingerprint]))
