"""The queues of waiting requests: first in first out, last in first out, and by priority.

Each queue is a class that can be used on its own, with plain Redis commands, and a short script
(``lua/store/queue/<name>.lua``) by which the exchange works on the same key, at the same ends. To add a
queue, add a class, its entry in :data:`DISCIPLINES`, and its script.
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

#: Bits of the score's fraction, which keeps requests of equal priority in order of arrival. A double holds 53
#: bits, so the order is exact for 2**32 pushes in a crawl and for priorities between -2**20 and 2**20. Beyond
#: these limits, requests of equal priority may change places, but no request is lost.
ORDER_BITS = 32


class Base(ABC):
    """A queue of a spider's requests in Redis.

    :param server: a redis-py client that does not decode its replies.
    :param spider: the spider, which has the callbacks, and gives its name to the key.
    :param key: the key, or a template with ``%(spider)s``.
    :param serializer: an object with ``dumps`` and ``loads``, or a name such as ``"json"``, the default.
    :raises SettingError: if the serializer lacks ``dumps`` or ``loads``.
    """

    #: The part of the scripts that implements this order: ``lua/store/queue/<discipline>.lua``.
    discipline: ClassVar[str]
    #: Whether the Redis type stores equal entries only once, so that each entry needs a unique field.
    folds_equal: ClassVar[bool] = False
    #: The Redis type of the key: ``list`` or ``zset``.
    key_type: ClassVar[str] = "list"
    #: Whether the order depends on the requests' priorities.
    has_priorities: ClassVar[bool] = False
    #: Whether the next request is at the tail of the list. All lists are pushed at the head.
    pops_tail: ClassVar[bool] = False

    def __init__(self, server: Any, spider: Spider, key: str, serializer: Any = None) -> None:
        self.server = server
        self.spider = spider
        self.key = connection.expand_key(server, key, spider.name)
        self.serializer = serializers.load_serializer("json" if serializer is None else serializer)
        self._nonces = (f"{secrets.token_hex(5)}{n:x}" for n in itertools.count())

    def encode_request(self, item: Request, unique: bool = False) -> bytes:
        """Return the entry for the request *item*.

        :param item: the request.
        :param unique: whether to keep the entry distinct from that of an equal request in the queue.
        :raises UnserializableRequestError: if the request cannot be serialized. The message names the field.
        """
        if type(self)._encode_request is not Base._encode_request:
            return self._encode_by_subclass(item)
        return self._encode(item, unique)

    def _encode(self, item: Request, unique: bool) -> bytes:
        # Also in a list: two equal requests are two pages, each with its own items.
        nonce = next(self._nonces) if unique else None
        data = request.request_to_dict(item, self.spider, nonce)
        return faithful.dump(self.serializer, data)

    def decode_request(self, entry: bytes) -> Request:
        """Return the request in *entry*.

        :raises PayloadError: if *entry* is not a valid request.
        :raises UnknownCodeError: if the spider lacks the request's callback or class.
        """
        return self._decode_request(entry)

    # Subclasses that were written for scrapy-redis override the next two methods.

    def _encode_request(self, request: Request) -> Any:
        # This method of scrapy-redis cannot tell whether equal requests must be kept, so it keeps them.
        return self._encode(request, unique=True)

    def _decode_request(self, encoded_request: bytes) -> Request:
        return request.request_from_dict(faithful.load(self.serializer, encoded_request), self.spider)

    def _encode_by_subclass(self, item: Request) -> bytes:
        try:
            entry = self._encode_request(item)
            return entry.encode() if isinstance(entry, str) else bytes(entry)
        except UnserializableRequestError:
            raise
        except Exception as error:  # the user's code may raise anything; the request stays in memory
            raise UnserializableRequestError(
                f"_encode_request raised {type(error).__name__}: {error}"
            ) from error

    def clear(self) -> None:
        """Delete the queue."""
        self.server.delete(self.key, keys.queue_counter(self.key))

    @abstractmethod
    def push(self, request: Request) -> None:
        """Add *request*.

        :raises UnserializableRequestError: if the request cannot be serialized. The message names the field.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """

    @abstractmethod
    def pop(self, timeout: float = 0) -> Request | None:
        """Remove the next request and return it, or None if the queue is empty. The request is not leased.

        :param timeout: seconds to wait for a request, also as a fraction; 0 does not wait.
        :raises PayloadError: if the entry is not a valid request. The entry was removed.
        :raises UnknownCodeError: if the spider lacks the request's callback or class. The entry was removed.
        :raises redis.exceptions.RedisError: if Redis does not answer.
        """

    def peek(self) -> bytes | None:
        """Return the entry of the next request without removing it, or None if the queue is empty.

        A crawl does not use this method: a subclass needs only ``push``, ``pop`` and ``__len__``.

        :raises NotImplementedError: if the subclass does not implement it.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no peek()")

    @abstractmethod
    def __len__(self) -> int: ...

    def _wait(self, command: Any, timeout: float) -> Any:
        # In several steps, because the timeout of the client's socket may be shorter.
        deadline = time.monotonic() + timeout
        while timeout > 0:
            found = command([self.key], connection.server_may_wait(self.server, timeout))
            if found:
                return found
            timeout = deadline - time.monotonic()
        return None

    def _decode(self, entry: bytes | None) -> Request | None:
        return None if entry is None else self.decode_request(entry)


