"""Follow the events of fleets as they happen, and miss none when the connection breaks.

The follower polls Redis. A subscription or a blocking command would not notice a dead connection, and would
lose the events of that time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from typing import Any

from ..connection import RedisError, close, describe_error, get_impatient_client
from .event import Event
from .stream import Stream, id_at, order_of, seconds_of

#: Seconds between two polls, and seconds after which a connection without an answer is closed.
INTERVAL, PATIENCE = 0.25, 2.0
#: After a failover the clock of the new master may be behind, so that new events have earlier ids. The
#: follower then reads this many seconds again.
OVERLAP = 60.0


class Follower:
    """An iterator over the events of frontiers.

    :param settings: Scrapy's settings; they contain the address of Redis.
    :param streams: the streams of the frontiers.
    :param since: for the key of a stream, the event id to begin after. Other streams begin now.
    :param notify: is called with a line of text when Redis stops answering, and when it answers again.
    """

    def __init__(
        self,
        settings: Any,
        streams: Sequence[Stream],
        since: Mapping[str, str],
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._streams = streams
        self._server = get_impatient_client(settings, PATIENCE)
        self._notify = notify
        self._since = since
        # For each stream: the id of its last entry, and the time of each entry that was read lately.
        self._last: dict[str, str] = {}
        self._known: dict[str, dict[tuple[str, str], float]] = {stream.key: {} for stream in streams}
        self._is_away = False

    def __iter__(self) -> Iterator[Event]:
        """Yield events, and wait for the next ones."""
        while True:
            yield from self.new()
            time.sleep(INTERVAL)

    def new(self) -> list[Event]:
        """Return the events since the last call, oldest first; some may be missing until Redis answers."""
        found: dict[str, list[Event]] = {stream.key: [] for stream in self._streams}
        try:
            for stream in self._streams:
                self._read(stream, found[stream.key])
        except RedisError as error:
            if not self._is_away:
                self._notify(f"{describe_error(self._server, error)}. Events continue when Redis answers")
            self._is_away = True
        else:
            if self._is_away:
                self._notify("Redis answers again; events continue")
            self._is_away = False
            self._forget()
        # Includes those read before an error. Each stream keeps its order, even if its clock went back.
        return list(merge(*found.values(), key=lambda event: event.time))

    def was_away(self) -> None:
        """Read the last minute again: the caller found that Redis was away."""
        self._is_away = True

    def close(self) -> None:
        """Close the connection."""
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
        """Find the start, and note the events just before it: they are not new after a failover."""
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
