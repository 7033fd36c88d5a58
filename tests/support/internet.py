"""An Internet of one's own: an HTTP proxy behind which a local site answers for every host, with TLS."""

from __future__ import annotations

import base64
import ssl
import threading
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler
from typing import Any

import trustme

from .site import listening


@dataclass(frozen=True)
class Asked:
    """A request that came to a site."""

    method: str
    host: str
    path: str
    headers: dict[str, str]
    body: str

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form that was posted."""
        return dict(urllib.parse.parse_qsl(self.body))

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies that were sent."""
        return {name: morsel.value for name, morsel in SimpleCookie(self.headers.get("cookie", "")).items()}


@dataclass(frozen=True)
class Answer:
    """What a site answers."""

    text: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Site = Callable[[Asked], Answer]


class Internet:
    """A proxy at :attr:`url` through which *site* answers all requests.

    :param site: answers a request; it may be called by several threads at a time.
    :param user: the user and the password that the proxy asks for, as ``user:password``.
    """

    def __init__(self, site: Site, user: str = "") -> None:
        self.site = site
        self.user = user
        self.url = ""
        #: How often each URL was asked for.
        self.asked: Counter[str] = Counter()
        #: How many connections the proxy refused, because the password was missing or wrong.
        self.refused = 0
        #: What the site raised.
        self.errors: list[Exception] = []
        self._lock = threading.Lock()

    def answer(self, asked: Asked) -> Answer:
        """Count a request, and have the site answer it."""
        with self._lock:
            self.asked[f"https://{asked.host}{asked.path}"] += 1
        try:
            return self.site(asked)
        except Exception as error:  # the test that is at fault shall say so, not a worker that waits
            self.errors.append(error)
            return Answer(status=500)

    def admits(self, header: str) -> bool:
        """Return whether this ``Proxy-Authorization`` is right; count it if not."""
        right = not self.user or header == f"Basic {base64.b64encode(self.user.encode()).decode()}"
        with self._lock:
            self.refused += not right
        return right


@contextmanager
def internet(site: Site, user: str = "") -> Iterator[Internet]:
    """Open the proxy."""
    inside = Internet(site, user)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("*.example.com").configure_cert(context)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        host = ""

        def do_CONNECT(self) -> None:
            if not inside.admits(self.headers.get("Proxy-Authorization", "")):
                self.send_error(407)
                return
            self.host = self.path.partition(":")[0]
            self.send_response(200)
            self.end_headers()
            self.connection = context.wrap_socket(self.connection, server_side=True)
            self.rfile: Any = self.connection.makefile("rb")
            self.wfile: Any = self.connection.makefile("wb", buffering=0)
            self.close_connection = False

        def finish(self) -> None:
            super().finish()
            self.connection.close()  # the server only knows of the socket without TLS

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = inside.answer(Asked(self.command, self.host, self.path, headers, body))
            data = answer.text.encode()
            self.send_response(answer.status)
            for name, value in {"Content-Type": "text/html; charset=utf-8", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815 - http.server's name

        def log_message(self, *arguments: object) -> None:
            pass

    with listening(Handler) as inside.url:
        yield inside
    if inside.errors:
        raise inside.errors[0]
