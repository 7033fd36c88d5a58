"""The English is plain: a sentence names its subject, and a validation says what must be."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..support import words
from ..support.pages import PAGES, ROOT
from ..support.words import Count

#: Of the words that leave a subject to be guessed, in a thousand. Well-kept projects have 0.6 to 1.6.
MOST = 3.0
MODULES = sorted(words.PACKAGE.rglob("*.py"))
SCRIPTS = sorted(words.PACKAGE.rglob("*.lua"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


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


def test_a_vague_test_name_is_found() -> None:
    code = """
def test_what_is_pushed_is_kept(): ...
class Contract:
    async def test_a_worker_whose_lease_is_gone_stops(self): ...
    def test_a_worker_stops_somewhat_later(self): ...
def who(): ...
"""
    found = words.vague_test_names(code)
    assert found == ["test_what_is_pushed_is_kept", "test_a_worker_whose_lease_is_gone_stops"]


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        (
            "module.py",
            """
class ToldWorkers:
    def said(self, what, *, saturated):
        self._who = whole = "said"
        return lambda those: whole
""",
            {"ToldWorkers", "said", "what", "_who", "those"},
        ),
        (
            "script.lua",
            """
-- a worker's lease: local told = what was said
local said, lease = 'local those = 1', 2
function leases.told(worker, who)
  worker.sown = lease == said
  for _, what in ipairs(worker) do redis.call('HGET', what, 'said') end
end
local whom
return {nobody = {whole = 1}}
""",
            {"said", "told", "who", "sown", "what", "whom", "nobody"},
        ),
        ("finding.py", "what: str", set()),
    ],
)
def test_a_private_identifier_is_found(name: str, code: str, expected: set[str], tmp_path: Path) -> None:
    (tmp_path / name).write_text(code)
    assert set(words.private_identifiers(tmp_path / name)) == expected


def test_the_names_of_tests_name_their_subjects() -> None:
    assert len(TESTS) > 200
    assert not {name: path.name for path in TESTS for name in words.vague_test_names(path.read_text())}


def test_the_identifiers_of_the_package_have_no_private_words() -> None:
    assert len(MODULES) > 100
    assert len(SCRIPTS) > 50
    assert not {name: path.name for path in MODULES + SCRIPTS for name in words.private_identifiers(path)}
