"""From leases to requests: the engine gets the next request that may begin."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

from scrapy import Request

from ..codec.slots import slot_of
from ..engine.bridge import EngineBridge
from ..errors import PayloadError, UnknownCodeError, described, one_line
from ..frontier.messages import Push, rank
from ..frontier.replies import Lease
from ..frontier.slot_limits import UNLIMITED
from ..settings import FrontierSettings
from .limits import Limits
from .log.notices import Notices
from .politeness import Politeness
from .ready import Timed
from .state import State

logger = logging.getLogger(__name__)


class Handout:
    """Hand out the ready requests.

    :param fingerprint: returns a request's fingerprint.
    :param politeness: the limits of slots.
    :param engine: the engine that drives the crawl, or None if the scheduler is driven by hand; then the
        number of begun requests has no limit.
    """

    def __init__(
        self,
        state: State,
        limits: Limits,
        queue: Any,
        fingerprint: Any,
        notices: Notices,
        engine: EngineBridge | None,
        politeness: Politeness,
        settings: FrontierSettings,
    ) -> None:
        self._state = state
        self._limits = limits
        self._queue = queue
        self._fingerprint = fingerprint
        self._notices = notices
        self._engine = engine
        self._politeness = politeness
        self._by_priority = settings.order == "priority"
        self._lease_timeout = settings.lease_timeout

    def take(self) -> Request | None:
        """Return the next request, which the engine then holds, or None."""
        state = self._state
        if self._limits.is_full:
            self._notices.outbox_is_full(len(state.outbox))
            return None
        if state.memory and not state.told.begins_nothing:
            request = self._from_memory()
            if request is not None:
                self._limits.begun()
                return request
        while state.ready:
            if not (self._engine is None or self._limits.has_capacity):
                return None
            now = time.monotonic()
            timed = state.ready.next(lambda head: self._load(head, now))  # noqa: B023 - called at once
            if timed is None or not state.beginnings.may_begin(timed.lease):
                return None
            state.ready.remove(timed)
            made = self._decode(timed.lease)
            if made is not None and self._has_to_wait_by_slot(timed.lease, made):
                continue
            if made is not None:
                slot, has_grant = timed.lease.slot, timed.lease.begin > 0
                state.begin(made, timed.lease, slot, has_grant)
                if has_grant:
                    state.turns.begun(slot, timed.at, now)
                self._limits.begun()
                return made
            state.turns.returned(timed.lease)
        return None

    def _from_memory(self) -> Request | None:
        """Return the next request in this worker's memory that may begin, or None."""
        state, now = self._state, time.monotonic()
        outgoing, has_grant = state.memory.take_free(), False
        if outgoing is None:
            if not (self._engine is None or self._limits.has_capacity):
                return None
            due = (
                (slot, at)
                for slot, at in state.memory.turns()
                if self._is_time(slot, at, now) and state.ready.takes(slot)
            )
            slot, at = next(due, ("", 0.0))
            if not slot:
                return None
            outgoing, has_grant = state.memory.take(slot), True
            state.turns.begun(slot, at, now)
        state.begin(outgoing.request, None, outgoing.push.slot, has_grant)
        return outgoing.request

    def _has_to_wait_by_slot(self, lease: Lease, request: Request) -> bool:
        """Move *request* to the queue of its slot, if its lease has no slot, but its slot has limits.

        :return: whether it was moved.
        """
        if lease.slot:
            return False
        slot = slot_of(request)
        if self._politeness.of(slot) == UNLIMITED:
            return False
        # The request is stored there before its lease is released.
        self._state.enqueue(Push("force", "", rank(request.priority), lease.payload, slot), request)
        self._state.finish(lease)
        return True

    def next_time(self, now: float) -> float | None:
        """Return when the next delayed request of this worker may be begun, or None."""
        return min((at for at in self._times() if at > now), default=None)

    def has_due(self, now: float) -> bool:
        """Return whether this worker has a request that may be begun now."""
        return any(at <= now for at in self._times())

    def _times(self) -> Iterator[float]:
        state = self._state
        leases = ((head.lease.slot, head.at) for head in state.ready.heads())
        for slot, at in chain(leases, state.memory.turns()):
            yield self._earliest(slot, at) if at else 0.0

    def _is_time(self, slot: str, at: float, now: float) -> bool:
        """Return whether a turn may be used now.

        A very late turn goes back, because another worker may have it by now.
        """
        if not at:
            return True
        return self._late(now) <= at and self._earliest(slot, at) <= now

    def _earliest(self, slot: str, at: float) -> float:
        # If this worker's settings have no delay for the slot, the settings of another worker have one.
        gap = self._politeness.gap_of(slot) if self._politeness.of(slot).delay else None
        return self._state.turns.earliest(slot, at, gap)

    def _late(self, now: float) -> float:
        return now - self._lease_timeout / 2

    def _load(self, head: Timed, now: float) -> int | None:
        """Return how many requests of its slot are being downloaded; None if *head* must not begin now."""
        if not self._is_time(head.lease.slot, head.at, now):
            return None
        load = 0 if self._engine is None else self._engine.slots.load(head.lease.slot)
        return 0 if load and self._by_priority else load

    def drop(self, lease: Lease) -> Request | None:
        """Drop a request because too many wait. It is crawled if it is found again.

        :return: the request; None if it could not be dropped, and was set aside or left to another worker.
        """
        request = self._decode(lease)
        if request is None:
            return None
        try:
            fingerprint = str(self._fingerprint(request))
        except Exception as error:  # the user's fingerprinter may raise any exception
            logger.exception("%s cannot be dropped, and is moved to the failed list", request)
            self._state.fail(lease, *described(error))
            return None
        # The request does not show whether it was a start request, so it is treated as one. If it was not
        # filtered, such as a retry, its fingerprint is not marked as seen.
        if request.dont_filter:
            self._state.releases.drop(lease, "start", f"{fingerprint}#1")
        else:
            self._state.releases.drop(lease, "start+filter", fingerprint)
        self._state.seen.discard(fingerprint)
        return request

    def refuse(self, lease: Lease, error: UnknownCodeError) -> None:
        """Leave *lease* to another worker, because this worker lacks code for it."""
        self._notices.refused("request" if lease.kind in ("request", "drop") else "seed", error)
        self._state.releases.refuse(lease, str(error))

    def _decode(self, lease: Lease) -> Request | None:
        """Return the request of *lease*; None if it was left to another worker, or set aside."""
        try:
            made: Request = self._queue.decode_request(lease.payload)
        except UnknownCodeError as error:
            self.refuse(lease, error)
        except PayloadError as error:
            logger.error(
                "An entry of %s cannot be read, and is moved to the failed list: %s",
                *(self._queue.key, one_line(error)),
            )
            self._state.fail(lease, str(error))
        except Exception as error:  # the user's queue class may raise any exception
            logger.exception(
                "An entry of %s cannot be read, and is moved to the failed list", self._queue.key
            )
            self._state.fail(lease, *described(error))
        else:
            return made
        return None
