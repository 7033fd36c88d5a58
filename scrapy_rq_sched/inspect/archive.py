"""Write and read the file of an exported frontier: text in UTF-8, on each line a JSON array, its kind first.

=============  ==============================================================================================
line           holds
=============  ==============================================================================================
``frontier``   first line: an object with the spider, the time, the settings that the frontier was made with,
               and the counts at that time
``seen``       fingerprints of an exact filter; ``compact``: integers of a compact one; ``started``:
               fingerprints of start requests
``waiting``    score, request, score, request, …: those of a list are in order of age, the latest first
               (``FifoQueue``) or the oldest first (``LifoQueue``)
``by slot``    waiting requests of a slot, in the form of ``leased``, the next one first
``seeds``      ``<kind> <score> 0 <seed>``, in the form of a seed's lease, the next one first
``leased``     leases: ``<kind> <score> <deaths>@<second>@<slot>@<begin> <request>``
``delayed``    time, entry, time, entry, …
``failed``     entries of the failed list, the latest first
``groups``     groups with their numbers; ``group news``: finished ones, and the worker that is told;
               ``members``, ``followers``, ``emptied``, ``done groups``: score, member, score, member, …
``pools``      pools with their limits, and removed items, as in Redis; ``pool items``: ``<pool> <item>``,
               fields, …: a JSON object with the fields of an item
``history``    deaths and refusals of the workers of a request: SHA-1, text, SHA-1, text, …
``noted``      leases that ended during the export, in the form of ``leased``
``counter``    the number of requests that were ever pushed
``end``        last line: an object with the number of lines and of entries of each kind, and the SHA-256 of
               all previous lines
=============  ==============================================================================================

A value that is not text in UTF-8 is an object: ``{"base64": "…"}``. Scores are text, because JSON has no
infinity.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from ..errors import InspectionError, one_line

FORMAT = "scrapy-rq-sched frontier"
VERSION = 1
#: The number of values of an entry.
WIDTHS = {
    "seen": 1,
    "compact": 1,
    "started": 1,
    "waiting": 2,
    "by slot": 1,
    "seeds": 1,
    "leased": 1,
    "delayed": 2,
    "failed": 1,
    "groups": 2,
    "members": 2,
    "followers": 2,
    "emptied": 2,
    "done groups": 2,
    "group news": 2,
    "pools": 2,
    "pool items": 2,
    "history": 2,
    "noted": 1,
    "counter": 1,
}
#: The fields of an item of a pool in a file; and those that it has only if the user wants it.
ITEM_FIELDS = ("limits", "next", "rests", "why", "retired", "bad", "used", "is_set")
SECRET_FIELDS = ("value", "cookies")
#: The kinds in which every second value is a score.
_SCORED = ("waiting", "delayed", "members", "followers", "emptied", "done groups")
#: Maximum length of a line, in bytes: no value in Redis is longer than 512 MB.
LONGEST_LINE = 1 << 28
#: Fields of ``meta`` that are not exported: they belong to one Redis, or to a moment, not to the crawl.
OWN_META = re.compile(
    "epoch|state|state_since|stop|exporting|imported|spider|in_slots|in_slots_estimated|clock|clock_ahead"
    "|rewound|rules|slot_default|slot_patterns|moves_heard|limits_changed|recalled|caps|denied|lanes|unmet"
    "|slot_states|max_workers|stop_reason|item_wanted|resumed|run_.*|.*_keys?"
)
_SCORE = re.compile(rb"[+-]?(inf|[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?)")


class Writer:
    """Makes the lines of a file.

    :param header: the contents of the first line.
    """

    def __init__(self, header: dict[str, Any]) -> None:
        self._header = header
        self._digest = hashlib.sha256()
        #: The number of lines, and of entries, of each kind so far.
        self.lines: Counter[str] = Counter()
        self.entries: Counter[str] = Counter()

    def first(self) -> bytes:
        """Return the first line."""
        return self._made("frontier", {"format": FORMAT, "version": VERSION, **self._header})

    def line(self, kind: str, values: Sequence[bytes | int]) -> bytes:
        """Return a line of entries.

        :param kind: a key of :data:`WIDTHS`.
        :param values: the values of all entries in a row: bytes, or the integers of a compact filter.
        """
        self.lines[kind] += 1
        self.entries[kind] += len(values) // WIDTHS[kind]
        return self._made(kind, [value if isinstance(value, int) else dumped(value) for value in values])

    def last(self) -> bytes:
        """Return the last line."""
        end = {"lines": self.lines, "entries": self.entries, "sha256": self._digest.hexdigest()}
        return self._made("end", end)

    def _made(self, kind: str, value: Any) -> bytes:
        line = json.dumps([kind, value], ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._digest.update(line)
        return line


class ArchiveReader:
    """Reads a file, and checks it.

    :param stream: the file; it is read line by line.
    :raises InspectionError: if its first line is not that of an exported frontier.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self._number = 0
        self._lines: Counter[str] = Counter()
        #: The number of entries of each kind that were read.
        self.entries: Counter[str] = Counter()
        kind, header = self._parse(self._read())
        if kind != "frontier" or not isinstance(header, dict) or header.get("format") != FORMAT:
            raise InspectionError(
                "This is not an exported frontier: the first line is not the one that scrapy frontier export "
                "writes"
            )
        if header.get("version") != VERSION:
            raise InspectionError(
                f"This frontier was exported in version {header.get('version')!r} of the format, but this "
                f"scrapy-rq-sched reads version {VERSION}. Import it with the version that exported it"
            )
        #: The contents of the first line.
        self.header: dict[str, Any] = header

    def __iter__(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the kind and the values of each line, and check them all against the last line.

        :raises InspectionError: if the file is incomplete, or was changed.
        """
        while True:
            before = self._digest.hexdigest()
            kind, values = self._parse(self._read())
            if kind == "end":
                self._check(values, before)
                return
            try:
                loaded = self._load(kind, values)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise self._not_ours(error) from None
            self._lines[kind] += 1
            self.entries[kind] += len(loaded) // WIDTHS[kind]
            yield kind, loaded

    def _read(self) -> bytes:
        line = self._stream.readline(LONGEST_LINE)
        self._number += 1
        if not line.endswith(b"\n"):
            raise InspectionError(
                f"The file is incomplete: it ends at line {self._number}. It was cut off, or the export was "
                "interrupted. Export the frontier again"
            )
        self._digest.update(line)
        return line

    def _parse(self, line: bytes) -> tuple[str, Any]:
        try:
            kind, value = json.loads(line)
        except (ValueError, TypeError, RecursionError) as error:
            raise self._not_ours(error) from None
        return str(kind), value

    def _load(self, kind: str, values: Any) -> list[bytes]:
        if not isinstance(values, list):
            raise TypeError("its values are not a list")
        loaded = _members(values) if kind == "compact" else [load(value) for value in values]
        if len(loaded) % WIDTHS[kind]:
            raise ValueError("a value is missing")
        if kind in _SCORED and not all(map(_SCORE.fullmatch, loaded[::2])):
            raise ValueError("a score is not a number")
        return loaded

    def _not_ours(self, error: Exception) -> InspectionError:
        return InspectionError(
            f"Line {self._number} is not valid in an exported frontier ({one_line(error)}): the file was "
            "changed. Export the frontier again"
        )

    def _check(self, end: Any, digest: str) -> None:
        is_object = isinstance(end, dict)
        if not is_object or end.get("sha256") != digest:
            raise InspectionError(
                "The file was changed after the export: its SHA-256 differs from that in its last line. "
                "Export the frontier again"
            )
        if end.get("lines") != self._lines or end.get("entries") != self.entries:
            raise InspectionError(
                "The number of entries differs from that in the last line. Export the frontier again"
            )
        if self._stream.readline(1):
            raise InspectionError(
                "The file continues after its last line: something was added to it. Remove the additional "
                "lines, or export the frontier again"
            )


def dumped(value: bytes) -> Any:
    """Return *value* in a form that JSON can express."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def load(value: Any) -> bytes:
    """Return the bytes from which :func:`dumped` made *value*.

    :raises ValueError, TypeError, KeyError, AttributeError: if :func:`dumped` did not make it.
    """
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    text: bytes = value.encode()
    return text


def _members(values: Iterable[Any]) -> list[bytes]:
    # See lua/store/filter/compact.lua: 32 bits and 1, and nine digits.
    if not all(type(value) is int and 10**9 <= value < (2**32 + 1) * 10**9 for value in values):
        raise ValueError("a number is not a member of a compact filter")
    return [b"%d" % value for value in values]
