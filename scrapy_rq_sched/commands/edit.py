"""``scrapy frontier reprioritize``, ``remove`` and ``clear``: change a frontier, or remove it."""

from __future__ import annotations

import argparse
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator

from ..codec.patterns import Host, Pattern
from ..errors import InspectionError, frontier_command, one_line
from ..inspect import View, own_keys, read_status
from ..inspect.edit import KEEPABLE, Chosen, Waiting, clear, forget
from ..inspect.entries import STEP, Entry
from ..inspect.explain import needle_of
from ..inspect.fingerprint import Fingerprinter
from ..inspect.queues import SEARCH_STEP
from ..inspect.wording import counted
from .action import Action, Context, until_interrupted
from .formats import number
from .output import Fields


class _OfWaiting(Action):
    """A change of the waiting requests of a URL pattern or a host."""

    last = "pattern"
    done: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the pattern and the host."""
        parser.add_argument(
            "pattern", nargs="?", metavar="PATTERN", help="a pattern of the whole URL; * stands for any text"
        )
        parser.add_argument("--host", metavar="HOST", help="all requests to this host and its subdomains")
        parser.add_argument("--dry-run", action="store_true", help="count the requests, and change nothing")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Change the requests, or count them."""
        if (opts.pattern is None) == (opts.host is None):
            raise InspectionError("Give either a PATTERN or --host HOST")
        view = context.view(opts.spider)
        matcher = Host(opts.host) if opts.host else Pattern(opts.pattern)
        needle = needle_of(view, max(opts.pattern.split("*"), key=len)) if opts.pattern else None
        waiting = Waiting(view)
        count, looked_at, total = 0, 0, read_status(view).waiting

        def chosen(entry: Entry) -> bool:
            return bool(entry.url) and matcher.matches(entry.url)

        with context.output.progress(self.name, total) as advance, until_interrupted() as ends:
            if opts.dry_run:
                steps = waiting.find(chosen, needle)
            else:
                steps = self.change(view, waiting, chosen, needle, ends, opts)
            for changed in steps:
                count += len(changed)
                step = min(SEARCH_STEP if view.is_sorted else STEP, total - looked_at)
                looked_at += step
                advance(step)
                if ends() and (view.is_sorted or opts.dry_run):
                    break
            interrupted = ends()
        what = f"of {counted(total, 'waiting request')} of spider {opts.spider}"
        if opts.dry_run:
            context.output.say(f"{number(count)} {what} would be {self.done} (--dry-run)")
        else:
            context.output.say(f"{number(count)} {what} {'was' if count == 1 else 'were'} {self.done}")
        if waiting.unwritable:
            context.output.warn(
                f"{counted(len(waiting.unwritable), 'request')} not changed, because the serializer cannot "
                f"write them again, such as {one_line(waiting.unwritable[0])}"
            )
        if interrupted:
            raise InspectionError("Interrupted. The other requests are unchanged")

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
        """Yield the changed requests of each step."""


