"""The time left of a crawl: not less than that of the slot that needs longest.

Redis knows exactly how many requests of a slot wait, how long after each other they may begin, and how long a
block lasts. If only politeness limits the crawl, this is its time left.
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
#: them are asked for their limits: of those with the most requests, and of those with the latest turns.
MOST_SLOTS, LARGEST = 100, 3


def with_time_left(view: View, status: Status) -> Status:
    """Return *status* with the time left that the slots and the pools leave to it.

    It is unknown while the slots with the most requests are blocked, or while all items of a pool are retired
    for which requests wait.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    unusable = {pool.name for pool in status.pools if pool.items == pool.retired}
    if unusable and status.seconds_left_at_least is not None and unusable & awaited(view):
        return replace(status, seconds_left=None, seconds_left_at_least=None)
    if status.seconds_left_at_least is None or not 0 < status.slots <= MOST_SLOTS:
        return status
    try:
        largest = list(Slots(view).read(_slowest(view)))
    except FrontierError:  # the queue is a custom class, which has no slots of ours
        return status
    waiting = [slot for slot in largest if slot.waiting]
    if waiting and all(slot.blocked_for for slot in waiting):
        return replace(status, seconds_left=None, seconds_left_at_least=None)
    longest = max(map(_seconds, waiting), default=0.0)
    left = status.seconds_left
    if left is not None:
        left = longest if longest and status.limit == "politeness" else max(longest, left)
    return replace(
        status, seconds_left=left, seconds_left_at_least=max(longest, status.seconds_left_at_least)
    )


def _slowest(view: View) -> list[str]:
    """Return the slots with the most waiting requests, and those whose next turn is the latest."""
    pipe, keys = view.pipeline(), view.keys
    pipe.zrange(keys.slots, 0, MOST_SLOTS - 1, withscores=True)
    turns = {text_of(name): score for name, score in pipe.execute()[0]}
    for name in turns:
        (pipe.zcard if view.is_sorted else pipe.llen)(keys.queue(name))
    # A key of another type, which another program has written, has no requests.
    replies = pipe.execute(raise_on_error=False)
    counts = {name: count for name, count in zip(turns, replies, strict=True) if isinstance(count, int)}
    latest = nlargest(LARGEST, counts, key=lambda name: turns[name])
    return [*dict.fromkeys((*nlargest(LARGEST, counts, key=lambda name: counts[name]), *latest))]


def _seconds(slot: SlotStatus) -> float:
    """Return how many seconds it takes at least until the last request of *slot* begins."""
    delay = slot.delay or 0.0
    return (
        max(slot.blocked_for, slot.next_in if math.isfinite(slot.next_in) else 0.0)
        + max(0, slot.waiting - 1) * delay
    )
