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
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from itertools import islice
from typing import Any

from scrapy import Request
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from ..codec.items import LineSerializer, default_serialize, item_bytes
from ..errors import UnserializableItemError, counted, one_line, shown
from ..frontier.messages import Batch, ItemGroup
from ..frontier.replies import Lease, Part, Reply
from ..settings import FrontierSettings
from .outbox import BATCH_BYTES, BATCH_ITEMS, KEEP_STARTS, Releases
from .requests import Entry, PageItems, Requests
from .start_counts import StartCounts

logger = logging.getLogger(__name__)

#: Bytes and number of a page's items from which they are sent before its release.
PART_BYTES, PART_ITEMS = 256 * 1024, 1000
#: How many pages' items one exchange carries, at most.
MOST_GROUPS = 1000
#: Bytes of items in this worker from which callbacks wait, and no page is begun.
MOST_BYTES = 32 * 1024 * 1024
#: About how many more bytes of memory an item takes, and a group of items without a lease.
COST, GROUP_COST = 64, 320
#: How many items of start() are kept for a moment after they were stored.
MOST_STARTS = 10_000


class PageIdentity:
    """Identify a request in its crawl: the answer is the same for each delivery of it, to whatever worker.

    A request that the frontier filters has one fingerprint in a crawl, but its entry depends on the way on
    which it was found. Other requests differ by a number in their entry.

    :param fingerprint: returns a request's fingerprint; it may raise any exception.
    :param filters: whether the frontier filters by this fingerprint.
    """

    def __init__(self, fingerprint: Callable[[Request], Any], filters: bool) -> None:
        self._fingerprint = fingerprint
        self._filters = filters

    def __call__(self, request: Request, lease: Lease) -> str:
        """Return a text of at most 21 letters and digits; ``lua/scripts/forget.lua`` makes the same."""
        is_filtered = self._filters and not request.dont_filter
        known = one_line(self._fingerprint(request)).encode() if is_filtered else lease.payload
        return ("f" if is_filtered else "r") + hashlib.sha1(known, usedforsecurity=False).hexdigest()[:20]


