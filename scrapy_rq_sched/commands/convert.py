"""``scrapy frontier convert``: rewrite the waiting requests with another serializer."""

from __future__ import annotations

import argparse

from ..convert import Conversion, Converted
from ..errors import FrontierError
from ..inspect.wording import counted
from .action import Action, Context, add_dry_run
from .formats import number, single_line
from .output import Output


class Convert(Action):
    """``scrapy frontier convert SPIDER``."""

    name = "convert"
    summary = "Convert the waiting requests to another serializer"
    description = (
        "Rewrite the waiting requests of a spider in place, a few at a time, for workers with another "
        "SCHEDULER_SERIALIZER. All workers must be stopped meanwhile. If the conversion is interrupted, run "
        "the same command again to continue it. The project's settings, or -s, name the queue and the keys."
    )
    examples = (
        "scrapy frontier convert quotes --from pickle --dry-run",
        "scrapy frontier convert quotes --from pickle --to json",
        "scrapy frontier convert quotes --to json+deflate --set-aside",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the serializers, and how to treat requests that cannot be converted."""
        parser.add_argument(
            "--from",
            dest="source",
            metavar="SERIALIZER",
            help="their serializer now (default: the frontier's, if it runs no code). After scrapy-redis, it "
            "is pickle. Reading one runs any code in it: trust every program that can write to this Redis",
        )
        parser.add_argument(
            "--to",
            dest="target",
            metavar="SERIALIZER",
            help="their new serializer (default: SCHEDULER_SERIALIZER if that differs, else json)",
        )
        add_dry_run(parser, "check all requests, and change nothing")
        parser.add_argument(
            "--set-aside",
            action="store_true",
            help="move requests that cannot be converted into the failed list, instead of changing nothing",
        )

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Convert them.

        :raises FrontierError: if they cannot be converted.
        """
        conversion = Conversion.from_settings(context.settings, opts.spider, opts.source, opts.target)
        if conversion.warning:
            context.output.warn(conversion.warning)
        _convert(conversion, context.output, opts.dry_run, opts.set_aside)


def _convert(conversion: Conversion, output: Output, dry_run: bool, set_aside: bool) -> None:
    if not dry_run:
        conversion.check()
    looked_at = conversion.look()
    wait = "waits" if looked_at.total == 1 else "wait"
    output.say(f"{counted(looked_at.total, 'request')} {wait}: {_counts(looked_at)}")
    for problem, count in looked_at.problems.most_common(10):
        output.say(f"  {number(count)} cannot be converted: {single_line(problem)}")
    if looked_at.problems and not set_aside:
        if looked_at.unreadable == looked_at.total:
            raise FrontierError(
                "Nothing was changed. The requests were written by another serializer. Name it with --from"
            )
        raise FrontierError("Nothing was changed. --set-aside moves these requests into the failed list")
    if sum(looked_at.problems.values()) > conversion.most_failed:
        raise FrontierError(
            f"Nothing was changed. The failed list would keep only {number(conversion.most_failed)} of these "
            "requests. Raise FRONTIER_MAX_FAILED"
        )
    if dry_run:
        output.say("Nothing was changed (--dry-run)")
        return
    met = conversion.run()
    output.say(
        f"{counted(met.changed, 'request')} converted, {number(sum(met.problems.values()))} moved into the "
        "failed list"
    )


def _counts(converted: Converted) -> str:
    parts = [f"{number(converted.changed)} to convert", f"{number(converted.already)} already converted"]
    if converted.problems:
        parts.append(f"{number(sum(converted.problems.values()))} cannot be converted")
    return ", ".join(parts)
