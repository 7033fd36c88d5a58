"""Limits after which the whole fleet closes: pages, items, errors, or time."""

from __future__ import annotations

from typing import Any, NamedTuple

#: For each reason for which a fleet closes its spiders, the setting that has the limit. The reasons are
#: Scrapy's.
CLOSED_BY = {
    "closespider_pagecount": "FRONTIER_CLOSE_PAGECOUNT",
    "closespider_itemcount": "FRONTIER_CLOSE_ITEMCOUNT",
    "closespider_errorcount": "FRONTIER_CLOSE_ERRORCOUNT",
    "closespider_timeout": "FRONTIER_CLOSE_TIMEOUT",
}


#: The reason for which a finished fleet closes its spiders if it has as many pages as ``FRONTIER_MAX_PAGES``
#: allows, and has dropped further requests.
MAX_PAGES = "max_pages"
#: The reasons of a spider that closes because the fleet is finished. With ``start_error``, its ``start()``
#: has raised an exception.
FINISHED_BY = ("finished", "start_error", MAX_PAGES)


class CloseLimits(NamedTuple):
    """How much all workers together do before they close; 0: no limit.

    :param pagecount: responses.
    :param itemcount: scraped items.
    :param errorcount: errors of callbacks.
    :param timeout: seconds since the first worker of this run of the fleet joined.
    """

    pagecount: int = 0
    itemcount: int = 0
    errorcount: int = 0
    timeout: float = 0.0

    @classmethod
    def of(cls, settings: Any) -> CloseLimits:
        """Return the limits in a worker's *settings*."""
        return cls(
            settings.close_pagecount,
            settings.close_itemcount,
            settings.close_errorcount,
            settings.close_timeout,
        )

    def to_wire(self) -> dict[str, float]:
        """Return the limits that are set, as the scripts take them."""
        return {name: limit for name, limit in self._asdict().items() if limit}


#: The limits of a fleet that crawls until it is finished.
NEVER = CloseLimits()
