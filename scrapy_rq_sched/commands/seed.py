"""``scrapy frontier seed`` and ``forget``: push seeds, and make URLs count as not seen."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from ..codec.patterns import Pattern
from ..errors import InspectionError
from ..inspect import View
from ..inspect.operations.forget import forget_urls
from ..inspect.operations.operation import Observer, Operation
from ..inspect.operations.seed_lines import STANDARD_INPUT, open_lines
from ..inspect.operations.seed_rules import SeedRules
from ..inspect.operations.seeding import Few, Source, push_seeds
from .action import Change, Context


class Seed(Change):
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

        super().add_arguments(parser)

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Check and push them."""
        with ExitStack() as self._files:
            return super().run(context, opts)

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare to push them."""
        path = opts.file or (STANDARD_INPUT if opts.seeds == [STANDARD_INPUT] else None)
        if (opts.file and opts.seeds) or not (path or opts.seeds):
            raise InspectionError(
                "Give the spider's name, and then either URLs, or --file FILE, or - for standard input"
            )
        rules = SeedRules(view, opts.priority, opts.meta)
        source: Source = Few(opts.seeds)
        if path is not None:
            source = self._files.enter_context(open_lines(path, rules.encoding, not rules.are_its_own))
        return push_seeds(view, observer, source, rules, opts.skip_invalid)


class Forget(Change):
    """``scrapy frontier forget SPIDER URL…``."""

    name = "forget"
    summary = "Make URLs count as not seen, so that they are crawled again"
    description = (
        "Make URLs count as not seen: they are crawled when they are found again, or at once with --crawl. "
        "Redis keeps fingerprints of the URLs it has seen, and a fingerprint cannot be turned back into its "
        "URL. So give the URLs, for example in a file of your items, from which a PATTERN with * can choose."
    )
    syntax = ("URL...", "--file FILE [PATTERN...]")
    examples = (
        "scrapy frontier forget quotes https://quotes.toscrape.com/ --crawl",
        "scrapy frontier forget quotes --file items.jsonl",
        "scrapy frontier forget quotes --file items.jsonl '*/author/*'",
    )
    last = "urls"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the URLs, and whether they are crawled now."""
        parser.add_argument("urls", nargs="*", metavar="URL", help="a URL; with --file, a pattern of URLs")
        parser.add_argument(
            "--file",
            metavar="FILE",
            help="a file with a URL, or a JSON object with a url, in each line; - is standard input",
        )
        parser.add_argument("--crawl", action="store_true", help="also push them as seeds")
        parser.add_argument(
            "--priority",
            type=int,
            metavar="N",
            help="the priority of these seeds (default: 0); higher ones are crawled first",
        )

        super().add_arguments(parser)

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare to forget them."""
        return forget_urls(view, _urls(opts), opts.crawl, opts.priority)

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Forget them.

        :raises InspectionError: if a pattern is given without a file.
        """
        outcome = self.perform(context, opts)
        if opts.file is None and not outcome.touched and any("*" in url for url in opts.urls):
            raise InspectionError(
                "A pattern alone cannot be used: Redis keeps fingerprints, which cannot be turned back into "
                "URLs. Give whole URLs, or with --file a file of URLs, such as your items, and the pattern"
            )
        return None


def _urls(opts: argparse.Namespace) -> Iterable[str]:
    if opts.file is not None:
        return _urls_of_file(opts.file, [Pattern(text) for text in opts.urls])
    if not opts.urls:
        raise InspectionError("No URLs: give URLs, or with --file a file of URLs")
    return list(opts.urls)


def _urls_of_file(path: str, patterns: list[Pattern]) -> Iterator[str]:
    with open_lines(path, "utf-8") as lines:
        for place, line in lines:
            if line is None:
                raise InspectionError(f"Line {place} of {path!r} is too long for a URL. Remove the line")
            url = _url_of(line)
            if url and (not patterns or any(pattern.matches(url) for pattern in patterns)):
                yield url


def _url_of(line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        return str(json.loads(line)["url"])
    except (ValueError, KeyError, RecursionError) as error:
        raise InspectionError(f"{line[:100]!r} is not a JSON object with a url: {error}") from error


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"must be JSON, not {text!r}: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'must be a JSON object such as {{"shop": 7}}, not {text}')
    return value
