"""The pages of the documentation, taken apart: examples, commands, links, headings, tables."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
#: What readers see, on a code host and as a site.
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "example_project" / "README.md",
    ROOT / "tests" / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("recipes/*.md")),
]

#: A comment before a Python example that cannot be run.
COMPILED_ONLY = "<!-- compiled only: "

_FENCE = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
_INDENTED = re.compile(r"(?:(?<=\n\n)|^)(?: {4}.*\n(?:\n(?= {4}))?)+", re.MULTILINE)
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1(?!`)", re.DOTALL)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
_SHELL = ("bash", "sh", "console")


@dataclass(frozen=True)
class Example:
    """A block of code in a page."""

    page: Path
    line: int
    language: str
    code: str
    #: What stands before it.
    before: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def compiled_only(self) -> bool:
        return COMPILED_ONLY in self.before.rpartition("\n\n")[2]

    @property
    def is_settings(self) -> bool:
        """Whether it is a part of a ``settings.py``."""
        try:
            statements = ast.parse(self.code).body
        except SyntaxError:
            return False  # whoever compiles it says where
        return all(
            isinstance(statement, (ast.Import, ast.ImportFrom))
            or (
                isinstance(statement, ast.Assign)
                and all(isinstance(target, ast.Name) and target.id.isupper() for target in statement.targets)
            )
            for statement in statements
        )


def examples(page: Path, *languages: str) -> list[Example]:
    """Return the fenced blocks of *page* that are in one of *languages*."""
    text = page.read_text()
    return [
        Example(
            page,
            text.count("\n", 0, match.start()) + 1,
            match[2],
            textwrap.dedent(match[3]),
            text[: match.start()].rstrip("\n"),
        )
        for match in _FENCE.finditer(text)
        if match[2] in languages
    ]


def _without_fences(text: str) -> str:
    return _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)


def commands(page: Path) -> list[str]:
    """Return what *page* has the reader type into a shell, a command each, in their order."""
    blocks = [match[0] for match in _INDENTED.finditer(_without_fences(page.read_text()))]
    blocks += [example.code for example in examples(page, *_SHELL)]
    found: list[str] = []
    for block in blocks:
        lines = re.sub(r"\\\n\s*", "", textwrap.dedent(block)).splitlines()
        found += [line.removeprefix("$ ") for line in lines if line.strip()]
    return found


def redis_cli(page: Path) -> list[str]:
    """Return the commands of *page* that ask or tell Redis something."""
    return [command for command in commands(page) if command.startswith("redis-cli ")]


def links(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the target of each link that is not to another site."""
    text = _without_fences(page.read_text())
    # Of the same length, so that lines are still counted right; a link's text may be code.
    text = _CODE.sub(lambda match: re.sub(r"[^\n]", "x", match[0]), text)
    for match in _LINK.finditer(text):
        if "://" not in match[1]:
            yield text.count("\n", 0, match.start()) + 1, match[1]


def headings(page: Path) -> list[str]:
    """Return the headings of *page* that have an anchor."""
    return re.findall(r"^#{1,4} (.+)$", _without_fences(page.read_text()), re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors that a code host, and the site, give to the headings of *page*."""
    count: Counter[str] = Counter()
    found = set()
    for heading in headings(page):
        text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        found.add(f"{anchor}-{count[anchor]}" if count[anchor] else anchor)
        count[anchor] += 1
    return found


def section(page: Path, heading: str) -> str:
    """Return what stands under *heading*, up to the next one of its rank."""
    rank = heading.split(" ", 1)[0]
    parts = re.split(rf"^{rank} ", page.read_text(), flags=re.MULTILINE)
    (found,) = [part for part in parts if part.startswith(heading.removeprefix(f"{rank} ") + "\n")]
    return found


def rows(text: str) -> list[list[str]]:
    """Return the cells of the tables in *text*, without their heads."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if re.fullmatch(r"\|(?: ?:?-+:? ?\|)+", line):
            found.pop()  # what stood above was the head
        elif line.startswith("|"):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found
