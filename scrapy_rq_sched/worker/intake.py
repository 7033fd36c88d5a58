"""From the spider to the outbox: the intake of requests, and the gate of ``start()``."""

from __future__ import annotations

import logging
import time
from typing import Any, Literal

from scrapy import Request, Spider

from ..assembly.dupefilter import filters_in_exchange
from ..assembly.queue import is_custom
from ..codec.slots import forget_assigned_slot, slot_of
from ..engine.bridge import EngineBridge
from ..errors import UnserializableRequestError, one_line
from ..frontier.messages import Push, PushMode, rank
from ..frontier.replies import Lease, Order, Reply
from ..settings import FrontierSettings
from .admission import Capacity
from .deny_list import DenyList
from .log.notices import Notices
from .needs import Needs
from .start_counts import StartCounts
from .state import State

logger = logging.getLogger(__name__)

#: Keys of ``meta`` that only later requests have: they tell start requests if there is no engine to ask.
_MARKS_OF_LATER_REQUESTS = frozenset({"depth", "retry_times", "redirect_times"})


class Intake:
    """Take requests for the frontier.

    :param fingerprint: returns a request's fingerprint.
    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand.
    :param by_slot: whether requests are queued by slot.
    :param denies: the deny-list.
    :param needs: decides in which lane a request waits.
    """

    def __init__(
        self,
        state: State,
        spider: Spider,
        queue: Any,
        dupefilter: Any,
        fingerprint: Any,
        notices: Notices,
        engine: EngineBridge | None,
        by_slot: bool,
        denies: DenyList,
        needs: Needs,
    ) -> None:
        self._denies = denies
        self._needs = needs
        self._state = state
        self._spider = spider
        self._queue = queue
        self._pushes_itself = is_custom(queue)
        self._by_slot = by_slot and not self._pushes_itself
        self._dupefilter = dupefilter
        self._filters_in_exchange = filters_in_exchange(dupefilter)
        self._fingerprint = fingerprint
        self._notices = notices
        self._engine = engine
        self._start_counts = StartCounts()

    def send(self, request: Request) -> bool:
        """Put *request* into the outbox; return False if it is a known duplicate, denied, or refused."""
        if self._denies.refuses(request.url):
            return False
        self._state.pools.forget_given(request)
        try:
            lane = self._needs.lane(request)
        except ValueError as error:
            self._needs.refuse(request, str(error))
            return False
        try:
            lane = self._state.pools.lane(request, lane)
        except ValueError as error:
            self._state.pools.refuse(request, str(error))
            return False
        groups, after, member = self._state.groups.of(request)
        forget_assigned_slot(request)
        mode = self._mode(request)
        fingerprint = self._fingerprint_of(request, mode)
        seen = mode == "filter" and fingerprint in self._state.seen
        if not (seen or self._filters_in_exchange or request.dont_filter):
            seen = self._dupefilter.request_seen(request)
        if seen:
            self._state.note_known()
            self._notices.filtered(self._dupefilter, request, self._spider)
            return False
        payload = self._payload(request, mode, is_grouped=bool(groups))
        if lane and not payload and self._needs.refuses_in_memory(request):
            return False
        if not payload and self._state.pools.cannot_have_item(request):
            self._state.pools.refuse(request, "it cannot be stored in Redis to wait for an item of its pool")
            return False
        if not payload:
            self._state.groups.cannot_wait(request, after)
            after = ""
        # A request that is kept in memory may have a priority that is not a number.
        slot = slot_of(request) if self._by_slot or lane else ""
        continues = self._continues(request, slot)
        push = Push(
            *(mode, fingerprint, rank(request.priority), payload, slot),
            continues=continues,
            lane=lane,
            groups=groups,
            after=after,
            member=member,
        )
        self._state.enqueue(push, request)
        if mode == "filter":
            # The fingerprint counts as seen from now on: a request on its way needs no second push.
            self._state.seen.add(fingerprint)
        return True

    def _continues(self, request: Request, slot: str) -> Literal["", "page", "crawl"]:
        """Return whether *request* continues a page that is in progress, and in which slot: see ``Push``.

        Scrapy's marks in its meta are not enough: links with a copy of a page's meta have them, too.
        """
        redirected = (request.meta.get("redirect_urls") or [""])[-1]
        if not (redirected or request.dont_filter):
            return ""
        for entry in self._state.requests:
            page = entry.request
            is_same = page.url == request.url and (page.method, page.body) == (request.method, request.body)
            if not (is_same or page.url == redirected):
                continue
            # Either a middleware sends it, or a callback asks for another try (get_retry_request).
            tries = page.meta.get("retry_times", 0), request.meta.get("retry_times", 0)
            is_by_middleware = self._engine is not None and not self._engine.is_scraping(page)
            if is_by_middleware or (is_same and tries[1] == tries[0] + 1):
                return "page" if entry.slot == slot else "crawl"
        return ""

    def start_is_over(self) -> None:
        """Note that ``start()`` has ended."""
        self._start_counts.clear()

    def adopt(self, lease: Lease) -> None:
        """Queue the request of a ready lease again, after the frontier has disappeared from Redis."""
        try:
            request = self._queue.decode_request(lease.payload)
            mode: PushMode = "filter" if self._filters_in_exchange and not request.dont_filter else "force"
            fingerprint = self._fingerprint_of(request, mode)
            groups, _, member = self._state.groups.of(request)
            push = Push(
                *(mode, fingerprint, rank(request.priority), lease.payload, lease.slot),
                continues="page",
                lane=lease.lane,
                groups=groups,
                member=member,
            )
        except Exception as error:  # the worker that gets the entry sets it aside
            logger.warning(
                "An entry of %s cannot be read, and is stored again unchanged: %s",
                *(self._queue.key, one_line(error)),
            )
            request = Request("data:,")
            push = Push("force", "", 0, lease.payload, lease.slot, continues="page", lane=lease.lane)
        self._state.enqueue(push, request)

    def return_to_queue(self, request: Request) -> None:
        """Push *request* again, which was popped from a queue of the user's own class."""
        push = Push("force", "", rank(request.priority), b"", continues="page")
        self._state.enqueue(push, request)

    def withdraw_first(self, error: Exception) -> None:
        """Crawl the first request of the outbox from memory, because Redis cannot take it."""
        first = self._state.outbox.withdraw_first()
        size = len(first.push.payload)
        self._keep_from_redis(first.request, f"its {size} bytes cannot be sent to Redis: {one_line(error)}")

    def _mode(self, request: Request) -> PushMode:
        filtered = self._filters_in_exchange and not request.dont_filter
        if self._is_start_request(request):
            # Every worker runs start(), but each of its requests must be crawled once.
            return "start+filter" if filtered else "start"
        return "filter" if filtered else "force"

    def _is_start_request(self, request: Request) -> bool:
        if self._engine is not None:
            return self._engine.is_start_request(request)
        meta = request.meta
        return bool(meta.get("is_start_request")) and not meta.keys() & _MARKS_OF_LATER_REQUESTS

    def _fingerprint_of(self, request: Request, mode: PushMode) -> str:
        if mode == "force":
            return ""
        fingerprint = one_line(self._fingerprint(request))
        if mode == "start":
            # start() may yield one unfiltered request several times on purpose: the n-th of this worker is
            # the n-th of every worker. A filtered request with the same fingerprint is a different request.
            fingerprint = f"{fingerprint}#{self._start_counts.number_of(fingerprint)}"
        return fingerprint

    def _payload(self, request: Request, mode: PushMode, is_grouped: bool) -> bytes:
        if self._pushes_itself:
            return b""  # the queue class serializes the request
        try:
            # Its bytes tell the frontier which member of its groups a request is.
            unique = request.dont_filter or is_grouped or not self._filters_in_exchange
            entry = bytes(self._queue.encode_request(request, unique=unique))
        except UnserializableRequestError as error:
            self._keep_from_redis(request, one_line(error))
            return b""
        self._state.local_only.note("")
        return entry

    def _keep_from_redis(self, request: Request, reason: str) -> None:
        self._state.local_only.note(reason)
        self._notices.kept_from_redis(request, reason)
        self._notices.local_only(self._state.local_only)


