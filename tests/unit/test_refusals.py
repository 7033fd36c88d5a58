"""Refusals suggest commands that a shell takes as they are, and count in good English."""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_rq_sched.frontier.refusals import to_convert, to_join
from scrapy_rq_sched.keys import Keys

KEYS = Keys("my shop")


@pytest.mark.parametrize(
    ("problem", "rest", "command"),
    [
        (b"converting", [b"import"], "clear 'my shop' --force"),
        (b"converting", [b"pickle"], "convert 'my shop'"),
        (
            b"mismatch",
            [b"SCHEDULER_SERIALIZER", b"my.own serializer", b"json"],
            "convert 'my shop' --from IMPORT.PATH --to json",
        ),
    ],
    ids=["import", "conversion", "serializer"],
)
def test_a_refusal_to_join_quotes_the_spider(problem: bytes, rest: list[Any], command: str) -> None:
    assert f"scrapy frontier {command}" in str(to_join(problem, rest, KEYS))


@pytest.mark.parametrize(
    ("problem", "rest", "command"),
    [
        (b"importing", [], "clear 'my shop' --force"),
        (b"other", [b"pickle", b"json"], "convert 'my shop' --from pickle --to json"),
    ],
    ids=["import", "another"],
)
def test_a_refusal_to_convert_quotes_the_spider(problem: bytes, rest: list[Any], command: str) -> None:
    assert f"scrapy frontier {command}" in str(to_convert(problem, rest, KEYS, is_list=False))


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (1, "1 worker is running for spider 'my shop'. Stop it first"),
        (3, "3 workers are running for spider 'my shop'. Stop them first"),
    ],
)
def test_workers_are_counted(workers: int, said: str) -> None:
    assert str(to_convert(b"alive", [workers], KEYS, is_list=True)) == said
