"""The history of crawls, for the API: a part of the list, or one crawl beside the one before."""

from __future__ import annotations

from typing import Any

from ..inspect import Status, View, as_json
from ..inspect.cause import cause_of
from ..inspect.comparison import differences, in_words
from ..inspect.crawl import Crawl
from ..inspect.history import crawl_page, find_crawl

#: The fields of a crawl that a list and the overview are without: they are long.
_LONG = ("workers", "largest", "slowest", "settings", "history", "peak")


def brief(crawl: Crawl) -> dict[str, Any]:
    """Return *crawl* without what is long."""
    return {name: value for name, value in as_json.crawl(crawl).items() if name not in _LONG}


def some_crawls(view: View, status: Status, offset: int, limit: int) -> dict[str, Any]:
    """Return at most *limit* crawls, the latest first, each with how it differs from the one before."""
    total, crawls = crawl_page(view, status, offset, limit)
    shown = [{**brief(crawl), **_compared(crawl, before)} for crawl, before in crawls]
    return {"total": total, "offset": offset, "crawls": shown}


def one_crawl(view: View, status: Status, run: int | None) -> dict[str, Any]:
    """Return a crawl with its chart, and the crawl that it is compared with.

    :param run: its number; None: the latest one.
    :raises InspectionError: if there is no such crawl.
    """
    crawl, before = find_crawl(view, status, run)
    return {
        "crawl": as_json.crawl(crawl),
        "cause": cause_of(crawl) if crawl.state == "finished" else "",
        **_compared(crawl, before),
        "before": None if before is None else brief(before),
    }


def _compared(crawl: Crawl, before: Crawl | None) -> dict[str, Any]:
    """Return the number of the crawl *before*, and each figure of both; 0 and no figures without one."""
    found = [] if before is None else differences(crawl, before)
    return {
        "compared_with": 0 if before is None else before.run,
        "differences": [{**one._asdict(), "percent": one.percent, "text": in_words(one)} for one in found],
    }
