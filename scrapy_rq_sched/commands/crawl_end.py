"""The end of ``scrapy frontier crawl``: the figures of the crawl, in a few lines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from ..codec.values import whole_of
from ..errors import frontier_command
from ..frontier.close_limits import MAX_PAGES
from ..inspect import View
from ..inspect.cause import cause_of
from ..inspect.comparison import Difference, earlier, in_words
from ..inspect.crawl import Crawl
from ..inspect.crawls import Crawls
from ..inspect.wording import counted
from ..supervise.report import Stats
from ..supervise.supervisor import START_ERROR, Supervisor
from ..worker.record import sums_of
from .crawl_text import statuses
from .formats import duration, rate, when

#: Crawls of the history among which the one that has ended is looked for: a worker that starts late may have
#: begun a further one.
RECENT = 20
#: Seconds by which a crawl may be older than the command that has begun it.
SLACK = 5.0


class Ended(NamedTuple):
    """A crawl that has ended, and the last finished one before it.

    :param crawl: the crawl of all workers; None if Redis does not know it.
    :param before: None if the history has none.
    """

    crawl: Crawl | None = None
    before: Crawl | None = None


def find(view: View, run: int, workers: Collection[str]) -> Ended:
    """Return the last crawl in which one of *workers* took part, or that has the number *run*.

    :raises redis.exceptions.RedisError: if Redis does not answer.
    """
    crawls = Crawls(view)
    current = crawls.current("crawling")  # it has no end yet, for example because other machines go on
    past = list(crawls.read(crawls.numbers()[:RECENT]))
    for crawl in ([] if current is None else [current]) + past:
        if crawl.run == run or any(worker.name in workers for worker in crawl.workers):
            return Ended(replace(crawl, spider=view.spider), earlier(crawl, past))
    return Ended()


def of_this_machine(spider: str, stats: Stats) -> Crawl:
    """Return the counts of the workers of this machine, from the sum of their statistics."""
    sums = sums_of(stats)
    return Crawl(
        run=0,
        spider=spider,
        pages=sums.get("responses", 0),
        items=whole_of(stats.get("item_scraped_count")),
        errors=sum(whole_of(stats.get(f"log_count/{level}")) for level in ("ERROR", "CRITICAL")),
        counts={name: count for name, count in sums.items() if not name.isdigit()},
        statuses={name: sums[name] for name in sorted(sums) if name.isdigit()},
    )


def last_words(
    supervisor: Supervisor, crawl: Crawl, before: Crawl | None, seconds: float, logs: str
) -> list[str]:
    """Return how *crawl* has ended: its figures, why it has none, and where its errors are.

    :param crawl: its ``run`` is 0 if only the work of this machine is known.
    :param before: the last finished crawl; None: it is unknown.
    :param seconds: how long the command took.
    :param logs: the folder of the workers' logs.
    """
    how, advice = _how(supervisor)
    last = before if before and supervisor.is_finished else crawl
    figures = [("page", crawl.pages, last.pages), ("item", crawl.items, last.items)]
    done = ", ".join(f"{counted(now, noun)}{_than(noun, now, then)}" for noun, now, then in figures)
    if crawl.run == 0:
        done += f" on this machine, in {duration(seconds)}"
    elif crawl.seconds > seconds + SLACK:
        done += f" since {when(crawl.began)}"
    elif crawl.seconds < 1:
        done += " in less than 1 s"
    else:
        done += f" in {duration(crawl.seconds)}"
        done += f", {rate(crawl.per_second)} pages a second" if crawl.pages else ""
    words = [f"The crawl of spider {crawl.spider} {how}: {done}{advice}"]
    cause = "" if advice else cause_of(crawl)
    return [*words, *([cause] if cause else []), *_problems(crawl, logs)]


def _how(supervisor: Supervisor) -> tuple[str, str]:
    """Return how the crawl has ended, and what to know or do then."""
    reasons = set(supervisor.reasons)
    failed_starts = supervisor.reasons.count(START_ERROR)
    if supervisor.is_finished:
        how = "has reached FRONTIER_MAX_PAGES" if MAX_PAGES in reasons else "is finished"
        if not failed_starts:
            return how, ""
        workers = counted(failed_starts, "worker")
        return how, f". But start() raised an exception in {workers}, and ended early there: see the log"
    if supervisor.requests_to_end:
        return "was interrupted", ". The same command continues it"
    if failed_starts and not supervisor.has_succeeded:
        return "has failed", ". start() raised an exception: see the log"
    return f"has ended ({', '.join(sorted(reasons)) or 'no worker ran'})", ""


def _than(noun: str, now: int, before: int) -> str:
    """Return by how much a figure differs from that of the last crawl; empty if it does not."""
    words = in_words(Difference(f"{noun}s", now, before))
    return f" ({words})" if words else ""


def _problems(crawl: Crawl, logs: str) -> list[str]:
    """Return the errors, the requests that were set aside, and the statuses of responses, in one line."""
    parts = [f"{counted(crawl.errors, 'error')} (see {logs})"] if crawl.errors else []
    if crawl.failed:
        aside = counted(crawl.failed, "request or seed was", "requests or seeds were")
        parts.append(f"{aside} set aside ({frontier_command('failed', crawl.spider)})")
    if set(crawl.statuses) - {"200"}:
        parts.append(f"HTTP statuses {statuses(crawl.statuses)}")
    return ["; ".join(parts)] if parts else []
