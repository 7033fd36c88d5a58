"""``scrapy frontier status`` and ``workers``: how a crawl stands, and the workers of its fleet."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..inspect import View, as_json, find_frontiers, read_status
from ..inspect.history import with_last_crawl
from .action import Action, Context
from .status_text import status_text, statuses_table, workers_table

#: Seconds between two drawings.
INTERVAL = 1.0
#: How to leave a live view.
LEAVE = "Ctrl-C leaves this view, and changes nothing"


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
        watch(context, opts, lambda draw: self._show(context, opts, views, draw))

    def _show(self, context: Context, opts: argparse.Namespace, views: list[View] | None, draw: Any) -> None:
        found = all_views(context) if views is None else views
        statuses = [with_last_crawl(view, read_status(view)) for view in found]
        if views is None:
            # Of the project's spiders, only those with seeds or with a crawl.
            statuses = [status for status in statuses if status.state != "new" or status.seeds]
        if opts.json:
            for status in statuses:
                context.output.json(as_json.status(status))
        elif opts.spider:
            draw(*status_text(statuses[0]))
        elif statuses:
            draw(statuses_table(statuses))
        else:
            draw("This Redis has no frontier: no worker has joined a crawl, or all crawls are finished")


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


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--watch`` to *parser*."""
    parser.add_argument(
        "--watch",
        nargs="?",
        type=seconds,
        const=INTERVAL,
        metavar="SECONDS",
        help=f"show it repeatedly, every SECONDS (default: {INTERVAL:g}), until Ctrl-C",
    )


def watch(context: Context, opts: argparse.Namespace, show: Callable[[Any], None]) -> None:
    """Call *show* once; with ``--watch``, repeatedly until Ctrl-C."""
    if not opts.watch:
        show(context.output.show)
        return
    with suppress(KeyboardInterrupt), context.output.live(LEAVE, redraws=not opts.json) as draw:
        while True:
            show(draw)
            time.sleep(opts.watch)


def seconds(text: str) -> float:
    """Return the interval of ``--watch``."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"must be a number from 0.1 to 3600, not {text!r}")
    return value


def all_views(context: Context) -> list[View]:
    """Return the frontiers of this Redis, and those of the project's other spiders."""
    views = list(find_frontiers(context.settings))
    known = {view.spider for view in views}
    return views + [context.view(spider) for spider in context.spiders() if spider not in known]
