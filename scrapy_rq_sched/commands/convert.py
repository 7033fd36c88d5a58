"""``scrapy frontier convert``: the waiting requests, to another serializer."""

from __future__ import annotations

import argparse

from ..convert import Conversion, Converted
from ..errors import FrontierError
from .action import Action, Context
from .output import Output, single_line


class Convert(Action):
    """``scrapy frontier convert SPIDER``."""

    name = "convert"
    summary = "Convert what waits to another serializer"
    description = (
        "Rewrite the waiting requests of a spider in place, a few at a time, so that workers with another "
        "SCHEDULER_SERIALIZER can go on with them. No worker may be at it meanwhile. If it breaks off, run "
        "it again: it goes on where it was. Which queue and keys, the project's settings say, or -s."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what may be said of the conversion."""
        parser.add_argument(
            "--from",
            dest="source",
            metavar="SERIALIZER",
            help="what they are in now (default: what the frontier was made with; pickle, if scrapy-redis "
            "filled it. Reading pickles runs code that they contain)",
        )
        parser.add_argument(
            "--to",
            dest="target",
            metavar="SERIALIZER",
            help="what they shall be in (default: SCHEDULER_SERIALIZER if it is another, else json)",
        )
        parser.add_argument("--dry-run", action="store_true", help="look at all of them, and change nothing")
        parser.add_argument(
            "--set-aside",
            action="store_true",
            help="put what cannot be converted into the failed list, instead of changing nothing",
        )

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Convert.

        :raises FrontierError: if it cannot be.
        """
        conversion = Conversion.from_settings(context.settings, opts.spider, opts.source, opts.target)
        _convert(conversion, context.output, opts.dry_run, opts.set_aside)


def _convert(conversion: Conversion, output: Output, dry_run: bool, set_aside: bool) -> None:
    if not dry_run:
        conversion.check()
    looked_at = conversion.look()
    output.say(f"{looked_at.total} requests wait: {_counts(looked_at)}")
    for problem, count in looked_at.problems.most_common(10):
        output.say(f"  {count} cannot be converted: {single_line(problem)}")
    if looked_at.problems and not set_aside:
        if looked_at.unreadable == looked_at.total:
            raise FrontierError(
                "Nothing was changed. The requests are in another serializer: name it with --from"
            )
        raise FrontierError("Nothing was changed. With --set-aside these go into the failed list")
    if sum(looked_at.problems.values()) > conversion.most_failed:
        raise FrontierError(
            f"Nothing was changed. The failed list would keep only {conversion.most_failed} of these "
            "(FRONTIER_MAX_FAILED)"
        )
    if dry_run:
        output.say("Nothing was changed (--dry-run)")
        return
    met = conversion.run()
    output.say(f"{met.changed} requests converted, {sum(met.problems.values())} set aside in the failed list")


def _counts(converted: Converted) -> str:
    parts = [f"{converted.changed} to convert", f"{converted.already} converted before"]
    if converted.problems:
        parts.append(f"{sum(converted.problems.values())} that cannot be")
    return ", ".join(parts)
