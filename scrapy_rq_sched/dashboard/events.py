"""The latest events of a frontier, kept for all browsers, so that only newer ones are read from Redis."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from ..connection import ResponseError
from ..inspect import View
from ..inspect.events import read_events

#: Events that are kept, and events that one step reads.
MOST, STEP = 200, 100


class EventsFound:
    """The latest events of one frontier."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, Any]] = deque(maxlen=MOST)

    @property
    def last(self) -> str:
        """The id of the latest event; empty without events."""
        with self._lock:
            return str(self._events[-1]["id"]) if self._events else ""

    def read(self, view: View) -> str:
        """Read the new events, and return the id of the latest."""
        try:
            events = read_events(view, self.last, STEP)
        except ResponseError:  # a key of another type, or no permission: go on without events
            return self.last
        found = [{**event.as_dict(), "alarming": event.is_alarming} for event in events]
        with self._lock:
            self._events.extend(found)
        return self.last

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
