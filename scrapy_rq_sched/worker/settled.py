"""The outcome of a batch for its requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from scrapy import Request

from ..frontier.replies import Lease
from .outbox import Outgoing


@dataclass(frozen=True, slots=True)
class Settled:
    """The requests of a batch: stored in Redis, kept in this worker's memory, or dropped as duplicates.

    :ivar orphans: leases that were not begun, of a frontier that is no longer in Redis.
    """

    stored: list[Request]
    kept: list[Outgoing]
    duplicates: list[Request]
    orphans: list[Lease]

    @classmethod
    def of(
        cls,
        sent: Iterable[Outgoing],
        duplicates: Collection[int],
        kept: Collection[int],
        orphans: list[Lease],
    ) -> Settled:
        """Sort the *sent* requests; *duplicates* and *kept* are positions in *sent*."""
        settled = cls([], [], [], orphans)
        for place, outgoing in enumerate(sent):
            if place in duplicates:
                settled.duplicates.append(outgoing.request)
            elif place in kept:
                settled.kept.append(outgoing)
            else:
                settled.stored.append(outgoing.request)
        return settled
