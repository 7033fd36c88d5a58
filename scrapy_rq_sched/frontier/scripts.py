"""The Lua scripts: composed of the files in ``lua/``, each of which is one part or one step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from .. import keys as key_names
from ..connection import NoScriptError, ResponseError, leave_replica, server_of


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

    def load(self, key: Any) -> None:
        """Have the server that has *key* know it."""
        server_of(self.server, key).script_load(self.text)


#: How the first line of a Lua file begins that needs others before it.
NEEDS = b"-- Needs: "


@cache
def part(name: str) -> bytes:
    """Return the text of ``lua/<name>.lua``."""
    return (files("scrapy_rq_sched.frontier.lua") / f"{name}.lua").read_bytes()


def compose(name: str, queue: str = "", dupefilter: str = "") -> bytes:
    """Return the script that ``lua/<name>.lua`` makes with all that it needs, each part once.

    :param queue: which ``lua/queue_<queue>.lua`` is meant where ``queue`` is needed.
    :param dupefilter: which ``lua/seen_<dupefilter>.lua`` is meant where ``filter`` is needed.
    """
    variants = {"queue": f"queue_{queue}", "filter": f"seen_{dupefilter}"}
    texts: dict[str, bytes] = {}

    def add(name: str) -> None:
        name = variants.get(name, name)
        if name in texts:
            return
        first, _, _ = part(name).partition(b"\n")
        if first.startswith(NEEDS):
            for needed in first.removeprefix(NEEDS).decode().split(", "):
                add(needed)
        texts[name] = part(name)

    add(name)
    return b"\n".join(texts.values())


def register(server: Any, name: str, queue: str = "", dupefilter: str = "") -> Script:
    """Return the script that :func:`compose` makes, ready to be called on *server*."""
    return Script(server, compose(name, queue, dupefilter))


def seen_step(server: Any, key: str, kind: str) -> Callable[..., int]:
    """Return what asks or changes the filter at *key* by itself: ``step(what, fingerprint="")``.

    :param kind: which ``lua/seen_<kind>.lua`` keeps it.
    :return: a function of what ``lua/seen_step.lua`` can do; it waits for Redis.
    """
    script = register(server, "seen_step", dupefilter=kind)
    # Of the keys that lua/keys.lua names this step knows one, the third.
    names = [key_names.never(key), key, key]
    return lambda what, fingerprint="": int(script(names, [what, fingerprint]))
