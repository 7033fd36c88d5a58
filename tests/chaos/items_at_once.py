"""Items of pages under every fault at once: each is in a file, or in a database, once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing

from tests.support.postgres import (
    PrivatePostgres,
    has_psycopg,
    server_programs,
    start_consumer,
    stream_consumer,
)

from .arena import UNRELEASED, Arena, OverdueError
from .deaths import MANY
from .items import check_titles, replace_worker, waiting
from .referee import Outcome
from .registry import scenario
from .server import LAG, Standby, begun_within, crawled_again
from .supervised import copied_project, running_workers, start_crawl

#: The share of the replies of Redis that is lost, from the first to the last.
LOST = 0.02
#: Seconds for which Redis is away, and for which it is full, in the short form and in the long one.
AWAY, FULL = (3.0, 30.0), (3.0, 60.0)
#: The share of the site up to which something is killed.
LAST_KILL = 0.9
#: Each how many kills the supervisor itself is killed, and each how many all its workers with it.
OF_SUPERVISOR, OF_POWER = 5, 10
#: What the command says if it cannot start: Redis is away, or a reply was lost.
NO_START = "scrapy frontier: Redis at "
#: Of ten kills, those of the consumer.
OF_CONSUMER = 3, 6, 9
#: Seconds without a further page after which nothing goes on: a worker may be started again after a minute.
STUCK = 90.0
TABLE = "pages"


class Faults:
    """What befalls Redis, each fault when a share of the site is parsed, and how often something is killed.

    :param kill: kills something, for the n-th time; it returns whether that was possible.
    :param keep_up: starts again what has ended by itself, as systemd does.
    :ivar kills: how often something was killed.
    """

    def __init__(
        self, arena: Arena, kill: Callable[[int], bool], keep_up: Callable[[], None] = lambda: None
    ) -> None:
        self._arena = arena
        self._kill, self._keep_up = kill, keep_up
        self._standby = Standby(arena)
        self._left = [
            (0.15, self._fail_over),
            (0.35, self._be_away),
            (0.50, self._be_full),
            (0.70, self._fail_over),
        ]
        self._failovers: list[float] = []
        self._full: list[tuple[float, float]] = []
        self._faults = len(self._left)
        self.kills = 0

    def play(self, most: int) -> None:
        """Make every fault, and kill *most* times, while the crawl goes on; wait for its end."""
        arena = self._arena
        arena.proxy.swallow(LOST)
        share, moved = 0.0, time.monotonic()
        while self._left or self.kills < most:
            if self._left and arena.share >= self._left[0][0]:
                self._left.pop(0)[1]()
            elif self.kills < most and arena.share >= LAST_KILL * self.kills / most:
                self._kill_once()
            time.sleep(arena.random.uniform(0.05, 0.3))
            self._keep_up()
            if arena.share > share:
                share, moved = arena.share, time.monotonic()
            if not arena.alive() or time.monotonic() > moved + STUCK * arena.pace:
                raise OverdueError(f"the crawl does not go on at {arena.share:.0%}, after {self.kills} kills")
        started = 0
        while len(arena.fleet.workers) > started:
            # The last start may have failed, too.
            started = len(arena.fleet.workers)
            arena.settle()
            self._keep_up()

    @property
    def made(self) -> int:
        """How many there were, and lost replies besides."""
        return self._faults + self.kills

    @property
    def repeated(self) -> int:
        """How many pages may be crawled again, besides those that a killed worker explains by itself.

        What is crawled while Redis is full is released when it has room again: until then, each death
        repeats what its worker has crawled meanwhile, and a failover soon after that repeats all of it.
        """
        return crawled_again(self._arena, LAG, self._failovers) + begun_within(self._arena, self._full)

    def _kill_once(self) -> None:
        self.kills += self._kill(self.kills + 1)

    def _fail_over(self) -> None:
        self._failovers.append(self._standby.fail_over())

    def _be_away(self) -> None:
        proxy = self._arena.proxy
        proxy.refuse()
        proxy.cut()
        with self._arena.lasting(self._arena.choose(*AWAY)):
            self._kill_once()
        proxy.go()

    def _be_full(self) -> None:
        client = self._arena.client_of(self._standby.master)
        client.config_set("maxmemory", 1)
        begun = time.time()
        with self._arena.lasting(self._arena.choose(*FULL)):
            self._kill_once()
        client.config_set("maxmemory", 0)
        self._full.append((begun - 1, time.time() + 1))


def _form(arena: Arena) -> tuple[int, int]:
    """Return how many pages there are, and how many kills: by default of the short form and the long one."""
    chosen = os.environ.get("ITEMS_AT_ONCE")
    if chosen:
        pages, kills = map(int, chosen.split(","))
        return pages, kills
    return arena.choose((500, 10), (20_000, 100))


def _settings(arena: Arena) -> dict[str, object]:
    return {"GRAPH_LATENCY": 0.5, "FRONTIER_LEASE_TIMEOUT": 6, **MANY}


def _file(name: str, about: str, **settings: object) -> None:
    @scenario(
        name,
        f"{about} Workers are killed at random moments, each {OF_SUPERVISOR}th time the command itself, "
        f"which is started again, and each {OF_POWER}th time all its workers with it. Redis is replaced "
        "by its replica, 0.3 s behind, twice, is away, and is full; replies are lost all the time. Each item "
        "is in the file once, and each line is complete. Each killed worker explains "
        f"{UNRELEASED} repeated pages.",
    )
    def file(arena: Arena) -> Outcome:
        pages, most = _form(arena)
        arena.crawl("sheaf", workers=0, pages=pages, **{**_settings(arena), **settings})
        items = copied_project(arena) / "items.jsonl"
        dead = 0
        refused: set[int] = set()

        def keep_up() -> None:
            number = len(arena.fleet.workers) - 1
            if arena.fleet.workers[number].poll() == 1 and NO_START in arena.fleet.log(number):
                refused.add(number)
                start_crawl(arena, "sheaf", items)

        def kill(number: int) -> bool:
            nonlocal dead
            workers = running_workers(arena)
            if not workers:
                return False
            if number % OF_SUPERVISOR:
                workers = [arena.random.choice(workers)]
            else:
                arena.fleet.workers[-1].kill()
                arena.fleet.workers[-1].wait()
                workers = [] if number % OF_POWER else running_workers(arena)
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            if not number % OF_SUPERVISOR:
                start_crawl(arena, "sheaf", items)
            dead += len(workers)
            return True

        faults = Faults(arena, kill, keep_up)
        start_crawl(arena, "sheaf", items)
        faults.play(most)
        check_titles(Counter(json.loads(line)["title"] for line in items.read_text().splitlines()), pages)
        assert not items.with_name("items.jsonl.progress").exists(), "the file does not count as complete"
        return Outcome(faults.made, dead * UNRELEASED + faults.repeated, refused=refused)


_file("items-all", "`scrapy frontier crawl -o items.jsonl` under every fault.")
_file("items-all-replicated", "The same with FRONTIER_WAIT_REPLICAS=1.", FRONTIER_WAIT_REPLICAS=1)


class RecipeConsumer:
    """The consumer of the recipe for streams, which is killed and started again.

    It stores the items in PostgreSQL if this machine has a server, else in SQLite. Where psycopg is not
    installed, ``psql`` does what the consumer asks of it.
    """

    def __init__(self, arena: Arena) -> None:
        programs = server_programs()
        self._postgres = arena.enter(PrivatePostgres(programs)) if programs is not None else None
        self._path = arena.folder / "pages.db"
        self._log = arena.folder / "consumer.log"
        self._program = arena.folder / "consume.py"
        self._program.write_text(stream_consumer(uses_postgres=self._postgres is not None))
        self._environment = {"REDIS_URL": arena.proxy.url, "DATABASE": str(self._path)}
        if self._postgres is not None:
            self._environment.update(self._postgres.environment(has_psycopg()))
        self._arena = arena
        self._start()

    def _start(self) -> None:
        self._process = start_consumer(self._program, "sheaf", self._environment, self._log)

    def kill(self) -> None:
        """Kill it, and start it again."""
        assert self._process.poll() is None, f"the consumer has ended: {self._log.read_text()[-500:]}"
        self._process.kill()
        self._process.wait()
        self._start()

    def end(self, is_done: Callable[[], object]) -> Counter[str]:
        """Wait until it has stored everything, and end it; return how often the database has each item."""
        self._arena.wait(is_done, f"not everything is stored: {self._log.read_text()[-500:]}", 60)
        self._process.kill()
        self._process.wait()
        query = f"SELECT title FROM {TABLE}"
        if self._postgres is not None:
            return self._postgres.column(query)
        with closing(sqlite3.connect(self._path, timeout=30)) as database:
            return Counter(title for (title,) in database.execute(query))


@scenario(
    "items-database",
    "The consumer of the recipe stores the stream's items in PostgreSQL, or in SQLite if this machine has no "
    "server. Workers are killed at random moments, and three of ten times the consumer. Redis is replaced by "
    "its replica, 0.3 s behind, twice, is away, and is full; replies are lost all the time. Each item is in "
    f"the database once. Each killed worker explains {UNRELEASED} repeated pages.",
)
def items_database(arena: Arena) -> Outcome:
    pages, most = _form(arena)
    consumer = RecipeConsumer(arena)
    dead = 0

    def kill(number: int) -> bool:
        nonlocal dead
        if number % 10 in OF_CONSUMER:
            consumer.kill()
            return True
        was_possible = replace_worker(arena)
        dead += was_possible
        return was_possible

    faults = Faults(arena, kill)
    # The outage is as long as a worker that joins is patient by default.
    settings = {"FRONTIER_ITEMS": "stream", "FRONTIER_JOIN_TIMEOUT": 120, **_settings(arena)}
    arena.crawl("sheaf", workers=3, pages=pages, **settings)
    faults.play(most)
    arena.proxy.swallow(0)
    check_titles(consumer.end(lambda: not waiting(arena)), pages)
    return Outcome(faults.made, dead * UNRELEASED + faults.repeated)
