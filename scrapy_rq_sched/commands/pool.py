"""``scrapy frontier pool``: the items of pools, and how to add, remove, rest or retire them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable
from dataclasses import asdict

from ..errors import InspectionError, shown
from ..inspect import View
from ..inspect.operations.operation import Observer, Operation
from ..inspect.operations.pools import add_items, remove_items, rest_item, retire_item
from ..inspect.pools import Item, Pools
from .action import Change, Context
from .formats import duration, number
from .output import Part, Styled, Table
from .periods import seconds_in, whole
from .watch import Picture, add_watch, watch

#: How many items are shown by default.
SHOWN = 100
#: Read the items from standard input.
STANDARD_INPUT = "-"
#: The changes of a pool, with their arguments.
CHANGES = {
    "add": "add POOL ITEM...",
    "remove": "remove POOL NAME...",
    "rest": "rest POOL NAME TIME [REASON]",
    "retire": "retire POOL NAME [REASON]",
}
#: How many words each of them has: at least, and at most; 0: any number.
_WORDS = {"add": (3, 0), "remove": (3, 0), "rest": (4, 5), "retire": (3, 4)}
#: The word before the names of the pools to list, which may be left out.
_LIST = "list"
_COLUMNS = ("POOL", "ITEM", "STATE", "FREE IN", "WHY", "WORKER", "USED", "BAD")
_COLOURS = {"free": "green", "in use": "cyan", "rests": "yellow", "retired": "red"}


class PoolAction(Change):
    """``scrapy frontier pool SPIDER``."""

    name = "pool"
    summary = "List the items of pools (FRONTIER_POOLS); add, remove, rest or retire items"
    description = (
        "List the items of the pools (FRONTIER_POOLS), such as accounts and proxies: which are free, in use, "
        "at rest or retired. Only their names are shown, never their passwords or cookies. 'add' adds items: "
        "each is a text, or a JSON object with a name; give - to read them from standard input, one on each "
        "line, so that no password is in the history of your shell. The name of an item that rests or is "
        "retired uses it again. 'remove' removes items, also if the settings have them. 'rest' lets no "
        "request have an item for a time, and with 0 ends its rest; 'retire' takes it out of use."
    )
    syntax = ("[list] [POOL...]", *CHANGES.values())
    examples = (
        "scrapy frontier pool quotes",
        "scrapy frontier pool quotes add accounts - < accounts.jsonl",
        "scrapy frontier pool quotes rest accounts alice 1h 'she must solve a captcha'",
    )
    last = "words"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the pools, the change, and how they are shown."""
        parser.add_argument("words", nargs="*", metavar="POOL", help="a pool; or a change, and its pool")
        parser.add_argument(
            "-n",
            dest="count",
            type=whole,
            metavar="N",
            help=f"show N items (default: {SHOWN}; with --json, all)",
        )
        parser.add_argument("--json", action="store_true", help="print JSON: one object per item and line")
        super().add_arguments(parser)
        add_watch(parser)

    def run(self, context: Context, opts: argparse.Namespace) -> None:
        """Show or change them."""
        if opts.words[1:] and opts.words[0] in CHANGES:
            self.perform(context, opts)
            return
        if opts.dry_run:
            raise InspectionError(f"Give {', '.join(CHANGES)} with --dry-run: a list changes nothing")
        names = opts.words[1:] if opts.words[:1] == [_LIST] else opts.words
        pools = Pools(context.view(opts.spider))
        _check(pools, names)
        most = opts.count or SHOWN
        picture = Picture(
            # One more shows that there are more.
            lambda: list(pools.read(names, opts.count if opts.json else most + 1)),
            asdict,
            lambda found: _parts(found, most, names, opts.spider),
        )
        watch(context, opts, picture)

    def operation(self, view: View, opts: argparse.Namespace, observer: Observer) -> Operation:
        """Prepare the change."""
        verb, pool, *rest = opts.words
        least, most = _WORDS[verb]
        if not least <= len(opts.words) <= (most or len(opts.words)):
            raise InspectionError(f"Usage: scrapy frontier pool SPIDER {CHANGES[verb]}")
        if verb == "add":
            return add_items(view, pool, _lines() if rest == [STANDARD_INPUT] else rest)
        if verb == "remove":
            return remove_items(view, pool, rest)
        if verb == "retire":
            return retire_item(view, pool, *rest)
        name, time, *reason = rest
        seconds = seconds_in(time)
        if seconds is None:
            raise InspectionError(f"TIME must be a period such as 30s, 10m, 2h or 1d, not {time!r}")
        return rest_item(view, pool, name, seconds, "".join(reason), duration(seconds))


def _parts(found: list[Item], most: int, names: Collection[str], spider: str) -> list[Part]:
    if not found:
        return ["These pools have no items" if names else f"No pool of spider {spider} has items"]
    table = items_table(found[:most])
    if len(found) <= most:
        return [table]
    return [table, f"There are more items. To show {number(10 * most)}: -n {10 * most}"]


def items_table(items: Iterable[Item]) -> Table:
    """Return a table with a row for each of *items*."""
    return Table(
        _COLUMNS,
        list(map(_row, items)),
        texts=("POOL", "ITEM", "STATE", "WHY", "WORKER"),
        dispensable=("BAD", "USED", "WORKER"),
    )


def _row(one: Item) -> list[str]:
    return [
        one.pool,
        one.name,
        Styled(one.state, _COLOURS.get(one.state, "")),
        "now" if one.free_in == 0 else duration(max(1, one.free_in)) if one.free_in else "-",
        one.retired or one.why or "-",
        ", ".join(one.workers) or "-",
        number(one.used),
        number(one.bad),
    ]


def _check(pools: Pools, names: Collection[str]) -> None:
    known = pools.names() if names else []
    if set(names) - set(known):
        # The names are not shown: one may be an item, after a misspelt change.
        there = f"The pools are {', '.join(map(shown, known))}" if known else "There are no pools"
        raise InspectionError(f"Give names of pools, or one of the changes {', '.join(CHANGES)}. {there}")


def _lines() -> list[str]:
    """Return the items of standard input."""
    try:
        lines = sys.stdin.buffer.read().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InspectionError("Standard input must be UTF-8 text, with an item on each line") from None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
