"""``scrapy frontier leases``, ``peek`` and ``explain``: the requests of a frontier."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable
from itertools import chain

from ..assembly.queue import PICKLE
from ..codec.pools import pool_of
from ..frontier.entries import SHOWN, WHOLE
from ..inspect import as_json, read_status
from ..inspect.entries import Entry, Held, Reader
from ..inspect.explain import Explainer, Explanation, Place
from ..inspect.queues import Queues
from ..inspect.status import Status
from ..inspect.verdict import verdict
from ..inspect.wording import counted
from .action import Action, Context
from .formats import duration, number, single_line, time_until, when
from .output import Fields, Table
from .periods import whole
from .states import in_state

_LEASES = ("WORKER", "STATE", "HELD FOR", "KIND", "PRIORITY", "DEATHS", "ITEM", "URL")
_PEEK = ("PLACE", "PRIORITY", "METHOD", "CALLBACK", "URL")


class Leases(Action):
    """``scrapy frontier leases SPIDER``."""

    name = "leases"
    summary = "List the requests and seeds that workers hold, and for how long"
    examples = (
        "scrapy frontier leases quotes",
        "scrapy frontier leases quotes --worker host-4711-a1b2c3",
        "scrapy frontier leases quotes --json",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the worker, and how they are shown."""
        parser.add_argument("--worker", metavar="NAME", help="only the leases of this worker")
        parser.add_argument("--json", action="store_true", help="print JSON: one object per lease and line")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show them, the longest held first."""
        view = context.view(opts.spider)
        longest = WHOLE if opts.json else SHOWN
        held = sorted(Reader(view, longest).held(opts.worker), key=lambda one: (one.since, one.worker))
        if opts.json:
            for one in held:
                context.output.json(as_json.held(one))
            return
        if not held:
            context.output.say(f"No worker holds a request of spider {opts.spider}")
            return
        context.output.show(leases_table(held, read_status(view).now))


class Peek(Action):
    """``scrapy frontier peek SPIDER``."""

    name = "peek"
    summary = "Show the next requests of the queue, without taking them"
    examples = ("scrapy frontier peek quotes", "scrapy frontier peek quotes -n 5 --json")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add their number, and how they are shown."""
        parser.add_argument(
            "-n", dest="count", type=whole, default=20, metavar="N", help="show N requests (default: 20)"
        )
        parser.add_argument("--json", action="store_true", help="print JSON: one whole request per line")

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show them."""
        view = context.view(opts.spider)
        if opts.json:
            for place, entry in enumerate(Queues(view).next(opts.count, whole=True), 1):
                context.output.json({"place": place, **as_json.entry(entry)})
            return
        entries = list(Queues(view).next(opts.count))
        if entries:
            context.output.show(peek_table(entries))
        else:
            context.output.say(f"No request of spider {opts.spider} waits")
        status = read_status(view)
        if status.seeds:
            verb = "is" if status.seeds == 1 else "are"
            context.output.say(f"{counted(status.seeds, 'seed')} {verb} read first")


class Explain(Action):
    """``scrapy frontier explain SPIDER URL``."""

    name = "explain"
    summary = "Explain what became of a URL: seen, waiting, leased, crawled, dropped, failed?"
    description = (
        "Find out the state of a URL: seen, waiting (at which place), leased (by which worker), failed (for "
        "which reason), and the cause that holds it back. All waiting requests are searched, in steps."
    )
    syntax = ("URL",)
    examples = (
        "scrapy frontier explain quotes https://quotes.toscrape.com/page/2/",
        """scrapy frontier explain quotes '{"url": "http://a.test/", "method": "PUT"}'""",
    )

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
            ("seen", _seen(found)),
            ("waiting", "\n".join(_waits(found, status)) or "no"),
            ("leased", "\n".join(_leased(held, status) for held in found.held) or "no"),
            (
                "failed",
                "\n".join(f"{when(one.time)}: {single_line(one.reason)}" for one in found.failed) or "no",
            ),
        ]
        if found.outcomes:
            raised = "; its callback raised an exception"
            ended = [
                f"{when(one.time)}: {single_line(one.text)}{raised if one.has_raised else ''}"
                for one in found.outcomes
            ]
            pairs.append(("ended", "\n".join(ended)))
        if found.history:
            pairs.append(("history", "\n".join(found.history)))
        sentences = map(single_line, verdict(found, status, shlex.quote(opts.url)))
        context.output.show(Fields(pairs), "", *sentences)


def leases_table(held: Iterable[Held], now: float) -> Table:
    """Return a table with a row for each of the leases *held*."""
    held = list(held)
    has_items = any(one.item for one in held)
    titles = [title for title in _LEASES if title != "ITEM" or has_items]
    rows = [
        [
            one.worker,
            in_state("alive" if one.alive else "dead"),
            duration(now - one.since) if one.since else "-",
            one.entry.kind,
            str(one.entry.priority),
            str(one.deaths),
            *([one.item or "-"] if has_items else []),
            shown(one.entry),
        ]
        for one in held
    ]
    return Table(titles, rows, texts=("URL",), dispensable=("PRIORITY", "KIND", "DEATHS"))


def peek_table(entries: Iterable[Entry]) -> Table:
    """Return a table with a row for each of *entries*."""
    rows = [
        [str(place), str(entry.priority), entry.method or "-", entry.callback or "-", shown(entry)]
        for place, entry in enumerate(entries, 1)
    ]
    return Table(_PEEK, rows, texts=("URL",), dispensable=("METHOD", "CALLBACK"))


def shown(entry: Entry) -> str:
    """Return the URL of *entry*, or its problem if it has none."""
    if entry.data.startswith(PICKLE) and entry.problem:
        return entry.problem
    return entry.url or f"{entry.data[:60]!r}: {entry.problem}"


def _seen(found: Explanation) -> str:
    if found.seen or found.started:
        return "yes"
    return "no" if found.exists else "unknown: the crawl has ended, and its fingerprints are removed"


def _waits(found: Explanation, status: Status) -> list[str]:
    lines = []
    for place in chain(found.waiting, found.seeds):
        rank = "as a seed, " if place.entry.kind == "seed" else f"with priority {place.entry.priority}, "
        come = "comes" if place.before == 1 else "come"
        before = "in no order" if place.before is None else f"{number(place.before)} {come} before it"
        if place.before and status.per_second and place.entry.kind == "request":
            before += f" (about {duration(place.before / status.per_second)} at this rate)"
        lines.append(f"yes, {rank}{before}{_in_slot(place)}")
    lines += [
        f"yes, delayed {'for another worker ' if one.is_for_another else ''}until {when(one.due)}"
        for one in found.delayed
    ]
    lines += ["yes, until a group is finished"] * len(found.following)
    return lines


def _in_slot(place: Place) -> str:
    slot = place.slot
    if slot is None:
        return ""
    reason = single_line(slot.block_reason)
    answered = f", because its site has answered {reason}" if reason else ""
    delay = "the delay learnt from its site's answers" if slot.is_learnt else "its delay"
    why = {
        "blocked": f"; it is blocked for {duration(slot.blocked_for)}{answered}",
        "delay": f"; {delay} allows the next request in {time_until(slot.next_in)}",
        "concurrency": f"; its concurrency is used up ({counted(slot.active, 'download')})",
        "spider": "; its next turn is another spider's",
        "unreachable": f"; its site cannot be reached, and the next attempt is in {time_until(slot.next_in)}",
        "": "",
    }
    name, _, lane = slot.slot.partition("|")
    needs = lane.rpartition("~")[0].rstrip("|") if "~" in lane else lane
    pool = f", for an item of pool {single_line(pool_of(lane))}" if "~" in lane else ""
    shown_name = f"{name}|{needs}" if needs else name
    return f" in slot {shown_name}{pool}{why.get(slot.why, f'; it is held back: {slot.why}')}"


def _leased(held: Held, status: Status) -> str:
    since = f" for {duration(status.now - held.since)}" if held.since else ""
    item = f" with item {single_line(held.item)} of pool {single_line(held.pool)}" if held.item else ""
    return f"by {single_line(held.worker)}{since}{item}" + ("" if held.alive else ", which is dead")
