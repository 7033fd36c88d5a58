"""The Lua scripts: composed of the files in ``lua/``, each of which is one part or one step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from . import keys as key_names
from .connection import NoScriptError, ResponseError, leave_replica, server_of


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


def register(server: Any, *parts: str) -> Script:
    """Return the script that the Lua files of these names make, ready to be called on *server*."""
    folder = files("scrapy_rq_sched.lua")
    return Script(server, b"\n".join((folder / f"{part}.lua").read_bytes() for part in parts))


def seen_step(server: Any, key: str, kind: str) -> Callable[..., int]:
    """Return what asks or changes the filter at *key* by itself: ``step(what, fingerprint="")``.

    :param kind: which ``lua/seen_<kind>.lua`` keeps it.
    :return: a function of what ``lua/seen_step.lua`` can do; it waits for Redis.
    """
    script = register(server, "keys", "seen", f"seen_{kind}", "seen_step")
    # Of the keys that lua/keys.lua names this step knows one, the third.
    names = [key_names.never(key), key, key]
    return lambda what, fingerprint="": int(script(names, [what, fingerprint]))