class FifoQueue(Base):
    """First in, first out: a list, with ``LPUSH`` to push, and ``RPOP`` or ``BRPOP`` to pop."""

    discipline = "fifo"
    pops_tail = True

    def push(self, request: Request) -> None:
        """Add *request* behind all others."""
        self.server.lpush(self.key, self.encode_request(request))

    def pop(self, timeout: float = 0) -> Request | None:
        """Remove and return the oldest request; None if there is no request within *timeout* seconds."""
        if timeout > 0:
            found = self._wait(self.server.brpop, timeout)
            return self._decode(found and found[1])
        return self._decode(self.server.rpop(self.key))

    def peek(self) -> bytes | None:
        """Return the entry of the next request without removing it, or None if the queue is empty."""
        entry: bytes | None = self.server.lindex(self.key, -1)
        return entry

    def __len__(self) -> int:
        return int(self.server.llen(self.key))


class LifoQueue(Base):
    """Last in, first out: a list, with ``LPUSH`` to push, and ``LPOP`` or ``BLPOP`` to pop."""

    discipline = "lifo"

    def push(self, request: Request) -> None:
        """Add *request* before all others."""
        self.server.lpush(self.key, self.encode_request(request))

    def pop(self, timeout: float = 0) -> Request | None:
        """Remove and return the newest request; None if there is no request within *timeout* seconds."""
        if timeout > 0:
            found = self._wait(self.server.blpop, timeout)
            return self._decode(found and found[1])
        return self._decode(self.server.lpop(self.key))

    def peek(self) -> bytes | None:
        """Return the entry of the next request without removing it, or None if the queue is empty."""
        entry: bytes | None = self.server.lindex(self.key, 0)
        return entry

    def __len__(self) -> int:
        return int(self.server.llen(self.key))


class PriorityQueue(Base):
    """Highest priority first, and equal priorities in order of arrival: a sorted set.

    The score is ``-priority`` plus a fraction that grows with every push (see
    :data:`~scrapy_rq_sched.queue.ORDER_BITS`). A pop is one ``MULTI`` of ``ZRANGE 0 0`` and
    ``ZREMRANGEBYRANK 0 0``.
    """

    discipline = "priority"
    folds_equal = True
    key_type = "zset"
    has_priorities = True

    def push(self, request: Request) -> None:
        """Add *request* behind the requests of the same priority."""
        entry = self.encode_request(request, unique=True)
        count = self.server.incr(keys.queue_counter(self.key)) % 2**ORDER_BITS
        try:
            score = -request.priority + count / 2**ORDER_BITS
        except OverflowError:
            score = -math.inf if request.priority > 0 else math.inf
        self.server.zadd(self.key, {entry: score})

    def pop(self, timeout: float = 0) -> Request | None:
        """Remove and return the request of the highest priority.

        Return None if there is no request within *timeout* seconds.
        """
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
        """Return the entry of the next request without removing it, or None if the queue is empty."""
        entries: list[bytes] = self.server.zrange(self.key, 0, 0)
        return entries[0] if entries else None

    def __len__(self) -> int:
        return int(self.server.zcard(self.key))


#: scrapy-redis's older names.
SpiderQueue = FifoQueue
SpiderStack = LifoQueue
SpiderPriorityQueue = PriorityQueue


#: The queues that the exchange implements. The scheduler calls ``push`` and ``pop`` of any other class.
DISCIPLINES: tuple[type[Base], ...] = (PriorityQueue, FifoQueue, LifoQueue)
#: Their names, for messages.
CLASS_NAMES = ", ".join(cls.__name__ for cls in DISCIPLINES)
