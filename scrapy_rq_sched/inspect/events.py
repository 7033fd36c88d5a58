"""The events of a frontier: those that Redis keeps, and those that are to come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..events.event import Event
from ..events.follower import Follower
from ..events.stream import Stream
from .view import View


def read_events(view: View, since: str = "", count: int = 100) -> list[Event]:
    """Return events of *view*'s frontier, the oldest first.

    :param since: the id of an event: those after it. Empty: the latest.
    :param count: how many at the most.
    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    stream = stream_of(view)
    return stream.some_after(view.server, since, count) if since else stream.latest(view.server, count)


def follow_events(
    settings: Any, *spiders: str, since: str = "", said: Callable[[str], None] = lambda text: None
) -> Iterator[Event]:
    """Yield the events of *spiders* as they happen, without an end, each once and in order.

    Redis may be away meanwhile: what has happened then comes when it answers again.

    :param settings: Scrapy's, as ``scrapy.utils.project.get_project_settings()`` returns them.
    :param since: the id of an event, to have those after it first; empty: only what happens from now on.
    :param said: is told once that Redis does not answer, and once that it does again.
    :raises SettingError: if a setting has a value that it may not have.
    """
    streams = [stream_of(View.without_meta(settings, spider)) for spider in spiders]
    follower = Follower(settings, streams, {stream.key: since for stream in streams}, said)
    try:
        yield from follower
    finally:
        follower.close()


def stream_of(view: View) -> Stream:
    """Return where the events of *view*'s frontier are."""
    return Stream(view.keys.events, view.spider)
