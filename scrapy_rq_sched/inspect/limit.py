"""Find out the limit of a crawl's speed."""

from __future__ import annotations

from collections import Counter

from ..frontier.messages import Limit
from .status import Status


def limit_of(status: Status) -> Limit:
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
