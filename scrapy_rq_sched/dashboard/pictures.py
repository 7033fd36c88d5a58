"""The states of frontiers: one picture a second for all browsers together, made in a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from starlette.exceptions import HTTPException

from ..errors import InspectionError
from ..inspect import Status, View, as_json, read_status
from ..inspect.audit import Audit
from ..inspect.history import with_last_crawl
from .answers import LONGEST
from .cached import Cached, Made
from .crawls import brief, one_crawl, some_crawls
from .events import EventsFound
from .frontiers import SEARCH, Frontiers
from .lists import FailedFound, SlotsFound, held_by, items_of_pools, next_requests

T = TypeVar("T")

#: Seconds between two pictures of a frontier, and between two readings of one of its lists.
PICTURE, LIST = 1.0, 2.0
#: Pictures a second of all frontiers together, for the overview.
PICTURES = 5
#: Workers in a picture; and points of the history in the overview.
MOST_WORKERS, MOMENTS = 100, 60
#: Workers of a frontier whose leases are kept, and parts of its history, those that were asked for last.
MOST_PARTS = 20
#: Seconds for which a frontier that nobody looks at is kept.
KEPT_FOR = 300.0
#: Frontiers in the overview.
MOST_FRONTIERS = 200
#: Characters of a frontier's name; and how many names that lead to no frontier are kept, the latest ones.
LONGEST_NAME, MOST_UNKNOWN = 500, 50
_NOT_IN_BRIEF = ("workers", "in_line", "made_with")


class Picture(NamedTuple):
    """The state of a frontier.

    :param full: as JSON, with the names of ``scrapy frontier status --json`` and the first workers.
    :param brief: the shorter JSON for the overview.
    """

    status: Status
    full: str
    brief: str

    @classmethod
    def of(cls, name: str, status: Status, last_event: str) -> Picture:
        """Return the picture of the frontier called *name*.

        :param last_event: the id of the latest event; empty without events.
        """
        shown = as_json.status(status)
        shown["workers"] = workers_of(status)[:MOST_WORKERS]
        shown["in_line"] = shown["in_line"][:MOST_WORKERS]
        full = {
            "name": name,
            "status": shown,
            "alive": status.alive,
            "workers": len(status.workers),
            "in_line": len(status.in_line),
            "unshared": status.unshared_share,
            "last_event": last_event,
        }
        short = {key: value for key, value in shown.items() if key not in _NOT_IN_BRIEF}
        short["history"] = shown["history"][-MOMENTS:]
        short["last_crawl"] = status.last_crawl and brief(status.last_crawl)
        # Made once, in the thread, for all browsers.
        return cls(status, as_json.dump(full, LONGEST), as_json.dump({**full, "status": short}, LONGEST))


class Frontier:
    """The picture and the lists of one frontier."""

    def __init__(self, name: str, frontiers: Frontiers, executor: ThreadPoolExecutor) -> None:
        self.name = name
        self._frontiers = frontiers
        self._executor = executor
        self.events = EventsFound()
        self.failed = FailedFound()
        self._slots = SlotsFound()
        self._parts: dict[tuple[Any, ...], Cached[dict[str, Any]]] = {}
        self.picture = self._cached(self._draw, PICTURE)
        self.slots = self._cached(lambda: self._slots.read(self.view()), LIST)
        self.pools = self._cached(lambda: items_of_pools(self.view()), LIST)
        self.failed_counts = self._cached(lambda: self.failed.read(self.view()), LIST)
        self.next = self._cached(lambda: next_requests(self.view()), LIST)
        self.audit = self._cached(lambda: Audit(self.view()).latest(), LIST)

    @property
    def asked(self) -> float:
        """The last time at which a browser asked for the picture or a list, by the monotonic clock."""
        return max(cached.asked for cached in self._all())

    @property
    def exists(self) -> bool:
        """Whether the latest picture shows a frontier. The first picture may still be in the making."""
        return self.picture.has_value

    def view(self) -> View:
        """Return the frontier in its present state. Waits for Redis.

        :raises InspectionError: if it does not exist.
        """
        view = self._frontiers.view(self.name)
        if view is None:
            raise InspectionError(
                f"There is no frontier {self.name!r}: no worker has joined it yet, or nothing is left of its "
                "crawls"
            )
        return view

    def held(self, worker: str) -> Cached[dict[str, Any]]:
        """Return the leases of *worker* that are kept, which must be one of the picture."""
        return self._part(("held", worker), lambda: held_by(self.view(), worker))

    def crawls(self, offset: int, limit: int) -> Cached[dict[str, Any]]:
        """Return what is kept of a part of the history."""
        return self._part(("crawls", offset, limit), lambda: some_crawls(*self._state(), offset, limit))

    def crawl(self, run: int | None) -> Cached[dict[str, Any]]:
        """Return what is kept of the crawl with this number; None: of the latest one."""
        return self._part(("crawl", run), lambda: one_crawl(*self._state(), run))

    def _state(self) -> tuple[View, Status]:
        view, picture = self.view(), self.picture.latest
        return view, picture.status if picture else read_status(view)

    def forget(self) -> None:
        """Read everything again at the next request, because something was changed."""
        for cached in self._all():
            cached.forget()

    def _part(self, key: tuple[Any, ...], make: Callable[[], dict[str, Any]]) -> Cached[dict[str, Any]]:
        parts = self._parts
        if key not in parts:
            while len(parts) >= MOST_PARTS:
                del parts[min(parts, key=lambda one: parts[one].asked)]
            parts[key] = self._cached(make, LIST)
        return parts[key]

    def _all(self) -> list[Cached[Any]]:
        lists: list[Cached[Any]] = [
            self.picture,
            self.slots,
            self.pools,
            self.failed_counts,
            self.next,
            self.audit,
        ]
        return [*lists, *self._parts.values()]

    def _draw(self) -> Picture:
        view = self.view()
        status = with_last_crawl(view, read_status(view))
        return Picture.of(self.name, status, self.events.read(view))

    def _cached(self, make: Callable[[], T], every: float) -> Cached[T]:
        return Cached(make, every, self._executor, self._frontiers.describe)


class Pictures:
    """All frontiers that browsers show.

    :param executor: provides the threads that read Redis.
    """

    def __init__(self, frontiers: Frontiers, executor: ThreadPoolExecutor) -> None:
        self._frontiers = frontiers
        self._executor = executor
        self._known: dict[str, Frontier] = {}
        self.names = Cached(frontiers.find, SEARCH, executor, frontiers.describe)

    def of(self, name: str) -> Frontier:
        """Return the frontier called *name*, whether or not it exists in Redis.

        :raises HTTPException: if the name is too long.
        """
        if len(name) > LONGEST_NAME:
            raise HTTPException(404, f"The name of a frontier must have at most {LONGEST_NAME} characters")
        now = time.monotonic()
        for old in [one.name for one in self._known.values() if now - one.asked > KEPT_FOR]:
            del self._known[old]
        if name not in self._known:
            self._forget_unknown()
            self._known[name] = Frontier(name, self._frontiers, self._executor)
        return self._known[name]

    def _forget_unknown(self) -> None:
        """Make room for another name: anybody can ask for any number of names."""
        unknown = [one for one in self._known.values() if not one.exists]
        unknown.sort(key=lambda one: one.asked)
        for one in unknown[: max(0, len(unknown) - MOST_UNKNOWN + 1)]:
            del self._known[one.name]

    async def overview(self) -> tuple[Made[list[str]], list[Made[Picture]]]:
        """Return the names of all frontiers, and the pictures of the first ones."""
        names = await self.names.get()
        wanted = [name for name in names.value or [] if len(name) <= LONGEST_NAME][:MOST_FRONTIERS]
        # The more frontiers there are, the less often each is read.
        max_age = len(wanted) / PICTURES
        pictures = await asyncio.gather(*(self.of(name).picture.get(max_age) for name in wanted))
        return names, pictures


def workers_of(status: Status) -> list[dict[str, Any]]:
    """Return the workers of *status*, living ones first."""
    ordered = sorted(status.workers, key=lambda one: (not one.alive, one.name))
    return [as_json.worker(one) for one in ordered]
