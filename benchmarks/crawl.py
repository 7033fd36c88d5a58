"""A crawl with no network: what a scheduler costs, with Redis near and far."""

from __future__ import annotations

from itertools import chain
from statistics import fmean

from .arena import JOBDIR, MEMORY, OURS, PEER, Arena, BenchmarkError, Commands, Contender
from .figures import Figures, Options

#: Pages that scrapy-redis crawls at each distance: it makes no more than some a second.
_PEER_PAGES = {0.0: 1000, 2.0: 200, 10.0: 60, 50.0: 20}
_DISTANCES = (0.0, 2.0, 10.0, 50.0)
#: On a site without an end, Scrapy's own order (depth first) leads to page numbers of hundreds of digits.
_BREADTH_FIRST = {
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}
_COMPACT = {"DUPEFILTER_CLASS": "scrapy_rq_sched.CompactDupeFilter"}


def contenders() -> list[Contender]:
    """Return the contenders, in their order. The one that is compared with has a turn beside each of ours.

    On a shared machine, the speed of a crawl changes within seconds.
    """
    return [
        *chain.from_iterable((Contender(MEMORY), Contender(OURS, distance)) for distance in _DISTANCES),
        *(_with_queue(name) for name in ("FifoQueue", "LifoQueue")),
        Contender(OURS, settings=_COMPACT, label="CompactDupeFilter"),
        Contender(JOBDIR),
        *(Contender(PEER, distance) for distance in _DISTANCES),
    ]


def _with_queue(name: str) -> Contender:
    return Contender(OURS, settings={"SCHEDULER_QUEUE_CLASS": f"scrapy_rq_sched.{name}"}, label=name)


def run(arena: Arena, options: Options) -> Figures:
    """Crawl a site to its end."""
    figures = Figures()
    most = options.size(quick=300, full=3000)
    for _ in options.turns("crawl"):
        crawls: dict[str, list[dict[str, float]]] = {}
        for contender in contenders():
            pages = min(most, _PEER_PAGES[contender.distance]) if contender.name == PEER else most
            crawl = arena.crawl(contender, "graph", SITE_PAGES=pages)
            if {worker["distinct"] for worker in crawl.workers} != {pages} or crawl.pages != pages:
                raise BenchmarkError(f"{contender}: {crawl.pages} pages crawled of {pages}")
            crawls.setdefault(str(contender), []).append(crawl.figures())
        for name, its in crawls.items():
            figures.add(name, **{figure: fmean(crawl[figure] for crawl in its) for figure in its[0]})
    for contender in (Contender(OURS), Contender(OURS, settings=_COMPACT, label="CompactDupeFilter")):
        _count_commands(arena, contender, most, figures)
    _count_commands(arena, Contender(PEER), min(most, 1000), figures)
    return figures


def _count_commands(arena: Arena, contender: Contender, pages: int, figures: Figures) -> None:
    with Commands(arena.redis) as commands:
        arena.crawl(contender, "graph", SITE_PAGES=pages)
    figures.add(str(contender), commands=commands.count / pages)


def run_growing(arena: Arena, options: Options) -> Figures:
    """Crawl the first pages of a site without an end: each of them has ten new links.

    All crawl it in the same order: the pages of a site differ in what they cost.
    """
    figures = Figures()
    pages = options.size(quick=200, full=2000)
    taking_part = [
        Contender(MEMORY, settings=_BREADTH_FIRST),
        Contender(OURS),
        Contender(OURS, 10),
        Contender(OURS, settings=_COMPACT, label="CompactDupeFilter"),
        Contender(JOBDIR, settings=_BREADTH_FIRST),
        Contender(PEER),
    ]
    for _ in options.turns("growing"):
        for contender in taking_part:
            wanted = min(pages, 500) if contender.name == PEER else pages
            crawl = arena.crawl(contender, "graph", "-a", f"pages={wanted}")
            if crawl.pages < wanted:
                raise BenchmarkError(f"{contender}: {crawl.pages} pages crawled of {wanted}")
            if any(worker["errors"] for worker in crawl.workers):
                raise BenchmarkError(f"{contender}: the log has errors, and what they cost is no scheduler's")
            figures.add(str(contender), **crawl.figures())
    return figures
