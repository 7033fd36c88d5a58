"""A neighbour has a worker's user for another spider of the same Redis, and harms nobody but itself."""

from __future__ import annotations

import inspect
import io
import json
import os
import pickle
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy import Spider
from scrapy.settings import Settings

from scrapy_rq_sched.codec.slot_rules import SlotRule
from scrapy_rq_sched.convert import Conversion
from scrapy_rq_sched.dashboard.frontiers import Frontiers
from scrapy_rq_sched.errors import FrontierError, FrontierMismatchError, InspectionError
from scrapy_rq_sched.frontier.messages import FORMAT, Push
from scrapy_rq_sched.inspect import Control, Export, Import, View, find_frontiers, own_keys
from scrapy_rq_sched.inspect.archive import ArchiveReader, Writer
from scrapy_rq_sched.inspect.entries import Reader
from scrapy_rq_sched.inspect.frontier_checks import check_frontier
from scrapy_rq_sched.inspect.operations.clear import clear
from scrapy_rq_sched.inspect.operations.failed import set_aside
from scrapy_rq_sched.inspect.operations.forget import forget
from scrapy_rq_sched.inspect.operations.seed_rules import SeedRules
from scrapy_rq_sched.inspect.operations.seeding import Few, Seeding
from scrapy_rq_sched.inspect.operations.waiting import Waiting
from scrapy_rq_sched.inspect.slots import Slots
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.serializers import serializer_name

from ..support.client import Client
from ..support.crawl import run_python
from ..support.topologies import with_login
from .test_convert import a_scheduler
from .test_security import SECRET, acl_rule

pytestmark = pytest.mark.single("its users")

SEED = "https://example.com/"


class Planted:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self._folder,)


@pytest.fixture
def neighbour(server: redis.Redis, redis_url: str) -> Iterator[redis.Redis]:
    """A client with the rights of a worker of the spider evil, as docs/security.md gives them."""
    rule = [word.replace("target:", "evil:") for word in acl_rule("worker")]
    server.execute_command("ACL", "SETUSER", *rule)
    client = redis.Redis.from_url(with_login(redis_url, "worker", SECRET))
    yield client
    client.close()
    server.execute_command("ACL", "DELUSER", "worker")


def frontier(redis_url: str, *arguments: str, stdin: str | None = None) -> Any:
    """Run ``scrapy frontier`` as the operator, who has all rights."""
    options = ("-s", f"REDIS_URL={redis_url}")
    return run_python(
        *("-m", "scrapy", "frontier", *arguments, *options),
        redis_url=redis_url,
        timeout=60,
        stdin=stdin,
        RECORD=os.devnull,
    )


# -- a name in Redis chooses no code -----------------------------------------------------------------


def planted(neighbour: redis.Redis, tmp_path: Path, serializer: str | None = "pickle") -> Path:
    """Return a folder that is made if the pickle runs, which the neighbour has put into its queue."""
    folder = tmp_path / "made"
    neighbour.zadd("evil:requests", {pickle.dumps({"url": Planted(folder)}): 0})
    if serializer is not None:
        neighbour.hset("evil:meta", "SCHEDULER_SERIALIZER", serializer)
    return folder


@pytest.mark.parametrize("options", [["--dry-run"], [], ["--set-aside"], ["--to", "msgpack"]])
@pytest.mark.parametrize("serializer", ["pickle", "scrapy_rq_sched.picklecompat", None])
def test_a_planted_pickle_does_not_run_when_the_operator_converts(
    redis_url: str, neighbour: redis.Redis, tmp_path: Path, serializer: str | None, options: list[str]
) -> None:
    folder = planted(neighbour, tmp_path, serializer)
    ended = frontier(redis_url, "convert", "evil", *options)
    assert not folder.exists()
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert "--from pickle" in ended.stderr
    assert "evil:meta" in ended.stderr


def test_the_same_pickle_runs_if_the_operator_names_pickle_after_a_warning(
    redis_url: str, neighbour: redis.Redis, tmp_path: Path
) -> None:
    folder = planted(neighbour, tmp_path)
    ended = frontier(redis_url, "convert", "evil", "--dry-run", "--from", "pickle")
    assert folder.is_dir()
    assert "runs any code" in ended.stderr.splitlines()[0]


