"""``scrapy frontier forget``: have URLs count as not seen."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ..codec.patterns import Pattern
from ..errors import InspectionError
from ..inspect import View
from ..inspect.edit import forget, in_steps
from ..inspect.fingerprint import Fingerprinter
from ..inspect.seed_rules import SeedRules
from ..inspect.seeding import Few, Seeding
from .action import Action, Context
from .output import number


class Forget(Action):
    """``scrapy frontier forget SPIDER URL…``."""

    name = "forget"
    summary = "Have URLs count as not seen, so that they are crawled again"
    description = (
        "Have URLs count as not seen: found again, they are crawled again; with --crawl they are seeds. What "
        "was seen is kept as fingerprints, from which no URL can be got back: so URLs have to be given, in a "
        "file for example those of your items. Of these a pattern, with *, may choose some."
    )
    syntax = "URL... | --file F [PATTERN...]"
    last = "urls"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add which."""
        parser.add_argument(
            "urls", nargs="*", metavar="URL", help="a URL; with --file, a pattern that chooses"
        )
        parser.add_argument(
            "--file", metavar="F", help="a URL, or a JSON object with a url, a line; - is the standard input"
        )
        parser.add_argument("--crawl", action="store_true", help="push them as seeds, too")
        parser.add_argument(
            "--priority", type=int, metavar="N", help="of these seeds; the higher, the sooner (default: 0)"
        )

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Forget them."""
        view = context.view(opts.spider)
        fingerprinter = Fingerprinter(view)
        # What cannot be pushed is refused before anything is forgotten.
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
                "What was seen is kept as fingerprints, from which no URL can be got back: give URLs, or "
                "with --file a file of them, such as your items, of which the pattern chooses"
            )
        context.output.say(f"{number(forgotten)} of {number(count)} URLs had been seen, and are forgotten")


def _seed_rules(view: View, priority: int | None) -> SeedRules:
    rules = SeedRules(view, priority)
    if rules.are_its_own:
        raise InspectionError(
            f"Spider {view.spider!r} reads seeds in a form of its own: push them with scrapy frontier seed"
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
        raise InspectionError(f"{name!r} cannot be read: {error.strerror}") from error


def _url_of(line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        return str(json.loads(line)["url"])
    except (ValueError, KeyError, RecursionError) as error:
        raise InspectionError(f"{line[:100]!r} is no JSON object with a url: {error}") from error


def _urls(opts: argparse.Namespace) -> Iterator[str]:
    if opts.file is None:
        if not opts.urls:
            raise InspectionError("Say which: give URLs, or with --file a file of them")
        yield from opts.urls
        return
    patterns = [Pattern(text) for text in opts.urls]
    with _opened(opts.file) as lines:
        for line in lines:
            url = _url_of(line.strip())
            if url and (not patterns or any(pattern.matches(url) for pattern in patterns)):
                yield url
