"""``scrapy frontier deny``, ``allow`` and ``denied``: hosts and URLs that no worker may request."""

from __future__ import annotations

import argparse

from ..inspect import View
from ..inspect.operations.deny import allow, denied, deny
from ..inspect.operations.operation import Observer, Operation
from .action import Action, Change, Context
from .output import Table


class _OfText(Change):
    """A change of the deny-list."""

    syntax = ("HOST", "PATTERN")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the host or pattern."""
        parser.add_argument(
            "text",
            metavar="HOST",
            help="a host, with its subdomains; or a pattern of the whole URL, in which * stands for any text",
        )
        super().add_arguments(parser)


class Deny(_OfText):
    """``scrapy frontier deny SPIDER HOST``."""

    name = "deny"
    summary = "Let no worker request a host, or the URLs of a pattern, from now on"
    description = (
        "Within two seconds, no worker begins a request to the host or its subdomains, or to a URL of the "
        "pattern, also for a robots.txt or media. Waiting requests are removed, and new ones are dropped; "
        "they do not count as seen. This holds until 'allow', also after the end of the crawl."
    )
    examples = (
        "scrapy frontier deny quotes www.example.com --dry-run",
        "scrapy frontier deny quotes www.example.com",
        "scrapy frontier deny quotes '*://www.example.com/calendar/*'",
    )

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare it."""
        return deny(view, observer, opts.text)


class Allow(_OfText):
    """``scrapy frontier allow SPIDER HOST``."""

    name = "allow"
    summary = "Allow requests again that were denied"
    examples = ("scrapy frontier allow quotes www.example.com", "scrapy frontier denied quotes")

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare it."""
        return allow(view, opts.text)


class DeniedAction(Action):
    """``scrapy frontier denied SPIDER``."""

    name = "denied"
    summary = "List the hosts and patterns of URLs that are denied"
    examples = ("scrapy frontier denied quotes", "scrapy frontier denied quotes --json")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add ``--json``."""
        parser.add_argument("--json", action="store_true", help="print JSON: one object per line")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show the list."""
        found = denied(context.view(opts.spider))
        if opts.json:
            for one in found:
                context.output.json(one._asdict())
        elif found:
            context.output.show(
                Table(("DENIED", "SINCE"), [[one.text, one.time] for one in found], texts=("DENIED",))
            )
        else:
            context.output.say(f"Nothing is denied for spider {opts.spider}")
