"""Why a request may not begin now, and from when it may."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Cause(Enum):
    """What keeps a request from beginning."""

    ORDER = "order"  #: the order to all workers: to pause, to drain, to stop, or to wait for a place
    ROOM = "room"  #: the outbox is full
    SILENCE = "silence"  #: this process was stopped for longer than its lease
    UNRELEASED = "unreleased"  #: too many finished requests wait for room, or for replicas
    CAPACITY = "capacity"  #: as many requests as allowed are begun, and not finished
    RELEASE = "release"  #: so many finished requests are not released that the next release must come first
    SLOT = "slot"  #: the downloader has enough requests of the slot
    TIME = "time"  #: the time of the turn has not come
    LATE = "late"  #: the turn is so late that another worker may have it
    SUSPECT = "suspect"  #: workers died of it, and Redis does not know yet that this one begins it
    EMPTY = "empty"  #: this worker has no request to begin


class Block(NamedTuple):
    """A reason for which a request may not begin.

    :param until: the monotonic time from which it may, in seconds; None if an event ends the block.
    """

    cause: Cause
    until: float | None = None
