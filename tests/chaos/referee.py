"""What a scenario cost: counted from the workers' own record, and from how they ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise

from .arena import Arena

#: The shortest time between two requests to a host, as a share of the delay, that is no complaint.
POLITE = 0.95
#: The share of the time for an exchange for which the machine may keep a worker from a processor.
TOLERANCE = 0.25
#: Seconds by which a process that is held up may notice it later.
MARGIN = 0.05


@dataclass(frozen=True)
class Outcome:
    """What a scenario says of itself.

    :param faults: how many it made.
    :param explained: the most repeated downloads that they explain.
    :param absent: pages that are not to be crawled.
    :param rate: the least share of the requests that the delay allows, to the host with the most pages.
    :param begun: when the last of several crawls began: before, workers close as finished for good reason.
    :param refused: workers that were refused with a line, as they should be.
    """

    faults: int
    explained: int = 0
    absent: set[str] = field(default_factory=set)
    rate: float = 0.0
    #: Whether a request that came late because its process was held up may be followed by one in time.
    excuses: bool = True
    begun: float = 0.0
    refused: set[int] = field(default_factory=set)


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
    :param history: the crawls in the spider's history, the latest first: state, and pages.
    :param problem: what else was not as it should be.
    :param overdue: what did not happen in time.
    :param tolerant: whether missing and repeated pages are what the scenario is to show.
    :param skipped: why the scenario could not be played here; empty if it was.
    :param clock: the seconds in which a worker had to do something.
    :param standstill: the most of those seconds for which the machine kept one worker from a processor.
    :param allowed: the most for which that is no excuse.
    :param voided: what was said of the plays before this one, in which the machine stood still.
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
    history: list[tuple[str, int]] = field(default_factory=list)
    problem: str = ""
    overdue: str = ""
    tolerant: bool = False
    skipped: str = ""
    clock: float = 0.0
    standstill: float = 0.0
    allowed: float = 0.0
    voided: list[str] = field(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        """What speaks against it. Where there was no fault, nothing is shown."""
        if self.problem or self.overdue:
            return [self.problem or self.overdue]
        if self.skipped:
            return []
        return [*self._of_the_crawl, *self._of_the_clock]

    @property
    def _of_the_crawl(self) -> list[str]:
        """What no machine excuses, however slow it is."""
        found = {
            f"{self.early} ended early": self.early,
            f"{self.missing} pages are missing": self.missing and not self.tolerant,
            f"{self.missing_again} pages are missing in the next crawl": self.missing_again,
            f"the workers of the next crawl ended as {self.ended_again}": self.ended_again,
            f"the history has {self.history}": self._has_another_history,
        }
        return [complaint for complaint, holds in found.items() if holds]

    @property
    def _has_another_history(self) -> bool:
        """Whether all workers have ended, and the crawl has not one entry, as finished, in the history."""
        if not self.history or self.late:
            return False
        return self.history[0][0] != "finished" or len(self.history) > 1

    @property
    def _of_the_clock(self) -> list[str]:
        """What a machine can cause that keeps a worker from a processor."""
        found = {
            "no fault was made": not self.faults,
            f"{self.late} ended late": self.late,
            f"{self.repeated} downloads are repeated": self.repeated > self.explained and not self.tolerant,
            f"{self.rude} requests came too soon, at {self.least_gap} of the delay": self.rude,
            f"the rate was {self.rate} of what is allowed": (self.rate or 1.0) < self.least_rate,
        }
        return [complaint for complaint, holds in found.items() if holds]

    @property
    def void(self) -> str:
        """Why this verdict says nothing: only clocks speak against it, and the machine stood still."""
        if self.ok or self.problem or self._of_the_crawl or self.standstill <= self.allowed:
            return ""
        return (
            f"the machine kept a worker from a processor for {self.standstill:.2f} s of {self.clock:g} s "
            f"({', '.join(self.complaints)})"
        )

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
    failed = {number for number, worker in enumerate(arena.fleet.workers) if (worker.poll() or 0) > 0}
    broken = sorted(failed - outcome.refused)
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
        early=sum(outcome.begun < event.time < last for event in finished),
        late=len(arena.alive()),
        least_gap=None if least is None else round(least, 3),
        rude=sum(gap < POLITE for its in gaps.values() for gap in its),
        rate=round(len(longest) / sum(longest), 3) if longest else None,
        least_rate=outcome.rate,
        history=[(crawl.state, crawl.pages) for crawl in arena.history()],
        problem=f"workers {broken} ended with an error" if broken else "",
        tolerant=tolerant,
    )


def measured(verdict: Verdict, arena: Arena) -> Verdict:
    """Return *verdict* with how long the machine stood still in *arena*."""
    tolerance = 1 - POLITE if arena.delay else TOLERANCE
    return replace(
        verdict, clock=arena.clock, standstill=round(arena.standstill, 3), allowed=tolerance * arena.clock
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
