"""The files to which the items of all workers of this machine go.

The workers send their items to a stream in Redis for each file, with the release of their page. A thread
moves them to the file.
"""

from __future__ import annotations

import json
import math
import re
import socket
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote, urlparse

from ..codec.values import text_of
from ..collect.item_file import Entry, ItemFile
from ..connection import RedisError, describe_error
from ..errors import counted, frontier_command
from ..keys import Keys

#: Items, and about how many bytes, that are moved at a time.
MOST_ITEMS, BATCH_BYTES = 1000, 4_000_000
#: Seconds between two looks for items, and until the next attempt after an error.
INTERVAL, AGAIN = 0.2, 2.0
#: Seconds for which the rest is tried to be moved when the workers have ended, if Redis does not answer.
PATIENCE = 30.0
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


def path_of(uri: str) -> str:
    """Return the path of the file that a feed's URI names; empty if it is not one file for all workers."""
    if uri.startswith("file://"):
        return unquote(urlparse(uri).path)
    return "" if _SCHEME.match(uri) or uri == "-" or "%(" in uri else uri


class Feed:
    """A file, and the stream with the items that are not in it yet.

    :param file: the file, which is open.
    :ivar waiting: how many items could not be written, when :class:`FeedWriter` has ended.
    """

    def __init__(self, server: Any, keys: Keys, file: ItemFile) -> None:
        self.file = file
        self.key = keys.feed(file.token)
        self._server = server
        self._count = MOST_ITEMS // 10
        self.waiting = 0

    def move(self) -> int:
        """Move a batch of items to the file, and return how many. Waits for Redis, and for the disk.

        :raises OSError: if they cannot be written. They stay in the stream.
        """
        found = self._server.xrange(self.key, count=self._count)
        entries = [Entry.of(number, fields) for number, fields in found]
        if not entries:
            return 0
        self.file.add(entries)
        self._server.xdel(self.key, *(entry.number for entry in entries))
        size = sum(len(entry.data) for entry in entries)
        self._count = max(1, min(MOST_ITEMS, 2 * len(entries), int(len(entries) * BATCH_BYTES / (size + 1))))
        return len(entries)

    def take_problems(self) -> list[str]:
        """Return the lines about items that are not in the file, once."""
        problems, self.file.problems = self.file.problems, []
        return problems


class FeedWriter:
    """Moves the items of a crawl to their files, in a thread.

    :param server: a redis-py client, and :param keys: the keys of the frontier.
    :param files: the files, which are open.
    :param say: called with a line about a problem.
    """

    def __init__(
        self, server: Any, keys: Keys, files: Sequence[ItemFile], say: Callable[[str], None]
    ) -> None:
        self._server, self._keys = server, keys
        self._say = say
        self.feeds = [Feed(server, keys, file) for file in files]
        self._must_end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="items", daemon=True)
        self._problem = ""

    @property
    def tokens(self) -> str:
        """The value of ``FRONTIER_FEED`` for the workers."""
        return ",".join(feed.file.token for feed in self.feeds)

    def start(self) -> None:
        """Note in Redis which files there are, and begin to move items."""
        for feed in self.feeds:
            owner = {"host": socket.gethostname(), "path": str(feed.file.path)}
            self._server.hset(self._keys.feeds, feed.file.token, json.dumps(owner))
        self._thread.start()

    def end(self, is_complete: bool) -> None:
        """Move the remaining items, and close the files.

        :param is_complete: whether the crawl is finished, so that no items come any more.
        """
        self._must_end.set()
        if self._thread.ident is not None:
            self._thread.join()
        for feed in self.feeds:
            try:
                feed.file.close(is_complete and not feed.waiting)
                for problem in feed.take_problems():
                    self._say(problem)
                if is_complete and not feed.waiting:
                    self._server.hdel(self._keys.feeds, feed.file.token)
            except OSError as error:
                feed.waiting = max(1, feed.waiting)
                self._say(f"{feed.file.path} could not be written: {error}")
            except RedisError as error:
                self._say(describe_error(self._server, error))

    def advice(self, feed: Feed) -> str:
        """Return how to write the items of *feed* that could not be written."""
        command = frontier_command("items", self._keys.spider, "-o", str(feed.file.path))
        return (
            f"{counted(feed.waiting, 'item is', 'items are')} not in {feed.file.path}: {self._problem}. "
            f"Nothing is lost: when this is mended, run: {command}"
        )

    def unwritten_of_others(self) -> list[str]:
        """Return a line for each file of another run that lacks items, with the command that writes them."""
        if not self.feeds:
            return []
        try:
            return unwritten(self._server, self._keys, [feed.file.token for feed in self.feeds])
        except RedisError as error:
            return [describe_error(self._server, error)]

    def _run(self) -> None:
        try:
            if self._move_all():
                return
        except Exception:
            # Nothing is lost: what is in the stream stays there.
            self._problem = "a bug in scrapy-rq-sched; please report it"
            self._say(f"The items cannot be written: {traceback.format_exc()}")
        for feed in self.feeds:
            feed.waiting = self._waiting(feed)

    def _move_all(self) -> bool:
        """Move items until the workers have ended; return whether all were moved."""
        give_up_at = math.inf
        while True:
            is_ending = self._must_end.is_set()  # first: what comes before the end is seen after it
            try:
                moved = sum(self._move(feed) for feed in self.feeds)
            except (OSError, RedisError) as error:
                self._note(error)
                if is_ending:
                    patience = PATIENCE if isinstance(error, RedisError) else 0.0
                    give_up_at = min(give_up_at, time.monotonic() + patience)
                    if time.monotonic() >= give_up_at:
                        return False
                    time.sleep(AGAIN)
                else:
                    self._must_end.wait(AGAIN)
                continue
            if not moved and is_ending:
                return True
            if not moved:
                self._must_end.wait(INTERVAL)

    def _note(self, error: OSError | RedisError) -> None:
        """Say that the items cannot be written, once for each cause."""
        text = describe_error(self._server, error) if isinstance(error, RedisError) else str(error)
        if text != self._problem:
            self._problem = text
            self._say(f"The items cannot be written for now: {text}. They wait in Redis")

    def _move(self, feed: Feed) -> int:
        count = feed.move()
        for problem in feed.take_problems():
            self._say(problem)
        return count

    def _waiting(self, feed: Feed) -> int:
        try:
            return max(1, int(self._server.xlen(feed.key)))
        except RedisError:
            return 1  # an unknown number


def unwritten(server: Any, keys: Keys, own: Sequence[str]) -> list[str]:
    """Return a line for each file of another run that lacks items, with the command that writes them.

    :param own: the tokens of this run.
    """
    lines = []
    for name, value in server.hgetall(keys.feeds).items():
        token = text_of(name)
        waiting = 0 if token in own else int(server.xlen(keys.feed(token)))
        if waiting:
            owner = owner_of(value)
            command = frontier_command("items", keys.spider, "--feed", token, "-o", "FILE")
            lines.append(
                f"{counted(waiting, 'item')} of an earlier run, for {owner['path']} on {owner['host']}, are "
                f"not written. To write them: {command}"
            )
    return lines


def owner_of(value: bytes) -> dict[str, str]:
    """Return the host and the path of a file, as :meth:`FeedWriter.start` has noted them."""
    try:
        owner: Any = json.loads(value)
        return {name: str(owner[name]) for name in ("host", "path")}
    except (ValueError, TypeError, KeyError):  # somebody has written other text there
        return {"host": "an unknown host", "path": "an unknown file"}
