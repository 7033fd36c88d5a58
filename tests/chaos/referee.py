"""What a scenario cost: counted from the workers' own record, and from how they ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise

from .arena import Arena

#: The shortest time between two requests to a host, as a share of the delay, that is no complaint.
POLITE = 0.95
#: Seconds by which a process that is held up may notice it later.
MARGIN = 0.05


@dataclass(frozen=True)
class Outcome:
    """What a scenario says of itself.

    :param faults: how many it made.
    :param explained: the most repeated downloads that they explain.
    :param absent: pages that are not to be crawled.
    :param rate: the least share of the requests that the delay allows, to the host with the most pages.
    """

    faults: int
    explained: int = 0
    absent: set[str] = field(default_factory=set)
    rate: float = 0.0
    #: Whether a request that came late because its process was held up may be followed by one in time.
    excuses: bool = True


@dataclass(frozen=True)
class Verdict:
    """One row of the table.

    :param workers: processes that were started.
    :param missing: pages that were never parsed.
    :param repeated: downloads of pages that had been downloaded before.
    :param early: workers that closed as finished before some page was first parsed.
    :param late: workers that did not end when everything was crawled.
    :param missing_again: pages that the next crawl of the same spider never parsed; None if there was none.
    :param ended_again: how the workers of that crawl ended, if not as finished.
    :param least_gap: the shortest time between two requests to a host, as a share of the delay; None if there
        is none, and :param rude: how many were below :data:`POLITE`.
    :param rate: which share of the requests that the delay allows the host with the most pages was sent.
    :param problem: what else was not as it should be.
    :param tolerant: whether missing and repeated pages are what the scenario is to show.
    """

    scenario: str
    seed: int
    faults: int = 0
    workers: int = 0
    pages: int = 0
    missing: int = 0
    repeated: int = 0
    explained: int = 0
    early: int = 0
    late: int = 0
    missing_again: int | None = None
    ended_again: str = ""
    least_gap: float | None = None
    rude: int = 0
    rate: float | None = None
    least_rate: float = 0.0
    seconds: float = 0.0
    problem: str = ""
    tolerant: bool = False

    @property
    def complaints(self) -> list[str]:
        """What speaks against it. Where there was no fault, nothing is shown."""
        if self.problem:
            return [self.problem]
        found = {
            "no fault was made": not self.faults,
            f"{self.early} ended early": self.early,
            f"{self.late} ended late": self.late,
            f"{self.missing} pages are missing": self.missing and not self.tolerant,
            f"{self.repeated} downloads are repeated": self.repeated > self.explained and not self.tolerant,
            f"{self.missing_again} pages are missing in the next crawl": self.missing_again,
            f"{self.rude} requests came too soon, at {self.least_gap} of the delay": self.rude,
            f"the rate was {self.rate} of what is allowed": (self.rate or 1.0) < self.least_rate,
            f"the workers of the next crawl ended as {self.ended_again}": self.ended_again,
        }
        return [complaint for complaint, holds in found.items() if holds]

    @property
    def ok(self) -> bool:
        """Whether the package kept its promises."""
        return not self.complaints


def judge(name: str, arena: Arena, outcome: Outcome, tolerant: bool) -> Verdict:
    """Return the verdict on what was played in *arena*."""
    wanted = arena.pages - outcome.absent
    first_parsed: dict[str, float] = {}
    for event in arena.fleet.events("parsed"):
        if event.what in wanted:
            first_parsed.setdefault(event.what, event.time)
    downloads = arena.fleet.urls("downloaded")
    finished = [event for event in arena.fleet.events("closed") if event.what == "finished"]
    last = max(first_parsed.values(), default=0.0)
    # How Scrapy says that it could not crawl; a signal has a negative number.
    broken = [number for number, worker in enumerate(arena.fleet.workers) if (worker.poll() or 0) > 0]
    gaps = _gaps(arena, outcome.excuses)
    longest = max(gaps.values(), key=len, default=[])
    least = min((gap for its in gaps.values() for gap in its), default=None)
    return Verdict(
        name,
        arena.seed,
        outcome.faults,
        workers=len(arena.fleet.workers),
        pages=len(wanted),
        missing=len(wanted - first_parsed.keys()),
        repeated=sum(downloads[page] - 1 for page in arena.pages & downloads.keys()),
        explained=outcome.explained,
        early=sum(event.time < last for event in finished),
        late=len(arena.alive()),
        least_gap=None if least is None else round(least, 3),
        rude=sum(gap < POLITE for its in gaps.values() for gap in its),
        rate=round(len(longest) / sum(longest), 3) if longest else None,
        least_rate=outcome.rate,
        problem=f"workers {broken} ended with an error" if broken else "",
        tolerant=tolerant,
    )


def _gaps(arena: Arena, excuses: bool) -> dict[str, list[float]]:
    """Return, by host, the times between two requests to it, as shares of the delay that was promised.

    A process may be held up between the moment in which it sends a request and that in which it takes it
    down: then that counts as sent when the process was held up first.
    """
    held_up = defaultdict(list)
    for event in arena.fleet.events("lag") if excuses else ():
        held_up[event.pid].append((event.time - float(event.what) - MARGIN, event.time + MARGIN))
    asked = defaultdict(list)
    for event in arena.fleet.events("downloaded") if arena.delay else ():
        stalls = (begin for begin, end in held_up[event.pid] if begin < event.time < end)
        begun = min(stalls, default=event.time)
        asked[event.what.split("/")[2]].append((event.time, begun))
    return {
        host: [(after - begun) / arena.delay for (_, begun), (after, _) in pairwise(sorted(times))]
        for host, times in asked.items()
        if len(times) > 1
    }


def judge_again(verdict: Verdict, arena: Arena, outcome: Outcome) -> Verdict:
    """Have the same spider crawl once more; return *verdict* with what became of that."""
    fleet = arena.crawl_again()
    ends = fleet.reasons() + ["not at all"] * (len(fleet.workers) - len(fleet.reasons()))
    return replace(
        verdict,
        missing_again=len(arena.pages - outcome.absent - fleet.urls("parsed").keys()),
        ended_again="" if set(ends) == {"finished"} else ", ".join(ends),
    )
