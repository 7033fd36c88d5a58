"""The files of a crawl's items: what fails at one of them, and what two programs may do with one stream."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from scrapy_rq_sched.collect.item_file import ItemFile
from scrapy_rq_sched.collect.item_format import ItemFormat
from scrapy_rq_sched.errors import FrontierError
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.supervise import feeds, stream_lock
from scrapy_rq_sched.supervise.feeds import Feed, FeedWriter, Owner, unwritten
from scrapy_rq_sched.supervise.stream_lock import StreamLock

from ..support.crawl import wait_until
from ..support.item_files import Files, lines

pytestmark = pytest.mark.single("keys of a single server")

KEYS = Keys("pages")
Start = Callable[..., FeedWriter]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Files]:
    files = Files(tmp_path)
    yield files
    files.close()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def start(server: redis.Redis, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setattr(feeds, "AGAIN", 0.02)
    monkeypatch.setattr(feeds, "INTERVAL", 0.01)
    started: list[FeedWriter] = []

    def begin(*files: ItemFile, say: Callable[[str], None] = said.append) -> FeedWriter:
        writer = FeedWriter(server, KEYS, files, say)
        started.append(writer)
        writer.start()
        return writer

    yield begin
    for writer in started:
        writer._must_end.set()
        writer._thread.join()


def add(server: redis.Redis, file: ItemFile, *pages: str) -> None:
    """Let a worker store an item of each page."""
    for page in pages:
        fields = {"item": json.dumps({"page": page}), "id": f"1-{page}-0"}
        server.xadd(KEYS.feed(file.token), fields)  # type: ignore[arg-type]


def fail_at(monkeypatch: pytest.MonkeyPatch, path: Path, error: Exception) -> None:
    """Let each write to the file *path* fail."""
    move = ItemFile.add

    def add_or_fail(self: ItemFile, entries: Any) -> None:
        if self.path == path:
            raise error
        move(self, entries)

    monkeypatch.setattr(ItemFile, "add", add_or_fail)


def test_a_complete_file_leaves_nothing_in_redis(make: Files, start: Start, server: redis.Redis) -> None:
    file = make()
    writer = start(file)
    add(server, file, "a", "b")
    writer.end(is_complete=True)
    assert [line["page"] for line in lines(file)] == ["a", "b"]
    assert server.keys() == []
    assert make.names() == ["items.jsonl"]


def test_a_file_that_is_not_complete_keeps_its_stream_and_its_name(
    make: Files, start: Start, server: redis.Redis
) -> None:
    file = make()
    start(file).end(is_complete=False)
    assert server.hkeys(KEYS.feeds) == [file.token.encode()]
    assert make.names() == ["items.jsonl", "items.jsonl.progress"]


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), FrontierError("damaged"), ZeroDivisionError("a bug")],
    ids=repr,
)
def test_a_file_that_fails_does_not_stop_the_others(
    make: Files,
    start: Start,
    server: redis.Redis,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    bad, good = make("bad.jsonl"), make("good.jsonl")
    with monkeypatch.context() as context:
        fail_at(context, bad.path, error)
        writer = start(bad, good)
        add(server, bad, "a")
        wait_until(lambda: said)
        add(server, good, "a", "b")
        wait_until(lambda: len(lines(good)) == 2)
        writer.end(is_complete=True)
    assert make.names() == ["bad.jsonl", "bad.jsonl.progress", "good.jsonl"]
    assert server.hkeys(KEYS.feeds) == [bad.token.encode()]
    failed, whole = writer.feeds
    assert writer.advice(whole) == ""
    advice = writer.advice(failed)
    assert advice.startswith(f"1 item is not in {bad.path}: ")
    assert f"Nothing is lost: when this is mended, run: scrapy frontier items pages -o {bad.path}" in advice
    if not isinstance(error, ZeroDivisionError):
        assert len(said) == 1, "each problem is said once"
        assert said[0] == f"The items for {bad.path} cannot be written for now: {error}. They wait in Redis"


def test_a_disk_with_room_again_gets_its_items(
    make: Files, start: Start, server: redis.Redis, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make()
    with monkeypatch.context() as context:
        fail_at(context, file.path, OSError(28, "No space left on device"))
        writer = start(file)
        add(server, file, "a")
        wait_until(lambda: said)
    wait_until(lambda: lines(file))
    writer.end(is_complete=True)
    assert writer.advice(writer.feeds[0]) == ""


def test_an_output_on_the_same_full_disk_does_not_end_the_writer(
    make: Files, start: Start, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make()
    attempts: list[str] = []

    def say(line: str) -> None:
        attempts.append(line)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        fail_at(context, file.path, OSError(28, "No space left on device"))
        writer = start(file, say=say)
        add(server, file, "a")
        wait_until(lambda: attempts)
    wait_until(lambda: lines(file))
    writer.end(is_complete=True)
    assert make.names() == ["items.jsonl"]


def test_items_that_come_after_the_last_look_are_not_forgotten(
    make: Files, start: Start, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make()
    writer = start(file)
    wait_until(lambda: server.hexists(KEYS.feeds, file.token))
    monkeypatch.setattr(Feed, "move", lambda _: 0)
    add(server, file, "a")
    writer.end(is_complete=True)
    assert server.hkeys(KEYS.feeds) == [file.token.encode()]
    assert make.names() == ["items.jsonl", "items.jsonl.progress"]
    assert "1 item is not in " in writer.advice(writer.feeds[0])


def test_a_writer_that_was_not_started_completes_no_file(make: Files, server: redis.Redis) -> None:
    writer = FeedWriter(server, KEYS, [make()], print)
    writer.end(is_complete=True)
    assert make.names() == ["items.jsonl", "items.jsonl.progress"]


def test_a_file_that_is_deleted_meanwhile_is_said_with_the_command_for_the_rest(
    make: Files, start: Start, server: redis.Redis, said: list[str]
) -> None:
    file = make()
    writer = start(file)
    add(server, file, "a")
    wait_until(lambda: lines(file))
    file.path.unlink()
    add(server, file, "b")
    wait_until(lambda: said)
    writer.end(is_complete=True)
    advice = writer.advice(writer.feeds[0])
    assert advice.startswith(f"{file.path} was deleted while items were written. What was written to a file ")
    assert "cannot be recovered (1 item in this run). 1 item is still in Redis: move away " in advice
    assert advice.endswith(f"run: scrapy frontier items pages --feed {file.token} -o {file.path}")
    assert server.xlen(KEYS.feed(file.token)) == 1


def test_an_export_that_fails_is_said_with_where_the_items_are(
    make: Files, start: Start, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = make("bad.json", "json"), make("good.json", "json")
    export = ItemFormat.export

    def fail(self: ItemFormat, *arguments: Any) -> Any:
        if self._path == bad.path:
            raise AttributeError("an exporter of the project's own")
        return export(self, *arguments)

    monkeypatch.setattr(ItemFormat, "export", fail)
    writer = start(bad, good)
    add(server, bad, "a")
    add(server, good, "a")
    writer.end(is_complete=True)
    assert json.loads(good.path.read_text()) == [{"page": "a"}]
    advice = writer.advice(writer.feeds[0])
    assert advice.startswith(f"{bad.path} is not made: a bug")
    assert f"its items are in {bad.data}" in advice
    assert server.hkeys(KEYS.feeds) == [bad.token.encode()]


def test_the_first_batch_is_small_and_the_next_ones_grow(make: Files, server: redis.Redis) -> None:
    file = make()
    add(server, file, *map(str, range(200)))
    feed = Feed(server, KEYS, file)
    assert [feed.move() for _ in range(5)] == [10, 20, 40, 80, 50]


def test_an_item_that_is_for_another_file_is_passed(make: Files, start: Start, server: redis.Redis) -> None:
    quotes, authors = make("quotes.json", "json"), make("authors.jsonl")
    writer = start(quotes, authors)
    for file in (quotes, authors):
        for page, tokens in (
            ("q", quotes.token),
            ("a", authors.token),
            ("both", writer.tokens),
            ("none", ""),
        ):
            fields = {"item": json.dumps({"page": page}) + f"\n{tokens}", "id": f"1-{page}-0"}
            server.xadd(KEYS.feed(file.token), fields)  # type: ignore[arg-type]
    writer.end(is_complete=True)
    assert [item["page"] for item in json.loads(quotes.path.read_text())] == ["q", "both"]
    assert [line["page"] for line in lines(authors)] == ["a", "both"]
    assert [(feed.written, feed.file.passed) for feed in writer.feeds] == [(2, 2), (2, 2)]


def test_an_item_for_any_consumer_may_have_line_breaks(make: Files, server: redis.Redis) -> None:
    file = make()
    server.xadd(KEYS.items, {"item": '{\n"page": "a"\n}', "id": "1-a-0"})
    assert Feed(server, KEYS, file, KEYS.items).move() == 1
    assert lines(file) == [{"page": "a"}]


def test_the_advice_for_a_file_that_replaces_another_says_that_a_new_crawl_would_replace_it(
    make: Files, start: Start, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make(overwrites=True)
    monkeypatch.setattr(Feed, "move", lambda _: 0)
    writer = start(file)
    add(server, file, "a")
    writer.end(is_complete=True)
    (advice,) = map(writer.advice, writer.feeds)
    assert "Nothing is lost as long as no new crawl replaces the file: when this is mended, run: " in advice


# -- what others have written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [b"[" * 100_000, b"\xff", b"[]", b'{"host": "h"}', b"1"],
    ids=["deep", "bytes", "list", "part", "int"],
)
def test_an_owner_that_is_none_has_no_name(value: bytes) -> None:
    assert Owner.of(value) == ("an unknown host", "an unknown file")


def test_a_command_of_another_run_is_made_of_no_foreign_text(make: Files, server: redis.Redis) -> None:
    good = "0123456789abcdef"
    for token in (good, "$(reboot)", "0123456789abcdef\n", "*", "0123456789ABCDEF"):
        server.hset(KEYS.feeds, token, json.dumps({"host": "h\x1b[2J", "path": "/a\nforged"}))
        server.xadd(KEYS.feed(token), {"item": "{}"})
    (line,) = unwritten(server, KEYS, [])
    assert line.isprintable()
    assert line.endswith(f"scrapy frontier items pages --feed {good} -o items-{good}.jsonl")


def test_a_file_of_another_run_that_has_its_journal_is_named_in_the_command(
    make: Files, start: Start, server: redis.Redis
) -> None:
    file = make("my items.jsonl")
    start(file).end(is_complete=False)
    add(server, file, "a")
    (line,) = unwritten(server, KEYS, [])
    assert shlex.split(line)[-2:] == ["-o", str(file.path)]
    file.journal_path.unlink()
    (line,) = unwritten(server, KEYS, [])
    assert line.endswith(f" -o items-{file.token}.jsonl")


def test_a_path_in_a_command_is_quoted_for_a_shell(
    make: Files, start: Start, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make("it's $(reboot).jsonl")
    monkeypatch.setattr(Feed, "move", lambda _: 0)
    writer = start(file)
    add(server, file, "a")
    writer.end(is_complete=True)
    command = writer.advice(writer.feeds[0]).partition("run: ")[2]
    assert shlex.split(command)[-1] == str(file.path)


# -- two programs and one stream -----------------------------------------------------------------------

STREAM = KEYS.feed("0123456789abcdef")
LOCK = KEYS.stream_writer(STREAM)


def lock(server: redis.Redis) -> StreamLock:
    return StreamLock(server, KEYS, STREAM, Path("/crawls/items.jsonl"))


def test_a_second_program_is_refused_with_the_name_of_the_first(server: redis.Redis, said: list[str]) -> None:
    lock(server).acquire(said.append)
    with pytest.raises(FrontierError) as refused:
        lock(server).acquire(said.append)
    assert f"process {os.getpid()} on " in str(refused.value)
    assert "to /crawls/items.jsonl" in str(refused.value)
    assert said == []


def test_a_program_that_has_ended_leaves_the_stream_to_the_next_one(
    server: redis.Redis, said: list[str]
) -> None:
    first = lock(server)
    first.acquire(said.append)
    first.release()
    lock(server).acquire(said.append)
    first.release()  # it is no longer its own
    assert server.exists(LOCK)


def test_a_program_that_was_killed_on_this_machine_leaves_it_at_once(
    server: redis.Redis, redis_url: str, said: list[str]
) -> None:
    code = (
        "import os, signal, sys, pathlib, redis; from scrapy_rq_sched.keys import Keys; "
        "from scrapy_rq_sched.supervise.stream_lock import StreamLock; "
        "client = redis.Redis.from_url(sys.argv[1]); "
        "lock = StreamLock(client, Keys('pages'), sys.argv[2], pathlib.Path('/x')); "
        "lock.acquire(print); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, redis_url, STREAM], check=False)
    assert killed.returncode == -9
    assert server.pttl(LOCK) > 20_000
    begun = time.monotonic()
    lock(server).acquire(said.append)
    assert time.monotonic() - begun < 2
    assert said == []


def foreign(server: redis.Redis, milliseconds: int) -> None:
    """Let a program of another machine have the lock."""
    server.set(LOCK, json.dumps({"host": "far", "pid": 7, "path": "/far", "id": "1"}), px=milliseconds)


def test_the_lock_of_another_machine_is_waited_for_until_it_expires(
    server: redis.Redis, said: list[str]
) -> None:
    foreign(server, 1200)
    lock(server).acquire(said.append)
    assert said == [
        "The items of this file are moved by process 7 on far, to /far, which may have died. Waiting for at "
        "most 1 s"
    ]


def test_a_lock_that_another_machine_renews_is_refused(
    server: redis.Redis, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_lock, "LOOK", 0.05)
    foreign(server, 20_000)
    timer = threading.Timer(0.3, foreign, (server, 30_000))
    timer.start()
    try:
        with pytest.raises(FrontierError, match="process 7 on far, to /far"):
            lock(server).acquire(said.append)
    finally:
        timer.join()


def test_a_foreign_lock_that_never_expires_is_refused(server: redis.Redis, said: list[str]) -> None:
    server.set(LOCK, "[" * 100_000)
    with pytest.raises(FrontierError, match="are moved by another program"):
        lock(server).acquire(said.append)


def test_a_program_that_stood_still_moves_no_items_of_the_one_that_took_over(
    make: Files, server: redis.Redis, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make()
    add(server, file, "a")
    feed = Feed(server, KEYS, file)
    feed.lock.acquire(said.append)
    taken = KEYS.stream_writer(KEYS.feed(file.token))
    server.set(taken, json.dumps({"host": "far", "pid": 7, "path": "/far"}), px=30_000)
    monkeypatch.setattr(stream_lock, "RENEWAL", 0.0)
    with pytest.raises(FrontierError, match="process 7 on far, to /far"):
        feed.move()
    assert lines(file) == []
    server.delete(taken)  # it has ended
    assert feed.move() == 1


def test_a_writer_without_items_renews_its_lock(
    make: Files, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed(server, KEYS, make())
    assert feed.move() == 0
    taken = KEYS.stream_writer(feed.key)
    server.pexpire(taken, 5000)
    monkeypatch.setattr(stream_lock, "RENEWAL", 0.0)
    assert feed.move() == 0
    assert server.pttl(taken) > 20_000


def test_a_lock_that_redis_has_lost_is_taken_again(
    server: redis.Redis, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_lock, "RENEWAL", 0.0)
    own = lock(server)
    own.acquire(said.append)
    server.flushall()
    own.hold()
    assert server.exists(LOCK)


def test_a_full_redis_gives_the_lock_to_a_program_that_makes_room(
    server: redis.Redis, said: list[str]
) -> None:
    server.config_set("maxmemory", 1)
    try:
        own = lock(server)
        own.acquire(said.append)
        assert server.exists(LOCK)
    finally:
        server.config_set("maxmemory", 0)


def test_a_full_redis_is_drained(make: Files, start: Start, server: redis.Redis) -> None:
    file = make()
    add(server, file, "a", "b")
    server.config_set("maxmemory", 1)
    try:
        writer = start(file)
        wait_until(lambda: not server.xlen(KEYS.feed(file.token)))
    finally:
        server.config_set("maxmemory", 0)
    writer.end(is_complete=True)
    assert [line["page"] for line in lines(file)] == ["a", "b"]


def test_a_file_that_another_program_writes_now_is_not_one_of_an_earlier_run(
    make: Files, start: Start, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make()
    writer = start(file)
    wait_until(lambda: server.hexists(KEYS.feeds, file.token))
    moves_nothing = threading.Event()
    monkeypatch.setattr(Feed, "move", lambda _: moves_nothing.set() or 0)
    # A step that was under way is over then.
    assert moves_nothing.wait(10)
    add(server, file, "a")
    assert unwritten(server, KEYS, []) == []
    writer.end(is_complete=False)
    assert len(unwritten(server, KEYS, [])) == 1
