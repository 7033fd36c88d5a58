"""The feeds of the settings in ``scrapy frontier crawl``: each item once in each file, whatever dies."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..project.crawls.graph import page_url
from ..support.crawl import wait_until
from ..support.terminal import Terminal, ended

pytestmark = pytest.mark.single("a fleet on one machine; its Redis does not matter")

PAGES = 200
ALL = dict.fromkeys(map(page_url, range(PAGES)), 1)
SLOW = ("-s", "GRAPH_LATENCY=0.05", "-s", "CONCURRENT_REQUESTS=2", "-s", "FRONTIER_LEASE_TIMEOUT=2")
CRAWL = ("pages", "-s", f"GRAPH_PAGES={PAGES}", *SLOW, "-w", "2")
TWO_FILES = {
    "a/%(name)s.json": {"format": "json", "overwrite": True, "indent": 2},
    "b.jsonl": {"format": "jsonlines"},
}


@pytest.fixture
def terminal(tmp_path: Path, redis_url: str) -> Iterator[Terminal]:
    made = Terminal(tmp_path, redis_url)
    yield made
    made.stop()


def feeds(**options: object) -> tuple[str, str]:
    """Return the arguments that set ``FEEDS``."""
    return "-s", f"FEEDS={json.dumps(options)}"


def urls(terminal: Terminal, name: str) -> Counter[str]:
    text = (terminal.folder / name).read_text()
    items = json.loads(text) if name.endswith(".json") else map(json.loads, text.splitlines())
    return Counter(item["url"] for item in items)


def test_the_feeds_of_the_settings_have_each_item_once_though_a_worker_is_killed(terminal: Terminal) -> None:
    (terminal.folder / "b.jsonl").write_text('{"url": "of yesterday"}\n')
    process = terminal.start(*CRAWL, *feeds(**TWO_FILES))
    wait_until(lambda: len(terminal.events("parsed")) > 20 and len(terminal.workers()) == 2)
    killed = terminal.workers().pop()
    os.kill(killed, signal.SIGKILL)
    code, said = ended(process)
    assert code == 0, said
    assert urls(terminal, "a/pages.json") == ALL
    assert urls(terminal, "b.jsonl") == {**ALL, "of yesterday": 1}
    assert "all workers have the same URI" not in said
    assert f"{PAGES} items were written to {terminal.folder}/a/pages.json" in said
    assert f"{PAGES} items were added to {terminal.folder}/b.jsonl" in said


@pytest.mark.long
def test_the_feeds_of_the_settings_go_on_with_an_interrupted_crawl(terminal: Terminal) -> None:
    command = (*CRAWL, *feeds(**TWO_FILES))
    process = terminal.start(*command)
    wait_until(lambda: len(terminal.events("parsed")) > 50)
    process.send_signal(signal.SIGINT)
    assert ended(process, 30)[0] == 130
    before = urls(terminal, "a/pages.json")
    assert before == urls(terminal, "b.jsonl")
    assert 0 < len(before) < PAGES
    code, said = terminal.run(*command)
    assert code == 0, said
    assert "An earlier run's crawl is continued: its files are appended to, not replaced" in said
    assert urls(terminal, "a/pages.json") == urls(terminal, "b.jsonl") == ALL
    # The next crawl replaces the one, and appends to the other.
    assert terminal.run(*command)[0] == 0
    assert urls(terminal, "a/pages.json") == ALL
    assert set(urls(terminal, "b.jsonl").values()) == {2}


CLASSES = """
import scrapy


class Quote(scrapy.Item):
    text = scrapy.Field()


class Author(scrapy.Item):
    name = scrapy.Field()


class Even:
    def __init__(self, options):
        self.factor = options["factor"]

    def accepts(self, item):
        return "text" in item and int(item["text"]) % self.factor == 0


class ClassesSpider(scrapy.Spider):
    name = "classes"
    custom_settings = {
        "FEEDS": {
            "quotes.json": {"format": "json", "item_classes": [Quote]},
            "authors.csv": {"item_classes": ["crawls.classes.Author"], "fields": {"name": "Name"}},
            "even.jsonl": {"item_filter": Even, "factor": 2},
            "all.xml": {"format": "xml"},
            "own.pickle": {"format": "pickle"},
        }
    }

    async def start(self):
        for number in range(30):
            yield scrapy.Request(f"http://graph.test/{1_000_000 + number}")

    def parse(self, response):
        number = int(response.url.rpartition("/")[2]) - 1_000_000
        yield Quote(text=str(number))
        yield Author(name=f"author {number}")
"""


def test_a_feed_of_the_spider_has_the_items_that_its_filter_accepts(terminal: Terminal) -> None:
    (terminal.folder / "crawls" / "classes.py").write_text(CLASSES)
    code, said = terminal.run("classes", "-s", "SPIDER_MODULES=crawls.classes", "-w", "2")
    assert code == 0, said
    quotes = json.loads((terminal.folder / "quotes.json").read_text())
    assert sorted(int(item["text"]) for item in quotes) == list(range(30))
    rows = list(csv.reader((terminal.folder / "authors.csv").open()))
    assert rows[0] == ["Name"]
    assert sorted(name for (name,) in rows[1:]) == sorted(f"author {number}" for number in range(30))
    lines = (terminal.folder / "even.jsonl").read_text().splitlines()
    assert sorted(int(json.loads(line)["text"]) for line in lines) == list(range(0, 30, 2))
    assert (terminal.folder / "all.xml").read_text().count("<item>") == 60
    assert len(re.findall("'own.pickle' of FEEDS is not written once for all workers", said)) == 1
    assert "all workers have the same URI" not in said


def test_a_json_file_of_a_crawl_without_items_is_an_empty_array(terminal: Terminal) -> None:
    code, said = terminal.run("graph", "-s", "GRAPH_PAGES=20", "-w", "1", "-O", "items.json")
    assert code == 0, said
    assert json.loads((terminal.folder / "items.json").read_text()) == []
    assert f"0 items were written to {terminal.folder}/items.json" in said
