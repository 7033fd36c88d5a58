"""Check that the changelog has the section of the version that is about to be released."""

from __future__ import annotations

import re
import sys
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
UNRELEASED = "Unreleased"


def version() -> str:
    """Return the version of setup.cfg, the only place that has it."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config["metadata"]["version"]


def problem(changelog: str, released: str) -> str:
    """Return why *changelog* is not ready for the version *released*; empty if it is ready."""
    sections = re.findall(r"^## \[(.+?)\](.*)\n((?:(?!## ).*\n?)*)", changelog, re.MULTILINE)
    titles = {name: title for name, title, _ in sections}
    texts = {name: text.strip() for name, _, text in sections}
    if released not in titles:
        return f"CHANGELOG.md has no section [{released}], the version of setup.cfg"
    if not re.fullmatch(r" - \d{4}-\d{2}-\d{2}", titles[released]):
        return f"CHANGELOG.md: the heading must be '## [{released}] - YYYY-MM-DD', with the release's date"
    if not texts[released]:
        return f"CHANGELOG.md: the section [{released}] is empty"
    if texts.get(UNRELEASED):
        return f"CHANGELOG.md: [{UNRELEASED}] must be empty. Move its changes to the section [{released}]"
    return ""


def main() -> None:
    """Print the result in one line, and exit with 1 if the changelog is not ready."""
    released = version()
    found = problem((ROOT / "CHANGELOG.md").read_text(), released)
    if found:
        sys.exit(f"Not ready for a release: {found}")
    print(f"CHANGELOG.md is ready for version {released}")


if __name__ == "__main__":
    main()
