"""A frontier's stream of events, and the ids in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..frontier.entries import LIST, SHOWN, Entries, Piece
from .event import Event

#: Events that are read in one call.
STEP = 1000
#: The id of an event.
ID = re.compile(r"[0-9]{1,19}(-[0-9]{1,19})?")


@dataclass(frozen=True)
class Stream:
    """The stream of one frontier.

    :param key: its key in Redis.
    :param spider: the spider's name.
    """

    key: str
    spider: str

    def latest(self, server: Any, count: int, end: str = "+") -> list[Event]:
        """Return the latest events, at most *count*, oldest first.

        :param end: the id of the last of them; with ``(`` before it, the id after them.
        """
        return self._events(self._read(server, f"<{end}", count))[::-1]

    def newest(self, server: Any) -> str:
        """Return the id of the latest event; ``0-0``, which precedes every id, if the stream is empty."""
        latest = self.latest(server, 1)
        return latest[0].id if latest else "0-0"

    def some_after(self, server: Any, last: str, count: int = STEP) -> list[Event]:
        """Return the events that follow the id *last*, at most *count*."""
        return self._events(self._read(server, _after(last), count))

    def all_after(self, server: Any, last: str) -> Iterator[Event]:
        """Yield all events that follow the id *last*."""
        while events := self.some_after(server, last):
            yield from events
            last = events[-1].id

    def _read(self, server: Any, start: str, count: int) -> list[Piece]:
        # Only another program can write an event that is longer than this.
        return list(Entries(server).read("stream", self.key, start, count, SHOWN, LIST))

    def _events(self, pieces: list[Piece]) -> list[Event]:
        return [Event.parse(piece.name, {b"event": piece.data}, self.spider) for piece in pieces]


def id_at(seconds: float) -> str:
    """Return an id that precedes the ids of all events from *seconds* since 1970 on."""
    return f"{max(0, int(seconds * 1000) - 1)}-0"


def seconds_of(name: str) -> float:
    """Return the time of the entry with the id *name*, in seconds since 1970."""
    return int(name.partition("-")[0]) / 1000


def order_of(name: str) -> tuple[int, int]:
    """Return the sort key of the id *name*."""
    milliseconds, _, number = name.partition("-")
    return int(milliseconds), int(number or 0)


def _after(name: str) -> str:
    milliseconds, number = order_of(name)
    return f"{milliseconds}-{number + 1}"
