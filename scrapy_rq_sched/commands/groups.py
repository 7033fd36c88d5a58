"""``scrapy frontier groups``: the open groups of requests."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from itertools import islice

from ..inspect.groups import Group, Groups
from .action import Action, Context
from .formats import number
from .output import Table
from .periods import whole

#: How many groups are shown by default.
SHOWN = 50
_COLUMNS = ("GROUP", "REQUESTS", "FOLLOWING", "FAILED")


class GroupsAction(Action):
    """``scrapy frontier groups SPIDER``."""

    name = "groups"
    summary = "List the open groups of requests, and how many requests wait for them"
    description = (
        "List the groups (meta['group']) that have requests left: how many of these wait, are leased or are "
        "in a worker's memory, how many requests wait until the group is finished (meta['after']), and how "
        "many of its requests were set aside."
    )
    syntax = ("[NAME …]",)
    examples = (
        "scrapy frontier groups quotes",
        "scrapy frontier groups quotes order-17",
        "scrapy frontier groups quotes --json",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the names, how many are shown, and how."""
        # With a default, argparse does not call the names required.
        parser.add_argument("names", nargs="*", default=[], metavar="NAME", help="only groups with this name")
        parser.add_argument(
            "-n", dest="count", type=whole, metavar="N", help="show N groups (default: 50; with --json, all)"
        )
        parser.add_argument("--json", action="store_true", help="print JSON: one object per group and line")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show them."""
        groups = Groups(context.view(opts.spider))
        if opts.json:
            for one in islice(groups.read(opts.names or None), opts.count):
                context.output.json(asdict(one))
            return
        most = opts.count or SHOWN
        found = list(islice(groups.read(opts.names or None), most))
        if not found:
            named = " of this name" if opts.names else ""
            context.output.say(f"No group{named} of spider {opts.spider} is open")
            return
        context.output.show(groups_table(found))
        if len(found) == most and not opts.names and groups.count > most:
            context.output.say(f"{number(groups.count)} groups are open. To show all: -n {groups.count}")


def groups_table(groups: list[Group]) -> Table:
    """Return a table with a row for each of *groups*."""
    rows = [[one.name, number(one.requests), number(one.following), number(one.failed)] for one in groups]
    return Table(_COLUMNS, rows, texts=("GROUP",))
