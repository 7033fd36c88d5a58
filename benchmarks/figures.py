"""Figures of several rounds, and how many rounds of what size there are to be."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import track

console = Console(stderr=True)


@dataclass
class Figures:
    """By contender and by what was measured: one number a round."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, contender: str, **measured: float) -> None:
        """Add what a round has shown."""
        for name, value in measured.items():
            self.values.setdefault(contender, {}).setdefault(name, []).append(value)

    def of(self, contender: str, name: str) -> list[float]:
        """Return the numbers of all rounds; none if it was not measured."""
        return self.values.get(contender, {}).get(name, [])

    def median(self, contender: str, name: str) -> float | None:
        """Return the median of the rounds, or None if it was not measured."""
        rounds = self.of(contender, name)
        return statistics.median(rounds) if rounds else None

    def ratios(self, contender: str, base: str, name: str) -> list[float]:
        """Return the ratio of *contender* to *base* in each round."""
        pairs = zip(self.of(contender, name), self.of(base, name), strict=False)
        return [value / of_base for value, of_base in pairs]

    def ratio(self, contender: str, base: str, name: str) -> float | None:
        """Return the median of the rounds' ratios, or None if it was not measured."""
        ratios = self.ratios(contender, base, name)
        return statistics.median(ratios) if ratios else None


@dataclass(frozen=True)
class Options:
    """How much to measure.

    :param rounds: how often each contender has its turn.
    :param quick: whether small crawls will do, to see that everything works.
    """

    rounds: int = 5
    quick: bool = False

    def size(self, quick: int, full: int) -> int:
        """Return how much of something there is to be."""
        return quick if self.quick else full

    def turns(self, what: str, rounds: int | None = None) -> Iterator[Any]:
        """Yield once a round, and show how far it is."""
        return iter(self.each(range(rounds or self.rounds), what))

    def each(self, things: Iterable[Any], what: str) -> Iterable[Any]:
        """Yield *things*, and show how far it is."""
        return track(list(things), description=what, console=console)
