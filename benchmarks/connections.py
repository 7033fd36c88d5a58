"""What the hosts see of a fleet: connections and robots.txt, against one worker."""

from __future__ import annotations

import json
import urllib.request

from .arena import MEMORY, OURS, Arena, BenchmarkError, Contender
from .figures import Figures, Options
from .hosts_site import address
from .http import OVER_SOCKETS, site
from .project.bench.broad import sizes

#: Seconds between two requests to a host.
DELAY = 0.1


def run(arena: Arena, options: Options) -> Figures:
    """Crawl the hosts with Scrapy in memory, and with fleets."""
    figures = Figures()
    hosts = options.size(6, 60)
    pages = options.size(60, 1500)
    fleets = [(Contender(MEMORY), 1), *((Contender(OURS), workers) for workers in (1, 2, 4))]
    for _ in options.turns("connections"):
        for contender, workers in fleets:
            with site("hosts_site", hosts, pages) as port:
                crawl = arena.crawl(
                    contender,
                    "broad",
                    "-a",
                    f"first=http://{address(0)}:{port}/start",
                    workers=workers,
                    DOWNLOAD_HANDLERS=OVER_SOCKETS,
                    DOWNLOAD_DELAY=DELAY,
                    ROBOTSTXT_OBEY=True,
                )
                with urllib.request.urlopen(f"http://{address(0)}:{port}/figures") as answer:
                    seen = json.load(answer)
            if seen["pages"] != sum(sizes(hosts, pages)) + 1:
                raise BenchmarkError(f"{contender}: the hosts were asked for {seen['pages']} pages")
            name = str(contender) + (f", {workers} workers" if workers > 1 else "")
            figures.add(
                name,
                connections=(seen["connections"] - 1) / hosts,
                robots=seen["robots"] / hosts,
                seconds=crawl.seconds,
            )
    return figures
