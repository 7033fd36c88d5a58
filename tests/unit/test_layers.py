"""The layout of the package: which folder may know of which."""

from __future__ import annotations

import ast
from importlib.util import resolve_name
from pathlib import Path

import pytest

import scrapy_rq_sched

ROOT = Path(scrapy_rq_sched.__file__).parent
PACKAGE = "scrapy_rq_sched"
#: A module stands at the root only if a user names it: in a setting, an import, or in what Redis keeps.
MOST_AT_THE_ROOT = 24
#: In lines. A module is as long as its subject; one that is longer has more than one.
LONGEST_MODULE = 500
FILES = sorted(ROOT.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, by their whole names."""
    package = ".".join((PACKAGE, *path.relative_to(ROOT).parent.parts))
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            found |= {module, *(f"{module}.{name.name}" for name in node.names)}
    return found


def knows(folder: str, forbidden: str) -> list[str]:
    """Return what the module *folder*, or the modules in it, import of *forbidden*."""
    place = ROOT / folder
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
        for name in imports(path)
        if name == forbidden or name.startswith(f"{forbidden}.")
    ]


def test_the_imports_of_a_module_are_found() -> None:
    assert f"{PACKAGE}.worker.session.Session" in imports(ROOT / "scheduler.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_can_be_read_at_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE


def test_only_modules_that_users_name_stand_at_the_root() -> None:
    assert len(list(ROOT.glob("*.py"))) <= MOST_AT_THE_ROOT


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("worker", "redis"),
        ("worker", f"{PACKAGE}.connection"),
        ("frontier", f"{PACKAGE}.worker"),
        ("codec", "redis"),
        ("codec", f"{PACKAGE}.frontier"),
        ("codec", f"{PACKAGE}.worker"),
        ("codec", f"{PACKAGE}.events"),
        ("settings.py", f"{PACKAGE}.events"),
        ("engine", f"{PACKAGE}.feeds"),
        ("engine", f"{PACKAGE}.worker"),
        ("assembly", "redis"),
        ("assembly", f"{PACKAGE}.worker"),
        ("assembly", f"{PACKAGE}.engine"),
        ("runtime", f"{PACKAGE}.worker"),
        ("runtime", f"{PACKAGE}.frontier"),
        ("servers", f"{PACKAGE}.frontier"),
        ("servers", f"{PACKAGE}.worker"),
        ("collect", f"{PACKAGE}.worker"),
        ("collect", f"{PACKAGE}.frontier.client"),
        ("inspect", f"{PACKAGE}.worker"),
        ("inspect", f"{PACKAGE}.commands"),
        ("inspect", f"{PACKAGE}.metrics"),
        ("metrics", f"{PACKAGE}.worker"),
        ("metrics", f"{PACKAGE}.commands"),
        ("inspect", f"{PACKAGE}.dashboard"),
        ("dashboard", "redis"),
        ("dashboard", f"{PACKAGE}.commands"),
        ("dashboard", f"{PACKAGE}.worker"),
    ],
)
def test_a_layer_does_not_know_the_layers_above_it(folder: str, forbidden: str) -> None:
    assert not knows(folder, forbidden)


def test_only_the_layers_that_show_a_frontier_know_inspect() -> None:
    looking = ("inspect", "metrics", "commands", "dashboard")
    ours = [path for path in FILES if path.relative_to(ROOT).parts[0] not in looking]
    assert len(ours) > 40
    assert not [path for path in ours if any(name.startswith(f"{PACKAGE}.inspect") for name in imports(path))]
