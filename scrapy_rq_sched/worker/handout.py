"""From leases to requests: the engine gets the next request that may begin."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Any

from scrapy import Request

from ..codec.slots import slot_of
from ..errors import PayloadError, UnknownCodeError, UnserializableRequestError, described, one_line
from ..frontier.messages import Push, rank
from ..frontier.replies import Lease
from .admission import Admission, Capacity, Granted
from .deny_list import DenyList
from .log.notices import Notices
from .needs import Needs
from .ready import Block, Cause, Timed
from .slots import Politeness
from .state import State

logger = logging.getLogger(__name__)


class Handout:
    """Hand out the ready requests.

    :param fingerprint: returns a request's fingerprint.
    :param politeness: the limits of slots.
    :param admission: decides which request may begin.
    :param denies: the deny-list.
    :param needs: decides whether this worker may crawl a request.
    """

    def __init__(
        self,
        state: State,
        capacity: Capacity,
        queue: Any,
        fingerprint: Any,
        notices: Notices,
        politeness: Politeness,
        admission: Admission,
        denies: DenyList,
        needs: Needs,
    ) -> None:
        self._state = state
        self._capacity = capacity
        self._queue = queue
        self._fingerprint = fingerprint
        self._notices = notices
        self._politeness = politeness
        self._admission = admission
        self._denies = denies
        self._needs = needs

    def take(self) -> Request | None:
        """Return the next request, which the engine then holds, or None."""
        while True:
            now = time.monotonic()
            found = self._admission.next(now)
            if isinstance(found, Block):
                self._note(found, now)
                return None
            if isinstance(found, Granted):
                request = self._begin_from_memory(found, now)
            else:
                request = self._begin_lease(found, now)
            if request is not None:
                self._capacity.begun()
                return request

    def _note(self, block: Block, now: float) -> None:
        """Do what ends *block*, or log it."""
        if block.cause is Cause.ROOM and self._state.items.is_full:
            self._notices.items_are_full(self._state.items.size)
        elif block.cause is Cause.ROOM:
            self._notices.outbox_is_full(len(self._state.outbox))
        elif block.cause is Cause.SUSPECT and (head := self._state.ready.next(now)) is not None:
            self._state.start_reports.announce(head.lease)

    def _begin_lease(self, timed: Timed, now: float) -> Request | None:
        """Begin a lease; return its request, or None if it was not for this worker, or not for now."""
        state, lease = self._state, timed.lease
        state.ready.remove(timed)
        made = self._decode(lease)
        if made is None:
            state.grants.returned(lease)
            return None
        if self._denies.refuses(made.url):
            # It is crawled if it is found again after the operator has allowed it.
            self._forget(lease, made)
            state.grants.returned(lease)
            return None
        if self._is_elsewhere(lease, made):
            return None
        state.groups.begins(made)
        try:
            state.pools.begins(made, lease)
        except ValueError as error:
            state.pools.finished(made)
            state.fail(lease, str(error))
            state.grants.returned(lease)
            return None
        has_grant = lease.begin > 0
        state.begin(made, lease, lease.slot, has_grant)
        if has_grant:
            state.grants.begun(lease.slot, timed.at, now)
        return made

    def _begin_from_memory(self, granted: Granted, now: float) -> Request | None:
        """Begin a request from this worker's memory, and return it."""
        state, slot = self._state, granted.slot
        outgoing = state.memory.take(slot) if slot else state.memory.take_free()
        if outgoing is None:
            return None
        request, push = outgoing.request, outgoing.push
        if self._denies.refuses(request.url) or self._needs.refuses_in_memory(request):
            self._drop_from_memory(push, slot)
            return None
        try:
            state.pools.begins(request, None)
        except ValueError as error:
            state.pools.finished(request)
            state.pools.refuse(request, str(error))
            self._drop_from_memory(push, slot)
            return None
        state.groups.cannot_wait(request, push.after)
        state.groups.begins(request, push.member)
        state.begin(request, None, push.slot, has_grant=bool(slot))
        if slot:
            state.grants.begun(slot, granted.at, now)
        return request

    def _drop_from_memory(self, push: Push, slot: str) -> None:
        """Note that a request from this worker's memory is not crawled."""
        self._state.releases.forget(push.mode, push.fingerprint)
        self._state.groups.left(push.member)
        if slot:
            self._state.grants.unused(Counter({slot: 1}))

    def _is_elsewhere(self, lease: Lease, request: Request) -> bool:
        """Move *request* to its place if it was queued elsewhere, by another program or version.

        That is the queue of its slot, if its lease has no slot, but its slot has limits; or the lane of its
        needs, if this worker does not offer what it needs; or of its pool, if it came without an item.

        :return: whether it was moved, or set aside because it cannot be.
        """
        try:
            lacking = self._needs.lacking(request) or self._state.pools.lacks_item(request, lease)
            lane = self._state.pools.lane(request, self._needs.lane(request)) if lacking else lease.lane
            slot = lease.slot or slot_of(request)
            if not lacking and (lease.slot or not self._politeness.needs_turns(slot)):
                return False
            groups, _, member = self._state.groups.of(request)
            payload = lease.payload
            if groups:
                # The release of the lease removes the bytes of before from the group.
                payload = bytes(self._queue.encode_request(request, unique=True))
        except (ValueError, UnserializableRequestError) as error:
            self._state.fail(lease, str(error))
            self._state.grants.returned(lease)
            return True
        # The request is stored there before its lease is released. It was counted as a page before.
        push = Push(
            *("force", "", rank(request.priority), payload, slot),
            continues="page",
            lane=lane,
            groups=groups,
            member=member,
        )
        self._state.enqueue(push, request)
        self._state.finish(lease)
        self._state.grants.returned(lease)
        return True

    def drop(self, lease: Lease) -> Request | None:
        """Drop a request because too many wait. It is crawled if it is found again.

        :return: the request; None if it could not be dropped, and was set aside or left to another worker.
        """
        request = self._decode(lease)
        return request if request is not None and self._forget(lease, request) else None

    def _forget(self, lease: Lease, request: Request) -> bool:
        """Finish *lease* without crawling it, and let its request not count as seen.

        :return: whether that was possible; else it is set aside.
        """
        try:
            fingerprint = str(self._fingerprint(request))
        except Exception as error:  # the user's fingerprinter may raise any exception
            logger.exception("%s cannot be dropped, and is moved to the failed list", request)
            self._state.fail(lease, *described(error))
            return False
        # The request does not show whether it was a start request, so it is treated as one. If it was not
        # filtered, such as a retry, its fingerprint is not marked as seen.
        if request.dont_filter:
            self._state.releases.drop(lease, "start", f"{fingerprint}#1")
        else:
            self._state.releases.drop(lease, "start+filter", fingerprint)
        self._state.seen.discard(fingerprint)
        return True

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
