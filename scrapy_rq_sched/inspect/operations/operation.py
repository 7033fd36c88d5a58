"""The form of all operations: a plan, a deed, a sentence and a count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

#: Called with the number of further entries that are done.
Advance = Callable[[int], None]


class Mood(NamedTuple):
    """The verbs of a sentence: of a plan, or of a deed."""

    will: str
    is_: str
    was: str
    were: str

    def be(self, number: int) -> str:
        """Return the verb for a *number* of things to which something happens."""
        return self.was if number == 1 else self.were


PLANNED, DONE = Mood("would", *(3 * ["would be"])), Mood("will", "is", "was", "were")


class Outcome(NamedTuple):
    """What an operation did, or would do.

    :param text: a sentence.
    :param touched: the number of workers, requests, seeds or URLs concerned.
    :param hint: a command that may follow, in a sentence; empty without one.
    """

    text: str
    touched: int
    hint: str = ""


@dataclass(frozen=True)
class Operation:
    """A change of a frontier that is prepared, and not made yet.

    :param text: returns the sentence, from the count and the mood.
    :param look: returns the count of the plan, and changes nothing.
    :param deed: makes the change, and returns its count.
    :param hint: the hint after the deed.
    """

    text: Callable[[int, Mood], str]
    look: Callable[[], int]
    deed: Callable[[], int]
    hint: str = ""

    def plan(self) -> Outcome:
        """Return what the operation would do, without doing it.

        :raises InspectionError: if it would be refused.
        """
        count = self.look()
        return Outcome(self.text(count, PLANNED), count)

    def do(self) -> Outcome:
        """Do it.

        :raises InspectionError: if it is refused.
        :raises KeyboardInterrupt: with a sentence, if its observer has interrupted it.
        """
        count = self.deed()
        return Outcome(self.text(count, DONE), count, self.hint)


@dataclass
class Observer:
    """Follows an operation. This one keeps the warnings, and never interrupts."""

    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Take note of a warning."""
        self.warnings.append(text)

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Advance]:
        """Give a function that is called after each step of the work.

        It may raise :exc:`KeyboardInterrupt` to end the work there.

        :param label: the work, in a word.
        :param total: the number of its entries; None if unknown.
        """
        yield lambda count: None
