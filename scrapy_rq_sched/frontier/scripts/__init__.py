"""Compose the Lua scripts from the files in ``lua/``, and call them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from ...connection import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    RedisConnectionError,
    RedisTimeoutError,
    ResponseError,
    check_permitted,
    find_servers_anew,
    leave_replica,
    server_of,
    socket_timeout,
)
from ...keys import never
from ...keys.table import KEYS, Use


class Script:
    """A script that can be called.

    redis-py's own class is not suitable for a Cluster: it asks for the nodes as soon as it is created, and
    loads a missing script into all nodes, although some of them may be down.

    :param server: a redis-py client.
    :param text: the script's text.
    """

    def __init__(self, server: Any, text: bytes) -> None:
        self.server = server
        self.text = text
        self.sha = hashlib.sha1(text).hexdigest()  # noqa: S324 - the name that Redis gives it

    def __call__(self, keys: Sequence[Any], args: Sequence[Any]) -> Any:
        """Call the script with *keys* and *args*, and return its reply.

        If the server does not have the script, the call is repeated with the full text. To load the script
        first is not enough: the server may drop it before the call.
        """
        try:
            try:
                return self.server.evalsha(self.sha, len(keys), *keys, *args)
            except NoScriptError:
                return self.server.eval(self.text, len(keys), *keys, *args)
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
        patience = socket_timeout(client)
        if patience:
            timeout = min(timeout, 0.8 * patience)

        def attempt(by_name: bool) -> tuple[Any, int]:
            # Use one connection for both: WAIT is about the writes of its own connection.
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
            # This was a connection to a single node, so the Cluster client has not looked for another node.
            find_servers_anew(client)
            raise
        except ResponseError as error:
            leave_replica(client, error)
            check_permitted(error)
            raise

    def load(self, key: Any) -> None:
        """Load the script into the server that has *key*."""
        server_of(self.server, key).script_load(self.text)


#: The beginning of a Lua file's first line if other files must come before it.
NEEDS = b"-- Needs: "
#: The last line of a Lua file that is a module. Other files see only the value that it returns.
RETURNS = re.compile(rb"\nreturn (\w+)( -- seldom used)?\n\Z")


@cache
def part(name: str) -> bytes:
    """Return the text of ``lua/<name>.lua``."""
    return (files("scrapy_rq_sched.frontier.lua") / f"{name}.lua").read_bytes()


def needs(name: str) -> list[str]:
    """Return the names of the files that ``lua/<name>.lua`` needs, from its first line."""
    first, _, _ = part(name).partition(b"\n")
    return first.removeprefix(NEEDS).decode().split(", ") if first.startswith(NEEDS) else []


def variants(queue: str, dupefilter: str) -> dict[str, str]:
    """Return the file that stands for each name that stands for several files in the needs of a file."""
    return {"queue": f"store/queue/{queue}", "filter": f"store/filter/{dupefilter}"}


#: Keys whose types are not in this check: the queue, the filter and the items check their own, and events are
#: optional.
_OF_ANY_TYPE = ("requests", "dupefilter", "events", "items")


def _name_keys(texts: dict[str, bytes]) -> None:
    """Put the Lua code that names the keys into the files of a script; of derived keys, only the used ones.

    A key that only seldom used modules use has its name in these modules.
    """
    given = [key for key in KEYS if key.use in (Use.ARGUMENT, Use.PREFIX)]
    lines = [f"local {key.name.upper()} = KEYS[{place}]" for place, key in enumerate(given, 1)]
    lines.append(f"local SEEDS = {{unpack(KEYS, {len(given) + 1})}}")
    code = {file: re.sub(rb"--.*", b"", text) for file, text in texts.items()}
    for key in KEYS:
        # A script that uses only one queue or filter gets only the first keys.
        if key.use is not Use.DERIVED:
            continue
        root, _, suffix = key.place.partition("<")[0].partition("}")
        line = f"local {key.name.upper()} = {root[1:].upper()} .. '{suffix}'"
        users = [file for file in texts if re.search(rf"\b{key.name.upper()}\b".encode(), code[file])]
        if any(b" = seldom(" not in texts[file].partition(b"\n")[0] for file in users):
            lines.append(line)
            continue
        for file in users:
            first, _, rest = texts[file].partition(b"\n")
            texts[file] = b"\n".join([first, line.encode(), rest])
    # The queue's and the filter's modules check the types of their own keys.
    others = [key for key in given if key.use is Use.ARGUMENT and key.name not in _OF_ANY_TYPE]
    types = ", ".join(f"{{{key.name.upper()}, '{key.types[0]}'}}" for key in others)
    lines.append(f"local function types() return {{{types}}} end\n")
    texts["keys"] = "\n".join(lines).encode() + texts["keys"]


def _with_room(module: bytes, text: bytes) -> bytes:
    """Give the table of a *module* room for all its functions: to grow with each of them takes longer."""
    functions = re.findall(rb"^function %s\.(\w+)" % module, text, re.MULTILINE)
    room = b"".join(b"%s = nil, " % name for name in functions)
    return text.replace(b"local %s = {" % module, b"local %s = {%s" % (module, room), 1)


@cache
def compose(name: str, queue: str = "", dupefilter: str = "") -> bytes:
    """Return the file ``lua/<name>.lua`` together with all files that it needs, each once.

    A file that ends with ``return name`` is a module: later files use it by that name. It is wrapped in a
    function of its own, so that its local variables do not count towards the 200 that Lua allows in one
    function, and its functions are created in half the time. Each call of a script creates all functions
    again, but the functions of a module marked as "seldom used" only if the call uses them.

    All modules are in one more function. For a function that is created, Lua looks through the local
    variables of the block around it, but not through those of the blocks further out. It permits 60 of these.

    :param queue: the file ``lua/store/queue/<queue>.lua`` stands for ``queue`` in the needs of a file.
    :param dupefilter: the file ``lua/store/filter/<dupefilter>.lua`` stands for ``filter``.
    """
    stands_for = variants(queue, dupefilter)
    texts: dict[str, bytes] = {}

    def add(part_name: str) -> None:
        file = stands_for.get(part_name, part_name)
        if file in texts:
            return
        for needed in needs(file):
            add(needed)
        text = part(file)
        module = RETURNS.search(text)
        if module and file != name:
            form = (
                b"local %s = seldom(function()\n%send)\n"
                if module[2]
                else b"local %s = (function()\n%send)()\n"
            )
            text = form % (module[1], _with_room(module[1], text))
        texts[file] = text

    add(name)
    if "keys" not in texts:
        return b"\n".join(texts.values())
    _name_keys(texts)
    shared = b"\n".join(texts.pop(file) for file in ("helpers", "keys"))
    return b"%s\nreturn (function()\n%s\nend)()\n" % (shared, b"\n".join(texts.values()))


def register(server: Any, name: str, queue: str = "", dupefilter: str = "") -> Script:
    """Return the script ``lua/scripts/<name>.lua``, for calls on *server*: see :func:`compose`."""
    return Script(server, compose(f"scripts/{name}", queue, dupefilter))


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
