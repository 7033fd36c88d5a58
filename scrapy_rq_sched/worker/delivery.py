"""From requests to pushes, and from leases to requests: what the exchange carries, both ways."""

from __future__ import annotations

import logging
import math
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler

from ..codec.seeds import Sowing, requests_of_seed
from ..engine.bridge import EngineBridge
from ..engine.components import filters_in_exchange, is_plain, load_fingerprints
from ..errors import PayloadError, SeedError, UnknownCodeError, UnserializableRequestError, one_line
from ..frontier.client import Frontier
from ..frontier.messages import Lease, Mode, Push, Reply, Told, rank
from ..runtime.identity import Stopwatch
from ..settings import FrontierSettings
from .log.farewell import Farewell
from .log.fullness import Fullness
from .log.notices import Notices
from .log.standstill import Standstill
from .outbox import Outgoing
from .start_counts import StartCounts
from .state import Settled, Worker

logger = logging.getLogger(__name__)

#: Seconds for which seeds are made requests of before the event loop has its turn.
SOWING_SLICE = 0.02

#: Where there is no engine to ask: what a start request's descendants have in their meta.
_MARKS_OF_LATER_REQUESTS = frozenset({"depth", "retry_times", "redirect_times"})


class Delivery:
    """What the exchange loop asks of a worker's side, and tells it.

    :param frontier: what the requests go to; only asked what and where it is.
    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand.
    :param crawl: what gives a seed's request to the engine; by default it goes straight to the outbox.
    """

    def __init__(
        self,
        crawler: Crawler,
        spider: Spider,
        worker: Worker,
        frontier: Frontier,
        queue: Any,
        dupefilter: Any,
        settings: FrontierSettings,
        engine: EngineBridge | None,
        crawl: Callable[[Request], Any] | None = None,
    ) -> None:
        self._crawler = crawler
        self._spider = spider
        self._worker = worker
        self._queue = queue
        self._plain = is_plain(queue)
        self._dupefilter = dupefilter
        self._filters_in_exchange = filters_in_exchange(dupefilter)
        self._fingerprint = load_fingerprints(crawler, dupefilter, settings.seen_cache).of
        self._settings = settings
        self._engine = engine
        self._crawl = crawl or self.send
        self._stats: Any = crawler.stats
        self._notices = Notices(crawler.stats, spider.name)
        self._farewell = Farewell(crawler, worker, settings.lease_timeout)
        self._fullness = Fullness(frontier, worker, settings.outbox_size)
        self._standstill = Standstill(worker, settings, spider.name, frontier.keys.start_urls)
        self._sowing: deque[Sowing] = deque()
        self._sows_soon = False
        self._start_counts = StartCounts()
        self._lost = 0
        #: Set when the spider closes: nothing more is wanted; and whether it does because the fleet is
        #: finished.
        self.closing = self.finishing = False
        #: By hand, how many leases to ask for; in a crawl, as many as are used.
        self.wanted_by_hand: int | None = None
        #: How long the whole fleet has had nothing left, nor this worker.
        self.finished = Stopwatch()
        #: The duplicates that the last reply told of.
        self.dropped: list[Request] = []
        self._no_room = False
        self._was_full = False
        self._last_reply: Reply | None = None

    # -- from requests to pushes ---------------------------------------------------------------

    def send(self, request: Request) -> bool:
        """Put *request* into the outbox; return False if it is known to be a duplicate."""
        mode = self._mode(request)
        fingerprint = self._fingerprint_of(request, mode)
        seen = mode == "filter" and fingerprint in self._worker.seen
        if not (seen or self._filters_in_exchange or request.dont_filter):
            seen = self._dupefilter.request_seen(request)
        if seen:
            self._worker.note_known()
            self._notices.filtered(self._dupefilter, request, self._spider)
            return False
        self.finished.set(False)
        payload = self._payload(request, mode)
        # What is kept in memory may have a priority that is no number.
        self._worker.enqueue(Push(mode, fingerprint, rank(request.priority), payload), request)
        if mode == "filter":
            # Seen from now on, by whoever: what is on its way needs no second push.
            self._worker.seen.add(fingerprint)
        return True

    def _mode(self, request: Request) -> Mode:
        filtered = self._filters_in_exchange and not request.dont_filter
        if self._is_start_request(request):
            # Every worker runs start(), and the crawl wants each of its requests once.
            return "start+filter" if filtered else "start"
        return "filter" if filtered else "force"

    def _is_start_request(self, request: Request) -> bool:
        if self._engine is not None:
            return self._engine.is_start_request(request)
        meta = request.meta
        return bool(meta.get("is_start_request")) and not meta.keys() & _MARKS_OF_LATER_REQUESTS

    def _fingerprint_of(self, request: Request, mode: Mode) -> str:
        if mode == "force":
            return ""
        fingerprint = one_line(self._fingerprint(request))
        if mode == "start":
            # start() may yield one request several times on purpose: the n-th is the n-th of every
            # worker. One that it yields filtered as well is another.
            fingerprint = f"{fingerprint}#{self._start_counts.number_of(fingerprint)}"
        return fingerprint

    def _payload(self, request: Request, mode: Mode) -> bytes:
        if self._plain:
            return b""  # the queue serializes it by itself
        try:
            entry = bytes(self._queue.encode_request(request, unique=request.dont_filter or mode == "force"))
        except UnserializableRequestError as error:
            self._keep_from_redis(request, one_line(error))
            return b""
        self._worker.note_found()
        return entry

    def _keep_from_redis(self, request: Request, reason: str) -> None:
        self._stats.inc_value("scheduler/unserializable")
        self._worker.note_found(reason)
        self._notices.warn_once(
            reason,
            "%s cannot be kept in Redis: %s. It is crawled by this worker from memory, and lost "
            "if this worker dies. More of this kind are only counted: scheduler/unserializable",
            *(one_line(request), reason),
        )
        self._notices.shares(self._worker.shares)

    # -- from leases to requests ---------------------------------------------------------------

    def take(self) -> Request | None:
        """Return the next request, now the engine's, or None."""
        request = self._take()
        if request is not None:
            self._standstill.begun()
        return request

    def _take(self) -> Request | None:
        worker = self._worker
        if worker.is_full:
            self._notices.warn_once(
                "full",
                "%d requests wait to be stored in Redis (FRONTIER_OUTBOX_SIZE): no new page is begun "
                "until there are fewer",
                len(worker.outbox),
            )
            return None
        if worker.memory and worker.told not in (Told.PAUSE, Told.STOP):
            request = worker.memory.popleft().request
            worker.hold(request, None)
            return request
        while worker.ready:
            if self._engine is not None and not worker.may_begin:
                return None
            if not worker.may_take(worker.ready[0]):
                return None
            lease = worker.ready.popleft()
            made = self._decode(lease)
            if made is not None:
                worker.hold(made, lease)
                return made
        return None

    def _decode(self, lease: Lease) -> Request | None:
        """Return the request of *lease*, or None: then another worker has to do it, or it is set aside."""
        try:
            made: Request = self._queue.decode_request(lease.payload)
        except UnknownCodeError as error:
            self._refuse(lease, error)
        except PayloadError as error:
            logger.error("An entry of %s is set aside: %s", self._queue.key, one_line(error))
            self._worker.fail(lease, str(error))
        except Exception as error:  # a queue of the user's own may raise anything
            logger.exception("An entry of %s is set aside", self._queue.key)
            self._worker.fail(lease, f"{type(error).__name__}: {error}", traceback.format_exc())
        else:
            return made
        return None

    def _refuse(self, lease: Lease, error: UnknownCodeError) -> None:
        self._notices.warn_once(
            str(error),
            "A %s is left to another worker: %s. More are only counted: frontier/refused",
            *("request" if lease.kind in ("request", "drop") else "seed", one_line(error)),
        )
        self._stats.inc_value("frontier/refused")
        self._worker.refuse(lease, str(error))

    def _sow(self, lease: Lease) -> None:
        """Begin to turn a seed into requests for the frontier."""
        self._worker.sow(lease)
        settings = self._settings
        made = requests_of_seed(lease.payload, self._spider, settings.encoding, settings.seed_form_data)
        self._sowing.append(Sowing(lease, made))

    def sow_on(self) -> None:
        """Go on with the seeds: for a moment at a time, because one may stand for any number of requests."""
        end = time.monotonic() + SOWING_SLICE
        while self._sowing and not self._worker.is_full:
            sowing = self._sowing[0]
            if sowing.lease not in self._worker.sowing:  # it is another worker's now
                self._sowing.popleft()
                continue
            if not self._worker.may_sow(sowing.lease):
                break
            if not self._sow_some(sowing, math.inf if self._engine is None else end):
                if self._engine is None:
                    continue
                break
            self._sowing.popleft()
            self._worker.sowing.remove(sowing.lease)
        waits = self._sowing and (self._worker.is_full or not self._worker.may_sow(self._sowing[0].lease))
        if self._sowing and self._engine is not None and not (waits or self._sows_soon):
            self._sows_soon = True
            self._engine.soon(self._sow_soon)

    def _sow_soon(self) -> None:
        self._sows_soon = False
        self.sow_on()

    def _sow_some(self, sowing: Sowing, end: float) -> bool:
        """Give requests of a seed to the engine until *end*; return whether there are no more."""
        lease = sowing.lease
        try:
            for request in sowing.requests(end):
                self._crawl(request)
                if self._worker.is_full:
                    break
            if not sowing.is_over:
                return False
            if not sowing.count:
                logger.debug("make_request_from_data made no request of seed %.200r", lease.payload)
            self._stats.inc_value("frontier/seeds")
        except UnknownCodeError as error:
            self._refuse(lease, error)
            return True
        except SeedError as error:
            logger.error("Seed %.200r is set aside: %s", lease.payload, one_line(error))
            cause = error.__cause__
            trace = "".join(traceback.format_exception(cause)) if cause else ""
            self._worker.fail(lease, str(error), trace)
            return True
        except Exception as error:  # the user's fingerprinter, say, may raise anything
            logger.exception("Seed %.200r is set aside", lease.payload)
            self._worker.fail(lease, f"{type(error).__name__}: {error}", traceback.format_exc())
            return True
        self._worker.finish(lease)
        return True

    def _drop(self, lease: Lease) -> None:
        """Drop a request because too many wait; found again, it is crawled."""
        request = self._decode(lease)
        if request is None:
            return
        try:
            fingerprint = str(self._fingerprint(request))
        except Exception as error:  # the user's fingerprinter may raise anything
            logger.exception("%s, which was to be dropped, is set aside", request)
            self._worker.fail(lease, f"{type(error).__name__}: {error}", traceback.format_exc())
            return
        # It may have been a start request: nothing in it tells. One that was not filtered, such as a retry,
        # is not the one that was marked as seen.
        if request.dont_filter:
            self._worker.releases.drop(lease, "start", f"{fingerprint}#1")
        else:
            self._worker.releases.drop(lease, "start+filter", fingerprint)
        self._worker.seen.discard(fingerprint)
        self._stats.inc_value("frontier/dropped")
        self._notices.warn_once(
            "dropped",
            "More than FRONTIER_MAX_WAITING (%d) requests wait: %s is dropped, which would have come last. "
            "It does not count as seen. More are only counted: frontier/dropped",
            *(self._settings.max_waiting, request),
        )
        self._crawler.signals.send_catch_log(signals.request_dropped, request=request, spider=self._spider)

    # -- what the exchange loop asks and tells ---------------------------------------------------

    def holds_start(self) -> bool:
        """Return whether ``start()`` should wait: there are enough requests, or nothing is to be begun."""
        enough = self._worker.is_full or len(self._worker.memory) >= self._settings.outbox_size
        held = enough or self._no_room or self._worker.told != Told.CRAWL or self._holds_lazy_start()
        return held and not self.closing

    def _holds_lazy_start(self) -> bool:
        """Return whether the downloader is not full only because what fills it is on its way.

        A ``start()`` that looks before each request whether the downloader is full
        (``engine.needs_backout()``) would else be read much further than that needs. One that has not
        looked once it was full never does.
        """
        assert self._engine is not None  # noqa: S101 - it asks
        if self._engine.backs_out():
            self._was_full = True
            return False
        if self._was_full and not self._engine.reads_lazily:
            return False
        worker = self._worker
        on_their_way = worker.outbox.unsettled + len(worker.ready)
        if not self._engine.reads_lazily:
            return on_their_way >= max(worker.target, self._settings.concurrency)
        waiting = self._last_reply.waiting if self._last_reply is not None else 0
        return on_their_way + waiting >= self._settings.concurrency - self._engine.downloading()

    def prepare(self) -> None:
        """Find out what the engine is through with, and give back what it will not begin."""
        if self._engine is not None:
            self._worker.finish_all_but(self._engine.in_progress())
            if not self._engine.reads_start():
                self._start_counts.clear()
            self.closing = self.closing or self._engine.closing()
        if self._worker.told == Told.PAUSE:
            self._worker.give_back()
        if self.closing:
            self._worker.give_back()
            if self._plain:
                while self._worker.memory:
                    request = self._worker.memory.popleft().request
                    self._worker.enqueue(Push("force", "", rank(request.priority), b""), request)
            self._lost += self._worker.forget_memory()

    def tick(self) -> None:
        """Take note that a moment has passed."""
        if self._engine is None:
            return
        self.sow_on()
        if self._worker.tick(self._engine.downloading()):
            self._engine.wake()
        self._farewell.look(self._engine)
        if not self.closing:
            self._standstill.look(self._last_reply, self._engine)

    def lost_with_this_worker(self) -> int:
        """Return how many requests were only in this worker's memory, and were not crawled."""
        return self._lost

    def wanted(self) -> int:
        """Return how many leases to have at hand."""
        if self.closing or self._worker.told != Told.CRAWL:
            return 0
        return self._worker.target if self.wanted_by_hand is None else self.wanted_by_hand

    def busy(self) -> bool:
        """Return whether this worker may add requests without holding any."""
        return self._engine is not None and self._engine.reads_start()

    def count_error(self) -> None:
        """Count an error of Redis, and do what can be done without it."""
        # What it said of the fleet no longer holds.
        self.finished.set(False)
        if not self._worker.cut_off:
            self._worker.cut_off = True
            if self._engine is not None:
                self._engine.wake()
        self._stats.inc_value("frontier/redis_errors")

    def began(self) -> None:
        """Take note that from now on requests may be begun."""
        self._standstill.begun()

    def withdraw_first(self, error: Exception) -> None:
        """Crawl the first request of the outbox from memory, because it cannot be sent to Redis."""
        first = self._worker.outbox.withdraw_first()
        size = len(first.push.payload)
        self._keep_from_redis(first.request, f"its {size} bytes cannot be sent to Redis: {one_line(error)}")

    def _adopt(self, orphans: list[Lease]) -> None:
        """Queue what this worker had ready, of a frontier that is no longer in Redis, anew."""
        for lease in orphans:
            if lease.kind not in ("request", "drop"):
                self._sow(lease)
                continue
            try:
                request = self._queue.decode_request(lease.payload)
                mode: Mode = "filter" if self._filters_in_exchange and not request.dont_filter else "force"
                push = Push(mode, self._fingerprint_of(request, mode), rank(request.priority), lease.payload)
            except Exception as error:  # whoever is leased it meets the same, and sets it aside
                logger.warning("An entry of %s is queued as it was: %s", self._queue.key, one_line(error))
                request, push = Request("data:,"), Push("force", "", 0, lease.payload)
            self._worker.enqueue(push, request)

    def take_reply(self, reply: Reply, latency: float, said: int | None = None) -> None:
        """Take in what the frontier answered."""
        told_before = self._worker.told
        self._last_reply = reply
        unbegun = len(self._worker.ready)
        settled = self._worker.settle(reply, latency, said)
        self._worker.cut_off = False
        if reply.told != told_before:
            self._obey(reply.told)
        self._no_room = bool(reply.full)
        # All that is this worker's first: statistics and signals run others' code, which may raise.
        self._worker.ready.extend(lease for lease in reply.leases if lease.kind == "request" or self.closing)
        self._keep(settled, reply)
        self._adopt(settled.orphans)
        for lease in reply.leases:
            if lease.kind == "drop" and not self.closing:
                self._drop(lease)
            elif lease.kind != "request" and not self.closing:
                self._sow(lease)
        self.sow_on()
        self.dropped = settled.duplicates
        self._stats.inc_value("frontier/exchanges")
        self._notices.reply(reply, unbegun)
        self._fullness.note(reply)
        self._note_pushed(settled)
        for request in self.dropped:
            self._notices.filtered(self._dupefilter, request, self._spider)
            self._crawler.signals.send_catch_log(
                signals.request_dropped, request=request, spider=self._spider
            )
        was_finished = self.finished.is_running
        self.finished.set(reply.finished and self._worker.is_quiet)
        news = self._worker.ready or self._worker.memory or self.finished.is_running != was_finished
        idle_is_over = self.finished.seconds >= self._settings.idle_before_close > 0
        if self._engine is not None and (news or idle_is_over or reply.told != told_before):
            self._engine.wake()

    def _obey(self, told: Told) -> None:
        """Take note that all workers are told something else than before."""
        self._standstill.begun()
        self._notices.told(told)
        if told == Told.STOP and self._engine is not None:
            self._engine.close("stopped")

    def _note_pushed(self, settled: Settled) -> None:
        for where, count in (("redis", len(settled.stored)), ("memory", len(settled.kept))):
            if count:
                self._stats.inc_value("scheduler/enqueued", count)
                self._stats.inc_value(f"scheduler/enqueued/{where}", count)

    def _keep(self, settled: Settled, reply: Reply) -> None:
        if self.closing and self._plain:
            self._lost += len(settled.kept)  # the queue has refused them: there is no other place
        else:
            self._worker.memory.extend(settled.kept)
        for request in reply.popped:
            push = Push("force", "", rank(request.priority), b"")
            self._worker.memory.append(Outgoing(push, request))
