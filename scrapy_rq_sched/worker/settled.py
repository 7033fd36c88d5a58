"""What became of the requests of a batch."""

from __future__ import annotations

from dataclasses import dataclass

from scrapy import Request

from ..frontier.replies import Lease
from .outbox import Outgoing


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the requests of a batch: in Redis, for this worker's memory, or dropped.

    :ivar orphans: leases that were not begun, of a frontier that is no longer in Redis.
    """

    stored: list[Request]
    kept: list[Outgoing]
    duplicates: list[Request]
    orphans: list[Lease]
