"""The text of the Lua scripts, composed of the files in ``lua/``."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from ...keys.row import Use
from ...keys.table import KEYS

#: The beginning of a Lua file's first line if other files must come before it.
NEEDS = b"-- Needs: "
#: The last line of a Lua file that is a module. Other files see only the value that it returns.
RETURNS = re.compile(rb"\nreturn (\w+)( -- seldom used| -- of each call)?\n\Z")
#: How a module becomes the value of its name, by what its last line says.
_FORMS = {
    None: b"local %s = (function()\n%send)()\n",
    b" -- seldom used": b"local %s = seldom(function()\n%send)\n",
    b" -- of each call": b"local %s\nat_begin(function() %s = (function()\n%send)() end)\n",
}


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
    values = {key.name.upper(): f"KEYS[{place}]" for place, key in enumerate(given, 1)}
    values["SEEDS"] = f"{{unpack(KEYS, {len(given) + 1})}}"
    code = {file: re.sub(rb"--.*", b"", text) for file, text in texts.items()}
    for key in KEYS:
        # A script that uses only one queue or filter gets only the first keys.
        if key.use is not Use.DERIVED:
            continue
        name, (root, _, suffix) = key.name.upper(), key.place.partition("<")[0].partition("}")
        value = f"{root[1:].upper()} .. '{suffix}'"
        users = [file for file in texts if re.search(rf"\b{name}\b".encode(), code[file])]
        if any(b" = seldom(" not in texts[file].partition(b"\n")[0] for file in users):
            values[name] = value
            continue
        for file in users:
            first, _, rest = texts[file].partition(b"\n")
            line = f"local {name}\nat_begin(function() {name} = {value} end)"
            texts[file] = b"\n".join([first, line.encode(), rest])
    lines = [f"local {', '.join(values)}", "at_begin(function()"]
    lines += [f"  {name} = {value}" for name, value in values.items()]
    lines.append("end)")
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


class Parts(NamedTuple):
    """The text of a script in three parts.

    :param shared: what all modules use.
    """

    shared: bytes
    modules: bytes
    script: bytes


def _parts(name: str, queue: str, dupefilter: str) -> Parts:
    """Return the file ``lua/<name>.lua`` together with all files that it needs, each once.

    A file that ends with ``return name`` is a module: later files use it by that name. It is wrapped in a
    function of its own, so that its local variables do not count towards the 200 that Lua allows in one
    function, and its functions are created in half the time. Each call of a script creates all functions
    again, but the functions of a module marked as "seldom used" only if the call uses them.

    All modules are in one more function. For a function that is created, Lua looks through the local
    variables of the block around it, but not through those of the blocks further out. It permits 60 of these.
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
            form = _FORMS[module[2]]
            names = [module[1]] * (form.count(b"%s") - 1)
            text = form % (*names, _with_room(module[1], text))
        texts[file] = text

    add(name)
    if "keys" in texts:
        _name_keys(texts)
    shared = b"\n".join(texts.pop(file) for file in ("helpers", "keys") if file in texts)
    script = texts.pop(name)
    return Parts(shared, b"\n".join(texts.values()), script)


@cache
def compose(name: str, queue: str = "", dupefilter: str = "") -> bytes:
    """Return the text of the script ``lua/<name>.lua``, for ``EVAL``.

    :param queue: the file ``lua/store/queue/<queue>.lua`` stands for ``queue`` in the needs of a file.
    :param dupefilter: the file ``lua/store/filter/<dupefilter>.lua`` stands for ``filter``.
    """
    parts = _parts(name, queue, dupefilter)
    return b"local KEYS, ARGV = KEYS, ARGV\n%s\nreturn (function()\n%s\n%s\nend)()\n" % parts


#: The beginning of the names of our libraries in Redis.
LIBRARY = "scrapy_rq_sched_"


class Library(NamedTuple):
    """A library of functions for ``FUNCTION LOAD``, with one function of the same name.

    :param kind: the beginning of its name, which is the same for another version of the same script.
    """

    name: str
    kind: str
    text: bytes


#: A line that is a comment.
_COMMENT = re.compile(rb"^ *--.*\n", re.MULTILINE)
_LIBRARY = b"""#!lua name=%s
local KEYS, ARGV, run, begin_anew
local function make()
%s
local script = (function()
%s
return function()
%s
end
end)()
return function()
  for _, reset in ipairs(resets) do reset() end
end, script
end
redis.register_function('%s', function(keys, args)
  KEYS, ARGV = keys, args
  if run then begin_anew() else begin_anew, run = make() end
  return run()
end)
"""


@cache
def compose_library(name: str, queue: str, dupefilter: str) -> Library:
    """Return the script ``lua/<name>.lua`` as a library, for ``FUNCTION LOAD`` (Redis 7.0).

    Its functions and tables are made by the first call, and live on: making them takes a script a third of
    an exchange.
    """
    # The server keeps the text for good, and sends it to its replicas.
    parts = [_COMMENT.sub(b"", part) for part in _parts(name, queue, dupefilter)]
    kind = f"{LIBRARY}{name.rpartition('/')[2]}_{queue}_{dupefilter}_"
    digest = hashlib.sha1(b"\0".join([_LIBRARY, *parts])).hexdigest()  # noqa: S324 - a name, not a protection
    library = f"{kind}{digest[:12]}"
    return Library(library, kind, _LIBRARY % (library.encode(), *parts, library.encode()))
