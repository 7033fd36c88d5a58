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
from ..collect.journal import TOKEN
from ..errors import InspectionError, bounded
from ..inspect import View, read_status
from ..supervise.feeds import Feed, forget, owners, path_of, unwritten
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
        parser.add_argument(
            "--follow", action="store_true", help="wait for the crawl, and go on until it is finished"
        )

    def run(self, context: Context, opts: argparse.Namespace) -> int | None:
        """Move them, or show which there are."""
        view = context.view(opts.spider)
        if opts.feed and not TOKEN.fullmatch(opts.feed):
            raise InspectionError(
                "--feed must be 16 hexadecimal digits, as scrapy frontier items shows them, not "
                f"{bounded(opts.feed)!r}"
            )
        if not opts.output:
            _show(context, view)
            return None
        file = _file(opts.output, view)
        file.open(overwrites=False)
        try:
            feed = Feed(view.server, view.keys, file, _source(view, file, opts.feed))
            feed.lock.acquire(context.output.warn)
        except BaseException:
            file.withdraw()
            raise
        try:
            _write(context, view, feed, opts)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise InspectionError(
                f"The items cannot be written to {file.path}: {error}. What is not written stays in Redis. "
                "When this is mended, run the command again"
            ) from error
        finally:
            feed.release()
            _warn(context, feed)
        context.output.say(file.summary)
        left = unwritten(view.server, view.keys, [file.token, opts.feed or ""], str(file.path))
        for line in left:
            context.output.warn(line)
        return 1 if left else None


def _write(context: Context, view: View, feed: Feed, opts: argparse.Namespace) -> None:
    """Move the items, and close the file. It is complete if no more items will come."""
    is_over = False
    try:
        is_over = _move(context, view, feed, opts.follow)
    finally:
        # With --feed, the file may have a stream of its own, too.
        streams = (feed.key, view.keys.feed(feed.file.token)) if is_over else ()
        is_complete = is_over and not any(view.server.xlen(stream) for stream in streams)
        feed.file.close(is_complete)
    if is_complete:
        forget(view.server, view.keys, opts.feed or feed.file.token)


def _file(output: str, view: View) -> ItemFile:
    settings: Any = view.scrapy_settings.copy()
    settings.set("FEEDS", {}, "cmdline")
    ((uri, options),) = feed_process_params_from_cli(settings, [output]).items()
    path = path_of(uri)
    if not path:
        raise InspectionError(f"-o {output}: the items can only be written to a file")
    return ItemFile(Path(path).resolve(), options, settings)


def _items_key(view: View) -> str:
    return connection.expand_key(view.server, view.settings.items_key, view.spider, view.settings.job)


def _source(view: View, file: ItemFile, token: str | None) -> str:
    """Return the key of the stream with the items."""
    if token:
        return view.keys.feed(token)
    own = view.keys.feed(file.token)
    if view.server.exists(own) or view.server.hexists(view.keys.feeds, file.token):
        return own  # a scrapy frontier crawl has left them
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

    :param follows: whether to go on until the crawl is finished, also if it has not begun, and if Redis does
        not answer or the disk is full meanwhile.
    """
    problem = ""
    has_begun = waits = False
    name = view.spider
    while True:
        try:
            # First, so that an item that comes before the end is seen after it.
            state = read_status(view).state
            while feed.move():
                _warn(context, feed)
        except BrokenPipeError:
            raise
        except (connection.RedisError, OSError) as error:
            if not follows:
                raise
            text = (
                connection.describe_error(view.server, error)
                if isinstance(error, connection.RedisError)
                else str(error)
            )
            if text != problem:
                context.output.warn(f"{text}; trying again")
            problem = text
            time.sleep(AGAIN)
            continue
        problem = ""
        has_begun = has_begun or state != "new"
        if waits and has_begun:
            waits = False
            context.output.say(f"The crawl of spider {name!r} has begun. Its items are written as they come")
        is_over = state == "finished" or (state == "new" and (has_begun or not follows))
        if is_over or not follows:
            return is_over
        if not (has_begun or waits):
            waits = True
            context.output.say(f"The crawl of spider {name!r} has not begun. Waiting for it")
        time.sleep(INTERVAL)


def _warn(context: Context, feed: Feed) -> None:
    for problem in feed.take_problems():
        context.output.warn(problem)


def _show(context: Context, view: View) -> None:
    """Show which items wait for a program."""
    rows: list[tuple[int, str, str, str]] = []
    key = _items_key(view)
    kind = text_of(view.server.type(key))
    if kind in ("list", "stream"):
        count = view.server.llen(key) if kind == "list" else view.server.xlen(key)
        rows.append((count, key, "", ""))
    for token, owner in owners(view.server, view.keys):
        count = view.server.xlen(view.keys.feed(token))
        rows.append((count, token, bounded(owner.host), bounded(owner.path)))
    shown = [(f"{count:,}", *names) for count, *names in rows if count]
    if shown:
        context.output.show(Table(("items", "key or feed", "host", "file"), shown, texts=("file",)))
    else:
        context.output.say(f"No items of spider {view.spider!r} wait in Redis")
