"""The changelog is ready for a release if the version of setup.cfg has a section with a date."""

from __future__ import annotations

import pytest

from ..tools.release import problem

READY = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-31\n\n### Added\n\n- A thing.\n"


def test_a_changelog_with_a_dated_section_is_ready() -> None:
    assert problem(READY, "1.2.0") == ""


@pytest.mark.parametrize(
    ("changelog", "reason"),
    [
        (READY.replace("1.2.0", "1.1.0"), "no section [1.2.0]"),
        (READY.replace("2026-01-31", "not yet released"), "## [1.2.0] - YYYY-MM-DD"),
        (READY.partition("### Added")[0], "[1.2.0] is empty"),
        (READY.replace("[Unreleased]\n", "[Unreleased]\n\n- Another thing.\n"), "[Unreleased] must be empty"),
    ],
)
def test_a_changelog_that_is_not_ready_is_refused_in_one_line(changelog: str, reason: str) -> None:
    found = problem(changelog, "1.2.0")
    assert reason in found
    assert "\n" not in found
