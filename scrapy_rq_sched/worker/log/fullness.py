"""The log messages while there is no room for more requests or items."""

from __future__ import annotations

import logging
import time

from ...frontier.client import Frontier
from ...frontier.messages import FEED_MOST
from ...frontier.replies import Reply
from ...servers.topology import address
from ..state import State

logger = logging.getLogger(__name__)

#: Seconds for which Redis must have had room before this is logged.
ROOM_FOR = 2.0


class Fullness:
    """Log when Redis is out of memory and when it has room again; log once that too many requests wait."""

    def __init__(self, frontier: Frontier, state: State, outbox_size: int) -> None:
        self._frontier = frontier
        self._state = state
        self._outbox_size = outbox_size
        self._out_of_memory_since: float | None = None
        self._last_out_of_memory = 0.0
        self._logged: set[str] = set()

    def note(self, reply: Reply) -> None:
        """Log changes of the room that *reply* reports."""
        if "memory" in (reply.full, reply.no_items):
            self._no_memory()
        else:
            self._has_room_again()
        if reply.no_items == "bound":
            self._once(
                logging.WARNING,
                "The items have reached FRONTIER_MAX_ITEMS (%d): until a consumer takes some from %s, this "
                "worker keeps its items and their pages, and soon begins no more",
                *(self._frontier.config.max_items, self._frontier.keys.items),
            )
        elif reply.no_items == "feed":
            self._once(
                logging.WARNING,
                "%d items wait for scrapy frontier crawl to write them to its file: until it has written "
                "some, this worker keeps its items and their pages, and soon begins no more",
                FEED_MOST,
            )
        most = self._frontier.config.max_waiting
        if reply.full == "bound":
            self._once(
                logging.INFO,
                "The queue has reached FRONTIER_MAX_WAITING (%d): until it has room, this worker pauses "
                "start() and seeds, and keeps new requests in its outbox",
                most,
            )
        elif reply.full == "exceeded" and reply.stored:
            self._once(
                logging.WARNING,
                "The queue exceeds FRONTIER_MAX_WAITING (%d): pages link to more requests than are crawled, "
                "and without storing more, this worker could not continue. To keep to the limit, set "
                "FRONTIER_MAX_WAITING_POLICY to 'drop-lowest'",
                most,
            )

    def _no_memory(self) -> None:
        self._last_out_of_memory = time.monotonic()
        if self._out_of_memory_since is None:
            self._out_of_memory_since = self._last_out_of_memory
            logger.warning(
                "Redis at %s is out of memory (maxmemory). Nothing is lost: this worker keeps new requests "
                "in its outbox (%d now; at %d it begins no more pages) and its items, and pauses start() and "
                "seeds. Finished requests make room. Give Redis more memory, or limit the queue with "
                "FRONTIER_MAX_WAITING",
                *(address(self._frontier.server), len(self._state.outbox), self._outbox_size),
            )

    def _has_room_again(self) -> None:
        now = time.monotonic()
        if self._out_of_memory_since is not None and now - self._last_out_of_memory > ROOM_FOR:
            logger.warning("Redis has room again after %.0f s", now - self._out_of_memory_since)
            self._out_of_memory_since = None

    def _once(self, level: int, message: str, *args: object) -> None:
        if message not in self._logged:
            self._logged.add(message)
            logger.log(level, message, *args)
