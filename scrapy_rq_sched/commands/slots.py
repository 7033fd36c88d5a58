"""``scrapy frontier slots``: the waiting requests and limits of each host, and how to change the limits."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from heapq import nlargest

from ..codec.pools import shown_place
from ..codec.slot_rules import FIELDS
from ..errors import InspectionError
from ..inspect import View, as_json
from ..inspect.operations.operation import Observer, Operation
from ..inspect.operations.slots import block_slot, reset_slot, set_slot, unblock_slot
from ..inspect.slots import Slots, SlotStatus
from .action import Change, Context
from .formats import duration, number
from .output import Table
from .periods import seconds_in, whole
from .watch import Picture, add_watch, watch

#: How many slots are shown by default.
MOST = 50
#: The changes of a slot, with their arguments.
CHANGES = {
    "set": "set SLOT NAME=VALUE...",
    "reset": "reset SLOT",
    "block": "block SLOT TIME",
    "unblock": "unblock SLOT",
}
_SLOTS = ("SLOT", "WAITING", "NEXT IN", "WHY", "DELAY", "CONCURRENCY", "PAGES", "WORKER")


class SlotsAction(Change):
    """``scrapy frontier slots SPIDER``."""

    name = "slots"
    summary = "Show waiting requests by host; change the limits of a host, or block it"
    description = (
        "Show the slots that have waiting requests, those with the most requests first. A slot is a host, or "
        "the text in a request's meta['download_slot']. 'set' changes the limits that all workers together "
        "keep for a slot, until the crawl is finished; 'reset' restores those of the settings. 'block' sends "
        "no requests to a slot for a time; 'unblock' ends that."
    )
    syntax = ("[SLOT...]", *CHANGES.values())
    examples = (
        "scrapy frontier slots quotes --top 10 --watch",
        "scrapy frontier slots quotes set quotes.toscrape.com delay=2 concurrency=1",
        "scrapy frontier slots quotes block quotes.toscrape.com 10m",
    )
    last = "what"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the slots, the change, and how they are shown."""
        parser.add_argument("what", nargs="*", metavar="SLOT", help="a slot; or a change, and its slot")
        parser.add_argument(
            "--top", type=whole, default=MOST, metavar="N", help=f"show N slots (default: {MOST})"
        )
        parser.add_argument("--blocked", action="store_true", help="show only blocked slots")
        parser.add_argument("--json", action="store_true", help="print JSON: one object per slot and line")
        super().add_arguments(parser)
        add_watch(parser)

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show or change them."""
        if opts.what[1:] and opts.what[0] in CHANGES:
            self.perform(context, opts)
            return
        if opts.dry_run:
            raise InspectionError(f"Give {', '.join(CHANGES)} with --dry-run: a list changes nothing")
        slots = Slots(context.view(opts.spider))
        names = [slots.find(text)[0] for text in opts.what] or None
        has_none = (
            f"No slot of spider {opts.spider} {'is blocked' if opts.blocked else 'has waiting requests'}"
        )
        picture = Picture(
            lambda: _read(slots, names, opts),
            as_json.slot,
            lambda found: [slots_table(found) if found else has_none],
        )
        watch(context, opts, picture)

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare the change."""
        verb, slot, *rest = opts.what
        if verb == "set":
            return set_slot(view, slot, _limits(rest))
        if verb == "block" and len(rest) == 1:
            seconds = seconds_in(rest[0])
            if seconds is None:
                raise InspectionError(f"TIME must be a period such as 30s, 10m, 2h or 1d, not {rest[0]!r}")
            return block_slot(view, slot, seconds, duration(seconds))
        if verb != "block" and not rest:
            return (reset_slot if verb == "reset" else unblock_slot)(view, slot)
        raise InspectionError(f"Usage: scrapy frontier slots SPIDER {CHANGES[verb]}")


def _read(slots: Slots, names: list[str] | None, opts: argparse.Namespace) -> list[SlotStatus]:
    found: Iterable[SlotStatus] = slots.read(slots.with_state() if opts.blocked and not names else names)
    if opts.blocked:
        found = (one for one in found if one.blocked_for)
    if names is None:
        return nlargest(opts.top, found, key=lambda one: (one.waiting, one.slot))
    return list(found)


def slots_table(slots: Iterable[SlotStatus]) -> Table:
    """Return a table with a row for each of *slots*."""
    slots = list(slots)
    left_out = () if any(one.pages is not None for one in slots) else ("PAGES",)
    places = [place for place, title in enumerate(_SLOTS) if title not in left_out]
    rows = [[row[place] for place in places] for row in map(_row, slots)]
    titles = [_SLOTS[place] for place in places]
    return Table(titles, rows, texts=("SLOT",), dispensable=("WORKER", "CONCURRENCY"))


def _row(one: SlotStatus) -> list[str]:
    mark = " (set)" if one.is_set else ""
    delay = "-"
    if one.delay is not None:
        delay = f"{one.delay:.3g} s{_origin(one) or mark}"
    return [
        shown_place(one.slot),
        number(one.waiting),
        duration(one.next_in) if one.next_in else "now",
        f"{one.why} ({one.block_reason})" if one.why == "blocked" and one.block_reason else one.why or "-",
        delay,
        f"{one.concurrency}{mark}" if one.concurrency else "-",
        _pages(one),
        one.owner or "-",
    ]


def _origin(one: SlotStatus) -> str:
    """Return where the delay comes from, if not from the settings."""
    if one.is_learnt:
        return " (learnt)"
    if one.crawl_delay and one.delay == one.crawl_delay:
        return " (robots.txt)"
    return " (throttled)" if one.throttle and one.delay == one.throttle else ""


def _pages(one: SlotStatus) -> str:
    if one.pages is None:
        return "-"
    of = f" of {number(one.max_pages)} (set)" if one.max_pages else ""
    return f"{number(one.pages)}{of}" + (f", {number(one.dropped)} dropped" if one.dropped else "")


def _limits(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if not pairs or not all(equals for _, equals, _ in pairs):
        raise InspectionError(f"Give limits as NAME=VALUE, such as delay=2. The names: {', '.join(FIELDS)}")
    values = {name: value for name, _, value in pairs}
    if len(values) < len(pairs):
        raise InspectionError(f"{' '.join(texts)}: give each of {', '.join(FIELDS)} only once")
    return values