class StartGate:
    """Hold ``start()`` while there are enough requests, or while no request may begin."""

    def __init__(
        self, state: State, capacity: Capacity, settings: FrontierSettings, engine: EngineBridge
    ) -> None:
        self._state = state
        self._capacity = capacity
        self._settings = settings
        self._engine = engine
        self._was_full = False

    def holds(self, reply: Reply | None) -> bool:
        """Return whether ``start()`` should wait.

        :param reply: the frontier's last reply.
        """
        enough = self._capacity.is_full or len(self._state.memory) >= self._settings.outbox_size
        no_room = reply is not None and bool(reply.full)
        # A worker that waits for an item must not keep the fleet from being finished.
        waits = enough or no_room or self._state.order not in (Order.CRAWL, Order.ITEM)
        return waits or self._holds_first() or self._holds_lazy_start(reply)

    def _holds_first(self) -> bool:
        """Return whether one of the first requests is on its way, and its download could begin.

        Scrapy begins a start request before it reads the next one, as long as it may download more. So the
        first ones are begun in their order, whatever their priorities are.
        """
        items = self._engine.start_items
        if self._state.begun >= items or items > self._settings.concurrency or self._engine.backs_out():
            return False
        return bool(self._state.outbox.unsettled) or self._state.ready.next(time.monotonic()) is not None

    def _holds_lazy_start(self, reply: Reply | None) -> bool:
        """Return whether the requests on their way are enough to fill the downloader.

        A lazy ``start()``, which checks before each request whether the downloader is full
        (``engine.needs_backout()``), would otherwise be read much further than needed. A ``start()`` that
        has not waited when the downloader was full is not lazy.
        """
        if self._engine.backs_out():
            self._was_full = True
            return False
        if self._was_full and not self._engine.reads_lazily:
            return False
        on_their_way = self._state.outbox.unsettled + self._state.ready.usable
        if not self._engine.reads_lazily:
            return on_their_way >= max(self._capacity.target, self._settings.concurrency)
        waiting = 0 if reply is None else reply.waiting
        return on_their_way + waiting >= self._settings.concurrency - self._engine.downloading()
