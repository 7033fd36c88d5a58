"""The file that a frontier is exported to: text in UTF-8, a JSON array a line, that begins with what it has.

=============  ==============================================================================================
line           holds
=============  ==============================================================================================
``frontier``   first: an object that says of which spider it is, since when, what the frontier was made with,
               and how much there was then
``seen``       fingerprints of an exact filter; ``compact``: integers of a compact one; ``started``:
               fingerprints of start requests
``waiting``    score, request, score, request, …: of a list from the end where it is pushed (``FifoQueue``)
               or from the end where it is not (``LifoQueue``)
``by slot``    waiting requests of a slot, as ``leased``, the next to be taken first
``seeds``      ``<kind> <score> 0 <seed>``, as a worker would hold them, the next to be taken first
``leased``     what workers held: ``<kind> <score> <deaths>@<second>@<slot>@<begin> <request>``
``delayed``    time, entry, time, entry, …
``failed``     entries of the failed list, the latest first
``history``    what befell requests that came back: SHA-1, text, SHA-1, text, …
``noted``      as ``leased``: what workers were through with while it was exported
``counter``    how many were ever pushed
``end``        last: an object that says how many lines and entries of each there are, and the SHA-256 of all
               lines before
=============  ==============================================================================================

What is not text in UTF-8 is an object: ``{"base64": "…"}``. Scores are text, for JSON has no infinity.
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
#: How many values make an entry.
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
    "history": 2,
    "noted": 1,
    "counter": 1,
}
#: Those of which one value in two is a score.
_SCORED = ("waiting", "delayed")
#: Bytes of a line, at the most: Redis has no value of more than 512 MB.
LONGEST_LINE = 1 << 28
#: Fields of ``meta`` that are not of the crawl, but of one Redis, or of a moment.
OWN_META = re.compile(
    "epoch|state|state_since|stop|exporting|imported|spider|in_slots|clock|clock_ahead|rewound|rules|slot_default|limits_changed"
    "|slot_states|max_workers|stop_reason|run_.*|.*_keys?"
)
_SCORE = re.compile(rb"[+-]?(inf|[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?)")


class Writer:
    """Makes the lines of a file.

    :param header: what its first line says.
    """

    def __init__(self, header: dict[str, Any]) -> None:
        self._header = header
        self._digest = hashlib.sha256()
        #: How many lines, and entries, of each kind there are by now.
        self.lines: Counter[str] = Counter()
        self.entries: Counter[str] = Counter()

    def first(self) -> bytes:
        """Return the first line."""
        return self._made("frontier", {"format": FORMAT, "version": VERSION, **self._header})

    def line(self, kind: str, values: Sequence[bytes | int]) -> bytes:
        """Return a line of entries.

        :param kind: a key of :data:`WIDTHS`.
        :param values: theirs, one after the other: bytes; of a compact filter integers.
        """
        self.lines[kind] += 1
        self.entries[kind] += len(values) // WIDTHS[kind]
        return self._made(kind, [value if isinstance(value, int) else dumped(value) for value in values])

    def last(self) -> bytes:
        """Return the last line."""
        said = {"lines": self.lines, "entries": self.entries, "sha256": self._digest.hexdigest()}
        return self._made("end", said)

    def _made(self, kind: str, value: Any) -> bytes:
        line = json.dumps([kind, value], ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._digest.update(line)
        return line


class ArchiveReader:
    """Reads a file, and checks it.

    :param stream: the file, of which it reads a line at a time.
    :raises InspectionError: if it does not begin as such a file does.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self._number = 0
        self._lines: Counter[str] = Counter()
        #: How many entries of each kind were read.
        self.entries: Counter[str] = Counter()
        kind, header = self._parse(self._read())
        if kind != "frontier" or not isinstance(header, dict) or header.get("format") != FORMAT:
            raise InspectionError("This is no exported frontier: its first line does not say so")
        if header.get("version") != VERSION:
            raise InspectionError(
                f"This frontier was exported in version {header.get('version')!r} of the format, and this "
                f"scrapy-rq-sched reads version {VERSION}. Import it with the one that exported it"
            )
        #: What its first line says.
        self.header: dict[str, Any] = header

    def __iter__(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the kind and the values of each line, to the last, by which all of them are checked.

        :raises InspectionError: if the file is cut, or was changed.
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
                f"The file ends in line {self._number}, before its end: it was cut, or the export broke off. "
                "Export the frontier again"
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
            raise TypeError("its values are no list")
        loaded = _members(values) if kind == "compact" else [load(value) for value in values]
        if len(loaded) % WIDTHS[kind]:
            raise ValueError("a value is missing")
        if kind in _SCORED and not all(map(_SCORE.fullmatch, loaded[::2])):
            raise ValueError("a score is no number")
        return loaded

    def _not_ours(self, error: Exception) -> InspectionError:
        return InspectionError(
            f"Line {self._number} is none of an exported frontier ({one_line(error)}): the file was changed. "
            "Export the frontier again"
        )

    def _check(self, said: Any, digest: str) -> None:
        is_object = isinstance(said, dict)
        if not is_object or said.get("sha256") != digest:
            raise InspectionError(
                "The file was changed since it was exported: its SHA-256 is another than its last line says. "
                "Export the frontier again"
            )
        if said.get("lines") != self._lines or said.get("entries") != self.entries:
            raise InspectionError("The file has not as many entries as its last line says")
        if self._stream.readline(1):
            raise InspectionError("The file goes on after its end: something was added to it")


def dumped(value: bytes) -> Any:
    """Return *value* as JSON can say it."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def load(value: Any) -> bytes:
    """Return what :func:`dumped` was given.

    :raises ValueError, TypeError, KeyError, AttributeError: if it was not.
    """
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    text: bytes = value.encode()
    return text


def _members(values: Iterable[Any]) -> list[bytes]:
    # See lua/filter/compact.lua: 32 bits and 1, and nine digits.
    if not all(type(value) is int and 10**9 <= value < (2**32 + 1) * 10**9 for value in values):
        raise ValueError("a number is none of a compact filter")
    return [b"%d" % value for value in values]
