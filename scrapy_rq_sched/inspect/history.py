"""The last finished crawl of a spider: its frontier is removed at the end, but its events stay."""

from __future__ import annotations

from dataclasses import replace

from .. import connection
from ..codec.values import number_of
from ..events.event import Event
from .events import stream_of
from .status import LastCrawl, Status
from .view import View

#: Events that are read in one step, and at most: as a fleet closes, each of its workers leaves an event.
STEP, MOST = 100, 2000
#: The events after which a crawl is under way.
_UNDER_WAY = frozenset(("crawl_started", "crawl_going_on"))


def with_last_crawl(view: View, status: Status) -> Status:
    """Return *status* with the last finished crawl, if no crawl of the spider is under way.

    Redis is asked only if the state is ``new`` or ``finished``. A ``new`` frontier without seeds becomes
    ``finished``: its keys have been removed since.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    if status.state not in ("new", "finished"):
        return status
    event = _last_finish(view)
    if event is None:
        return status
    pages, seconds, failed = (number_of(event.details.get(name)) for name in ("pages", "seconds", "failed"))
    last = LastCrawl(event.time, seconds, int(pages), int(failed))
    is_finished = status.state == "finished" or not (status.seeds or status.waiting or status.leased)
    return replace(status, last_crawl=last, state="finished" if is_finished else status.state)


def _last_finish(view: View) -> Event | None:
    """Return the event of the last crawl's end; None if it is unknown, or a crawl is under way."""
    stream, end, read = stream_of(view), "+", 0
    while read < MOST:
        try:
            events = stream.latest(view.server, STEP, end)
        except connection.ResponseError:  # this user may not read them, or the key has another type
            return None
        for event in reversed(events):
            if event.type == "crawl_finished":
                return event
            if event.type in _UNDER_WAY:
                return None
        if len(events) < STEP:
            return None
        end, read = f"({events[0].id}", read + STEP
    return None
