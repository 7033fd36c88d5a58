"""Read the data of all metrics, at most once a second for all clients together."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, ParamSpec, TypeVar

from .. import connection
from ..codec.values import text_of
from ..collect.stat_values import decode, is_number
from ..errors import FrontierError
from ..inspect import Status, View, read_status
from ..inspect.finding import if_permitted
from ..inspect.largest_slots import LargestSlots
from .labels import LONGEST, OTHER, is_url, label

#: Statistics that are exported, and that are read at most: spiders may create any number of them.
MOST_STATS, STATS_READ = 500, 2000

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds for which a snapshot is used again.
FRESH = 1.0
#: Seconds between two searches for frontiers, at least; and the pause as a multiple of the time that a
#: search takes, because it goes through all keys of Redis.
SEARCHED_EVERY, SEARCH_SHARE = 30.0, 200


class Memory(NamedTuple):
    """The bytes that a server uses, and its limit; 0: no limit."""

    used: int
    most: int


class SlotCounts(NamedTuple):
    """Waiting requests and remaining seconds of blocks, by the name of the slot.

    :param waiting: waiting requests of the 50 slots with the most.
    :param blocked: seconds of the same slots, and under ``other`` the longest of all other slots.
    """

    waiting: dict[str, int]
    blocked: dict[str, float]


class _Slots:
    """The slots of one frontier that have a label: the largest ones, and the others together."""

    def __init__(self) -> None:
        # A slot that is itself called "other" counts as one of the others.
        self._largest = LargestSlots(lambda name: name != OTHER and not is_url(name))
        #: The latest end of a block among the other slots: in the last complete round, and in this round.
        self._blocked_before = self._blocked_now = 0.0

    def read(self, view: View, whole: bool) -> SlotCounts:
        look, now = self._largest.look(view, whole), time.monotonic()
        others = [now + left for name, left in look.blocks.items() if left and name not in look.waiting]
        self._blocked_now = max([self._blocked_now, *others])
        if look.is_last:
            self._blocked_before, self._blocked_now = self._blocked_now, 0.0
        longest = max(self._blocked_now, self._blocked_before, now) - now
        return SlotCounts(
            look.waiting, {name: look.blocks.get(name, 0.0) for name in look.waiting} | {OTHER: longest}
        )


@dataclass(frozen=True)
class Reading:
    """The data of one spider.

    :param spider: the label: the spider's name, or the prefix of its keys if two frontiers have this name.
    :param slots: the largest slots; None if its requests wait without slots.
    :param stats: its statistics in Redis.
    """

    spider: str
    status: Status
    slots: SlotCounts | None = None
    stats: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """The data of all spiders.

    :param up: whether Redis answered, by its address.
    :param memory: the memory of each server, by its address.
    :param seconds: the time that reading took.
    """

    readings: list[Reading]
    up: dict[str, bool]
    memory: dict[str, Memory]
    seconds: float = 0.0


class Snapshots:
    """Takes snapshots.

    :param find: returns the frontiers. It is called again from time to time.
    :param server: a client of the Redis in which *find* searches.
    :param say: is called with one line when Redis stops answering, and when it answers again.
    :param are_named: whether the user named the spiders. Then one without a frontier is included, too.
    """

    def __init__(
        self,
        find: Callable[[], list[View]],
        server: Any,
        say: Callable[[str], None],
        are_named: bool = False,
    ) -> None:
        self._find = find
        self._server = server
        self._say = say
        self._are_named = are_named
        self._views: list[View] = []
        self._search_at = 0.0
        self._slots: dict[str, _Slots] = {}
        self._away: set[str] = set()
        self._refused: set[str] = set()
        self._one_at_a_time = threading.Lock()
        self._latest: Snapshot | None = None
        self._fresh_until = 0.0

    def latest(self) -> Snapshot:
        """Return a snapshot that is at most a second old. Concurrent calls wait for the same one."""
        with self._one_at_a_time:
            if self._latest is None or time.monotonic() > self._fresh_until:
                self._latest = self.take()
                # Counted from its end: if Redis does not answer, waiting calls do not each try again.
                self._fresh_until = time.monotonic() + FRESH
            return self._latest

    def take(self, all_slots: bool = False) -> Snapshot:
        """Return a new snapshot.

        :param all_slots: whether to read all slots, however many there are.
        :raises FrontierError: if the first search for frontiers fails for a reason other than an outage.
        """
        begun = time.monotonic()
        up: dict[str, bool] = {}
        self._search(up)
        names = Counter(view.spider for view in self._views)
        readings: list[Reading] = []
        memory: dict[str, Memory] = {}
        for view in tuple(self._views):
            address = connection.address(view.server)
            if up.get(address) is False:
                continue  # do not wait for it again for each spider
            spider = view.spider if names[view.spider] == 1 else view.keys.prefix
            try:
                reading = _again(self._read, view, spider, all_slots)
                is_wanted = self._are_named or reading.status.state != "new" or reading.status.seeds
                if is_wanted:
                    memory.update(_again(_memory, view, memory))
                    readings.append(reading)
                else:  # the next search may find it again
                    self._views.remove(view)
            except connection.RedisError as error:
                self._note(up, view.server, error)
            else:
                self._note(up, view.server)
        if not up:
            self._ping(up)
        return Snapshot(readings, up, memory, time.monotonic() - begun)

    def _search(self, up: dict[str, bool]) -> None:
        begun = time.monotonic()
        if begun < self._search_at:
            return
        try:
            views = _again(self._find)
        except connection.RedisError as error:
            if not self._views:
                self._note(up, self._server, error)
            return  # reading the known frontiers shows which Redis is away
        except FrontierError as error:
            if self._latest is None:
                raise
            if str(error) not in self._refused:
                self._refused.add(str(error))
                self._say(str(error))
            return
        self._note(up, self._server)
        for server in {id(view.server): view.server for view in self._views}.values():
            connection.close(server)
        self._views = views
        known = {_place(view) for view in views}
        self._slots = {place: slots for place, slots in self._slots.items() if place in known}
        took = time.monotonic() - begun
        self._search_at = time.monotonic() + max(SEARCHED_EVERY, SEARCH_SHARE * took)

    def _ping(self, up: dict[str, bool]) -> None:
        try:
            _again(self._server.ping)
        except connection.RedisError as error:
            self._note(up, self._server, error)
        else:
            self._note(up, self._server)

    def _read(self, view: View, spider: str, all_slots: bool) -> Reading:
        status, slots = read_status(view), None
        if status.slots:
            # A queue class of the user's, or a key of a wrong type: `scrapy frontier doctor` reports it.
            with suppress(FrontierError, connection.ResponseError):
                slots = self._slots.setdefault(_place(view), _Slots()).read(view, all_slots)
        return Reading(label(spider), status, slots, _stats(view))

    def _note(self, up: dict[str, bool], server: Any, error: connection.RedisError | None = None) -> None:
        """Note whether *server* answered, and tell the user when this changes."""
        address = connection.address(server)
        up[address] = error is None
        if error is None and address in self._away:
            self._away.remove(address)
            self._say(f"Redis at {address} answers again")
        elif error is not None and address not in self._away:
            self._away.add(address)
            self._say(
                f"{connection.describe_error(server, error)}. Until it answers, scrapy_frontier_up is 0 and "
                "the metrics of its spiders are missing"
            )


def _again(ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call *ask*, and call it again if the connection had been closed meanwhile."""
    try:
        return ask(*args, **kwargs)
    except connection.RedisConnectionError:
        return ask(*args, **kwargs)


