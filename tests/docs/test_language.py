"""The English is plain: a sentence names its subject, and a validation says what must be."""

from __future__ import annotations

from pathlib import Path

import pytest

from .. import words
from ..pages import PAGES, ROOT
from ..words import Count

#: Of the words that leave a subject to be guessed, in a thousand. Well-kept projects have 0.6 to 1.6.
MOST = 3.0
MODULES = sorted(words.PACKAGE.rglob("*.py"))


def test_the_words_are_found() -> None:
    found = words.of_text(
        "What is pushed? Whoever looks, and a URL that is none; it may be a list. None of these."
    )
    assert (len(found.guessed), len(found.unclear)) == (2, 2)


def test_code_in_a_page_is_not_english(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Type `who`:\n\n    who am i\n\n```console\n$ what\n```\n\nThis says [who](what.md).\n")
    assert [" ".join(found.split()[-1:]) for found in words.of_page(page).guessed] == ["[who]."]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_names_its_subjects(page: Path) -> None:
    count = words.of_page(page)
    # A short page may have one of them.
    assert len(count.guessed) <= max(1, 2 * MOST * count.words / 1000), count.guessed
    assert not count.unclear


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("pages", [words.of_page(page) for page in PAGES]),
        ("messages", [words.of_messages(module) for module in MODULES]),
        ("docstrings", [words.of_docstrings(module) for module in MODULES]),
    ],
)
def test_the_subjects_are_named(name: str, counts: list[Count]) -> None:
    count = words.total(counts)
    assert count.words > 1000
    assert count.per_thousand <= MOST, count.guessed
    assert not count.unclear
