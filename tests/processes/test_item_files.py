"""The file of a crawl's items, whatever befalls its disk, its name, or the two commands that write it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shlex
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ..project.crawls.graph import page_url
from ..support.crawl import wait_until
from ..support.terminal import Terminal, ended

pytestmark = pytest.mark.single("a fleet on one machine; its Redis does not matter")

PAGES = 200
ALL = {page_url(number) for number in range(PAGES)}
SLOW = ("-s", "GRAPH_LATENCY=0.05", "-s", "CONCURRENT_REQUESTS=2", "-s", "FRONTIER_LEASE_TIMEOUT=2")
NAMES = ["items.jsonl", pytest.param("items.csv", marks=pytest.mark.long)]
CRAWL = ("pages", "-s", f"GRAPH_PAGES={PAGES}", *SLOW, "-w", "2")


@pytest.fixture
def terminal(tmp_path: Path, redis_url: str) -> Iterator[Terminal]:
    made = Terminal(tmp_path, redis_url)
    yield made
    made.stop()


class FullDisk:
    """Lets each write of a process to a file fail, as on a full disk, until it has room again."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._pid = process.pid
        self._before = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (1, self._before[1]))

    def make_room(self) -> None:
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, self._before)


def commands(said: str) -> list[list[str]]:
    """Return the arguments of each ``scrapy frontier items`` that a line suggests."""
    return [shlex.split(found) for found in re.findall(r"run: scrapy frontier items (.*)", said)]


# -- a full disk ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.long
def test_a_disk_that_is_full_for_a_while_costs_no_item(terminal: Terminal, name: str) -> None:
    process = terminal.start(*CRAWL, "-o", name)
    wait_until(lambda: len(terminal.events("parsed")) > 30)
    disk = FullDisk(process)
    done = len(terminal.events("parsed"))
    wait_until(lambda: len(terminal.events("parsed")) > done + 50)
    disk.make_room()
    code, said = ended(process)
    assert code == 0, said
    assert said.count("cannot be written for now: ") == 1
    assert said.count("supervisor.log cannot be written: ") == 1
    text = (terminal.folder / name).read_text()
    assert Counter(re.findall(r"http://graph\.test/\d+", text)) == dict.fromkeys(ALL, 1)
    assert [path.name for path in terminal.folder.glob("items*")] == [name]


@pytest.mark.long
@pytest.mark.parametrize("flag", ["-o", "-O"])
@pytest.mark.parametrize("name", NAMES)
def test_a_disk_that_stays_full_leaves_the_items_to_the_command_that_is_named(
    terminal: Terminal, server: redis.Redis, name: str, flag: str
) -> None:
    process = terminal.start(*CRAWL, flag, name)
    wait_until(lambda: len(terminal.events("parsed")) > 30)
    FullDisk(process)
    code, said = ended(process)
    assert code == 1, said
    assert "The crawl of spider pages is finished" in said
    assert "Traceback" not in said
    assert ("as long as no new crawl replaces the file" in said) is (flag == "-O")
    (command,) = commands(said)
    code, said = terminal.run(*command, command="items")
    assert code == 0, said
    text = (terminal.folder / name).read_text()
    assert Counter(re.findall(r"http://graph\.test/\d+", text)) == dict.fromkeys(ALL, 1)
    assert server.keys("pages:feed*") == []


@pytest.mark.long
def test_an_export_that_fails_is_said_and_made_by_the_command_that_is_named(terminal: Terminal) -> None:
    spool = terminal.folder / "items.csv.items"
    in_the_way = terminal.folder / "items.csv.partial"
    in_the_way.mkdir()
    code, said = terminal.run(*CRAWL, "-o", "items.csv")
    assert code == 1, said
    assert "were written to" not in said
    assert f"{terminal.folder}/items.csv is not made: " in said
    assert f"its items are in {spool}" in said
    in_the_way.rmdir()
    (command,) = commands(said)
    assert terminal.run(*command, command="items")[0] == 0
    text = (terminal.folder / "items.csv").read_text()
    assert Counter(re.findall(r"http://graph\.test/\d+", text)) == dict.fromkeys(ALL, 1)


@pytest.mark.long
def test_the_command_for_items_says_that_the_disk_is_full_and_goes_on_if_it_follows(
    terminal: Terminal, server: redis.Redis
) -> None:
    for number in range(3):
        server.xadd("pages:items", {"item": json.dumps({"url": page_url(number)}), "id": f"1-{number}-0"})
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, -1)); "
    items = "from scrapy.cmdline import execute; execute()"
    # The file is there, and nearly as large as a file may be. -B: no half of a module's bytecode is written.
    terminal.items.write_text("x" * 29_998 + "\n")
    process = terminal.start_python(
        "-B", "-c", full + items, "frontier", "items", "pages", "-o", "items.jsonl"
    )
    code, said = ended(process)
    assert code == 1
    assert re.fullmatch(
        r"scrapy frontier: The items cannot be written to .*items.jsonl: .*File too large.*\. What is not "
        r"written stays in Redis\. When this is mended, run the command again\n",
        said,
    )
    assert server.xlen("pages:items") == 3
    server.set("pages:finished", "1")
    follow = ("frontier", "items", "pages", "-o", "items.jsonl", "--follow")
    process = terminal.start_python("-B", "-c", full + items, *follow)
    assert process.stdout is not None
    met = ""
    while "File too large" not in met:
        line = process.stdout.readline()
        assert line, met
        met += line
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    code, said = ended(process)
    assert code == 0, said
    assert "3 items were added to" in said


