"""How long a worker takes from its start to its first request, and from its last page to its end."""

from __future__ import annotations

from .arena import MEMORY, OURS, PEER, Arena, Contender, Crawl
from .figures import Figures, Options
from .filling import fill


def run(arena: Arena, options: Options) -> Figures:
    """Start workers for a few pages."""
    figures = Figures()
    many = options.size(quick=1000, full=100_000)
    for _ in options.turns("start and stop"):
        for contender in (Contender(MEMORY), Contender(OURS), Contender(OURS, 10), Contender(PEER)):
            crawl = arena.crawl(contender, "graph", SITE_PAGES=50)
            figures.add(str(contender), **_times(crawl))
        crawl = arena.crawl(
            Contender(OURS),
            "graph",
            "-a",
            "pages=50",
            prepare=lambda: fill(OURS, arena.redis, many, leaves=True),
        )
        figures.add(f"{OURS}, {many:,} waiting", **_times(crawl))
    return figures


def _times(crawl: Crawl) -> dict[str, float]:
    (worker,) = crawl.workers
    return {"start_s": worker["begun"] - crawl.started, "stop_s": crawl.ended - worker["ended"]}
