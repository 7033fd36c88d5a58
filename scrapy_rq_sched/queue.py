"""The disciplines in which waiting requests are kept: first in first out, last in first out, by priority.

Each is a class that can be used by itself, with one plain Redis command a call, and a few lines of
Lua (``lua/queue/<name>.lua``) by which the exchange works on the same key at the same ends. A new one is a
class, its place in :data:`DISCIPLINES`, and its Lua; a list that is read from another end than those needs a
look at ``inspect/``, too.
"""

from __future__ import annotations

import itertools
import math
import secrets
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from scrapy import Request, Spider

from . import connection, keys, serializers
from .codec import request
from .errors import UnserializableRequestError
from .serializers import faithful

#: Fraction bits by which equal priorities keep the order of arrival. A double holds 53 bits, so the
#: order is exact for 2**32 pushes a crawl and priorities between -2**20 and 2**20; beyond, requests
#: of equal priority may change places, and none is lost.
ORDER_BITS = 32


class Base(ABC):
    """A queue of a spider's requests in Redis.

    :param server: a redis-py client that does not decode its replies.
    :param spider: the spider whose methods are the callbacks, and whose name is in the key.
    :param key: the key, or a template with ``%(spider)s``.
    :param serializer: an object with ``dumps`` and ``loads``, or a name such as ``"json"``, which
        is the default.
    :raises SettingError: if the serializer lacks ``dumps`` or ``loads``.
    """

    #: The part of the scripts that pushes and takes in this order: ``lua/queue/<discipline>.lua``.
    discipline: ClassVar[str]
    #: Whether the structure folds equal entries into one, so that each needs something of its own.
    folds_equal: ClassVar[bool] = False
    #: The type of its key: ``list`` or ``zset``.
    key_type: ClassVar[str] = "list"

    def __init__(self, server: Any, spider: Spider, key: str, serializer: Any = None) -> None:
        self.server = server
        self.spider = spider
        self.key = connection.expand_key(server, key, spider.name)
        self.serializer = serializers.load_serializer("json" if serializer is None else serializer)
        self._nonces = (f"{secrets.token_hex(5)}{n:x}" for n in itertools.count())

    def encode_request(self, item: Request, unique: bool = False) -> bytes:
        """Return the entry that stands for *item*.

        :param item: the request.
        :param unique: whether an equal request may be in the queue as well, and both shall stay.
        :raises UnserializableRequestError: naming the field that could not be kept.
        """
        if type(self)._encode_request is not Base._encode_request:
            return self._encode_by_subclass(item)
        return self._encode(item, unique)

    def _encode(self, item: Request, unique: bool) -> bytes:
        nonce = next(self._nonces) if unique and self.folds_equal else None
        data = request.request_to_dict(item, self.spider, nonce)
        return faithful.dump(self.serializer, data)

    def decode_request(self, entry: bytes) -> Request:
        """Return the request that *entry* stands for.

        :raises PayloadError: if it does not stand for one.
        :raises UnknownCodeError: if the spider lacks its callback or its class.
        """
        return self._decode_request(entry)

    # Subclasses written for scrapy-redis override these two.

    def _encode_request(self, request: Request) -> Any:
        # Whether an equal one may stay is not said here, so it may.
        return self._encode(request, unique=True)

    def _decode_request(self, encoded_request: bytes) -> Request:
        return request.request_from_dict(faithful.load(self.serializer, encoded_request), self.spider)

    def _encode_by_subclass(self, item: Request) -> bytes:
        try:
            entry = self._encode_request(item)
            return entry.encode() if isinstance(entry, str) else bytes(entry)
        except UnserializableRequestError:
            raise
        except Exception as error:  # the user's code may raise anything; the request is kept in memory
            raise UnserializableRequestError(
                f"_encode_request raised {type(error).__name__}: {error}"
            ) from error

    def clear(self) -> None:
        """Delete the queue."""
        self.server.delete(self.key, keys.queue_counter(self.key))

    @abstractmethod
    def push(self, request: Request) -> None:
        """Add *request*.

        :raises UnserializableRequestError: naming the field that could not be kept; nothing was added.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """

    @abstractmethod
    def pop(self, timeout: float = 0) -> Request | None:
        """Take the next request, or None if there is none. It is removed: there is no lease.

        :param timeout: seconds to wait for one, fractions allowed; 0 does not wait.
        :raises PayloadError: if the entry does not stand for a request; it is gone.
        :raises UnknownCodeError: if the spider lacks its callback or its class; it is gone.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """

    def peek(self) -> bytes | None:
        """Return the entry of the next request, and leave it there; None if there is none.

        A subclass for crawls needs none: ``push``, ``pop`` and ``__len__`` are enough.

        :raises NotImplementedError: if the subclass has none.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no peek()")

    @abstractmethod
    def __len__(self) -> int: ...

    def _wait(self, command: Any, timeout: float) -> Any:
        # In slices, for the socket of the client may have a shorter timeout.
        longest = connection.socket_timeout(self.server)
        deadline = time.monotonic() + timeout
        while timeout > 0:
            found = command([self.key], min(timeout, longest / 2) if longest else timeout)
            if found:
                return found
            timeout = deadline - time.monotonic()
        return None

    def _decode(self, entry: bytes | None) -> Request | None:
        return None if entry is None else self.decode_request(entry)


class FifoQueue(Base):
    """First in, first out: a list, pushed with ``LPUSH`` and popped with ``RPOP`` or ``BRPOP``."""

    discipline = "fifo"

    def push(self, request: Request) -> None:
        """Add *request* behind all others."""
        self.server.lpush(self.key, self.encode_request(request))

    def pop(self, timeout: float = 0) -> Request | None:
        """Take the request that has waited longest, or None if there is none within *timeout* seconds."""
        if timeout > 0:
            found = self._wait(self.server.brpop, timeout)
            return self._decode(found and found[1])
        return self._decode(self.server.rpop(self.key))

    def peek(self) -> bytes | None:
        """Return the entry of the next request, and leave it there; None if there is none."""
        entry: bytes | None = self.server.lindex(self.key, -1)
        return entry

    def __len__(self) -> int:
        return int(self.server.llen(self.key))


class LifoQueue(Base):
    """Last in, first out: a list, pushed with ``LPUSH`` and popped with ``LPOP`` or ``BLPOP``."""

    discipline = "lifo"

    def push(self, request: Request) -> None:
        """Add *request* before all others."""
        self.server.lpush(self.key, self.encode_request(request))

    def pop(self, timeout: float = 0) -> Request | None:
        """Take the request that came last, or None if there is none within *timeout* seconds."""
        if timeout > 0:
            found = self._wait(self.server.blpop, timeout)
            return self._decode(found and found[1])
        return self._decode(self.server.lpop(self.key))

    def peek(self) -> bytes | None:
        """Return the entry of the next request, and leave it there; None if there is none."""
        entry: bytes | None = self.server.lindex(self.key, 0)
        return entry

    def __len__(self) -> int:
        return int(self.server.llen(self.key))


class PriorityQueue(Base):
    """Highest priority first, equal ones in the order of arrival: a sorted set.

    The score is ``-priority`` and a fraction that grows with every push (see
    :data:`~scrapy_rq_sched.queue.ORDER_BITS`).
    A pop is one ``MULTI`` of ``ZRANGE 0 0`` and ``ZREMRANGEBYRANK 0 0``.
    """

    discipline = "priority"
    folds_equal = True
    key_type = "zset"

    def push(self, request: Request) -> None:
        """Add *request* behind those of its priority."""
        entry = self.encode_request(request, unique=True)
        count = self.server.incr(keys.queue_counter(self.key)) % 2**ORDER_BITS
        try:
            score = -request.priority + count / 2**ORDER_BITS
        except OverflowError:
            score = -math.inf if request.priority > 0 else math.inf
        self.server.zadd(self.key, {entry: score})

    def pop(self, timeout: float = 0) -> Request | None:
        """Take the request of the highest priority, or None if there is none within *timeout* seconds."""
        with connection.server_of(self.server, self.key).pipeline(transaction=True) as pipe:
            pipe.zrange(self.key, 0, 0)
            pipe.zremrangebyrank(self.key, 0, 0)
            entries, _ = pipe.execute()
        if entries:
            return self._decode(entries[0])
        if timeout > 0:
            found = self._wait(self.server.bzpopmin, timeout)
            return self._decode(found and found[1])
        return None

    def peek(self) -> bytes | None:
        """Return the entry of the next request, and leave it there; None if there is none."""
        entries: list[bytes] = self.server.zrange(self.key, 0, 0)
        return entries[0] if entries else None

    def __len__(self) -> int:
        return int(self.server.zcard(self.key))


#: scrapy-redis's older names.
SpiderQueue = FifoQueue
SpiderStack = LifoQueue
SpiderPriorityQueue = PriorityQueue


#: The queues that the exchange works with. Any other class pushes and pops by itself.
DISCIPLINES: tuple[type[Base], ...] = (PriorityQueue, FifoQueue, LifoQueue)
