"""``scrapy frontier slots``: what the fleet asks of each host, and how to change that while it crawls."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from heapq import nlargest
from typing import Any

from ..codec.slot_rules import FIELDS, slot_rule
from ..errors import InspectionError
from ..inspect import as_json
from ..inspect.slots import Slots, SlotStatus
from .action import Action, Context
from .output import Table, duration, number
from .periods import seconds_in
from .status import INTERVAL, seconds

#: How many are shown at the most, unless --top says otherwise.
MOST = 50
_NUMBERS = frozenset(("WAITING", "NEXT IN", "DELAY", "CONCURRENCY"))
#: The longest time for which a slot may be blocked, in seconds.
LONGEST = 30 * 86_400


class SlotsAction(Action):
    """``scrapy frontier slots SPIDER``."""

    name = "slots"
    summary = "What waits by host, and when each is asked next; change or block them"
    description = (
        "Show the slots whose requests wait, those with the most requests first: a slot is a host, or what "
        "download_slot in a request's meta says. 'set SLOT delay=2 concurrency=1 rate=60/m' changes what all "
        "workers together ask of it until the crawl is finished, and 'reset SLOT' ends that; 'block SLOT "
        "10m' has it left alone for so long, and 'unblock SLOT' ends that."
    )
    syntax = "[SLOT | set SLOT NAME=VALUE... | reset SLOT | block SLOT TIME | unblock SLOT]"
    last = "what"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add which, what to do, and how it is shown."""
        parser.add_argument("what", nargs="*", metavar="SLOT", help="a slot; or what to do, and with which")
        parser.add_argument("--top", type=_count, default=MOST, metavar="N", help=f"show N (default: {MOST})")
        parser.add_argument("--blocked", action="store_true", help="show only those that are blocked")
        parser.add_argument("--json", action="store_true", help="print JSON: an object a slot, one a line")
        parser.add_argument(
            "--watch",
            nargs="?",
            type=seconds,
            const=INTERVAL,
            metavar="SECONDS",
            help=f"show it again and again, every so many seconds (default: {INTERVAL:g}); Ctrl-C ends it",
        )

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
                raise InspectionError("FRONTIER_BY_SLOT is False: requests do not wait by slot")
            is_known = slots.find(rest[0])[1]
            said = changes[verb](slots, rest)
            context.output.say(said + ("" if is_known else f". No request of {rest[0]} waits now"))
            return
        names = [slots.find(text)[0] for text in opts.what] or None
        if not opts.watch:
            self._show(context, opts, slots, names, context.output.show)
            return
        try:
            with context.output.live() as draw:
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
            context.output.say(
                f"No slot of spider {opts.spider} {'is blocked' if opts.blocked else 'has requests'}"
            )
            return
        headings = ["SLOT", "WAITING", "NEXT IN", "WHY", "DELAY", "CONCURRENCY", "WORKER"]
        draw(Table(headings, [_row(one) for one in shown], _NUMBERS))


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


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of 1 or more")
    return int(text)


def _set(slots: Slots, arguments: list[str]) -> str:
    slot, *said = arguments
    pairs = [text.partition("=") for text in said]
    if not pairs or not all(equals for _, equals, _ in pairs):
        raise InspectionError(f"Say what to set, such as delay=2; it may be {', '.join(FIELDS)}")
    values = {name: value for name, _, value in pairs}
    if len(values) < len(pairs):
        raise InspectionError(f"{' '.join(said)}: each of {', '.join(FIELDS)} may be given once")
    rule = slot_rule(f"slot {slot!r}", slot, values)
    slots.set(slots.named(slot), rule)
    return f"All workers together keep {', '.join(said)} of {slot}, until the crawl is finished"


def _reset(slots: Slots, arguments: list[str]) -> str:
    (slot,) = _exactly(arguments, "reset SLOT")
    slots.reset(slots.named(slot))
    return f"What the settings say of {slot} holds again"


def _block(slots: Slots, arguments: list[str]) -> str:
    slot, text = _exactly(arguments, "block SLOT TIME", 2)
    period = seconds_in(text) or 0.0
    if not 0 < period <= LONGEST:
        raise InspectionError(
            f"{text!r} is no time such as 30s, 10m, 2h or 1d, of {LONGEST // 86_400} days or less"
        )
    slots.block(slots.named(slot), period)
    how = f"scrapy frontier slots {slots.view.spider} unblock {slot}"
    return f"{slot} is asked for nothing for {duration(period)}, or until: {how}"


def _unblock(slots: Slots, arguments: list[str]) -> str:
    (slot,) = _exactly(arguments, "unblock SLOT")
    slots.unblock(slots.named(slot))
    return f"{slot} is no longer blocked"


def _exactly(arguments: list[str], syntax: str, count: int = 1) -> list[str]:
    if len(arguments) != count:
        raise InspectionError(f"It is typed: scrapy frontier slots SPIDER {syntax}")
    return arguments
