"""A frontier as a stream, for a backup or another Redis. A crawl may be under way.

A crawl goes on while many short steps read it, and yet nothing is lost, by the order of the steps:

1. From now on workers note what they are through with or give back (see ``note_for_export`` in
   ``lua/leases.lua``): each lease that ends, except by its being set aside after a death.
2. What was seen is read, then the start requests that the crawl has had. Of what was noted until then only
   requests that were dropped because too many waited are of use: they no longer count as seen, and may in the
   file. So they wait in it.
3. What waits is read, and the seeds. An entry that is there all the time is met: a scan of Redis's sees to
   it, and a list is read such that what is pushed or taken meanwhile at most has entries met twice.
4. What the workers hold is read.
5. What is delayed, what failed, and its history are read.
6. What was noted is read, until one atomic step finds no more and ends the noting. It finds that the noting
   has ended by itself if the frontier was cleared, or the crawl has finished, since step 1.

**What was there at the end of step 2 and is not finished then, is in the file.** It waits then, is a seed, is
held, is delayed or has failed.

- If a worker holds it and is through with it after step 2, it was noted, and is read in step 6. Only from a
  dead worker it may go to the failed list without that: before step 4 has read it, so before step 5 begins;
  or step 4 has it.
- If it is held and stays so to the end, it was taken before step 3 had read it, and step 4 finds it held; or
  step 3 has it.
- If nobody takes it, it is read where it is. What is delayed goes back to where it stood, and that is noted.

**What is marked as seen or started later need not be in the file.** It was found by a page that was not
finished at step 2. So that page is in the file, or one that leads to it and was itself found later; and none
that was found later counts as seen in the file. So they are crawled again after an import, and it is found
again. Start requests that were marked later are sent again.

So the export of a crawl that runs has some pages that are crawled twice, and none is missing. That is not so
of what is not in Redis, requests that a worker keeps in its memory, nor of what is pushed from outside
meanwhile: seeds.

An export of a frontier at which nobody is has everything as it is.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Generator, Iterator
from datetime import datetime, timezone
from typing import Any

from .. import connection
from ..errors import FrontierError, InspectionError
from ..frontier.scripts import register
from .archive import OWN_META, Writer, dumped
from .export_waiting import export_waiting, flat
from .read_status import read_status
from .steps import FIRST, read_list, scan
from .view import View

#: Milliseconds for which workers note when no more is heard of an export, and seconds until it says more.
NOTED_FOR, RENEWED_AFTER = 60_000, 5.0
#: Members of a compact filter in a line, and its buckets in a step: of a few hundred members each.
MEMBERS, BUCKETS = 500, 16

_LEASE = re.compile(rb"(\d+)\.(\d+)")
_Values = Iterator[tuple[str, list[Any]]]


class Export:
    """Exports *view*'s frontier.

    :raises InspectionError: if there is none, or if its queue is of a class of the user's own.
    """

    def __init__(self, view: View) -> None:
        view.require()
        self._view = view
        self._keys = view.keys
        self._server = view.server
        self._begin = register(view.server, "export/begin")
        self._end = register(view.server, "export/end")
        # Digits, of which the first is none that a number loses.
        self._token = str(10**12 + secrets.randbelow(10**12))
        self._renewed: float | None = None
        # How much was noted before what waits was read.
        self._early = 0
        #: How many entries there were at the beginning, about; and what the file has by now.
        self.status = read_status(view)
        self._writer = Writer(self._header())
        self.entries = self._writer.entries

    @property
    def total(self) -> int:
        """How many entries there are, about."""
        status = self.status
        return status.seen + status.waiting + status.seeds + status.leased + status.delayed + status.failed

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the file.

        :raises InspectionError: if an export, a conversion or an import is under way, or if the frontier was
            cleared meanwhile; what was yielded is no whole file then.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """
        self._tell("look")
        before = self._server_id()
        yield self._writer.first()
        try:
            self._tell("begin")
            yield from self._written(self._seen())
            self._early = self._server.llen(self._keys.exported)
            yield from self._written(self._unfinished())
            counter = yield from self._noted()
        finally:
            self._stop_noting()
        if self._server_id() != before:
            # What a scan has promised holds for one server.
            raise InspectionError(
                f"The Redis of spider {self._keys.spider!r} was restarted, or another has taken over. Export "
                "it again"
            )
        if counter:
            yield self._writer.line("counter", [counter])
        yield self._writer.last()

    def _header(self) -> dict[str, Any]:
        status = self.status
        meta = self._server.hgetall(self._keys.meta)
        counts = ("waiting", "leased", "delayed", "failed", "seeds", "seen")
        return {
            "spider": self._keys.spider,
            "time": datetime.fromtimestamp(status.now, timezone.utc).isoformat(timespec="seconds"),
            "queue": self._view.queue_class.discipline,
            "dupefilter": self._view.dupefilter,
            "counts": {name: getattr(status, name) for name in counts},
            "meta": {
                name.decode(): dumped(value)
                for name, value in sorted(meta.items())
                if name.isascii() and not OWN_META.fullmatch(name.decode())
            },
        }

    def _written(self, steps: _Values) -> Iterator[bytes]:
        for kind, values in steps:
            if values:
                yield self._writer.line(kind, values)
            if self._renewed is not None and time.monotonic() - self._renewed > RENEWED_AFTER:
                self._tell("renew")

    # -- in the order of the module's text -------------------------------------------------------

    def _seen(self) -> _Values:
        # What is converted meanwhile goes from the set to the buckets.
        for found in scan(self._server, "sscan", self._keys.dupefilter):
            yield "seen", found
        for members in self._buckets():
            yield "compact", members
        # Of a crawl that is finished only workers that come late need them: the next begins anew.
        if not self._server.exists(self._keys.finished):
            for found in scan(self._server, "sscan", self._keys.started):
                yield "started", found

    def _buckets(self) -> Iterator[list[int]]:
        state = f"{self._keys.dupefilter}:buckets"
        name, first = self._server.hmget(state, "name", "first")
        number, last = (int(first), 2 * int(first) - 1) if name and first else (1, 0)
        while number <= last:
            pipe = self._view.pipeline()
            until = min(number + BUCKETS, last + 1)
            for bucket in range(number, until):
                pipe.smembers(f"{self._keys.dupefilter}:{name.decode()}:{bucket}")
            # Afterwards: what was split before it was read has gone to buckets of higher numbers.
            pipe.hmget(state, "name", "first")
            *buckets, (same, first) = pipe.execute()
            if same != name:
                raise self._gone()
            number, last = until, max(last, 2 * int(first) - 1)
            numbers = (member for bucket in buckets for member in bucket)
            members = [int(member) for member in numbers if len(member) > 9 and member.isdigit()]
            for start in range(0, len(members), MEMBERS):
                yield members[start : start + MEMBERS]

    def _unfinished(self) -> _Values:
        yield from export_waiting(self._view)
        for number, key in enumerate(self._keys.start_urls, 1):
            yield from self._seeds(key, str(number).encode() if number > 1 else b"")
        for worker in self._server.zrange(self._keys.workers, 0, -1):
            yield from self._leases(self._keys.leases(worker.decode("utf-8", "surrogateescape")))
        for found in scan(self._server, "zscan", self._keys.delayed):
            yield "delayed", flat(found)
        # Pushed at its tail.
        for entries in read_list(self._server, self._keys.failed, from_tail=True):
            yield "failed", entries
        for pairs in scan(self._server, "hscan", self._keys.history):
            yield "history", [part for pair in pairs for part in pair]

    def _seeds(self, key: str, number: bytes) -> _Values:
        kind = connection.server_of(self._server, key).type(key)
        form = b"%s%s %%s 0 %%s" % (kind, number)
        if kind == b"list":
            # Taken from its head. So those of each step come before those of the one before.
            for entries in read_list(self._server, key, from_tail=True):
                yield "seeds", [form % (b"0", seed) for seed in reversed(entries)]
        elif kind == b"set":
            for entries in scan(self._server, "sscan", key):
                yield "seeds", [form % (b"0", seed) for seed in entries]
        elif kind == b"zset":
            for found in scan(self._server, "zscan", key):
                yield "seeds", [form % (repr(score).encode(), seed) for seed, score in found]

    def _leases(self, key: str) -> _Values:
        # Whole: a worker holds few, and they go back in the order in which it took them.
        held = dict(pair for pairs in scan(self._server, "hscan", key) for pair in pairs)
        values = [held[lease] for lease in sorted(held, key=_place)]
        for end in range(len(values), 0, -FIRST):
            yield "leased", values[max(0, end - FIRST) : end]

    def _noted(self) -> Generator[bytes, None, Any]:
        read = 0
        while True:
            noted = self._server.lrange(self._keys.exported, read, read + FIRST - 1)
            if noted:
                early = max(0, self._early - read)
                of_use = [value for value in noted[:early] if value.startswith(b"drop ")] + noted[early:]
                read += len(noted)
                yield from self._written(iter([("noted", of_use)]))
                continue
            problem, *rest = self._end(self._keys.all(), [self._token, read])
            if problem == b"lapsed":
                raise self._gone()
            if not problem:
                self._renewed = None
                return rest[0]

    # -- what the steps consist of ---------------------------------------------------------------

    def _tell(self, how: str) -> None:
        problem, *rest = self._begin(self._keys.all(), [how, self._token, NOTED_FOR])
        spider = self._keys.spider
        if problem == b"exporting":
            raise InspectionError(
                f"Another export of spider {spider!r} is under way, or broke off a moment ago. Try again in "
                f"{rest[0] // 1000 + 1} s"
            )
        if problem == b"converting":
            what = "imported" if rest == [b"import"] else "converted"
            raise InspectionError(
                f"The frontier of spider {spider!r} is being {what}, or that broke off. Let it end first"
            )
        if problem:
            raise self._gone()
        if how != "look":
            self._renewed = time.monotonic()

    def _gone(self) -> InspectionError:
        return InspectionError(
            f"The crawl of spider {self._keys.spider!r} has finished meanwhile, or its frontier was cleared, "
            f"or this export was held up for {NOTED_FOR // 1000} s, so that workers have noted nothing for "
            "it. Export it again"
        )

    def _stop_noting(self) -> None:
        if self._renewed is None:
            return
        self._renewed = None
        # It also ends by itself; and what went wrong before is being raised.
        with contextlib.suppress(connection.RedisError, FrontierError):
            self._end(self._keys.all(), [self._token, -1])

    def _server_id(self) -> Any:
        return connection.server_of(self._server, self._keys.requests).info("server").get("run_id")


def _place(lease: bytes) -> tuple[int, int]:
    named = _LEASE.fullmatch(lease)
    return (int(named[1]), int(named[2])) if named else (0, 0)
