"""``scrapy frontier``: what is to be done to a frontier from a terminal."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from ..connection import RedisError, describe_error
from ..convert import Conversion, Converted
from ..errors import FrontierError


class Command(ScrapyCommand):
    """``scrapy frontier convert SPIDER``."""

    requires_project = False
    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}  # noqa: RUF012 - as Scrapy's own commands have it

    def syntax(self) -> str:
        """Return what follows ``scrapy frontier``."""
        return "[options] convert <spider>"

    def short_desc(self) -> str:
        """Return what ``scrapy`` says of it in its list."""
        return "Convert a spider's waiting requests to another serializer"

    def long_desc(self) -> str:
        """Return what ``scrapy frontier --help`` says of it."""
        return (
            "Rewrite the waiting requests of a spider in place, a few at a time, so that workers with "
            "another SCHEDULER_SERIALIZER can go on with them. No worker may be at it meanwhile. If it "
            "breaks off, run it again: it goes on where it was. Which Redis, queue and keys, the project's "
            "settings say, or -s."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options to *parser*."""
        super().add_options(parser)
        group = parser.add_argument_group(title="Conversion")
        group.add_argument(
            "--from",
            dest="source",
            default="pickle",
            metavar="SERIALIZER",
            help="what they are in now (default: pickle, scrapy-redis's; what is in Redis is then run)",
        )
        group.add_argument(
            "--to",
            dest="target",
            metavar="SERIALIZER",
            help="what they shall be in (default: SCHEDULER_SERIALIZER if it is another, else json)",
        )
        group.add_argument("--dry-run", action="store_true", help="look at all of them, and change nothing")
        group.add_argument(
            "--set-aside",
            action="store_true",
            help="put what cannot be converted into the failed list, instead of changing nothing",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Convert.

        :raises UsageError: if the arguments are not right.
        """
        if len(args) != 2 or args[0] != "convert":
            raise UsageError
        try:
            conversion = Conversion.from_settings(self.settings, args[1], opts.source, opts.target)
        except FrontierError as error:
            self._refuse(str(error))
            return
        try:
            self._convert(conversion, opts.dry_run, opts.set_aside)
        except FrontierError as error:
            self._refuse(str(error))
        except RedisError as error:
            self._refuse(describe_error(conversion.server, error))

    def _convert(self, conversion: Conversion, dry_run: bool, set_aside: bool) -> None:
        looked_at = conversion.look()
        self._say(f"{looked_at.total} requests wait: {_counts(looked_at)}")
        for problem, count in looked_at.problems.most_common(10):
            self._say(f"  {count} cannot be converted: {problem}")
        if looked_at.problems and not set_aside:
            self._refuse("Nothing was changed. With --set-aside these go into the failed list")
        elif sum(looked_at.problems.values()) > conversion.most_failed:
            self._refuse(
                f"Nothing was changed. The failed list would keep only {conversion.most_failed} of these "
                "(FRONTIER_MAX_FAILED)"
            )
        elif dry_run:
            self._say("Nothing was changed (--dry-run)")
        else:
            met = conversion.run()
            self._say(
                f"{met.changed} requests converted, {sum(met.problems.values())} set aside in the failed list"
            )

    def _say(self, text: str) -> None:
        sys.stdout.write(text + "\n")

    def _refuse(self, text: str) -> None:
        sys.stderr.write(f"scrapy frontier: {text}\n")
        self.exitcode: Any = 1


def _counts(converted: Converted) -> str:
    parts = [f"{converted.changed} to convert", f"{converted.already} converted before"]
    if converted.problems:
        parts.append(f"{sum(converted.problems.values())} that cannot be")
    return ", ".join(parts)
