"""This worker's part in the crawl, for the record of the crawl in Redis (``lua/fleet/record.lua``).

Pages, their items, and errors go with each exchange, so that the sums of the fleet are those of the pages
that are finished. All else is in Scrapy's statistics, and goes once a second: as sums since this worker
joined the crawl, so that it does no harm if a report is lost, or comes twice.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from scrapy import Request
from scrapy.statscollectors import StatsCollector

from ..codec.outcomes import SIZE, Ending, Outcome, ending_named, ending_of, url_digest
from ..codec.slots import slot_name
from ..frontier.messages import Batch
from ..frontier.replies import Part, Reply
from .requests import Entry, Requests, is_robots

#: Seconds between two reports; and records of requests after which a report is made sooner.
INTERVAL, MOST_OUTCOMES = 1.0, 1000
#: Seconds between two reports of slots; slots in one of them, and slots that are remembered until then.
SLOTS_INTERVAL, MOST_SLOTS, SLOTS_REMEMBERED = 10.0, 20, 1000
#: Scrapy's statistics, and their names in the record; and those of robots.txt, which is not a page.
_SUMS = {
    "downloader/request_count": "requests",
    "downloader/response_count": "responses",
    "downloader/response_bytes": "bytes",
    "downloader/exception_count": "exceptions",
    "retry/count": "retries",
    "dupefilter/filtered": "duplicates",
    "item_dropped_count": "dropped_items",
    "robotstxt/forbidden": "robots",
    "offsite/filtered": "offsite",
    "httperror/response_ignored_count": "http_errors",
    "spider_exceptions/count": "callback_errors",
}
#: The exceptions of downloads that tell why a site cannot be reached, by how their requests ended.
_EXCEPTION = "downloader/exception_type_count/"
_ENDINGS = {
    Ending.NO_ADDRESS: "no_address",
    Ending.TIMEOUT: "timeouts",
    Ending.REFUSED: "refused",
    Ending.LOST: "lost",
    Ending.IGNORED: "ignored",
}
_OF_ROBOTS = {"robotstxt/request_count": "requests", "robotstxt/response_count": "responses"}
_STATUS, _ROBOTS_STATUS = "downloader/response_status_count/", "robotstxt/response_status_count/"
_ERRORS = ("log_count/ERROR", "log_count/CRITICAL")


class Record(Part):
    """The worker's part in the record of a crawl.

    :param requests: the ledger, which notes what became of each request.
    :param outcomes: of how many requests Redis keeps the outcome; 0: of none.
    :param stores_items: whether items are stored with the release of their page: Redis counts these.
    :ivar stats: Scrapy's statistics collector; None if there are no statistics.
    :ivar worker: the digest of this worker's name.
    :ivar closing: whether the spider closes, so that a report must not wait.
    """

    def __init__(self, requests: Requests, outcomes: int, stores_items: bool) -> None:
        self._requests = requests
        self._most_outcomes = outcomes
        self._stores_items = stores_items
        self.stats: Any = None
        self.worker = b""
        self.closing = False
        self._scraped = self._errors = 0
        self._slots: dict[str, list[float]] = {}
        # What the downloads of robots.txt are among the sums.
        self._robots: Counter[str] = Counter()
        self._outcomes = bytearray()
        # The name of the crawl's record; empty until Redis has sent it.
        self._run = ""
        # The sums at the beginning of the crawl, at the last report, and at the last one that Redis has.
        self._before: Mapping[str, int] = {}
        self._sent: Mapping[str, int] | None = None
        self._known: Mapping[str, int] | None = None
        self._due = self._slots_due = 0.0
        self._must_repeat = False

    def joined(self, run: str) -> None:
        """Note the name of the record of the crawl that this worker has joined; empty if it is unknown."""
        self._run = run

    # -- what becomes of requests ------------------------------------------------------------------

    def downloaded(self, request: Request, status: int, slot: str, latency: float) -> None:
        """Note a response."""
        if (entry := self._requests.find(request)) is not None:
            entry.outcome = status
        elif is_robots(request.url):
            self._count_robots(request, ("responses", str(status)))
        if slot and (slot in self._slots or len(self._slots) < SLOTS_REMEMBERED):
            sums = self._slots.setdefault(slot, [0, 0.0])
            sums[0] += 1
            sums[1] += latency

    def raised(self, request: Request, exception: Exception) -> None:
        """Note an exception of a download."""
        ending = ending_of(exception)
        if (entry := self._requests.find(request)) is not None:
            entry.outcome = ending
        elif is_robots(request.url):
            self._count_robots(request, ("exceptions", _ENDINGS.get(ending, "")))

    def _count_robots(self, request: Request, names: Iterable[str]) -> None:
        """Count a download of robots.txt that has ended: Scrapy does not count its retries."""
        is_repeated = bool(request.meta.get("retry_times"))
        self._robots.update((*names, *(("requests", "retries") if is_repeated else ())))

    def callback_raised(self, request: Request | None) -> None:
        """Note an exception of a callback."""
        if request is not None and (entry := self._requests.find(request)) is not None:
            entry.has_raised = True

    def scraped(self, request: Request | None) -> None:
        """Count an item: with its page, if it belongs to one that is not finished."""
        if self._stores_items:
            return
        entry = None if request is None else self._requests.find(request)
        if entry is None:
            self._scraped += 1
        else:
            entry.scraped += 1

    def finished(self, entry: Entry) -> None:
        """Note that a request is finished."""
        self._scraped += entry.scraped
        if self._most_outcomes and len(self._outcomes) < SIZE * self._most_outcomes:
            digest, code = url_digest(entry.request.url), entry.outcome or Ending.UNKNOWN
            flags = entry.has_raised, entry.failure is not None
            self._outcomes += Outcome(digest, self.worker, int(time.time()), code, *flags).to_wire()

    # -- the exchange ------------------------------------------------------------------------------

    def fill(self, batch: Batch) -> None:  # noqa: D102
        batch.scraped, self._scraped = self._scraped, 0
        if self.stats is None:
            return
        stats = own_stats(self.stats)
        errors = sum(_number(stats.get(name)) for name in _ERRORS)
        batch.errors, self._errors = max(0, errors - self._errors), errors
        now = time.monotonic()
        if now < self._due and not self.closing and len(self._outcomes) < SIZE * MOST_OUTCOMES:
            return
        first = _number(stats.get("robotstxt/request_count"))
        sums = sums_of(stats, self._robots + Counter(requests=first))
        reports_slots = self._slots and (now >= self._slots_due or self.closing)
        if sums == self._known and not (reports_slots or self._outcomes or self._must_repeat):
            return
        self._must_repeat = False
        self._sent, self._due = sums, now + INTERVAL
        batch.run = self._run
        batch.counts = " ".join(
            f"{name}={value - self._before.get(name, 0)}" for name, value in sums.items() if value
        )
        batch.outcomes, self._outcomes = bytes(self._outcomes), bytearray()
        batch.slot_counts = self._take_slots() if reports_slots else {}
        self._slots_due = now + SLOTS_INTERVAL if reports_slots else self._slots_due

    def _take_slots(self) -> dict[str, tuple[int, int]]:
        """Take the slots with the most responses: how many there were, and their milliseconds together."""
        largest = sorted(self._slots, key=lambda slot: -self._slots[slot][0])[:MOST_SLOTS]
        taken = {slot: self._slots.pop(slot) for slot in largest}
        return {slot_name(slot): (int(count), round(1000 * s)) for slot, (count, s) in taken.items()}

    def applied(self, reply: Reply) -> None:  # noqa: D102
        sent, self._sent = self._sent, None
        if not reply.run:
            return
        if reply.run != self._run:
            # Redis has not stored the sums: they belong to the crawl that it has named now.
            self._run, self._before, self._known = reply.run, self._known or {}, None
            self._due = 0.0
        else:
            self._known = sent

    def rolled_back(self) -> None:
        """Send the sums again: Redis may have older ones."""
        self._must_repeat, self._due = True, 0.0


def own_stats(stats: Any) -> Mapping[str, Any]:
    """Return the statistics of this process, without those of other workers, from Scrapy's collector.

    A collector with a ``get_stats()`` of its own may ask a server, as that of scrapy-redis does: it is not
    asked, because this runs on the event loop.
    """
    own: Mapping[str, Any] | None = getattr(stats, "own_stats", None)
    if own is None and getattr(type(stats), "get_stats", None) is StatsCollector.get_stats:
        own = stats.get_stats()
    return own or {}


def sums_of(stats: Mapping[str, Any], of_robots: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the sums that the record has; of the statuses of responses each by its number.

    :param of_robots: those of robots.txt, which are left out; None: as far as the statistics have them.
    """
    sums = {name: _number(stats[key]) for key, name in _SUMS.items() if key in stats}
    # A spider's statistics may have names and values of any type.
    for key in (key for key in list(stats) if isinstance(key, str)):
        if key.startswith(_STATUS):
            status = key.removeprefix(_STATUS)
            sums[status] = _number(stats[key])
        elif key.startswith(_EXCEPTION):
            kind = _ENDINGS.get(ending_named([key.rpartition(".")[2]]))
            if kind is not None:
                sums[kind] = sums.get(kind, 0) + _number(stats[key])
    for name, count in (_robots_in(stats) if of_robots is None else of_robots).items():
        if name in sums:
            sums[name] -= count
    return sums


def _robots_in(stats: Mapping[str, Any]) -> dict[str, int]:
    found = {name: _number(stats[key]) for key, name in _OF_ROBOTS.items() if key in stats}
    for key in (key for key in list(stats) if isinstance(key, str) and key.startswith(_ROBOTS_STATUS)):
        found[key.removeprefix(_ROBOTS_STATUS)] = _number(stats[key])
    return found


def _number(value: Any) -> int:
    """Return a statistic as a count; 0 if it is not a number."""
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0
