"""Calculate the number of workers that a crawl could use, for an autoscaler."""

from __future__ import annotations

import math

from .status import Status

#: Seconds in which the wanted number of workers should finish all requests that wait now.
WITHIN = 600
#: If the crawl reaches this share of the rate that the slots' delays allow, more workers would not help.
NEAR_THE_LIMIT = 0.8


def workers_wanted(status: Status, delay: float) -> int:
    """Return the number of workers that the crawl of *status* could use.

    :param delay: the default delay of slots, in seconds; 0: no delay.
    """
    left = status.left
    if status.state in ("new", "stopped"):
        wanted = min(1, left)
    elif status.state == "crawling":
        wanted = status.alive if _is_limited(status, delay) else _for(left, status)
    else:
        # If the crawl is paused or drained, further workers would only wait; in other states it has no work.
        wanted = status.alive if status.state in ("paused", "draining") else 0
    return min(wanted, status.max_workers) if status.max_workers else wanted


def _is_limited(status: Status, delay: float) -> bool:
    if status.limit in ("politeness", "redis", "needs", "pool"):
        return True
    allowed = status.slots / delay if delay else math.inf
    return status.per_second >= NEAR_THE_LIMIT * allowed


def _for(left: int, status: Status) -> int:
    if not status.per_second:  # the crawl has just begun: the speed of a worker is unknown
        return max(1, status.alive)
    a_worker = status.per_second / max(1, status.alive)
    return max(1, math.ceil(left / (a_worker * WITHIN)))
