"""The connections of the server: a bound on their number, and deadlines for slow clients.

A connection takes a file descriptor from the moment at which it is accepted. So clients that send no complete
request, or do not read their responses, could take all of them, and nobody else could reach the dashboard.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    import resource
except ImportError:  # on Windows, which has no such limit
    resource = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

#: Seconds that a client has to send a complete request, since it connected or got its last response.
TO_SEND = 10.0
#: Seconds for which a client may read nothing of its response.
TO_READ = 30.0
#: Bytes of a request's head, at most: a URL to explain has 20,000 characters, each of which may be escaped.
HEAD = 64 * 1024
#: Connections, at most.
MOST = 1000
#: Connections that the server accepts in one step: they take descriptors before they are counted.
ACCEPTED_AT_ONCE = 8
#: Descriptors for everything else: Redis, files, and connections that are just being accepted or closed.
RESERVED = 64 + 4 * ACCEPTED_AT_ONCE
#: Connections that wait to be accepted.
QUEUE = 1024
#: Seconds between two lines in the log.
SILENCE = 60.0
_BODY = b'{"error": "The dashboard has too many connections. Try again later"}'
_REFUSAL = b"\r\n".join(
    (
        b"HTTP/1.1 503 Service Unavailable",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(_BODY),
        b"Retry-After: 10",
        b"Connection: close",
        b"",
        _BODY,
    )
)


def most_connections() -> int:
    """Return the number of connections that this process can have, at most :data:`MOST`.

    Its soft limit of descriptors is raised if it is too low for that, as far as the hard limit allows.
    """
    if resource is None:
        return MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MOST
    return min(MOST, max(soft - RESERVED, soft // 2))


class Connections:
    """All open connections, at most *most*.

    When there are so many, a new one takes the place of the connection that has waited longest for a complete
    request; without such a one, of a connection whose client reads its response slowly. Without either, the
    new connection is refused. The same is true if an address of another machine has half of the connections
    (in IPv6, a network of 64 bits). This machine can have all of them: it has all users of a proxy on it.

    An object is a factory of protocols, for ``http`` of ``uvicorn.Config``.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_of_a_peer = most // 2
        self._peers: dict[Connection, str] = {}
        self._counts: Counter[str] = Counter()
        # In the order in which they began.
        self._sending: dict[Connection, None] = {}
        self._not_reading: dict[Connection, None] = {}
        self._logged = -SILENCE

    def __call__(self, **options: Any) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self, **options)

    def admit(self, new: Connection, address: str) -> bool:
        """Count *new*, if need be in the place of another connection; return whether it is admitted."""
        admitted, peer = True, _peer(address)
        if peer and self._counts[peer] >= self._most_of_a_peer:
            admitted = self._close_one(peer)
        elif len(self._peers) >= self._most:
            admitted = self._close_one()
        if admitted:
            self._peers[new] = peer
            self._counts[peer] += 1
        return admitted

    def awaits_request(self, connection: Connection) -> None:
        """Note that *connection* has not sent its next request yet."""
        if connection in self._peers:
            self._sending.pop(connection, None)
            self._sending[connection] = None

    def has_request(self, connection: Connection) -> None:
        """Note that *connection* has sent a complete request."""
        self._sending.pop(connection, None)

    def stops_reading(self, connection: Connection) -> None:
        """Note that the client of *connection* reads its response more slowly than it is sent."""
        if connection in self._peers:
            self._not_reading[connection] = None

    def reads(self, connection: Connection) -> None:
        """Note that the client of *connection* has read the most of its response."""
        self._not_reading.pop(connection, None)

    def remove(self, connection: Connection) -> None:
        """Forget *connection*, because it is closed."""
        self.has_request(connection)
        self.reads(connection)
        peer = self._peers.pop(connection, None)
        if peer is not None:
            self._counts[peer] -= 1
            if not self._counts[peer]:
                del self._counts[peer]

    def _close_one(self, peer: str = "") -> bool:
        """Close a connection of *peer*, or of any; return whether there was one that could be closed."""
        self._log(peer)
        for one in (*self._sending, *self._not_reading):
            if not peer or self._peers[one] == peer:
                self.remove(one)
                one.transport.abort()
                return True
        return False

    def _log(self, peer: str) -> None:
        if time.monotonic() - self._logged < SILENCE:
            return
        self._logged = time.monotonic()
        logger.warning(
            "The dashboard has %d connections, as many as it admits%s. It now closes connections without a "
            "complete request, or refuses new ones. If this is no attack, raise the limit of open files "
            "(ulimit -n)",
            *(self._counts[peer] if peer else self._most, f" from {peer}" if peer else ""),
        )


class _Parser(h11.Connection):
    """Refuses bodies in chunks, which no browser sends: a chunk of one byte takes as long as a request."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
            raise h11.RemoteProtocolError("a body needs a Content-Length", error_status_hint=411)
        return event


class Connection(H11Protocol):
    """A connection, with a deadline for each request and response."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self.conn = _Parser(h11.SERVER, HEAD)
        self._all = connections
        self._sending = _Alarm(self.loop, self._late)
        self._reading = _Alarm(self.loop, self._look_at_reader)
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the client, or refuse it."""
        super().connection_made(transport)
        if self._all.admit(self, self.client[0] if self.client else ""):
            self._await_request()
        else:
            transport.write(_REFUSAL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the connection's place."""
        self._all.remove(self)
        self._sending.stop()
        self._reading.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Find out whether the request is complete."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request. It may be there already."""
        super().on_response_complete()
        self._await_request()
        self._look()

    def pause_writing(self) -> None:
        """Begin to wait for a client that reads slowly."""
        super().pause_writing()
        self._all.stops_reading(self)
        self._await_reader()

    def resume_writing(self) -> None:
        """Go on: the client has read nearly all."""
        super().resume_writing()
        self._all.reads(self)
        self._reading.stop()

    def _await_request(self) -> None:
        self._all.awaits_request(self)
        self._sending.start(TO_SEND)

    def _look(self) -> None:
        is_answered = self.cycle is None or self.cycle.response_complete
        if not is_answered and self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._all.has_request(self)
            self._sending.stop()

    def _late(self) -> None:
        if not self.transport.get_write_buffer_size():
            self.transport.abort()
        elif not self._reading.is_on:  # the rest of the last response is on its way to a slow client
            self._await_reader()

    def _await_reader(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._reading.start(TO_READ)

    def _look_at_reader(self) -> None:
        if 0 < self.transport.get_write_buffer_size() < self._unread:
            self._await_reader()
        else:
            self.transport.abort()


class _Alarm:
    """Calls *function* after some seconds, unless it is stopped before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
        self._loop = loop
        self._function = function
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return self._handle is not None

    def start(self, seconds: float) -> None:
        self.stop()
        self._handle = self._loop.call_later(seconds, self._ring)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None

    def _ring(self) -> None:
        self._handle = None
        self._function()


class Server(uvicorn.Server):
    """A server with a queue for more connections than it accepts in one step."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve. The event loop has made the queue as short as such a step."""
        await super().startup(sockets)
        for one in sockets or []:
            one.listen(QUEUE)


def _peer(address: str) -> str:
    """Return the client that *address* belongs to; empty for this machine, or if there is no address."""
    if not address:
        return ""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback:
        return ""
    # A machine can have all addresses of an IPv6 network of 64 bits.
    bits = 64 if found.version == 6 else 32
    return str(ipaddress.ip_network((found, bits), strict=False))
