"""The Lua scripts: each is made of all that it needs, and has room for more."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
import redis

from scrapy_rq_sched.frontier import scripts
from scrapy_rq_sched.frontier.scripts.__main__ import main, tree

#: Lua allows 200 local variables in a chunk: so many must be free, for the next idea.
SPARE = 80
LONGEST_FILE = 300
LONGEST_FUNCTION = 60

FOLDER = Path(str(files("scrapy_rq_sched.frontier.lua")))
NAMES = sorted(file.relative_to(FOLDER).with_suffix("").as_posix() for file in FOLDER.rglob("*.lua"))
#: What stands for several files, by the name with which it is needed.
VARIANTS = {
    "queue": ["fifo", "lifo", "custom", "priority"],
    "filter": ["exact", "compact"],
}


def all_needs(name: str) -> set[str]:
    """Return what a Lua file needs, and all that these need, but for what stands for several."""
    found = set()
    for needed in scripts.needs(name):
        found |= {needed} | (set() if needed in VARIANTS else all_needs(needed))
    return found


NEEDED = {needed for name in NAMES for needed in scripts.needs(name)}
#: Those that Redis is given: nothing needs them, and they are no variant of a part.
STEPS = [name for name in NAMES if name not in NEEDED and not name.startswith("store/")]
SCRIPTS = [
    (name, queue, dupefilter)
    for name in STEPS
    for queue in (VARIANTS["queue"] if "queue" in all_needs(name) else [""])
    for dupefilter in (VARIANTS["filter"] if "filter" in all_needs(name) else [""])
]


def test_the_scripts_are_all_there() -> None:
    assert all(name.startswith("scripts/") for name in STEPS)
    assert len(SCRIPTS) > 50


@pytest.mark.single("a Cluster is asked by its own connections")
@pytest.mark.parametrize(("name", "queue", "dupefilter"), SCRIPTS)
def test_a_script_has_local_variables_to_spare(
    server: redis.Redis, name: str, queue: str, dupefilter: str
) -> None:
    spare = "".join(f"local spare_{number}\n" for number in range(SPARE))
    assert server.script_load(spare.encode() + scripts.compose(name, queue, dupefilter))


def test_a_script_with_too_many_local_variables_is_noticed(server: redis.Redis) -> None:
    with pytest.raises(redis.ResponseError, match="more than 200 local variables"):
        server.script_load("".join(f"local spare_{number}\n" for number in range(201)))


@pytest.mark.parametrize("name", NAMES)
def test_a_lua_file_is_read_at_a_glance(name: str) -> None:
    lines = scripts.part(name).decode().splitlines()
    assert len(lines) <= LONGEST_FILE
    begun: int | None = None
    for number, line in enumerate(lines):
        if line.startswith(("function ", "local function ")):
            begun = number
        elif line == "end" and begun is not None:
            assert number - begun < LONGEST_FUNCTION, f"line {begun + 1}"
            begun = None


VARIED = ("store/queue/", "store/filter/")
#: The names that modules have in the scripts, and what says that they are needed.
MODULES = {
    module[1].decode(): module[1].decode() if name.startswith(VARIED) else name
    for name in NAMES
    if name not in STEPS and (module := scripts.RETURNS.search(scripts.part(name)))
}


def used_modules(name: str) -> set[str]:
    """Return what says that the modules are needed that a Lua file uses, but for itself."""
    code = re.sub(r"--.*|'[^'\n]*'|\"[^\"\n]*\"", "", scripts.part(name).decode())
    used = set()
    for module, needed in MODULES.items():
        file = needed if needed not in VARIANTS else f"store/{needed}/{VARIANTS[needed][0]}"
        is_function = f"local function {module}(" in scripts.part(file).decode()
        if re.search(rf"(?<![\w.]){module}{'[(]' if is_function else '[.]'}", code):
            used.add(needed)
    return used - {name, name.split("/")[1] if name.startswith(VARIED) else name}


@pytest.mark.parametrize("name", NAMES)
def test_a_lua_file_names_all_that_it_needs_and_nothing_else(name: str) -> None:
    assert used_modules(name) == set(scripts.needs(name)) - {"helpers", "keys"}


#: Variables that live on from one call of the exchange to the next.
LASTING = {"resets"}


def plain(text: bytes) -> bytes:
    """Return Lua code without the room that modules' tables have for their functions."""
    return re.sub(rb"(\w+ = nil, )+", b"", text)


