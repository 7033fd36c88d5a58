"""A local site over sockets: ``python -m benchmarks.site PAGES`` prints its port, and serves.

Each page is some kilobytes of HTML with the links of the site without a network.
"""

from __future__ import annotations

import sys

from twisted.internet import reactor
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from .project.bench.site import links_of

_TEXT = "<p>" + "Some text of an article, as long as a paragraph is. " * 8 + "</p>"


class Page(Resource):
    """Any page of the site."""

    isLeaf = True  # noqa: N815 - Twisted's name

    def __init__(self, pages: int) -> None:
        super().__init__()
        self._pages = pages

    def render_GET(self, request: Request) -> bytes:  # noqa: N802 - Twisted's name
        """Return the page."""
        number = int(request.path.rpartition(b"/")[2])
        items = (f'{_TEXT}<a href="/{link}">Article {link}</a>' for link in links_of(number, self._pages))
        return f"<html><head><title>{number}</title></head><body>{''.join(items)}</body></html>".encode()


if __name__ == "__main__":
    port = reactor.listenTCP(0, Site(Page(int(sys.argv[1]))), interface="127.0.0.1")  # type: ignore[attr-defined]
    print(port.getHost().port, flush=True)
    reactor.run()  # type: ignore[attr-defined]
