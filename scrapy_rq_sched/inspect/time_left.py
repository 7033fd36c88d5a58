"""The time left of a crawl, where the speed of the last seconds does not tell it.

If only politeness limits the crawl, it is that of the slot that needs longest: Redis knows exactly how many
requests of a slot wait, and how long after each other they may begin. If requests wait for an item of a pool,
and no item is usable any more, it is unknown.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..errors import FrontierError
from .pools import awaited
from .queues import Queues
from .slots import Slots, SlotStatus
from .status import Status
from .view import View

#: Slots that are read, at most: more of them would take Redis too long.
MOST_SLOTS = 200


def with_time_left(view: View, status: Status) -> Status:
    """Return *status* with the time left, if politeness or a pool limits the crawl; else unchanged.

    No time is known if all slots are blocked, or all items of a pool for which requests wait are retired.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    unusable = {pool.name for pool in status.pools if pool.items == pool.retired}
    if unusable and status.seconds_left_at_least is not None and unusable & awaited(view):
        return replace(status, seconds_left=None, seconds_left_at_least=None)
    if status.limit != "politeness" or not 0 < status.slots <= MOST_SLOTS:
        return status
    try:
        found = list(Slots(view).read(name for name in Queues(view).slots() if name))
    except FrontierError:  # the queue is a custom class, which has no slots of ours
        return status
    waiting = [slot for slot in found if slot.waiting]
    if waiting and all(slot.blocked_for for slot in waiting):
        return replace(status, seconds_left=None, seconds_left_at_least=None)
    longest = max(map(_seconds, waiting), default=0.0)
    at_least = status.seconds_left_at_least
    return replace(
        status,
        seconds_left=None if status.seconds_left is None else longest or status.seconds_left,
        seconds_left_at_least=None if at_least is None else max(longest, at_least),
    )


def _seconds(slot: SlotStatus) -> float:
    """Return how many seconds the waiting requests of *slot* take at least."""
    delay = slot.delay or 0.0
    return max(slot.blocked_for, slot.next_in if math.isfinite(slot.next_in) else 0.0) + slot.waiting * delay
