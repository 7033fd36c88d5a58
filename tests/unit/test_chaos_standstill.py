"""A scenario is played again if the machine stood still, but never if pages are missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..chaos import registry
from ..chaos.arena import OverdueError
from ..chaos.ledger import remark
from ..chaos.referee import Outcome, Verdict
from ..chaos.registry import Scenario
from ..chaos.standstill import Watch, longest, waited
from ..support.crawl import wait_until

STOOD_STILL = {"clock": 2.0, "allowed": 0.5, "standstill": 0.7}
FAST = {**STOOD_STILL, "standstill": 0.4}


@pytest.mark.parametrize("found", [{"repeated": 3}, {"late": 1}, {"rude": 1}, {"overdue": "no log line"}])
def test_a_verdict_that_only_clocks_speak_against_is_void_if_the_machine_stood_still(
    found: dict[str, Any],
) -> None:
    assert Verdict("x", 0, faults=1, **found, **STOOD_STILL).void
    assert not Verdict("x", 0, faults=1, **found, **FAST).void


@pytest.mark.parametrize(
    "found",
    [
        {"missing": 1},
        {"missing_again": 1},
        {"early": 1},
        {"ended_again": "shutdown"},
        {"problem": "two workers at a time"},
    ],
)
def test_a_verdict_is_not_void_if_pages_are_missing_or_the_crawl_is_wrong(found: dict[str, Any]) -> None:
    assert not Verdict("x", 0, faults=1, repeated=3, **found, **STOOD_STILL).void


def test_a_verdict_without_complaints_is_not_void() -> None:
    assert not Verdict("x", 0, faults=1, **STOOD_STILL).void


class Arena:
    """An arena of which only the pace is of interest."""

    delay, clock = 0.0, 2.0
    played: list[int]

    def __init__(self, folder: Path, seed: int, long: bool, pace: int) -> None:
        self.pace = pace
        self.played.append(pace)

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    """Return what plays a scenario that is overdue up to a pace, on a machine that stands still so long."""

    def played(standstill: float, overdue_up_to: int) -> Verdict:
        monkeypatch.setattr(Arena, "standstill", standstill, raising=False)
        monkeypatch.setattr(Arena, "played", [], raising=False)

        def scene(arena: Any) -> Outcome:
            if arena.pace <= overdue_up_to:
                raise OverdueError("no log line")
            raise ValueError("it was played")

        return registry.run(Scenario("x", "", scene), 0, False, tmp_path)

    monkeypatch.setattr(registry, "Arena", Arena)
    return played


def test_a_void_scenario_is_played_again_at_half_the_pace_and_says_so(play: Callable[..., Verdict]) -> None:
    verdict = play(1.0, overdue_up_to=1)
    assert Arena.played == [1, 2]
    assert "it was played" in verdict.problem
    assert "played again: the machine kept a worker from a processor for 1.00 s of 2 s" in remark(verdict)


def test_a_scenario_is_not_played_again_if_the_machine_did_not_stand_still(
    play: Callable[..., Verdict],
) -> None:
    verdict = play(0.1, overdue_up_to=1)
    assert Arena.played == [1]
    assert not verdict.ok


def test_a_scenario_that_is_void_each_time_has_failed(play: Callable[..., Verdict]) -> None:
    verdict = play(1.0, overdue_up_to=4)
    assert Arena.played == [1, 2, 4]
    assert "no log line" in verdict.overdue
    assert not verdict.ok


def test_the_longest_wait_is_looked_for_within_a_time() -> None:
    waits = [(0.0, 5.0), (1.0, 5.5), (2.0, 5.5), (3.0, 6.5), (4.0, 7.0), (9.0, 7.9)]
    assert longest(waits, 2.0) == 1.5
    assert longest(waits, 100.0) == pytest.approx(2.9)
    assert longest([], 1.0) == 0.0


def state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(waited(os.getpid()) is None, reason="this system does not count how long processes wait")
def test_a_process_that_shares_a_processor_is_seen_to_wait_and_a_stopped_one_is_not() -> None:
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command) for _ in range(3)]
    try:
        for process in busy:
            os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        with Watch(lambda: [busy[0].pid]) as watch:
            wait_until(lambda: watch.longest(1.0) > 0.3, message="it did not wait")
        busy[0].send_signal(signal.SIGSTOP)
        wait_until(lambda: state(busy[0].pid) == "T")
        before = waited(busy[0].pid)
        with Watch(lambda: [busy[1].pid]) as others:
            wait_until(lambda: others.longest(1.0) > 0.2, message="the others did not wait")
        assert waited(busy[0].pid) == before
    finally:
        for process in busy:
            process.kill()
            process.wait()