def test_a_name_of_a_module_in_meta_imports_nothing(redis_url: str, neighbour: redis.Redis) -> None:
    neighbour.zadd("evil:requests", {b'{"url":"https://example.com/"}': 0})
    for name in ("this", "antigravity", "x" * 100_000, "a\x1b[2Jb\nc"):
        neighbour.hset("evil:meta", "SCHEDULER_SERIALIZER", name)
        ended = frontier(redis_url, "convert", "evil", "--dry-run")
        assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
        assert "Zen of Python" not in ended.stdout
        assert "\x1b" not in ended.stderr
        assert len(ended.stderr) < 2000
    assert "this" not in sys.modules
    with pytest.raises(FrontierError, match="evil:meta"):
        Conversion.from_settings(Settings({"REDIS_URL": redis_url}), "evil")
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "fields",
    [
        {"from": "pickle", "to": "json"},
        {"from": "json", "to": "pickle"},
        {"from": "this", "to": "json"},
        {"from": "json", "to": "this"},
        {"from": b"\xff", "to": b"\xfe"},
        {"from": "x" * 100_000, "to": "json"},
    ],
)
def test_a_planted_conversion_chooses_no_serializer(
    redis_url: str, neighbour: redis.Redis, tmp_path: Path, fields: dict[str, Any]
) -> None:
    folder = planted(neighbour, tmp_path, "json")
    neighbour.hset("evil:converting", mapping=fields)
    for options in (["--dry-run"], [], ["--set-aside"], ["--from", "json", "--to", "msgpack"]):
        ended = frontier(redis_url, "convert", "evil", *options)
        assert not folder.exists()
        assert "Zen of Python" not in ended.stdout
        if options != ["--from", "json", "--to", "msgpack"]:
            assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
            assert "evil:converting" in ended.stderr
            assert len(ended.stderr) < 2000


def test_an_interrupted_conversion_continues_if_the_operator_names_its_serializers(
    redis_url: str, server: redis.Redis
) -> None:
    server.zadd("evil:requests", {pickle.dumps({"url": SEED}): 0, b'{"url":"https://example.com/2"}': 0})
    server.hset("evil:converting", mapping={"from": "pickle", "to": "json", "left": 0, "length": 0})
    settings = Settings({"REDIS_URL": redis_url})
    assert Conversion.from_settings(settings, "evil", "pickle").run().changed == 1
    assert not server.exists("evil:converting")


def test_to_convert_into_pickles_runs_no_pickle_that_is_there(
    redis_url: str, neighbour: redis.Redis, tmp_path: Path
) -> None:
    folder = planted(neighbour, tmp_path, "json")
    neighbour.hset("evil:converting", mapping={"from": "json", "to": "pickle", "left": 0, "length": 0})
    ended = frontier(redis_url, "convert", "evil", "--from", "json", "--to", "pickle")
    assert not folder.exists()
    assert "1 already converted" in ended.stdout


def exported(serializer: str, *requests: bytes) -> bytes:
    """Return a file such as ``scrapy frontier export`` writes, with this serializer in its header."""
    meta = {"format": FORMAT, "SCHEDULER_SERIALIZER": serializer}
    writer = Writer({"spider": "evil", "time": "", "queue": "priority", "meta": meta, "counts": {}})
    lines = [writer.first()]
    if requests:
        lines.append(writer.line("waiting", [part for data in requests for part in (b"0", data)]))
    return b"".join([*lines, writer.last()])


@pytest.mark.parametrize("serializer", ["pickle", "this"])
def test_the_header_of_an_import_chooses_no_serializer(
    redis_url: str, server: redis.Redis, tmp_path: Path, serializer: str
) -> None:
    folder, file = tmp_path / "made", tmp_path / "evil.frontier"
    file.write_bytes(exported(serializer, pickle.dumps({"url": Planted(folder)})))
    ended = frontier(redis_url, "import", "pages", "--file", str(file))
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert "-s SCHEDULER_SERIALIZER" in ended.stderr
    assert not folder.exists()
    assert "Zen of Python" not in ended.stdout
    assert not server.keys("pages:*")


def test_an_import_of_pickles_is_accepted_if_the_settings_say_pickle(
    redis_url: str, server: redis.Redis, tmp_path: Path
) -> None:
    folder, file = tmp_path / "made", tmp_path / "evil.frontier"
    file.write_bytes(exported("pickle", pickle.dumps({"url": Planted(folder)})))
    ended = frontier(redis_url, "import", "pages", "--file", str(file), "-s", "SCHEDULER_SERIALIZER=pickle")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert server.zcard("pages:requests") == 1
    assert not folder.exists()


