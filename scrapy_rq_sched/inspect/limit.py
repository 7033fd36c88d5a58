"""Find out the limit of a crawl's speed, and put it into words."""

from __future__ import annotations

from collections import Counter

from ..frontier.messages import BottleneckName
from .status import Status

#: What each limit means, and whether more workers would help.
LIMITS: dict[BottleneckName, str] = {
    "politeness": "politeness: the delays, blocks and concurrency of the hosts; more workers would not help",
    "callbacks": "callbacks: they use up the workers' time; more workers would help, on other cores",
    "concurrency": "CONCURRENT_REQUESTS: all workers have as many downloads; a higher value or more workers "
    "would help",
    "redis": "redis: the workers wait for it; more workers would not help",
    "needs": "needs: what waits is for workers that offer what it needs (FRONTIER_OFFERS); more of these "
    "would help",
    "pool": "pool: what waits needs items of pools (FRONTIER_POOLS), which are in use, rest or are retired; "
    "more items would help",
    "none": "no known limit",
}


def limit_of(status: Status) -> BottleneckName:
    """Return the limit that at least half of the live workers report."""
    if status.state != "crawling":
        return "none"
    if status.next_turn_in > 0:  # all waiting requests are delayed, so the workers' reports do not matter
        return "politeness"
    votes = Counter(worker.limit for worker in status.workers if worker.alive)
    for cause, count in votes.most_common(1):
        if 2 * count >= status.alive:
            return cause
    return "none"
