"""``scrapy frontier seed``: push seeds, checked before."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .. import connection
from ..errors import InspectionError
from ..inspect import View, read_status
from ..inspect.seed_lines import STANDARD_INPUT, open_lines
from ..inspect.seed_rules import SeedRules
from ..inspect.seeding import Advance, Few, Seeding, Source
from .action import Action, Context, until_interrupted
from .output import number


class Seed(Action):
    """``scrapy frontier seed SPIDER URL…``."""

    name = "seed"
    summary = "Push seeds: URLs, or a file of them"
    description = (
        "Push seeds, each a URL or a JSON object with any of a request's fields, in their order. All are "
        "checked before the first is pushed. Of a file, blank lines and those that begin with # are skipped; "
        "if the push breaks off, run the same again: it goes on where it was."
    )
    syntax = "URL… | --file FILE | -"
    last = "seeds"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what is pushed, and what the seeds are given."""
        parser.add_argument(
            "seeds",
            nargs="*",
            metavar="URL",
            help="a URL or a JSON object; - alone: lines of the standard input",
        )
        parser.add_argument(
            "--file", metavar="FILE", help="push the lines of a file; -: of the standard input"
        )
        parser.add_argument(
            "--priority", type=int, metavar="N", help="of seeds that have none; the higher, the sooner"
        )
        parser.add_argument(
            "--meta",
            type=_json_object,
            metavar="JSON",
            help="put into each seed's meta what it has not there",
        )
        parser.add_argument(
            "--skip-invalid", action="store_true", help="push the good ones also where others are bad"
        )

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Push them."""
        path = opts.file or (STANDARD_INPUT if opts.seeds == [STANDARD_INPUT] else None)
        if (opts.file and opts.seeds) or not (path or opts.seeds):
            raise InspectionError(
                "Say what to push: either URLs, or --file FILE, or - for the standard input"
            )
        view = context.view(opts.spider)
        rules = SeedRules(view, opts.priority, opts.meta)
        if rules.are_its_own:
            context.output.warn(
                f"seeds of spider {view.spider} are not checked: it makes requests of them in a way of its "
                "own (make_request_from_data)"
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
                "Nothing was pushed: "
                + ("none of these is a seed" if checked.bad else "there is no seed in it")
            )
        if not checked.bad:
            return
        if not skip_invalid:
            raise InspectionError(
                f"Nothing was pushed: {self._counted(checked.bad)} of {number(checked.bad + checked.good)} "
                "cannot be made a request of. --skip-invalid pushes the others"
            )
        self._output.warn(f"{self._counted(checked.bad)} skipped")

    def run(self) -> int | None:
        before = self._seeding.pushed
        if before:
            self._output.say(
                f"{self._so_far()} were pushed before, by a run that broke off: "
                + ("there is nothing left of it" if before == self._total else "going on there")
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
                self._output.warn(f"interrupted: {self._so_far()} were pushed. {self._how_to_go_on()}")
                return 130
        except connection.RedisError as error:
            if self._seeding.pushed < self._total:
                why = connection.describe_error(self._view.server, error)
                raise InspectionError(
                    f"{why}. As far as is known {self._so_far()} were pushed. {self._how_to_go_on()}"
                ) from error
        self._say_what_was_pushed(self._total - before)
        return None

    def _say_what_was_pushed(self, count: int) -> None:
        what = f"{number(count)} seed{'' if count == 1 else 's'} pushed to {self._seeding.key!r}"
        if self._seeding.kind != "list":
            what += (
                f", a {'set' if self._seeding.kind == 'set' else 'sorted set'} (equal seeds are one there)"
            )
        try:
            with suppress(connection.RedisError):
                what += f": {self._who_takes_them()}"
        finally:
            # They are, whatever keeps from knowing who takes them.
            self._output.say(what)

    def _who_takes_them(self) -> str:
        status = read_status(self._view)
        spider = self._view.spider
        if not status.alive:
            who = f"no worker is alive: start one with scrapy crawl {spider}"
        else:
            who = f"{number(status.alive)} worker{' is' if status.alive == 1 else 's are'} at it"
        if status.state in ("paused", "draining"):
            return f"{who}; but the crawl is {status.state}: scrapy frontier resume {spider}"
        return f"{who}, and closing" if status.state == "stopping" else who

    @contextmanager
    def _progress(self, what: str, total: int | None) -> Iterator[Advance]:
        if self._noun != "line":  # what fits on a command line is pushed before a bar is drawn
            yield lambda count: None
            return
        with self._output.progress(what, total) as bar:
            yield bar.advance

    def _is_through(self) -> bool:
        # The step that was interrupted may be done.
        with suppress(connection.RedisError):
            self._seeding.look()
            if self._seeding.pushed == self._total:
                self._seeding.forget()
        return self._seeding.pushed == self._total

    def _so_far(self) -> str:
        return f"{number(self._seeding.pushed)} of {number(self._total)} seeds"

    def _how_to_go_on(self) -> str:
        return (
            "Run the same again to go on there" if self._noun == "line" else "Look before you push them again"
        )

    def _counted(self, count: int) -> str:
        return f"{number(count)} {self._noun}{'' if count == 1 else 's'}"


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
        raise argparse.ArgumentTypeError(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'it may be a JSON object such as {{"shop": 7}}, and is {text}')
    return value
