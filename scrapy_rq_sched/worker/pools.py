"""The items of pools (``FRONTIER_POOLS``) that this worker has: for a request in flight, or for its life."""

from __future__ import annotations

import json
import logging
import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from scrapy import Request

from ..codec.names import quoted
from ..codec.pools import (
    ERROR,
    GIVEN,
    POOL,
    POOL_ITEM,
    RETRY_AFTER,
    Pool,
    PoolItem,
    lane_of,
    pool_of,
    quoted_pool,
)
from ..codec.retry_after import retry_after
from ..errors import SettingError, one_line
from ..frontier.messages import Batch
from ..frontier.replies import Lease, Part, Reply
from .gifts import Gifts, jar_of
from .item_report import ItemReport
from .ready import Block, Cause

logger = logging.getLogger(__name__)

#: Seconds that an item rests if its site is to say for how long, and does not.
REST = 60.0
#: How many rests of items a worker logs.
MOST_LINES = 100
#: For how many seconds a worker has leases, if an item that it has for its life has a delay.
AHEAD = 2.0


class Jars(Protocol):
    """The cookies of this worker, by the key in ``meta["cookiejar"]``."""

    def load(self, key: str, cookies: str) -> None:
        """Replace the cookies at *key* by those in the JSON text *cookies*."""

    def dump(self, key: str) -> str:
        """Return the cookies at *key* as JSON text."""


class NoJars:
    """There are no cookies: ``COOKIES_ENABLED`` is false."""

    def load(self, key: str, cookies: str) -> None:
        """Do nothing."""

    def dump(self, key: str) -> str:
        """Return no cookies."""
        return ""


@dataclass(slots=True)
class _Contents:
    value: Any = None
    cookies: str = ""


