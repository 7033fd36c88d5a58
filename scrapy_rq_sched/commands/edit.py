"""``scrapy frontier forget``, ``reprioritize``, ``remove`` and ``clear``: change what a frontier has."""

from __future__ import annotations

import argparse
import json
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ..codec.patterns import Host, Pattern
from ..errors import InspectionError, one_line
from ..inspect import View, read_status
from ..inspect.edit import KEEPABLE, Chosen, Waiting, clear, forget, in_steps
from ..inspect.entries import SEARCH_STEP, STEP, Entry
from ..inspect.explain import needle_of
from ..inspect.fingerprint import Fingerprinter
from ..inspect.seed_rules import SeedRules
from ..inspect.seeding import Few, Seeding
from .action import Action, Context, until_interrupted
from .output import Fields, number


class _OfWaiting(Action):
    """What is done to waiting requests by pattern or host."""

    last = "pattern"
    done: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add which."""
        parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="of the URL; * stands for anything")
        parser.add_argument("--host", metavar="HOST", help="all of this host and its subdomains")
        parser.add_argument("--dry-run", action="store_true", help="count, and change nothing")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Do it, or count."""
        if (opts.pattern is None) == (opts.host is None):
            raise InspectionError("Say either a PATTERN or --host")
        view = context.view(opts.spider)
        matcher = Host(opts.host) if opts.host else Pattern(opts.pattern)
        needle = needle_of(view, max(opts.pattern.split("*"), key=len)) if opts.pattern else None
        waiting = Waiting(view)
        count, looked_at, total = 0, 0, read_status(view).waiting

        def chosen(entry: Entry) -> bool:
            return bool(entry.url) and matcher.matches(entry.url)

        with context.output.progress(self.name, total) as bar, until_interrupted() as ends:
            if opts.dry_run:
                steps = waiting.find(chosen, needle)
            else:
                steps = self.change(view, waiting, chosen, needle, ends, opts)
            for changed in steps:
                count += len(changed)
                step = min(SEARCH_STEP if view.is_sorted else STEP, total - looked_at)
                looked_at += step
                bar.advance(step)
                if ends() and (view.is_sorted or opts.dry_run):
                    break
            interrupted = ends()
        what = f"of {number(total)} waiting requests of spider {opts.spider}"
        if opts.dry_run:
            context.output.say(f"{number(count)} {what} would be {self.done} (--dry-run)")
        else:
            context.output.say(f"{number(count)} {what} were {self.done}")
        if waiting.unwritable:
            context.output.warn(
                f"{number(len(waiting.unwritable))} were left as they are, because they cannot be written "
                f"again, such as {one_line(waiting.unwritable[0])}"
            )
        if interrupted:
            raise InspectionError("Interrupted: the rest is as it was")

    @abstractmethod
    def change(
        self,
        view: View,
        waiting: Waiting,
        chosen: Chosen,
        needle: bytes | None,
        ends: Callable[[], bool],
        opts: argparse.Namespace,
    ) -> Iterator[list[Entry]]:
        """Yield what was changed, a step at a time."""


class Remove(_OfWaiting):
    """``scrapy frontier remove SPIDER PATTERN``."""

    name = "remove"
    summary = "Take waiting requests out, by URL pattern or host"
    description = (
        "Take the waiting requests of a URL pattern or a host out of the queue, in steps. They still count "
        "as seen, so that they are not queued again when they are found again, unless --forget. With "
        "FifoQueue and LifoQueue the crawl has to be paused. What a worker has in hand is not touched."
    )
    syntax = "PATTERN | --host HOST"
    done = "removed"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add which, and whether they are forgotten."""
        super().add_arguments(parser)
        parser.add_argument("--forget", action="store_true", help="have them count as not seen, too")

    def change(
        self,
        view: View,
        waiting: Waiting,
        chosen: Chosen,
        needle: bytes | None,
        ends: Callable[[], bool],
        opts: argparse.Namespace,
    ) -> Iterator[list[Entry]]:
        """Remove them, and forget them if that is wanted."""
        if not opts.forget:
            return waiting.remove(chosen, needle, ends)
        fingerprinter = Fingerprinter(view)

        def forget_them(entries: list[Entry]) -> None:
            forget(view, [fingerprinter.of_fields(entry.fields or {}) for entry in entries])

        # Before: what is gone and counts as seen would never be crawled.
        return waiting.remove(chosen, needle, ends, before=forget_them)


class Reprioritize(_OfWaiting):
    """``scrapy frontier reprioritize SPIDER PRIORITY PATTERN``."""

    name = "reprioritize"
    summary = "Give waiting requests another priority, by URL pattern or host"
    description = (
        "Give the waiting requests of a URL pattern or a host another priority, in steps: the higher, the "
        "sooner. Equal ones keep their order. Only with PriorityQueue."
    )
    syntax = "PRIORITY PATTERN | PRIORITY --host HOST"
    done = "given that priority"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the priority, and which."""
        parser.add_argument(
            "priority", type=_priority, metavar="PRIORITY", help="Scrapy's: the higher, the sooner"
        )
        super().add_arguments(parser)

    def change(
        self,
        view: View,
        waiting: Waiting,
        chosen: Chosen,
        needle: bytes | None,
        ends: Callable[[], bool],
        opts: argparse.Namespace,
    ) -> Iterator[list[Entry]]:
        """Change it."""
        return waiting.reprioritize(chosen, opts.priority, needle)


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


class Clear(Action):
    """``scrapy frontier clear SPIDER``."""

    name = "clear"
    summary = "Remove a frontier, after saying what is in it and asking"
    description = (
        "Remove all that a frontier has in Redis: what waits, what was seen, seeds, the failed list. Items "
        "and statistics stay. It is refused while workers are alive."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what stays, and whether it asks."""
        parser.add_argument("--force", action="store_true", help="also while workers are alive")
        parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
        parser.add_argument(
            "--keep", action="append", default=[], choices=KEEPABLE, help="what stays (may be repeated)"
        )

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Say what is there, ask, and clear it."""
        view = context.view(opts.spider)
        status = read_status(view)
        if status.alive and not opts.force:
            raise InspectionError(
                f"{status.alive} workers are at the frontier of spider {view.spider!r}. First: scrapy "
                f"frontier stop {view.spider}; or --force, and their logs will say that it is gone"
            )
        counts = ("waiting", "leased", "delayed", "seeds", "failed", "seen")
        there = [(name, number(getattr(status, name))) for name in counts if name not in opts.keep]
        context.output.show(f"Of spider {view.spider} these are removed:", Fields(there))
        if not opts.yes and not sys.stdin.isatty():
            raise InspectionError("Nothing was removed: there is no terminal to ask on. Say --yes")
        if not opts.yes and not context.output.confirm("Remove them?"):
            context.output.say("Nothing was removed")
            return 1
        kept_for = clear(view, opts.force, opts.keep)
        if kept_for:
            context.output.say(
                f"What was seen is not removed: the frontier {kept_for!r} has the same "
                "SCHEDULER_DUPEFILTER_KEY"
            )
        context.output.say(f"The frontier of spider {view.spider} is removed")
        try:
            view.named_queue_class  # noqa: B018 - that it can be known is what is asked
        except InspectionError as error:
            context.output.say(f"But for what waits. {error}. Clear it by itself")
        return None


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


def _priority(text: str) -> int:
    priority = int(text)
    if abs(priority) > 2**53:
        raise argparse.ArgumentTypeError("a double holds no such number exactly")
    return priority


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
