"""The figures to reach, beside the measured figures of scrapy-redis and of this project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .arena import MEMORY, OURS, PEER
from .figures import Figures
from .idle import IDLE
from .items import COMMAND, LIST, STREAM
from .polite_cost import CRAWLS

#: Exchanges a page, at most, of a fleet that only delays limit: by hosts and workers.
_POLITE_EXCHANGES = {(500, 4): 0.3, (3000, 20): 0.35}


@dataclass(frozen=True)
class Target:
    """A figure to reach.

    :param bound: the smallest or largest acceptable value.
    :param ours: the measured value, or None.
    :param peer: the measured value of scrapy-redis, or None.
    """

    what: str
    side: Literal["at least", "at most"]
    bound: float
    ours: float | None
    peer: float | None
    form: str = ".2f"

    @property
    def verdict(self) -> str:
        """Whether the target is met."""
        if self.ours is None:
            return "not measured"
        met = self.ours >= self.bound if self.side == "at least" else self.ours <= self.bound
        return "met" if met else "**not met**"

    def cells(self) -> list[str]:
        """Return a row of the table."""
        sign = "≥" if self.side == "at least" else "≤"
        shown = [format(value, self.form) if value is not None else "-" for value in (self.peer, self.ours)]
        return [self.what, *shown, f"{sign} {self.bound:g}", self.verdict]


def targets(all_figures: Mapping[str, Figures]) -> list[Target]:
    """Return all figures to reach, with the measured values."""
    none = Figures()
    crawl, memory = all_figures.get("crawl", none), all_figures.get("memory", none)
    seeds, large = all_figures.get("seeds", none), all_figures.get("large", none)
    found = []
    for away, bound in (("", 1.0), (", 2 ms away", 1.0), (", 10 ms away", 1.0), (", 50 ms away", 0.97)):
        ours, peer = (crawl.ratio(f"{name}{away}", MEMORY, "pages_per_second") for name in (OURS, PEER))
        where = away.removeprefix(", ") or "loopback"
        found.append(
            Target(f"pages/s, ratio to in memory, Redis {where}", "at least", bound, ours, peer, ".3f")
        )
    found.append(_pair(crawl, "client commands a page", "commands", 0.05, ".3f"))
    found.append(_pair(crawl, "Redis CPU a page (µs)", "redis_us", 20, ".1f"))
    largest = "1,000,000 URLs"
    found.append(
        Target(
            "bytes a seen URL, 1M, CompactDupeFilter",
            "at most",
            10,
            memory.median(f"{OURS}, CompactDupeFilter, {largest}", "bytes_a_url"),
            memory.median(f"{PEER}, {largest}", "bytes_a_url"),
            ".1f",
        )
    )
    for serializer in ("json", "json+deflate"):
        ours = memory.ratio(
            f"{OURS}, PriorityQueue, {serializer}", f"{PEER}, PriorityQueue", "bytes_a_request"
        )
        what = f"bytes a waiting request, ratio to scrapy-redis, {serializer}"
        found.append(Target(what, "at most", 0.4, ours, 1.0 if ours else None))
    found.append(_pair(seeds, "seed to first request, idle, median (ms)", "latency_ms", 20, ".1f"))
    worst = [max(seeds.of(name, "latency_ms"), default=None) for name in (OURS, PEER)]
    found.append(Target("… worst (ms)", "at most", 100, *worst, ".1f"))
    idle = all_figures.get("idle", none)
    more, latency = (idle.median(IDLE, name) for name in ("more_percent", "latency_ms"))
    found.append(Target(f"{IDLE}: Redis CPU (% of a core)", "at most", 1, more, None))
    found.append(Target("… seed to first request, median (ms)", "at most", 20, latency, None, ".1f"))
    for kind in ("PriorityQueue", "FifoQueue", "LifoQueue"):
        most, least = (f"{OURS}, {kind}, {level} waiting" for level in ("1,000,000", "10,000"))
        ours = large.ratio(most, least, "pages_per_second")
        found.append(Target(f"pages/s with 1M waiting, ratio to 10k, {kind}", "at least", 0.95, ours, None))
    cores = all_figures.get("cores", none)
    two, one = f"{OURS}, 2 workers", f"{OURS}, 1 worker"
    found.append(
        Target(
            "pages/s of two workers on two cores, ratio to one",
            "at least",
            1.85,
            cores.ratio(two, one, "pages_per_second"),
            None,
        )
    )
    return found + _of_slots(all_figures) + _of_politeness(all_figures) + _of_items(all_figures)


def _of_slots(all_figures: Mapping[str, Figures]) -> list[Target]:
    """Return the figures to reach for crawls of many hosts."""
    none, far, fleet = Figures(), f"{OURS}, 10 ms away", f"{OURS}, 4 workers"
    broad, slots = all_figures.get("broad", none), all_figures.get("slots", none)
    connections = all_figures.get("connections", none)
    peer = broad.ratio(MEMORY, PEER, "seconds")
    many, some = "1,000,000 slots", "100 slots"
    return [
        Target(
            "60 hosts with a delay: speed, ratio to in memory",
            "at least",
            0.97,
            broad.ratio(MEMORY, OURS, "seconds"),
            peer,
        ),
        Target("… Redis 10 ms away", "at least", 0.95, broad.ratio(MEMORY, far, "seconds"), None),
        Target(
            "… time to half of the pages, ratio to in memory",
            "at most",
            1.15,
            broad.ratio(OURS, MEMORY, "half"),
            broad.ratio(PEER, MEMORY, "half"),
        ),
        Target(
            "… 4 workers, share of the allowed rate", "at least", 0.95, broad.median(fleet, "of_limit"), None
        ),
        Target(
            "connections a host, 4 workers, ratio to 1",
            "at most",
            1.3,
            connections.ratio(fleet, OURS, "connections"),
            None,
        ),
        Target(
            "robots.txt requests a host, 4 workers, ratio to 1",
            "at most",
            1.3,
            connections.ratio(fleet, OURS, "robots"),
            None,
        ),
        Target(
            "Redis CPU a page, 100 slots, ratio to none",
            "at most",
            1.3,
            slots.ratio(some, "without slots", "redis_us"),
            None,
        ),
        Target("… 1,000,000 slots, ratio to 100", "at most", 1.1, slots.ratio(many, some, "redis_us"), None),
    ]


def _of_politeness(all_figures: Mapping[str, Figures]) -> list[Target]:
    """Return the figures to reach for crawls that only the delays of hosts limit."""
    polite = all_figures.get("polite_cost", Figures())
    found = []
    for crawl in CRAWLS:
        cpu, exchanges = (polite.median(str(crawl), name) for name in ("redis_us", "exchanges"))
        found.append(Target(f"{crawl}: Redis CPU a page (µs)", "at most", 150, cpu, None, ".0f"))
        most = _POLITE_EXCHANGES.get((crawl.site.hosts, crawl.workers))
        if most is not None:
            found.append(Target("… exchanges a page", "at most", most, exchanges, None))
    return found


def _of_items(all_figures: Mapping[str, Figures]) -> list[Target]:
    """Return the figures to reach for items that are stored with the release of their page."""
    items = all_figures.get("items", Figures())
    found = []
    for way in (LIST, STREAM, COMMAND):
        name = f"{OURS}, {way}"
        pace, more = (items.median(name, column) for column in ("of_file", "more_redis_us"))
        found.append(
            Target(f"an item a page, {way}: speed, ratio to a file", "at least", 0.97, pace, None, ".3f")
        )
        found.append(Target("… Redis CPU an item (µs)", "at most", 10, more, None, ".1f"))
    return found


def _pair(figures: Figures, what: str, name: str, most: float, form: str) -> Target:
    return Target(what, "at most", most, figures.median(OURS, name), figures.median(PEER, name), form)
