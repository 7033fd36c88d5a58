"""The code that is measured: the commit of this checkout, and how much has changed since another one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from .arena import ROOT

#: After a commit: the measured code had changes that are in no commit.
CHANGED = "+"
#: What is measured: the package. Another commit may mend a benchmark before the last one has run.
_CODE = ("--", "scrapy_rq_sched")


def commit(folder: Path = ROOT) -> str:
    """Return the last commit that changed the package, with a mark if it has changes since.

    :return: "" if *folder* is no checkout.
    """
    found = _git(folder, "log", "-1", "--format=%H", *_CODE)
    if not found:
        return ""
    return found + (CHANGED if _git(folder, "status", "--porcelain", *_CODE) else "")


def commits_since(measured: str, folder: Path = ROOT) -> int | None:
    """Return how many commits have changed the code since *measured*; None if git does not have it."""
    count = _git(folder, "rev-list", "--count", f"{measured.removesuffix(CHANGED)}..HEAD", *_CODE)
    return None if count is None else int(count)


def named(measured: str) -> str:
    """Return *measured* in words, as Markdown."""
    if not measured:
        return "unknown commit"
    changes = ", with changes that are in no commit" if measured.endswith(CHANGED) else ""
    return f"commit `{measured.removesuffix(CHANGED)[:12]}`{changes}"


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints; None if there is no git, or it refuses."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run([git, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None
