"""``scrapy frontier seed``: check seeds, and push them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .. import connection
from ..errors import InspectionError, frontier_command
from ..inspect import View, read_status
from ..inspect.seed_lines import STANDARD_INPUT, open_lines
from ..inspect.seed_rules import SeedRules
from ..inspect.seeding import Advance, Few, Seeding, Source
from ..inspect.wording import counted, crawl_command
from .action import Action, Context, until_interrupted
from .formats import number


class Seed(Action):
    """``scrapy frontier seed SPIDER URL…``."""

    name = "seed"
    summary = "Push seeds: URLs, or a file of URLs"
    description = (
        "Push seeds in their order. A seed is a URL, or a JSON object with any of a request's fields. All "
        "are checked before the first is pushed. In a file, blank lines and lines that begin with # are "
        "skipped. If the push of a file is interrupted, run the same command again: it continues there."
    )
    syntax = ("URL...", "--file FILE", "-")
    examples = (
        "scrapy frontier seed quotes https://quotes.toscrape.com/page/1/",
        "scrapy frontier seed quotes --file urls.txt --priority 10",
        """scrapy frontier seed quotes '{"url": "https://example.com/", "priority": 5}'""",
    )
    last = "seeds"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the seeds, and the fields that they get."""
        parser.add_argument(
            "seeds",
            nargs="*",
            metavar="URL",
            help="a URL or a JSON object; - alone: the lines of standard input",
        )
        parser.add_argument("--file", metavar="FILE", help="push the lines of FILE; -: of standard input")
        parser.add_argument(
            "--priority",
            type=int,
            metavar="N",
            help="the priority of seeds without one; higher ones are crawled first",
        )
        parser.add_argument(
            "--meta",
            type=_json_object,
            metavar="JSON",
            help="add these fields to each seed's meta, unless it has them",
        )
        parser.add_argument(
            "--skip-invalid", action="store_true", help="push the valid seeds even if others are invalid"
        )

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Check and push them."""
        path = opts.file or (STANDARD_INPUT if opts.seeds == [STANDARD_INPUT] else None)
        if (opts.file and opts.seeds) or not (path or opts.seeds):
            raise InspectionError(
                "Give the spider's name, and then either URLs, or --file FILE, or - for standard input"
            )
        view = context.view(opts.spider)
        rules = SeedRules(view, opts.priority, opts.meta)
        if rules.are_its_own:
            context.output.warn(
                f"the seeds are not checked, because spider {view.spider} has its own format of seeds "
                "(make_request_from_data)"
            )
        with _source(path, opts.seeds, rules) as source:
            push = _Push(context, view, Seeding(view, source, rules), "line" if path else "seed")
            push.check(opts.skip_invalid)
            return push.run()


class _Push:
    def __init__(self, context: Context, view: View, seeding: Seeding, noun: str) -> None:
        self._output = context.output
        self._view = view
        self._seeding = seeding
        self._noun = noun
        self._total = 0

    def check(self, skip_invalid: bool) -> None:
        with self._progress("checking", None) as advance:
            checked = self._seeding.check(advance)
        self._total = checked.good
        for place, reason in checked.problems:
            self._output.warn(f"{self._noun} {place}: {reason}")
        if checked.bad > len(checked.problems):
            self._output.warn(f"and {number(checked.bad - len(checked.problems))} more")
        if not checked.good:
            raise InspectionError(
                "Nothing was pushed: " + ("all seeds are invalid" if checked.bad else "there are no seeds")
            )
        if not checked.bad:
            return
        if not skip_invalid:
            raise InspectionError(
                f"Nothing was pushed: {self._counted(checked.bad)} of {number(checked.bad + checked.good)} "
                f"{'is' if checked.bad == 1 else 'are'} invalid. --skip-invalid pushes the others"
            )
        self._output.warn(f"{self._counted(checked.bad)} skipped")

    def run(self) -> int | None:
        before = self._seeding.pushed
        if before:
            self._output.say(
                f"{self._so_far()} were pushed by an interrupted run: "
                + ("nothing is left to push" if before == self._total else "continuing there")
            )
        try:
            with self._progress("pushing", self._total) as advance, until_interrupted() as ends:

                def pushed(count: int) -> None:
                    advance(count)
                    if ends():
                        raise KeyboardInterrupt

                self._seeding.push(pushed)
        except KeyboardInterrupt:
            if not self._is_through():
                self._output.warn(f"interrupted: {self._so_far()} were pushed. {self._how_to_continue()}")
                return 130
        except connection.RedisError as error:
            if self._seeding.pushed < self._total:
                why = connection.describe_error(self._view.server, error)
                raise InspectionError(
                    f"{why}. At least {self._so_far()} were pushed. {self._how_to_continue()}"
                ) from error
        self._say_what_was_pushed(self._total - before)
        return None

    def _say_what_was_pushed(self, count: int) -> None:
        what = f"{counted(count, 'seed')} pushed to {self._seeding.key!r}"
        if self._seeding.kind != "list":
            what += (
                f", a {'set' if self._seeding.kind == 'set' else 'sorted set'}, which keeps equal seeds once"
            )
        try:
            with suppress(connection.RedisError):
                what += f". {self._readers()}"
        finally:
            # They were pushed, even if the workers cannot be read now.
            self._output.say(what)

    def _readers(self) -> str:
        """Return which workers will read the seeds, or how to have them read."""
        status = read_status(self._view)
        spider = self._view.spider
        workers = counted(status.alive, "worker")
        if status.state in ("paused", "draining"):
            resume = frontier_command("resume", spider)
            return f"The crawl is {status.state}, with {workers}. To resume it: {resume}"
        if not status.alive:
            return f"No worker is alive. Start one: {crawl_command(spider)}"
        if status.state == "stopping":
            return f"{workers} alive, but closing"
        return f"{workers} will read {'it' if self._total == 1 else 'them'}"

    @contextmanager
    def _progress(self, what: str, total: int | None) -> Iterator[Advance]:
        if self._noun != "line":  # the seeds of a command line are pushed before a bar could be drawn
            yield lambda count: None
            return
        with self._output.progress(what, total) as advance:
            yield advance

    def _is_through(self) -> bool:
        # The interrupted step may have been completed.
        with suppress(connection.RedisError):
            self._seeding.look()
            if self._seeding.pushed == self._total:
                self._seeding.forget()
        return self._seeding.pushed == self._total

    def _so_far(self) -> str:
        return f"{number(self._seeding.pushed)} of {counted(self._total, 'seed')}"

    def _how_to_continue(self) -> str:
        if self._noun == "line":
            return "Run the same command again to continue there"
        return "Check which are there before you push them again"

    def _counted(self, count: int) -> str:
        return counted(count, self._noun)


@contextmanager
def _source(path: str | None, seeds: list[str], rules: SeedRules) -> Iterator[Source]:
    if path is None:
        yield Few(seeds)
        return
    with open_lines(path, rules.encoding, not rules.are_its_own) as lines:
        yield lines


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"must be JSON, not {text!r}: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'must be a JSON object such as {{"shop": 7}}, not {text}')
    return value
