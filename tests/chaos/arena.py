"""Where a scenario is played: a Redis that keeps its data, a proxy before it, a fleet behind that."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import redis
from scrapy.settings import Settings

from scrapy_rq_sched.embedded import PrivateRedis
from scrapy_rq_sched.errors import FrontierError
from scrapy_rq_sched.inspect import View
from scrapy_rq_sched.inspect.crawl import Crawl
from scrapy_rq_sched.inspect.crawls import Crawls
from tests.project.crawls.graph import page_url
from tests.support.crawl import Fleet, wait_until
from tests.support.proxy import Proxy

from .standstill import Watch

Value = TypeVar("Value")

#: What Redis has answered is on its disk: whatever is lost then, the package has lost.
DURABLE = ["--appendonly", "yes", "--appendfsync", "always"]
#: Scrapy's default of CONCURRENT_REQUESTS.
CONCURRENCY = 16


def unreleased(concurrency: int) -> int:
    """Return how many requests a killed worker may have begun and not released."""
    return concurrency + concurrency // 4 + 2 * concurrency


UNRELEASED = unreleased(CONCURRENCY)
#: Seconds without an exchange after which a worker is dead, in the short form and in the long one.
LEASES = 2.0, 5.0
#: Leases that outlast a row of failed attempts, where nobody is to count as dead. Where each tenth reply is
#: lost, a new connection, which needs several, fails in one of three: ten seconds have been too short.
LONG_LEASE = {"FRONTIER_LEASE_TIMEOUT": 30}
#: Seconds for which a scenario waits for something to happen.
PATIENCE = 25.0
#: The settings that say how long something takes or lasts.
CLOCKS = ("DOWNLOAD_DELAY", "FRONTIER_LEASE_TIMEOUT", "GRAPH_LATENCY")
#: How many workers may be starting at a time: more would keep those at work from the processors.
STARTING = 2
#: How many workers crawl once more when a scenario is over.
WORKERS_AGAIN = 2


def end(server: PrivateRedis) -> None:
    """Kill *server*: asked to stop, it may refuse, as it does while it writes its first data to disk."""
    if server.process is not None:
        server.process.kill()
    server.stop()


def _goes_on(fleet: Fleet, parsed: int) -> bool:
    ended = all(worker.poll() is not None for worker in fleet.workers)
    return ended or len(fleet.events("parsed")) > parsed


class OverdueError(AssertionError):
    """Something has not happened in time, or has taken too long."""


class Arena:
    """Everything that a scenario plays with; all of it is gone when it is over.

    :param folder: where logs, the record and Redis's data are.
    :param seed: of all that is random.
    :param long: whether to play the long form.
    :param pace: how many times as long everything lasts: the crawl goes slowly where the machine does.
    """

    def __init__(self, folder: Path, seed: int, long: bool, pace: int = 1) -> None:
        self.folder = folder
        self.seed = seed
        self.long = long
        self.pace = pace
        self.random = random.Random(seed)
        self.pages: set[str] = set()
        #: Seconds between two requests to a host, where that is what is looked at; else 0.
        self.delay = 0.0
        #: The environment variables of each worker.
        self.environment: dict[str, str] = {}
        self._settings: dict[str, object] = {}
        self._parsed: set[str] = set()
        self._parses = 0
        self._password = secrets.token_urlsafe()
        self._stack = ExitStack()

    def __enter__(self) -> Arena:
        with self._stack:
            self.redis = self.another_redis()
            self.proxy = self._stack.enter_context(Proxy(self.redis.url, seed=self.seed))
            self.client = self.client_of(self.redis)
            self.fleet = Fleet(self.folder, self.proxy.url)
            self._stack.callback(self.fleet.stop)
            workers = self.fleet.workers
            self._watch = self._stack.enter_context(Watch(lambda: [worker.pid for worker in workers]))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def enter(self, context: AbstractContextManager[Value]) -> Value:
        """Enter *context*, which is left when the scenario and the crawl after it are over."""
        return self._stack.enter_context(context)

    # -- servers -------------------------------------------------------------------------------

    def another_redis(self, *options: str) -> PrivateRedis:
        """Start a further server, with its own data."""
        folder = self.folder / f"redis-{len(list(self.folder.glob('redis-*')))}"
        folder.mkdir()
        # One password for all: each may take another's place.
        server = PrivateRedis(folder, [*DURABLE, *options], port=0, password=self._password).start()
        self._stack.callback(end, server)
        return server

    def another_proxy(self, server: PrivateRedis, milliseconds: float) -> Proxy:
        """Start a further proxy."""
        return self._stack.enter_context(Proxy(server.url, milliseconds, self.seed))

    def client_of(self, server: PrivateRedis) -> redis.Redis:
        """Return a client that goes to *server* straight, and not through the proxy."""
        client = redis.Redis.from_url(server.url)
        self._stack.callback(client.close)
        return client

    # -- the crawl -----------------------------------------------------------------------------

    def choose(self, short: Value, long: Value) -> Value:
        """Return the one or the other, by the form that is played."""
        return long if self.long else short

    @property
    def without_deaths(self) -> dict[str, int]:
        """The settings of a crawl in which nobody dies.

        The short form is played on machines that may keep a worker waiting for longer than its short lease.
        """
        return self.choose(LONG_LEASE, {})

    def crawl(
        self,
        spider: str = "graph",
        *arguments: str,
        workers: int = 2,
        pages: int = 0,
        urls: Callable[[int], str] = page_url,
        **settings: object,
    ) -> None:
        """Start the crawl of a site of so many *pages*, and wait until every worker is at it.

        :param urls: returns the address of the page with this number.
        """
        pages = pages or self.choose(400, 3000)
        self.pages = {urls(number) for number in range(pages)}
        self._spider, self._arguments = spider, arguments
        defaults = {
            "GRAPH_PAGES": pages,
            "GRAPH_LATENCY": self.choose(0.04, 0.1),
            "FRONTIER_LEASE_TIMEOUT": self.choose(*LEASES),
        }
        self._settings = self._slowed({**defaults, **settings})
        self.delay = float(str(self._settings.get("DOWNLOAD_DELAY", 0)))
        if workers:
            self.join(workers)
            self.all_opened()

    def join(
        self, count: int = 1, environment: Mapping[str, str] | None = None, **settings: object
    ) -> list[int]:
        """Start *count* more workers of the same crawl; return their numbers."""
        first = len(self.fleet.workers)
        environment = {"WATCH_LOOP": "1", **self.environment, **(environment or {})}
        settings = {**self._settings, **self._slowed(settings)}
        self.fleet.start(self._spider, count, *self._arguments, environment=environment, **settings)
        return list(range(first, first + count))

    def _slowed(self, settings: Mapping[str, object]) -> dict[str, object]:
        times = {name: self.pace * float(str(settings[name])) for name in CLOCKS if name in settings}
        return {**settings, **times}

    def all_opened(self) -> None:
        """Wait until every worker that lives is at the crawl."""
        self.wait(lambda: set(self.alive()) <= set(self.opened()), "not every worker opened")

    @property
    def settings(self) -> dict[str, object]:
        """What the crawl's workers are given."""
        return self._settings

    @property
    def lease(self) -> float:
        """Seconds after which a silent worker counts as dead."""
        return float(str(self._settings["FRONTIER_LEASE_TIMEOUT"]))

    def alive(self) -> list[int]:
        """Return the workers whose process runs."""
        return [number for number, worker in enumerate(self.fleet.workers) if worker.poll() is None]

    def may_join(self) -> bool:
        """Return whether a further worker may be started."""
        return len(set(self.alive()) - set(self.opened())) < STARTING

    def opened(self) -> list[int]:
        """Return the workers that are, or were, at the crawl."""
        pids = {event.pid for event in self.fleet.events("opened")}
        return [number for number, worker in enumerate(self.fleet.workers) if worker.pid in pids]

    def busy(self) -> list[int]:
        """Return the workers that are at the crawl."""
        closed = {event.pid for event in self.fleet.events("closed")}
        alive = set(self.opened()) & set(self.alive())
        return sorted(number for number in alive if self.fleet.workers[number].pid not in closed)

    @property
    def share(self) -> float:
        """How much of the site has been parsed, from 0 to 1."""
        events = self.fleet.events("parsed")
        self._parsed.update(event.what for event in events[self._parses :])
        self._parses = len(events)
        return len(self._parsed & self.pages) / max(1, len(self.pages))

    def reach(self, share: float) -> None:
        """Wait until so much of the site has been parsed."""
        # In the long form a delay may be what a crawl waits for.
        patience = PATIENCE + self.choose(0, 60)
        self.wait(lambda: self.share >= share, f"not {share:.0%} of the pages", patience)

    def wait(self, condition: Callable[[], object], message: str, timeout: float = PATIENCE) -> None:
        """Wait for *condition*."""
        try:
            wait_until(condition, self.pace * timeout, message)
        except AssertionError as error:
            raise OverdueError(f"{error}; {self.share:.0%} of the pages are parsed") from None

    def logged(self, text: str, workers: list[int]) -> int:
        """Return how often these workers have logged *text*."""
        return sum(self.fleet.log(number).count(text) for number in workers)

    def wait_for_more(self, text: str, workers: list[int], than: int) -> None:
        """Wait until these workers have logged *text* more often *than* so many times."""
        self.wait(lambda: self.logged(text, workers) > than, f"no further log line {text!r}")

    def wait_for_log(self, text: str, workers: list[int] | None = None) -> None:
        """Wait until each of *workers*, by default each that lives, has logged *text*."""
        chosen = self.alive() if workers is None else workers
        self.wait(lambda: all(text in self.fleet.log(number) for number in chosen), f"no log line {text!r}")

    def moments(self, until: float, shortest: float, longest: float) -> Iterator[int]:
        """Yield 1, 2, … at random moments, until the *until*-th part of the site is parsed."""
        deadline = time.monotonic() + self.pace * (PATIENCE + self.choose(0, 600))
        count = 0
        while self.share < until and self.busy() and time.monotonic() < deadline:
            count += 1
            yield count
            time.sleep(self.pace * self.random.uniform(shortest, longest))

    def kill_some(self, wanted: int, until: float, shortest: float, longest: float) -> int:
        """Kill so many workers at random :meth:`moments`, each after its successor was started.

        :return: how many were killed.
        """
        kills = 0
        for _ in self.moments(until, shortest, longest):
            # Nobody is killed while it is the only one: who is started after the finish begins a new crawl.
            if kills < wanted and len(self.busy()) > 1 and self.may_join():
                self.join()
                self.fleet.kill(self.random.choice(self.busy()))
                kills += 1
        return kills

    @contextmanager
    def lasting(self, seconds: float) -> Iterator[None]:
        """Do what is in the block, and be through with it not before *seconds* have passed."""
        end = time.monotonic() + self.pace * seconds
        yield
        time.sleep(max(0.0, end - time.monotonic()))

    def settle(self) -> None:
        """Wait until all workers have ended, or one has not within :attr:`limit` of the last page."""
        begun = time.time()
        while self.alive() and time.time() < max([begun, *self._last_parse()]) + self.limit:
            time.sleep(0.02)

    def crawl_again(self) -> Fleet:
        """Crawl the same site once more, when all that expires has; return the workers, which have ended."""
        self.fleet.stop()
        folder = self.folder / "again"
        folder.mkdir()
        # Through the proxy, which knows which server it is by now.
        with redis.Redis.from_url(self.proxy.url) as client:
            died = time.monotonic() + self.lease
            while client.exists(f"{self._spider}:workers") and time.monotonic() < died:
                time.sleep(0.02)
            for key in client.scan_iter():
                if client.ttl(key) >= 0:
                    client.delete(key)
        again = Fleet(folder, self.proxy.url)
        self._stack.callback(again.stop)
        settings = {**self._settings, "GRAPH_LATENCY": 0}
        again.start(self._spider, WORKERS_AGAIN, *self._arguments, environment=self.environment, **settings)
        # As long as a page comes now and then, it goes on.
        with suppress(AssertionError):
            while any(worker.poll() is None for worker in again.workers):
                parsed = len(again.events("parsed"))
                wait_until(lambda: _goes_on(again, parsed), self.pace * PATIENCE)  # noqa: B023 - it is called at once
        again.stop()
        return again

    def history(self) -> list[Crawl]:
        """Return the crawls in the spider's history, the latest first; none if Redis does not answer."""
        if not self._settings:
            return []
        settings = {**self._settings, "REDIS_URL": self.proxy.url}
        try:
            crawls = Crawls(View.from_settings(Settings(settings), self._spider))
            return list(crawls.read(crawls.numbers()))
        except (redis.RedisError, FrontierError):
            return []

    @property
    def clock(self) -> float:
        """The seconds in which a worker has to act: to begin a request, or to make an exchange."""
        return self.delay or (self.lease if self._settings else 0.0)

    @property
    def standstill(self) -> float:
        """The most of those seconds for which the machine kept one worker from a processor."""
        return self._watch.longest(self.clock)

    @property
    def limit(self) -> float:
        """Seconds after the last page within which every worker has to have ended."""
        return 3 * self.lease + 10 * self.pace

    def _last_parse(self) -> list[float]:
        return [event.time for event in self.fleet.events("parsed")[-1:]]
