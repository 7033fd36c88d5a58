"""How plain the English is: words that leave a subject to be guessed: ``python -m tests.support.words``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .pages import PAGES, ROOT

PACKAGE = ROOT / "scrapy_rq_sched"

#: Each of these stands for a thing that has a name. In a question they are right.
_GUESSED = re.compile(r"\b(?:what|whatever|who|whoever|whom|whose)\b", re.IGNORECASE)
#: A validation says what a value must be, and a URL "is not valid".
_UNCLEAR = re.compile(r"\b(?:is none|may be an?|those who)\b")
#: The same words, and words for a person that stand for a worker, a user or a program, as parts of a name.
_GUESSED_PARTS = {
    *("what", "whatever", "who", "whoever", "whom", "whose", "those"),
    *("nobody", "somebody", "someone", "anybody"),
}
#: Words that only the authors understood: an order, a report, the expansion of a seed, a full worker.
_PRIVATE_PARTS = {"told", "said", "sated", "sower", "sown"}
#: Identifiers that users write or read: the parts of a finding, of a status, and of ``follow_events``.
_PUBLIC = {("finding.py", "what"), ("status.py", "told_to_stop"), ("events.py", "said")}
_LUA_TEXT = re.compile(r"--.*|'[^'\n]*'|\"[^\"\n]*\"")
_LUA_FUNCTION = re.compile(r"\bfunction\s*([\w.:]*)\s*\(([^)]*)\)")
_LUA_LOCAL = re.compile(r"\b(?:local|for)\s+(?!function\b)([\w\s,]+?)\s*(?:=|\bin\b|$)", re.MULTILINE)
_LUA_FIELD = re.compile(r"[\w.]*\b(\w+)\s*=(?!=)")
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


def vague_test_names(code: str) -> list[str]:
    """Return the names of tests in *code* that leave a subject to be guessed."""
    return [
        node.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
        and _GUESSED_PARTS & _parts(node.name)
    ]


def private_identifiers(module: Path) -> list[str]:
    """Return the identifiers that *module*, in Python or Lua, defines with a vague or private word."""
    names = _defined_in_lua if module.suffix == ".lua" else _defined_in_python
    return [
        name
        for name in names(module.read_text())
        if (_GUESSED_PARTS | _PRIVATE_PARTS) & _parts(name) and (module.name, name) not in _PUBLIC
    ]


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


def _parts(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))


def _defined_in_python(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _defined_in_lua(code: str) -> Iterator[str]:
    code = _LUA_TEXT.sub("''", code)
    for name, parameters in _LUA_FUNCTION.findall(code):
        yield from re.findall(r"\w+", f"{name} {parameters}")
    for names in _LUA_LOCAL.findall(code):
        yield from re.findall(r"\w+", names)
    yield from _LUA_FIELD.findall(code)


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
