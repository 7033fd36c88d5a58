"""Read the entries of a key in short steps, each cut to its beginning (``lua/scripts/read_entries.lua``).

Anybody who can push a seed can push one of many megabytes. A page or a command that shows entries must not
read all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from ..connection import NoScriptError
from .scripts import register

Kind = Literal["list", "failed", "zset", "stream", "HSCAN", "SSCAN", "ZSCAN", "fields", "string"]

#: How many bytes of an entry a list shows; and after how many bytes of all entries a list ends.
SHOWN, LIST = 16 * 1024, 4 * 1024 * 1024
#: How many bytes of an entry are read if the entry is to be compared, and not shown.
COMPARED = 1024 * 1024
#: More than any entry has, to read it completely.
WHOLE = 2**53
#: How many entries a step reads, and after how many bytes it ends, approximately.
STEP, STEP_BYTES = 200, 1024 * 1024
#: After how many bytes Redis has read enough for a list: a long entry is read there, though it is not sent.
MOST_READ = 256 * 1024 * 1024


class Piece(NamedTuple):
    """The beginning of an entry.

    :param name: its score, field or id, as Redis writes it; empty if it has none.
    :param data: its beginning; of an entry of the failed list, a JSON object with the beginnings of its
        fields.
    :param size: its size in bytes.
    """

    name: bytes
    data: bytes
    size: int

    @property
    def is_cut(self) -> bool:
        """Whether the entry is longer."""
        return self.size > len(self.data)


class Part(NamedTuple):
    """The first entries of a key.

    :param pieces: their beginnings.
    :param is_all: whether there are no more, and none of them is cut.
    """

    pieces: list[Piece]
    is_all: bool


def part_of(reply: list[Any], kind: Kind, count: int) -> Part:
    """Return what the *reply* to :meth:`Entries.ask` contains of a key, at most *count* entries."""
    following, *flat = reply
    pieces = list(_pieces(flat))
    # A step with few bytes has ended because there were no more entries. A scan tells it.
    is_end = following == b"0" if kind.endswith("SCAN") else sum(one.size for one in pieces) < STEP_BYTES
    is_all = is_end and len(pieces) <= count and not any(piece.is_cut for piece in pieces)
    return Part(pieces[:count], is_all)


def _pieces(flat: list[Any]) -> Iterator[Piece]:
    return (Piece(*group) for group in _groups(flat))


def _groups(flat: list[Any]) -> Iterator[tuple[Any, Any, Any]]:
    return zip(*[iter(flat)] * 3, strict=True)


def _head(pieces: list[Piece], count: int) -> tuple[list[Piece], bool]:
    # A step with few bytes has ended because there were no more entries.
    is_short = sum(piece.size for piece in pieces) < STEP_BYTES // 8
    return pieces, is_short and len(pieces) <= count


def fields_of(reply: list[Any], names: str) -> list[list[bytes | None]]:
    """Return the values in the *reply* to :meth:`Entries.ask_fields`, a list for each key.

    A value is None if it is missing or too long. If they are too much together, the last keys are left out.
    """
    _, *flat = reply
    values = [data if data is not None and len(data) == size else None for _, data, size in _groups(flat)]
    count = len(names.split())
    return [values[begin : begin + count] for begin in range(0, len(values), count)]


class Entries:
    """Reads entries.

    :param server: a redis-py client that returns bytes.
    """

    def __init__(self, server: Any) -> None:
        self._script = register(server, "read_entries")

    def step(
        self,
        kind: Kind,
        key: Any,
        start: int | str | bytes,
        count: int = STEP,
        longest: int = SHOWN,
        enough: int = STEP_BYTES,
        needle: bytes = b"",
    ) -> tuple[bytes, list[Piece]]:
        """Return where the next step begins, and some entries; no entries if there are no more.

        A scan is over when the next step begins at 0, and may return no entries before. So may any step with
        a *needle*, a text that the returned entries contain: it is over if the next one begins where it has.
        """
        following, *pieces = self._script([key], [kind, start, count, longest, enough, needle])
        return following, list(_pieces(pieces))

    def ask(self, pipe: Any, kind: Kind, key: Any, count: int, longest: int) -> None:
        """Ask for the first entries of *key* in a pipeline; :func:`part_of` reads the reply.

        The reply is a NoScriptError if the server does not have the script: see :meth:`load`.
        """
        # One more tells whether there are more.
        pipe.evalsha(self._script.sha, 1, key, kind, 0, count + 1, longest, STEP_BYTES, b"")

    def ask_fields(self, pipe: Any, keys: Sequence[Any], names: str, longest: int) -> None:
        """Ask for some fields of each of *keys* in a pipeline; :func:`fields_of` reads the reply.

        :param names: the fields, with spaces between them.
        """
        pipe.evalsha(self._script.sha, len(keys), *keys, "fields", names, 0, longest, 0, b"")

    def load(self, key: Any) -> None:
        """Load the script into the server that has *key*."""
        self._script.load(key)

    def heads(
        self, pipeline: Callable[[], Any], kind: Kind, keys: Sequence[Any], count: int, longest: int
    ) -> list[tuple[list[Piece], bool]]:
        """Return the first entries of each of *keys*, in one round trip, and whether these are all.

        :param pipeline: returns a new pipeline to the server that has *keys*.
        """

        def attempt() -> Any:
            pipe = pipeline()
            for key in keys:
                pipe.evalsha(self._script.sha, 1, key, kind, 0, count + 1, longest, STEP_BYTES // 8, b"")
            return pipe.execute()

        try:
            replies = attempt()
        except NoScriptError:
            self.load(keys[0])
            replies = attempt()
        return [_head(list(_pieces(flat)), count) for _, *flat in replies]

    def read(
        self,
        kind: Kind,
        key: Any,
        start: int | str | bytes = 0,
        count: int = STEP,
        longest: int = SHOWN,
        enough: int = LIST,
    ) -> Iterator[Piece]:
        """Yield at most *count* entries; fewer if they have *enough* bytes, or Redis has read too many."""
        left, read = count, 0
        while left > 0 and enough > 0 and read < MOST_READ:
            start, pieces = self.step(kind, key, start, min(left, STEP), longest, min(enough, STEP_BYTES))
            if not pieces:
                return
            yield from pieces
            left -= len(pieces)
            enough -= sum(len(piece.data) for piece in pieces)
            read += sum(piece.size for piece in pieces)

    def scan(self, kind: Kind, key: Any, longest: int = SHOWN) -> Iterator[Piece]:
        """Yield all entries of a hash, a set or a sorted set, in no order; some may come twice."""
        cursor, is_first = b"0", True
        while is_first or cursor != b"0":
            is_first = False
            cursor, pieces = self.step(kind, key, cursor, longest=longest)
            yield from pieces

    def all_of(self, key: Any, longest: int = SHOWN) -> Iterator[Piece]:
        """Yield all entries of a list, from its head."""
        start: int | bytes = 0
        while True:
            start, pieces = self.step("list", key, start, longest=longest)
            if not pieces:
                return
            yield from pieces
