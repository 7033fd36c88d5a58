"""Serve the bookshop over HTTP: ``python -m demo.site``.

The pages are rendered once, at the start, so that answering is a look-up and a write: the server
shares two cores with three crawlers and must not be what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import zlib
from collections.abc import Mapping
from http import HTTPStatus

from .shop import Shop

#: The most that a client may send before the blank line that ends a request's headers.
HEADERS_LIMIT = 65536
ROBOTS = "User-agent: *\nAllow: /\n"

Answer = tuple[float, bytes]


def answer(body: str, status: HTTPStatus = HTTPStatus.OK, kind: str = "text/html") -> bytes:
    """Return a whole HTTP response."""
    content = body.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nServer: bookshop\r\n"
        f"Content-Type: {kind}; charset=utf-8\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


NOT_FOUND = answer("<title>Not found</title><h1>Not found</h1>", HTTPStatus.NOT_FOUND)
NOT_ALLOWED = answer("<title>Not allowed</title>", HTTPStatus.METHOD_NOT_ALLOWED)


def answers(shop: Shop, latency: float) -> dict[str, Answer]:
    """Return each path's latency and response.

    A page takes between a half and one and a half of the mean latency, always the same for the
    same page: a site on which every answer takes equally long is not realistic.
    """
    found = {"/robots.txt": (0.0, answer(ROBOTS, kind="text/plain"))}
    for path in shop.paths():
        factor = 0.5 + zlib.crc32(path.encode()) % 1000 / 1000
        found[path] = (latency * factor, answer(shop.render(path)))
    return found


class SiteProtocol(asyncio.Protocol):
    """One connection. It is kept alive, and answers its requests one after the other."""

    def __init__(self, pages: Mapping[str, Answer]) -> None:
        self._pages = pages
        self._received = b""
        self._answering = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > HEADERS_LIMIT and self._transport is not None:
            self._transport.close()
        else:
            self._next()

    def _next(self) -> None:
        end = self._received.find(b"\r\n\r\n")
        if self._answering or end < 0:
            return
        head, self._received = self._received[:end], self._received[end + 4 :]
        line, _, headers = head.decode("latin-1").partition("\r\n")
        method, _, rest = line.partition(" ")
        path, _, version = rest.partition(" ")
        latency, response = self._pages.get(path, (0.0, NOT_FOUND))
        close = version != "HTTP/1.1" or "connection: close" in headers.lower()
        if method == "HEAD":
            response = response[: response.index(b"\r\n\r\n") + 4]
        elif method != "GET":
            # Such a request may have a body, which this server does not read.
            latency, response, close = 0.0, NOT_ALLOWED, True
        self._answering = True
        asyncio.get_running_loop().call_later(latency, self._write, response, close)

    def _write(self, response: bytes, close: bool) -> None:
        self._answering = False
        if self._transport is None:
            return
        self._transport.write(response)
        if close:
            self._transport.close()
        else:
            self._next()


async def serve(pages: Mapping[str, Answer], port: int, while_stdin: bool) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SiteProtocol(pages), "127.0.0.1", port)
    # Whoever started this process reads the line: from here on the site answers.
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    try:
        if while_stdin:
            await loop.run_in_executor(None, sys.stdin.buffer.read)
        else:
            await loop.create_future()
    finally:
        # Not serve_forever() or wait_closed(): they wait for clients that keep a connection open.
        server.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.site", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="by default a free one")
    parser.add_argument("--books", type=int, default=1920, help="how many the shop sells")
    parser.add_argument("--latency", type=float, default=0.05, help="mean, in seconds")
    parser.add_argument(
        "--while-stdin",
        action="store_true",
        help="end with the process at the other end of standard input, however that one ends",
    )
    options = parser.parse_args()
    pages = answers(Shop(options.books), options.latency)
    # Ctrl-C is how one stops a server, not an error to show a traceback of.
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(pages, options.port, options.while_stdin))
    return 0


if __name__ == "__main__":
    sys.exit(main())
