"""``scrapy frontier leases``, ``peek`` and ``explain``: the requests themselves."""

from __future__ import annotations

import argparse
import shlex
from itertools import chain

from ..engine.components import PICKLE
from ..inspect import as_json, read_status
from ..inspect.entries import Entry, Held, Reader
from ..inspect.explain import Explainer, Explanation, Place
from ..inspect.queues import Queues
from ..inspect.status import Status
from ..inspect.verdict import verdict
from .action import Action, Context
from .output import Fields, Table, duration, number, single_line, when

_NUMBERS = frozenset(("PLACE", "PRIORITY", "DEATHS"))


class Leases(Action):
    """``scrapy frontier leases SPIDER``."""

    name = "leases"
    summary = "Who holds what, and since when"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add whose, and how it is shown."""
        parser.add_argument("--worker", metavar="NAME", help="only those of this worker")
        parser.add_argument("--json", action="store_true", help="print JSON: an object a lease, one a line")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show them, those that are held longest first."""
        view = context.view(opts.spider)
        held = sorted(Reader(view).held(opts.worker), key=lambda one: (one.since, one.worker))
        if opts.json:
            for one in held:
                context.output.json(as_json.held(one))
            return
        if not held:
            context.output.say(f"Nothing is leased at the frontier of spider {opts.spider}")
            return
        now = read_status(view).now
        rows = [
            [
                one.worker,
                "alive" if one.alive else "dead",
                duration(now - one.since) if one.since else "-",
                one.entry.kind,
                str(one.entry.priority),
                str(one.deaths),
                shown(one.entry),
            ]
            for one in held
        ]
        headings = ["WORKER", "STATE", "HELD FOR", "KIND", "PRIORITY", "DEATHS", "URL"]
        context.output.show(Table(headings, rows, _NUMBERS))


class Peek(Action):
    """``scrapy frontier peek SPIDER``."""

    name = "peek"
    summary = "What comes next, decoded, without taking it"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add how many, and how they are shown."""
        parser.add_argument(
            "-n", dest="count", type=_count, default=20, metavar="N", help="how many (default: 20)"
        )
        parser.add_argument("--json", action="store_true", help="print JSON: a whole request a line")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show them."""
        view = context.view(opts.spider)
        entries = Queues(view).next(opts.count)
        if opts.json:
            for place, entry in enumerate(entries, 1):
                context.output.json({"place": place, **as_json.entry(entry)})
            return
        rows = [
            [
                str(place),
                str(entry.priority),
                entry.method or "-",
                shown(entry),
                entry.callback or "-",
            ]
            for place, entry in enumerate(entries, 1)
        ]
        if rows:
            headings = ["PLACE", "PRIORITY", "METHOD", "URL", "CALLBACK"]
            context.output.show(Table(headings, rows, _NUMBERS))
        else:
            context.output.say(f"Nothing waits at the frontier of spider {opts.spider}")
        status = read_status(view)
        if status.seeds:
            context.output.say(f"Before these come {number(status.seeds)} seeds")


class Explain(Action):
    """``scrapy frontier explain SPIDER URL``."""

    name = "explain"
    summary = "Why a URL has not been crawled: seen, waiting, leased, failed?"
    description = (
        "Find out what has become of a URL: was it seen, is it waiting (at which place), leased (by whom), "
        "failed (why), and what holds it. All that waits is gone through, in steps."
    )
    syntax = "URL"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the URL, and how it is shown."""
        parser.add_argument(
            "url", metavar="URL", help="a URL, or a JSON object that describes a request as a seed does"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Explain it."""
        view = context.view(opts.spider)
        found = Explainer(view).explain(opts.url)
        status = read_status(view)
        if opts.json:
            context.output.json(as_json.explanation(found))
            return
        pairs = [
            ("url", found.url),
            ("fingerprint", found.fingerprint),
            ("seen", "yes" if found.seen or found.started else "no"),
            ("waiting", "\n".join(_waits(found, status)) or "no"),
            ("leased", "\n".join(_leased(held, status) for held in found.held) or "no"),
            (
                "failed",
                "\n".join(f"{when(one.time)}: {single_line(one.reason)}" for one in found.failed) or "no",
            ),
        ]
        if found.history:
            pairs.append(("history", "\n".join(found.history)))
        said = map(single_line, verdict(found, status, shlex.quote(opts.url)))
        context.output.show(Fields(pairs), "", *said)


def shown(entry: Entry) -> str:
    """Return the URL of *entry*, or what is there instead."""
    if entry.data.startswith(PICKLE) and entry.problem:
        return entry.problem
    return entry.url or f"{entry.data[:60]!r}: {entry.problem}"


def _waits(found: Explanation, status: Status) -> list[str]:
    lines = []
    for place in chain(found.waiting, found.seeds):
        what = "as a seed, " if place.entry.kind == "seed" else f"with priority {place.entry.priority}, "
        before = "in no order" if place.before is None else f"{number(place.before)} come before it"
        if place.before and status.per_second and place.entry.kind == "request":
            before += f" (about {duration(place.before / status.per_second)} at this rate)"
        lines.append(f"yes, {what}{before}{_in_slot(place)}")
    lines += [f"yes, set back for another worker, due {when(due)}" for due, _ in found.delayed]
    return lines


def _in_slot(place: Place) -> str:
    slot = place.slot
    if slot is None:
        return ""
    why = {
        "blocked": f"; it is blocked for {duration(slot.blocked_for)}",
        "delay": f"; its delay lets it give the next request in {slot.next_in:.1f} s",
        "concurrency": f"; as many of it are being downloaded as may be ({slot.active})",
        "": "",
    }
    return f" in slot {slot.slot}{why[slot.why]}"


def _leased(held: Held, status: Status) -> str:
    since = f" for {duration(status.now - held.since)}" if held.since else ""
    return f"by {single_line(held.worker)}{since}" + ("" if held.alive else ", which is dead")


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("it may be 1 or more")
    return count
