"""What keeps a crawl from going faster."""

from __future__ import annotations

from collections import Counter

from ..frontier.messages import Limit
from .status import Status


def limit_of(status: Status) -> Limit:
    """Return what keeps a crawl from going faster now: what at least half of its workers say."""
    if status.state != "crawling":
        return "none"
    if status.next_turn_in > 0:  # whatever the workers were at, all that waits has to wait for its time
        return "politeness"
    votes = Counter(worker.limit for worker in status.workers if worker.alive)
    for cause, count in votes.most_common(1):
        if 2 * count >= status.alive:
            return cause
    return "none"
