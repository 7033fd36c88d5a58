"""A crawl, as the history has it: its figures, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Moment(NamedTuple):
    """Ten seconds of a crawl.

    :param second: the beginning, in seconds since 1970, by the server's clock.
    :param pages: the number of pages that were finished in these seconds.
    :param waiting: the number of waiting requests after the last of these pages.
    :param items: the items of these pages, and :param errors: the errors that were logged.
    :param first: after how many of these seconds the first of the pages was finished.
    """

    second: int
    pages: int
    waiting: int
    items: int = 0
    errors: int = 0
    first: float = 0.0


def moment_of(entry: bytes) -> Moment | None:
    """Return an entry of the key ``pages``, as ``lua/exchange/reply.lua`` writes it; None for other text."""
    parts = entry.split()
    if not 3 <= len(parts) <= 8 or not all(part.isdigit() and len(part) < 16 for part in parts):
        return None
    second, pages, waiting, items, errors, first = (*map(int, parts), 0, 0, 0)[:6]
    return Moment(second, pages, waiting, items, errors, first / 1000)


def totals_of(entry: bytes) -> tuple[int, int]:
    """Return how many items and errors there were up to an entry of the key ``pages``; 0 if unknown."""
    parts, latest = entry.split(), moment_of(entry)
    if latest is None or len(parts) != 8:
        return 0, 0
    return latest.items + int(parts[6]), latest.errors + int(parts[7])


@dataclass(frozen=True)
class CrawlWorker:
    """What a worker did in a crawl. Times are in seconds since 1970, by the server's clock.

    :param name: its name, and :param host: its host, :param pid: its process id, :param log: the path of its
        log there; empty or 0 if unknown.
    :param joined: when it joined, and :param ended: when it left or was found dead; 0 if it has not.
    :param how: ``left``, or ``lost``: its heartbeat stopped; empty: neither.
    :param counts: its counts, as in :class:`Crawl`.
    """

    name: str
    host: str = ""
    pid: int = 0
    log: str = ""
    joined: float = 0.0
    ended: float = 0.0
    how: str = ""
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CrawledSlot:
    """What a slot gave in a crawl.

    :param slot: its name, :param responses: the number of its responses, and :param seconds: how long one
        took on average.
    """

    slot: str
    responses: int
    seconds: float


@dataclass(frozen=True)
class Crawl:
    """A crawl, as the history has it. Times are in seconds since 1970, by the server's clock.

    :param run: its number among the crawls of its frontier; 0 if unknown.
    :param spider: the spider's name, and :param key: the prefix of the frontier's keys.
    :param state: ``finished``; ``stopped``: its workers left before; ``cleared``: its frontier was removed;
        or the state of a crawl under way, as that of a status.
    :param reason: why its workers were told to close, if they were.
    :param began: when it began, and :param ended: when it ended, or was read.
    :param pages: the pages that were finished, :param items: their items, and :param errors: the errors that
        its workers have logged.
    :param set_aside: the requests that were moved to the failed list, by reason without its details.
    :param returned: how many begun requests of dead workers were crawled again.
    :param counts: Scrapy's statistics of all workers together: ``requests``, ``responses``, ``bytes``,
        ``retries``, ``exceptions``, ``duplicates``, ``robots``, ``offsite``, ``http_errors``,
        ``callback_errors``, ``dropped_items``, without those of robots.txt.
    :param statuses: the responses by HTTP status.
    :param joined: how many workers have joined, and :param lost: how many of them died.
    :param workers: the first 50 of them.
    :param slots: how many slots have answered, at most 1,000; :param largest: those with the most responses,
        and :param slowest: those with the longest.
    :param settings: the settings that were not Scrapy's own values, of those that matter.
    :param version: the version of this package, and :param scrapy: of Scrapy, of the first worker.
    :param width: seconds of each part of :param history: the whole crawl in parts.
    """

    run: int
    spider: str = ""
    key: str = ""
    state: str = ""
    reason: str = ""
    began: float = 0.0
    ended: float = 0.0
    pages: int = 0
    items: int = 0
    errors: int = 0
    set_aside: dict[str, int] = field(default_factory=dict)
    returned: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    joined: int = 0
    lost: int = 0
    workers: list[CrawlWorker] = field(default_factory=list)
    slots: int = 0
    largest: list[CrawledSlot] = field(default_factory=list)
    slowest: list[CrawledSlot] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    scrapy: str = ""
    width: int = 10
    history: list[Moment] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How long it took, in seconds."""
        return max(0.0, self.ended - self.began)

    @property
    def failed(self) -> int:
        """How many requests were moved to the failed list."""
        return sum(self.set_aside.values())

    @property
    def per_second(self) -> float:
        """Pages per second, from the beginning to the end."""
        return self.pages / self.seconds if self.seconds >= 1 else float(self.pages)
