"""The server of ``scrapy frontier metrics --listen``: each client has a thread, for a limited time."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from ..runtime.deadline import Deadline, TimedSocket

#: Seconds that a client has to send its request and read the response. Prometheus itself waits for ten.
PATIENCE = 10.0
#: Clients, at most.
MOST = 50


def start(app: Callable[..., Iterable[bytes]], host: str, port: int) -> int:
    """Serve *app* in a background thread, and return the port.

    :param port: the port; 0 for any free one.
    :raises OSError: if this address cannot be listened on.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)

    class Server(_Server):
        address_family = found[0][0]

    server = Server((found[0][4][0], port), _Handler)
    server.set_app(app)
    threading.Thread(target=server.serve_forever, name="frontier-metrics", daemon=True).start()
    return int(server.server_port)


class _Server(ThreadingMixIn, WSGIServer):
    """A server with a bound on its clients.

    When there are so many, a new one takes the place of the client that has sent no complete request for the
    longest time. The new client is disconnected if all others have sent their requests.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._lock = threading.Lock()
        self._clients: set[Any] = set()
        self._silent: dict[Any, None] = {}  # in the order in which they came

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Admit a client, or not."""
        with self._lock:
            if len(self._clients) >= MOST:
                if not self._silent:
                    return False
                oldest = next(iter(self._silent))
                self._forget(oldest)
                # Its thread ends, and closes it.
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._clients.add(request)
            self._silent[request] = None
        return True

    def has_request(self, client: Any) -> None:
        """Note that *client* has sent its request."""
        with self._lock:
            self._silent.pop(client, None)

    def shutdown_request(self, request: Any) -> None:
        """Forget a client, and close its connection."""
        with self._lock:
            self._forget(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, unless a client has disconnected or is too slow."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def _forget(self, client: Any) -> None:
        self._clients.discard(client)
        self._silent.pop(client, None)


class _Client(TimedSocket):
    def sendall(self, data: bytes) -> None:
        try:
            super().sendall(data)
        except TimeoutError as error:
            # wsgiref prints the traceback of any other error.
            raise ConnectionAbortedError(str(error)) from None


class _Handler(WSGIRequestHandler):
    server: _Server

    def setup(self) -> None:
        self._client = self.request
        self.request = _Client(self.request, Deadline(PATIENCE))
        super().setup()

    def parse_request(self) -> bool:
        is_valid = super().parse_request()
        self.server.has_request(self._client)
        return is_valid

    def log_message(self, format: str, *args: Any) -> None:
        pass
