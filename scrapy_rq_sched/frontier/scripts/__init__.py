"""Call the Lua scripts, which ``text.py`` composes."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...codec.values import text_of
from ...connection import (
    AskError,
    ClusterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    RedisConnectionError,
    RedisTimeoutError,
    ResponseError,
    check_permitted,
    find_servers_anew,
    leave_replica,
    needs_hash_tag,
    server_may_wait,
    server_of,
)
from ...keys import never
from .text import LIBRARY, RETURNS, Library, compose, compose_library, needs, part, variants

__all__ = [
    "RETURNS",
    "Script",
    "compose",
    "compose_library",
    "filter_step",
    "needs",
    "part",
    "register",
    "register_function",
    "variants",
    "why_no_function",
]

logger = logging.getLogger(__name__)

#: A part of the error if the server does not have a function.
_NOT_FOUND = "Function not found"


class Script:
    """A script that can be called.

    redis-py's own class is not suitable for a Cluster: it asks for the nodes as soon as it is created, and
    loads a missing script into all nodes, although some of them may be down.

    :param server: a redis-py client.
    :param text: the script's text.
    :param library: the script as a function of Redis; None: it is always called as a script. On a Cluster,
        each node would need the library, so it is not used there.
    :ivar is_function: whether the script is called as a function.
    """

    def __init__(self, server: Any, text: bytes, library: Library | None = None) -> None:
        self.server = server
        self.text = text
        self.library = library
        self.is_function = False
        self.sha = hashlib.sha1(text).hexdigest()  # noqa: S324 - the name that Redis gives it

    def __call__(self, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        """Call the script with *keys* and *args*, and return its reply.

        If the server does not have the script, the call is repeated with the full text. To load the script
        first is not enough: the server may drop it before the call.
        """
        try:
            return self._called(self._call, keys, args)
        except ResponseError as error:
            leave_replica(self.server, error)
            check_permitted(error)
            raise

    def call_and_wait(
        self, keys: Sequence[Any], args: Sequence[Any], replicas: int, timeout: float
    ) -> tuple[Any, int]:
        """Call the script, and wait until *replicas* replicas have its writes, in one round trip.

        :param timeout: the maximum number of seconds to wait; less if the client's own timeout is shorter.
        :return: the script's reply, and how many replicas have its writes.
        """
        client = self.server
        timeout = server_may_wait(client, timeout)

        def attempt(way: str, script: Any, keys: Sequence[Any], args: Sequence[Any]) -> tuple[Any, int]:
            # Use one connection for both: WAIT is about the writes of its own connection.
            pipeline = server_of(client, keys[0]).pipeline(transaction=False)
            pipeline.execute_command(way, script, len(keys), *keys, *args)
            pipeline.wait(replicas, max(1, int(timeout * 1000)))
            results = pipeline.execute(raise_on_error=False)
            for result in results:
                if isinstance(result, Exception):
                    raise result
            reply, reached = results
            return reply, reached

        try:
            reply: tuple[Any, int] = self._called(attempt, keys, args)
        except (RedisConnectionError, RedisTimeoutError, AskError, ClusterDownError, MovedError):
            # This was a connection to a single node, so the Cluster client has not looked for another node.
            find_servers_anew(client)
            raise
        except ResponseError as error:
            leave_replica(client, error)
            check_permitted(error)
            raise
        return reply

    def load(self, key: Any) -> None:
        """Load the script into the server that has *key*, as a function if that server permits it."""
        if not self._load_function(removes=True):
            server_of(self.server, key).script_load(self.text)

    def _call(self, way: str, script: Any, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        return self.server.execute_command(way, script, len(keys), *keys, *args)

    def _called(self, call: Callable[..., Any], keys: Sequence[Any], args: Sequence[Any]) -> Any:
        if self.is_function:
            try:
                return self._call_function(call, keys, args)
            except OutOfMemoryError:
                # Redis begins no function while its memory is full; a script may still make room.
                pass
            except NoPermissionError:
                self.is_function = False
            except ResponseError as error:
                if _NOT_FOUND not in str(error):
                    raise
        try:
            return call("EVALSHA", self.sha, keys, args)
        except NoScriptError:
            return call("EVAL", self.text, keys, args)

    # -- as a function -------------------------------------------------------------------------

    def _call_function(self, call: Callable[..., Any], keys: Sequence[Any], args: Sequence[Any]) -> Any:
        assert self.library is not None  # noqa: S101 - it was loaded
        try:
            return call("FCALL", self.library.name, keys, args)
        except ResponseError as error:
            # Somebody has removed it, or another server has taken over.
            if _NOT_FOUND not in str(error) or not self._load_function():
                raise
        return call("FCALL", self.library.name, keys, args)

    def _load_function(self, removes: bool = False) -> bool:
        """Load the library, unless the server has it; return whether the server has it now."""
        if self.library is None or needs_hash_tag(self.server):
            return False
        try:
            listed = self.server.execute_command("FUNCTION", "LIST", "LIBRARYNAME", f"{self.library.kind}*")
            names = {_library_name(each) for each in listed}
            if self.library.name not in names:
                self.server.execute_command("FUNCTION", "LOAD", "REPLACE", self.library.text)
        except ResponseError as error:
            # The server is older than Redis 7.0, or the user may not do this.
            logger.debug("The exchange is called as a script, and not as a function: %s", error)
            self.is_function = False
            return False
        self.is_function = True
        if removes and self.library.name not in names:
            self._remove(names)
        return True

    def _remove(self, names: Iterable[str]) -> None:
        """Remove libraries of other versions. A worker that uses one loads it again, and removes none."""
        for name in names:
            try:
                self.server.execute_command("FUNCTION", "DELETE", name)
            except ResponseError as error:
                # Another worker has just removed it, or the user may not do this.
                logger.debug("The library %s of another version is not removed: %s", name, error)


def why_no_function(server: Any, key: Any) -> str:
    """Return why the exchange is called as a script on *server*; empty if it is called as a function.

    :param key: a key that does not exist.
    """
    if needs_hash_tag(server):
        return "on a Redis Cluster, each node would need the function"
    # What each of them answers if the user may call it.
    probes = {
        ("FUNCTION", "LIST", "LIBRARYNAME", f"{LIBRARY}*"): "",
        ("FUNCTION", "LOAD", "no library"): "Missing library metadata",
        ("FUNCTION", "DELETE", f"{LIBRARY}none"): "Library not found",
        ("FCALL", f"{LIBRARY}none", 1, key): _NOT_FOUND,
    }
    for probe, answer in probes.items():
        try:
            server.execute_command(*probe)
        except NoPermissionError as error:
            return f"this user lacks a right: {error}"
        except ResponseError as error:
            if not answer or answer not in str(error):
                if "unknown command" in str(error):
                    return f"this server has no functions, which came with Redis 7.0: {error}"
                return f"Redis refuses functions at present: {error}"
    return ""


def _library_name(listed: Any) -> str:
    """Return the name in an entry of ``FUNCTION LIST``: a mapping with RESP3, else a flat list."""
    pairs = listed.items() if isinstance(listed, dict) else zip(*[iter(listed)] * 2, strict=True)
    return next(text_of(value) for name, value in pairs if text_of(name) == "library_name")


def register(server: Any, name: str, queue: str = "", dupefilter: str = "") -> Script:
    """Return the script ``lua/scripts/<name>.lua``, for calls on *server*: see :func:`compose`."""
    return Script(server, compose(f"scripts/{name}", queue, dupefilter))


def register_function(server: Any, name: str, queue: str, dupefilter: str) -> Script:
    """Return the same script, to be called as a function if the server permits it, once it is loaded."""
    library = compose_library(f"scripts/{name}", queue, dupefilter)
    return Script(server, compose(f"scripts/{name}", queue, dupefilter), library)


def filter_step(server: Any, key: str, kind: str) -> Callable[..., int]:
    """Return a function that queries or changes the filter at *key* outside an exchange.

    :param kind: the filter's file, ``lua/store/filter/<kind>.lua``.
    :return: ``step(operation, fingerprint="")``, actions: ``lua/scripts/filter_step.lua``. It blocks
        until Redis answers.
    """
    script = register(server, "filter_step", dupefilter=kind)
    # This step uses only the third of the keys in lua/keys.lua.
    names = [never(key), key, key]
    return lambda operation, fingerprint="": int(script(names, [operation, fingerprint]))