def _place(view: View) -> str:
    return f"{connection.address(view.server)} {view.keys.prefix}"


def _memory(view: View, known: Iterable[str]) -> dict[str, Memory]:
    """Return the memory of the server with *view*'s frontier, unless it is in *known*."""
    server = connection.server_of(view.server, view.keys.requests)
    address = connection.address(server)
    info = None if address in known else if_permitted(lambda: server.info("memory"))
    return {address: Memory(info["used_memory"], info.get("maxmemory", 0))} if info else {}


def _stats(view: View) -> dict[str, float]:
    """Return the numeric statistics that ``RedisStatsCollector`` adds up for *view*'s spider."""
    settings = view.settings
    key = connection.expand_key(view.server, settings.stats_key, view.spider, settings.job)
    server, cursor = connection.server_of(view.server, key), 0
    found: dict[str, float] = {}
    looked_at = 0
    while looked_at < STATS_READ:
        try:
            cursor, some = server.hscan(key, cursor, count=STATS_READ)
        except connection.ResponseError:  # not a hash, or this user may not read it
            return {}
        looked_at += len(some)
        for encoded, data in some.items():
            name, value = text_of(encoded), _finite(data)
            if value is not None and len(name) <= LONGEST and not is_url(name):
                found[name] = value
        if not cursor:
            break
    return {name: found[name] for name in sorted(found)[:MOST_STATS]}


def _finite(data: bytes) -> float | None:
    try:
        value = decode(data)
        number = float(value) if is_number(value) else math.nan
    except (OverflowError, ValueError):  # more digits than Python converts
        return None
    return number if math.isfinite(number) else None