class Items(Part):
    """The items that are not in Redis yet.

    :param requests: the ledger, which has the items of each page.
    :param releases: the leases of finished pages, with the last items of each.
    :ivar size: about how many bytes of memory all items here take.
    :ivar blocked: why there was no room for the last items: ``memory``, ``bound``, ``feed``; else empty.
    :ivar is_held: whether to send no items now.
    """

    def __init__(self, requests: Requests, releases: Releases, settings: FrontierSettings) -> None:
        self._requests = requests
        self._releases = releases
        # The lines of a file are JSON, whatever the items in Redis are.
        default = LineSerializer() if settings.feed else default_serialize
        own = settings.items_serializer if settings.items else None
        self._serialize: Callable[[Any], Any] = own or default
        self.size = 0
        self.blocked = ""
        self.is_held = False
        # Parts of pages, and items without a lease.
        self._parts: deque[ItemGroup] = deque()
        self._free: deque[ItemGroup] = deque()
        self._sent: list[ItemGroup] = []
        releases.room_for_items = self._room
        self._starts = StartCounts()
        # Items of start() that were stored a moment ago: Redis may come back without them.
        self._stored_starts: deque[tuple[float, ItemGroup]] = deque(maxlen=MOST_STARTS)
        self._held_back: list[Deferred[None]] = []
        self._closing_since: float | None = None
        self._holds_none_back = False
        self._has_warned = False
        #: Returns a text that is the same for each delivery of a request; None: nobody needs it.
        self.identify: Callable[[Request, Lease], str] | None = None
        #: Returns the tokens of the files that an item is for; None: each is for all.
        self.choose: Callable[[Any], str] | None = None
        #: Calls a function on the next turn of the event loop: it runs callbacks of the spider.
        self.call_soon: Callable[[Callable[[], None]], None] = lambda call: call()
        # How many groups to send after a larger batch could not be sent.
        self._most = MOST_GROUPS
        self._carried = 0

    @property
    def has_news(self) -> bool:
        """Whether there are items to send besides those of finished pages."""
        return bool(self._parts or self._free)

    @property
    def is_settled(self) -> bool:
        """Whether no items are waiting or under way, besides those of finished pages."""
        return not (self._parts or self._free or self._sent)

    @property
    def is_full(self) -> bool:
        """Whether there are so many items here that no page must be begun."""
        return self.size >= MOST_BYTES

    @property
    def is_on_trial(self) -> bool:
        """Whether only one group is sent at a time, because larger batches could not be sent."""
        return self._most == 1

    @property
    def can_send(self) -> bool:
        """Whether there are items that need not wait for the requests of their page."""
        return self.has_news or self._releases.have_items

    def begun(self, entry: Entry) -> None:
        """Note that a request is begun: later, middlewares may have changed it."""
        if self.identify is None or entry.lease is None:
            return
        try:
            entry.identity = self.identify(entry.request, entry.lease)
        except Exception as error:  # the user's fingerprinter may raise anything
            reason = f"its items have no identity, because its fingerprint cannot be made: {one_line(error)}"
            logger.error("%s is moved to the failed list: %s", entry.request, reason)
            self._fail(entry, reason)

    def scraped(self, item: Any, response: Any) -> Coroutine[Any, Any, None] | None:
        """Take an item that has passed the pipelines; for the signal ``item_scraped``.

        :return: None, or what Scrapy waits for until there is room for more items.
        """
        request: Request | None = getattr(response, "request", None)
        entry = None if request is None else self._requests.find(request)
        try:
            data = item_bytes(item, self._serialize)
            if self.choose is not None:
                # An item for files is one line of JSON.
                data += b"\n" + self.choose(item).encode()
        except UnserializableItemError as error:
            self._refuse(item, entry, error)
            return None
        if response is None:
            self._add(ItemGroup((data,), mark=self._mark(data)))
        elif entry is None:
            self._warn_of_stranger(response)
            self._add(ItemGroup((data,), url=getattr(response, "url", "")))
        else:
            self._keep(entry, data, getattr(response, "url", entry.request.url))
        if not self.is_full or self._holds_none_back:
            return None
        self._send_parts(self._requests)
        self._held_back.append(waiting := Deferred[None]())
        return _wait(waiting)

    def finished(self, entry: Entry) -> ItemGroup | None:
        """Return the remaining items of a finished page; None if there are none to release with its lease."""
        page = entry.items
        if page is None:
            return None
        if entry.failure is None and not page.is_dropped:
            if entry.lease is not None:
                return _group(entry, entry.lease, page, is_last=True)
            self._send_parts([entry])
            return None
        self.drop(entry)
        return None

    def drop(self, entry: Entry) -> None:
        """Drop the items of a page that is crawled again, or set aside, also those that it yields later."""
        page = entry.items = entry.items or PageItems("")
        self.size -= page.size
        page.take()
        page.is_dropped = True

    def fill(self, batch: Batch) -> None:
        """Put items into *batch*, which has its releases already."""
        parts, free = self._counts()
        self._sent = [self._parts.popleft() for _ in range(parts)]
        self._sent += [self._free.popleft() for _ in range(free)]
        batch.item_groups = [*self._sent, *self._releases.items]
        self._carried = len(batch.item_groups)

    def applied(self, reply: Reply) -> None:
        """Note whether the items were stored. If not, they are sent again."""
        sent, self._sent = self._sent, []
        self.blocked = reply.no_items
        if reply.has_refused_items:
            self._parts.extendleft(reversed([group for group in sent if group.lease]))
            self._free.extendleft(reversed([group for group in sent if not group.lease]))
            self._most = self._most if reply.items_sent else max(1, min(self._most, self._carried) // 2)
            return
        if self._carried:
            self._most = min(MOST_GROUPS, 4 * self._most)
        now = time.monotonic()
        for group in (*sent, *self._releases.released_items):
            self._forget(group)
            if group.mark:
                self._stored_starts.append((now, group))
        while self._stored_starts and now - self._stored_starts[0][0] > KEEP_STARTS:
            self._stored_starts.popleft()
        if not self.is_full:
            self._let_continue()

    def closing(self, patience: float) -> None:
        """Note that the spider closes: after *patience* seconds no callback waits for room any more."""
        now = time.monotonic()
        self._closing_since = self._closing_since or now
        if now - self._closing_since >= patience and not self._holds_none_back:
            self._holds_none_back = True
            self._let_continue()

    def refuse_sent(self, group: ItemGroup, error: Exception) -> None:
        """Set the page of *group* aside, because its items alone cannot be sent to Redis."""
        reason = f"{counted(group.size, 'byte')} of its items cannot be sent to Redis: {one_line(error)}"
        if not group.lease:
            logger.error(
                "%s of %s cannot be sent to Redis, and are lost: %s. They do not belong to a page in Redis "
                "that could be set aside",
                *(counted(group.size, "byte"), counted(len(group.items), "item")),
                one_line(error),
            )
            self._free = self._without(self._free, lambda waiting: waiting is group)
            return
        logger.error("%s: the page is moved to the failed list, and none of its items is stored", reason)
        self._parts = self._without(self._parts, lambda waiting: waiting.lease == group.lease)
        for ended in self._releases.fail(group.lease, reason):
            self._forget(ended)
        for entry in self._requests:
            if entry.lease is not None and entry.lease.name == group.lease:
                self._fail(entry, reason)

    def adopt(self) -> None:
        """Keep all items without their leases: no page here is crawled again, since the frontier is lost."""
        groups = [*self._sent, *self._parts, *self._releases.take_items()]
        leased = [group for group in groups if group.lease]
        found = Counter[str]()
        for group in leased:
            found[group.lease] = max(found[group.lease], group.before + len(group.items))
        for entry in self._requests:
            if entry.lease is not None and entry.items is not None:
                found[entry.lease.name] = max(found[entry.lease.name], entry.items.sent)
        self._sent = [group for group in self._sent if not group.lease]
        self._parts.clear()
        self._free.extend(ItemGroup(group.items, url=group.url) for group in leased if group.items)
        if lost := sum(found.values()) - sum(len(group.items) for group in leased):
            logger.error(
                "%s of pages that are not finished were in Redis, and are lost with the frontier",
                counted(lost, "item"),
            )

    def rolled_back(self) -> None:
        """Drop the items of pages, which are crawled again, and send recent ones of ``start()`` again."""
        self._sent = [group for group in self._sent if not group.lease]
        self._parts.clear()
        again = [group for _, group in self._stored_starts]
        self._stored_starts.clear()
        self._free.extendleft(reversed(again))
        self.size = sum(map(_size, (*self._sent, *self._free)))
        self.size += sum(entry.items.size for entry in self._requests if entry.items is not None)

    def _let_continue(self) -> None:
        held_back, self._held_back = self._held_back, []
        for waiting in held_back:
            self.call_soon(partial(waiting.callback, None))

    def _keep(self, entry: Entry, data: bytes, url: str) -> None:
        page = entry.items
        if page is None:
            page = entry.items = PageItems(url)
        if page.is_dropped or entry.failure is not None:
            return
        page.items.append(data)
        page.size += len(data) + COST
        self.size += len(data) + COST
        if page.size >= PART_BYTES or len(page.items) >= PART_ITEMS:
            self._send_parts([entry])

    def _send_parts(self, entries: Iterable[Entry]) -> None:
        """Send the items of pages before these are released, or without a lease if they have none."""
        for entry in entries:
            page = entry.items
            if page is None or not page.items or entry.failure is not None:
                continue
            if entry.lease is not None:
                self._parts.append(_group(entry, entry.lease, page))
            else:
                self.size -= page.size
                self._add(ItemGroup(page.take(), url=page.url))

    def _counts(self) -> tuple[int, int]:
        """Return how many parts, and how many groups without a lease, the next exchange carries."""
        counts, count, size, items = [], 0, 0, 0
        for waiting in (self._parts, self._free):
            before = count
            for group in islice(waiting, 0 if self.is_held else self._most - count):
                size, items = size + group.size, items + len(group.items)
                if count and (size > BATCH_BYTES or items > BATCH_ITEMS):
                    break
                count += 1
            counts.append(count - before)
        return counts[0], counts[1]

    def _room(self) -> tuple[int, set[str]]:
        """Answer :attr:`Releases.room_for_items`."""
        parts, free = self._counts()
        later = {group.lease for group in islice(self._parts, parts, None)}
        return 0 if self.is_held else self._most - parts - free, later

    def _add(self, group: ItemGroup) -> None:
        self._free.append(group)
        self.size += _size(group)

    def _without(self, groups: deque[ItemGroup], is_meant: Callable[[ItemGroup], bool]) -> deque[ItemGroup]:
        """Return the *groups* that are not meant, and forget the others."""
        for group in filter(is_meant, groups):
            self._forget(group)
        return deque(group for group in groups if not is_meant(group))

    def _forget(self, group: ItemGroup) -> None:
        self.size -= _size(group)

    def _mark(self, data: bytes) -> str:
        """Return a text by which Redis knows an item of ``start()``: the n-th of its kind of each worker."""
        digest = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        return f"item:{digest}#{self._starts.number_of(digest)}"

    def _fail(self, entry: Entry, reason: str) -> None:
        """Set a page aside, and drop its items; also those of the same request object."""
        self._requests.mark_failed(entry.request, reason, "")
        for one in self._requests.all_of(entry.request):
            self.drop(one)

    def _refuse(self, item: Any, entry: Entry | None, error: UnserializableItemError) -> None:
        if entry is None or entry.lease is None:
            # There is no lease that could be set aside.
            logger.error("The item %s cannot be stored, and is lost: %s", shown(item), error)
            return
        self._fail(entry, f"an item cannot be stored: {error}")
        logger.error(
            "The item %s of %s cannot be stored: %s. The page is moved to the failed list, and none of its "
            "items is stored",
            *(shown(item), entry.request, error),
        )

    def _warn_of_stranger(self, response: Any) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "An item comes from a response of which the frontier does not know the request (%s): such "
                "items are stored at once, and once more if their page is crawled again. This is logged once",
                response,
            )


async def _wait(for_room: Deferred[None]) -> None:
    await maybe_deferred_to_future(for_room)


def _group(entry: Entry, lease: Lease, page: PageItems, is_last: bool = False) -> ItemGroup:
    """Take the items of a page."""
    before = page.sent
    return ItemGroup(page.take(), lease.name, page.url, entry.identity, is_last=is_last, before=before)


def _size(group: ItemGroup) -> int:
    """Return about how many bytes of memory *group* takes."""
    return group.size + COST * len(group.items) + (0 if group.lease else GROUP_COST)
