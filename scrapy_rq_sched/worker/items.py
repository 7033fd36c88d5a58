"""The items of pages: each is stored in the exchange that releases the lease of its page, or not at all.

A page that is crawled again, because its worker died, has stored nothing the first time. So each item is
stored once (``FRONTIER_ITEMS``). The ledger keeps a page's items with its request. If they are many, they go
to Redis in parts, which become visible with the release.

Items without a lease are stored as soon as possible: those of ``start()``, which every worker yields, and of
which Redis stores only the first; and those of requests that are only in this worker's memory.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

from scrapy import Request
from twisted.internet.defer import Deferred

from ..codec.items import LineSerializer, default_serialize, item_bytes
from ..errors import UnserializableItemError, counted, one_line, shown
from ..frontier.messages import Batch, ItemGroup
from ..frontier.replies import Lease, Part, Reply
from ..settings import FrontierSettings
from .outbox import BATCH_BYTES, KEEP_STARTS, Releases
from .requests import Entry, PageItems, Requests

logger = logging.getLogger(__name__)

#: Bytes and number of a page's items from which they are sent before its release.
PART_BYTES, PART_ITEMS = 256 * 1024, 1000
#: How many pages' items one exchange carries, at most.
MOST_GROUPS = 10_000
#: Bytes of items in this worker from which callbacks wait, and no page is begun.
MOST_BYTES = 32 * 1024 * 1024


class PageIdentity:
    """Identify a request in its crawl: the answer is the same for each delivery of it, to whatever worker.

    A request that is filtered has one fingerprint in a crawl. Others differ by a number in their entry.

    :param fingerprint: returns a request's fingerprint; it may raise any exception.
    """

    def __init__(self, fingerprint: Callable[[Request], Any]) -> None:
        self._fingerprint = fingerprint

    def __call__(self, request: Request, lease: Lease) -> str:
        """Return a text of at most 21 letters and digits."""
        known = lease.payload if request.dont_filter else str(self._fingerprint(request)).encode()
        kind = "r" if request.dont_filter else "f"
        return kind + hashlib.sha1(known, usedforsecurity=False).hexdigest()[:20]


class Items(Part):
    """The items that are not in Redis yet.

    :param requests: the ledger, which has the items of each page.
    :param releases: the leases of finished pages, with the last items of each.
    :ivar size: the bytes of all items here.
    :ivar blocked: why there was no room for the last items: ``memory``, ``bound``; else empty.
    """

    def __init__(self, requests: Requests, releases: Releases, settings: FrontierSettings) -> None:
        self._requests = requests
        self._releases = releases
        default = LineSerializer() if settings.feed else default_serialize
        serialize = settings.items_serializer if settings.items else None
        self._serialize: Callable[[Any], Any] = serialize or default
        self.size = 0
        self.blocked = ""
        # Parts of pages, and items without a lease.
        self._waiting: deque[ItemGroup] = deque()
        self._sent: list[ItemGroup] = []
        releases.room_for_items = self._room
        self._starts: Counter[str] = Counter()
        # Items of start() that were stored a moment ago: Redis may come back without them.
        self._stored_starts: deque[tuple[float, ItemGroup]] = deque()
        self._held_back: list[Deferred[None]] = []
        #: Returns a text that is the same for each delivery of a request; only a stream needs it.
        self.identify: Callable[[Request, Lease], str] = lambda request, lease: ""
        #: Calls a function on the next turn of the event loop: it runs callbacks of the spider.
        self.call_soon: Callable[[Callable[[], None]], None] = lambda call: call()
        # How many groups to send after a larger batch could not be sent.
        self._most = MOST_GROUPS
        self._carried = 0

    @property
    def has_news(self) -> bool:
        """Whether there are items to send besides those of finished pages."""
        return bool(self._waiting)

    @property
    def is_settled(self) -> bool:
        """Whether no items are waiting or under way, besides those of finished pages."""
        return not (self._waiting or self._sent)

    @property
    def is_full(self) -> bool:
        """Whether there are so many items here that no page must be begun."""
        return self.size >= MOST_BYTES

    @property
    def is_on_trial(self) -> bool:
        """Whether the next exchange carries only one group, because batches with items could not be sent."""
        return self._most == 1

    def scraped(self, item: Any, response: Any) -> Deferred[None] | None:
        """Take an item that has passed the pipelines; for the signal ``item_scraped``.

        :return: None, or a ``Deferred`` that fires when there is room for more items. Scrapy waits for it.
        """
        request: Request | None = getattr(response, "request", None)
        entry = None if request is None else self._requests.find(request)
        try:
            data = item_bytes(item, self._serialize)
        except UnserializableItemError as error:
            self._refuse(item, entry, error)
            return None
        if response is None:
            self._add(ItemGroup((data,), mark=self._mark(data)))
        elif entry is None:
            self._add(ItemGroup((data,), url=getattr(response, "url", "")))
        else:
            self._keep(entry, data, getattr(response, "url", entry.request.url))
        if not self.is_full:
            return None
        self._send_parts(self._requests)
        self._held_back.append(Deferred())
        return self._held_back[-1]

    def finished(self, entry: Entry) -> ItemGroup | None:
        """Return the remaining items of a finished page; None if there are none to release with its lease."""
        page = entry.items
        if page is None:
            return None
        if entry.failure is not None or page.is_dropped:
            self.drop(entry)
            return None
        if entry.lease is not None:
            return self._group(entry, entry.lease, page, is_last=True)
        if page.items:
            self._waiting.append(ItemGroup(tuple(page.items), url=page.url))
        return None

    def drop(self, entry: Entry) -> None:
        """Drop the items of a page that is crawled again, or set aside, also those that it yields later."""
        page = entry.items = entry.items or PageItems("")
        self._forget(page.items)
        page.items, page.size, page.is_dropped = [], 0, True

    def fill(self, batch: Batch) -> None:
        """Put items into *batch*, which has its releases already."""
        self._sent = [self._waiting.popleft() for _ in range(self._count())]
        batch.item_groups = [*self._sent, *self._releases.items]
        self._carried = len(batch.item_groups)

    def applied(self, reply: Reply) -> None:
        """Note whether the items were stored. If not, they are sent again."""
        sent, self._sent = self._sent, []
        self.blocked = reply.no_items
        if reply.has_refused_items:
            self._waiting.extendleft(reversed(sent))
            self._most = self._most if reply.items_sent else max(1, min(self._most, self._carried) // 2)
            return
        self._most = min(MOST_GROUPS, 4 * self._most)
        now = time.monotonic()
        for group in (*sent, *self._releases.released_items):
            self._forget(group.items)
            if group.mark:
                self._stored_starts.append((now, group))
        while self._stored_starts and now - self._stored_starts[0][0] > KEEP_STARTS:
            self._stored_starts.popleft()
        if not self.is_full:
            held_back, self._held_back = self._held_back, []
            for waiting in held_back:
                self.call_soon(partial(waiting.callback, None))

    def refuse_sent(self, group: ItemGroup, error: Exception) -> None:
        """Set the page of *group* aside, because its items alone cannot be sent to Redis."""
        reason = f"{counted(group.size, 'byte')} of its items cannot be sent to Redis: {one_line(error)}"
        logger.error("%s: the page is moved to the failed list, and none of its items is stored", reason)
        if group.is_last:
            self._releases.fail(group.lease, reason)
        else:
            self._waiting.remove(group)
            for entry in self._requests:
                if entry.lease is not None and entry.lease.name == group.lease:
                    self._requests.mark_failed(entry.request, reason, "")
                    self.drop(entry)
        self._forget(group.items)

    def rolled_back(self) -> None:
        """Drop the items of pages, which are crawled again, and send recent ones of ``start()`` again."""
        self._sent = [group for group in self._sent if not group.lease]
        self._waiting = deque(group for group in self._waiting if not group.lease)
        again = [group for _, group in self._stored_starts]
        self._stored_starts.clear()
        self._waiting.extendleft(reversed(again))
        self.size = sum(group.size for group in (*self._sent, *self._waiting))

    def _keep(self, entry: Entry, data: bytes, url: str) -> None:
        page = entry.items
        if page is None:
            page = entry.items = PageItems(url)
        if page.is_dropped or (entry.lease is not None and entry.failure is not None):
            return
        page.items.append(data)
        page.size += len(data)
        self.size += len(data)
        if page.size >= PART_BYTES or len(page.items) >= PART_ITEMS:
            self._send_parts([entry])

    def _send_parts(self, entries: Iterable[Entry]) -> None:
        """Send the items of pages that have a lease before it is released."""
        for entry in entries:
            page = entry.items
            if page is not None and page.items and entry.lease is not None and entry.failure is None:
                self._waiting.append(self._group(entry, entry.lease, page))
                page.items, page.size = [], 0

    def _count(self) -> int:
        """Return how many of the waiting groups the next exchange carries."""
        count = size = 0
        for group in islice(self._waiting, self._most):
            size += group.size
            if count and size > BATCH_BYTES:
                break
            count += 1
        return count

    def _room(self) -> tuple[int, set[str]]:
        """Answer :attr:`Releases.room_for_items`."""
        count = self._count()
        return self._most - count, {group.lease for group in islice(self._waiting, count, None)}

    def _group(self, entry: Entry, lease: Lease, page: PageItems, is_last: bool = False) -> ItemGroup:
        identity = self.identify(entry.request, lease)
        return ItemGroup(tuple(page.items), lease.name, page.url, identity, is_last=is_last)

    def _add(self, group: ItemGroup) -> None:
        self._waiting.append(group)
        self.size += group.size

    def _forget(self, items: Iterable[bytes]) -> None:
        self.size -= sum(map(len, items))

    def _mark(self, data: bytes) -> str:
        """Return a text by which Redis knows an item of ``start()``: the n-th of its kind of each worker."""
        digest = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        self._starts[digest] += 1
        return f"item:{digest}#{self._starts[digest]}"

    def _refuse(self, item: Any, entry: Entry | None, error: UnserializableItemError) -> None:
        reason = f"an item cannot be stored: {error}"
        if entry is None or not self._requests.mark_failed(entry.request, reason, ""):
            # There is no lease that could be set aside.
            logger.error("The item %s cannot be stored, and is lost: %s", shown(item), error)
            return
        self.drop(entry)
        logger.error(
            "The item %s of %s cannot be stored: %s. The page is moved to the failed list, and none of its "
            "items is stored",
            *(shown(item), entry.request, error),
        )
