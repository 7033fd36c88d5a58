"""What ``scrapy frontier doctor`` finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from ..connection import ResponseError

T = TypeVar("T")

NOT_PERMITTED = "not permitted: not checked"


@dataclass(frozen=True)
class Finding:
    """What was found at one of the things that are looked at.

    :param level: ``ok``; ``warning``: it is not as it should be; ``problem``: a crawl cannot do with it.
    :param what: what was looked at.
    :param text: how it is.
    :param advice: what to do; empty if there is nothing to do.
    """

    level: Literal["ok", "warning", "problem"]
    what: str
    text: str
    advice: str = ""


def ok(what: str, text: str) -> Finding:
    """Return that it is as it should be."""
    return Finding("ok", what, text)


def warning(what: str, text: str, advice: str) -> Finding:
    """Return that it is not as it should be."""
    return Finding("warning", what, text, advice)


def problem(what: str, text: str, advice: str) -> Finding:
    """Return that a crawl cannot do with it."""
    return Finding("problem", what, text, advice)


def if_permitted(ask: Callable[[], T]) -> T | None:
    """Return what *ask* returns; None if this user may not ask, or this server does not know the question."""
    try:
        return ask()
    except ResponseError:
        return None
