"""The crawls of a spider: those of the history, the one under way, and the last one that has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from .. import connection
from ..codec.values import number_of
from ..errors import InspectionError
from ..events.event import Event
from .comparison import earlier
from .crawl import Crawl, CrawlWorker
from .crawls import Crawls
from .events import stream_of
from .status import Status
from .view import View

#: Events that are read in one step, and at most: as a fleet closes, each of its workers leaves an event.
STEP, MOST = 100, 2000
#: The events after which a crawl is under way.
_UNDER_WAY = frozenset(("crawl_started", "crawl_going_on"))
#: Crawls of which one is probably finished: those that are read first to find it.
FEW = 5
#: The last crawls in which a worker is looked for.
LOOKED_AT = 20


class CrawlPage(NamedTuple):
    """Some crawls of a spider, the latest first.

    :param total: the number of all crawls of the history, with the one under way.
    :param crawls: each crawl, without its chart, and the one to compare it with, or None.
    """

    total: int
    crawls: list[tuple[Crawl, Crawl | None]]


def crawl_page(view: View, status: Status, offset: int, limit: int) -> CrawlPage:
    """Return at most *limit* crawls, without the *offset* latest ones.

    :param status: the status of *view*'s frontier.
    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    crawls = Crawls(view)
    current = _under_way(crawls, status)
    # A crawl that was stopped and goes on has an entry already.
    numbers = [number for number in crawls.numbers() if current is None or number != current.run]
    first = 0 if current is None else 1
    found = list(crawls.read(numbers[max(0, offset - first) : max(0, offset + limit - first)]))
    if current is not None and not offset and limit:
        found.insert(0, current)
    last = found and _finished(crawls, numbers, found[-1].run)
    known = [*found, *([last] if last else [])]
    return CrawlPage(len(numbers) + first, [(crawl, earlier(crawl, known)) for crawl in found])


def find_crawl(view: View, status: Status, run: int | None) -> tuple[Crawl, Crawl | None]:
    """Return the crawl with the number *run*, with its chart, and the one to compare it with, or None.

    :param status: the status of *view*'s frontier.
    :param run: its number; None: the latest crawl.
    :raises InspectionError: if there is no such crawl.
    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    crawls = Crawls(view)
    crawl = _under_way(crawls, status)
    numbers = crawls.numbers()
    if run is not None and (crawl is None or crawl.run != run):
        crawl = next(crawls.read([run], with_charts=True), None)
    elif crawl is None:
        crawl = next(crawls.read(numbers[:1], with_charts=True), None)
    if crawl is None:
        missing = numbers[0] if numbers and run is None else run
        known = f"{missing}. It has {numbers[-1]} to {numbers[0]}" if numbers else "yet"
        raise InspectionError(
            f"The history of spider {view.spider!r} has no crawl {known} (see FRONTIER_HISTORY)"
        )
    return crawl, _finished(crawls, numbers, crawl.run)


def find_worker(view: View, name: str) -> tuple[Crawl, CrawlWorker] | None:
    """Return the latest of the last crawls in which the worker *name* took part, and its part; or None.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    crawls = Crawls(view)
    current = crawls.current("crawling") if view.exists else None
    for crawl in (*([current] if current else []), *crawls.read(crawls.numbers()[:LOOKED_AT])):
        for worker in crawl.workers:
            if worker.name == name:
                return crawl, worker
    return None


def _under_way(crawls: Crawls, status: Status) -> Crawl | None:
    """Return the crawl that has no end yet, with its chart, or None. Without workers, it ended with them."""
    crawl = None if status.state in ("new", "finished") else crawls.current(status.state)
    if crawl is None or status.state != "stopped":
        return crawl
    ends = [entry.ended for entry in crawls.read([crawl.run]) if entry.state == "stopped"]
    ended = max([*ends, *(worker.heard for worker in status.workers)], default=0.0)
    return replace(crawl, ended=ended or crawl.ended)


def _finished(crawls: Crawls, numbers: Sequence[int], run: int) -> Crawl | None:
    """Return the last finished crawl before *run*, of those with these *numbers*, or None."""
    lower = [number for number in numbers if number < run]
    found = chain(crawls.read(lower[:FEW]), crawls.read(lower[FEW:]))
    return next((crawl for crawl in found if crawl.state == "finished"), None)


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
