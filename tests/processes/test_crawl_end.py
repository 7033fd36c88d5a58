"""What ``scrapy frontier crawl`` says at the end: the work of the fleet, and why a crawl has nothing."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ..support.crawl import is_alive, wait_until
from ..support.site import listening
from ..support.terminal import Terminal, ended

pytestmark = pytest.mark.single("a fleet on one machine; its Redis does not matter")

ALL = "User-agent: *\nDisallow: /\n"


@pytest.fixture
def terminal(tmp_path: Path, redis_url: str) -> Iterator[Terminal]:
    made = Terminal(tmp_path, redis_url)
    yield made
    made.stop()


@contextmanager
def a_site(body: str = "", status: int = 200, robots: str = "") -> Iterator[str]:
    """Give the URL of a site that answers each request alike, but has a robots.txt."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_robots = self.path == "/robots.txt"
            self.send_response(200 if is_robots else status)
            self.send_header("Content-Type", "text/plain" if is_robots else "text/html")
            self.end_headers()
            self.wfile.write((robots if is_robots else body).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    with listening(Handler) as url:
        yield url


def reach(terminal: Terminal, url: str, *arguments: str) -> tuple[int, list[str]]:
    """Crawl *url*; return the exit code and the lines from the last word on."""
    few = ("-w", "1", "-s", "RETRY_TIMES=0", "-s", "FRONTIER_FLEET_LIMITS=delay")
    command = ("reach", "-s", "SPIDER_MODULES=crawls.reach", "-a", f"url={url}", *few, *arguments)
    code, said = ended(terminal.start(*command, environment={"REAL_DOWNLOADS": "1"}))
    assert "The crawl of spider reach " in said, said
    return code, said[said.index("The crawl of spider reach ") :].splitlines()


def test_a_robots_txt_that_forbids_all_is_the_cause(terminal: Terminal) -> None:
    with a_site(robots=ALL) as url:
        code, lines = reach(terminal, url, "-s", "ROBOTSTXT_OBEY=True")
    assert code == 0
    assert lines[0].startswith("The crawl of spider reach is finished: 0 pages, 0 items in ")
    assert lines[1:] == ["No page was crawled: robots.txt forbids 1 request (ROBOTSTXT_OBEY)"]


def test_a_start_url_that_cannot_be_reached_is_the_cause_and_the_exit_code(terminal: Terminal) -> None:
    code, lines = reach(terminal, "http://127.0.0.1:1/")
    assert code == 3
    assert lines[0].startswith("The crawl of spider reach is finished: 0 pages, 0 items in ")
    assert lines[1] == "No page was crawled: the connection was refused"
    assert re.fullmatch(r"\d errors? \(see \.scrapy/frontier/reach/\S+\)", lines[2])


@pytest.mark.parametrize(
    ("body", "status", "cause"),
    [
        ("<a href='http://other.test/'>", 200, "1 request leads to hosts that are not in allowed_domains"),
        pytest.param(
            "forbidden",
            403,
            "1 response is an HTTP error (403), which callbacks do not see (HTTPERROR_ALLOWED_CODES)",
            marks=pytest.mark.long,
        ),
        pytest.param("a page", 200, "the callbacks of 1 page yielded none", marks=pytest.mark.long),
    ],
    ids=["offsite", "status", "none"],
)
def test_a_crawl_without_items_says_why(terminal: Terminal, body: str, status: int, cause: str) -> None:
    with a_site(body, status) as url:
        code, lines = reach(terminal, url, "-a", "allowed=127.0.0.1")
    assert code == 0
    assert lines[1] == f"No item was scraped: {cause}"


@pytest.mark.long
def test_a_second_crawl_is_compared_with_the_first(terminal: Terminal) -> None:
    first = terminal.run("pages", "-w", "2", "-s", "GRAPH_PAGES=50")[1]
    assert "is finished: 50 pages, 50 items in " in first
    assert "the last time" not in first
    second = terminal.run("pages", "-w", "2", "-s", "GRAPH_PAGES=40")[1]
    assert (
        ": 40 pages (20 % fewer than the last time), 40 items (20 % fewer than the last time) in " in second
    )


def test_the_pages_of_a_killed_worker_are_counted(terminal: Terminal) -> None:
    slow = ("-s", "GRAPH_LATENCY=0.05", "-s", "CONCURRENT_REQUESTS=2", "-s", "FRONTIER_LEASE_TIMEOUT=2")
    process = terminal.start("pages", "-w", "2", "-s", "GRAPH_PAGES=300", *slow)
    wait_until(lambda: len(terminal.events("parsed")) > 100 and len(terminal.workers()) == 2)
    killed = terminal.workers().pop()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: not is_alive(killed))
    code, said = ended(process)
    assert code == 0, said
    assert re.search(r"is finished: 30\d pages, 30\d items in \d+ s, ", said), said


def test_without_a_history_the_end_has_the_pages_of_this_machine(terminal: Terminal) -> None:
    _, said = terminal.run("pages", "-w", "2", "-s", "GRAPH_PAGES=50", "-s", "FRONTIER_HISTORY=0")
    assert "The crawl of spider pages is finished: 50 pages, 50 items on this machine, in " in said


@pytest.mark.long
def test_the_statistics_are_in_a_file_and_with_an_option_on_the_terminal(terminal: Terminal) -> None:
    _, said = terminal.run("pages", "-w", "2", "-s", "GRAPH_PAGES=50")
    assert "item_scraped_count" not in said
    (path,) = (terminal.folder / ".scrapy/frontier/pages").glob("*/stats.json")
    assert json.loads(path.read_text())["item_scraped_count"] == 50
    assert "'item_scraped_count': 50" in terminal.run("pages", "-s", "GRAPH_PAGES=50", "--stats")[1]
