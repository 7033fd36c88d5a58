"""``scrapy frontier doctor``: what is wrong, and what to do."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable

from .. import connection
from ..errors import one_line
from ..inspect import Finding, View, examine, find_frontiers
from .action import Action, Context
from .output import Fields


class Doctor(Action):
    """``scrapy frontier doctor [SPIDER]``."""

    name = "doctor"
    summary = "What is wrong with Redis, the settings or a frontier, and what to do"
    description = (
        "Look at the connection, the server, the settings and the frontier of a spider, and say what is "
        "wrong and what to do; without a spider, at all frontiers that are in Redis. The exit code is 1 if a "
        "crawl cannot do with what was found. Nothing is changed."
    )
    spider = "optional"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add how it is shown."""
        parser.add_argument("--json", action="store_true", help="print JSON: an object a finding, one a line")

    def run(self, context: Context, opts: argparse.Namespace) -> int:
        """Show what is found.

        :return: 1 if there is a problem.
        """
        spider = opts.spider or ""
        spidercls = context.spidercls(spider) if spider else None
        found = []
        for finding in examine(context.settings, lambda: _views(context, spider), spider, spidercls):
            found.append(finding)
            if opts.json:
                context.output.json(dataclasses.asdict(finding))
        if not opts.json:
            context.output.show(Fields([(finding.level, _lines(finding)) for finding in found]))
        return int(any(finding.level == "problem" for finding in found))


def _lines(finding: Finding) -> str:
    advice = f"\n→ {one_line(finding.advice)}" if finding.advice else ""
    return f"{finding.what}: {one_line(finding.text)}{advice}"


def _views(context: Context, spider: str) -> Iterable[View]:
    if spider:
        try:
            return [context.view(spider)]
        except connection.NoPermissionError:
            raise
        except connection.ResponseError:
            # What is at the key of its meta is none: the check of its keys says so.
            return [View.without_meta(context.settings, spider, context.spidercls(spider), context.redis_key)]
    return (view.of_spider(context.spidercls(view.spider)) for view in find_frontiers(context.settings))