# -- a file that another program touches -----------------------------------------------------------------


@pytest.mark.long
def test_a_file_that_is_deleted_while_the_crawl_runs_is_said_and_the_rest_is_kept(terminal: Terminal) -> None:
    process = terminal.start(*CRAWL, "-o", "items.jsonl")
    wait_until(lambda: len(terminal.found()) > 30)
    terminal.items.unlink()
    code, said = ended(process)
    assert code == 1, said
    assert "items.jsonl was deleted while items were written" in said
    assert "cannot be recovered" in said
    (terminal.folder / "items.jsonl.progress").unlink()
    (command,) = commands(said)
    assert terminal.run(*command, command="items")[0] == 0
    (left,) = re.findall(r"(\d+) items are still in Redis", said)
    assert len(terminal.found()) == int(left)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_journal_that_is_deleted_while_the_crawl_runs_is_no_silent_success(
    terminal: Terminal, name: str
) -> None:
    process = terminal.start(*CRAWL, "-o", name)
    wait_until(lambda: len(terminal.events("parsed")) > 30)
    (terminal.folder / f"{name}.progress").unlink()
    code, said = ended(process)
    assert code == 1, said
    assert f"{name}.progress was deleted while items were written" in said
    assert "Traceback" not in said


def test_a_foreign_journal_is_refused_before_the_crawl_and_nothing_is_left(terminal: Terminal) -> None:
    (terminal.folder / "items.csv.progress").write_text("x" * 9000)
    code, said = terminal.run(*CRAWL, "-o", "items.jsonl", "-o", "items.csv")
    assert code == 1
    assert re.fullmatch(
        r"(.*\n)?scrapy frontier: .*items.csv.progress is not a journal of this package, .* Move it away, or "
        r"write to another file\n",
        said,
    )
    assert not terminal.events("opened")
    assert [path.name for path in terminal.folder.glob("items*")] == ["items.csv.progress"]


def test_an_array_to_which_nothing_can_be_appended_is_refused_before_the_crawl(terminal: Terminal) -> None:
    (terminal.folder / "items.json").write_text('{"url": "of yesterday"}')
    code, said = terminal.run(*CRAWL, "-o", "other.jsonl", "-o", "items.json")
    assert code == 1
    assert "it must be a list of objects, not a dict. Use -O to replace it" in said
    assert not terminal.events("opened")
    assert [path.name for path in terminal.folder.iterdir() if "json" in path.name] == ["items.json"]


# -- which file -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_machine_that_joins_replaces_a_file_of_its_own_that_is_complete(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "second").mkdir()
    second = Terminal(tmp_path / "second", terminal.redis_url)
    second.items.write_text('{"url": "of yesterday"}\n')
    many = (*CRAWL, "-s", "GRAPH_PAGES=800", "-O", "items.jsonl")
    process = terminal.start(*many)
    wait_until(lambda: len(terminal.events("parsed")) > 20)
    try:
        code, said = second.run(*many)
    finally:
        second.stop()
    assert code == 0, said
    code, said = ended(process)
    assert code == 0, said
    assert second.found()
    assert terminal.found() + second.found() == {page_url(number): 1 for number in range(800)}


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_crawl_of_pages_without_items_leaves_the_file_to_which_the_next_one_appends(
    terminal: Terminal, server: redis.Redis, name: str
) -> None:
    path = terminal.folder / name
    path.write_text('{"url": "of yesterday"}\n' if name == "items.jsonl" else "url\nof yesterday\n")
    process = terminal.start("graph", "-s", "GRAPH_PAGES=500", *SLOW, "-w", "1", "-O", name)
    wait_until(lambda: len(terminal.events("parsed")) > 5)
    process.kill()
    process.wait()
    wait_until(lambda: not terminal.workers())
    code, said = terminal.run("graph", "-o", name, command="items")
    assert code == 0, said
    assert "of yesterday" in path.read_text()


# -- serializers, and characters --------------------------------------------------------------------------


@pytest.mark.long
def test_a_serializer_of_redis_pipeline_has_no_effect_on_the_items_of_a_file(terminal: Terminal) -> None:
    code, said = terminal.run(*CRAWL, "-o", "items.jsonl", "-s", "REDIS_ITEMS_SERIALIZER=pickle.dumps")
    assert code == 0, said
    assert terminal.found() == dict.fromkeys(ALL, 1)


