"""Read all that metrics are made of, once a second at most, whoever asks."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, ParamSpec, TypeVar

from .. import connection
from ..errors import FrontierError
from ..inspect import Status, View, read_status
from ..inspect.finding import if_permitted
from .fleet_stats import read_stats
from .labels import label
from .largest_slots import LargestSlots, SlotCounts

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds for which a snapshot is good.
FRESH = 1.0
#: Seconds between two searches for frontiers, at the least; and so many times what a search takes, which
#: goes through all keys of Redis.
SEARCHED_EVERY, SEARCH_SHARE = 30.0, 200


class Memory(NamedTuple):
    """How many bytes a server uses, and how many it may; 0: any number."""

    used: int
    most: int


@dataclass(frozen=True)
class Reading:
    """What is known of one spider.

    :param spider: the label: its name, or what its keys begin with if another frontier has the same name.
    :param slots: the largest; None if its requests wait without slots.
    :param stats: its statistics in Redis.
    """

    spider: str
    status: Status
    slots: SlotCounts | None = None
    stats: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """What is known of all spiders.

    :param up: whether Redis has answered, by its address.
    :param memory: by the address of the server.
    :param seconds: what it took to read it.
    """

    readings: list[Reading]
    up: dict[str, bool]
    memory: dict[str, Memory]
    seconds: float = 0.0


class Snapshots:
    """Takes snapshots.

    :param find: returns the frontiers. It is asked again now and then.
    :param server: a client of the Redis that is asked for them.
    :param say: is told in one line when Redis is away, and when it is back.
    :param are_named: whether the spiders were named, so that one without a frontier is one, too.
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
        self._slots: dict[str, LargestSlots] = {}
        self._away: set[str] = set()
        self._refused: set[str] = set()
        self._one_at_a_time = threading.Lock()
        self._latest: Snapshot | None = None
        self._fresh_until = 0.0

    def latest(self) -> Snapshot:
        """Return a snapshot that is at most a second old. Those who ask meanwhile wait for the same."""
        with self._one_at_a_time:
            if self._latest is None or time.monotonic() > self._fresh_until:
                self._latest = self.take()
                # From its end: if Redis does not answer, those who wait do not try it one after the other.
                self._fresh_until = time.monotonic() + FRESH
            return self._latest

    def take(self, all_slots: bool = False) -> Snapshot:
        """Return a new snapshot.

        :param all_slots: whether all slots are asked for, however many there are.
        :raises FrontierError: if the frontiers cannot be found for another reason than an outage, at first.
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
                continue  # else each spider would wait for it anew
            spider = view.spider if names[view.spider] == 1 else view.keys.prefix
            try:
                reading = _again(self._read, view, spider, all_slots)
                is_wanted = self._are_named or reading.status.state != "new" or reading.status.seeds
                if is_wanted:
                    memory.update(_again(_memory, view, memory))
                    readings.append(reading)
                else:  # until the next search
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
            return  # what is known is read, and that says which Redis is away
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
            # A queue of the user's own, or a key of another type: doctor tells.
            with suppress(FrontierError, connection.ResponseError):
                slots = self._slots.setdefault(_place(view), LargestSlots()).look(view, all_slots)
        return Reading(label(spider), status, slots, read_stats(view))

    def _note(self, up: dict[str, bool], server: Any, error: connection.RedisError | None = None) -> None:
        """Note whether *server* has answered, and say so if that is news."""
        address = connection.address(server)
        up[address] = error is None
        if error is None and address in self._away:
            self._away.remove(address)
            self._say(f"Redis at {address} answers again")
        elif error is not None and address not in self._away:
            self._away.add(address)
            self._say(
                f"{connection.describe_error(server, error)}. Until it answers scrapy_frontier_up is 0, and "
                "the metrics of its spiders are missing"
            )


def _again(ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what *ask* returns, at a second attempt if the connection was closed meanwhile."""
    try:
        return ask(*args, **kwargs)
    except connection.RedisConnectionError:
        return ask(*args, **kwargs)


def _place(view: View) -> str:
    return f"{connection.address(view.server)} {view.keys.prefix}"


def _memory(view: View, known: Iterable[str]) -> dict[str, Memory]:
    """Return the memory of the server that has *view*'s frontier, unless it is among the *known*."""
    server = connection.server_of(view.server, view.keys.requests)
    address = connection.address(server)
    info = None if address in known else if_permitted(lambda: server.info("memory"))
    return {address: Memory(info["used_memory"], info.get("maxmemory", 0))} if info else {}
