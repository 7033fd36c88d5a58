"""The parts of a worker that report to the frontier: each field of a batch has one of them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from dataclasses import fields
from typing import Any

import pytest

from scrapy_rq_sched.frontier.messages import (
    Batch,
    Failed,
    Finished,
    FleetConfig,
    ItemGroup,
    Push,
    SlotAnswers,
    UsedGrants,
)
from scrapy_rq_sched.frontier.replies import Part

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


#: A value of each field that is sent, other than its default.
SENT: dict[str, Any] = {
    "number": 2,
    "busy": True,
    "want": 1,
    "want_seeds": 1,
    "suspects": 1,
    "in_hand": 1,
    "exceed": True,
    "pages": 1,
    "begun": "1.1",
    "expanded": "1.1",
    "finishing": True,
    "found": 1,
    "local_only": 2,
    "local_only_reason": "a lambda",
    "pushes": [Push("filter", "f", 0, b"{}")],
    "finished": [Finished("1.1")],
    "given_back": ["1.1"],
    "refused": [("1.1", "no such callback")],
    "failed": [Failed("1.1", 0, "no reason")],
    "forgotten": [("filter", "f")],
    "passed": ["1.1"],
    "saturated": ["example.com"],
    "ahead": 1.0,
    "is_late": True,
    "asks": {"example.com": 1},
    "grants": {"example.com": UsedGrants(1, 0, left=0)},
    "downloaded": {"example.com": 1},
    "answers": {"example.com": SlotAnswers(good=1)},
    "caps": {"example.com": 10},
    "denied": "1",
    "groups_acked": ["order-17"],
    "left_memory": [1],
    "is_closing": True,
    "pool_reports": [("accounts", "alice", {"good": True})],
    "own_items": {"proxies": ""},
    "own_in_flight": ["accounts"],
    "idle": 1,
    "outside": {"example.com": 1},
    "latency": 5.0,
    "latencies": {"example.com": [1.0]},
    "throttle": (1.0, 0.0, 60_000.0),
    "recalled": 1,
    "counted": {"pagecount": 1},
    "item_groups": [ItemGroup((b"an item",))],
    "times": {"1": 1},
    "bottleneck": "redis",
    "scraped": 1,
    "errors": 1,
    "run": "1",
    "counts": "responses=1",
    "slot_counts": {"example.com": (1, 20)},
    "outcomes": b"x" * 20,
}


def test_every_field_of_a_batch_but_the_requests_of_a_custom_queue_is_sent() -> None:
    assert SENT.keys() == {its.name for its in fields(Batch)} - {"requests"}


@pytest.mark.parametrize("name", SENT)
def test_a_field_of_a_batch_reaches_the_script(name: str) -> None:
    # found is sent if a request is only in this worker's memory
    without, with_it = (Batch(**{"number": 1, "local_only": 1, **more}) for more in ({}, {name: SENT[name]}))
    config = FleetConfig(max_waiting=10)
    assert list(with_it.arguments("w", config)) != list(without.arguments("w", config))
