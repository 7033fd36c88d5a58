"""``scrapy frontier history``: the crawls of a spider, and the figures of each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from ..errors import InspectionError
from ..inspect import View, as_json, find_frontiers, read_status
from ..inspect.comparison import Difference, differences, earlier, in_words
from ..inspect.crawl import Crawl
from ..inspect.history import crawl_page, find_crawl
from .action import Action, Context
from .crawl_text import crawl_text
from .formats import duration, number, rate, single_line, when
from .output import Table
from .periods import whole
from .states import in_state

#: The crawls that are listed, unless an option says how many.
LISTED = 20


class History(Action):
    """``scrapy frontier history [SPIDER] [RUN]``."""

    name = "history"
    summary = "List the crawls of a spider, and show one of them"
    description = (
        "List the crawls of a spider, the latest first: when they began, how long they took, how they ended, "
        "their pages, items and errors. With the number of a crawl, show all that is known of it, compared "
        "with the finished one before. Without a spider, list the last crawl of each spider in this Redis."
    )
    spider = "optional"
    syntax = ("[RUN]",)
    last = "number"
    examples = (
        "scrapy frontier history quotes",
        "scrapy frontier history quotes 17",
        "scrapy frontier history quotes last --json",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the crawl, and how it is shown."""
        parser.add_argument(
            "number", metavar="RUN", nargs="?", help="the number of a crawl, or last: the latest one"
        )
        parser.add_argument(
            "-n",
            dest="count",
            type=whole,
            default=LISTED,
            metavar="N",
            help=f"list N crawls (default: {LISTED})",
        )
        parser.add_argument("--json", action="store_true", help="print JSON: one object per crawl and line")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show them."""
        if opts.spider and opts.number:
            self._show_one(context, context.view(opts.spider), opts)
            return
        views = [context.view(opts.spider)] if opts.spider else list(find_frontiers(context.settings))
        found = [crawl for view in views for crawl in _latest(view, opts.count if opts.spider else 1)]
        if opts.json:
            for crawl in found:
                context.output.json(as_json.crawl(crawl))
        elif found:
            context.output.show(crawls_table(found, with_spiders=not opts.spider))
        else:
            of_spider = f"of spider {opts.spider} " if opts.spider else ""
            context.output.say(f"The history has no crawl {of_spider}yet")

    def _show_one(self, context: Context, view: View, opts: argparse.Namespace) -> None:
        if opts.number != "last" and not (opts.number.isdecimal() and len(opts.number) < 16):
            raise InspectionError(f"RUN must be the number of a crawl, or last, not {opts.number!r}")
        run = None if opts.number == "last" else int(opts.number)
        crawl, before = find_crawl(view, read_status(view), run)
        if opts.json:
            context.output.json(as_json.crawl(crawl))
        else:
            context.output.show(*crawl_text(crawl, before))


def _latest(view: View, count: int) -> list[Crawl]:
    """Return the latest *count* crawls, the latest first, with the one under way."""
    # One of another frontier's spider may have no name here.
    found = crawl_page(view, read_status(view), 0, count).crawls
    return [replace(crawl, spider=crawl.spider or view.spider) for crawl, _ in found]


def crawls_table(crawls: Sequence[Crawl], with_spiders: bool = False) -> Table:
    """Return a table with a row for each of *crawls*, which are of one spider unless *with_spiders*."""
    titles = ["RUN", "BEGAN", "TOOK", "STATE", "PAGES", "ITEMS", "ERRORS", "FAILED", "A SECOND", "WORKERS"]
    rows = []
    for crawl in crawls:
        before = None if with_spiders else earlier(crawl, crawls)
        change = {one.figure: one for one in differences(crawl, before)} if before else {}
        lost = f" ({crawl.lost} lost)" if crawl.lost else ""
        rows.append(
            [
                *([single_line(crawl.spider)] if with_spiders else []),
                str(crawl.run),
                when(crawl.began),
                duration(crawl.seconds),
                in_state(crawl.state),
                number(crawl.pages) + _percent(change.get("pages")),
                number(crawl.items) + _percent(change.get("items")),
                number(crawl.errors),
                number(crawl.failed),
                rate(crawl.per_second),
                f"{crawl.joined}{lost}",
            ]
        )
    return Table(
        [*(["SPIDER"] if with_spiders else []), *titles],
        rows,
        dispensable=("A SECOND", "WORKERS", "FAILED", "TOOK"),
    )


def _percent(difference: Difference | None) -> str:
    """Return by how many percent a figure has changed since the crawl before; empty if it has not."""
    if difference is None or not in_words(difference) or difference.percent is None:
        return ""
    return f" ({difference.percent:+d} %)"