@pytest.mark.parametrize(("name", "queue", "dupefilter"), SCRIPTS)
def test_a_script_leaves_room_for_a_few_more_shared_names(name: str, queue: str, dupefilter: str) -> None:
    shared, _, modules = scripts.compose(name, queue, dupefilter).partition(b"\nreturn (function()\n")
    declared = re.findall(rb"^local (?:function )?([\w, ]+?)(?: =|\(|$)", shared, re.MULTILINE)
    names = {name.strip() for names in declared for name in names.split(b",")}
    used = set(re.findall(rb"\b\w+\b", re.sub(rb"--.*", b"", modules)))
    # Lua permits 60 variables of outer blocks in a function; beyond, no script could be loaded.
    assert len(names & used) <= 56


def changed_state(name: str) -> set[str]:
    """Return the variables of a Lua file, outside its functions, that its functions set."""
    code = re.sub(r"--.*|'[^'\n]*'", "", scripts.part(name).decode())
    declared = re.findall(r"^local ([\w, ]+?)(?: =.*)?$", code, re.MULTILINE)
    names = {each.strip() for names in declared for each in names.split(",")}
    inside = "\n".join(line for line in code.splitlines() if re.match(r"  (?!.*\blocal\b)", line))
    return {each for each in names if re.search(rf"(?<![\w.]){each}(?:\[.*\])?(?:, [\w.]+)* = ", inside)}


@pytest.mark.parametrize("name", sorted(all_needs("scripts/exchange")))
def test_a_module_of_the_exchange_resets_its_state(name: str) -> None:
    """As a function of Redis, the exchange lives on: what one call leaves, the next one finds."""
    files = [f"store/{name}/{variant}" for variant in VARIANTS[name]] if name in VARIANTS else [name]
    for file in files:
        code = scripts.part(file).decode()
        resets = "".join(re.findall(r"at_begin\(function\(\)(.*?)end\)", code, re.DOTALL))
        if not code.endswith("-- of each call\n"):
            missing = {each for each in changed_state(file) if not re.search(rf"\b{each}\b", resets)}
            assert not missing - LASTING


def test_a_part_that_several_need_is_there_once() -> None:
    text = plain(scripts.compose("scripts/exchange", "fifo", "compact"))
    assert text.count(scripts.part("keys")) == 1
    assert text.count(scripts.part("store/leases")) == 1


@pytest.mark.parametrize(("name", "queue", "dupefilter"), SCRIPTS)
def test_the_tree_of_a_script_has_each_file_of_the_script_once(
    name: str, queue: str, dupefilter: str
) -> None:
    files = [node.file for node in tree(name, queue, dupefilter) if node.lines]
    text = plain(scripts.compose(name, queue, dupefilter))
    assert sorted(files) == [file for file in NAMES if plain(scripts.part(file)) in text]
    assert files[0] == name


def test_the_tree_of_a_script_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["filter_step"])
    rows = [line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [(file, lines.isdigit()) for file, lines in rows] == [
        ("scripts/filter_step", True),
        ("  keys", True),
        ("    helpers", True),
        ("  store/seen", True),
        ("    keys", False),
        ("  store/filter/exact", True),
        ("    keys", False),
        ("5 files", True),
    ]
    counts = [int(lines) for _, lines in rows if lines.isdigit()]
    assert sum(counts[:-1]) == counts[-1]


def test_the_tree_of_an_unknown_script_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["exchnge"])
    assert "frontier/lua/scripts has no file exchnge.lua" in capsys.readouterr().err


def test_the_doctor_tries_every_command_of_a_workers_scripts() -> None:
    worker_steps = [
        (name, queue, dupefilter)
        for name, queue, dupefilter in SCRIPTS
        if name in [f"scripts/{name}" for name in ("exchange", "open", "leave", "filter_step")]
    ]
    text = b"".join(scripts.compose(*step) for step in worker_steps).decode()
    called = set(re.findall(r"(?:redis\.p?call|filter\.call|\bpop)\('([A-Z]+)'", text))
    for ends in re.findall(r"= list_queue\((.*)\)", text):
        called.update(re.findall(r"[A-Z]+", ends))
    tried = set(re.findall(r"'([A-Z]+)'", scripts.part("scripts/doctor").decode()))
    assert len(called) > 30
    assert called <= tried