class Remove(_OfWaiting):
    """``scrapy frontier remove SPIDER PATTERN``."""

    name = "remove"
    summary = "Remove waiting requests, by URL pattern or host"
    description = (
        "Remove the waiting requests of a URL pattern or a host from the queue, in steps. They still count "
        "as seen, so that they are not queued when they are found again, unless you give --forget. With "
        "FifoQueue and LifoQueue, the crawl must be paused. Requests that a worker holds stay."
    )
    syntax = ("PATTERN", "--host HOST")
    examples = (
        "scrapy frontier remove quotes '*/tag/*' --dry-run",
        "scrapy frontier remove quotes '*/tag/*'",
        "scrapy frontier remove quotes --host ads.example.com --forget",
    )
    done = "removed"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the pattern, the host, and whether the requests are forgotten."""
        super().add_arguments(parser)
        parser.add_argument("--forget", action="store_true", help="also make them count as not seen")

    def change(
        self,
        view: View,
        waiting: Waiting,
        chosen: Chosen,
        needle: bytes | None,
        ends: Callable[[], bool],
        opts: argparse.Namespace,
    ) -> Iterator[list[Entry]]:
        """Remove them, and with ``--forget`` make them count as not seen."""
        if not opts.forget:
            return waiting.remove(chosen, needle, ends)
        fingerprinter = Fingerprinter(view)

        def forget_them(entries: list[Entry]) -> None:
            forget(view, [fingerprinter.of_fields(entry.fields or {}) for entry in entries])

        # Forget first: a removed request that still counts as seen would never be crawled.
        return waiting.remove(chosen, needle, ends, before=forget_them)


class Reprioritize(_OfWaiting):
    """``scrapy frontier reprioritize SPIDER PRIORITY PATTERN``."""

    name = "reprioritize"
    summary = "Change the priority of waiting requests, by URL pattern or host"
    description = (
        "Change the priority of the waiting requests of a URL pattern or a host, in steps. Higher priorities "
        "are crawled first. Requests of the same priority keep their order. Only with PriorityQueue."
    )
    syntax = ("PRIORITY PATTERN", "PRIORITY --host HOST")
    examples = (
        "scrapy frontier reprioritize quotes 10 '*/author/*' --dry-run",
        "scrapy frontier reprioritize quotes 10 '*/author/*'",
        "scrapy frontier reprioritize quotes -5 --host slow.example.com",
    )
    done = "given that priority"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the priority, the pattern and the host."""
        parser.add_argument(
            "priority", type=_priority, metavar="PRIORITY", help="an integer; higher ones are crawled first"
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
        """Change their priority."""
        return waiting.reprioritize(chosen, opts.priority, needle)


class Clear(Action):
    """``scrapy frontier clear SPIDER``."""

    name = "clear"
    summary = "Remove a frontier, after showing its contents and asking"
    description = (
        "Remove the whole frontier from Redis: waiting requests, fingerprints, seeds, the failed list. "
        "Items, statistics and the dashboard's audit list stay. Refused while workers are alive."
    )
    examples = (
        "scrapy frontier clear quotes",
        "scrapy frontier clear quotes --keep seen --keep failed",
        "scrapy frontier clear quotes --yes",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the parts that stay, and whether it asks."""
        parser.add_argument("--force", action="store_true", help="also while workers are alive")
        parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
        parser.add_argument(
            "--keep",
            action="append",
            default=[],
            choices=KEEPABLE,
            help="a part that stays (may be repeated)",
        )

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Show its contents, ask, and clear it."""
        view = context.view(opts.spider)
        own_keys.require(view)
        status = read_status(view)
        if status.alive and not opts.force:
            raise InspectionError(
                f"The crawl of spider {view.spider!r} has {counted(status.alive, 'worker')}. With --force, "
                "the frontier is removed all the same, and their logs report that. To stop them first: "
                + frontier_command("stop", view.spider)
            )
        counts = ("waiting", "leased", "delayed", "seeds", "failed", "seen")
        there = [(name, number(getattr(status, name))) for name in counts if name not in opts.keep]
        context.output.show(f"The frontier of spider {view.spider} to be removed:", Fields(there))
        if not opts.yes and not sys.stdin.isatty():
            raise InspectionError("Nothing was removed: there is no terminal to ask on. Give --yes")
        if not opts.yes and not context.output.confirm("Remove it?"):
            context.output.say("Nothing was removed")
            return 1
        kept_for = clear(view, opts.force, opts.keep)
        if kept_for:
            context.output.say(
                f"The fingerprints are not removed: the frontier {kept_for!r} has the same "
                "SCHEDULER_DUPEFILTER_KEY"
            )
        context.output.say(f"The frontier of spider {view.spider} was removed")
        try:
            view.named_queue_class  # noqa: B018 - raises if it cannot be known
        except InspectionError as error:
            context.output.say(f"The waiting requests stay. {error}. Clear them with its own code")
        return None


def _priority(text: str) -> int:
    try:
        priority = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, not {text!r}") from None
    if abs(priority) > 2**53:
        raise argparse.ArgumentTypeError(f"must be an integer from -2**53 to 2**53, not {text!r}")
    return priority
