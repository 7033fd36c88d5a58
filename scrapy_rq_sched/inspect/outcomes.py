"""Find the outcome of a URL, in the bounded memory of the latest requests (``FRONTIER_OUTCOMES``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

from .. import connection
from ..codec import outcomes
from ..codec.outcomes import Ending, worker_digest
from .crawl import Crawl, CrawlWorker
from .crawls import Crawls
from .view import View

#: The latest crawls whose workers are named.
CRAWLS = 5
_WORDS = {
    Ending.UNKNOWN: "it was answered by a middleware or a cache, or dropped in silence",
    Ending.ROBOTS: "robots.txt forbids it (ROBOTSTXT_OBEY)",
    Ending.IGNORED: "a middleware dropped it (IgnoreRequest)",
    Ending.NO_ADDRESS: "its host has no address (DNS)",
    Ending.TIMEOUT: "its host did not answer in time",
    Ending.REFUSED: "its host refused the connection",
    Ending.LOST: "the connection to its host was lost",
    Ending.EXCEPTION: "its download raised an exception",
}


@dataclass(frozen=True)
class Ended:
    """The outcome of a request.

    :param time: when it ended, in seconds since 1970, by the worker's clock.
    :param status: the HTTP status of its response; 0 if it had none.
    :param text: its outcome, in words.
    :param has_raised: whether its callback raised an exception, and
    :param is_set_aside: whether it was moved to the failed list.
    :param worker: the name of its worker, :param host: the host, and :param log: the path of its log there;
        each empty if unknown.
    """

    time: int
    status: int
    text: str
    has_raised: bool = False
    is_set_aside: bool = False
    worker: str = ""
    host: str = ""
    log: str = ""


class OutcomeMemory:
    """The outcomes of the latest requests of *view*'s frontier, and the latest crawls.

    :ivar last: the last crawl that has ended, or that is under way; None if it is unknown.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """

    def __init__(self, view: View) -> None:
        server, key = connection.server_of(view.server, view.keys.requests), view.keys.outcomes
        try:
            self._ring: bytes = server.get(key) or b""
        except connection.ResponseError:  # the key has another type, or this user may not read it
            self._ring = b""
        crawls = Crawls(view)
        known = list(crawls.read(crawls.numbers()[:CRAWLS]))
        current = crawls.current("crawling") if view.exists else None
        self.last = current or next(iter(known), None)
        self._workers = dict(_by_digest([*known[::-1], *([current] if current else [])]))

    def find(self, *urls: str) -> list[Ended]:
        """Return the outcome of each request of these *urls*, in the order of time."""
        found = {outcome for url in urls for outcome in outcomes.find(self._ring, url)}
        return [self._ended(one) for one in sorted(found, key=lambda one: one.time)]

    @property
    def has_all(self) -> bool:
        """Whether it has every request of the last crawl.

        A worker reports them once a second, so that those of the last second of a dead worker are missing.
        """
        records = outcomes.times(self._ring)
        if (
            not records
            or self.last is None
            or self.last.lost
            or any(not one.how for one in self.last.workers)
        ):
            return False
        is_full = outcomes.written(self._ring) > len(records)
        return not is_full or min(records) < self.last.began

    def _ended(self, one: outcomes.Outcome) -> Ended:
        worker = self._workers.get(one.worker, CrawlWorker(""))
        status = one.code if one.code < Ending.UNKNOWN else 0
        text = _of_status(status) if status else _WORDS.get(Ending(one.code), "")
        flags = one.has_raised, one.is_set_aside
        return Ended(one.time, status, text, *flags, worker.name, worker.host, worker.log)


def _of_status(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP status {status}{f' ({phrase})' if phrase else ''}"


def _by_digest(crawls: Iterable[Crawl]) -> Iterable[tuple[bytes, CrawlWorker]]:
    for crawl in crawls:
        for worker in crawl.workers:
            yield worker_digest(worker.name), worker
