"""Compare a crawl with an earlier one of the same spider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .crawl import Crawl


class Difference(NamedTuple):
    """A figure of two crawls.

    :param figure: ``pages``, ``items``, ``seconds``, ``errors`` or ``failed``.
    :param now: that of the crawl, and :param before: that of the earlier one.
    """

    figure: str
    now: float
    before: float

    @property
    def percent(self) -> int | None:
        """By how many percent it is larger now, smaller if negative; None if it was 0."""
        return round(100 * (self.now - self.before) / self.before) if self.before else None


#: The figures that are compared.
FIGURES = ("pages", "items", "seconds", "errors", "failed")


def differences(now: Crawl, before: Crawl) -> list[Difference]:
    """Return each figure of both crawls."""
    return [Difference(name, getattr(now, name), getattr(before, name)) for name in FIGURES]


def earlier(crawl: Crawl, others: Sequence[Crawl]) -> Crawl | None:
    """Return the crawl to compare *crawl* with: the last finished one before it, or None."""
    before = [one for one in others if one.run < crawl.run and one.state == "finished"]
    return max(before, key=lambda one: one.run, default=None)


def in_words(difference: Difference) -> str:
    """Return by how much a figure differs: ``38 % fewer than the last time``; empty if it does not."""
    percent = difference.percent
    more, fewer = ("longer", "shorter") if difference.figure == "seconds" else ("more", "fewer")
    if percent is None:
        return f"{more} than the last time, when there were none" if difference.now else ""
    if not percent:
        return ""
    return f"{abs(percent)} % {more if percent > 0 else fewer} than the last time"
