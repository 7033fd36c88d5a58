"""The findings of ``scrapy frontier doctor``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from ..connection import ResponseError

T = TypeVar("T")

NOT_PERMITTED = "not permitted: not checked"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    :param level: ``ok``; ``warning``: a crawl works, but something should be improved; ``problem``: a crawl
        cannot work.
    :param what: the subject of the check, such as ``memory``.
    :param text: the result, in a sentence.
    :param advice: the remedy; empty if nothing needs to be done.
    """

    level: Literal["ok", "warning", "problem"]
    what: str
    text: str
    advice: str = ""


def ok(subject: str, text: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding("ok", subject, text)


def warning(subject: str, text: str, advice: str) -> Finding:
    """Return a finding of something that should be improved."""
    return Finding("warning", subject, text, advice)


def problem(subject: str, text: str, advice: str) -> Finding:
    """Return a finding of something that prevents a crawl from working."""
    return Finding("problem", subject, text, advice)


def if_permitted(ask: Callable[[], T]) -> T | None:
    """Call *ask*; return None if this user may not run its command, or this server does not know it."""
    try:
        return ask()
    except ResponseError:
        return None
