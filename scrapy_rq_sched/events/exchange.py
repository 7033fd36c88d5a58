"""HTTP exchanges with one deadline for all of their steps, which no receiver can extend.

The timeout of ``urllib`` is for one call of a socket. Here it is for the exchange: to look up the name,
connect, shake hands, send the request, and read the answer's head with any informational answers before it.
"""

from __future__ import annotations

import http.client
import queue
import socket
import threading
import urllib.request
from typing import Any

from ..runtime.deadline import Deadline, TimedSocket

#: Bytes of an answer that are read, at most. Its body is not read.
MOST_BYTES = 65_536


class AnswerTooLongError(http.client.HTTPException):
    """The head of an answer has too many bytes."""


def build_opener(*handlers: Any) -> urllib.request.OpenerDirector:
    """Return an opener for http and https that knows the system's proxies, as that of ``urllib``.

    The ``timeout`` of its method ``open`` must be given. The body of an answer need not be complete.
    """
    return urllib.request.build_opener(_HTTPHandler(), _HTTPSHandler(), *handlers)


class _HTTPHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _HTTPSHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req)


class _Connection(http.client.HTTPConnection):
    sock: Any

    def __init__(self, host: str, **options: Any) -> None:
        super().__init__(host, **options)
        self.deadline = Deadline(self.timeout or 0)
        self._bytes = 0

    def connect(self) -> None:
        connected = _connect(self.host, self.port, self.deadline)
        self.sock = TimedSocket(connected, self.deadline, self.count)
        if self._tunnel_host:  # type: ignore[attr-defined]
            self._tunnel()  # type: ignore[attr-defined]

    def count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MOST_BYTES:
            raise AnswerTooLongError(f"more than {MOST_BYTES:,} bytes before the end of its head")


class _SecureConnection(_Connection, http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        plain = self.sock.connected
        plain.settimeout(self.deadline.left())
        try:
            # The handshake as a whole has this timeout.
            name = self._tunnel_host or self.host  # type: ignore[attr-defined]
            secure = self._context.wrap_socket(plain, server_hostname=name)  # type: ignore[attr-defined]
        except TimeoutError:
            raise self.deadline.passed() from None
        self.sock = TimedSocket(secure, self.deadline, self.count)


def _connect(host: str, port: int, deadline: Deadline) -> socket.socket:
    """Return a connection to the first address of *host* that answers."""
    failure: OSError = OSError(f"{host} has no address")
    addresses = _look_up(host, port, deadline)
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        try:
            # A system without IPv6 may know IPv6 addresses of the receiver, but has no socket for them.
            connecting = socket.socket(family, kind, protocol)
        except OSError as error:
            failure = error
            continue
        try:
            # An address that does not answer leaves time for the next ones.
            connecting.settimeout(deadline.left() / (len(addresses) - number))
            connecting.connect(address)
            connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connecting.close()
            failure = deadline.passed() if isinstance(error, TimeoutError) else error
        else:
            return connecting
    raise failure


def _look_up(host: str, port: int, deadline: Deadline) -> list[Any]:
    """Return the addresses of *host*. The system's resolver has no timeout, so it runs in its own thread."""
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found.put(socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM))
        except Exception as error:  # raised in the other thread
            found.put(error)

    threading.Thread(target=ask, name="frontier-webhook-name", daemon=True).start()
    try:
        answer = found.get(timeout=deadline.left())
    except queue.Empty:
        raise deadline.passed() from None
    if isinstance(answer, Exception):
        raise answer
    return list(answer)
