"""The files to which the items of all workers of this machine go.

The workers send their items to a stream in Redis for each file, with the release of their page. A thread
moves them to the file.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

from ..codec.values import text_of
from ..collect.item_file import JOURNAL, Entry, ItemFile
from ..collect.journal import TOKEN, ChangedFileError
from ..connection import RedisError, describe_error
from ..errors import FrontierError, bounded, counted, frontier_command
from ..frontier.scripts import Script
from ..keys import Keys
from .stream_lock import StreamLock

#: Items that are moved at first, and at most; and about how many bytes.
FIRST_ITEMS, MOST_ITEMS, BATCH_BYTES = 10, 1000, 4_000_000
#: Seconds between two looks for items, and until the next attempt after an error.
INTERVAL, AGAIN = 0.2, 2.0
#: Seconds for which the rest is tried to be moved when the workers have ended, if Redis does not answer.
PATIENCE = 30.0
# The first write lets the second one succeed in a Redis that is full of the items that are to be moved.
_NOTE = b"redis.call('HDEL', KEYS[1], ARGV[1]) redis.call('HSET', KEYS[1], unpack(ARGV))"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


def path_of(uri: str) -> str:
    """Return the path of the file that a feed's URI names; empty if it is not one file for all workers."""
    if "%(" in uri or uri == "-":
        return ""
    if uri.startswith("file://"):
        place = urlparse(uri)
        return unquote(place.path) if place.netloc in ("", "localhost") else ""
    return "" if _SCHEME.match(uri) else uri


class Feed:
    """A file, and the stream with the items that are not in it yet.

    :param server: a redis-py client, and :param keys: the keys of the frontier.
    :param file: the file, which is open.
    :param stream: the stream's key; by default, that of the file.
    :ivar problem: why items are not in the file, in words; empty if they are.
    :ivar is_changed: whether the problem is that another program has deleted or changed the file.
    :ivar waiting: how many items the stream had at the end; None if Redis does not answer.
    :ivar is_done: whether a look at the stream after the end of all workers has found it empty.
    """

    def __init__(self, server: Any, keys: Keys, file: ItemFile, stream: str = "") -> None:
        self.file = file
        self.key = stream or keys.feed(file.token)
        self.lock = StreamLock(server, keys, self.key, file.path)
        self.problem = ""
        self.is_changed = self.is_done = self.is_given_up = False
        self.waiting: int | None = 0
        #: When the next attempt is due, and until when Redis may be away at the end.
        self.due, self.patience_ends = 0.0, math.inf
        self._server = server
        self._keys = keys
        # The stream of a file, and not that of FRONTIER_ITEMS, which is for any consumer.
        prefix = keys.feed("")
        self._token = self.key.removeprefix(prefix) if self.key.startswith(prefix) else ""
        self._count = FIRST_ITEMS
        self._is_noted = False

    def move(self) -> int:
        """Move a batch of items to the file, and return how many. Waits for Redis, and for the disk.

        :raises OSError: if they cannot be written. They stay in the stream.
        :raises FrontierError: if another program moves them, or if the journal of the file is damaged.
        """
        self.lock.hold()
        self._note()
        found = self._server.xrange(self.key, count=self._count)
        entries = [Entry.of(number, fields, bool(self._token)) for number, fields in found]
        if not entries:
            return 0
        self.lock.hold()
        wanted = [entry for entry in entries if entry.is_for(self._token)]
        self.file.add(wanted)
        self.file.passed += len(entries) - len(wanted)
        # No entry is before the first of them. To trim is cheaper than to delete each.
        self._server.xtrim(self.key, minid=_after(entries[-1].number), approximate=False)
        size = sum(len(entry.data) for entry in entries)
        self._count = max(1, min(MOST_ITEMS, 2 * len(entries), int(len(entries) * BATCH_BYTES / (size + 1))))
        return len(entries)

    def _note(self) -> None:
        """Note in Redis where the file is, for whoever finds items of it."""
        if not self._is_noted and self.key == self._keys.feed(self.file.token):
            owner = {"host": socket.gethostname(), "path": str(self.file.path)}
            Script(self._server, _NOTE)([self._keys.feeds], [self.file.token, json.dumps(owner)])
            self._is_noted = True

    @property
    def written(self) -> int:
        """How many items of this crawl are in the file, also those of earlier runs of an interrupted crawl.

        It is exact when the file is closed.
        """
        return self.file.written

    def take_problems(self) -> list[str]:
        """Return the lines about items that are not in the file, once."""
        problems, self.file.problems = self.file.problems, []
        return problems

    def close(self, is_complete: bool) -> None:
        """Close the file; if it is complete, forget its stream.

        :param is_complete: whether the crawl is finished, so that no items come any more.
        :raises OSError: if it cannot be written, and :raises FrontierError: if its journal is damaged.
        """
        try:
            self.waiting = int(self._server.xlen(self.key))
        except RedisError:
            self.waiting = None
            self.file.close(is_complete=False)
            raise
        is_complete = is_complete and not self.waiting
        self.file.close(is_complete)
        if is_complete:
            forget(self._server, self._keys, self.file.token)

    def release(self) -> None:
        """Let other programs move the items."""
        # If Redis does not answer, the lock expires.
        with suppress(RedisError):
            self.lock.release()


