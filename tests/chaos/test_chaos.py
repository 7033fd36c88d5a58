"""The scenarios that take away each protection's reason to be there, in their short form.

CHAOS_SEED repeats what is random in one. ``make chaos`` plays all scenarios, in their long form.
"""

from __future__ import annotations

import os
import secrets
import shutil
import warnings
from pathlib import Path

import pytest

from .ledger import remark
from .mutants import MUTANTS, PACKAGE, ROOT, apply
from .scenarios import RESTARTS, SCENARIOS, run

#: Restarts whose short form shows nothing of its own. A test of the command has a worker that hangs in its
#: constructor; `limits-resume` has a restart with limits, and in `upgrade` a whole fleet is killed.
COVERED = {"hang-start", "limits-kill"}
#: For each protection of the crawl, the scenario that sees best whether it is there; and those of restarts.
FIRST_TIER = sorted(
    {mutant.scenarios[0] for mutant in MUTANTS.values()}.union(set(RESTARTS) - COVERED),
    key=list(SCENARIOS).index,
)


@pytest.mark.parametrize("name", FIRST_TIER)
def test_the_crawl_survives(name: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10**6))
    print(f"{name}: CHAOS_SEED={seed}")
    verdict = run(SCENARIOS[name], seed, long=False, folder=tmp_path)
    if verdict.skipped:
        pytest.skip(verdict.skipped)
    if verdict.voided:
        warnings.warn(remark(verdict), stacklevel=1)
    assert not verdict.complaints, verdict


def test_every_scenario_of_a_mutant_exists() -> None:
    named = {scenario for mutant in MUTANTS.values() for scenario in mutant.scenarios}
    assert named <= SCENARIOS.keys()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_can_be_made_of_the_code_as_it_is(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / PACKAGE, tmp_path / PACKAGE)
    apply(MUTANTS[name], tmp_path)
