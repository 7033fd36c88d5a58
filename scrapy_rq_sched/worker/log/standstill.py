"""One log line with the reason why no request has begun for a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from ...codec.names import shown
from ...engine.bridge import EngineBridge
from ...errors import counted, frontier_command, one_line
from ...frontier.replies import Order, Reply
from ...settings import FrontierSettings
from ..admission import Admission, Capacity
from ..ready import Cause
from ..state import State

logger = logging.getLogger(__name__)

#: Seconds without a begun request after which the reason is logged, and seconds until it is repeated.
AFTER, AGAIN = 10.0, 60.0


class Standstill:
    """Note when requests are begun, and log the reason if no request is begun.

    :param spider: the spider's name.
    :param seeds_keys: the keys of the seeds.
    """

    def __init__(
        self,
        state: State,
        capacity: Capacity,
        admission: Admission,
        settings: FrontierSettings,
        spider: str,
        seeds_keys: Sequence[str],
    ) -> None:
        self._state = state
        self._capacity = capacity
        self._admission = admission
        self._spider = spider
        self._settings = settings
        self._seeds_keys = seeds_keys
        self._since = time.monotonic()
        self._logged: tuple[float, str] = (0.0, "")

    def begun(self) -> None:
        """Note that a request was begun, or that requests may begin from now on."""
        self._since = time.monotonic()
        self._logged = (0.0, "")

    def look(self, reply: Reply | None, engine: EngineBridge) -> None:
        """Log the reason if no request was begun for a while, unless it was logged recently.

        An outage of Redis has its own log lines.
        """
        now = time.monotonic()
        if now - self._since < AFTER or self._capacity.cut_off:
            return
        kind, reason = self.reason(reply, engine.downloading(), engine.backs_out())
        if kind == self._logged[1] and (now - self._logged[0] < AGAIN or kind == "seeds"):
            return
        self._logged = now, kind
        logger.info("This worker has begun no request for %.0f s: %s", now - self._since, reason)

    def reason(self, reply: Reply | None, downloading: int, backs_out: str) -> tuple[str, str]:
        """Return why no request is begun, in one word and in one sentence.

        :param downloading: how many requests the downloader has.
        :param backs_out: the part that keeps the engine from asking for requests; empty if the engine asks.
        """
        state = self._state
        if reply is None:
            return "first", "Redis has not answered yet"
        waiting = counted(reply.waiting, "request is", "requests are")
        if state.order == Order.WAIT:
            return (
                "place",
                "another worker has taken the place of this one, which waits in line (FRONTIER_MAX_WORKERS)",
            )
        if state.order == Order.ITEM:
            return "item", (
                f"it needs an item of pool {reply.lacks_item!r} for its life, and all are in use, rest or "
                f"are retired. To see them, run: {frontier_command('pool', self._spider)}"
            )
        if state.order != Order.CRAWL:
            return state.order.value, (
                f"the crawl is {'paused' if state.order == Order.PAUSE else 'drained'}, and {waiting} in the "
                f"queue. To resume, run: {frontier_command('resume', self._spider)}"
            )
        block = self._admission.block(time.monotonic())
        if (block is not None and block.cause is Cause.ROOM) or self._admission.stands_still:
            why = {
                "memory": "Redis is out of memory",
                "bound": "the queue has reached FRONTIER_MAX_WAITING",
            }
            return "full", (
                f"{counted(len(state.outbox), 'request is', 'requests are')} in the outbox "
                f"(FRONTIER_OUTBOX_SIZE is {self._settings.outbox_size}), because "
                f"{why.get(reply.full, 'Redis stores them too slowly')}"
            )
        if not reply.replicated:
            return "replicas", (
                f"{counted(state.releases.not_sent, 'finished request waits', 'finished requests wait')} "
                "until the new requests of these pages are on "
                f"{counted(self._settings.wait_replicas, 'replica')} (FRONTIER_WAIT_REPLICAS)"
            )
        if backs_out == "engine":
            return backs_out, "the engine is still opening the spider"
        if backs_out:
            return backs_out, f"the {backs_out} is full, with {counted(downloading, 'download')} in progress"
        if reply.why == "needs" and not state.requests.leased:
            return "needs", (
                f"{waiting} in the queue, but for workers that offer what they need (FRONTIER_OFFERS), and "
                f"this worker offers {shown(self._settings.offers) or 'nothing'}"
            )
        if reply.why == "pool" and not state.requests.leased:
            return "pool", (
                f"{waiting} in the queue, and all items of their pools are in use, rest or are retired. To "
                f"see them, run: {frontier_command('pool', self._spider)}"
            )
        if reply.owner and not state.requests.leased:
            return "owner", (
                f"{waiting} in the queue of one slot, and worker {one_line(reply.owner)} begins them, "
                "because all workers together keep the slot's delay; more workers would not help. To let "
                "each worker keep the delay by itself, as scrapy-redis does, set FRONTIER_FLEET_LIMITS to []"
            )
        if reply.slots and not state.requests.leased:
            return "polite", f"{self._politeness(reply)}; more workers would not help"
        if state.requests.leased or state.ready:
            begun = counted(state.requests.leased, "request")
            return "held", (
                f"this worker has begun {begun}, {downloading} of them in the downloader, and has "
                f"{len(state.ready)} more ready"
            )
        if reply.waiting:
            return "share", f"{waiting} in the queue, but this worker was given none"
        if reply.leased:
            return "leased", (
                f"the queue is empty; {counted(reply.leased, 'request is', 'requests are')} leased to "
                f"{counted(reply.workers, 'worker')}. The requests of a dead worker go back to the queue "
                f"{self._settings.lease_timeout:g} s after its last exchange"
            )
        if reply.parked > reply.later:
            left = reply.parked - reply.later
            return "delayed", (
                f"{counted(left, 'request is', 'requests are')} left for another worker, because "
                "this one lacks the code for them, or because workers died of them"
            )
        if reply.later:
            return "later", (
                f"{counted(reply.later, 'request waits', 'requests wait')} for their time; the first may "
                f"begin in {self._until(reply.next_parked)}"
            )
        if reply.busy:
            busy = counted(
                reply.busy, "worker still reads start(), or has", "workers still read start(), or have"
            )
            return "busy", f"the queue is empty; {busy} requests that are not in Redis"
        return (
            "seeds",
            f"the queue is empty, and this worker waits for seeds in {' and '.join(self._seeds_keys)}",
        )

    def _politeness(self, reply: Reply) -> str:
        turn = reply.next_turn if reply.next_turn is not None else reply.now
        return (
            f"the crawl is limited by politeness: {counted(reply.waiting, 'request')} of "
            f"{counted(reply.slots, 'slot')} must wait, the next one for {self._until(turn)}"
        )

    def _until(self, server: float | None) -> str:
        """Return for how long a request waits until *server*, a time of the server in milliseconds."""
        wait = max(0.0, self._state.clock.local(server or 0.0) - time.monotonic())
        return f"{wait:.0f} s" if wait >= 1 else "less than a second"