def test_a_worker_refused_because_of_a_planted_name_is_not_told_to_import_it(
    redis_url: str, neighbour: redis.Redis
) -> None:
    for name in ("this", "pickle; rm -rf ~"):
        neighbour.hset("evil:meta", "SCHEDULER_SERIALIZER", name)
        neighbour.sadd("evil:dupefilter", "a frontier with fingerprints binds its workers")
        with pytest.raises(FrontierMismatchError) as refusal:
            a_scheduler(
                redis_url,
                SCHEDULER_QUEUE_KEY="evil:requests",
                SCHEDULER_DUPEFILTER_KEY="evil:dupefilter",
                REDIS_START_URLS_KEY="evil:start_urls",
            )
        assert f"--from {name}" not in str(refusal.value)
        assert f"--from {shlex.quote(name)}" not in str(refusal.value)


# -- a name of a key in Redis reaches no other frontier ----------------------------------------------

#: The fields of meta in which keys are named, and the setting that confirms each.
FIELDS = {
    "dupefilter_key": ("prod:dupefilter", "SCHEDULER_DUPEFILTER_KEY=prod:dupefilter"),
    "start_urls_keys": (
        "evil:start_urls\nprod:start_urls",
        "REDIS_START_URLS_KEY=evil:start_urls,prod:start",
    ),
    "slot_states": ("prod:slots:state", "FRONTIER_SLOTS_KEY=prod:slots:state"),
    "places_key": ("prod:places", "FRONTIER_MAX_WORKERS_KEY=prod:places"),
}


def worker_of(server: redis.Redis, spider: str) -> Client:
    """Return a worker of *spider* whose frontier has a request in a slot, a seed and a failed seed."""
    worker = Client(server, "a", "priority", 30.0, 5, keys=Keys(spider)).open()
    entry = json.dumps({"url": SEED, "meta": {"download_slot": "example.com"}}).encode()
    worker.say(pushes=[Push("filter", "fp", 0, entry, "example.com")])
    server.rpush(f"{spider}:start_urls", SEED)
    failed = {"id": "a/1", "kind": "seed", "reason": "bad", "time": 1, "worker": "a", "data": SEED}
    server.rpush(f"{spider}:failed", json.dumps(failed))
    return worker


@pytest.fixture
def prod(server: redis.Redis, neighbour: redis.Redis) -> Callable[[], dict[bytes, Any]]:
    """Have the frontiers prod and evil, and return a function that returns all that prod's keys hold."""
    worker_of(server, "prod")
    server.hset("prod:slots:state:example.com", "blocked", "0")
    server.zadd("prod:places", {"w": 10**15})
    server.zadd("prod:queue", {b"{}": 0})
    worker_of(neighbour, "evil")

    def held() -> dict[bytes, Any]:
        return {key: server.dump(key) for key in server.scan_iter("prod:*")}

    return held


def evil(redis_url: str, **settings: Any) -> View:
    return View.from_settings(Settings({"REDIS_URL": redis_url, **settings}), "evil")


def seed(view: View) -> None:
    seeding = Seeding(view, Few([SEED]), SeedRules(view))
    seeding.check()
    seeding.begin()
    seeding.push()


def imported(view: View) -> None:
    list(Import(view, ArchiveReader(io.BytesIO(exported("json")))).steps())


