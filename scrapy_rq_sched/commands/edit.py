"""``scrapy frontier reprioritize``, ``remove`` and ``clear``, and the orders to all workers of a fleet."""

from __future__ import annotations

import argparse
import sys

from ..codec.patterns import Host, Pattern
from ..errors import InspectionError
from ..inspect import View
from ..inspect.operations.clear import KEEPABLE, clear_frontier
from ..inspect.operations.operation import Observer, Operation
from ..inspect.operations.orders import order, stop_worker
from ..inspect.operations.waiting import remove_waiting, reprioritize_waiting
from .action import Change, Context


class _OfWaiting(Change):
    """A change of the waiting requests of a URL pattern or a host."""

    last = "pattern"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the pattern and the host."""
        parser.add_argument(
            "pattern", nargs="?", metavar="PATTERN", help="a pattern of the whole URL; * stands for any text"
        )
        parser.add_argument("--host", metavar="HOST", help="all requests to this host and its subdomains")
        super().add_arguments(parser)

    @staticmethod
    def _matcher(opts: argparse.Namespace) -> Host | Pattern:
        if (opts.pattern is None) == (opts.host is None):
            raise InspectionError("Give either a PATTERN or --host HOST")
        return Host(opts.host) if opts.host is not None else Pattern(opts.pattern)


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

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the pattern, the host, and whether the requests are forgotten."""
        super().add_arguments(parser)
        parser.add_argument("--forget", action="store_true", help="also make them count as not seen")

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare the removal."""
        return remove_waiting(view, observer, self._matcher(opts), opts.forget)


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

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the priority, the pattern and the host."""
        parser.add_argument(
            "priority", type=_priority, metavar="PRIORITY", help="an integer; higher ones are crawled first"
        )
        super().add_arguments(parser)

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare the change."""
        return reprioritize_waiting(view, observer, self._matcher(opts), opts.priority)


class Clear(Change):
    """``scrapy frontier clear SPIDER``."""

    name = "clear"
    summary = "Remove a frontier, after showing its contents and asking"
    description = (
        "Remove the whole frontier from Redis: waiting requests, fingerprints, seeds, the failed list. "
        "Items, statistics, the history of crawls and the dashboard's audit list stay. Refused while workers "
        "are alive."
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
        parser.add_argument("--history", action="store_true", help="delete the history of crawls, too")

        super().add_arguments(parser)

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare the removal."""
        return clear_frontier(view, opts.force, opts.keep, opts.history)

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Show its contents, ask, and clear it."""
        if not (opts.dry_run or opts.yes):
            context.output.say(self.operation(context.view(opts.spider), opts, Observer()).plan().text)
            if not sys.stdin.isatty():
                raise InspectionError("Nothing was removed: there is no terminal to ask on. Give --yes")
            if not context.output.confirm("Remove it?"):
                context.output.say("Nothing was removed")
                return 1
        return super().run(context, opts)


class _Order(Change):
    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare the order."""
        return order(view, self.name)


class Pause(_Order):
    """``scrapy frontier pause SPIDER``."""

    name = "pause"
    summary = "Pause the crawl: the workers begin no page until resume"
    description = (
        "Pause a crawl: within two seconds, its workers begin no more pages. They finish the pages they have "
        "begun, including the requests in Scrapy's downloader, where a DOWNLOAD_DELAY still holds. They put "
        "the other requests back into the queue, and stay. Workers that start later wait as well."
    )
    examples = ("scrapy frontier pause quotes", "scrapy frontier resume quotes")


class Resume(_Order):
    """``scrapy frontier resume SPIDER``."""

    name = "resume"
    summary = "Resume the crawl after pause or drain"
    examples = ("scrapy frontier resume quotes", "scrapy frontier status quotes --watch")


class Drain(_Order):
    """``scrapy frontier drain SPIDER``."""

    name = "drain"
    summary = "Finish the requests in hand, and take no more"
    description = (
        "Have all workers finish the requests they hold, including those only in their memory, and "
        "take no more. The workers stay. After that, stop loses and repeats nothing."
    )
    examples = ("scrapy frontier drain quotes", "scrapy frontier resume quotes")


class Stop(_Order):
    """``scrapy frontier stop SPIDER``."""

    name = "stop"
    summary = "Close all workers cleanly, or one of them"
    description = (
        "Close all workers that are alive now, within two seconds and as after one Ctrl-C: each finishes its "
        "downloads and puts the other requests back. Nothing is removed: workers that start later continue "
        "the crawl."
    )
    examples = (
        "scrapy frontier stop quotes",
        "scrapy frontier stop quotes --worker host-4711-a1b2c3",
        "scrapy frontier status quotes --watch",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the only worker to stop."""
        parser.add_argument("--worker", metavar="NAME", help="only this worker")
        super().add_arguments(parser)

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare the order."""
        return order(view, self.name) if opts.worker is None else stop_worker(view, opts.worker)


def _priority(text: str) -> int:
    try:
        priority = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, not {text!r}") from None
    if abs(priority) > 2**53:
        raise argparse.ArgumentTypeError(f"must be an integer from -2**53 to 2**53, not {text!r}")
    return priority
