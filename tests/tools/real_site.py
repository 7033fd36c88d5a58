"""Crawl a documentation that a package ships, with three workers, and compare with Scrapy in memory.

``python -m tests.tools.real_site [--folder FOLDER]``. Each spider crawls with each serializer: undisturbed;
then with a worker that is killed, one that is stopped (Ctrl-C), and a fourth that joins; and then once
more. The table has a row for each, and the exit code is 1 if anything was not as with Scrapy.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import redis

from scrapy_rq_sched.embedded import PrivateRedis

from ..support.crawl import Fleet, wait_until
from ..support.site import INDEX, Site, served
from .real_crawl import IN_MEMORY, SPIDERS, Crawl, crawl

#: Debian's package python3-doc.
FOLDERS = "python3*/html"
WORKERS = 3
#: Seconds until the site answers, and until a silent worker is dead: some pages have ten thousand links.
LATENCY, LEASE = 0.1, 20
#: Seconds that a crawl may take.
LIMIT = 300
COLUMNS = [
    "spider",
    "serializer",
    "crawl",
    "pages",
    "missing",
    "other",
    "items",
    "repeated",
    "shares",
    "seconds",
]
WIDTHS = [12, 14, 14, 7, 9, 7, 7, 10, 22, 9]


def line(cells: list[object], after: str = "") -> str:
    """Return a row."""
    return "".join(f"{cell!s:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)) + after


def deaths(pages: int) -> Callable[[Fleet, Callable[[], None]], None]:
    """Return what kills a worker and stops another in the middle of a crawl of so many *pages*."""

    def during(fleet: Fleet, start: Callable[[], None]) -> None:
        def reach(share: float) -> None:
            wait_until(lambda: len(fleet.urls("parsed")) >= share * pages or fleet.reasons(), LIMIT)

        reach(0.2)
        fleet.kill(0)
        start()
        reach(0.5)
        fleet.kill(1, signal.SIGINT)

    return during


def complaints(found: Crawl, alone: Crawl, disturbed: bool) -> list[str]:
    """Return what speaks against a crawl."""
    ends = sorted(found.reasons)
    wanted = ["finished"] * (WORKERS - 1) + ["shutdown"] if disturbed else ["finished"] * WORKERS
    fair = sum(found.shares) / WORKERS
    said = {
        "pages are missing": alone.parsed.keys() - found.parsed.keys(),
        "there are pages that Scrapy does not find": found.parsed.keys() - alone.parsed.keys(),
        "the items are not the same": found.items.keys() ^ alone.items.keys(),
        "pages are repeated": found.parsed - alone.parsed and not disturbed,
        "a worker has less than half of its fair share": not disturbed and min(found.shares) < fair / 2,
        f"{found.unserializable:.0f} requests were kept from Redis": found.unserializable,
        f"the workers ended as {ends}": ends != wanted,
    }
    return [text for text, holds in said.items() if holds]


def row(spider: str, serializer: str, kind: str, found: Crawl, alone: Crawl, seconds: float) -> list[str]:
    """Print what a crawl found, and return what speaks against it."""
    wrong = complaints(found, alone, kind == "deaths")
    cells = [
        *(spider, serializer, kind, len(found.parsed)),
        len(alone.parsed.keys() - found.parsed.keys()),
        len(found.parsed.keys() - alone.parsed.keys()),
        len(found.items),
        sum((found.parsed - alone.parsed).values()),
        "/".join(map(str, found.shares)),
        f"{seconds:.1f}",
    ]
    print(line(cells, "NOT OK: " + "; ".join(wrong) if wrong else "ok"), flush=True)
    return wrong


def expire(client: redis.Redis) -> None:
    """Have every key expire that does: the next crawl begins much later."""
    for key in client.scan_iter():
        if client.ttl(key) >= 0:
            client.delete(key)


def play(site: Site, folder: Path, spiders: list[str], serializers: list[str]) -> bool:
    """Play all; return whether all was well."""
    print(line(COLUMNS), flush=True)
    well = True
    references: dict[str, Crawl] = {}
    for spider in spiders:
        other = SPIDERS[spider]
        if other not in references:
            references[other] = crawl(folder / f"alone-{other}", site, other, 1, timeout=LIMIT, **IN_MEMORY)
        alone = references[other]
        for serializer in serializers:
            data = folder / f"redis-{spider}-{serializer}"
            data.mkdir()
            with PrivateRedis(data) as server, redis.Redis.from_url(server.url) as client:
                for kind in ("undisturbed", "deaths", "again"):
                    begun = time.monotonic()
                    settings = {"SCHEDULER_SERIALIZER": serializer, "FRONTIER_LEASE_TIMEOUT": LEASE}
                    during = deaths(len(alone.parsed)) if kind == "deaths" else None
                    logs = folder / f"{spider}-{serializer}-{kind}"
                    try:
                        found = crawl(
                            logs, site, spider, WORKERS, server.url, client, during, LIMIT, **settings
                        )
                    except AssertionError as error:
                        print(line([spider, serializer, kind, *[""] * 7], f"NOT OK: {error}"), flush=True)
                        well = False
                    else:
                        well &= not row(spider, serializer, kind, found, alone, time.monotonic() - begun)
                    expire(client)
    return well


def main() -> int:
    """Play, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.real_site", description=__doc__)
    parser.add_argument("--folder", type=Path, help="of HTML pages; by default those of python3-doc")
    parser.add_argument("--spiders", nargs="+", choices=SPIDERS, default=["rules", "map", "redisrules"])
    parser.add_argument("--serializers", nargs="+", default=["json", "json+deflate", "msgpack"])
    parser.add_argument("--keep", type=Path, help="keep logs and records in this folder")
    options = parser.parse_args()
    found = sorted(index.parent.resolve() for index in Path("/usr/share/doc").glob(f"{FOLDERS}/{INDEX}"))
    folder = options.folder or next(iter(found), Path("/usr/share/doc/python3/html"))
    if not (folder / INDEX).is_file():
        print(
            f"There is no {INDEX} in {folder}. Install a documentation (apt-get install python3-doc), "
            "or name a folder of HTML pages with --folder."
        )
        return 1
    with served(folder, LATENCY) as site, tempfile.TemporaryDirectory() as temporary:
        print(f"{folder}: {len(site.paths)} pages", flush=True)
        if options.keep is not None:
            options.keep.mkdir(parents=True)
        return 0 if play(site, options.keep or Path(temporary), options.spiders, options.serializers) else 1


if __name__ == "__main__":
    sys.exit(main())
