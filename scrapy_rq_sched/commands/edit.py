"""``scrapy frontier reprioritize``, ``remove`` and ``clear``: change what waits, or remove all."""

from __future__ import annotations

import argparse
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator

from ..codec.patterns import Host, Pattern
from ..errors import InspectionError, one_line
from ..inspect import View, read_status
from ..inspect.edit import KEEPABLE, Chosen, Waiting, clear, forget
from ..inspect.entries import STEP, Entry
from ..inspect.explain import needle_of
from ..inspect.fingerprint import Fingerprinter
from ..inspect.queues import SEARCH_STEP
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


class Clear(Action):
    """``scrapy frontier clear SPIDER``."""

    name = "clear"
    summary = "Remove a frontier, after saying what is in it and asking"
    description = (
        "Remove all that a frontier has in Redis: what waits, what was seen, seeds, the failed list. Items, "
        "statistics and the dashboard's audit list stay. It is refused while workers are alive."
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


def _priority(text: str) -> int:
    priority = int(text)
    if abs(priority) > 2**53:
        raise argparse.ArgumentTypeError("a double holds no such number exactly")
    return priority
