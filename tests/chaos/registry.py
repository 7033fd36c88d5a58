"""The scenarios by their names, and how one is played."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from .arena import Arena, OverdueError
from .referee import Outcome, Verdict, judge, judge_again, measured


class NotPlayableError(Exception):
    """A scenario cannot be played on this machine, and the message says why."""


Play = Callable[[Arena], Outcome]

#: How many times as long everything lasts when a scenario is played, and when it is played again.
PACES = 1, 2, 4


@dataclass(frozen=True)
class Scenario:
    """One thing that is done to a fleet.

    :param about: one sentence: what is done, and what explains repeated pages.
    :param tolerant: whether missing and repeated pages are no failure, but what it is to show.
    :param again: whether the same spider crawls once more afterwards, and its pages are counted, too.
    """

    name: str
    about: str
    play: Play
    tolerant: bool = False
    again: bool = False


REGISTERED: list[Scenario] = []


def scenario(name: str, about: str, tolerant: bool = False, again: bool = False) -> Callable[[Play], Play]:
    """Register the decorated function as the scenario *name*."""

    def register(play: Play) -> Play:
        REGISTERED.append(Scenario(name, about, play, tolerant, again))
        return play

    return register


def run(chosen: Scenario, seed: int, long: bool, folder: Path | None = None) -> Verdict:
    """Play *chosen* in *folder*, by default one that is deleted afterwards.

    If the machine stood still and that may be why it failed, it is played again, and everything lasts twice
    as long: a machine whose processors are busy cannot keep the pace of a quiet one. The last verdict counts.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return run(chosen, seed, long, Path(temporary))
    voided: list[str] = []
    for pace in PACES:
        again = folder / f"pace-{pace}"
        again.mkdir()
        verdict = _play(chosen, seed, long, again, pace)
        if not verdict.void or pace == PACES[-1]:
            break
        voided.append(verdict.void)
    return replace(verdict, voided=voided)


def _play(chosen: Scenario, seed: int, long: bool, folder: Path, pace: int) -> Verdict:
    begun = time.monotonic()
    with Arena(folder, seed, long, pace) as arena:
        try:
            outcome = chosen.play(arena)
            arena.settle()
            verdict = judge(chosen.name, arena, outcome, chosen.tolerant)
            if chosen.again:
                verdict = judge_again(verdict, arena, outcome)
        except NotPlayableError as error:
            verdict = Verdict(chosen.name, seed, skipped=str(error))
        except OverdueError as error:
            verdict = Verdict(chosen.name, seed, overdue=_described(error))
        except Exception as error:  # whatever it is, it is a row of the table, and the next is played
            verdict = Verdict(chosen.name, seed, problem=_described(error))
        return replace(measured(verdict, arena), seconds=time.monotonic() - begun)


def _described(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
