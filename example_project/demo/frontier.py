"""Look at the frontier in Redis, from outside: nothing here takes part in the crawl."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from scrapy.settings import Settings

from scrapy_rq_sched.connection import RedisError, get_redis, no_retry
from scrapy_rq_sched.inspect import View, read_status


@dataclass(frozen=True)
class Sample:
    """The frontier at one moment."""

    waiting: int = 0
    seen: int = 0
    set_aside: int = 0
    #: By process id: the requests that a worker holds, in progress or about to be.
    in_hand: dict[int, int] = field(default_factory=dict)

    @property
    def leased(self) -> int:
        return sum(self.in_hand.values())


class FrontierView:
    """Reads the frontier of one spider."""

    def __init__(self, url: str, spider: str) -> None:
        # A view that waits for Redis is a view that stands still: rather no answer than a late one.
        client = get_redis(url=url, socket_timeout=0.5, socket_connect_timeout=0.5, retry=no_retry())
        view = View.without_meta(Settings({"REDIS_URL": url}), spider)
        view.server.close()
        self._view = replace(view, server=client)

    def read(self, pids: Iterable[int]) -> Sample | None:
        """Return how the frontier stands, or None if Redis does not answer.

        :param pids: the processes whose requests in hand are counted. A worker that is dead counts until
            its requests are back in the queue.
        """
        try:
            status = read_status(self._view.as_it_is_now())
        except RedisError:
            return None
        in_hand = dict.fromkeys(pids, 0)
        for worker in status.workers:
            if worker.pid in in_hand:
                in_hand[worker.pid] += worker.in_hand
        return Sample(status.waiting, status.seen, status.failed, in_hand)

    def remove(self) -> None:
        """Remove every key of this spider's frontier."""
        server = self._view.server
        keys = list(server.scan_iter(f"{self._view.keys.prefix}:*", count=1000))
        if keys:
            server.delete(*keys)
