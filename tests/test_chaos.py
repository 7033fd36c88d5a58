"""Each scenario in its short form; CHAOS_SEED repeats what is random in one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from .chaos.scenarios import SCENARIOS, run


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_crawl_survives(name: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10**6))
    print(f"{name}: CHAOS_SEED={seed}")
    verdict = run(SCENARIOS[name], seed, long=False, folder=tmp_path)
    assert not verdict.complaints, verdict
