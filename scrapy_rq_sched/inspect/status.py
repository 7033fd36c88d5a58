"""The status of a crawl: its requests, workers, speed and time left."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..frontier.exchange_times import NO_TIMES, Histogram
from ..frontier.messages import BottleneckName, is_much_unshared
from .crawl import Crawl, Moment


@dataclass(frozen=True)
class Worker:
    """The data of a worker in Redis. Times are in seconds since 1970, by the server's clock.

    :param name: its id in the keys.
    :param alive: whether its last heartbeat is within ``FRONTIER_LEASE_TIMEOUT``.
    :param host: its host, and :param pid: its process id; empty and 0 if unknown.
    :param version: its version of this package, and :param scrapy: its version of Scrapy.
    :param log: the path of its log on its host; empty if it has no file.
    :param pages: the number of pages that it has finished.
    :param in_hand: the number of its leases.
    :param busy: whether it reads its ``start()``, or has requests that are not in Redis.
    :param joined: when it joined, and :param heard: its last exchange; 0 if unknown.
    :param told_to_stop: whether it was told to close.
    :param limit: the limit of its speed: ``politeness``, ``callbacks``, ``concurrency``, ``redis``,
        ``needs``, ``pool``, ``none``.
    :param offers: what it offers to requests that need it (``FRONTIER_OFFERS``).
    :param items: the items of pools that it has for its life, by pool.
    :param lacks_item: whether it begins no request because it needs such an item; known of the worker
        that has asked for one last.
    :param place: its number in line, if it waits for a place in the fleet (``FRONTIER_MAX_WORKERS``); else 0.
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
    limit: BottleneckName = "none"
    offers: tuple[str, ...] = ()
    place: int = 0
    items: dict[str, str] = field(default_factory=dict)
    lacks_item: bool = False
    log: str = ""


@dataclass(frozen=True)
class UnmetNeeds:
    """Needs of waiting requests, all of which no live worker offers.

    :param needs: their names.
    :param since: since when, in seconds since 1970, by the server's clock.
    """

    needs: list[str]
    since: float


@dataclass(frozen=True)
class PoolCounts:
    """How many items of a pool are in each state.

    :param name: the pool's name, and :param items: the number of its items. :param free: how many of them are
        free, :param in_use: in use, :param rests: at rest, :param waits: in their delay, and :param retired:
        out of use.
    :param next_in: in how many seconds the first item is free that rests or waits; None if none does.
    :param is_whole: whether all items were read.
    """

    name: str
    items: int = 0
    free: int = 0
    in_use: int = 0
    rests: int = 0
    waits: int = 0
    retired: int = 0
    next_in: float | None = None
    is_whole: bool = True


