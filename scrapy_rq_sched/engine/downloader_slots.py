"""The downloader's slots: their load, and their delays if the fleet keeps these."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.core import downloader as scrapy_downloader
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from ..codec.slot_limits import SlotLimits
from ..codec.slots import AssignedSlot, forget_assigned_slot, slot_name
from ..runtime.event_loop import EventLoop

#: The part of the fleet's delay that the downloader keeps by itself. This has an effect only if a request
#: does not go through the frontier, as for a robots.txt, or if this process was held up.
LOCAL_PART = 0.99
#: Seconds that a first connection to a host may take, unless the delay is longer.
CONNECTING = 1.0
#: Turns of the event loop until a request is sent, if it has a connection. In a busy process they take long.
TURNS = 3
#: The part of a delay by which a request may leave late and not delay the next one of its slot. Every request
#: of a busy process is a little late; to count this would lower the rate. Together with the worker's own
#: tolerance (KEPT in ``worker/grants.py``), a gap must not become shorter than 0.95 of the delay.
TOLERATED = 0.03
#: Number of remembered slots that have another name in the frontier than in Scrapy.
REMEMBERED = 10_000
#: A slot that no request has.
_UNUSED_SLOT = "scrapy-rq-sched:nobody"
#: The clock with which the downloader notes the time of a request: the wall clock in Scrapy 2.13.
_clock: Callable[[], float] = getattr(scrapy_downloader, "monotonic", time.time)


class _Leaving(NamedTuple):
    """A request of which it is not known when it is sent.

    :param its: the downloader's slot, and :param name: its name in the frontier.
    :param noted: the time that was noted.
    :param gap: the minimum seconds between two requests of the slot.
    """

    its: Any
    name: str
    noted: float
    gap: float

    def latest(self, now: float) -> float:
        """Return when it was sent at the latest, if it is sent *now*."""
        return max(min(now, self.noted), now - TOLERATED * self.gap)


class DownloaderSlots:
    """The slots of a running crawl's downloader.

    :param engine: the engine of the crawl.
    :param loop: the event loop.
    """

    def __init__(self, engine: Any, loop: EventLoop) -> None:
        self._engine = engine
        self._downloader = engine.downloader
        # Scrapy 2.13 requires the spider; later versions warn if it is passed.
        parameters = inspect.signature(self._downloader._get_slot).parameters
        self._wants_spider = (
            "spider" in parameters and parameters["spider"].default is inspect.Parameter.empty
        )
        # The downloader writes the key that this method returns into the request.
        self._key_of: Callable[[Request], str] = self._downloader.get_slot_key
        self._downloader.get_slot_key = self._mark_key
        self._enqueue = self._downloader._enqueue_request
        self._downloader._enqueue_request = self._hold_and_enqueue
        #: Returns a Deferred that fires when a request of a slot may be sent; None if it may be sent now.
        self.hold: Callable[[Request, str], Deferred[None] | None] = lambda request, slot: None
        self._loop = loop
        self._keys: dict[str, str] = {}
        # The slots with a delay that the fleet keeps, with the delay and the jitter that they had before.
        self._by_itself: dict[str, tuple[Any, float, Any]] = {}
        self._gap_of: Callable[[str], float | None] = lambda slot: None
        self._keeps_own: Callable[[str], bool] = lambda slot: False
        self._coming: Callable[[str], int] = lambda slot: 0
        self._reached: Callable[[Request, str, float, str], None] = lambda request, delayed, at, slot: None
        self._left: Callable[[Request, str], None] = lambda request, slot: None
        self._sent: Callable[[str, float, float], None] = lambda slot, latest, at: None
        # The requests of slots whose delay the fleet keeps, until it is known when they were sent: the slot,
        # its name, and the time that is presumed.
        self._leaving: dict[Request, _Leaving] = {}
        # When the downloader was given each request.
        self._reached_at: WeakKeyDictionary[Request, float] = WeakKeyDictionary()
        engine.signals.connect(self._on_reached, signals.request_reached_downloader)
        engine.signals.connect(self._on_left, signals.request_left_downloader)

    def watch(
        self,
        coming: Callable[[str], int],
        reached: Callable[[Request, str, float, str], None],
        left: Callable[[Request, str], None],
    ) -> None:
        """Tell a ledger of requests when the downloader gets a request, and when its download is over.

        :param coming: returns how many begun requests of a slot have not reached the downloader.
        :param reached: called for each request that is sent, with its slot if the fleet keeps a delay of the
            slot, the time, and its slot in any case.
        :param left: called for each request when its download is over, with the name of its slot.
        """
        self._coming, self._reached, self._left = coming, reached, left

    def follow(
        self,
        gap_of: Callable[[str], float | None],
        keeps_own: Callable[[str], bool],
        sent: Callable[[str, float, float], None],
    ) -> None:
        """Keep the downloader from adding its own delay to the delay that the fleet keeps for a slot.

        :param gap_of: returns the minimum number of seconds between two requests of a slot; None if the
            fleet does not keep its delay.
        :param keeps_own: returns whether the downloader must keep its own delay of a slot as well.
        :param sent: called once for each request of a slot with a delay, when it is known to be sent: with
            the slot, the time that *reached* of :meth:`watch` was given, and when it was sent at the latest.
        """
        self._gap_of, self._keeps_own, self._sent = gap_of, keeps_own, sent

    def ignore_queued(self, refuses: Callable[[str], bool], reason: str) -> None:
        """Let the requests that wait in the downloader, and that *refuses* returns true for, end at once."""
        for its in list(self._downloader.slots.values()):
            for queued in [entry for entry in its.queue if refuses(entry[0].url)]:
                its.queue.remove(queued)
                queued[1].errback(IgnoreRequest(reason))

    def by_settings(self) -> tuple[SlotLimits, dict[str, SlotLimits], frozenset[str]]:
        """Return the limits of slots in Scrapy's settings.

        :return: the default limits; those of the slots in ``DOWNLOAD_SLOTS``; and which of these slots have
            no delay of their own there.
        """
        named = self._downloader.per_slot_settings
        others = {slot_name(key): self._probe(key) for key in named}
        without = frozenset(slot_name(key) for key, its in named.items() if "delay" not in its)
        return self._probe(_UNUSED_SLOT), others, without

    @property
    def is_throttled(self) -> bool:
        """Whether Scrapy's AutoThrottle sets the delays."""
        return bool(self._downloader.settings.getbool("AUTOTHROTTLE_ENABLED"))

    def reached_at(self, request: Request) -> float:
        """Return when the downloader was given *request*, by the monotonic clock; now if it is not known."""
        return self._reached_at.get(request, time.monotonic())

    def load(self, slot: str) -> int | None:
        """Return how many requests of *slot* the downloader has or will have; None if it takes no more."""
        key = self._keys.get(slot, slot)
        its, load = self._downloader.slots.get(key), self._coming(slot)
        if its is not None:
            load += len(its.active)
        if not load:
            return 0
        limits = self._probe(key) if its is None else its
        # A request that waits in the downloader occupies a place of CONCURRENT_REQUESTS, which another slot
        # could use. A few waiting requests are enough for a download to begin as soon as another ends.
        most = 2 if limits.delay else limits.concurrency + max(1, limits.concurrency // 4)
        if self._gap_of(slot):
            # Each request has its own turn: a waiting request would be sent in the turn of another.
            most = limits.concurrency
        return load if load < most else None

    def _hold_and_enqueue(self, request: Request, *arguments: Any, **options: Any) -> Any:
        """Put *request* into the downloader, perhaps later. A coroutine; before Scrapy 2.14, a Deferred."""
        turn = self.hold(request, slot_name(str(self._mark_key(request))))
        if turn is None:
            return self._enqueue(request, *arguments, **options)

        def take_place(result: Any) -> Any:
            self._downloader.active.add(request)
            return result

        async def later() -> Any:
            # While it waits, a page that has its turn may need the downloader's place.
            self._downloader.active.discard(request)
            await maybe_deferred_to_future(turn.addBoth(take_place))
            response = self._enqueue(request, *arguments, **options)
            return await (maybe_deferred_to_future(response) if isinstance(response, Deferred) else response)

        return later() if inspect.iscoroutinefunction(self._enqueue) else deferred_from_coro(later())

    def _mark_key(self, request: Request) -> str:
        """Return the downloader's key for *request*, marked unless the user has set it."""
        if isinstance(request.meta.get("download_slot"), AssignedSlot):
            # It may be the key of the host that has redirected to this one.
            request = request.copy()
            forget_assigned_slot(request)
        key = self._key_of(request)
        return key if request.meta.get("download_slot") is not None else AssignedSlot(key)

    def _probe(self, key: str) -> SlotLimits:
        known = key in self._downloader.slots
        spider = (self._engine.spider,) if self._wants_spider else ()
        request = Request("http://example.com", meta={"download_slot": key})
        _, its = self._downloader._get_slot(request, *spider)
        if not known:
            del self._downloader.slots[key]
        # Before Scrapy 2.19, there is no jitter, but a flag for half of the delay.
        jitter = its.jitter if hasattr(its, "jitter") else 0.5 * bool(its.randomize_delay)
        return SlotLimits(its.delay, min(1.0, jitter), its.concurrency)

    def _on_reached(self, request: Request) -> None:
        key: Any = request.meta.get("download_slot")
        its, name, delayed, gap = self._downloader.slots.get(key), "", "", None
        if its is not None:
            name = slot_name(str(key))
            if name != key:
                if len(self._keys) >= REMEMBERED:
                    self._keys.clear()
                self._keys[name] = key
            gap = self._gap_of(name)
            # AutoThrottle goes on adjusting the slot's own delay.
            if not (gap and self._keeps_own(name) and its.delay >= LOCAL_PART * gap):
                self._set_delay(key, its, gap)
            delayed = name if gap else ""
        now = self._reached_at[request] = time.monotonic()
        # Other requests that came at the same time are sent before it, each after the delay.
        wait = 0.0 if its is None else its.lastseen - _clock() + its.delay * (1 + len(its.queue))
        wait = max(0.0, wait)
        if gap:
            if its.lastseen == 0:
                # It is sent when there is a connection, and Scrapy does not tell when that is. So the time of
                # its answer counts, unless the answer takes too long.
                wait = max(gap, CONNECTING)
            self._leaving[request] = _Leaving(its, delayed, now + wait, gap)
            self._look_after(wait, request)
        self._reached(request, delayed, now + wait, name)

    def _look_after(self, wait: float, request: Request) -> None:
        """Look in *wait* seconds, and some turns of the event loop, whether *request* has left."""
        look = partial(self._has_left, request, self._leaving[request])
        self._loop.call_later(wait, partial(self._after_turns, TURNS, look))

    def _has_left(self, request: Request, leaving: _Leaving) -> None:
        """Note that a request is sent by now, unless it still waits in the downloader.

        It was sent late if something held up the event loop. It still waits if something held up its slot.
        """
        if self._leaving.get(request) is not leaving:
            return
        its, gap = leaving.its, leaving.gap
        place = next((place for place, (queued, *_) in enumerate(its.queue) if queued is request), None)
        if place is not None:
            # The next one may be sent when the delay is over, or when a place is free, which nothing tells.
            self._look_after(place * gap + max(gap / 4, its.lastseen - _clock() + its.delay), request)
            return
        del self._leaving[request]
        self._was_sent(leaving, leaving.latest(time.monotonic()))

    def _was_sent(self, leaving: _Leaving, at: float) -> None:
        """Note that a request was sent until *at*, and not at the time that was noted."""
        its = leaving.its
        its.lastseen = max(its.lastseen, _clock() - (time.monotonic() - at))
        self._sent(leaving.name, leaving.noted, at)

    def _after_turns(self, turns: int, call: Callable[[], None]) -> None:
        """Call *call* after so many more turns of the event loop."""
        if turns:
            self._loop.call_later(0, partial(self._after_turns, turns - 1, call))
        else:
            call()

    def _set_delay(self, key: str, its: Any, gap: float | None) -> None:
        """Make the downloader keep a part of *gap* for a slot; None restores the slot's own delay."""
        # Before Scrapy 2.19, there is no jitter, but a flag for half of the delay.
        jitter = "jitter" if hasattr(its, "jitter") else "randomize_delay"
        known, delay, its_jitter = self._by_itself.get(key, (None, 0.0, 0.0))
        if gap is not None:
            if known is not its:
                if len(self._by_itself) >= REMEMBERED:
                    self._by_itself.clear()
                self._by_itself[key] = its, its.delay, getattr(its, jitter)
            its.delay = LOCAL_PART * gap
            setattr(its, jitter, 0.0)
        elif known is its:
            del self._by_itself[key]
            its.delay = delay
            setattr(its, jitter, its_jitter)

    def _on_left(self, request: Request) -> None:
        leaving = self._leaving.pop(request, None)
        if leaving is not None:
            self._was_sent(leaving, leaving.latest(time.monotonic()))
        self._left(request, slot_name(str(request.meta.get("download_slot", ""))))
