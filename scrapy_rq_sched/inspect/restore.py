"""An exported frontier, into a Redis where that spider has none."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import IO, Any

from .. import connection
from ..errors import FrontierError, InspectionError
from ..frontier.client import FORMAT
from ..frontier.scripts import register
from .archive import OWN_META, WIDTHS, ArchiveReader, load
from .seeding import patiently
from .view import View

#: Entries and bytes of a step, at the most; those with a score, and those that go to where they stood one by
#: one, take longer.
MOST, MOST_BYTES, MOST_SORTED, MOST_BACK = 1000, 1_000_000, 100, 100
#: Members of a hash table that Redis looks at in a step, at the most, besides those of the step.
LOOKED_AT = 50_000
#: The most that a compact filter is made for at once.
MOST_SEEN = 10**10

#: What goes back to where it stood.
_BACK = ("by slot", "seeds", "leased", "noted")
#: How what waits is put where it stood: of a list from the one end that is read first.
_PUSHES = {"priority": "ZADD", "fifo": "RPUSH", "lifo": "LPUSH"}


class Import:
    """Imports the frontier that *reader* reads into *view*'s, in which nothing may be.

    :raises InspectionError: if this package has another format of frontiers.
    """

    def __init__(self, view: View, reader: ArchiveReader) -> None:
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
            raise InspectionError("The first line does not say in which order the exported frontier is kept")
        made_in = self._meta.get("format", b"").decode("utf-8", "replace")
        if made_in != FORMAT:
            raise InspectionError(
                f"The exported frontier has the format {made_in!r}, and this scrapy-rq-sched has {FORMAT!r}. "
                "Import it with the one that exported it"
            )
        self._begin = register(view.server, "import/begin")
        self._plain = register(view.server, "import/step")
        self._compact = register(view.server, "import/compact", dupefilter="compact")
        self._back = register(view.server, "import/back", self._discipline)
        self._end = register(view.server, "import/end")

    @property
    def total(self) -> int:
        """How many entries there are, about."""
        counts = self._reader.header.get("counts")
        return sum(_count(counts, name) for name in counts) if isinstance(counts, dict) else 0

    def steps(self) -> Iterator[int]:
        """Import, and yield after each step of how many entries it was. No worker joins until all is there.

        :raises InspectionError: if there is something; or if it breaks off, and then it says how to remove
            what was imported.
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
        said = [self._id, self._view.keys.prefix, self._view.spider, len(pairs) // 2, *pairs]
        problem, *rest = patiently(lambda: self._begin(self._keys, said))
        spider = self._view.spider
        clear = f"scrapy frontier clear {spider}"
        if problem == b"converting" and rest == [b"import"]:
            raise InspectionError(
                f"An import for spider {spider!r} is under way, or broke off. Let it end; or remove what was "
                f"imported: {clear} --force"
            )
        if problem == b"converting":
            raise InspectionError(f"The requests of spider {spider!r} are being converted, or that broke off")
        if problem == b"alive":
            raise InspectionError(
                f"{rest[0]} workers are at the frontier of spider {spider!r}. Stop them, and clear it first: "
                f"{clear}"
            )
        if problem == b"full":
            raise InspectionError(
                f"Spider {spider!r} has a frontier ({rest[0].decode('utf-8', 'replace')!r} is there). Clear "
                f"it first: {clear}"
            )
        if problem:
            key, found, expected = (text.decode("utf-8", "replace") for text in rest)
            raise InspectionError(
                f"Key {key!r} in Redis is a {found}, where the frontier of spider {spider!r} needs a "
                f"{expected}. Rename or delete it"
            )

    def _most(self, kind: str, coming: int) -> int:
        """Return how many entries a step may have.

        A scan gives members in the order of a hash table. In this order they come to few places of a table
        that grows with them, if it is of the same server process: so each of these has a chain that is long,
        until about the square root of all members is there.
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
        elif kind == "compact":
            reply = patiently(lambda: self._compact(self._keys, [*step, self._seen, len(values), *values]))
        else:
            key, command, wanted = self._place(kind, values)
            place = self._keys.index(key) + 1
            reply = patiently(lambda: self._plain(self._keys, [*step, place, command, len(wanted), *wanted]))
        self._require(reply)

    def _place(self, kind: str, values: Sequence[bytes]) -> tuple[str, str, Sequence[bytes]]:
        """Return the key, the command and its values."""
        keys = self._view.keys
        if kind == "waiting":
            is_sorted = self._discipline == "priority"
            return keys.requests, _PUSHES[self._discipline], values if is_sorted else values[1::2]
        counter = keys.own()[1]
        key, command = {
            "seen": (keys.dupefilter, "SADD"),
            "started": (keys.started, "SADD"),
            "delayed": (keys.delayed, "ZADD"),
            "failed": (keys.failed, "LPUSH"),
            "history": (keys.history, "HSET"),
            "counter": (counter, "SET"),
        }[kind]
        return key, command, values

    def _unlock(self) -> None:
        reply = patiently(lambda: self._end(self._keys, [self._id]))
        if reply[0] == b"differs":
            raise InspectionError(
                f"Key {reply[1].decode('utf-8', 'replace')!r} has {reply[3]} members, and {reply[2]} were "
                "imported: somebody else was at it"
            )
        self._require(reply)

    def _require(self, reply: list[Any]) -> None:
        if reply[0] == b"lost":
            raise _LostError(
                f"The frontier of spider {self._view.spider!r} was cleared while it was imported: this "
                "import has ended, and what is there now is not of it"
            )

    def broken(self, what: str) -> InspectionError:
        """Return the error to raise where it breaks off because of *what*."""
        spider = self._view.spider
        return InspectionError(
            f"{what}. The import broke off, and no worker joins what there is by now. Remove it, all seeds, "
            f"too: scrapy frontier clear {spider} --force"
        )


class _LostError(InspectionError):
    """The import is no longer under way."""


def verify(stream: IO[bytes]) -> Iterator[int]:
    """Read a whole file and check it, yield of how many entries each line is, and go back to its beginning.

    :raises InspectionError: if it is cut, or was changed.
    """
    start = stream.tell()
    for kind, values in ArchiveReader(stream):
        yield len(values) // WIDTHS[kind]
    stream.seek(start)


def _parts(kind: str, values: list[bytes], most: int) -> Iterator[list[bytes]]:
    """Yield *values* in parts that are short enough for a step: of *most* entries, at the most."""
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
    # The first of what goes back stands before the others, so it goes last.
    yield from reversed(parts) if kind in _BACK else parts


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
            "The first line does not say what the exported frontier was made with"
        ) from None
