"""The last crawl of a spider that has ended, as the history has it; without a history, as its events tell."""

from __future__ import annotations

from dataclasses import replace

from .. import connection
from ..codec.values import number_of
from ..events.event import Event
from .crawl import Crawl
from .crawls import Crawls
from .events import stream_of
from .status import Status
from .view import View

#: Events that are read in one step, and at most: as a fleet closes, each of its workers leaves an event.
STEP, MOST = 100, 2000
#: The events after which a crawl is under way.
_UNDER_WAY = frozenset(("crawl_started", "crawl_going_on"))


def with_last_crawl(view: View, status: Status) -> Status:
    """Return *status* with the last crawl that has ended, if no crawl of the spider is under way.

    Redis is asked only if the state is ``new`` or ``finished``. A ``new`` frontier without seeds becomes
    ``finished``, if its last crawl was: its keys have been removed since.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    if status.state not in ("new", "finished"):
        return status
    last = last_crawl(view)
    if last is None:
        return status
    has_nothing = not (status.seeds or status.waiting or status.leased)
    is_finished = status.state == "finished" or (has_nothing and last.state == "finished")
    return replace(status, last_crawl=last, state="finished" if is_finished else status.state)


def last_crawl(view: View) -> Crawl | None:
    """Return the last crawl that has ended, with its chart; None if it is unknown.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    crawls = Crawls(view)
    found = next(crawls.read(crawls.numbers()[:1], with_charts=True), None)
    event = None if found is not None else _last_finish(view)
    if event is None:
        return found and replace(found, spider=found.spider or view.spider)
    pages, seconds, failed = (number_of(event.details.get(name)) for name in ("pages", "seconds", "failed"))
    return Crawl(
        run=0,
        spider=view.spider,
        key=view.keys.prefix,
        state="finished",
        began=event.time - seconds,
        ended=event.time,
        pages=int(pages),
        set_aside={"": int(failed)} if failed else {},
    )


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
