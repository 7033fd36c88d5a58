"""``scrapy frontier doctor``: find problems, and how to solve them."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable

from .. import connection
from ..errors import one_line
from ..inspect import Finding, View, examine, find_frontiers
from .action import Action, Context
from .output import Fields, Styled

#: The colour of each level of a finding.
_LEVELS = {"ok": "green", "warning": "yellow", "problem": "red"}


class Doctor(Action):
    """``scrapy frontier doctor [SPIDER]``."""

    name = "doctor"
    summary = "Find problems of Redis, the settings or a frontier, and how to solve them"
    description = (
        "Check the connection, the server, the settings and the frontier of a spider; without a spider, all "
        "frontiers in this Redis. Each problem comes with a solution. The exit code is 1 if a crawl cannot "
        "work. Nothing is changed."
    )
    examples = (
        "scrapy frontier doctor",
        "scrapy frontier doctor quotes",
        "scrapy frontier doctor --redis-url redis://localhost:6379/0",
    )
    spider = "optional"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add how it is shown."""
        parser.add_argument("--json", action="store_true", help="print JSON: one object per finding and line")

    def run(self, context: Context, opts: argparse.Namespace) -> int:
        """Show the findings.

        :return: 1 if one of them is a problem.
        """
        spider = opts.spider or ""
        spidercls = context.spidercls(spider) if spider else None
        context.warn_of_broken_files()
        found = []
        for finding in examine(context.settings, lambda: _views(context, spider), spider, spidercls):
            found.append(finding)
            if opts.json:
                context.output.json(dataclasses.asdict(finding))
        if not opts.json:
            levels = [Styled(finding.level, _LEVELS.get(finding.level, "")) for finding in found]
            context.output.show(Fields(list(zip(levels, map(_lines, found), strict=True))))
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
            # The key of its meta has another type: the check of its keys reports that.
            return [View.without_meta(context.settings, spider, context.spidercls(spider), context.redis_key)]
    return (view.of_spider(context.spidercls(view.spider)) for view in find_frontiers(context.settings))
