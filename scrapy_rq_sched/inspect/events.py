"""Read the events of a frontier that Redis keeps, and follow new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from ..events.event import Event
from ..events.follower import Follower
from ..events.stream import Stream
from .view import View


def read_events(view: View, since: str = "", count: int = 100) -> list[Event]:
    """Return events of *view*'s frontier, the oldest first.

    :param since: the id of an event, to return the events after it; empty: the latest events.
    :param count: the maximum number of events.
    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    stream = stream_of(view)
    return stream.some_after(view.server, since, count) if since else stream.latest(view.server, count)


def follow_events(
    settings: Any, *spiders: str, since: str = "", said: Callable[[str], None] = lambda text: None
) -> Iterator[Event]:
    """Yield the events of *spiders* as they happen, without end, each once and in order.

    If Redis does not answer for a while, the events of that time follow when it answers again.

    :param settings: Scrapy's, as ``scrapy.utils.project.get_project_settings()`` returns them.
    :param since: the id of an event, to yield the events after it first; empty: only new events.
    :param said: called with a line when Redis stops answering, and when it answers again.
    :raises SettingError: if a setting has an invalid value.
    """
    streams = [stream_of(View.without_meta(settings, spider)) for spider in spiders]
    follower = Follower(settings, streams, {stream.key: since for stream in streams}, said)
    try:
        yield from follower
    finally:
        follower.close()


def folded(events: Iterable[Event]) -> Iterator[tuple[Event, int]]:
    """Yield the last of equal events that follow each other, with their number: see :attr:`Event.sort`."""
    for _, equal in groupby(events, key=lambda event: (event.spider, event.sort)):
        count, last = 0, None
        for count, last in enumerate(equal, 1):  # noqa: B007 - the last one and its number are used
            pass
        if last is not None:
            yield last, count


def stream_of(view: View) -> Stream:
    """Return the stream of events of *view*'s frontier."""
    return Stream(view.keys.events, view.spider)
