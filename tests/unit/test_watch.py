"""A view of ``--watch`` while Redis answers, is away, and answers again."""

from __future__ import annotations

import re
import threading
from argparse import Namespace
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from scrapy_rq_sched.commands import watch as watching
from scrapy_rq_sched.commands.output import Fields, Part, plain
from scrapy_rq_sched.commands.watch import Picture, watch
from scrapy_rq_sched.connection import NoPermissionError, RedisConnectionError

REFUSED = RedisConnectionError("Connection refused")


class OverError(Exception):
    """Ends a view."""


class Screen:
    """The output of a command.

    :param redraws: whether it is a terminal.
    """

    def __init__(self, redraws: bool) -> None:
        self.redraws = redraws
        self.shown: list[str] = []

    def show(self, *parts: Part) -> None:
        self.shown += map(plain, parts)

    def warn(self, text: str) -> None:
        self.shown.append(f"! {text}")

    def json(self, value: Any) -> None:
        self.shown.append(f"json {value}")

    @contextmanager
    def live(self, hint: str, redraws: bool = True) -> Any:
        yield lambda *parts: self.shown.append(" | ".join(map(plain, parts)))


def seen(*answers: Any, redraws: bool = False, json: bool = False, lines: bool = True) -> list[str]:
    """Return all that a view shows while Redis gives *answers*, without the dates of lines."""
    output, given = Screen(redraws), iter(answers)

    def read() -> list[str]:
        answer = next(given, OverError())
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else [answer]

    context: Any = SimpleNamespace(output=output, describe=lambda error: f"refused ({error})")
    as_lines: Callable[[list[str]], list[str]] | None = (lambda found: found) if lines else None
    picture = Picture(read, lambda one: {"it": one}, lambda found: [Fields([("it", found[0])])], as_lines)
    with pytest.raises(OverError):
        watch(context, Namespace(watch=0.01, json=json), picture)
    return [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "NOW", text) for text in output.shown]


AWAY = "away for 0 s: refused (Connection refused)"


def test_a_view_in_a_pipe_has_one_line_with_the_time_for_each_tick() -> None:
    assert seen("a", "b") == ["NOW a", "NOW b"]


def test_a_table_in_a_pipe_begins_with_the_time_and_ends_with_an_empty_line() -> None:
    assert seen("a", "b", lines=False) == ["NOW", "it  a", "", "NOW", "it  b", ""]


def test_a_view_in_a_pipe_goes_on_after_an_outage() -> None:
    assert seen("a", REFUSED, REFUSED, "b") == ["NOW a", *[f"NOW Redis is {AWAY}"] * 2, "NOW b"]


def test_the_last_picture_stays_on_a_terminal_while_redis_is_away() -> None:
    assert seen("a", REFUSED, "b", redraws=True) == ["it  a", f"it  a |  | Redis  {AWAY}", "it  b"]


def test_an_outage_is_named_once_beside_json() -> None:
    assert seen("a", REFUSED, REFUSED, "b", json=True) == [
        "json {'it': 'a'}",
        f"! Redis is {AWAY}. The view goes on when Redis answers",
        "! Redis answers again",
        "json {'it': 'b'}",
    ]


def test_the_picture_of_a_redis_that_gives_no_answer_counts_the_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "PATIENCE", 0.0)
    monkeypatch.setattr(watching, "INTERVAL", 0.01)
    monkeypatch.setattr(watching.Absence, "seconds", property(lambda self: 12.0))
    is_shown = threading.Event()
    text = watching.Absence.text

    def shown(self: watching.Absence, problem: str) -> str:
        is_shown.set()
        return text(self, problem)

    monkeypatch.setattr(watching.Absence, "text", shown)

    def stalled() -> list[str]:
        assert is_shown.wait(10)
        return ["b"]

    found = seen("a", stalled)
    assert found[:2] == ["NOW a", "NOW Redis is away for 12 s: it has not answered yet"]
    assert "NOW b" in found


@pytest.mark.parametrize("answers", [(REFUSED,), ("a", NoPermissionError("no"))])
def test_a_view_ends_if_redis_does_not_answer_at_first_or_refuses(answers: tuple[Any, ...]) -> None:
    with pytest.raises(type(answers[-1])):
        seen(*answers)