ODD = """
import scrapy

class OddSpider(scrapy.Spider):
    name = "oddtexts"

    async def start(self):
        yield scrapy.Request("http://graph.test/1")

    def parse(self, response):
        for text in ("half: \\ud800", "pair: \\U0001f600", "caf\\xe9", "\\x00\\u2028<&>"):
            yield {"text": text, "n": 1.50, "nested": {"a": [None, True]}}
"""


@pytest.mark.parametrize(
    "setting",
    [
        (),
        pytest.param(("-s", "FEED_EXPORT_ENCODING=utf-8"), marks=pytest.mark.long),
        pytest.param(("-s", "FEED_EXPORT_ENCODING=latin-1"), marks=pytest.mark.long),
    ],
    ids=str,
)
@pytest.mark.long
def test_the_file_of_one_page_is_that_of_scrapy_byte_for_byte(
    terminal: Terminal, setting: tuple[str, ...]
) -> None:
    (terminal.folder / "crawls" / "oddtexts.py").write_text(ODD)
    settings = ("-s", "SPIDER_MODULES=crawls.oddtexts", *setting)
    code, said = terminal.run("oddtexts", *settings, "-w", "1", "-O", "items.jsonl")
    assert code == 0, said
    assert "This is a bug" not in said
    plain = (*settings, "-s", "ADDONS={}", "-O", "plain.jsonl")
    code, said = ended(terminal.start_python("-m", "scrapy", "crawl", "oddtexts", *plain))
    assert code == 0, said
    expected = (terminal.folder / "plain.jsonl").read_bytes()
    assert expected
    assert terminal.items.read_bytes() == expected


# -- the same command once more ------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-o", pytest.param("-O", marks=pytest.mark.long)])
@pytest.mark.parametrize("with_workers", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_command_that_was_killed_at_the_end_of_its_crawl_has_each_item_once(
    terminal: Terminal, server: redis.Redis, flag: str, with_workers: bool
) -> None:
    command = ("pages", "-s", "GRAPH_PAGES=60", *SLOW, "-w", "2", flag, "items.jsonl")
    process = terminal.start(*command)
    workers: set[int] = set()

    def is_finished() -> bool:
        workers.update(children_of(process.pid))
        return bool(server.exists("pages:finished") or server.hexists("pages:meta", "finished"))

    wait_until(is_finished)
    process.kill()
    process.communicate()
    for pid in workers if with_workers else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    code, said = terminal.run(*command)
    assert code == 0, said
    assert terminal.found() == Counter(page_url(number) for number in range(60))
    assert [path.name for path in terminal.folder.glob("items*")] == ["items.jsonl"]


def children_of(pid: int) -> list[int]:
    """Return the process IDs of the workers of a command."""
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


# -- scrapy frontier items ----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_command_that_follows_waits_for_a_crawl_that_has_not_begun(terminal: Terminal) -> None:
    process = terminal.start("pages", "-o", "items.jsonl", "--follow", command="items")
    assert process.stdout is not None
    assert process.stdout.readline() == "The crawl of spider 'pages' has not begun. Waiting for it\n"
    code, said = terminal.run(*CRAWL, "-s", "FRONTIER_ITEMS=stream")
    assert code == 0, said
    code, said = ended(process)
    assert code == 0, said
    assert "The crawl of spider 'pages' has begun. Its items are written as they come" in said
    assert terminal.found() == dict.fromkeys(ALL, 1)


@pytest.mark.long
def test_a_stream_with_a_writer_is_refused_to_another_command(
    terminal: Terminal, server: redis.Redis
) -> None:
    process = terminal.start(*CRAWL, "-s", "GRAPH_LATENCY=0.4", "-o", "items.jsonl")
    wait_until(lambda: terminal.found())
    token = server.hkeys("pages:feeds")[0].decode()  # type: ignore[union-attr]
    code, said = terminal.run("pages", "--feed", token, "-o", "other.jsonl", command="items")
    assert code == 1
    assert f"are moved by another program: process {process.pid} on " in said
    assert f", to {terminal.items}. Wait until it ends, or end it" in said
    assert not list(terminal.folder.glob("other*"))
    assert ended(process)[0] == 0
    assert terminal.found() == dict.fromkeys(ALL, 1)
    assert server.keys("pages:feed*") == []


@pytest.mark.parametrize("token", ["x", "*", "0123456789abcdeF", "$(reboot)"])
def test_a_token_that_is_none_is_refused(terminal: Terminal, token: str) -> None:
    code, said = terminal.run("pages", "--feed", token, "-o", "items.jsonl", command="items")
    assert code == 1
    assert "--feed must be 16 hexadecimal digits" in said
    assert not terminal.items.exists()
