"""``scrapy frontier status`` and ``workers``: how a crawl stands, and the workers of its fleet."""

from __future__ import annotations

import argparse

from ..inspect import Status as Found
from ..inspect import View, as_json, find_frontiers, read_status
from ..inspect.history import with_last_crawl
from .action import Action, Context
from .output import Part
from .status_text import status_line, status_text, statuses_table, workers_table
from .watch import Picture, add_watch, watch

NO_FRONTIER = "This Redis has no frontier: no worker has joined a crawl, or all crawls are finished"


class Status(Action):
    """``scrapy frontier status [SPIDER]``."""

    name = "status"
    summary = "Show how a crawl stands: waiting requests, pages, speed, workers"
    description = (
        "Show how the crawl of a spider stands; without a spider, those of all spiders in this Redis. To "
        "find all of them, Redis goes through the names of its keys, a thousand at a time."
    )
    spider = "optional"
    examples = (
        "scrapy frontier status",
        "scrapy frontier status quotes --watch",
        "scrapy frontier status quotes --json",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add how it is shown."""
        parser.add_argument("--json", action="store_true", help="print JSON: one object per spider and line")
        add_watch(parser)

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show it, once or until Ctrl-C."""
        # Without a spider, the frontiers are searched for each time.
        views = [context.view(opts.spider)] if opts.spider else None
        parts = (lambda found: status_text(found[0])) if opts.spider else _overview
        watch(context, opts, Picture(lambda: _statuses(context, views), as_json.status, parts, _lines))


class Workers(Action):
    """``scrapy frontier workers SPIDER``."""

    name = "workers"
    summary = "List the workers: host, process, pages, requests in hand, last heartbeat"
    examples = ("scrapy frontier workers quotes", "scrapy frontier workers quotes --json")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add how it is shown."""
        parser.add_argument("--json", action="store_true", help="print JSON: one object per worker and line")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show them."""
        view = context.view(opts.spider)
        status = read_status(view)
        if opts.json:
            for worker in (*status.workers, *status.in_line):
                context.output.json(as_json.worker(worker))
        elif status.workers or status.in_line:
            context.output.show(workers_table(status))
        else:
            context.output.say(f"Spider {opts.spider} has no workers")


def _statuses(context: Context, views: list[View] | None) -> list[Found]:
    """Return the status of each of *views*; None: of all frontiers."""
    found = all_views(context) if views is None else views
    statuses = [with_last_crawl(view, read_status(view)) for view in found]
    if views is None:
        # Of the project's spiders, only those with seeds or with a crawl.
        statuses = [status for status in statuses if status.state != "new" or status.seeds]
    return statuses


def _overview(statuses: list[Found]) -> list[Part]:
    return [statuses_table(statuses) if statuses else NO_FRONTIER]


def _lines(statuses: list[Found]) -> list[str]:
    return [status_line(status) for status in statuses] or [NO_FRONTIER]


def all_views(context: Context) -> list[View]:
    """Return the frontiers of this Redis, and those of the project's other spiders."""
    views = list(find_frontiers(context.settings))
    known = {view.spider for view in views}
    return views + [context.view(spider) for spider in context.spiders() if spider not in known]