def _after(number: bytes) -> str:
    """Return the first number of an entry after *number*."""
    milliseconds, _, n = text_of(number).partition("-")
    return f"{milliseconds}-{int(n) + 1}"


def forget(server: Any, keys: Keys, token: str) -> None:
    """Remove what Redis has of a complete file, after the end of the crawl; never items."""
    if not server.xlen(keys.feed(token)):
        server.unlink(keys.feed(token))
        server.hdel(keys.feeds, token)


class FeedWriter:
    """Moves the items of a crawl to their files, in a thread. The failure of a file does not stop the others.

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
        self._printed: set[str] = set()

    @property
    def tokens(self) -> str:
        """The value of ``FRONTIER_FEED`` for the workers."""
        return ",".join(feed.file.token for feed in self.feeds)

    def start(self) -> None:
        """Begin to move items.

        :raises FrontierError: if another program moves the items of one of them.
        """
        for feed in self.feeds:
            feed.lock.acquire(self._tell)
        for feed in self.feeds:
            feed.file.begin()
        self._thread.start()

    def end(self, is_complete: bool) -> None:
        """Move the remaining items, and close the files.

        :param is_complete: whether the crawl is finished, so that no items come any more.
        """
        self._must_end.set()
        if self._thread.ident is not None:
            self._thread.join()
        for feed in self.feeds:
            with self._problems(feed):
                feed.close(is_complete and feed.is_done)
        self.release()
        for feed in self.feeds:
            for line in feed.take_problems():
                self._tell(line)

    def advice(self, feed: Feed) -> str:
        """Return what to do about the items of *feed* that are not in its file; empty if all are there."""
        if not (feed.problem or feed.waiting):
            return ""
        file, path = feed.file, shlex.quote(str(feed.file.path))
        why = f": {feed.problem}" if feed.problem else ""
        if feed.is_changed:
            command = frontier_command("items", self._keys.spider, "--feed", file.token, "-o", path)
            return (
                f"{feed.problem}. What was written to a file that is deleted cannot be recovered "
                f"({counted(file.count, 'item')} in this run). {_some(feed.waiting)} still in Redis: move "
                f"away {file.data} and {file.journal_path}, if they are there, and run: {command}"
            )
        command = frontier_command("items", self._keys.spider, "-o", path)
        safe = "Nothing is lost"
        if file.overwrites:
            safe += " as long as no new crawl replaces the file"
        if feed.is_done and not feed.waiting and file.data != file.path:
            return (
                f"{file.path} is not made{why}. {safe}: its items are in {file.data}. When this is mended, "
                f"run: {command}"
            )
        return (
            f"{_some(feed.waiting, 'not in ' + str(file.path))}{why}. {safe}: when this is mended, run: "
            f"{command}"
        )

    def unwritten_of_others(self) -> list[str]:
        """Return a line for each file of another run that lacks items, with the command that writes them."""
        if not self.feeds:
            return []
        try:
            return unwritten(self._server, self._keys, [feed.file.token for feed in self.feeds])
        except RedisError as error:
            return [describe_error(self._server, error)]

    def release(self) -> None:
        """Let other programs move the items."""
        for feed in self.feeds:
            feed.release()

    def _run(self) -> None:
        """Move items until the workers have ended and nothing is left, or nothing more can be moved."""
        was_ending = False
        while True:
            is_ending = self._must_end.is_set()  # first: what comes before the end is seen after it
            if is_ending and not was_ending:
                for feed in self.feeds:
                    feed.due = 0.0
            was_ending = is_ending
            moved = sum(self._move(feed, is_ending) for feed in self.feeds)
            if is_ending and all(feed.is_done or feed.is_given_up for feed in self.feeds):
                return
            if not moved:
                time.sleep(INTERVAL) if is_ending else self._must_end.wait(INTERVAL)

    def _move(self, feed: Feed, is_ending: bool) -> int:
        """Move a batch of items, if it is time to; return how many."""
        if feed.is_done or feed.is_given_up or time.monotonic() < feed.due:
            return 0
        count = 0
        with self._problems(feed, is_ending) as problems:
            count = feed.move()
        if not problems:
            feed.problem, feed.is_changed, feed.patience_ends = "", False, math.inf
            feed.is_done = is_ending and not count
        for line in feed.take_problems():
            self._tell(line)
        return count

    @contextmanager
    def _problems(self, feed: Feed, is_ending: bool = True) -> Iterator[list[str]]:
        """Note why something has failed at *feed*, so that the other ones go on. Gives what was noted."""
        found: list[str] = []
        try:
            yield found
        except RedisError as error:
            text = describe_error(self._server, error)
            line = f"The items cannot be written for now: {text}. They wait in Redis"
            if is_ending:
                feed.patience_ends = min(feed.patience_ends, time.monotonic() + PATIENCE)
        except (OSError, FrontierError) as error:
            text = str(error)
            line = f"The items for {feed.file.path} cannot be written for now: {text}. They wait in Redis"
            feed.is_changed = isinstance(error, ChangedFileError)
            if is_ending:
                feed.patience_ends = 0.0
        except Exception:
            # Nothing is lost: what is in the stream stays there.
            text = "a bug in scrapy-rq-sched; please report it"
            line = f"The items for {feed.file.path} cannot be written: {traceback.format_exc()}"
            feed.patience_ends = 0.0
        else:
            return
        found.append(text)
        feed.problem = text
        feed.due = time.monotonic() + AGAIN
        feed.is_given_up = time.monotonic() >= feed.patience_ends
        if line not in self._printed:
            self._printed.add(line)
            self._tell(line)

    def _tell(self, line: str) -> None:
        """Print *line*."""
        # If the output is on the same full disk, the items matter more; the end of the crawl says it again.
        with suppress(OSError):
            self._say(line)


def _some(count: int | None, where: str = "") -> str:
    """Return how many items there are, and where."""
    text = "An unknown number of items is" if count is None else counted(count, "item is", "items are")
    return f"{text} {where}" if where else text


def unwritten(server: Any, keys: Keys, own: Sequence[str], path: str = "") -> list[str]:
    """Return a line for each file of another run that lacks items, with the command that writes them.

    :param own: the tokens of this run.
    :param path: only those of this file of this machine; empty: of all files.
    """
    lines = []
    known = owners(server, keys)
    # A file that this run has replaced is no place for the items of an earlier one.
    taken = {owner for token, owner in known if token in own}
    for token, owner in known:
        if path and owner != (socket.gethostname(), path):
            continue
        stream = keys.feed(token)
        # A program that moves them has a lock.
        is_moved = token in own or server.exists(keys.stream_writer(stream))
        waiting = 0 if is_moved else int(server.xlen(stream))
        if waiting:
            place = (owner not in taken and owner.place) or f"items-{token}.jsonl"
            command = frontier_command("items", keys.spider, "--feed", token, "-o", place)
            lines.append(
                f"{counted(waiting, 'item')} of an earlier run, for {bounded(owner.path)} on "
                f"{bounded(owner.host)}, are not written. To write them: {command}"
            )
    return lines


class Owner(NamedTuple):
    """Where a file is. Others may have written anything: it must be escaped before it is shown."""

    host: str = "an unknown host"
    path: str = "an unknown file"

    @classmethod
    def of(cls, value: bytes) -> Owner:
        """Return the owner that :meth:`Feed.move` has noted as *value*."""
        try:
            owner: Any = json.loads(value)
            return cls(str(owner["host"]), str(owner["path"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            return cls()

    @property
    def place(self) -> str:
        """The file for a shell; empty, unless it is on this machine and its journal is there.

        Only the journal tells which items the file has already.
        """
        is_here = self.host == socket.gethostname() and self.path.isprintable()
        return shlex.quote(self.path) if is_here and os.path.isfile(self.path + JOURNAL) else ""


def owners(server: Any, keys: Keys) -> list[tuple[str, Owner]]:
    """Return the token of each file that is not complete, and where it is."""
    tokens = ((text_of(name), value) for name, value in server.hgetall(keys.feeds).items())
    # A command is made of the token. Others may have written anything.
    return sorted((token, Owner.of(value)) for token, value in tokens if TOKEN.fullmatch(token))
