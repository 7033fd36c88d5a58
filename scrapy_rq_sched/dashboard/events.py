"""The latest events of a frontier, kept for all browsers, so that only newer ones are read from Redis."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple

from ..connection import ResponseError
from ..events.event import Event
from ..events.stream import ID, order_of
from ..inspect import View
from ..inspect.events import read_events

#: Events that are kept, and as many that are folded; those that one step reads, and the first one: among many
#: requests that are set aside, the workers that joined must stay in sight.
MOST, STEP, FIRST = 200, 100, 1000


class _Fold(NamedTuple):
    """Equal events that follow each other: their sort, the first and the last one, and their number."""

    sort: tuple[str, ...]
    first: dict[str, Any]
    last: dict[str, Any]
    times: int


class EventsFound:
    """The latest events of one frontier."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, Any]] = deque(maxlen=MOST)
        self._folds: deque[_Fold] = deque(maxlen=MOST)

    @property
    def last(self) -> str:
        """The id of the latest event; empty without events."""
        with self._lock:
            return str(self._events[-1]["id"]) if self._events else ""

    def read(self, view: View) -> str:
        """Read the new events, and return the id of the latest."""
        last = self.last
        try:
            events = read_events(view, last, STEP if last else FIRST)
        except ResponseError:  # a key of another type, or no permission: go on without events
            return last
        found = [{**event.as_dict(), "alarming": event.is_alarming} for event in events]
        with self._lock:
            self._events.extend(found)
            for event, shown in zip(events, found, strict=True):
                self._fold(event, shown)
        return self.last

    def _fold(self, event: Event, shown: dict[str, Any]) -> None:
        """Add *event* to the last fold if it is equal, else begin another one."""
        if self._folds and self._folds[-1].sort == event.sort:
            last = self._folds.pop()
            self._folds.append(last._replace(last=shown, times=last.times + 1))
        else:
            self._folds.append(_Fold(event.sort, shown, shown, 1))

    def since(self, last: str, limit: int) -> list[dict[str, Any]]:
        """Return the events after the one with the id *last*, oldest first: the latest *limit* of them.

        :param last: empty for all events. All are returned, too, if this event is no longer kept.
        """
        with self._lock:
            events = list(self._events)
        ids = [event["id"] for event in events]
        begin = ids.index(last) + 1 if last in ids else 0
        found = events[begin:]
        return found[max(0, len(found) - limit) :]

    def folded_since(self, last: str, limit: int) -> list[dict[str, Any]]:
        """Return the same, but of equal events that follow each other the last one, with their ``count``.

        ``first`` is the id of the first of them, and ``since`` its time.
        """
        with self._lock:
            folds = list(self._folds)
        seen = order_of(last) if ID.fullmatch(last) else (0, 0)
        found = [fold for fold in folds if order_of(fold.last["id"]) > seen]
        return [
            {**fold.last, "count": fold.times, "first": fold.first["id"], "since": fold.first["time"]}
            for fold in found[max(0, len(found) - limit) :]
        ]
