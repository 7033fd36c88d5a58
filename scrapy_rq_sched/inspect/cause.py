"""Why a crawl has no pages, no items or nothing new: the likely cause, from the counts of its workers."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import frontier_command
from .crawl import Crawl
from .wording import counted

#: Why no response came, for each kind of exception of downloads; all others are exceptions of another kind.
_UNREACHABLE = {
    "no_address": "the host name has no address (DNS)",
    "refused": "the connection was refused",
    "timeouts": "no answer came in time (DOWNLOAD_TIMEOUT)",
    "lost": "the connection was lost",
}
#: A crawl with at most so many responses may have found no way into its site.
FEW = 10


def is_unreachable(crawl: Crawl) -> bool:
    """Return whether no request of *crawl* had a response, and a download has failed."""
    return not (_responses(crawl) or crawl.items) and _exceptions(crawl) > 0


def has_no_page(crawl: Crawl) -> bool:
    """Return whether no request of *crawl* had a response, and the counts tell why: then none is a page."""
    return not (_responses(crawl) or crawl.items) and any(_of_requests(crawl))


def cause_of(crawl: Crawl) -> str:
    """Return why *crawl* has no pages, no items or nothing new, in a line without a full stop at its end.

    It is the likely cause, as far as the counts tell. The text is empty if they do not tell any, and if the
    crawl has items that are new.
    """
    responses, duplicates = _responses(crawl), crawl.counts.get("duplicates", 0)
    keeps = str(crawl.settings.get("SCHEDULER_PERSIST", "")).lower() in ("true", "1")
    if keeps and duplicates and responses == 1:
        return f"Nothing new was found: {_duplicates(crawl, duplicates, keeps)}"
    if crawl.items or not (crawl.counts or crawl.statuses or crawl.run):
        return ""
    if responses:
        causes = list(_of_responses(crawl, responses))
        none = f"the callbacks of {counted(responses, 'page')} yielded none"
        return f"No item was scraped: {', and '.join(causes) or none}"
    causes = list(_of_requests(crawl))
    if not (causes or crawl.pages):
        causes = [_duplicates(crawl, duplicates, keeps) if duplicates else "no request was sent"]
    return f"No page was crawled: {', and '.join(causes)}" if causes else ""


def _responses(crawl: Crawl) -> int:
    return crawl.counts.get("responses", 0) or sum(crawl.statuses.values())


def _exceptions(crawl: Crawl) -> int:
    """Return how many downloads have raised an exception that says that a site cannot be reached."""
    return crawl.counts.get("exceptions", 0) - crawl.counts.get("ignored", 0)


def _of_requests(crawl: Crawl) -> Iterator[str]:
    """Yield why no request had a response."""
    counts = crawl.counts
    if counts.get("robots"):
        yield f"robots.txt forbids {counted(counts['robots'], 'request')} (ROBOTSTXT_OBEY)"
    if _exceptions(crawl) > 0:
        kinds = [text for name, text in _UNREACHABLE.items() if counts.get(name)]
        others = _exceptions(crawl) > sum(counts.get(name, 0) for name in _UNREACHABLE)
        yield ", and ".join([*kinds, *(["downloads raised exceptions: see the log"] if others else [])])
    if counts.get("offsite"):
        offsite = counted(counts["offsite"], "request leads", "requests lead")
        yield f"{offsite} to hosts that are not in allowed_domains"
    if counts.get("ignored", 0) > counts.get("robots", 0) + counts.get("offsite", 0):
        yield "a downloader middleware ignored requests (IgnoreRequest)"


def _of_responses(crawl: Crawl, responses: int) -> Iterator[str]:
    """Yield why the responses had no item."""
    counts = crawl.counts
    errors = counts.get("http_errors", 0)
    if 2 * errors >= responses:
        statuses = ", ".join(status for status in crawl.statuses if not status.startswith("2"))
        how_many = counted(errors, "response is an HTTP error", "responses are HTTP errors")
        yield f"{how_many} ({statuses}), which callbacks do not see (HTTPERROR_ALLOWED_CODES)"
    if counts.get("callback_errors"):
        yield f"callbacks raised {counted(counts['callback_errors'], 'exception')}: see the log"
    if counts.get("dropped_items"):
        yield f"the item pipelines dropped {counted(counts['dropped_items'], 'item')}"
    excluded = counts.get("robots", 0) + counts.get("offsite", 0) + max(0, _exceptions(crawl))
    if responses <= FEW and excluded >= responses:
        yield from _of_requests(crawl)


def _duplicates(crawl: Crawl, count: int, keeps: bool) -> str:
    seen = counted(count, "request was", "requests were")
    by = "by an earlier crawl, whose fingerprints SCHEDULER_PERSIST keeps" if keeps else "before"
    return f"{seen} seen {by}. To crawl all again, run: {frontier_command('clear', crawl.spider)}"
