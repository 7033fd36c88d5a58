"""The Lua scripts: composed of the files in ``lua/``, each of which is one part or one step."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any


def register(server: Any, *parts: str) -> Any:
    """Return the script that the Lua files of these names make, ready to be called on *server*."""
    folder = files("scrapy_rq_sched.lua")
    # As bytes: to encode text, redis-py would ask a Cluster first which nodes there are.
    return server.register_script(b"\n".join((folder / f"{part}.lua").read_bytes() for part in parts))


def seen_step(server: Any, key: str, kind: str) -> Callable[..., int]:
    """Return what asks or changes the filter at *key* by itself: ``step(what, fingerprint="")``.

    :param kind: which ``lua/seen_<kind>.lua`` keeps it.
    :return: a function of what ``lua/seen_step.lua`` can do; it waits for Redis.
    """
    script = register(server, "keys", "seen", f"seen_{kind}", "seen_step")
    # Of the keys that lua/keys.lua names this step knows one, the third; the first have to be some key
    # on the same slot of a cluster.
    return lambda what, fingerprint="": int(script(keys=[key] * 3, args=[what, fingerprint]))
