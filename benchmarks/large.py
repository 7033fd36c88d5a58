"""A large frontier: pages a second when many wait."""

from __future__ import annotations

from .arena import OURS, PEER, Arena, BenchmarkError, Contender
from .figures import Figures, Options
from .filling import fill

LEVELS = (10_000, 100_000, 1_000_000)
QUEUES = ("PriorityQueue", "FifoQueue", "LifoQueue")


def run(arena: Arena, options: Options) -> Figures:
    """Crawl pages without links from queues of each size."""
    figures = Figures()
    levels = (1000, 2000) if options.quick else LEVELS
    pages = options.size(quick=200, full=3000)
    for _ in options.turns("large", min(options.rounds, 3)):
        for kind in QUEUES:
            for level in levels:
                _measure(arena, OURS, kind, level, pages, figures)
        for level in levels[:2]:
            _measure(arena, PEER, "PriorityQueue", level, min(pages, 1000), figures)
    return figures


def _measure(arena: Arena, name: str, kind: str, level: int, pages: int, figures: Figures) -> None:
    package = "scrapy_rq_sched" if name == OURS else "scrapy_redis.queue"
    contender = Contender(name, settings={"SCHEDULER_QUEUE_CLASS": f"{package}.{kind}"}, label=kind)
    crawl = arena.crawl(
        contender,
        "leaf",
        "-a",
        f"pages={pages}",
        prepare=lambda: fill(name, arena.redis, level, kind, spider="leaf", leaves=True),
    )
    if crawl.pages < pages:
        raise BenchmarkError(f"{contender}: {crawl.pages} pages crawled of {pages}")
    figures.add(f"{contender}, {level:,} waiting", **crawl.figures())