@dataclass(frozen=True)
class Status:
    """The status of a frontier. Times are in seconds since 1970, by the server's clock; sizes in bytes.

    :param spider: the spider's name, and :param key: the key of its queue.
    :param waiting: the number of waiting requests, :param slots: of their slots, and :param next_turn_in:
        the seconds until the first of them can be begun, if delays hold all of them back.
    :param leased: the number of leases, :param delayed: of delayed requests, :param failed: of entries in the
        failed list, :param seeds: of seeds that no worker has read, and :param seen: of fingerprints.
    :param following: the number of requests that wait for a group, and :param unsent_signals: of finished
        groups whose signal is not sent.
    :param state: ``crawling``; ``idle``: workers wait for seeds; ``paused``, ``draining`` or ``stopping``,
        as its workers were told; ``stopped``: unfinished, without live workers; ``finished``;
        ``converting``; ``importing``; ``new``: no worker has joined it.
    :param state_since: when it was paused or drained; 0 if it was not.
    :param now: when the status was read.
    :param seen_bytes: the approximate size of the fingerprints, and :param waiting_bytes: of the waiting
        requests; None if Redis does not report it.
    :param run: the number of this crawl in the history, and :param began: when it began; each 0 if unknown.
    :param pages: the number of pages that were finished in this crawl, :param items: of their items, and
        :param errors: of errors that its workers have logged.
    :param counts: the counts of its workers, and :param statuses: their responses by HTTP status: see
        :class:`~scrapy_rq_sched.inspect.crawl.Crawl`.
    :param finished_at: when the last crawl was finished; 0 if unknown.
    :param failed_by_reason: the number of entries that were ever set aside, by reason without its details.
    :param exchange_seconds: the durations of the workers' exchanges.
    :param per_second: pages per second in the last ten to twenty seconds, :param items_per_second: items, and
        :param errors_per_second: errors.
    :param per_hour: pages in the last hour; for a younger crawl, extrapolated to an hour.
    :param growth: requests per second by which the queue has grown in the same time; negative if it has
        shrunk; None if unknown.
    :param seconds_left: the time left if the queue keeps shrinking so; if politeness limits the crawl, the
        time of the slot that needs longest. None if the queue shrinks by less than half of the pages, or if
        all slots are blocked.
    :param seconds_left_at_least: the time left if no more requests are found; None if no page is crawled.
    :param found: the number of requests found by workers that cannot share all of them, :param unshared: how
        many of these are only in one worker's memory, and :param unshared_reason: the most common reason.
    :param unmet: the needs of waiting requests that no live worker meets.
    :param pools: how many items of each pool are free, in use, at rest, or retired.
    :param capped: how many requests were dropped because of ``FRONTIER_MAX_PAGES``.
    :param max_workers: the maximum number of workers (``FRONTIER_MAX_WORKERS``), 0: any number;
        :param places_taken: the number of workers, with those of other spiders that share the places, and
        :param in_line: the workers that wait for a place.
    :param workers_wanted: the number of workers that the crawl could use now: see ``wanted.py``.
    :param limit: the limit of the fleet's speed now, as for a :class:`Worker`.
    :param workers: the workers that have joined, alive or dead.
    :param history: the last hour, the oldest part first.
    :param made_with: the settings that the frontier was made with, such as queue class and serializer.
    :param cut: which keys have more or longer entries than workers write, so that they were read in part;
        empty if all were read whole.
    :param last_crawl: the last crawl that has ended, if no crawl is under way.
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
    following: int = 0
    unsent_signals: int = 0
    failed: int = 0
    seeds: int = 0
    seen: int = 0
    waiting_bytes: int | None = None
    seen_bytes: int | None = None
    run: int = 0
    began: float = 0.0
    pages: int = 0
    items: int = 0
    errors: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    finished_at: float = 0.0
    failed_by_reason: dict[str, int] = field(default_factory=dict)
    exchange_seconds: Histogram = NO_TIMES
    per_second: float = 0.0
    items_per_second: float = 0.0
    errors_per_second: float = 0.0
    per_hour: float = 0.0
    growth: float | None = None
    seconds_left: float | None = None
    seconds_left_at_least: float | None = None
    found: int = 0
    unshared: int = 0
    unshared_reason: str = ""
    unmet: list[UnmetNeeds] = field(default_factory=list)
    pools: list[PoolCounts] = field(default_factory=list)
    capped: int = 0
    max_workers: int = 0
    places_taken: int = 0
    workers_wanted: int = 0
    limit: BottleneckName = "none"
    in_line: list[Worker] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    history: list[Moment] = field(default_factory=list)
    made_with: dict[str, str] = field(default_factory=dict)
    cut: str = ""
    last_crawl: Crawl | None = None

    @property
    def left(self) -> int:
        """The number of requests and seeds that are known and not crawled, and of signals to send."""
        waiting = self.waiting + self.delayed + self.following + self.seeds
        return waiting + self.leased + self.unsent_signals

    @property
    def alive(self) -> int:
        """The number of live workers."""
        return sum(worker.alive for worker in self.workers)

    @property
    def unshared_share(self) -> str:
        """The share of requests that workers cannot share, and the reason; empty if it is small."""
        if not is_much_unshared(self.found, self.unshared):
            return ""
        share = 100 * self.unshared // max(1, self.found)
        return f"{share} % of the requests found ({self.unshared} of {self.found}): {self.unshared_reason}"
