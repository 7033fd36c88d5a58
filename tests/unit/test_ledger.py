"""The ledger of faults: ten rows first, all others folded, and each column explained."""

from __future__ import annotations

import re

import pytest

from ..chaos.ledger import COLUMNS, LEADING, page
from ..chaos.referee import Verdict
from ..chaos.scenarios import SCENARIOS
from ..support.pages import DOCS, rows, section

LEDGER = DOCS / "ledger.md"


@pytest.fixture
def written() -> str:
    verdicts = [Verdict(name, seed=1, faults=3, pages=7000, least_gap=1.0, rate=1.0) for name in SCENARIOS]
    return page(verdicts, long=True)


def test_the_rows_that_matter_most_come_first(written: str) -> None:
    first = rows(written.partition("## All scenarios")[0])
    assert [row[1] for row in first] == [f"`{name}`" for name in LEADING]
    assert len(first) == 10
    assert first[0][2:] == ["3", "7,000", "0", "0"]


def test_every_column_is_explained_before_the_table(written: str) -> None:
    before = written.partition("## All scenarios")[2].partition("<details>")[0]
    assert re.findall(r"^- \*\*([\w ]+)\*\*: .+\.$", before, re.MULTILINE) == COLUMNS


def test_the_other_rows_are_folded(written: str) -> None:
    folded = re.findall(r"<details>\n<summary>([^<]+)</summary>\n\n(.*?)\n\n</details>\n", written, re.DOTALL)
    assert folded[0][0] == f"The table of all {len(SCENARIOS)} scenarios"
    assert [row[0] for row in rows(folded[0][1])] == list(SCENARIOS)
    outside = re.sub(r"<details>.*?</details>", "", written, flags=re.DOTALL)
    assert len(rows(outside)) == len(LEADING)


def test_the_published_ledger_has_the_form_that_is_written(written: str) -> None:
    text = LEDGER.read_text()
    form = re.compile(
        r"^(?:#|<).*$|^\| (?:scenario|what happens) .*$|^- \*\*[\w ]+\*\*: the .*$", re.MULTILINE
    )
    assert [re.sub(r"\d+", "", line) for line in form.findall(text)] == [
        re.sub(r"\d+", "", line) for line in form.findall(written)
    ]


def test_the_first_rows_of_the_published_ledger_repeat_its_table() -> None:
    columns = [COLUMNS.index(name) for name in ("faults", "pages", "missing", "repeated")]
    table = {row[0]: [row[column] for column in columns] for row in rows(section(LEDGER, "## All scenarios"))}
    first = rows(LEDGER.read_text().partition("## All scenarios")[0])
    assert {row[1].strip("`"): [cell.replace(",", "") for cell in row[2:]] for row in first} == {
        name: table[name] for name in LEADING
    }
