"""When a whole fleet closes: after so many pages, items or errors, or so much time."""

from __future__ import annotations

from typing import Any, NamedTuple

#: The setting by which a fleet closes, by why its spiders are closed then. The reasons are Scrapy's.
CLOSED_BY = {
    "closespider_pagecount": "FRONTIER_CLOSE_PAGECOUNT",
    "closespider_itemcount": "FRONTIER_CLOSE_ITEMCOUNT",
    "closespider_errorcount": "FRONTIER_CLOSE_ERRORCOUNT",
    "closespider_timeout": "FRONTIER_CLOSE_TIMEOUT",
}


class CloseLimits(NamedTuple):
    """How much all workers together do before they close; 0 is any number.

    :param pagecount: responses.
    :param itemcount: items that were scraped.
    :param errorcount: errors of callbacks.
    :param timeout: seconds since the first of those that are at it joined.
    """

    pagecount: int = 0
    itemcount: int = 0
    errorcount: int = 0
    timeout: float = 0.0

    @classmethod
    def of(cls, settings: Any) -> CloseLimits:
        """Return those that a worker's *settings* have."""
        return cls(
            settings.close_pagecount,
            settings.close_itemcount,
            settings.close_errorcount,
            settings.close_timeout,
        )

    def said(self) -> dict[str, float]:
        """Return those that there are, as the scripts take them."""
        return {name: limit for name, limit in self._asdict().items() if limit}


#: A fleet that goes on until it is finished.
NEVER = CloseLimits()
