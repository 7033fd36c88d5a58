"""The time left of a crawl that only politeness limits: that of the slot that needs longest.

Redis knows exactly how many requests of a slot wait, and how long after each other they may begin.
"""

from __future__ import annotations

import math
from dataclasses import replace
from heapq import nlargest

from ..codec.values import text_of
from ..errors import FrontierError
from .pools import awaited
from .slots import Slots, SlotStatus
from .status import Status
from .view import View

#: The slots that are looked at, at most: to count the requests of more takes Redis too long. And how many of
#: them, those with the most requests, are asked for their limits.
MOST_SLOTS, LARGEST = 100, 3


def with_time_left(view: View, status: Status) -> Status:
    """Return *status* with the time left, if politeness or a pool limits the crawl; else unchanged.

    It is unknown while the slots with the most requests are blocked, or while all items of a pool are retired
    for which requests wait.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    unusable = {pool.name for pool in status.pools if pool.items == pool.retired}
    if unusable and status.seconds_left_at_least is not None and unusable & awaited(view):
        return replace(status, seconds_left=None, seconds_left_at_least=None)
    if status.limit != "politeness" or not 0 < status.slots <= MOST_SLOTS:
        return status
    try:
        largest = list(Slots(view).read(_largest(view)))
    except FrontierError:  # the queue is a custom class, which has no slots of ours
        return status
    waiting = [slot for slot in largest if slot.waiting]
    if waiting and all(slot.blocked_for for slot in waiting):
        return replace(status, seconds_left=None, seconds_left_at_least=None)
    longest = max(map(_seconds, waiting), default=0.0)
    at_least = status.seconds_left_at_least
    return replace(
        status,
        seconds_left=None if status.seconds_left is None else longest or status.seconds_left,
        seconds_left_at_least=None if at_least is None else max(longest, at_least),
    )


def _largest(view: View) -> list[str]:
    """Return the slots with the most waiting requests."""
    pipe, keys = view.pipeline(), view.keys
    pipe.zrange(keys.slots, 0, MOST_SLOTS - 1)
    names = [text_of(name) for name in pipe.execute()[0]]
    for name in names:
        (pipe.zcard if view.is_sorted else pipe.llen)(keys.queue(name))
    # A key of another type, which another program has written, has no requests.
    replies = pipe.execute(raise_on_error=False)
    counts = {name: count for name, count in zip(names, replies, strict=True) if isinstance(count, int)}
    return nlargest(LARGEST, counts, key=lambda name: counts[name])


def _seconds(slot: SlotStatus) -> float:
    """Return how many seconds the waiting requests of *slot* take at least."""
    delay = slot.delay or 0.0
    return max(slot.blocked_for, slot.next_in if math.isfinite(slot.next_in) else 0.0) + slot.waiting * delay
