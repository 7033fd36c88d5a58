"""``scrapy frontier slots``: the waiting requests and limits of each host, and how to change the limits."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Iterable
from heapq import nlargest
from typing import Any

from ..codec.slot_rules import FIELDS, slot_rule
from ..errors import InspectionError, frontier_command
from ..inspect import as_json
from ..inspect.slots import Slots, SlotStatus
from .action import Action, Context
from .formats import duration, number
from .output import Table
from .periods import seconds_in, whole
from .status import LEAVE, add_watch

#: How many slots are shown by default.
MOST = 50
_SLOTS = ("SLOT", "WAITING", "NEXT IN", "WHY", "DELAY", "CONCURRENCY", "WORKER")
#: The longest time for which a slot may be blocked, in seconds.
LONGEST = 30 * 86_400


class SlotsAction(Action):
    """``scrapy frontier slots SPIDER``."""

    name = "slots"
    summary = "Show waiting requests by host; change the limits of a host, or block it"
    description = (
        "Show the slots that have waiting requests, those with the most requests first. A slot is a host, or "
        "the text in a request's meta['download_slot']. 'set' changes the limits that all workers together "
        "keep for a slot, until the crawl is finished; 'reset' restores those of the settings. 'block' sends "
        "no requests to a slot for a time; 'unblock' ends that."
    )
    syntax = (
        "[SLOT...]",
        "set SLOT NAME=VALUE...",
        "reset SLOT",
        "block SLOT TIME",
        "unblock SLOT",
    )
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
        add_watch(parser)

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show or change them."""
        slots = Slots(context.view(opts.spider))
        verb, *rest = opts.what or [""]
        changes: dict[str, Callable[[Slots, list[str]], str]] = {
            "set": _set,
            "reset": _reset,
            "block": _block,
            "unblock": _unblock,
        }
        if verb in changes and rest:
            view = slots.view
            if not view.settings.by_slot:
                raise InspectionError("FRONTIER_BY_SLOT is False, so requests do not wait by slot")
            is_known = slots.find(rest[0])[1]
            said = changes[verb](slots, rest)
            context.output.say(said if is_known else f"{said}. No request of {rest[0]} waits now")
            return
        names = [slots.find(text)[0] for text in opts.what] or None
        if not opts.watch:
            self._show(context, opts, slots, names, context.output.show)
            return
        try:
            with context.output.live(LEAVE, redraws=not opts.json) as draw:
                while True:
                    self._show(context, opts, slots, names, draw)
                    time.sleep(opts.watch)
        except KeyboardInterrupt:
            return

    def _show(
        self, context: Context, opts: argparse.Namespace, slots: Slots, names: list[str] | None, draw: Any
    ) -> None:
        found: Iterable[SlotStatus] = slots.read(slots.with_state() if opts.blocked and not names else names)
        if opts.blocked:
            found = (one for one in found if one.blocked_for)
        shown = (
            nlargest(opts.top, found, key=lambda one: (one.waiting, one.slot))
            if names is None
            else list(found)
        )
        if opts.json:
            for one in shown:
                context.output.json(as_json.slot(one))
            return
        if not shown:
            draw(
                f"No slot of spider {opts.spider} {'is blocked' if opts.blocked else 'has waiting requests'}"
            )
            return
        draw(slots_table(shown))


def slots_table(slots: Iterable[SlotStatus]) -> Table:
    """Return a table with a row for each of *slots*."""
    rows = [_row(one) for one in slots]
    return Table(_SLOTS, rows, texts=("SLOT",), dispensable=("WORKER", "CONCURRENCY"))


def _row(one: SlotStatus) -> list[str]:
    mark = " (set)" if one.is_set else ""
    return [
        one.slot,
        number(one.waiting),
        duration(one.next_in) if one.next_in else "now",
        one.why or "-",
        "-" if one.delay is None else f"{one.delay:g} s{mark}",
        f"{one.concurrency}{mark}" if one.concurrency else "-",
        one.owner or "-",
    ]


def _set(slots: Slots, arguments: list[str]) -> str:
    slot, *said = arguments
    pairs = [text.partition("=") for text in said]
    if not pairs or not all(equals for _, equals, _ in pairs):
        raise InspectionError(f"Give limits as NAME=VALUE, such as delay=2. The names: {', '.join(FIELDS)}")
    values = {name: value for name, _, value in pairs}
    if len(values) < len(pairs):
        raise InspectionError(f"{' '.join(said)}: give each of {', '.join(FIELDS)} only once")
    rule = slot_rule(f"slot {slot!r}", slot, values)
    slots.set(slots.named(slot), rule)
    return f"All workers together keep {', '.join(said)} for {slot}, until the crawl is finished"


def _reset(slots: Slots, arguments: list[str]) -> str:
    (slot,) = _exactly(arguments, "reset SLOT")
    slots.reset(slots.named(slot))
    return f"{slot} has the limits of the settings again"


def _block(slots: Slots, arguments: list[str]) -> str:
    slot, text = _exactly(arguments, "block SLOT TIME", 2)
    period = seconds_in(text) or 0.0
    if not 0 < period <= LONGEST:
        raise InspectionError(
            f"TIME must be a period such as 30s, 10m, 2h or 1d, of at most {LONGEST // 86_400} days, not "
            f"{text!r}"
        )
    slots.block(slots.named(slot), period)
    unblock = frontier_command("slots", slots.view.spider, "unblock", shlex.quote(slot))
    return f"{slot} is blocked: no worker sends it a request for {duration(period)}, or until: {unblock}"


def _unblock(slots: Slots, arguments: list[str]) -> str:
    (slot,) = _exactly(arguments, "unblock SLOT")
    slots.unblock(slots.named(slot))
    return f"{slot} is no longer blocked"


def _exactly(arguments: list[str], syntax: str, count: int = 1) -> list[str]:
    if len(arguments) != count:
        raise InspectionError(f"Usage: scrapy frontier slots SPIDER {syntax}")
    return arguments
