"""The versions of a developer's tools and of the public workflow's actions change only by a commit."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ..tools import lock

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))


def locked() -> list[Requirement]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def required() -> list[Requirement]:
    """Return what setup.cfg asks for in a developer's environment."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = dict(config["options.extras_require"])
    found, wanted = [config["options"]["install_requires"]], {*lock.EXTRAS.split(",")}
    seen: set[str] = set()
    while wanted - seen:
        extra = (wanted - seen).pop()
        seen.add(extra)
        found.append(extras[extra])
        for line in re.findall(r"scrapy-rq-sched\[(.*)\]", extras[extra]):
            wanted |= {*line.split(",")}
    lines = [line for text in found for line in text.split("\n") if line]
    return [Requirement(line) for line in lines if not line.startswith("scrapy-rq-sched[")]


@pytest.mark.parametrize("python", lock.pythons())
def test_the_lock_names_one_version_of_each_requirement_for_each_python(python: str) -> None:
    versions: dict[str, list[str]] = {}
    for line in locked():
        if line.marker is None or line.marker.evaluate({"python_version": python}):
            versions.setdefault(line.name, []).append(str(line.specifier).removeprefix("=="))
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}
    for requirement in required():
        (version,) = versions[lock.normalized(requirement.name)]
        assert requirement.specifier.contains(version), requirement


def test_the_lock_has_exact_versions_and_no_address() -> None:
    assert len(locked()) > 80
    for line in locked():
        assert re.fullmatch(r"==[\w.!+-]+", str(line.specifier)), line
        assert line.url is None


def test_an_installation_for_developers_is_locked_and_no_other() -> None:
    makefile = (ROOT / "Makefile").read_text()
    locked_lines = [line for line in makefile.splitlines() if "-c constraints.txt" in line]
    assert [line.partition("'")[2] for line in locked_lines] == [".[demo,test,lint]' -c constraints.txt"]
    assert "constraints.txt" not in (ROOT / "tox.ini").read_text()


def test_versions_that_differ_get_a_marker() -> None:
    found = {
        "3.10": {"a": "1", "b": "1", "only": "7", "odd": "1"},
        "3.11": {"a": "1", "b": "2", "odd": "2"},
        "3.12": {"a": "1", "b": "2", "odd": "1"},
        "3.13": {"a": "1", "b": "3", "odd": "3"},
    }
    assert lock.merged(found) == [
        "a==1",
        'b==1 ; python_version <= "3.10"',
        'b==2 ; python_version >= "3.11" and python_version <= "3.12"',
        'b==3 ; python_version >= "3.13"',
        'odd==1 ; python_version == "3.10" or python_version == "3.12"',
        'odd==2 ; python_version == "3.11"',
        'odd==3 ; python_version >= "3.13"',
        "only==7",
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_of_a_workflow_are_fixed_by_their_commit(path: Path) -> None:
    lines = re.findall(r"^\s*(?:- )?uses: *(.+)$", path.read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_there_is_a_public_workflow() -> None:
    assert WORKFLOWS
