"""``make demo-cores``: what the cores of a machine are worth."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent.parent / "example_project"


@pytest.mark.long
@pytest.mark.single("the demo has a Redis of its own")
def test_the_demo_says_how_much_faster_all_cores_are() -> None:
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory() as short:
        folder = Path(short) / "example"
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".scrapy"))
        done = subprocess.run(
            [sys.executable, "-m", "demo.all_cores", "--books", "60"],
            cwd=folder,
            env={**os.environ, "REDIS_URL": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        items = (folder / "site.jsonl").read_text().splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {int(count) for count in re.findall(r"is finished: (\d+) pages", done.stdout)}
    assert pages == {len(items)}
    assert re.search(r"^One worker: \d+ pages a second\. ", done.stdout, re.MULTILINE)
    if len(os.sched_getaffinity(0)) > 1:
        assert re.search(r" workers: \d+ pages a second, \d+\.\d\d times as many\.", done.stdout)
