"""The parts of a worker that report to the frontier: each field of a batch has one of them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from dataclasses import fields

from scrapy_rq_sched.frontier.messages import Batch
from scrapy_rq_sched.worker.part import Part

from .test_worker import a_worker


def filled_by(kind: type[Part]) -> set[str]:
    """Return the fields of a batch that the method ``fill`` of *kind* sets or extends."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind.fill)))
    found = set()
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        parts = [part for target in targets for part in getattr(target, "elts", [target])]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            parts.append(node.func.value)
        found |= {part.attr for part in parts if isinstance(part, ast.Attribute) and _is_batch(part.value)}
    return found


def _is_batch(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "batch"


def test_each_field_of_a_batch_is_filled_by_exactly_one_part() -> None:
    counts = Counter(name for part in a_worker().parts for name in filled_by(type(part)))
    assert counts == dict.fromkeys((its.name for its in fields(Batch) if its.name != "number"), 1)


def test_a_session_asks_every_part_that_has_news() -> None:
    asked = {type(part) for part in a_worker().parts}
    assert {kind for kind in Part.__subclasses__() if kind.__module__.startswith("scrapy_rq_sched.")} == asked
