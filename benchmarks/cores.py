"""Several workers on the cores of one machine, against Scrapy by itself."""

from __future__ import annotations

import json
import os

from .arena import MEMORY, OURS, Arena, Contender
from .figures import Figures, Options

#: Seconds that a download takes.
LATENCY = 0.05


def run(arena: Arena, options: Options) -> Figures:
    """Crawl a site of real pages with one process of Scrapy, and with one and two workers of ours."""
    figures = Figures()
    pages = options.size(quick=200, full=3000)
    cores = os.cpu_count() or 1
    counts = [1, 2] if cores < 4 else [1, 2, 4]
    for _ in options.turns("cores", options.rounds):
        for contender, workers in [(Contender(MEMORY), 1), *((Contender(OURS), count) for count in counts)]:
            crawl = arena.crawl(
                contender,
                "cores",
                workers=workers,
                DOWNLOAD_HANDLERS=json.dumps(
                    {"http": "bench.cores.Handler", "https": None, "ftp": None, "s3": None}
                ),
                SITE_PAGES=pages,
                SITE_LATENCY=LATENCY,
            )
            plural = "s" if workers > 1 else ""
            figures.add(f"{contender}, {workers} worker{plural}", **crawl.figures())
    return figures
