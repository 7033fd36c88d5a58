"""The outcome of a request, in the 16 bytes that Redis keeps of it: see ``lua/store/outcomes.lua``.

A request is known by its URL, not by its fingerprint: the digest of a URL takes a twentieth of the time, and
``scrapy frontier explain`` is asked about a URL.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterator
from enum import IntEnum
from typing import NamedTuple

#: The bytes of a record, and of the head before the records.
SIZE = 16
_RECORD = struct.Struct(">7s3sIH")
#: The last number of a code; the flags come above it.
_CODE = 0x3FFF


class Ending(IntEnum):
    """How a request ended without an HTTP status: a status is less than each of these numbers."""

    #: It was not downloaded: a middleware or a cache has answered it, or it was dropped in silence.
    UNKNOWN = 1000
    ROBOTS = 1001
    #: A middleware has raised ``IgnoreRequest``.
    IGNORED = 1002
    NO_ADDRESS = 1003
    TIMEOUT = 1004
    REFUSED = 1005
    LOST = 1006
    #: Another exception.
    EXCEPTION = 1099


#: Parts of the names of Scrapy's and Twisted's exceptions, and what they mean; the first match counts.
_NAMES = (
    ("IgnoreRequest", Ending.IGNORED),
    ("DNSLookup", Ending.NO_ADDRESS),
    ("CannotResolveHost", Ending.NO_ADDRESS),
    ("Timeout", Ending.TIMEOUT),
    ("TimedOut", Ending.TIMEOUT),
    ("Refused", Ending.REFUSED),
    ("ConnectionLost", Ending.LOST),
    ("ConnectionDone", Ending.LOST),
    ("ResponseNeverReceived", Ending.LOST),
    ("ResponseFailed", Ending.LOST),
    ("DownloadFailed", Ending.LOST),
)


def ending_of(exception: Exception) -> Ending:
    """Return how a request ended with *exception* in its download."""
    found = ending_named([cls.__name__ for cls in type(exception).__mro__])
    is_robots = found is Ending.IGNORED and str(exception).startswith("Forbidden by robots.txt")
    return Ending.ROBOTS if is_robots else found


def ending_named(names: Collection[str]) -> Ending:
    """Return how a request ended with an exception of a class with one of these *names*."""
    return next((ending for part, ending in _NAMES if any(part in name for name in names)), Ending.EXCEPTION)


class Outcome(NamedTuple):
    """The outcome of a request.

    :param url: the digest of its URL, and :param worker: of the worker's name.
    :param time: when it ended, in seconds since 1970, by the worker's clock.
    :param code: its HTTP status, or an :class:`Ending`.
    :param has_raised: whether its callback raised an exception, and
    :param is_set_aside: whether it was moved to the failed list.
    """

    url: bytes
    worker: bytes
    time: int
    code: int
    has_raised: bool = False
    is_set_aside: bool = False

    def to_wire(self) -> bytes:
        """Return the record."""
        code = self.code if 0 <= self.code <= _CODE else Ending.UNKNOWN
        code |= (self.has_raised + 2 * self.is_set_aside) << 14
        return _RECORD.pack(self.url, self.worker, self.time & 0xFFFFFFFF, code)


def url_digest(url: str) -> bytes:
    """Return the digest of *url*, of 7 bytes."""
    return hashlib.blake2b(url.encode("utf-8", "surrogatepass"), digest_size=7).digest()


def worker_digest(name: str) -> bytes:
    """Return the digest of a worker's name, of 3 bytes."""
    return hashlib.blake2b(name.encode(), digest_size=3).digest()


def find(ring: bytes, url: str) -> Iterator[Outcome]:
    """Yield the outcomes of *url* in the value of the key, in no order."""
    digest = url_digest(url)
    place = ring.find(digest, SIZE)
    while place >= 0:
        record = ring[place : place + SIZE]
        if place % SIZE == 0 and len(record) == SIZE:
            _, worker, time, code = _RECORD.unpack(record)
            flags, code = code >> 14, code & _CODE
            is_known = code < Ending.UNKNOWN or code in Ending.__members__.values()
            code = code if is_known else Ending.EXCEPTION
            yield Outcome(digest, worker, time, code, bool(flags & 1), bool(flags & 2))
        place = ring.find(digest, place + 1)


def times(ring: bytes) -> list[int]:
    """Return when each request of the value of the key ended, in no order."""
    whole = len(ring) // SIZE * SIZE
    return [record[2] for record in _RECORD.iter_unpack(ring[SIZE:whole])]


def written(ring: bytes) -> int:
    """Return how many records were ever written to the key."""
    head = ring[:SIZE].strip()
    return int(head) if head.isdigit() else 0
