"""Many hosts over sockets: ``python -m benchmarks.hosts_site HOSTS PAGES`` prints their port, and serves.

Each host has an address of its own. ``/figures`` of the first says how many connections were made to all of
them, and how often a robots.txt was fetched. A page takes so long that one worker cannot ask all hosts as
often as it may.
"""

from __future__ import annotations

import json
import sys

from twisted.internet import reactor
from twisted.internet.interfaces import IAddress, IProtocol
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from .project.bench.broad import sizes

#: Seconds until a page is answered.
LATENCY = 0.1


def address(host: int) -> str:
    """Return the address of a host, which is its slot."""
    return f"127.0.{1 + host // 250}.{1 + host % 250}"


class _Counts:
    connections = robots = pages = 0


class _Host(Resource):
    """Page k links to pages 2k + 1 and 2k + 2; the first page of the first host to all hosts."""

    isLeaf = True  # noqa: N815 - Twisted's name

    def __init__(self, hosts: list[int], host: int, counts: _Counts) -> None:
        super().__init__()
        self._hosts, self._host, self._counts = hosts, host, counts

    def render_GET(self, request: Request) -> bytes | int:  # noqa: N802 - Twisted's name
        """Return the page, robots.txt or the figures."""
        if request.path == b"/figures":
            return json.dumps(vars(self._counts)).encode()
        if request.path == b"/robots.txt":
            self._counts.robots += 1
            return b"User-agent: *\nAllow: /\n"
        self._counts.pages += 1
        reactor.callLater(LATENCY, self._answer, request)  # type: ignore[attr-defined]
        return NOT_DONE_YET

    def _answer(self, request: Request) -> None:
        port = request.getHost().port
        if request.path == b"/start":
            links = [(host, 0) for host in range(len(self._hosts))]
        else:
            page = int(request.path[1:])
            links = [(self._host, child) for child in (2 * page + 1, 2 * page + 2)]
        request.setHeader(b"Content-Type", b"text/plain")
        found = [f"http://{address(host)}:{port}/{page}" for host, page in links if page < self._hosts[host]]
        request.write(" ".join(found).encode())
        request.finish()


class _CountingSite(Site):
    def __init__(self, resource: Resource, counts: _Counts) -> None:
        super().__init__(resource)
        self._counts = counts

    def buildProtocol(self, addr: IAddress) -> IProtocol | None:  # noqa: N802 - Twisted's name
        """Count a connection."""
        self._counts.connections += 1
        return super().buildProtocol(addr)


def main() -> None:
    """Serve all hosts at one port."""
    hosts = sizes(int(sys.argv[1]), int(sys.argv[2]))
    counts = _Counts()
    port = 0
    for host in range(len(hosts)):
        site = _CountingSite(_Host(hosts, host, counts), counts)
        listening = reactor.listenTCP(port, site, interface=address(host))  # type: ignore[attr-defined]
        port = listening.getHost().port
    print(port, flush=True)
    reactor.run()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