#: Every change by a function, and its arguments as a command.
CHANGES: dict[str, tuple[Callable[[View], Any], list[str]]] = {
    "clear": (lambda view: clear(view, force=True), ["clear", "evil", "--force", "--yes"]),
    "seed": (seed, ["seed", "evil", SEED]),
    "forget": (lambda view: forget(view, ["fp"]), ["forget", "evil", SEED]),
    "requeue": (lambda view: set_aside(view, again=True)[0].requeue(), ["failed", "evil", "--requeue"]),
    "forget failed": (
        lambda view: set_aside(view, changes=True)[0].forget(),
        ["failed", "evil", "--forget"],
    ),
    "block": (
        lambda view: Slots(view).block("example.com", 60),
        ["slots", "evil", "block", "example.com", "10m"],
    ),
    "unblock": (lambda view: Slots(view).unblock("example.com"), ["slots", "evil", "unblock", "example.com"]),
    "set": (
        lambda view: Slots(view).set("example.com", SlotRule("example.com", delay=2.0)),
        ["slots", "evil", "set", "example.com", "delay=2"],
    ),
    "reset": (lambda view: Slots(view).reset("example.com"), ["slots", "evil", "reset", "example.com"]),
    "remove": (lambda view: list(Waiting(view).remove(lambda _: True)), ["remove", "evil", "*"]),
    "reprioritize": (
        lambda view: list(Waiting(view).reprioritize(lambda _: True, 5)),
        ["reprioritize", "evil", "5", "*"],
    ),
    "export": (lambda view: list(Export(view).lines()), ["export", "evil"]),
    "import": (imported, ["import", "evil"]),
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_refuses_a_key_of_another_frontier_that_meta_names(
    redis_url: str, neighbour: redis.Redis, prod: Callable[[], Any], change: str, field: str
) -> None:
    key, option = FIELDS[field]
    neighbour.hset("evil:meta", field, key)
    before = prod()
    with pytest.raises(InspectionError, match=re.escape(f"-s {option}")) as refusal:
        CHANGES[change][0](evil(redis_url))
    assert "Nothing was changed" in str(refusal.value)
    assert "'evil:meta'" in str(refusal.value)
    assert prod() == before


@pytest.mark.parametrize("change", CHANGES)
def test_a_command_refuses_a_key_of_another_frontier_in_one_line(
    redis_url: str, server: redis.Redis, neighbour: redis.Redis, prod: Callable[[], Any], change: str
) -> None:
    neighbour.hset(
        "evil:meta", mapping={"start_urls_keys": "prod:start_urls", "dupefilter_key": "prod:queue"}
    )
    before, own = prod(), server.dump("evil:requests:slot:example.com")
    data = exported("json").decode() if change == "import" else None
    ended = frontier(redis_url, *CHANGES[change][1], stdin=data)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "-s SCHEDULER_DUPEFILTER_KEY=prod:queue -s REDIS_START_URLS_KEY=prod:start_urls" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert prod() == before
    assert server.dump("evil:requests:slot:example.com") == own


def test_a_key_that_the_settings_name_is_used(
    redis_url: str, server: redis.Redis, neighbour: redis.Redis, prod: Callable[[], Any]
) -> None:
    neighbour.hset("evil:meta", "start_urls_keys", "prod:start_urls")
    ended = frontier(redis_url, "seed", "evil", SEED, "-s", "REDIS_START_URLS_KEY=prod:start_urls")
    assert ended.returncode == 0, ended.stderr
    assert server.llen("prod:start_urls") == 2


def test_a_key_below_the_prefix_is_used_unless_another_frontier_has_it(
    redis_url: str, server: redis.Redis, neighbour: redis.Redis
) -> None:
    worker_of(neighbour, "evil")
    neighbour.hset("evil:meta", "start_urls_keys", "evil:eu:start_urls")
    seed(evil(redis_url))
    assert server.llen("evil:eu:start_urls") == 1
    worker_of(server, "evil:eu")
    with pytest.raises(InspectionError, match="REDIS_START_URLS_KEY=evil:eu:start_urls"):
        seed(evil(redis_url))
    server.rpush("evil:queue", "x")
    neighbour.hset("evil:meta", "start_urls_keys", "evil:queue")
    seed(evil(redis_url))
    server.hset("evil:queue:frontier:meta", "format", FORMAT)
    with pytest.raises(InspectionError, match="REDIS_START_URLS_KEY=evil:queue"):
        seed(evil(redis_url))


def test_workers_can_be_paused_although_meta_names_keys_of_another_frontier(
    redis_url: str, neighbour: redis.Redis, prod: Callable[[], Any]
) -> None:
    neighbour.hset("evil:meta", mapping={field: key for field, (key, _) in FIELDS.items()})
    before = prod()
    assert Control(evil(redis_url)).pause() == 1
    assert prod() == before


def test_a_planted_list_of_cleared_slots_deletes_nothing_of_another_frontier(
    redis_url: str, server: redis.Redis, neighbour: redis.Redis, prod: Callable[[], Any]
) -> None:
    before = prod()
    neighbour.rpush("evil:slots:cleared", "prod:queue", "prod:slots", "evil:slots", "evil:slots:clearedprod")
    worker_of(neighbour, "evil")
    clear(evil(redis_url), force=True)
    assert prod() == before
    assert not server.exists("evil:slots:cleared")
    assert not list(server.scan_iter("evil:requests*"))


def test_a_frontier_that_names_the_queue_of_another_is_not_found(
    redis_url: str, neighbour: redis.Redis, prod: Callable[[], Any]
) -> None:
    neighbour.hset("evil:meta", mapping={"spider": "prod", "requests_key": "prod:queue"})
    found = find_frontiers(Settings({"REDIS_URL": redis_url}))
    assert [view.keys.requests for view in found] == ["prod:requests"]


class Trusting(Spider):
    name = "pages"
    custom_settings = {"SCHEDULER_SERIALIZER": "pickle"}


def test_a_frontier_that_claims_a_spider_is_not_read_with_the_pickles_of_its_class(
    redis_url: str, neighbour: redis.Redis
) -> None:
    worker_of(neighbour, "evil")
    neighbour.hset("evil:meta", mapping={"spider": "pages", "SCHEDULER_SERIALIZER": "pickle"})
    (found,) = find_frontiers(Settings({"REDIS_URL": redis_url}))
    with pytest.raises(InspectionError, match="may run code"):
        found.of_spider(Trusting).serializer  # noqa: B018 - raises


@pytest.fixture
def trusting(redis_url: str) -> Settings:
    """The settings of a project whose own frontiers have pickles, as after a move from scrapy-redis."""
    settings = Settings({"REDIS_URL": redis_url})
    settings.set("SCHEDULER_SERIALIZER", "pickle", "project")
    return settings


@pytest.mark.parametrize("serializer", ["pickle", None])
def test_a_planted_pickle_does_not_run_in_a_project_that_uses_pickle(
    trusting: Settings, neighbour: redis.Redis, tmp_path: Path, serializer: str | None
) -> None:
    worker_of(neighbour, "evil")
    neighbour.hdel("evil:meta", "SCHEDULER_SERIALIZER")
    folder = planted(neighbour, tmp_path, serializer)
    entries = neighbour.zrange("evil:requests", 0, -1)
    frontiers = Frontiers(trusting)
    views = [*find_frontiers(trusting), frontiers.view("evil"), View.from_settings(trusting, "evil")]
    assert len(views) == 3
    for view in views:
        assert view is not None
        list(check_frontier(view))
        with suppress(InspectionError):
            assert [Reader(view).request(entry).url for entry in entries] == [""]
        set_aside(view)
    assert not folder.exists()


def test_the_pickles_of_a_spider_of_the_project_are_read(trusting: Settings, neighbour: redis.Redis) -> None:
    neighbour.zadd("evil:requests", {pickle.dumps({"url": "http://a.test/"}): 0})
    view = View.from_settings(trusting, "evil", Trusting)
    assert serializer_name(view.serializer) == "pickle"


def test_pickles_are_read_if_the_user_names_the_frontier_and_the_serializer(trusting: Settings) -> None:
    assert serializer_name(View.from_settings(trusting, "evil").serializer) == "json"
    trusting.set("SCHEDULER_SERIALIZER", "pickle", "cmdline")
    assert serializer_name(View.from_settings(trusting, "evil").serializer) == "pickle"


#: The scripts of inspect/ that use no key that meta names, or that only read.
READING = {"control", "deny", "doctor", "history", "pools", "read_slots"}
#: The scripts of inspect/ after a check of the keys, each with the function or class that makes the check.
CHECKED = {
    "clear": clear,
    "sweep": clear,
    "forget": forget,
    "rewrite": Waiting,
    "sift": Waiting,
    "seed": Seeding,
    "slot": Slots,
    "export/begin": Export,
    "export/end": Export,
    "import/begin": Import,
    "import/step": Import,
    "import/compact": Import,
    "import/back": Import,
    "import/pools": Import,
    "import/end": Import,
}


def test_every_script_that_changes_a_frontier_comes_after_a_check_of_its_keys() -> None:
    folder = Path(own_keys.__file__).parent
    text = "".join(path.read_text() for path in folder.rglob("*.py"))
    assert set(re.findall(r'register\([\w.]+, "([^"]+)"', text)) == READING | set(CHECKED)
    for what in CHECKED.values():
        assert "own_keys.require(" in inspect.getsource(what)
