"""What the items of a crawl cost, one for each page: in a file, or in Redis; and by the size of an item."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scrapy.settings import Settings

from scrapy_rq_sched.collect.item_file import ItemFile
from scrapy_rq_sched.keys import Keys
from scrapy_rq_sched.supervise.feeds import FeedWriter

from .arena import OURS, TIMEOUT, Arena, BenchmarkError, Contender, Crawl
from .figures import Figures, Options, console

SPIDER = "items"
#: Where the items go.
NOWHERE, FILE, PIPELINE = "items not stored", "a file for each worker", "RedisPipeline"
LIST, STREAM, COMMAND = "FRONTIER_ITEMS list", "FRONTIER_ITEMS stream", "frontier crawl -o"
WAYS = (NOWHERE, FILE, PIPELINE, LIST, STREAM, COMMAND)
_SETTINGS: dict[str, dict[str, Any]] = {
    PIPELINE: {"ITEM_PIPELINES": json.dumps({"scrapy_rq_sched.pipelines.RedisPipeline": 300})},
    LIST: {"FRONTIER_ITEMS": "list"},
    STREAM: {"FRONTIER_ITEMS": "stream"},
}
#: Bytes of an item: a record, a text, an article, and a whole page.
SIZES = (200, 2000, 20_000, 200_000)


def run(arena: Arena, options: Options) -> Figures:
    """Crawl a site whose pages have an item of 200 bytes each, with each way in turn."""
    figures = Figures()
    pages = options.size(quick=300, full=3000)
    for number in options.turns("items"):
        # Who begins changes, so that a machine that becomes slower meets all alike.
        crawls = _crawl_each(arena, WAYS[:: -1 if number % 2 else 1], pages, SIZES[0])
        for way in WAYS:
            crawl, without = crawls[way], crawls[NOWHERE].figures()
            figures.add(
                str(_contender(way)),
                **crawl.figures(),
                of_file=_pace(crawl) / _pace(crawls[FILE]),
                more_redis_us=crawl.figures()["redis_us"] - without["redis_us"],
                bytes_an_item=crawl.figures()["bytes"] - without["bytes"],
                exchanges=sum(worker["exchanges"] for worker in crawl.workers) / pages,
            )
    return figures


def run_sizes(arena: Arena, options: Options) -> Figures:
    """Crawl the site with items of each size."""
    figures = Figures()
    pages = options.size(quick=50, full=1000)
    ways = (FILE, LIST, STREAM, COMMAND)
    for number in options.turns("item sizes", min(options.rounds, 3)):
        for size in SIZES:
            crawls = _crawl_each(arena, ways[:: -1 if number % 2 else 1], pages, size)
            in_file = crawls[FILE].figures()
            for way in ways:
                measured = crawls[way].figures()
                figures.add(
                    f"{size:,} bytes, {way}",
                    **measured,
                    of_file=_pace(crawls[way]) / _pace(crawls[FILE]),
                    more_redis_us=measured["redis_us"] - in_file["redis_us"],
                )
    return figures


def _contender(way: str, **settings: Any) -> Contender:
    return Contender(OURS, settings={**_SETTINGS.get(way, {}), **settings}, label=way)


def _pace(crawl: Crawl) -> float:
    return crawl.pages / crawl.seconds


def _crawl_each(arena: Arena, ways: Iterable[str], pages: int, size: int) -> dict[str, Crawl]:
    return {way: _crawl(arena, way, pages, size) for way in ways}


def _crawl(arena: Arena, way: str, pages: int, size: int) -> Crawl:
    """Crawl the whole site; all of its items must be where they are to go."""
    with tempfile.TemporaryDirectory() as name:
        folder, arguments = Path(name), ("-a", f"size={size}")
        if way == COMMAND:
            crawl = _crawl_with_writer(arena, folder, arguments, pages)
        elif way == FILE:
            feeds = json.dumps({f"{folder}/items-%(worker)s.jsonl": {"format": "jsonlines"}})
            crawl = arena.crawl(_contender(way, FEEDS=feeds), SPIDER, *arguments, SITE_PAGES=pages)
        else:
            crawl = arena.crawl(_contender(way), SPIDER, *arguments, SITE_PAGES=pages)
        stored = _count_items(arena, folder)
    if {worker["distinct"] for worker in crawl.workers} != {pages} or crawl.pages != pages:
        raise BenchmarkError(f"{way}: {crawl.pages} pages crawled of {pages}")
    if stored != (0 if way == NOWHERE else pages):
        raise BenchmarkError(f"{way}: {stored} items stored of {pages} pages")
    return crawl


def _crawl_with_writer(arena: Arena, folder: Path, arguments: tuple[str, ...], pages: int) -> Crawl:
    """Move the items to a file beside the crawl, as ``scrapy frontier crawl`` does."""
    file = ItemFile(folder / "items.jsonl", {"format": "jsonlines"}, Settings())
    file.open(overwrites=True)
    writer = FeedWriter(arena.redis, Keys(SPIDER), [file], console.print)

    def follow(processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            process.wait(TIMEOUT)
        writer.end(is_complete=True)

    contender = _contender(COMMAND, FRONTIER_FEED=writer.tokens)
    return arena.crawl(contender, SPIDER, *arguments, prepare=writer.start, during=follow, SITE_PAGES=pages)


def _count_items(arena: Arena, folder: Path) -> int:
    """Return how many items are in files, and in Redis."""
    key = f"{SPIDER}:items"
    count = arena.redis.xlen if arena.redis.type(key) == b"stream" else arena.redis.llen
    return int(count(key)) + sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))
