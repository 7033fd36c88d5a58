"""The measured figures in the pages are those of the file of the benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import quotes
from benchmarks.arena import MEMORY, OURS, BenchmarkError
from benchmarks.checkout import CHANGED
from benchmarks.figures import Figures
from benchmarks.report import Results

from ..support.pages import DOCS, ROOT, examples, rows, section

RESULTS = Results.read(DOCS / "benchmarks.json")
#: A link to the tables of the benchmarks.
_LINK = re.compile(r"\[([^\[\]]+)\]\((?:docs/)?benchmarks\.md(?:#[\w-]+)?\)")

each_page = pytest.mark.parametrize(
    "page", quotes.pages(), ids=[str(page.relative_to(ROOT)) for page in quotes.pages()]
)


@each_page
def test_the_figures_of_a_page_are_the_measured_ones(page: Path) -> None:
    text = page.read_text()
    assert quotes.filled(text, RESULTS.figures) == text, "`python -m benchmarks --readme` mends the page"


@each_page
def test_a_number_that_links_to_the_benchmarks_has_a_mark(page: Path) -> None:
    linked = _LINK.findall(page.read_text())
    assert not [text for text in linked if re.search(r"\d", quotes.without_quotes(text))]


def test_the_tables_are_written_from_the_file_of_figures() -> None:
    assert (DOCS / "benchmarks.md").read_text() == RESULTS.page(), "`python -m benchmarks --readme` mends it"


def test_all_figures_are_measured_on_one_commit() -> None:
    assert RESULTS.commits.keys() == RESULTS.figures.keys()
    (measured,) = set(RESULTS.commits.values())
    assert not measured.endswith(CHANGED), "the measured code is in no commit"


def test_each_figure_that_can_be_quoted_is_quoted() -> None:
    quoted = {name for page in quotes.pages() for name in quotes.names_in(page.read_text())}
    assert quoted == set(quotes.QUOTES)


def test_the_readme_quotes_the_speed() -> None:
    assert "speed" in quotes.names_in((ROOT / "README.md").read_text())


def test_the_example_of_sizes_calculates_with_the_figures_of_its_tables() -> None:
    (example,) = examples(DOCS / "sizing.md", "python")
    sizes = [float(number) for line in re.findall(r"2e6, (\d+), (\d+)", example.code) for number in line]
    exact, compact, json, deflated, *_ = (
        float(row[1].partition("<")[0]) for row in rows(section(DOCS / "sizing.md", "## Memory"))
    )
    assert sizes == [exact, json, compact, deflated]


def test_figures_that_are_measured_anew_are_filled_in() -> None:
    figures = Figures()
    figures.add(MEMORY, pages_per_second=100)
    figures.add(OURS, pages_per_second=98)
    filled = quotes.filled("[1.07<!-- bench: speed -->](docs/benchmarks.md) of it", {"crawl": figures})
    assert filled == "[0.98<!-- bench: speed -->](docs/benchmarks.md) of it"


def test_a_figure_that_was_not_measured_is_a_dash() -> None:
    assert quotes.filled("1,200<!-- bench: polite-20-full -->", {}) == "-<!-- bench: polite-20-full -->"


def test_a_dash_becomes_a_figure_when_it_is_measured() -> None:
    figures = Figures()
    figures.add("3,000 hosts, delay 8 s, 20 workers", redis_us=148.0)
    filled = quotes.filled("-<!-- bench: polite-20-full -->", {"polite_cost": figures})
    assert filled == "6,800<!-- bench: polite-20-full -->"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fast <!-- bench: speed -->", "must follow a number"),
        ("1.07<!-- bench: spede -->", "names no figure"),
    ],
)
def test_a_wrong_mark_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BenchmarkError, match=reason):
        quotes.filled(text, {})
