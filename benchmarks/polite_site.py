"""Hosts that record their requests: ``python -m benchmarks.polite_site HOSTS`` prints a port, and serves.

Each host has an address of its own. ``/start`` of the first host links to pages of all hosts. Each host
forbids pages in its robots.txt, redirects one page to the next host, and answers another page with 503 at
first. ``/figures`` returns the requests with their times.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter

from .hosts_site import address

#: Seconds until a page is answered.
LATENCY = 0.05
#: How many requests for allowed pages each host gets in a crawl: a redirect and a 503 count, too.
ALLOWED = 7
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the hosts are addresses of the loopback
ROBOTS = "User-agent: *\nDisallow: /forbidden\n"


class Hosts:
    """What all hosts have in common.

    :param count: how many hosts there are.
    """

    def __init__(self, count: int) -> None:
        self.port = 0
        self._numbers = {address(number): number for number in range(count)}
        self._asked: list[tuple[float, str, str]] = []
        self._times: Counter[tuple[str, str]] = Counter()

    def answer(self, host: str, path: str) -> tuple[str, str]:
        """Return the status line with headers, and the body, of what is at *path* of *host*."""
        if path == "/figures":
            return "200 OK", json.dumps(self._asked)
        self._asked.append((time.monotonic(), host, path))
        self._times[host, path] += 1
        if path == "/robots.txt":
            return "200 OK", ROBOTS
        if path == "/start":
            paths = ("/page/0", "/page/1", "/forbidden/0", "/forbidden/2", "/forbidden/3")
            return "200 OK", " ".join(self._url(number, path) for number in self._all() for path in paths)
        number = self._numbers[host]
        if path == "/page/0":
            paths = ("/page/2", "/moved", "/busy", "/forbidden/1")
            return "200 OK", " ".join(self._url(number, path) for path in paths)
        if path == "/moved":
            return f"302 Found\r\nLocation: {self._url((number + 1) % len(self._numbers), '/landed')}", ""
        if path == "/busy" and self._times[host, path] == 1:
            return "503 Service Unavailable", ""
        return "200 OK", ""

    def _all(self) -> range:
        return range(len(self._numbers))

    def _url(self, number: int, path: str) -> str:
        return f"http://{address(number)}:{self.port}{path}"


class Connection(asyncio.Protocol):
    """Answers requests without a body, one after the other."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._host = transport.get_extra_info("sockname")[0]

    def data_received(self, data: bytes) -> None:  # noqa: D102
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode()
            status, body = self._hosts.answer(self._host, path)
            answer = (
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            )
            asyncio.get_running_loop().call_later(LATENCY, self._send, answer.encode())

    def _send(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


async def serve(count: int) -> None:
    """Serve *count* hosts at one port."""
    hosts = Hosts(count)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(hosts), EVERY_ADDRESS, 0, backlog=1024)
    hosts.port = server.sockets[0].getsockname()[1]
    print(hosts.port, flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve the hosts, before other processes: what they record must not depend on the load."""
    with contextlib.suppress(PermissionError):
        os.nice(-10)
    asyncio.run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