class Pools(Part):
    """Gives requests their items, and tells the frontier what becomes of the items.

    :ivar are_kept: whether the queue keeps requests apart. A queue of the user's own does not.
    :ivar stats: Scrapy's statistics collector.
    :ivar command: the command line that shows and changes pools.
    :ivar closing: whether the spider closes, so that it needs no more items.
    :ivar own: the items that this worker has for its life, by pool; if it has none now, those that it had.
    """

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._pools = {pool.name: pool for pool in pools}
        self._for_worker = [pool.name for pool in self._pools.values() if pool.is_for_worker]
        self.own: dict[str, PoolItem] = {}
        self.are_kept = True
        self.stats: Any = None
        self._gifts = Gifts(self._pools)
        self._jars: Jars = NoJars()
        self.closing = False
        self.command = "scrapy frontier pool"
        self._contents: dict[tuple[str, str], _Contents] = {}
        # The items of the requests that the engine has, and how many requests have each.
        self._held: dict[Request, list[PoolItem]] = {}
        self._users: Counter[tuple[str, str]] = Counter()
        self._leases: dict[Request, str] = {}
        self._reports: dict[tuple[str, str], ItemReport] = {}
        self._is_urgent = False
        # From when on the next request of an item may be sent, by the monotonic clock, as far as this worker
        # knows.
        self._next: dict[tuple[str, str], float] = {}
        self._warned: set[str] = set()
        self._rests = 0
        # Until when an item that this worker has had for its life begins no request, by the monotonic clock.
        self._bad_until: dict[tuple[str, str], float] = {}
        # The items of requests that were sent without the scheduler.
        self._outside: WeakKeyDictionary[Request, list[PoolItem]] = WeakKeyDictionary()
        # Whether this worker lacks an item that it needs for its life.
        self._lacks_item = False
        # When this worker last had a request, by the monotonic clock.
        self._last_held = time.monotonic()

    def __bool__(self) -> bool:
        return bool(self._pools)

    @property
    def are_for_worker(self) -> bool:
        """Whether this worker has an item of any pool for its life."""
        return bool(self._for_worker)

    @property
    def holds_back(self) -> bool:
        """Whether this worker lacks an item for its life, so that it begins no request."""
        return self._lacks_item

    @property
    def jars(self) -> Jars:
        """The cookies of this worker."""
        return self._jars

    @jars.setter
    def jars(self, jars: Jars) -> None:
        self._jars, self._gifts.keeps_cookies = jars, True

    @property
    def most(self) -> float:
        """How many leases to have at most: what this worker can begin soon with its own items."""
        rates = (1 / item.delay for item in self.own.values() if item.delay)
        return min((2 + int(AHEAD * rate) for rate in rates), default=math.inf)

    # -- requests that are found -----------------------------------------------------------------

    def lane(self, request: Request, lane: str) -> str:
        """Return the lane of *request*, which is in *lane* because of its needs.

        :raises ValueError: if the settings do not have its pool.
        """
        name = request.meta.get(POOL)
        if name is None:
            return lane
        if not self._pools:
            self._warn(
                'meta["pool"] of %s is ignored, because FRONTIER_POOLS has no pools. If this field has '
                "nothing to do with pools, that is all right",
                one_line(request),
            )
            return lane
        if not isinstance(name, str) or name not in self._pools or name in self._for_worker:
            known = ", ".join(repr(pool) for pool in self._pools if pool not in self._for_worker)
            raise ValueError(
                'meta["pool"] must be one of the pools in FRONTIER_POOLS whose items are for requests '
                f"({known or 'none'}), not {name!r}"
            )
        if not self.are_kept:
            self._warn(
                'meta["pool"] is ignored: SCHEDULER_QUEUE_CLASS has its own push or pop, so requests begin '
                "without an item"
            )
            return lane
        return lane_of(lane, name)

    def forget_given(self, request: Request) -> None:
        """Remove from *request* what the request that it was copied from was given with its item."""
        if self._gifts.take_back(request):
            self._warn(
                'meta["pool_item"] of %s is ignored: a request is given any item of its pool when it begins. '
                "For several requests with one item, send the later ones in the callback, with "
                "crawler.engine.download_async()",
                one_line(request),
            )

    def cannot_have_item(self, request: Request) -> bool:
        """Return whether *request*, which is only in this worker's memory, needs an item."""
        name = request.meta.get(POOL)
        return self.are_kept and isinstance(name, str) and name in self._pools

    def refuse(self, request: Request, problem: str) -> None:
        """Log and count that *request* is dropped, because it cannot have an item."""
        self.stats.inc_value("frontier/pool_refused")
        logger.error("%s is dropped: %s", one_line(request), problem)

    def _warn(self, text: str, *arguments: object) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.warning(text, *arguments)

    # -- requests that begin, and end ------------------------------------------------------------

    def lacks_item(self, request: Request, lease: Lease) -> bool:
        """Return whether *request* came without the item that it needs, or needs one of an unknown pool.

        Another program or version may have queued it.
        """
        return self.are_kept and bool(self._pools) and not lease.item and request.meta.get(POOL) is not None

    def begins(self, request: Request, lease: Lease | None) -> None:
        """Give *request*, which is about to be crawled, its item, and what this worker's own items are for.

        :raises ValueError: if an item lacks what its pool's settings need.
        """
        if not self._pools:
            return
        mine = list(self.own.values())
        if lease is not None and lease.item:
            name = pool_of(lease.lane)
            contents = self._contents.get((name, lease.item), _Contents())
            item = self._make(name, lease.item, contents)
            mine.insert(0, item)
            self._leases[request] = lease.name
        if not mine:
            return
        self._hold(request, mine)
        self._gifts.give(request, mine)

    def give(self, request: Request) -> None:
        """Give *request*, which is about to be sent, what its item is for, unless it is the scheduler's.

        It is sent without the scheduler: by code of the spider, with an item in its ``meta``; or by Scrapy,
        as for a robots.txt, with this worker's own items.
        """
        if not self._pools or request in self._held:
            return
        item = request.meta.get(POOL_ITEM)
        items = _one_of_each((item, *self.own.values()))
        if GIVEN in request.meta:
            # It is a redirect of such a request, perhaps to another host, or has a copy of a page's meta.
            self._gifts.take_back(request)
            if isinstance(item, PoolItem):
                request.meta[POOL_ITEM] = item
        if items:
            self._gifts.give(request, items)
            self._outside[request] = items

    def _make(self, pool: str, name: str, contents: _Contents) -> PoolItem:
        made = PoolItem.make(pool, name, contents.value, self._rest, self._retire)
        with suppress(SettingError):  # another program has changed them
            made.delay, made.concurrency = self._pool_of(made).limits_of(contents.value)
        return made

    def _pool_of(self, item: PoolItem) -> Pool:
        """Return the pool of *item*, also if the settings no longer have it."""
        return self._pools.get(item.pool) or Pool(item.pool)

    def _hold(self, request: Request, items: list[PoolItem]) -> None:
        for item in items:
            key = (item.pool, str(item))
            pool = self._pool_of(item)
            if pool.keeps_cookies and not pool.is_for_worker and not self._users[key]:
                self._jars.load(jar_of(item), self._contents.get(key, _Contents()).cookies)
            self._users[key] += 1
        self._held.setdefault(request, []).extend(items)

    def finished(self, request: Request) -> None:
        """Note that the engine has finished *request*: report the cookies of its items."""
        self._last_held = time.monotonic()
        self._leases.pop(request, None)
        for item in self._held.pop(request, ()):
            key = (item.pool, str(item))
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
            pool = self._pool_of(item)
            if pool.keeps_cookies:
                cookies, known = self._jars.dump(jar_of(item)), self._contents.setdefault(key, _Contents())
                if cookies != known.cookies:
                    known.cookies = cookies
                    self._report(item).cookies = cookies
            # Other requests may wait for this item.
            self._is_urgent = self._is_urgent or not pool.is_for_worker

    def block(self, now: float) -> Block | None:
        """Return why this worker's own items let no request begin; None if they let one begin."""
        for name in self._for_worker:
            item = self.own.get(name)
            if (
                item is None
                or self._lacks_item
                or self._bad_until.get((name, str(item)), 0.0) > now
                or (item.delay and self._users[name, str(item)])
            ):
                return Block(Cause.ITEM)
            if (until := self._next.get((name, str(item)), 0.0)) > now:
                return Block(Cause.TIME, until)
        return None

    # -- answers ---------------------------------------------------------------------------------

    def items_of(self, request: Request) -> list[PoolItem]:
        """Return the items with which *request* is sent, also if it is not one of the scheduler's."""
        if not self._pools:
            return []
        return self._held.get(request) or self._outside.get(request, [])

    def may_be_sent_at(self, request: Request) -> float:
        """Return when *request* may be sent because of its items, and note that it is sent then.

        :return: by the monotonic clock; 0: at once.
        """
        now = latest = time.monotonic()
        for item in self.items_of(request):
            key = item.pool, str(item)
            if item.delay:
                at = max(now, self._next.get(key, 0.0))
                self._next[key] = at + item.delay
                latest = max(latest, at)
        return latest if latest > now else 0.0

    def concern(self, pools: Iterable[str], status: int) -> bool:
        """Return whether an answer with *status* is about the item of one of *pools*, and not the site."""
        return any(name in self._pools and status in self._pools[name].rest for name in pools)

    def hear(self, request: Request, status: int, header: Callable[[str], str | None]) -> None:
        """Note the answer to *request*.

        :param header: returns the value of a header.
        """
        for item in self.items_of(request):
            pool = self._pool_of(item)
            seconds = pool.rest.get(status)
            if seconds == RETRY_AFTER:
                seconds = retry_after(header("Retry-After"), time.time()) or REST
            self._answered(item, request)
            self._judge(item, None if seconds is None else float(seconds), f"status {status}")

    def miss(self, request: Request, reason: str) -> None:
        """Note that there was no answer to *request*."""
        for item in self.items_of(request):
            pool = self._pool_of(item)
            self._answered(item, request)
            seconds = pool.rest.get(ERROR)
            if seconds is not None:
                self._judge(item, REST if seconds == RETRY_AFTER else float(seconds), reason)

    def end(self, request: Request) -> None:
        """Note that *request* may have been sent, and there is no answer of which its item is to blame."""
        for item in self.items_of(request):
            self._answered(item, request)

    def _answered(self, item: PoolItem, request: Request) -> None:
        report, now = self._report(item), time.monotonic()
        report.answered = now
        if item.delay:
            self._next[item.pool, str(item)] = now + item.delay
        if item.concurrency > 1 and (lease := self._leases.get(request)):
            # The delay for its next user has begun.
            report.leases.append(lease)
            self._is_urgent = True

    def _judge(self, item: PoolItem, seconds: float | None, why: str) -> None:
        report = self._report(item)
        if seconds is None:
            report.good, report.bad = True, 0
            return
        report.bad += 1
        self._rest(item, seconds, why)

    def _rest(self, item: PoolItem, seconds: float, why: str) -> None:
        report = self._report(item)
        if seconds >= report.rest:
            report.rest, report.why = seconds, one_line(why)
        self._is_urgent = True
        self._bad_until[item.pool, str(item)] = time.monotonic() + seconds
        self.stats.inc_value("frontier/pool_rests")
        self._rests += 1
        if self._rests <= MOST_LINES:
            logger.info("Item %r of pool %r rests for %g s: %s", str(item), item.pool, seconds, one_line(why))
        if self._rests == MOST_LINES:
            logger.info("This worker has logged %d rests of items, and only counts further ones", MOST_LINES)

    def _retire(self, item: PoolItem, reason: str) -> None:
        """Retire an item, because code of the spider says so."""
        self._report(item).retire = one_line(reason)
        self._bad_until[item.pool, str(item)] = math.inf
        self._is_urgent = True

    def _report(self, item: PoolItem) -> ItemReport:
        return self._reports.setdefault((item.pool, str(item)), ItemReport())

    # -- the exchange ----------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether there is something to send that cannot wait for a request to end."""
        return self._is_urgent

    def fill(self, batch: Batch) -> None:  # noqa: D102
        now = time.monotonic()
        batch.pool_reports = [
            (quoted_pool(pool), quoted(item), report.to_wire(now))
            for (pool, item), report in self._reports.items()
        ]
        self._reports, self._is_urgent = {}, False
        if not self.closing:
            batch.own_items = {
                quoted_pool(name): "" if self._lacks_item else quoted(self.own.get(name, ""))
                for name in self._for_worker
            }
            batch.own_in_flight = sorted(
                {quoted_pool(pool) for pool, _ in self._users if pool in self._for_worker}
            )
        if self._held:
            self._last_held = now
        batch.idle = round(1000 * (now - self._last_held)) if batch.own_items else 0

    def applied(self, reply: Reply) -> None:
        """Note the items of the leases in *reply*, and this worker's own ones."""
        for pool, item, value, cookies in reply.pool_items:
            self._contents[pool, item] = _Contents(_value(value), cookies)
        for pool, item, value, cookies in reply.own_items:
            if pool in self._for_worker:
                contents = _Contents(_value(value), cookies)
                own = self.own[pool] = self._make(pool, item, contents)
                self._bad_until.clear()
                if not self._users[pool, item]:  # else its cookies here are newer
                    self._contents[pool, item] = contents
                    self._jars.load(jar_of(own), cookies)
                self._last_held = time.monotonic()
                logger.info("This worker has item %r of pool %r", item, pool)
        # The callbacks of requests that are in flight may still look for the last ones.
        self._lacks_item = bool(reply.lacks_item)
        for pool, item, reason, are_left in reply.retired_items:
            self.stats.inc_value("frontier/pool_retired")
            logger.warning(
                "Item %r of pool %r is retired: %s. To use it again, run: %s add %s %s",
                *(
                    item,
                    pool,
                    one_line(reason).rstrip("."),
                    self.command,
                    shlex.quote(pool),
                    shlex.quote(item),
                ),
            )
            if not are_left:
                logger.error(
                    "All items of pool %r are retired: requests that need one wait. To see why, and to use "
                    "them again, run: %s",
                    *(pool, self.command),
                )


def _one_of_each(items: Iterable[Any]) -> list[PoolItem]:
    """Return those of *items* that are items, the first one of each pool."""
    found: dict[str, PoolItem] = {}
    for item in items:
        if isinstance(item, PoolItem):
            found.setdefault(item.pool, item)
    return list(found.values())


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # another program has changed it
        return None
