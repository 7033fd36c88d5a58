"""Pages a second of one worker, with Redis near and far, as a ratio to Scrapy's own scheduler.

A crawl of N pages with no network: each page links to ten new pages and ten known ones, downloads
are answered at once, 16 concurrent requests. The contenders take turns; figures are medians.

Run from the top of the repository: ``python -m benchmarks.distance``
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from scrapy_rq_sched.embedded import PrivateRedis
from tests.crawl import Fleet
from tests.proxy import Proxy


def crawl(redis_url: str, pages: int, **settings: object) -> tuple[float, float]:
    """Crawl *pages* pages; return pages a second and exchanges a page."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), redis_url)
        try:
            fleet.start("graph", GRAPH_PAGES=pages, **settings)
            fleet.wait(timeout=600)
        finally:
            fleet.stop()
        parsed = fleet.events("parsed")
        if len({event.what for event in parsed}) != pages or fleet.reasons() != ["finished"]:
            raise SystemExit(f"the crawl is not complete: {fleet.log()[-2000:]}")
        seconds = parsed[-1].time - fleet.events("opened")[0].time
        return pages / seconds, fleet.stat("frontier/exchanges") / pages


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--round-trips", type=float, nargs="+", default=[0, 2, 10, 50], metavar="MS")
    options = parser.parse_args()
    memory: list[float] = []
    ours: dict[float, list[tuple[float, float]]] = {ms: [] for ms in options.round_trips}
    with tempfile.TemporaryDirectory() as folder, PrivateRedis(folder) as server:
        in_memory = {
            "SCHEDULER": "scrapy.core.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
        }
        for _ in range(options.rounds):
            memory.append(crawl(server.url, options.pages, **in_memory)[0])
            for milliseconds, results in ours.items():
                with Proxy(server.port, milliseconds) as far:
                    url = far.url if milliseconds else server.url
                    results.append(crawl(url, options.pages))
    base = statistics.median(memory)
    print(f"{'':24}{'pages/s':>9}{'ratio':>8}{'exchanges a page':>18}")
    print(f"{'in memory':24}{base:9.0f}{1:8.2f}")
    for milliseconds, results in ours.items():
        pace = statistics.median(result[0] for result in results)
        exchanges = statistics.median(result[1] for result in results)
        print(f"{f'Redis {milliseconds:g} ms away':24}{pace:9.0f}{pace / base:8.2f}{exchanges:18.3f}")


if __name__ == "__main__":
    main()
