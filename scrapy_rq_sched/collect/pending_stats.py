"""The fleet's statistics, with the changes of one worker that are not in Redis yet. Nothing here waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .stat_values import is_number

_NOTHING = object()


@dataclass(slots=True)
class Change:
    """A change of one statistic.

    :param how: ``set``, ``add``, ``max`` or ``min``.
    :param start: the value to add to, if the statistic does not exist.
    """

    how: str
    value: Any
    start: Any = 0

    def applied_to(self, value: Any) -> Any:
        """Return the new value of a statistic with *value*, which may be missing."""
        if self.how == "set" or not (is_number(value) or value is _NOTHING):
            return self.value
        if self.how == "add":
            return (self.start if value is _NOTHING else value) + self.value
        return self.value if value is _NOTHING else (max if self.how == "max" else min)(value, self.value)


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes that are sent together.

    :param number: counts from 1; the number stays the same if the reply was lost.
    :param clear: whether to forget all statistics first.
    """

    number: int
    clear: bool
    of: dict[str, Change]


class Tally:
    """The fleet's statistics, as one worker knows them. Several threads may use this object.

    :param begin: called at the first change.
    :ivar own: the names of the statistics that this worker has set, and has not counted since.
    """

    def __init__(self, begin: Callable[[], None] = lambda: None) -> None:
        # Reentrant: a log line that is written while the lock is held is counted, too.
        self._lock = threading.RLock()
        self._begin: Callable[[], None] | None = begin
        self.own: set[str] = set()
        self._known: dict[str, Any] = {}
        self._sent: Changes | None = None
        self._changes: dict[str, Change] = {}
        self._clear = False
        self._number = 0

    def change(self, key: str, how: str, value: Any, start: Any = 0) -> None:
        """Note a :class:`Change`. Called many times for each page."""
        with self._lock:
            before = self._changes.get(key)
            if how == "set":
                self.own.add(key)
                self._changes[key] = Change("set", value)
            else:
                self.own.discard(key)
                if before is None:
                    self._changes[key] = Change(how, value, start)
                elif before.how == how == "add":
                    before.value += value
                elif before.how in (how, "set"):
                    before.value = Change(how, value, start).applied_to(before.value)
                else:
                    self._changes[key] = Change("set", Change(how, value, start).applied_to(self.get(key)))
        if self._begin is not None:
            self.begin()

    def begin(self) -> None:
        """Call *begin*, unless it was called before."""
        with self._lock:
            begin, self._begin = self._begin, None
        if begin is not None:
            begin()

    def clear(self) -> None:
        """Forget all statistics of the fleet."""
        with self._lock:
            self.own.clear()
            self._known.clear()
            self._changes.clear()
            self._clear = True

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value that Redis will have when all changes are sent, as far as this worker knows."""
        with self._lock:
            value = self._known.get(key, _NOTHING)
            if self._sent is not None and not self._clear and key in self._sent.of:
                value = self._sent.of[key].applied_to(value)
            if key in self._changes:
                value = self._changes[key].applied_to(value)
            return default if value is _NOTHING else value

    def keys(self) -> set[str]:
        """Return the names of all known statistics."""
        with self._lock:
            sent: Iterable[str] = self._sent.of if self._sent is not None and not self._clear else ()
            return {*self._known, *sent, *self._changes}

    @property
    def has_news(self) -> bool:
        """Whether there are changes to send."""
        with self._lock:
            return bool(self._sent is not None or self._changes or self._clear)

    def take(self) -> Changes:
        """Return the changes to send: unsettled changes first, as they were taken."""
        with self._lock:
            if self._sent is None:
                self._number += 1
                self._sent = Changes(self._number, self._clear, self._changes)
                if self._clear:
                    self._known.clear()
                self._changes, self._clear = {}, False
            return self._sent

    def settle(self, known: dict[str, Any]) -> None:
        """Note that the taken changes are in Redis; *known* are the fleet's statistics now."""
        with self._lock:
            self._sent = None
            self._known = {} if self._clear else known

    def look(self, known: dict[str, Any]) -> None:
        """Note the fleet's statistics, without a change being sent."""
        with self._lock:
            self._known = {} if self._clear else known
