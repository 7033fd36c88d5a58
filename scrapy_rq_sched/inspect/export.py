"""Export a frontier as a stream, for a backup or another Redis, even while it is crawled.

Many short steps read the frontier while the crawl continues. Their order ensures that no request is lost:

1. From now on workers *note* each lease that ends or is given back (see ``export_notes.note`` in
   ``lua/fleet/export_notes.lua``), except for leases that are set aside after a death.
2. Read the seen fingerprints, then those of the start requests. Of the notes until then, only those of
   requests that were dropped because too many waited matter: such a request no longer counts as seen, but
   may do so in the file. So it waits in the file.
3. Read the waiting requests, and the seeds. An entry that stays in its key all the time is always met: a scan
   of Redis guarantees it, and lists are read in such a way that pushes and pops can only repeat entries.
4. Read the leases.
5. Read the delayed requests, the failed list, and the history.
6. Read the notes, until one atomic step finds no more of them and ends the noting. If the frontier was
   cleared, or the crawl was finished, since step 1, the noting has ended already, and this step notices it.

**Every request or seed that is unfinished at the end of step 2 is in the file.** At that time it waits, is
leased, is delayed or has failed.

- If it is leased, and the lease ends after step 2, the lease was noted, and step 6 reads it. The only
  exception is the lease of a dead worker that goes to the failed list: if this happens before step 4 has read
  the lease, step 5 reads the failed list; otherwise step 4 has read the lease.
- If it is leased at the end of the export, it was taken either before step 3 came to it, and step 4 reads the
  lease; or later, and step 3 has read it.
- If no worker takes it, it is read in its place. A delayed request that returns to the queue is noted.

**A request that is marked as seen or started later need not be in the file.** The page that links to it was
unfinished at step 2. So that page is in the file; or it was itself found later, and a page that leads to it
is in the file. No page that was found later counts as seen in the file. So all of them are crawled again
after an import, and the request is found again. Start requests that are marked later are sent again.

So after the import of a running crawl some pages are crawled twice, and none is missing. This does not hold
for requests that are only in a worker's memory, nor for seeds that are pushed during the export.

The export of a frontier without workers is exact.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Generator, Iterator
from datetime import datetime, timezone
from typing import Any

from .. import connection
from ..codec.values import text_of
from ..connection import server_of
from ..errors import FrontierError, InspectionError
from ..frontier.replies import lease_order, lease_value, without_item
from ..frontier.scripts import register
from . import own_keys
from .archive import ITEM_FIELDS, OWN_META, SECRET_FIELDS, Writer, dumped
from .queues import Queues
from .read_status import read_status
from .steps import FIRST, read_list, scan
from .view import View

#: Milliseconds for which workers note leases after the last renewal; and seconds between two renewals.
NOTED_FOR, RENEWED_AFTER = 60_000, 5.0
#: Members of a compact filter in a line, and buckets, of a few hundred members each, in a step.
MEMBERS, BUCKETS = 500, 16

_Values = Iterator[tuple[str, list[Any]]]


class Export:
    """Exports *view*'s frontier.

    :param with_secrets: whether the file has the values and cookies of the items of pools. Without it, the
        file has only the items of the settings, without their values: until when they rest, whether they are
        retired.
    :raises InspectionError: if there is no frontier, if it has a custom queue class, or if ``meta`` names
        keys that are not the frontier's.
    """

    def __init__(self, view: View, with_secrets: bool = False) -> None:
        view.require()
        # Else the file would have the seeds and fingerprints of another frontier.
        own_keys.require(view)
        self._view = view
        self._keys = view.keys
        self._server = view.server
        self._with_secrets = with_secrets
        self._begin = register(view.server, "export/begin")
        self._end = register(view.server, "export/end")
        # Digits without a leading zero, so that Lua may treat it as a number.
        self._token = str(10**12 + secrets.randbelow(10**12))
        self._renewed: float | None = None
        # The number of notes before the waiting requests were read.
        self._early = 0
        #: The status at the beginning; and the number of entries that are in the file so far.
        self.status = read_status(view)
        self._writer = Writer(self._header())
        self.entries = self._writer.entries

    @property
    def total(self) -> int:
        """The approximate number of entries."""
        status = self.status
        return status.seen + status.waiting + status.seeds + status.leased + status.delayed + status.failed

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the file.

        :raises InspectionError: if an export, a conversion or an import is under way, or if the frontier was
            cleared meanwhile. The file is then incomplete.
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
            # A scan is complete only on one server.
            raise InspectionError(
                f"The Redis of spider {self._keys.spider!r} was restarted, or another server has taken over, "
                "so the export is incomplete. Export the frontier again"
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

    # -- the steps, in the order of the module's docstring ---------------------------------------

    def _seen(self) -> _Values:
        # The set comes first: a change to a compact filter moves members from the set to the buckets.
        for found in scan(self._server, "sscan", self._keys.dupefilter):
            yield "seen", found
        for members in self._buckets():
            yield "compact", members
        # A finished crawl keeps them only for workers that join late; the next crawl starts without them.
        if not self._server.exists(self._keys.finished):
            for found in scan(self._server, "sscan", self._keys.started):
                yield "started", found

    def _buckets(self) -> Iterator[list[int]]:
        state = self._keys.seen_state
        name, first = self._server.hmget(state, "name", "first")
        number, last = (int(first), 2 * int(first) - 1) if name and first else (1, 0)
        while number <= last:
            pipe = self._view.pipeline()
            until = min(number + BUCKETS, last + 1)
            for bucket in range(number, until):
                pipe.smembers(self._keys.bucket(name.decode(), bucket))
            # Read after the members: a bucket that was split before that has moved some to a higher number.
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
        yield from self._groups()
        yield from self._pools()
        # The list is pushed at its tail.
        for entries in read_list(self._server, self._keys.failed, from_tail=True):
            yield "failed", entries
        for pairs in scan(self._server, "hscan", self._keys.history):
            yield "history", [part for pair in pairs for part in pair]

    def _groups(self) -> _Values:
        keys = self._keys
        for kind, key in (("groups", keys.groups), ("group news", keys.group_news)):
            for pairs in scan(self._server, "hscan", key):
                yield kind, [part for pair in pairs for part in pair]
        for kind, key in (
            ("followers", keys.followers),
            ("emptied", keys.groups_emptied),
            ("done groups", keys.groups_done),
        ):
            for found in scan(self._server, "zscan", key):
                yield kind, flat(found)
        for found in scan(self._server, "zscan", keys.group_members):
            # Requests in the memory of a worker are not exported.
            yield "members", flat([(member, score) for member, score in found if b"/" not in member])

    def _pools(self) -> _Values:
        keys, pools = self._keys, list[str]()
        names = [*ITEM_FIELDS, *(SECRET_FIELDS if self._with_secrets else ())]
        for pairs in scan(self._server, "hscan", keys.pools):
            yield "pools", [part for pair in pairs for part in pair]
            # A field with a space is an item that was removed.
            pools += [text_of(field) for field, _ in pairs if b" " not in field]
        for pool in pools:
            for found in scan(self._server, "zscan", keys.pool_items(pool)):
                pipe, items = self._view.pipeline(), [text_of(item) for item, _ in found]
                for item in items:
                    pipe.hmget(keys.pool_item(pool, item), names)
                yield "pool items", list(self._items(pool, items, names, pipe.execute()))

    def _items(
        self, pool: str, items: list[str], names: list[str], replies: list[list[bytes | None]]
    ) -> Iterator[bytes]:
        for item, values in zip(items, replies, strict=True):
            its = {name: value for name, value in zip(names, values, strict=True) if value is not None}
            # Without its value, only the settings can restore an item.
            if self._with_secrets or "is_set" in its:
                yield f"{pool} {item}".encode()
                yield json.dumps({name: dumped(value) for name, value in its.items()}).encode()

    def _seeds(self, key: str, number: bytes) -> _Values:
        kind = server_of(self._server, key).type(key)
        form = b"%s%s %%s 0 %%s" % (kind, number)
        if kind == b"list":
            # Seeds are taken from the head, so the entries of each step come before those of the last step.
            for entries in read_list(self._server, key, from_tail=True):
                yield "seeds", [form % (b"0", seed) for seed in reversed(entries)]
        elif kind == b"set":
            for entries in scan(self._server, "sscan", key):
                yield "seeds", [form % (b"0", seed) for seed in entries]
        elif kind == b"zset":
            for found in scan(self._server, "zscan", key):
                yield "seeds", [form % (repr(score).encode(), seed) for seed, score in found]

    def _leases(self, key: str) -> _Values:
        # All at once: a worker holds few leases, and they return in the order in which it took them.
        held = dict(pair for pairs in scan(self._server, "hscan", key) for pair in pairs)
        values = [
            without_item(held[lease]) for lease in sorted(held, key=lambda name: lease_order(text_of(name)))
        ]
        for end in range(len(values), 0, -FIRST):
            yield "leased", values[max(0, end - FIRST) : end]

    def _noted(self) -> Generator[bytes, None, Any]:
        read = 0
        while True:
            noted = self._server.lrange(self._keys.exported, read, read + FIRST - 1)
            if noted:
                early = max(0, self._early - read)
                of_use = [value for value in noted[:early] if value.startswith(b"drop ")] + noted[early:]
                of_use = list(map(without_item, of_use))
                read += len(noted)
                yield from self._written(iter([("noted", of_use)]))
                continue
            problem, *rest = self._end(self._keys.all(), [self._token, read])
            if problem == b"lapsed":
                raise self._gone()
            if not problem:
                self._renewed = None
                return rest[0]

    # -- parts of the steps ----------------------------------------------------------------------

    def _tell(self, how: str) -> None:
        problem, *rest = self._begin(self._keys.all(), [how, self._token, NOTED_FOR])
        spider = self._keys.spider
        if problem == b"exporting":
            raise InspectionError(
                f"Another export of spider {spider!r} is under way, or was interrupted a moment ago. Try "
                f"again in {rest[0] // 1000 + 1} s"
            )
        if problem == b"converting":
            doing = "imported" if rest == [b"import"] else "converted"
            raise InspectionError(
                f"The frontier of spider {spider!r} is being {doing}, or that was interrupted. Finish that "
                "before the export"
            )
        if problem:
            raise self._gone()
        if how != "look":
            self._renewed = time.monotonic()

    def _gone(self) -> InspectionError:
        return InspectionError(
            f"The export of spider {self._keys.spider!r} is incomplete: the crawl has finished meanwhile, "
            f"its frontier was cleared, or this export was delayed for {NOTED_FOR // 1000} s, so that "
            "workers have stopped noting changes for it. Export the frontier again"
        )

    def _stop_noting(self) -> None:
        if self._renewed is None:
            return
        self._renewed = None
        # Noting also ends by itself, and an earlier error must not be hidden.
        with contextlib.suppress(connection.RedisError, FrontierError):
            self._end(self._keys.all(), [self._token, -1])

    def _server_id(self) -> Any:
        return server_of(self._server, self._keys.requests).info("server").get("run_id")


def export_waiting(view: View) -> Iterator[tuple[str, list[Any]]]:
    """Yield the waiting requests of *view*'s frontier, a step at a time, with the kind of their line."""
    server, keys = server_of(view.server, view.keys.requests), view.keys
    if view.is_sorted:
        for found in scan(server, "zscan", keys.requests):
            yield "waiting", flat(found)
    else:
        for entries in read_list(server, keys.requests, _reads_from_tail(view)):
            yield "waiting", [part for entry in entries for part in (b"0", entry)]
    # Slots that appear during the export hold no request that was there before it.
    for slot in [slot for slot in Queues(view).slots() if slot]:
        for values in _of_slot(view, server, slot):
            yield "by slot", values


def _of_slot(view: View, server: Any, slot: str) -> Iterator[list[bytes]]:
    key = view.keys.queue(slot)
    if view.is_sorted:
        for found in scan(server, "zscan", key):
            yield [lease_value("request", repr(score), data, slot) for data, score in found]
    else:
        for entries in read_list(server, key, _reads_from_tail(view)):
            yield [lease_value("request", "0", data, slot) for data in reversed(entries)]


def _reads_from_tail(view: View) -> bool:
    # A list is pushed at its head. It is read from the end at which nothing is popped meanwhile.
    return not view.queue_class.pops_tail


def flat(found: list[tuple[bytes, float]]) -> list[bytes]:
    """Return score, member, score, member, …, with the exact text of each score."""
    return [part for member, score in found for part in (repr(score).encode(), member)]
