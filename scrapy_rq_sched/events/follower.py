"""Follow the events of fleets as they happen, whatever becomes of the connection.

Redis is asked again and again: a subscription, or a command that waits, would hear nothing of a connection
that is dead, and would lose what is published meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from typing import Any

from ..connection import RedisError, close, describe_error, get_impatient_client
from .event import Event
from .stream import Stream, id_at, order_of, seconds_of

#: Seconds between two questions, and those that Redis may take to answer before the connection is given up.
INTERVAL, PATIENCE = 0.25, 2.0
#: After a failover the clock of the new master may be behind, and its events have earlier ids: so many
#: seconds are read anew.
OVERLAP = 60.0


class Follower:
    """An iterator over events.

    :param settings: Scrapy's: they say where Redis is.
    :param streams: of the frontiers.
    :param since: of streams, by their keys, the id after which they begin; the others begin now.
    :param said: is told when Redis does not answer, and when it does again.
    """

    def __init__(
        self,
        settings: Any,
        streams: Sequence[Stream],
        since: Mapping[str, str],
        said: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._streams = streams
        self._server = get_impatient_client(settings, PATIENCE)
        self._said = said
        self._since = since
        # Of each stream the id of the last entry; and what was read of late, by when it happened.
        self._last: dict[str, str] = {}
        self._known: dict[str, dict[tuple[str, str], float]] = {stream.key: {} for stream in streams}
        self._is_away = False

    def __iter__(self) -> Iterator[Event]:
        """Yield the next ones, and wait for them."""
        while True:
            yield from self.new()
            time.sleep(INTERVAL)

    def new(self) -> list[Event]:
        """Return those that have happened since, the oldest first; fewer or none if Redis does not answer."""
        found: dict[str, list[Event]] = {stream.key: [] for stream in self._streams}
        try:
            for stream in self._streams:
                self._read(stream, found[stream.key])
        except RedisError as error:
            if not self._is_away:
                self._said(f"{describe_error(self._server, error)}. The events go on when Redis answers")
            self._is_away = True
        else:
            if self._is_away:
                self._said("Redis answers again, and the events go on")
            self._is_away = False
            self._forget()
        # Also those that came before Redis was away; each stream's in its order, whatever its clock did.
        return list(merge(*found.values(), key=lambda event: event.time))

    def was_away(self) -> None:
        """Have the last minute be read anew: somebody else has found that Redis was away."""
        self._is_away = True

    def close(self) -> None:
        """End the connection."""
        close(self._server)

    def _read(self, stream: Stream, found: list[Event]) -> None:
        if stream.key not in self._last:
            self._begin(stream)
        last = self._last[stream.key]
        start = id_at(seconds_of(last) - OVERLAP) if self._is_away else last
        for event in stream.all_after(self._server, start):
            known, mark = self._known[stream.key], _mark(event)
            if mark not in known:
                known[mark] = seconds_of(event.id)
                found.append(event)
            self._last[stream.key] = max(self._last[stream.key], event.id, key=order_of)

    def _begin(self, stream: Stream) -> None:
        """Find where to begin; what was just before that is known, and not new after a failover."""
        last = self._since.get(stream.key) or stream.newest(self._server)
        for event in stream.all_after(self._server, id_at(seconds_of(last) - OVERLAP)):
            if order_of(event.id) <= order_of(last):
                self._known[stream.key][_mark(event)] = seconds_of(event.id)
        self._last[stream.key] = last

    def _forget(self) -> None:
        for key, known in self._known.items():
            oldest = seconds_of(self._last[key]) - 2 * OVERLAP
            self._known[key] = {mark: at for mark, at in known.items() if at >= oldest}


def _mark(event: Event) -> tuple[str, str]:
    # After a failover another event may have the same id.
    return event.id, f"{event.type} {event.worker} {event.details}"
