"""The scenarios by their names, and how one is played."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from .arena import Arena
from .referee import Outcome, Verdict, judge, judge_again

Play = Callable[[Arena], Outcome]


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
    """Play *chosen* in *folder*, by default one that is deleted afterwards."""
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return run(chosen, seed, long, Path(temporary))
    begun = time.monotonic()
    with Arena(folder, seed, long) as arena:
        try:
            outcome = chosen.play(arena)
            arena.settle()
            verdict = judge(chosen.name, arena, outcome, chosen.tolerant)
            if chosen.again:
                verdict = judge_again(verdict, arena, outcome)
        except Exception as error:  # whatever it is, it is a row of the table, and the next is played
            where = traceback.extract_tb(error.__traceback__)[-1]
            problem = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
            return Verdict(chosen.name, seed, problem=problem, seconds=time.monotonic() - begun)
        return replace(verdict, seconds=time.monotonic() - begun)
