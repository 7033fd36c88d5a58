"""How plain the English is: words that leave a subject to be guessed, counted: ``python -m tests.words``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .pages import PAGES, ROOT

PACKAGE = ROOT / "scrapy_rq_sched"

#: Each of these stands for a thing that has a name. In a question they are right.
_GUESSED = re.compile(r"\b(?:what|whatever|who|whoever|whom|whose)\b", re.IGNORECASE)
#: A validation says what a value must be, and a URL "is not valid".
_UNCLEAR = re.compile(r"\b(?:is none|may be an?|those who)\b")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_FENCE = re.compile(r"^( *)(```+).*\n(?:.*\n)*?\1\2$", re.MULTILINE)
_INDENTED = re.compile(r"^ {4}.*$", re.MULTILINE)
_INLINE = re.compile(r"(`+)(?:(?!\1).)+?\1(?!`)", re.DOTALL)
_TARGET = re.compile(r"\]\([^()\s]*\)")


class Count(NamedTuple):
    """What a text has of them."""

    words: int
    guessed: list[str]
    unclear: list[str]

    @property
    def per_thousand(self) -> float:
        return 1000 * len(self.guessed) / max(self.words, 1)


def of_text(text: str) -> Count:
    """Count a text of prose; a find has the words around it."""
    return Count(len(_WORD.findall(text)), _found(_GUESSED, text), _found(_UNCLEAR, text))


def of_page(page: Path) -> Count:
    """Count a page, without its code."""
    text = page.read_text()
    for pattern, instead in ((_FENCE, ""), (_INDENTED, ""), (_INLINE, "code"), (_TARGET, "]")):
        text = pattern.sub(instead, text)
    return of_text(text)


def of_messages(module: Path) -> Count:
    """Count the texts in the code of *module*: messages, helps, table heads."""
    return of_text("\n".join(_texts(module)[1]))


def of_docstrings(module: Path) -> Count:
    """Count the docstrings of *module*, without code."""
    return of_text(_INLINE.sub("code", "\n".join(_texts(module)[0])))


def total(counts: Iterable[Count]) -> Count:
    """Return the sum."""
    words, guessed, unclear = 0, list[str](), list[str]()
    for count in counts:
        words += count.words
        guessed += count.guessed
        unclear += count.unclear
    return Count(words, guessed, unclear)


def _found(pattern: re.Pattern[str], text: str) -> list[str]:
    return [
        " ".join(text[max(0, match.start() - 40) : match.end() + 40].split())
        for match in pattern.finditer(text)
    ]


def _texts(module: Path) -> tuple[list[str], list[str]]:
    tree = ast.parse(module.read_text())
    with_docstring = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {
        id(node.body[0].value): node.body[0].value.value
        for node in ast.walk(tree)
        if isinstance(node, with_docstring)
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Constant)
        and isinstance(node.body[0].value.value, str)
    }
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
        and len(_WORD.findall(node.value)) > 1
    ]
    return list(documentation.values()), texts


def main() -> None:
    """Print the figures of each page and of the package, the worst first."""
    modules = sorted(PACKAGE.rglob("*.py"))
    pages = [(str(page.relative_to(ROOT)), of_page(page)) for page in PAGES]
    messages = [(f"{path.relative_to(ROOT)}, messages", of_messages(path)) for path in modules]
    docstrings = [(f"{path.relative_to(ROOT)}, docstrings", of_docstrings(path)) for path in modules]
    for name, count in sorted(pages + messages + docstrings, key=lambda one: one[1].per_thousand):
        if count.guessed or count.unclear:
            print(f"{count.per_thousand:6.1f} {len(count.guessed):4} {len(count.unclear):4} unclear  {name}")
    for name, found in (("pages", pages), ("messages", messages), ("docstrings", docstrings)):
        summed = total(count for _, count in found)
        print(
            f"{summed.per_thousand:6.1f} {len(summed.guessed):4} {len(summed.unclear):4} unclear  all {name}"
        )


if __name__ == "__main__":
    main()
