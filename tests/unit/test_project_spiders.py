"""The spiders of a project whose files cannot all be imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scrapy.settings import Settings

from scrapy_rq_sched.inspect.project_spiders import ProjectSpiders

GOOD = "import scrapy\n\n\nclass Good(scrapy.Spider):\n    name = 'good{}'\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of spiders: a file before the broken one, another after it, and one in a package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "farm"
    (folder / "zoo").mkdir(parents=True)
    for number, name in enumerate(("a.py", "z.py", "zoo/a.py"), 1):
        (folder / name).write_text(GOOD.format(number))
    for package in (folder, folder / "zoo"):
        (package / "__init__.py").touch()
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "farm"]:
        del sys.modules[name]


def spiders(**settings: object) -> ProjectSpiders:
    return ProjectSpiders(Settings({"SPIDER_MODULES": ["farm"], **settings}))


def test_the_project_has_the_spiders_of_scrapys_loader(folder: Path) -> None:
    found = spiders()
    assert (found.list(), found.problems) == (["good1", "good2", "good3"], [])
    spidercls = found.load("good3")
    assert spidercls is not None
    assert spidercls.__module__ == "farm.zoo.a"
    assert found.load("other") is None


@pytest.mark.parametrize("warn_only", [False, True])
@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import scrapy\nclass B(scrapy.Spider)\n", "line 2, cannot be loaded: SyntaxError: expected ':'"),
        (
            "\nimport nowhere\n",
            "line 2, cannot be loaded: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("import json\njson.loads('')\n", "line 2, cannot be loaded: JSONDecodeError: Expecting value: "),
    ],
)
def test_a_file_that_cannot_be_imported_hides_only_its_own_spiders(
    folder: Path, source: str, problem: str, warn_only: bool, recwarn: pytest.WarningsRecorder
) -> None:
    (folder / "m.py").write_text(source)
    found = spiders(SPIDER_LOADER_WARN_ONLY=warn_only)
    assert found.list() == ["good1", "good2", "good3"]
    (text,) = found.problems
    assert text.startswith(f"farm/m.py, {problem}")
    assert not recwarn.list


def test_the_problem_of_an_import_names_the_projects_file_that_raises(folder: Path) -> None:
    (folder / "z.py").write_text("from .zoo import helper\n")
    (folder / "zoo" / "helper.py").write_text("\n\n1 / 0\n")
    found = spiders()
    assert found.list() == ["good1", "good3"]
    # Each of the two modules is imported.
    assert (
        found.problems
        == ["farm/zoo/helper.py, line 3, cannot be loaded: ZeroDivisionError: division by zero"] * 2
    )


def test_a_module_of_spiders_that_does_not_exist_is_named(folder: Path) -> None:
    found = spiders(SPIDER_MODULES=["farm", "nowhere"])
    assert found.list() == ["good1", "good2", "good3"]
    assert found.problems == [
        "Module nowhere cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"
    ]


class Loader:
    """A loader of a project's own that raises."""

    @classmethod
    def from_settings(cls, settings: object) -> Loader:
        raise LookupError("no list of spiders")


def test_a_projects_own_loader_that_raises_is_named(folder: Path) -> None:
    found = spiders(SPIDER_LOADER_CLASS=f"{__name__}.Loader")
    assert found.list() == []
    assert found.problems[0].endswith("cannot be loaded: LookupError: no list of spiders")
