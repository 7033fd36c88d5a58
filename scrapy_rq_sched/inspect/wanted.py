"""How many workers a crawl could use: what an autoscaler asks."""

from __future__ import annotations

import math

from .status import Status

#: Seconds in which so many workers as are wanted should be through with what waits now.
WITHIN = 600
#: At this share of the requests that the delays of slots allow, more workers would not help.
NEAR_THE_LIMIT = 0.8


def workers_wanted(status: Status, delay: float) -> int:
    """Return how many workers the crawl of *status* could use.

    :param delay: seconds between two requests to a slot that has no limits of its own; 0: there is none.
    """
    left = status.waiting + status.leased + status.delayed + status.seeds
    if status.state in ("new", "stopped"):
        wanted = min(1, left)
    elif status.state == "crawling":
        wanted = status.alive if _is_limited(status, delay) else _for(left, status)
    else:
        # Paused or drained, more workers would wait as well; else there is nothing to do.
        wanted = status.alive if status.state in ("paused", "draining") else 0
    return min(wanted, status.max_workers) if status.max_workers else wanted


def _is_limited(status: Status, delay: float) -> bool:
    allowed = status.slots / delay if delay else math.inf
    return status.limit in ("politeness", "redis") or status.per_second >= NEAR_THE_LIMIT * allowed


def _for(left: int, status: Status) -> int:
    if not status.per_second:  # it has just begun: nobody knows how fast a worker is
        return max(1, status.alive)
    a_worker = status.per_second / max(1, status.alive)
    return max(1, math.ceil(left / (a_worker * WITHIN)))
