"""``scrapy frontier forget``: make URLs count as not seen."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ..codec.patterns import Pattern
from ..errors import InspectionError, frontier_command
from ..inspect import View
from ..inspect.edit import forget, in_steps
from ..inspect.fingerprint import Fingerprinter
from ..inspect.seed_rules import SeedRules
from ..inspect.seeding import Few, Seeding
from ..inspect.wording import counted
from .action import Action, Context
from .formats import number


class Forget(Action):
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

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Forget them."""
        view = context.view(opts.spider)
        fingerprinter = Fingerprinter(view)
        # Refuse URLs that cannot be pushed before any is forgotten.
        rules = _seed_rules(view, opts.priority) if opts.crawl else None
        count = forgotten = 0
        for urls in in_steps(_urls(opts)):
            fingerprints = [fingerprinter.of(fingerprinter.request(url)) for url in urls]
            forgotten += forget(view, fingerprints)
            count += len(urls)
            if rules is not None:
                _push(view, urls, rules)
        if opts.file is None and not forgotten and any("*" in url for url in opts.urls):
            raise InspectionError(
                "A pattern alone cannot be used: Redis keeps fingerprints, which cannot be turned back into "
                "URLs. Give whole URLs, or with --file a file of URLs, such as your items, and the pattern"
            )
        context.output.say(
            f"Forgotten: {number(forgotten)} of {counted(count, 'URL')}; only URLs that have been seen count"
        )


def _seed_rules(view: View, priority: int | None) -> SeedRules:
    rules = SeedRules(view, priority)
    if rules.are_its_own:
        raise InspectionError(
            f"Spider {view.spider!r} has its own format of seeds, which --crawl cannot push. To push them: "
            + frontier_command("seed", view.spider)
        )
    return rules


def _push(view: View, urls: list[str], rules: SeedRules) -> None:
    """Push *urls* as seeds that count as seen."""
    seeding = Seeding(view, Few(_as_seed(url) for url in urls), rules)
    seeding.check(lambda _: None)
    seeding.push(lambda _: None)


def _as_seed(url: str) -> str:
    fields = json.loads(url) if url.startswith("{") else {"url": url}
    return json.dumps({"dont_filter": False, **fields})


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    if name == "-":
        yield sys.stdin
        return
    try:
        with Path(name).open(encoding="utf-8", errors="surrogateescape") as file:
            yield file
    except OSError as error:
        raise InspectionError(f"File {name!r} cannot be read: {error.strerror}") from error


def _url_of(line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        return str(json.loads(line)["url"])
    except (ValueError, KeyError, RecursionError) as error:
        raise InspectionError(f"{line[:100]!r} is not a JSON object with a url: {error}") from error


def _urls(opts: argparse.Namespace) -> Iterator[str]:
    if opts.file is None:
        if not opts.urls:
            raise InspectionError("No URLs: give URLs, or with --file a file of URLs")
        yield from opts.urls
        return
    patterns = [Pattern(text) for text in opts.urls]
    with _opened(opts.file) as lines:
        for line in lines:
            url = _url_of(line.strip())
            if url and (not patterns or any(pattern.matches(url) for pattern in patterns)):
                yield url
