"""``scrapy frontier items``: move the items of a crawl from Redis to a file."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from scrapy.utils.conf import feed_process_params_from_cli

from .. import connection
from ..codec.values import text_of
from ..collect.item_file import ItemFile
from ..errors import InspectionError
from ..inspect import View, read_status
from ..inspect.wording import counted
from ..supervise.feeds import Feed, owner_of, path_of
from .action import Action, Context
from .output import Table

#: Seconds between two looks for items with ``--follow``, and until the next attempt if Redis does not answer.
INTERVAL, AGAIN = 0.5, 2.0


class Items(Action):
    """``scrapy frontier items SPIDER -o FILE``."""

    name = "items"
    summary = "Move the items of a crawl from Redis to a file, each once"
    description = (
        "Move items from Redis to a file: those of FRONTIER_ITEMS = 'stream', or those that a killed scrapy "
        "frontier crawl has left. Each item is in the file once, also if this command is killed: run it "
        "again with the same file. Without -o, show which items wait."
    )
    examples = (
        "scrapy frontier items quotes",
        "scrapy frontier items quotes -o quotes.jsonl --follow",
        "scrapy frontier items quotes --feed 4f1d09a2c7e35b68 -o quotes.jsonl",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the file, and which items."""
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="append to FILE: JSON lines (.jsonl), CSV, JSON or XML"
        )
        parser.add_argument("--feed", metavar="TOKEN", help="the items of this file of scrapy frontier crawl")
        parser.add_argument("--follow", action="store_true", help="go on until the crawl is finished")

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Move them, or show which there are."""
        view = context.view(opts.spider)
        if not opts.output:
            _show(context, view)
            return None
        file = _file(opts.output, view)
        file.open(replaces=False)
        feed = Feed(view.server, view.keys, file)
        feed.key = _source(view, file, opts.feed)
        is_complete = False
        try:
            is_complete = _move(context, view, feed, opts.follow)
        finally:
            file.close(is_complete)
            for problem in feed.take_problems():
                context.output.warn(problem)
        if is_complete:
            view.server.hdel(view.keys.feeds, opts.feed or file.token)
        context.output.say(
            f"{counted(file.count, 'item')} {'was' if file.count == 1 else 'were'} "
            f"{'added' if file.adds else 'written'} to {file.path}"
        )
        return None


def _file(output: str, view: View) -> ItemFile:
    settings: Any = view.scrapy_settings.copy()
    settings.set("FEEDS", {}, "cmdline")
    ((uri, options),) = feed_process_params_from_cli(settings, [output]).items()
    path = path_of(uri)
    if not path:
        raise InspectionError(f"-o {output}: the items can only be written to a file")
    return ItemFile(Path(path).resolve(), options["format"], settings)


def _items_key(view: View) -> str:
    return connection.expand_key(view.server, view.settings.items_key, view.spider, view.settings.job)


def _source(view: View, file: ItemFile, token: str | None) -> str:
    """Return the key of the stream with the items."""
    if token:
        return view.keys.feed(token)
    if view.server.exists(view.keys.feed(file.token)):
        return view.keys.feed(file.token)  # a scrapy frontier crawl has left them
    key = _items_key(view)
    kind = text_of(view.server.type(key))
    if kind not in ("stream", "none"):
        raise InspectionError(
            f"Key {key!r} is a {kind}, from which other programs take items. To move items to a file, set "
            "FRONTIER_ITEMS to 'stream'"
        )
    return key


def _move(context: Context, view: View, feed: Feed, follows: bool) -> bool:
    """Move all items that there are; return whether no more will come.

    :param follows: whether to go on until the crawl is finished, also if Redis does not answer meanwhile.
    """
    problem = ""
    while True:
        try:
            # First, so that an item that comes before the end is seen after it.
            is_over = read_status(view).state in ("new", "finished")
            while feed.move():
                for line in feed.take_problems():
                    context.output.warn(line)
        except connection.RedisError as error:
            if not follows:
                raise
            text = connection.describe_error(view.server, error)
            if text != problem:
                context.output.warn(f"{text}; trying again")
            problem = text
            time.sleep(AGAIN)
            continue
        problem = ""
        if is_over or not follows:
            return is_over
        time.sleep(INTERVAL)


def _show(context: Context, view: View) -> None:
    """Show which items wait for a program."""
    rows: list[tuple[int, str, str, str]] = []
    key = _items_key(view)
    kind = text_of(view.server.type(key))
    if kind in ("list", "stream"):
        count = view.server.llen(key) if kind == "list" else view.server.xlen(key)
        rows.append((count, key, "", ""))
    for token, value in sorted(view.server.hgetall(view.keys.feeds).items()):
        owner = owner_of(value)
        count = view.server.xlen(view.keys.feed(text_of(token)))
        rows.append((count, text_of(token), owner["host"], owner["path"]))
    shown = [(f"{count:,}", *names) for count, *names in rows if count]
    if shown:
        context.output.show(Table(("items", "key or feed", "host", "file"), shown, texts=("file",)))
    else:
        context.output.say(f"No items of spider {view.spider!r} wait in Redis")
