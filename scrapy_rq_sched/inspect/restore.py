"""Import an exported frontier into a Redis where the spider has no frontier."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import IO, Any
from urllib.parse import unquote

from .. import connection, serializers
from ..codec.names import LONGEST, quoted
from ..codec.pools import quoted_pool
from ..codec.values import text_of
from ..errors import FrontierError, InspectionError, frontier_command
from ..frontier.messages import FORMAT
from ..frontier.refusals import how_to_convert, untrusted_import
from ..frontier.scripts import register
from . import own_keys
from .archive import ITEM_FIELDS, OWN_META, SECRET_FIELDS, WIDTHS, ArchiveReader, load
from .operations.seeding import patiently
from .view import View
from .wording import counted

#: Maximum of entries and of bytes in a step. It is lower for entries with a score, and for those that return
#: to their places one by one: both take longer.
MOST, MOST_BYTES, MOST_SORTED, MOST_BACK = 1000, 1_000_000, 100, 100
#: Maximum of members of a hash table that Redis inspects in a step, in addition to those of the step.
LOOKED_AT = 50_000
#: Maximum number of fingerprints for which a compact filter is sized at the start.
MOST_SEEN = 10**10

#: The kinds of entries that return to their places one by one.
_BACK = ("by slot", "seeds", "leased", "noted")
#: The command that restores the order of the waiting requests.
_PUSHES = {"priority": "ZADD", "fifo": "RPUSH", "lifo": "LPUSH"}


class Import:
    """Imports the frontier that *reader* reads into *view*'s, which must be empty.

    :raises InspectionError: if this package has another format of frontiers, or if the file names a
        serializer that may run code and that the settings do not name.
    """

    def __init__(self, view: View, reader: ArchiveReader) -> None:
        own_keys.require(view)
        self._view = view
        self._reader = reader
        self._keys = view.keys.all()
        self._id = secrets.token_hex(8)
        self._step = 0
        header = reader.header
        self._discipline = str(header.get("queue"))
        self._meta = _loaded(header.get("meta"))
        self._seen = _count(header.get("counts"), "seen")
        if self._discipline not in _PUSHES:
            raise InspectionError(
                "The first line of the file does not contain the kind of queue of the exported frontier: the "
                "file was changed. Export the frontier again"
            )
        made_in = text_of(self._meta.get("format"))
        if made_in != FORMAT:
            raise InspectionError(
                f"The exported frontier has the format {made_in!r}, but this scrapy-rq-sched uses "
                f"{FORMAT!r}. Import it with the version that exported it"
            )
        self._check_serializer()
        self._begin = register(view.server, "import/begin")
        self._plain = register(view.server, "import/step")
        self._compact = register(view.server, "import/compact", dupefilter="compact")
        self._back = register(view.server, "import/back", self._discipline)
        self._pools = register(view.server, "import/pools")
        self._end = register(view.server, "import/end")

    def _check_serializer(self) -> None:
        """Check that the file does not choose a serializer that may run code."""
        name = text_of(self._meta.get("SCHEDULER_SERIALIZER"))
        ours = serializers.load_serializer(self._view.settings.serializer)
        if name and name not in serializers.HARMLESS and name != serializers.serializer_name(ours):
            raise untrusted_import(self._view.spider, name)

    @property
    def total(self) -> int:
        """The approximate number of entries."""
        counts = self._reader.header.get("counts")
        return sum(_count(counts, name) for name in counts) if isinstance(counts, dict) else 0

    def plan(self) -> Iterator[int]:
        """Check all that an import would need, and yield the number of entries of each line of the file.

        :raises InspectionError: if the frontier is not empty, or if the file is incomplete or was changed.
        """
        keys = self._view.keys
        lists = (keys.requests, keys.slots, keys.delayed, keys.groups, keys.failed, keys.history)
        for key in (keys.converting, keys.meta, keys.dupefilter, keys.started, *lists):
            if self._view.server.exists(key):
                raise self._not_empty(key)
        for kind, values in self._reader:
            yield len(values) // WIDTHS[kind]

    def steps(self) -> Iterator[int]:
        """Import, and yield the number of entries after each step. No worker can join before the last step.

        :raises InspectionError: if the frontier is not empty; or if the import is interrupted: then the
            message contains the command that removes the imported part.
        """
        self._view.wait_until_freed()
        self._lock()
        try:
            for kind, values in self._reader:
                for part in _parts(kind, values, self._most(kind, len(values))):
                    self._import(kind, part)
                    yield len(part) // WIDTHS[kind]
            self._unlock()
        except connection.RedisError as error:
            raise self.broken(connection.describe_error(self._view.server, error)) from error
        except KeyboardInterrupt as error:
            raise self.broken("Interrupted") from error
        except _LostError:
            raise
        except (FrontierError, OSError) as error:
            raise self.broken(str(error)) from error

    def _lock(self) -> None:
        pairs = [part for name, value in self._meta.items() for part in (name, value)]
        arguments = [self._id, self._view.keys.prefix, self._view.spider, len(pairs) // 2, *pairs]
        problem, *rest = patiently(lambda: self._begin(self._keys, arguments))
        spider = self._view.spider
        clear = frontier_command("clear", spider)
        if problem == b"converting" and rest == [b"import"]:
            raise InspectionError(
                f"An import for spider {spider!r} is under way, or was interrupted. Wait until it has ended; "
                f"if it was interrupted, remove the imported part: {clear} --force"
            )
        if problem == b"converting":
            raise InspectionError(
                f"The requests of spider {spider!r} are being converted, or a conversion was interrupted. "
                "Wait until it has ended; if it was interrupted, continue it. "
                f"{how_to_convert(spider, rest[0].decode('utf-8', 'replace'))}"
            )
        if problem == b"alive":
            alive = "1 worker is" if rest[0] == 1 else f"{counted(rest[0], 'worker')} are"
            raise InspectionError(
                f"{alive} alive at the frontier of spider {spider!r}. Stop the crawl: "
                f"{frontier_command('stop', spider)}. When all workers have closed, clear the frontier: "
                f"{clear}"
            )
        if problem == b"full":
            raise self._not_empty(text_of(rest[0]))
        if problem:
            key, found, expected = map(text_of, rest)
            raise InspectionError(
                f"Key {key!r} in Redis is a {found}, but the frontier of spider {spider!r} needs a "
                f"{expected}. Rename or delete the key"
            )

    def _not_empty(self, key: str) -> InspectionError:
        return InspectionError(
            f"Spider {self._view.spider!r} already has a frontier: the key {key!r} exists. Clear the "
            f"frontier before the import: {frontier_command('clear', self._view.spider)}"
        )

    def _most(self, kind: str, coming: int) -> int:
        """Return the maximum number of entries of the next step.

        The file has members in the order of the exported hash table. In the same server process they fill
        only few places of the new, growing table. So the chains of these places are long, until the new table
        has about the square root of all members.
        """
        most = MOST_BACK if kind in _BACK else MOST if WIDTHS[kind] == 1 else MOST_SORTED
        there = self._reader.entries[kind] - coming // WIDTHS[kind]
        longest = min(there + most, self.total // max(1, there))
        return max(1, min(most, LOOKED_AT // max(1, longest)))

    def _import(self, kind: str, values: Sequence[bytes]) -> None:
        self._step += 1
        step = [self._id, self._step]
        if kind in _BACK:
            reply = patiently(lambda: self._back(self._keys, [*step, len(values), *values]))
        elif kind in ("pools", "pool items"):
            count, none = len(values) // 2, 0
            restored = [count, *values, none] if kind == "pools" else [none, count, *_items(values)]
            reply = patiently(lambda: self._pools(self._keys, [*step, *restored]))
        elif kind == "compact":
            reply = patiently(lambda: self._compact(self._keys, [*step, self._seen, len(values), *values]))
        else:
            key, command, wanted = self._place(kind, values)
            # Scripts derive the names of some keys from that of another.
            base = key if key in self._keys else self._view.keys.groups
            target = [self._keys.index(base) + 1, key.removeprefix(base), command]
            reply = patiently(lambda: self._plain(self._keys, [*step, *target, len(wanted), *wanted]))
        self._require(reply)

    def _place(self, kind: str, values: Sequence[bytes]) -> tuple[str, str, Sequence[bytes]]:
        """Return the key, the command and its values for a line of this *kind*."""
        keys = self._view.keys
        if kind == "waiting":
            command = _PUSHES[self._discipline]
            return keys.requests, command, values if command == "ZADD" else values[1::2]
        counter = keys.own()[1]
        key, command = {
            "seen": (keys.dupefilter, "SADD"),
            "started": (keys.started, "SADD"),
            "delayed": (keys.delayed, "ZADD"),
            "groups": (keys.groups, "HSET"),
            "members": (keys.group_members, "ZADD"),
            "followers": (keys.followers, "ZADD"),
            "emptied": (keys.groups_emptied, "ZADD"),
            "done groups": (keys.groups_done, "ZADD"),
            "group news": (keys.group_news, "HSET"),
            "failed": (keys.failed, "LPUSH"),
            "history": (keys.history, "HSET"),
            "counter": (counter, "SET"),
        }[kind]
        return key, command, values

    def _unlock(self) -> None:
        reply = patiently(lambda: self._end(self._keys, [self._id]))
        if reply[0] == b"differs":
            raise InspectionError(
                f"Key {reply[1].decode('utf-8', 'replace')!r} has {reply[3]} members, but {reply[2]} were "
                "imported: another program has changed it"
            )
        self._require(reply)

    def _require(self, reply: list[Any]) -> None:
        if reply[0] == b"lost":
            raise _LostError(
                f"The frontier of spider {self._view.spider!r} was cleared during the import, which has "
                "therefore ended. The keys that exist now are not from this import"
            )

    def broken(self, reason: str) -> InspectionError:
        """Return the error of an import that was interrupted because of *reason*."""
        clear = frontier_command("clear", self._view.spider, "--force")
        return InspectionError(
            f"{reason}. The import was interrupted, and no worker can join the incomplete frontier. Remove "
            f"it, with all seeds: {clear}"
        )


class _LostError(InspectionError):
    """The frontier was cleared during the import."""


def verify(stream: IO[bytes]) -> Iterator[int]:
    """Read and check a whole file, and rewind it. Yield the number of entries of each line.

    :raises InspectionError: if the file is incomplete, or was changed.
    """
    start = stream.tell()
    for kind, values in ArchiveReader(stream):
        yield len(values) // WIDTHS[kind]
    stream.seek(start)


def _parts(kind: str, values: list[bytes], most: int) -> Iterator[list[bytes]]:
    """Yield *values* in parts that are short enough for a step, of at most *most* entries."""
    width = WIDTHS[kind]
    entries = [values[place : place + width] for place in range(0, len(values), width)]
    parts: list[list[bytes]] = []
    size = count = 0
    for entry in entries:
        length = sum(map(len, entry))
        if not parts or count == most or size + length > MOST_BYTES:
            parts.append([])
            size = count = 0
        parts[-1] += entry
        size, count = size + length, count + 1
    # Each entry that returns to its place goes before the others, so the first one goes last.
    yield from reversed(parts) if kind in _BACK else parts


def _items(values: Sequence[bytes]) -> Iterator[str | bytes | int]:
    """Yield the items of pools in a line as ``lua/scripts/import/pools.lua`` reads them.

    :raises InspectionError: if the line has no such items. The message shows nothing of them.
    """
    for name, text in zip(values[::2], values[1::2], strict=True):
        pool, _, item = text_of(name).partition(" ")
        try:
            is_name = quoted_pool(unquote(pool)) == pool and quoted(unquote(item)) == item
            if not (is_name and all(0 < len(one) <= LONGEST for one in (pool, item))):
                raise ValueError
            fields = {str(field): load(value) for field, value in json.loads(text).items()}
            if not fields or not fields.keys() <= {*ITEM_FIELDS, *SECRET_FIELDS}:
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InspectionError(
                "The file has an item of a pool that is not valid: the file was changed. Export the frontier "
                "again"
            ) from None
        yield from (pool, item, len(fields), *(part for pair in fields.items() for part in pair))


def _count(counts: Any, name: str) -> int:
    value = counts.get(name) if isinstance(counts, dict) else None
    return min(value, MOST_SEEN) if type(value) is int and value > 0 else 0


def _loaded(meta: Any) -> dict[str, bytes]:
    try:
        return {
            name.encode().decode("ascii"): load(value)
            for name, value in meta.items()
            if not OWN_META.fullmatch(name)
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InspectionError(
            "The first line of the file does not contain the settings that the exported frontier was made "
            "with: the file was changed. Export the frontier again"
        ) from None
