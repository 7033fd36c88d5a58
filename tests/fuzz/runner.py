"""Tries cases until a time is over, and reduces each finding to its smallest example."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.errors import Flaky

from .oracle import Complaint, crash
from .target import Target

#: Cases that Hypothesis makes of one seed, and seconds for which it looks for a smaller one.
ROUND, SHRINKING = 200, 60.0
#: Findings of a target at most: what is that broken is mended first.
MOST_FINDINGS = 25


@dataclass(frozen=True)
class Finding:
    """A fault, and the smallest known cases that show it."""

    target: str
    kind: str
    details: str
    cases: list[Any]

    def write(self, folder: Path) -> Path:
        """Write a file to replay, and return where it is."""
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob(f"{self.target}-*.json"))) + 1
        path = folder / f"{self.target}-{number:02}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> Finding:
        """Return the finding in a file."""
        return cls(**json.loads(path.read_text()))


@dataclass
class Report:
    """What became of a target."""

    target: str
    tries: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    @property
    def kinds(self) -> set[str]:
        """The kinds of the findings."""
        return {finding.kind for finding in self.findings}


class _FoundError(Exception):
    """A case shows a fault."""


def fuzz(
    target: Target, seconds: float, seed: int, most: int | None = None, shrinking: float = SHRINKING
) -> Report:
    """Try cases of *target* for so many seconds, or at most *most* of them.

    :param shrinking: for so many seconds look for a smaller example of each fault.
    """
    report, begun = Report(target.name), time.monotonic()
    until = begun + seconds
    round_ = 0
    while time.monotonic() < until and len(report.findings) < MOST_FINDINGS:
        left = None if most is None else most - report.tries
        if left is not None and left <= 0:
            break
        try_some = _one_by_one if target.batch == 1 else _together
        try_some(target, report, f"{seed}-{round_}", until, left, shrinking)
        round_ += 1
    report.seconds = time.monotonic() - begun
    return report


def replay(target: Target, finding: Finding) -> list[Complaint]:
    """Try the cases of *finding* again."""
    alone = [one for case in finding.cases for one in _complaints(target, [case], alone=True)]
    return [*alone, *_complaints(target, finding.cases)]


def _complaints(target: Target, cases: list[Any], alone: bool = False) -> Iterator[Complaint]:
    try:
        yield from target.alone(cases[0]) if alone else target.examine(cases)
    except Exception as error:
        yield crash(error, "in the examiner itself")


def _options(examples: int, *phases: Phase) -> Any:
    return settings(
        max_examples=examples,
        phases=phases,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
    )


def _one_by_one(
    target: Target, report: Report, seed: str, until: float, left: int | None, shrinking: float
) -> None:
    smallest: list[Finding] = []
    end = until

    @hypothesis.seed(seed)
    @_options(min(ROUND, left or ROUND), Phase.generate, Phase.shrink)
    @given(target.cases())
    def attempt(case: Any) -> None:
        nonlocal end
        if time.monotonic() > end:
            return  # Hypothesis calls that flaky
        report.tries += 1
        for complaint in _complaints(target, [case]):
            wanted = smallest[0].kind if smallest else complaint.kind
            if complaint.kind in report.kinds or complaint.kind != wanted:
                continue
            if not smallest:
                end = min(until, time.monotonic() + shrinking)
            smallest.append(Finding(target.name, complaint.kind, complaint.details, [case]))
            raise _FoundError(complaint.kind)

    with contextlib.suppress(_FoundError, Flaky):
        attempt()
    if smallest:
        report.findings.append(min(smallest, key=_size))


def _together(
    target: Target, report: Report, seed: str, until: float, left: int | None, shrinking: float
) -> None:
    def end() -> float:
        return min(until, time.monotonic() + shrinking)

    cases = _drawn(target, min(target.batch, left or target.batch), seed)
    report.tries += len(cases)
    for case in cases:
        for complaint in list(_complaints(target, [case], alone=True)):
            if complaint.kind not in report.kinds:
                report.findings.append(_reduced(target, [case], complaint, end(), alone=True))
    for complaint in list(_complaints(target, cases)):
        if complaint.kind not in report.kinds:
            report.findings.append(_reduced(target, cases, complaint, end()))


def _drawn(target: Target, count: int, seed: str) -> list[Any]:
    """Return *count* cases."""
    cases: list[Any] = []

    @hypothesis.seed(seed)
    @_options(count, Phase.generate)
    @given(target.cases())
    def draw(case: Any) -> None:
        cases.append(case)

    draw()
    return cases


def _reduced(
    target: Target, cases: list[Any], complaint: Complaint, end: float, alone: bool = False
) -> Finding:
    """Halve *cases* as long as a half shows the fault, then make the last one simpler."""

    def shows(some: Collection[Any]) -> Complaint | None:
        if time.monotonic() > end:
            return None
        return next(
            (one for one in _complaints(target, list(some), alone) if one.kind == complaint.kind), None
        )

    while len(cases) > 1:
        middle = len(cases) // 2
        for half in (cases[:middle], cases[middle:]):
            if shown := shows(half):
                cases, complaint = half, shown
                break
        else:
            break
    is_simpler = len(cases) == 1
    while is_simpler:
        is_simpler = False
        for case in target.simpler(cases[0]):
            if shown := shows([case]):
                cases, complaint, is_simpler = [case], shown, True
                break
    return Finding(target.name, complaint.kind, complaint.details, cases)


def _size(finding: Finding) -> int:
    return len(json.dumps(finding.cases))
