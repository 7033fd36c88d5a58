"""How a crawl stands: what waits, who is at it, how fast it goes, and how long it may take yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..frontier.exchange_times import NO_TIMES, Histogram
from ..frontier.messages import Limit, is_much_unshared


class Moment(NamedTuple):
    """Ten seconds of a crawl.

    :param second: when they began, in seconds since 1970, by the server's clock.
    :param pages: how many pages were done in them.
    :param waiting: how many requests waited at the last of these.
    """

    second: int
    pages: int
    waiting: int


@dataclass(frozen=True)
class Worker:
    """A worker, as Redis knows it. Times are in seconds since 1970, by the server's clock.

    :param name: its id in the keys.
    :param alive: whether it has been heard of within ``FRONTIER_LEASE_TIMEOUT``.
    :param host: where it runs, :param pid: its process; empty and 0 if it does not say so.
    :param version: of this package, :param scrapy: of Scrapy.
    :param pages: how many pages it has done.
    :param in_hand: requests and seeds that it holds.
    :param busy: whether it reads its ``start()``, or has requests that are not in Redis.
    :param joined: when it began, and :param heard: its last exchange; 0 if unknown.
    :param told_to_stop: whether it is to close.
    :param limit: what keeps it from going faster: ``politeness``, ``callbacks``, ``concurrency``, ``redis``;
        or ``none``.
    :param place: its place in line, if it waits for a place in the fleet (``FRONTIER_MAX_WORKERS``); else 0.
    """

    name: str
    alive: bool
    host: str = ""
    pid: int = 0
    version: str = ""
    scrapy: str = ""
    pages: int = 0
    in_hand: int = 0
    busy: bool = False
    joined: float = 0.0
    heard: float = 0.0
    told_to_stop: bool = False
    limit: Limit = "none"
    place: int = 0


@dataclass(frozen=True)
class Status:
    """How a frontier stands. Times are in seconds since 1970, by the server's clock; sizes in bytes.

    :param spider: the spider's name, and :param key: its queue's key.
    :param waiting: requests that wait, :param slots: how many slots these have, :param next_turn_in: in how
        many seconds any of these may be begun, if none may be yet because of delays, :param leased: those in
        workers' hands, with seeds, :param delayed: set back for another worker, :param failed: set aside,
        :param seeds: not read yet, and :param seen: how many fingerprints the filter has.
    :param state: ``crawling``; ``idle``: workers wait for seeds; ``paused``, ``draining`` or ``stopping``,
        as its workers are told; ``stopped``: there is something to do, and nobody alive; ``finished``;
        ``converting``; ``importing``; ``new``: no worker has joined it.
    :param state_since: since when it is paused or drained; 0 if it is not.
    :param now: when this was read.
    :param seen_bytes: what those seen take, about; and :param waiting_bytes: those waiting; None if Redis
        does not say.
    :param pages: how many pages were done in this crawl.
    :param finished_at: when the last crawl was finished, as long as that is known; 0 if it is not.
    :param failed_by_reason: how many were ever set aside, by reason without its details.
    :param exchange_seconds: how long the workers' exchanges took.
    :param per_second: pages a second, in the last minute.
    :param per_hour: pages in the last hour; of a younger crawl, what it would make at this rate.
    :param growth: by how many a second the queue grows; less than 0: it shrinks; None if not known.
    :param seconds_left: how long it takes yet, if the queue goes on to shrink so; else None.
    :param seconds_left_at_least: how long it takes, if no more is found; None if nothing is being done.
    :param found: how many requests workers have found that cannot share all of them; :param unshared: how
        many of these are in one worker's memory only, and :param unshared_reason: why.
    :param max_workers: how many workers may be at it (``FRONTIER_MAX_WORKERS``), 0: any number;
        :param places_taken: how many there are, with those of other spiders that share the places, and
        :param in_line: those that wait for a place.
    :param workers_wanted: how many workers the crawl could use now: see ``wanted.py``.
    :param limit: what keeps the fleet from going faster now, as for a :class:`Worker`.
    :param workers: those that are at it, alive or not.
    :param history: of the last hour, the oldest first.
    :param made_with: queue class, serializer and so on.
    """

    spider: str
    key: str
    state: str
    now: float
    state_since: float = 0.0
    waiting: int = 0
    slots: int = 0
    next_turn_in: float = 0.0
    leased: int = 0
    delayed: int = 0
    failed: int = 0
    seeds: int = 0
    seen: int = 0
    waiting_bytes: int | None = None
    seen_bytes: int | None = None
    pages: int = 0
    finished_at: float = 0.0
    failed_by_reason: dict[str, int] = field(default_factory=dict)
    exchange_seconds: Histogram = NO_TIMES
    per_second: float = 0.0
    per_hour: float = 0.0
    growth: float | None = None
    seconds_left: float | None = None
    seconds_left_at_least: float | None = None
    found: int = 0
    unshared: int = 0
    unshared_reason: str = ""
    max_workers: int = 0
    places_taken: int = 0
    workers_wanted: int = 0
    limit: Limit = "none"
    in_line: list[Worker] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    history: list[Moment] = field(default_factory=list)
    made_with: dict[str, str] = field(default_factory=dict)

    @property
    def alive(self) -> int:
        """How many workers are alive."""
        return sum(worker.alive for worker in self.workers)

    @property
    def unshared_share(self) -> str:
        """How much cannot be shared, and why; empty if it is little."""
        if not is_much_unshared(self.found, self.unshared):
            return ""
        share = 100 * self.unshared // self.found
        return f"{share} % of the requests found ({self.unshared} of {self.found}): {self.unshared_reason}"
