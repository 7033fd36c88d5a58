"""Look at the frontier in Redis, from outside: nothing here takes part in the crawl."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scrapy_rq_sched.connection import RedisError, get_redis, needs_hash_tag, no_retry
from scrapy_rq_sched.keys import Keys


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
    """Reads the keys of one spider's frontier."""

    def __init__(self, url: str, spider: str) -> None:
        # A view that waits for Redis is a view that stands still: rather no answer than a late one.
        self._client = get_redis(
            url=url,
            decode_responses=True,
            socket_timeout=0.5,
            socket_connect_timeout=0.5,
            retry=no_retry(),
        )
        self._keys = Keys(spider, hash_tag=needs_hash_tag(self._client))
        #: A worker that is dead is no longer listed, but may still have leases.
        self._workers: set[str] = set()

    def read(self, pids: Iterable[int]) -> Sample | None:
        """Return how the frontier stands, or None if Redis does not say.

        :param pids: the processes whose requests in hand are counted.
        """
        try:
            return self._read(set(pids))
        except RedisError:
            return None

    def _read(self, pids: set[int]) -> Sample:
        self._workers.update(map(str, self._client.zrange(f"{self._keys.prefix}:workers", 0, -1)))
        held = {worker: pid for worker in self._workers if (pid := process_of(worker)) in pids}
        # MULTI: the counts are of one moment, and a request on its way between two of the keys is
        # counted once.
        pipe = self._client.pipeline(transaction=True)
        pipe.zcard(self._keys.requests)
        pipe.scard(self._keys.dupefilter)
        pipe.llen(f"{self._keys.prefix}:failed")
        for worker in held:
            pipe.hlen(f"{self._keys.prefix}:leases:{worker}")
        waiting, seen, set_aside, *counts = pipe.execute()
        in_hand = dict.fromkeys(pids, 0)
        for pid, count in zip(held.values(), counts, strict=True):
            in_hand[pid] += count
        return Sample(waiting, seen, set_aside, in_hand)

    def remove(self) -> None:
        """Remove every key of this spider's frontier."""
        keys = list(self._client.scan_iter(f"{self._keys.prefix}:*", count=1000))
        if keys:
            self._client.delete(*keys)


def process_of(worker: str) -> int:
    """Return the process id in a worker's name, or -1 if there is none.

    The name is ``<host>-<process id>-<random>``, and a host's name may have hyphens too.
    """
    parts = worker.rsplit("-", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else -1
